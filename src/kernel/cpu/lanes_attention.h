/* lanes_attention.h - one segment of attention on vectors of any width, with the bits of
 * ref_attention.c. Included by avx2_attention.c and avx512_attention.c, which define
 *
 *   LANES, vec             floats in a vector (8 or 16), and its type
 *   SCORE_QUERIES          queries of a tile of scores: SCORE_QUERIES * 16 / LANES chains of FMAs
 *   VALUE_QUERIES, VALUE_VECS   queries times vectors of a tile of outputs
 *   vec_set1, vec_load, vec_store, vec_add, vec_sub, vec_mul, vec_div, vec_fma, vec_max,
 *   vec_exp, vec_tanh
 *   vec_keep(x, key, first, end, other)
 *                          x in lanes with first <= key + lane < end, other elsewhere
 *   vec_max_lane(x), vec_sum16(sums)
 *                          largest lane; scalar_sum16() of 16 / LANES vectors
 *
 *   score[i, j] = scale * (q[i] . k[j]);  p = exp(score - max);  acc[i] = sum_j p[i, j] * v[j]
 *
 * Lanes of q.k run along keys: 16 keys are converted to f32 and transposed into a tile
 * [head_dim][16], once for all queries of the part; then every score is one chain of FMAs over the
 * head's elements. No horizontal sums, and the order of the plain C kernel for free. The transpose
 * costs as many shuffles as one query costs FMAs.
 *
 * Lanes of p.v run along the head's elements: 16 keys of V are converted to f32, and every output
 * element is one chain over keys. A few queries share a pass over the tile for the keys that all of
 * them see; the rest of a query's keys, at the diagonal, follow one by one. Scores beyond a query's
 * range may be computed (the lanes are there anyway) but are never used.
 *
 * Keys are read from the pool in the order of the slot table: head_dim elements in a row. Needs
 * head_dim to be a multiple of 8 and v_head_dim of LANES (ops.def, accepts_heads_by_*). The inlined
 * pieces of a tile take more than seven parameters: as constants they unroll it. */
#ifndef KERNEL_CPU_LANES_ATTENTION_H
#define KERNEL_CPU_LANES_ATTENTION_H

#include <string.h>

enum { TILE_VECS = ATTN_KEY_TILE / LANES };

INLINE __m256 load8(const void *pool, size_t i, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F32) return _mm256_loadu_ps((const float *)pool + i);
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)pool + i));
    if (dtype == RADISH_DTYPE_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

INLINE void transpose8(__m256 r[8]) {
    __m256 t[8], u[8];
    UNROLL for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

/* tile[d][0, 16) = element d of 16 keys; keys outside the part's range are zero. */
INLINE void load_keys(const struct attention_part *p, uint32_t key, enum dtype dtype) {
    for (uint32_t half = 0; half < 16; half += 8) {
        for (uint32_t d = 0; d < p->head_dim; d += 8) {
            __m256 r[8];
            UNROLL for (uint32_t i = 0; i < 8; i++) {
                const uint32_t j = key + half + i;
                const bool is_seen = j >= p->key_min && j < p->n_keys;
                r[i] = is_seen ? load8(p->k_pool, p->slots[j] * p->k_stride + d, dtype)
                               : _mm256_setzero_ps();
            }
            transpose8(r);
            UNROLL for (uint32_t i = 0; i < 8; i++) {
                _mm256_store_ps(p->tile + (d + i) * ATTN_KEY_TILE + half, r[i]);
            }
        }
    }
}

INLINE vec finish_score(const struct attention_part *p, vec dot) {
    const vec score = vec_mul(dot, vec_set1(p->scale));
    if (!(p->soft_cap > 0)) return score;
    const vec cap = vec_set1(p->soft_cap);
    return vec_mul(cap, vec_tanh(vec_div(score, cap)));
}

/* Scores of nq queries from i on against the tile's 16 keys. */
INLINE void score_tile(const struct attention_part *p, uint32_t i, uint32_t key, const int nq) {
    const float *q = p->q + (size_t)i * p->head_dim;
    const size_t head_dim = p->head_dim;
    vec sums[SCORE_QUERIES][TILE_VECS];
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int t = 0; t < TILE_VECS; t++) {
            sums[n][t] = vec_set1(0.0f);
        }
    }
    for (size_t d = 0; d < head_dim; d++) {
        vec keys[TILE_VECS];
        UNROLL for (int t = 0; t < TILE_VECS; t++) {
            keys[t] = vec_load(p->tile + d * ATTN_KEY_TILE + t * LANES);
        }
        UNROLL for (int n = 0; n < nq; n++) {
            const vec value = vec_set1(q[(size_t)n * head_dim + d]);
            UNROLL for (int t = 0; t < TILE_VECS; t++) {
                sums[n][t] = vec_fma(value, keys[t], sums[n][t]);
                SETTLE(sums[n][t]);
            }
        }
    }
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int t = 0; t < TILE_VECS; t++) {
            vec_store(p->scores + (size_t)(i + (uint32_t)n) * ATTENTION_SEGMENT + key + t * LANES,
                      finish_score(p, sums[n][t]));
        }
    }
}

INLINE void score_keys(const struct attention_part *p, enum dtype dtype) {
    for (uint32_t key = p->key_min / 16 * 16; key < p->n_keys; key += ATTN_KEY_TILE) {
        load_keys(p, key, dtype);
        uint32_t i = 0;
        for (; p->n_queries - i >= SCORE_QUERIES; i += SCORE_QUERIES)
            score_tile(p, i, key, SCORE_QUERIES);
        for (; p->n_queries - i >= 3; i += 3) score_tile(p, i, key, 3);
        if (p->n_queries - i == 2) score_tile(p, i, key, 2);
        if (p->n_queries - i == 1) score_tile(p, i, key, 1);
    }
}

/* Scores of a query become weights; max and sum are written. Weights outside the range are zero in
 * the sum, which changes no bit of it, and are not used otherwise. */
static void weigh_keys(const struct attention_part *p, uint32_t i) {
    const uint32_t first = p->key_first[i], end = p->key_end[i], from = first / 16 * 16;
    float *scores = p->scores + (size_t)i * ATTENTION_SEGMENT;
    const vec zero = vec_set1(0.0f), lowest = vec_set1(-INFINITY);
    vec top = lowest, sums[TILE_VECS];
    for (uint32_t j = from; j < end; j += LANES)
        top = vec_max(top, vec_keep(vec_load(scores + j), j, first, end, lowest));
    const float max = vec_max_lane(top);
    const vec maxes = vec_set1(max);
    UNROLL for (int t = 0; t < TILE_VECS; t++) {
        sums[t] = zero;
    }
    for (uint32_t j = from; j < end; j += ATTN_KEY_TILE) {
        UNROLL for (uint32_t t = 0; t < TILE_VECS; t++) {
            const uint32_t at = j + t * LANES;
            const vec e = vec_exp(vec_sub(vec_load(scores + at), maxes));
            const vec weight = vec_keep(e, at, first, end, zero);
            vec_store(scores + at, weight);
            sums[t] = vec_add(sums[t], weight);
        }
    }
    p->max[i] = max;
    p->sum[i] = vec_sum16(sums);
}

/* tile[j][0, v_head_dim) = V of keys [key, key + 16) that the part sees. */
INLINE void load_values(const struct attention_part *p, uint32_t key, enum dtype dtype) {
    for (uint32_t i = 0; i < ATTN_KEY_TILE; i++) {
        const uint32_t j = key + i;
        if (j < p->key_min || j >= p->n_keys) continue;
        float *row = p->tile + (size_t)i * p->v_head_dim;
        for (uint32_t d = 0; d < p->v_head_dim; d += 8)
            _mm256_store_ps(row + d, load8(p->v_pool, p->slots[j] * p->v_stride + d, dtype));
    }
}

/* acc[i .. i + nq)[d, d + nv vectors) += weights of keys [first, end) times the tile at key. */
INLINE void add_values(const struct attention_part *p, uint32_t i, uint32_t key, uint32_t first,
                       uint32_t end, uint32_t d, const int nq, const int nv) {
    vec sums[VALUE_QUERIES][4];
    float *acc = p->acc + (size_t)i * p->v_head_dim + d;
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            sums[n][v] = vec_load(acc + (size_t)n * p->v_head_dim + LANES * v);
        }
    }
    const float *weights = p->scores + (size_t)i * ATTENTION_SEGMENT;
    for (uint32_t j = first; j < end; j++) {
        const float *row = p->tile + (size_t)(j - key) * p->v_head_dim + d;
        UNROLL for (int n = 0; n < nq; n++) {
            const vec weight = vec_set1(weights[(size_t)n * ATTENTION_SEGMENT + j]);
            UNROLL for (int v = 0; v < nv; v++) {
                sums[n][v] = vec_fma(weight, vec_load(row + LANES * v), sums[n][v]);
            }
        }
    }
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            vec_store(acc + (size_t)n * p->v_head_dim + LANES * v, sums[n][v]);
        }
    }
}

INLINE void add_range(const struct attention_part *p, uint32_t i, uint32_t key, uint32_t first,
                      uint32_t end, const int nq) {
    uint32_t d = 0;
    if (first >= end) return;
    if (nq == 1 || VALUE_VECS == 4)
        for (; p->v_head_dim - d >= 4 * LANES; d += 4 * LANES)
            add_values(p, i, key, first, end, d, nq, 4);
    for (; p->v_head_dim - d >= 2 * LANES; d += 2 * LANES)
        add_values(p, i, key, first, end, d, nq, 2);
    for (; d < p->v_head_dim; d += LANES) add_values(p, i, key, first, end, d, nq, 1);
}

static uint32_t clamp(uint32_t x, uint32_t low, uint32_t high) {
    return x < low ? low : x > high ? high : x;
}

/* A few queries: together for the keys that all see, then each for what is left to its right; when
 * their keys do not begin together each goes alone, so that its chain stays in order. */
static void add_queries(const struct attention_part *p, uint32_t i, uint32_t key) {
    const uint32_t tile_end = key + ATTN_KEY_TILE;
    uint32_t first[VALUE_QUERIES], end[VALUE_QUERIES];
    uint32_t first_max = 0, first_min = tile_end, end_min = tile_end, done = key;
    for (uint32_t n = 0; n < VALUE_QUERIES; n++) {
        first[n] = clamp(p->key_first[i + n], key, tile_end);
        end[n] = clamp(p->key_end[i + n], key, tile_end);
        if (first[n] > first_max) first_max = first[n];
        if (first[n] < first_min) first_min = first[n];
        if (end[n] < end_min) end_min = end[n];
    }
    if (first_min == first_max && first_max < end_min) {
        add_range(p, i, key, first_max, end_min, VALUE_QUERIES);
        done = end_min;
    }
    for (uint32_t n = 0; n < VALUE_QUERIES; n++)
        add_range(p, i + n, key, first[n] > done ? first[n] : done, end[n], 1);
}

INLINE void compute_segment(const struct attention_part *p, enum dtype dtype) {
    score_keys(p, dtype);
    for (uint32_t i = 0; i < p->n_queries; i++) weigh_keys(p, i);
    memset(p->acc, 0, (size_t)p->n_queries * p->v_head_dim * sizeof *p->acc);
    for (uint32_t key = p->key_min / 16 * 16; key < p->n_keys; key += ATTN_KEY_TILE) {
        load_values(p, key, dtype);
        uint32_t i = 0;
        for (; p->n_queries - i >= VALUE_QUERIES; i += VALUE_QUERIES) add_queries(p, i, key);
        for (; i < p->n_queries; i++)
            add_range(p, i, key, clamp(p->key_first[i], key, key + ATTN_KEY_TILE),
                      clamp(p->key_end[i], key, key + ATTN_KEY_TILE), 1);
    }
}

#endif
