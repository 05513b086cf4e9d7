/* avx2_attention.c - one segment of attention on 8 lanes: the algorithm is in lanes_attention.h,
 * this file says what a vector is.
 *
 * Scores: 4 queries times 16 keys are 8 chains of FMAs (8 of 16 registers), as many as the latency
 * of an FMA needs. Outputs: 4 queries times 2 vectors, or one query times 4 at the diagonal. */
#include "avx2_exp.h"
#include "avx2_tile.h"

enum { LANES = 8, SCORE_QUERIES = 4, VALUE_QUERIES = 4, VALUE_VECS = 2 };
typedef __m256 vec;

#define vec_set1  _mm256_set1_ps
#define vec_load  _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_add   _mm256_add_ps
#define vec_sub   _mm256_sub_ps
#define vec_mul   _mm256_mul_ps
#define vec_div   _mm256_div_ps
#define vec_fma   _mm256_fmadd_ps
#define vec_max   _mm256_max_ps
#define vec_exp   avx2_exp
#define vec_tanh  avx2_tanh

INLINE vec vec_keep(vec x, uint32_t key, uint32_t first, uint32_t end, vec other) {
    const __m256i lanes =
        _mm256_add_epi32(_mm256_set1_epi32((int)key), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), lanes);
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), lanes);
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(_mm256_andnot_si256(below, inside)));
}

INLINE float vec_max_lane(vec x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

INLINE float vec_sum16(const vec *sums) {
    return avx2_sum16(sums[0], sums[1]);
}

#include "lanes_attention.h"

void f32_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F32);
}

void f16_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F16);
}

void bf16_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_BF16);
}
