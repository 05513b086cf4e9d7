/* avx2_gelu.h - scalar_gelu.h on eight lanes: the same operations in the same order, so the same
 * bits.
 *
 * Included by avx2_*.c only. */
#ifndef KERNEL_CPU_AVX2_GELU_H
#define KERNEL_CPU_AVX2_GELU_H

#include "avx2_exp.h"
#include "scalar_gelu.h"

static inline __m256 avx2_gelu(__m256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    const __m256 z = _mm256_mul_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(GELU_SQRT_HALF));
    const __m256 u = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(GELU_U), one));
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(GELU_C8), u, _mm256_set1_ps(GELU_C7));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C6));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C5));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C4));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C3));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C2));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C1));
    p = _mm256_fmadd_ps(p, u, _mm256_set1_ps(GELU_C0));
    const __m256 e = avx2_exp(_mm256_xor_ps(_mm256_mul_ps(z, z), sign));
    const __m256 tail = _mm256_mul_ps(_mm256_mul_ps(p, u), e);
    const __m256 is_negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    const __m256 part =
        _mm256_blendv_ps(_mm256_sub_ps(_mm256_set1_ps(2.0f), tail), tail, is_negative);
    return _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.5f), x), part);
}

static inline __m256 avx2_gelu_tanh(__m256 x) {
    const __m256 slope = _mm256_fmadd_ps(_mm256_set1_ps(GELU_TANH_B), _mm256_mul_ps(x, x),
                                         _mm256_set1_ps(GELU_TANH_A));
    const __m256 e = avx2_exp(_mm256_mul_ps(x, slope));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

#endif
