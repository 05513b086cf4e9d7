/* avx512_exp.h - scalar_exp.h on sixteen lanes: the same operations in the same order, so the same
 * bits.
 *
 * Included by avx512_*.c only. */
#ifndef KERNEL_CPU_AVX512_EXP_H
#define KERNEL_CPU_AVX512_EXP_H

#include "scalar_exp.h"

#include <immintrin.h>

static inline __m512 avx512_exp(__m512 x) {
    const __mmask16 is_zero = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_LOW), _CMP_LT_OQ);
    /* min returns its second operand when one is no number: NaN stays. */
    x = _mm512_min_ps(_mm512_set1_ps(EXP_HIGH), x);
    const __m512 magic = _mm512_set1_ps(EXP_MAGIC);
    const __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), magic);
    const __m512 n = _mm512_sub_ps(shifted, magic);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_HI), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_LO), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(EXP_C6), r, _mm512_set1_ps(EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C1));
    p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    const __m512i power = _mm512_slli_epi32(
        _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(127)), 23);
    return _mm512_maskz_mul_ps((__mmask16)~is_zero, p, _mm512_castsi512_ps(power));
}

static inline __m512 avx512_tanh(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), size = _mm512_abs_ps(x);
    const __m512 z = _mm512_mul_ps(x, x);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(TANH_C4), z, _mm512_set1_ps(TANH_C3));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C2));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C1));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(TANH_C0));
    const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, z), x, x);
    const __m512 e = avx512_exp(_mm512_add_ps(x, x));
    const __m512 large =
        _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
    const __mmask16 is_small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(TANH_SMALL), _CMP_LT_OQ);
    return _mm512_mask_blend_ps(is_small, large, small);
}

/* scalar_sum16 of the lanes. */
static inline float avx512_sum16(__m512 sums) {
    const __m256 low = _mm512_castps512_ps256(sums);
    const __m256 s8 = _mm256_add_ps(low, _mm512_extractf32x8_ps(sums, 1));
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* Ones for the lanes below n. */
static inline __mmask16 avx512_mask(uint32_t n) {
    return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff);
}

#endif
