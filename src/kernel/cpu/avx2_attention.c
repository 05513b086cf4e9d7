/* avx2_attention.c - one segment of attention on 8 lanes, with the bits of ref_attention.c.
 *
 *   score[i, j] = scale * (q[i] . k[j]);  p = exp(score - max);  acc[i] = sum_j p[i, j] * v[j]
 *
 * Lanes of q.k run along keys: 16 keys are converted to f32 and transposed into a tile
 * [head_dim][16], once for all queries of the part; then every score is one chain of FMAs over the
 * head's elements, and four queries make 8 chains. No horizontal sums, and the order of the plain C
 * kernel for free. The transpose costs as many shuffles as one query costs FMAs.
 *
 * Lanes of p.v run along the head's elements: 16 keys of V are converted to f32, and every output
 * element is one chain over keys. Four queries share a pass over the tile for the keys that all of
 * them see; the rest of a query's keys, at the diagonal, follow one by one. Scores beyond a query's
 * range may be computed (the lanes are there anyway) but are never used.
 *
 * Keys are read from the pool in the order of the slot table: head_dim elements in a row. Needs
 * head_dim and v_head_dim to be multiples of 8 (ops.def, accepts_heads_by_8). */
#include "avx2_exp.h"
#include "avx2_tile.h"

#include <string.h>

enum { QUERIES = 4 };

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
            UNROLL for (uint32_t i = 0; i < 8; i++)
                _mm256_store_ps(p->tile + (d + i) * ATTN_KEY_TILE + half, r[i]);
        }
    }
}

INLINE __m256 finish_score(const struct attention_part *p, __m256 dot) {
    const __m256 score = _mm256_mul_ps(dot, _mm256_set1_ps(p->scale));
    if (!(p->soft_cap > 0)) return score;
    const __m256 cap = _mm256_set1_ps(p->soft_cap);
    return _mm256_mul_ps(cap, avx2_tanh(_mm256_div_ps(score, cap)));
}

/* Scores of nq queries from i on against the tile's 16 keys. */
INLINE void score_tile(const struct attention_part *p, uint32_t i, uint32_t key, const int nq) {
    const float *q = p->q + (size_t)i * p->head_dim;
    const size_t head_dim = p->head_dim;
    __m256 low[QUERIES], high[QUERIES];
    UNROLL for (int n = 0; n < nq; n++) low[n] = high[n] = _mm256_setzero_ps();
    for (size_t d = 0; d < head_dim; d++) {
        const __m256 k_low = _mm256_load_ps(p->tile + d * ATTN_KEY_TILE);
        const __m256 k_high = _mm256_load_ps(p->tile + d * ATTN_KEY_TILE + 8);
        UNROLL for (int n = 0; n < nq; n++) {
            const __m256 value = _mm256_broadcast_ss(q + (size_t)n * head_dim + d);
            low[n] = _mm256_fmadd_ps(value, k_low, low[n]);
            high[n] = _mm256_fmadd_ps(value, k_high, high[n]);
            SETTLE(low[n], high[n]);
        }
    }
    UNROLL for (int n = 0; n < nq; n++) {
        float *scores = p->scores + (size_t)(i + (uint32_t)n) * ATTENTION_SEGMENT + key;
        _mm256_storeu_ps(scores, finish_score(p, low[n]));
        _mm256_storeu_ps(scores + 8, finish_score(p, high[n]));
    }
}

INLINE void score_keys(const struct attention_part *p, enum dtype dtype) {
    for (uint32_t key = p->key_min / 16 * 16; key < p->n_keys; key += ATTN_KEY_TILE) {
        load_keys(p, key, dtype);
        uint32_t i = 0;
        for (; p->n_queries - i >= QUERIES; i += QUERIES) score_tile(p, i, key, QUERIES);
        switch (p->n_queries - i) {
        case 1: score_tile(p, i, key, 1); break;
        case 2: score_tile(p, i, key, 2); break;
        case 3: score_tile(p, i, key, 3); break;
        default: break;
        }
    }
}

/* Ones where first <= key + lane < end. */
INLINE __m256 range_mask(uint32_t key, uint32_t first, uint32_t end) {
    const __m256i lanes =
        _mm256_add_epi32(_mm256_set1_epi32((int)key), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), lanes);
    const __m256i inside = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), lanes);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, inside));
}

/* Scores of a query become weights; max and sum are written. Weights outside the range are zero in
 * the sum, which changes no bit of it, and are not used otherwise. */
static void weigh_keys(const struct attention_part *p, uint32_t i) {
    const uint32_t first = p->key_first[i], end = p->key_end[i];
    float *scores = p->scores + (size_t)i * ATTENTION_SEGMENT;
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 top = lowest;
    for (uint32_t j = first / 8 * 8; j < end; j += 8) {
        const __m256 s = _mm256_loadu_ps(scores + j);
        top = _mm256_max_ps(top, _mm256_blendv_ps(lowest, s, range_mask(j, first, end)));
    }
    float tops[8];
    _mm256_storeu_ps(tops, top);
    float max = tops[0];
    for (int lane = 1; lane < 8; lane++) max = tops[lane] > max ? tops[lane] : max;
    const __m256 maxes = _mm256_set1_ps(max);
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t j = first / 8 * 8; j < end; j += 8) {
        const __m256 e = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(scores + j), maxes));
        const __m256 weight = _mm256_and_ps(e, range_mask(j, first, end));
        _mm256_storeu_ps(scores + j, weight);
        sums[j / 8 % 2] = _mm256_add_ps(sums[j / 8 % 2], weight);
    }
    p->max[i] = max;
    p->sum[i] = avx2_sum16(sums[0], sums[1]);
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

/* acc[i .. i + nq)[d, d + 8 nv) += weights of keys [first, end) times the tile at key. */
INLINE void add_values(const struct attention_part *p, uint32_t i, uint32_t key, uint32_t first,
                       uint32_t end, uint32_t d, const int nq, const int nv) {
    __m256 sums[QUERIES][QUERIES];
    float *acc = p->acc + (size_t)i * p->v_head_dim + d;
    UNROLL for (int n = 0; n < nq; n++) UNROLL for (int v = 0; v < nv; v++) sums[n][v] =
        _mm256_loadu_ps(acc + (size_t)n * p->v_head_dim + 8 * v);
    const float *weights = p->scores + (size_t)i * ATTENTION_SEGMENT;
    for (uint32_t j = first; j < end; j++) {
        const float *row = p->tile + (size_t)(j - key) * p->v_head_dim + d;
        UNROLL for (int n = 0; n < nq; n++) {
            const __m256 weight = _mm256_broadcast_ss(weights + n * ATTENTION_SEGMENT + j);
            UNROLL for (int v = 0; v < nv; v++) sums[n][v] =
                _mm256_fmadd_ps(weight, _mm256_load_ps(row + 8 * v), sums[n][v]);
        }
    }
    UNROLL for (int n = 0; n < nq; n++) UNROLL for (int v = 0; v < nv; v++)
        _mm256_storeu_ps(acc + (size_t)n * p->v_head_dim + 8 * v, sums[n][v]);
}

INLINE void add_range(const struct attention_part *p, uint32_t i, uint32_t key, uint32_t first,
                      uint32_t end, const int nq) {
    uint32_t d = 0;
    if (first >= end) return;
    if (nq == 1)
        for (; p->v_head_dim - d >= 32; d += 32) add_values(p, i, key, first, end, d, nq, 4);
    for (; p->v_head_dim - d >= 16; d += 16) add_values(p, i, key, first, end, d, nq, 2);
    for (; d < p->v_head_dim; d += 8) add_values(p, i, key, first, end, d, nq, 1);
}

static uint32_t clamp(uint32_t x, uint32_t low, uint32_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Queries [i, i + 4): together for the keys that all see, then each for what is left to its right;
 * a query whose keys begin later than another's goes alone, so that its chain stays in order. */
static void add_four(const struct attention_part *p, uint32_t i, uint32_t key) {
    const uint32_t tile_end = key + ATTN_KEY_TILE;
    uint32_t first[QUERIES], end[QUERIES], first_max = 0, first_min = tile_end, end_min = tile_end;
    for (uint32_t n = 0; n < QUERIES; n++) {
        first[n] = clamp(p->key_first[i + n], key, tile_end);
        end[n] = clamp(p->key_end[i + n], key, tile_end);
        if (first[n] > first_max) first_max = first[n];
        if (first[n] < first_min) first_min = first[n];
        if (end[n] < end_min) end_min = end[n];
    }
    uint32_t done = key;
    if (first_min == first_max && first_max < end_min) {
        add_range(p, i, key, first_max, end_min, QUERIES);
        done = end_min;
    }
    for (uint32_t n = 0; n < QUERIES; n++)
        add_range(p, i + n, key, first[n] > done ? first[n] : done, end[n], 1);
}

INLINE void compute_segment(const struct attention_part *p, enum dtype dtype) {
    score_keys(p, dtype);
    for (uint32_t i = 0; i < p->n_queries; i++) weigh_keys(p, i);
    memset(p->acc, 0, (size_t)p->n_queries * p->v_head_dim * sizeof *p->acc);
    for (uint32_t key = p->key_min / 16 * 16; key < p->n_keys; key += ATTN_KEY_TILE) {
        load_values(p, key, dtype);
        uint32_t i = 0;
        for (; p->n_queries - i >= QUERIES; i += QUERIES) add_four(p, i, key);
        for (; i < p->n_queries; i++)
            add_range(p, i, key, clamp(p->key_first[i], key, key + ATTN_KEY_TILE),
                      clamp(p->key_end[i], key, key + ATTN_KEY_TILE), 1);
    }
}

void f32_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F32);
}

void f16_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F16);
}

void bf16_f32_attention__avx2(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_BF16);
}
