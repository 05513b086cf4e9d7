/* avx512_attention.c - one segment of attention on 16 lanes: the algorithm is in lanes_attention.h,
 * this file says what a vector is.
 *
 * Scores: 8 queries times 16 keys are 8 chains of FMAs. Outputs: 4 queries times 4 vectors. The
 * transpose of keys stays on 8 lanes: it is a small part of the work. Needs v_head_dim to be a
 * multiple of 16. */
#include "avx512_exp.h"
#include "avx512_tile.h"

enum { LANES = 16, SCORE_QUERIES = 8, VALUE_QUERIES = 4, VALUE_VECS = 4 };
typedef __m512 vec;

#define vec_set1     _mm512_set1_ps
#define vec_load     _mm512_loadu_ps
#define vec_store    _mm512_storeu_ps
#define vec_add      _mm512_add_ps
#define vec_sub      _mm512_sub_ps
#define vec_mul      _mm512_mul_ps
#define vec_div      _mm512_div_ps
#define vec_fma      _mm512_fmadd_ps
#define vec_max      _mm512_max_ps
#define vec_exp      avx512_exp
#define vec_tanh     avx512_tanh
#define vec_max_lane _mm512_reduce_max_ps

INLINE vec vec_keep(vec x, uint32_t key, uint32_t first, uint32_t end, vec other) {
    const __m512i lanes =
        _mm512_add_epi32(_mm512_set1_epi32((int)key),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __mmask16 inside = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32((int)end), lanes);
    const __mmask16 from = _mm512_cmple_epi32_mask(_mm512_set1_epi32((int)first), lanes);
    return _mm512_mask_blend_ps((__mmask16)(inside & from), other, x);
}

INLINE float vec_sum16(const vec *sums) {
    const __m256 low = _mm512_castps512_ps256(sums[0]);
    const __m256 s8 = _mm256_add_ps(low, _mm512_extractf32x8_ps(sums[0], 1));
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

#include "lanes_attention.h"

void f32_f32_attention__avx512(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F32);
}

void f16_f32_attention__avx512(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F16);
}

void bf16_f32_attention__avx512(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_BF16);
}
