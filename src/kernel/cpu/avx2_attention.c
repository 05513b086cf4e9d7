/* avx2_attention.c - one segment of attention on 8 lanes: the algorithm is in lanes_attention.h,
 * this file says what a vector is.
 *
 * Scores: 6 queries times 2 vectors of keys are 12 chains of FMAs; outputs likewise. Few queries
 * (a decode step) take 4 vectors each. A transpose reads 16 bytes of 8 keys: two keys side by side
 * in a vector, so that all its shuffles stay within halves. */
#include "avx2_tile.h"
#include "avx2_vec.h"

enum { WIDE_VECS = 2 };

INLINE vec vec_load_as(const char *row, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F32) return _mm256_loadu_ps((const float *)(const void *)row);
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)row);
    if (dtype == RADISH_DTYPE_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* 16 bytes of keys i and i + 4. */
INLINE __m256i load_chunks(const char *const *rows, size_t at) {
    const __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at));
    const __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(rows[4] + at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* Halves of two elements of 8 keys -> floats: [k0-3 d | k0-3 e | k4-7 d | k4-7 e]. */
INLINE void spread_f16(__m256i x, vec *out) {
    const __m256i sorted = _mm256_permute4x64_epi64(x, 0xd8);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(sorted));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1));
}

INLINE void vec_transpose(const char *const *rows, size_t at, enum dtype dtype, vec *out) {
    __m256i r[4], t[4], u[4];
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = load_chunks(rows + i, at);
    }
    if (dtype == RADISH_DTYPE_F16) {
        t[0] = _mm256_unpacklo_epi16(r[0], r[1]);
        t[1] = _mm256_unpackhi_epi16(r[0], r[1]);
        t[2] = _mm256_unpacklo_epi16(r[2], r[3]);
        t[3] = _mm256_unpackhi_epi16(r[2], r[3]);
        spread_f16(_mm256_unpacklo_epi32(t[0], t[2]), out);
        spread_f16(_mm256_unpackhi_epi32(t[0], t[2]), out + 2);
        spread_f16(_mm256_unpacklo_epi32(t[1], t[3]), out + 4);
        spread_f16(_mm256_unpackhi_epi32(t[1], t[3]), out + 6);
        return;
    }
    t[0] = _mm256_unpacklo_epi32(r[0], r[1]);
    t[1] = _mm256_unpackhi_epi32(r[0], r[1]);
    t[2] = _mm256_unpacklo_epi32(r[2], r[3]);
    t[3] = _mm256_unpackhi_epi32(r[2], r[3]);
    u[0] = _mm256_unpacklo_epi64(t[0], t[2]);
    u[1] = _mm256_unpackhi_epi64(t[0], t[2]);
    u[2] = _mm256_unpacklo_epi64(t[1], t[3]);
    u[3] = _mm256_unpackhi_epi64(t[1], t[3]);
    UNROLL for (int i = 0; i < 4; i++) {
        if (dtype == RADISH_DTYPE_F32) {
            out[i] = _mm256_castsi256_ps(u[i]);
        } else {
            const __m256i odd = _mm256_and_si256(u[i], _mm256_set1_epi32((int)0xffff0000u));
            out[2 * i] = _mm256_castsi256_ps(_mm256_slli_epi32(u[i], 16));
            out[2 * i + 1] = _mm256_castsi256_ps(odd);
        }
    }
}

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
