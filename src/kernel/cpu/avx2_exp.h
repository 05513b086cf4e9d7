/* avx2_exp.h - scalar_exp.h on eight lanes: the same operations in the same order, so the same
 * bits.
 *
 * Included by avx2_*.c only. */
#ifndef KERNEL_CPU_AVX2_EXP_H
#define KERNEL_CPU_AVX2_EXP_H

#include "scalar_exp.h"

#include <immintrin.h>

static inline __m256 avx2_exp(__m256 x) {
    const __m256 is_zero = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOW), _CMP_LT_OQ);
    /* min and max return their second operand when one is no number: NaN stays. */
    x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGH), x);
    const __m256 magic = _mm256_set1_ps(EXP_MAGIC);
    const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), magic);
    const __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HI), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LO), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r, _mm256_set1_ps(EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C1));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    const __m256i power = _mm256_slli_epi32(
        _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(is_zero, _mm256_mul_ps(p, _mm256_castsi256_ps(power)));
}

static inline __m256 avx2_tanh(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    const __m256 z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(TANH_C4), z, _mm256_set1_ps(TANH_C3));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C2));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C1));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C0));
    const __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
    const __m256 e = avx2_exp(_mm256_add_ps(x, x));
    const __m256 large =
        _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
    const __m256 is_small = _mm256_cmp_ps(size, _mm256_set1_ps(TANH_SMALL), _CMP_LT_OQ);
    return _mm256_blendv_ps(large, small, is_small);
}

/* scalar_sum16 of lanes 0-7 in low and 8-15 in high. */
static inline float avx2_sum16(__m256 low, __m256 high) {
    const __m256 s8 = _mm256_add_ps(low, high);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* Ones in the lanes below n. */
static inline __m256i avx2_mask(uint32_t n) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 8 ? n : 8)), lanes);
}

#endif
