/* avx512_attention.c - one segment of attention on 16 lanes: the algorithm is in lanes_attention.h,
 * this file says what a vector is.
 *
 * Scores: 6 queries times 4 vectors of keys are 24 chains of FMAs in 32 registers; outputs
 * likewise. A transpose reads 16 bytes of 16 keys: four keys side by side in a vector, so that all
 * its shuffles stay within quarters, and the loads do the rest. Needs v_head_dim to be a multiple
 * of 16. */
#include "avx512_tile.h"
#include "avx512_vec.h"

enum { WIDE_VECS = 4 };

#define vec_max_lane _mm512_reduce_max_ps

INLINE vec vec_load_as(const char *row, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F32) return _mm512_loadu_ps(row);
    const __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)row);
    if (dtype == RADISH_DTYPE_F16) return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

INLINE __m128i load_chunk(const char *row, size_t at) {
    return _mm_loadu_si128((const __m128i *)(const void *)(row + at));
}

/* 16 bytes of keys i, i + 4, i + 8 and i + 12. */
INLINE __m512i load_chunks(const char *const *rows, size_t at) {
    __m512i x = _mm512_castsi128_si512(load_chunk(rows[0], at));
    x = _mm512_inserti32x4(x, load_chunk(rows[4], at), 1);
    x = _mm512_inserti32x4(x, load_chunk(rows[8], at), 2);
    return _mm512_inserti32x4(x, load_chunk(rows[12], at), 3);
}

/* Halves of two elements of 16 keys -> floats: [k0-3 d | k0-3 e | k4-7 d | k4-7 e | ...]. */
INLINE void spread_f16(__m512i x, vec *out) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i sorted = _mm512_permutexvar_epi64(order, x);
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(sorted));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(sorted, 1));
}

INLINE void vec_transpose(const char *const *rows, size_t at, enum dtype dtype, vec *out) {
    __m512i r[4], t[4], u[4];
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = load_chunks(rows + i, at);
    }
    if (dtype == RADISH_DTYPE_F16) {
        t[0] = _mm512_unpacklo_epi16(r[0], r[1]);
        t[1] = _mm512_unpackhi_epi16(r[0], r[1]);
        t[2] = _mm512_unpacklo_epi16(r[2], r[3]);
        t[3] = _mm512_unpackhi_epi16(r[2], r[3]);
        spread_f16(_mm512_unpacklo_epi32(t[0], t[2]), out);
        spread_f16(_mm512_unpackhi_epi32(t[0], t[2]), out + 2);
        spread_f16(_mm512_unpacklo_epi32(t[1], t[3]), out + 4);
        spread_f16(_mm512_unpackhi_epi32(t[1], t[3]), out + 6);
        return;
    }
    t[0] = _mm512_unpacklo_epi32(r[0], r[1]);
    t[1] = _mm512_unpackhi_epi32(r[0], r[1]);
    t[2] = _mm512_unpacklo_epi32(r[2], r[3]);
    t[3] = _mm512_unpackhi_epi32(r[2], r[3]);
    u[0] = _mm512_unpacklo_epi64(t[0], t[2]);
    u[1] = _mm512_unpackhi_epi64(t[0], t[2]);
    u[2] = _mm512_unpacklo_epi64(t[1], t[3]);
    u[3] = _mm512_unpackhi_epi64(t[1], t[3]);
    UNROLL for (int i = 0; i < 4; i++) {
        if (dtype == RADISH_DTYPE_F32) {
            out[i] = _mm512_castsi512_ps(u[i]);
        } else {
            const __m512i odd = _mm512_and_si512(u[i], _mm512_set1_epi32((int)0xffff0000u));
            out[2 * i] = _mm512_castsi512_ps(_mm512_slli_epi32(u[i], 16));
            out[2 * i + 1] = _mm512_castsi512_ps(odd);
        }
    }
}

INLINE vec vec_keep(vec x, uint32_t key, uint32_t first, uint32_t end, vec other) {
    const __m512i lanes =
        _mm512_add_epi32(_mm512_set1_epi32((int)key),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __mmask16 inside = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32((int)end), lanes);
    const __mmask16 from = _mm512_cmple_epi32_mask(_mm512_set1_epi32((int)first), lanes);
    return _mm512_mask_blend_ps((__mmask16)(inside & from), other, x);
}

INLINE float vec_sum16(const vec *sums) {
    return avx512_sum16(sums[0]);
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
