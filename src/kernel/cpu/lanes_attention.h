/* lanes_attention.h - one segment of attention on vectors of any width, with the bits of
 * ref_attention.c. Included by the *_attention.c of an instruction set, which defines
 *
 *   LANES, vec             floats in a vector, and its type
 *   WIDE_VECS              vectors of a register tile of 6 queries (6 * WIDE_VECS sums), 2 or 4
 *   vec_set1, vec_load, vec_store, vec_add, vec_sub, vec_mul, vec_div, vec_fma, vec_max,
 *   vec_exp, vec_tanh
 *   vec_keep(x, key, first, end, other)
 *                          x in lanes with first <= key + lane < end, other elsewhere
 *   vec_max_lane(x), vec_sum16(sums)
 *                          largest lane; scalar_sum16() of 16 / LANES vectors
 *   vec_load_as(row, dtype)
 *                          LANES elements of a pool row as floats
 *   vec_transpose(rows, at, dtype, out)
 *                          16 bytes of LANES rows from byte `at` on, as floats: out[n][lane] =
 *                          element n of row `lane` (4 elements for f32, else 8)
 *
 *   score[i, j] = scale * (q[i] . k[j]);  p = exp(score - max);  acc[i] = sum_j p[i, j] * v[j]
 *
 * Keys are walked in blocks, block by block, within a block span by span, within a span KV head by
 * KV head, once for K and, when the weights are known, once for V. While a block of a span is
 * computed, the next one is fetched into the second-level cache, slot after slot with all its
 * heads: the order in which they lie in memory, where the slot table lets them. (Without, decoding
 * ran at half the speed; with each head fetching its own rows, at three quarters. 2026-11-29)
 * While the last values are added up, the first keys of what the worker probably does next are
 * fetched: answers that are a block or two long would otherwise wait for every first key.
 *
 *               keys 0 .. 31 | 32 .. 63
 *   span 0      heads 0 1 2  | heads 0 1 2    1st, 3rd
 *   span 1      heads 0 1 2  | heads 0 1 2    2nd, 4th
 *
 * Lanes of q.k run along keys: a tile of 4 vectors of keys is converted to f32 and transposed, once
 * for all queries of the span; then every score is one chain of FMAs over the head's elements. No
 * horizontal sums, and the order of the plain C kernel for free.
 *
 * Lanes of p.v run along the head's elements, and every output element is one chain over keys. Many
 * queries share a panel of V, converted to f32 once; few (a decode step) convert as they go, which
 * saves the detour. Six queries go together over the keys that all of them see; what one sees alone
 * at either end (the diagonal, the edge of a window) comes before and after. Scores beyond a
 * query's range may be computed (the lanes are there anyway) but are never used.
 *
 * Needs head_dim to be a multiple of 8 and v_head_dim of LANES (ops.def, accepts_heads_by_*). The
 * inlined pieces of a tile take more than seven parameters: as constants they unroll it. Longer
 * than a header should be, because it is the body of several .c files. */
#ifndef KERNEL_CPU_LANES_ATTENTION_H
#define KERNEL_CPU_LANES_ATTENTION_H

#include <string.h>

enum {
    TILE_VECS = 4,
    KEY_TILE = TILE_VECS * LANES,
    GROUP_QUERIES = 6, /* most of a register tile */
    FEW_QUERIES = 3    /* of one TILE_VECS wide; V is not converted into panels for them */
};

/* Where a walk over (block, span) is, and the rows of its keys, at the part's first KV head. */
struct walk {
    const struct attention_span *span; /* NULL at the end */
    uint32_t block, n_keys;
    uint32_t row_first, row_end; /* those of the span; the other rows repeat one of them */
    const char *rows[ATTN_BLOCK];
};

/* Rows that are being fetched, a line at a time. */
struct fetch {
    const char *const *rows;
    uint32_t row, row_end;
    size_t at, row_bytes;
};

static uint32_t clamp(uint32_t x, uint32_t low, uint32_t high) {
    return x < low ? low : x > high ? high : x;
}

static uint32_t head_queries(const struct attention_part *p) {
    return p->n_queries / p->n_kv_heads;
}

/* Few queries go through K and V as they come from memory, in small blocks; for many, blocks are
 * as large as the caches take. */
static uint32_t block_keys(const struct attention_part *p) {
    return head_queries(p) <= FEW_QUERIES ? KEY_TILE : ATTN_BLOCK;
}

/* The first block and span from (block, index) on that holds keys. */
static void find_block(const struct attention_part *p, uint32_t block, uint32_t index, bool is_v,
                       struct walk *w) {
    const uint32_t n = block_keys(p);
    const size_t elem = dtype_block_bytes(p->kv_dtype);
    const size_t stride = (is_v ? p->v_stride : p->k_stride) * elem;
    const char *pool = is_v ? p->v_pool : p->k_pool;
    w->row_first = w->row_end = 0;
    for (w->span = NULL; block < ATTENTION_SEGMENT; block += n, index = 0) {
        for (; index < p->n_spans; index++) {
            const struct attention_span *s = &p->spans[index];
            if (s->key_first >= block + n || s->key_end <= block) continue;
            /* Keys outside the span are read as one inside: what comes of it is not used. */
            const uint32_t inside = s->key_first > block ? s->key_first : block;
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t j = block + i;
                const bool is_inside = j >= s->key_first && j < s->key_end;
                w->rows[i] = pool + s->slots[is_inside ? j : inside] * stride;
            }
            w->span = s;
            w->block = block;
            w->n_keys = n;
            w->row_first = inside - block;
            w->row_end = clamp(s->key_end - block, 0, n);
            return;
        }
    }
}

static void find_next(const struct attention_part *p, const struct walk *now, bool is_v,
                      struct walk *w) {
    find_block(p, now->block, (uint32_t)(now->span - p->spans) + 1, is_v, w);
}

/* The first keys of what the worker probably does next, to be fetched. */
static void guess_next(const struct attention_part *p, struct walk *w) {
    const size_t stride = p->k_stride * dtype_block_bytes(p->kv_dtype);
    const uint32_t n = clamp(p->n_next_keys, 0, block_keys(p));
    w->row_end = n;
    for (uint32_t i = 0; i < n; i++)
        w->rows[i] = (const char *)p->next_k_pool + p->next_slots[i] * stride;
}

/* The share of a KV head in fetching the next block: some of its slots, all heads of each. */
static struct fetch begin_fetch(const struct attention_part *p, const struct walk *next,
                                uint32_t head, uint32_t head_dim) {
    const size_t elem = dtype_block_bytes(p->kv_dtype);
    const uint32_t n_rows = next->row_end - next->row_first;
    return (struct fetch){.rows = next->rows,
                          .row_bytes = p->n_kv_heads * head_dim * elem,
                          .row = next->row_first + n_rows * head / p->n_kv_heads,
                          .row_end = next->row_first + n_rows * (head + 1) / p->n_kv_heads};
}

INLINE void fetch_lines(struct fetch *f, uint32_t n) {
    for (uint32_t i = 0; i < n && f->row < f->row_end; i++) {
        __builtin_prefetch(f->rows[f->row] + f->at, 0, 2);
        f->at += 64;
        if (f->at < f->row_bytes) continue;
        f->at = 0;
        f->row++;
    }
}

/* ---- scores ---- */

/* tile[d][0, n) = element d of n keys, from byte `at` of their rows on; n: whole 16s. */
INLINE void load_keys(const struct attention_part *p, const char *const *rows, uint32_t n_keys,
                      size_t at, struct fetch *ahead, enum dtype dtype) {
    const uint32_t elem = dtype == RADISH_DTYPE_F32 ? 4 : 2, step = 16 / elem;
    for (uint32_t v = 0; v < n_keys; v += LANES) {
        float *tile = p->tile + v;
        for (uint32_t d = 0; d < p->head_dim; d += step) {
            vec out[8];
            vec_transpose(rows + v, at + (size_t)d * elem, dtype, out);
            UNROLL for (uint32_t n = 0; n < step; n++) {
                vec_store(tile + (size_t)n * KEY_TILE, out[n]);
            }
            tile += (size_t)step * KEY_TILE;
            fetch_lines(ahead, LANES / 4);
        }
    }
}

INLINE vec finish_score(const struct attention_part *p, vec dot) {
    const vec score = vec_mul(dot, vec_set1(p->scale));
    if (!(p->soft_cap > 0)) return score;
    const vec cap = vec_set1(p->soft_cap);
    return vec_mul(cap, vec_tanh(vec_div(score, cap)));
}

/* Scores of nq queries from i on against nv vectors of the tile's keys, from vector `first` on. */
INLINE void score_tile(const struct attention_part *p, uint32_t i, uint32_t key, int first,
                       const int nq, const int nv) {
    const size_t head_dim = p->head_dim;
    const float *q = p->q + i * head_dim, *tile = p->tile + first * LANES;
    vec sums[GROUP_QUERIES][TILE_VECS];
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            sums[n][v] = vec_set1(0.0f);
        }
    }
    for (size_t d = 0; d < head_dim; d++, tile += KEY_TILE) {
        vec keys[TILE_VECS];
        UNROLL for (int v = 0; v < nv; v++) {
            keys[v] = vec_load(tile + v * LANES);
        }
        UNROLL for (int n = 0; n < nq; n++) {
            const vec value = vec_set1(q[(size_t)n * head_dim + d]);
            UNROLL for (int v = 0; v < nv; v++) {
                sums[n][v] = vec_fma(value, keys[v], sums[n][v]);
                SETTLE(sums[n][v]);
            }
        }
    }
    float *scores = p->scores + (size_t)i * ATTN_SCORE_STRIDE + key + first * LANES;
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            vec_store(scores + (size_t)n * ATTN_SCORE_STRIDE + v * LANES,
                      finish_score(p, sums[n][v]));
        }
    }
}

INLINE void score_group(const struct attention_part *p, uint32_t i, uint32_t key, const int nq) {
    const int width = nq <= FEW_QUERIES ? TILE_VECS : WIDE_VECS;
    for (int v = 0; v < TILE_VECS; v += width) score_tile(p, i, key, v, nq, width);
}

/* Queries [i, end) against the tile's keys. */
static void score_queries(const struct attention_part *p, uint32_t i, uint32_t end, uint32_t key) {
    for (; end - i >= GROUP_QUERIES; i += GROUP_QUERIES) score_group(p, i, key, GROUP_QUERIES);
    switch (end - i) {
    case 5: score_group(p, i, key, 5); break;
    case 4: score_group(p, i, key, 4); break;
    case 3: score_group(p, i, key, 3); break;
    case 2: score_group(p, i, key, 2); break;
    case 1: score_group(p, i, key, 1); break;
    default: break;
    }
}

/* A block of a span, head by head. */
INLINE void score_block(const struct attention_part *p, const struct walk *now,
                        const struct walk *next, uint32_t next_dim, enum dtype dtype) {
    const struct attention_span *s = now->span;
    const size_t head_bytes = p->head_dim * dtype_block_bytes(p->kv_dtype);
    for (uint32_t head = 0; head < p->n_kv_heads; head++) {
        const uint32_t first = head * head_queries(p) + s->query_first;
        struct fetch ahead = begin_fetch(p, next, head, next_dim);
        for (uint32_t at = 0; at < now->n_keys; at += KEY_TILE) {
            const uint32_t key = now->block + at;
            if (key >= s->key_end || key + KEY_TILE <= s->key_first) continue;
            /* Scores of keys behind the span's come of what the tile held before. */
            const uint32_t n_keys = clamp((s->key_end - key + 15) / 16 * 16, 16, KEY_TILE);
            load_keys(p, now->rows + at, n_keys, head * head_bytes, &ahead, dtype);
            score_queries(p, first, first + s->n_queries, key);
        }
        fetch_lines(&ahead, UINT32_MAX);
    }
}

INLINE void score_keys(const struct attention_part *p, enum dtype dtype) {
    struct walk walks[2];
    find_block(p, 0, 0, /*is_v=*/false, &walks[0]);
    for (uint32_t n = 0; walks[n].span; n ^= 1) {
        struct walk *next = &walks[n ^ 1];
        find_next(p, &walks[n], /*is_v=*/false, next);
        const bool is_last = !next->span;
        if (is_last) find_block(p, 0, 0, /*is_v=*/true, next);
        score_block(p, &walks[n], next, is_last ? p->v_head_dim : p->head_dim, dtype);
        if (is_last) return;
    }
}

/* ---- weights ---- */

/* Scores of 16 keys from j on become weights; those outside the query's range become zero in the
 * sums, which changes no bit of them, and are not used otherwise. */
INLINE void weigh_16(const struct attention_part *p, uint32_t i, uint32_t j, vec max, vec *sums,
                     const bool is_edge) {
    float *scores = p->scores + (size_t)i * ATTN_SCORE_STRIDE + j;
    UNROLL for (uint32_t v = 0; v < 16 / LANES; v++) {
        vec weight = vec_exp(vec_sub(vec_load(scores + v * LANES), max));
        if (is_edge)
            weight = vec_keep(weight, j + v * LANES, p->key_first[i], p->key_end[i], vec_set1(0));
        vec_store(scores + v * LANES, weight);
        sums[v] = vec_add(sums[v], weight);
    }
}

static float find_max(const struct attention_part *p, uint32_t i) {
    const uint32_t first = p->key_first[i], end = p->key_end[i];
    const float *scores = p->scores + (size_t)i * ATTN_SCORE_STRIDE;
    const vec lowest = vec_set1(-INFINITY);
    vec top = lowest;
    for (uint32_t j = first / LANES * LANES; j < end; j += LANES) {
        vec x = vec_load(scores + j);
        if (j < first || j + LANES > end) x = vec_keep(x, j, first, end, lowest);
        top = vec_max(top, x);
    }
    return vec_max_lane(top);
}

static void weigh_keys(const struct attention_part *p, uint32_t i) {
    const uint32_t first = p->key_first[i], end = p->key_end[i];
    const float max = find_max(p, i);
    const vec maxes = vec_set1(max);
    vec sums[16 / LANES];
    UNROLL for (int v = 0; v < 16 / LANES; v++) {
        sums[v] = vec_set1(0.0f);
    }
    for (uint32_t j = first / 16 * 16; j < end; j += 16) {
        if (j < first || j + 16 > end)
            weigh_16(p, i, j, maxes, sums, /*is_edge=*/true);
        else
            weigh_16(p, i, j, maxes, sums, /*is_edge=*/false);
    }
    p->max[i] = max;
    p->sum[i] = vec_sum16(sums);
}

/* ---- outputs ---- */

/* The values of a block's keys: elements [d, d + some) of each, `at` bytes into its row; `ahead` is
 * what to fetch meanwhile, or NULL. */
struct values {
    const char *const *rows;
    struct fetch *ahead;
    uint32_t block, n_keys, d;
    size_t at;
};

/* acc[i .. i + nq)[d, d + nv vectors) += weights of keys [first, end) times their values. */
INLINE void add_values(const struct attention_part *p, const struct values *x, uint32_t i,
                       uint32_t first, uint32_t end, enum dtype dtype, const int nq, const int nv) {
    vec sums[GROUP_QUERIES][TILE_VECS];
    const size_t vec_bytes = LANES * (dtype == RADISH_DTYPE_F32 ? 4 : 2);
    float *acc = p->acc + (size_t)i * p->v_head_dim + x->d;
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            sums[n][v] = vec_load(acc + (size_t)n * p->v_head_dim + LANES * v);
        }
    }
    const float *weights = p->scores + (size_t)i * ATTN_SCORE_STRIDE;
    for (uint32_t j = first; j < end; j++) {
        const char *row = x->rows[j - x->block] + x->at;
        if (x->ahead) fetch_lines(x->ahead, (uint32_t)(((uint32_t)nv * vec_bytes + 63) / 64));
        vec value[TILE_VECS];
        UNROLL for (int v = 0; v < nv; v++) {
            value[v] = vec_load_as(row + (size_t)v * vec_bytes, dtype);
        }
        UNROLL for (int n = 0; n < nq; n++) {
            const vec weight = vec_set1(weights[(size_t)n * ATTN_SCORE_STRIDE + j]);
            UNROLL for (int v = 0; v < nv; v++) {
                sums[n][v] = vec_fma(weight, value[v], sums[n][v]);
                SETTLE(sums[n][v]);
            }
        }
    }
    UNROLL for (int n = 0; n < nq; n++) {
        UNROLL for (int v = 0; v < nv; v++) {
            vec_store(acc + (size_t)n * p->v_head_dim + LANES * v, sums[n][v]);
        }
    }
}

/* One query over keys that its neighbours do not see, vector by vector. */
static void add_alone(const struct attention_part *p, const struct values *x, uint32_t i,
                      uint32_t first, uint32_t end, enum dtype dtype, int nv) {
    struct values one = *x;
    if (first >= end) return;
    for (int v = 0; v < nv; v++) {
        if (dtype == RADISH_DTYPE_F32) add_values(p, &one, i, first, end, RADISH_DTYPE_F32, 1, 1);
        if (dtype == RADISH_DTYPE_F16) add_values(p, &one, i, first, end, RADISH_DTYPE_F16, 1, 1);
        if (dtype == RADISH_DTYPE_BF16) add_values(p, &one, i, first, end, RADISH_DTYPE_BF16, 1, 1);
        one.d += LANES;
        one.at += (size_t)LANES * (dtype == RADISH_DTYPE_F32 ? 4 : 2);
    }
}

/* nq queries over a block: each over what it sees before the others do, all over what all see, each
 * over the rest. */
INLINE void add_block(const struct attention_part *p, const struct values *x,
                      const struct attention_span *s, uint32_t i, enum dtype dtype, const int nq,
                      const int nv) {
    const uint32_t low = clamp(s->key_first, x->block, x->block + x->n_keys);
    const uint32_t high = clamp(s->key_end, x->block, x->block + x->n_keys);
    uint32_t first[GROUP_QUERIES], end[GROUP_QUERIES], all_first = low, all_end = high;
    for (uint32_t n = 0; n < (uint32_t)nq; n++) {
        first[n] = clamp(p->key_first[i + n], low, high);
        end[n] = clamp(p->key_end[i + n], low, high);
        if (first[n] > all_first) all_first = first[n];
        if (end[n] < all_end) all_end = end[n];
    }
    if (all_first > all_end) all_first = all_end = high;
    if (all_first > low)
        for (uint32_t n = 0; n < (uint32_t)nq; n++)
            add_alone(p, x, i + n, first[n], end[n] < all_first ? end[n] : all_first, dtype, nv);
    if (all_first < all_end) add_values(p, x, i, all_first, all_end, dtype, nq, nv);
    if (all_end < high)
        for (uint32_t n = 0; n < (uint32_t)nq; n++)
            add_alone(p, x, i + n, all_end, end[n], dtype, nv);
}

/* All queries of the span over nv vectors of a block. */
INLINE void add_span(const struct attention_part *p, const struct values *x,
                     const struct attention_span *s, uint32_t head, enum dtype dtype,
                     const bool is_few, const int nv) {
    uint32_t i = head * head_queries(p) + s->query_first;
    const uint32_t end = i + s->n_queries;
    if (!is_few) {
        for (; end - i >= GROUP_QUERIES; i += GROUP_QUERIES)
            add_block(p, x, s, i, dtype, GROUP_QUERIES, nv);
        if (end - i == 5) add_block(p, x, s, i, dtype, 5, nv);
        if (end - i == 4) add_block(p, x, s, i, dtype, 4, nv);
    }
    if (end - i == 3) add_block(p, x, s, i, dtype, 3, nv);
    if (end - i == 2) add_block(p, x, s, i, dtype, 2, nv);
    if (end - i == 1) add_block(p, x, s, i, dtype, 1, nv);
}

/* Few queries: V as it lies in the pool. */
INLINE void add_direct(const struct attention_part *p, const struct walk *now, uint32_t head,
                       struct fetch *ahead, enum dtype dtype) {
    const uint32_t elem = dtype == RADISH_DTYPE_F32 ? 4 : 2;
    struct values x = {now->rows, ahead, now->block, now->n_keys, 0, 0};
    x.at = (size_t)head * p->v_head_dim * elem;
    while (x.d < p->v_head_dim) {
        const uint32_t n_left = (p->v_head_dim - x.d) / LANES;
        const uint32_t n_vecs = n_left >= 4 ? 4 : n_left >= 2 ? 2 : 1;
        if (n_vecs == 4)
            add_span(p, &x, now->span, head, dtype, /*is_few=*/true, 4);
        else if (n_vecs == 2)
            add_span(p, &x, now->span, head, dtype, /*is_few=*/true, 2);
        else
            add_span(p, &x, now->span, head, dtype, /*is_few=*/true, 1);
        x.d += n_vecs * LANES;
        x.at += (size_t)n_vecs * LANES * elem;
    }
}

/* Many queries: panels of WIDE_VECS vectors of V, converted once. */
INLINE void add_panels(const struct attention_part *p, const struct walk *now, uint32_t head,
                       struct fetch *ahead, enum dtype dtype) {
    enum { ROW_FLOATS = WIDE_VECS * LANES };
    const uint32_t elem = dtype == RADISH_DTYPE_F32 ? 4 : 2;
    const char *rows[ATTN_BLOCK];
    struct values x = {rows, NULL, now->block, now->n_keys, 0, 0};
    size_t at = (size_t)head * p->v_head_dim * elem;
    for (uint32_t j = 0; j < now->n_keys; j++)
        rows[j] = (const char *)(p->tile + (size_t)j * ROW_FLOATS);
    while (x.d < p->v_head_dim) {
        const uint32_t n_left = (p->v_head_dim - x.d) / LANES;
        const uint32_t n_vecs = n_left >= WIDE_VECS ? WIDE_VECS : n_left >= 2 ? 2 : 1;
        for (uint32_t j = 0; j < now->n_keys; j++) {
            fetch_lines(ahead, (n_vecs * LANES * elem + 63) / 64);
            for (uint32_t v = 0; v < n_vecs; v++)
                vec_store(p->tile + (size_t)j * ROW_FLOATS + v * LANES,
                          vec_load_as(now->rows[j] + at + (size_t)v * LANES * elem, dtype));
        }
        if (n_vecs == WIDE_VECS)
            add_span(p, &x, now->span, head, RADISH_DTYPE_F32, /*is_few=*/false, WIDE_VECS);
        else if (n_vecs == 2)
            add_span(p, &x, now->span, head, RADISH_DTYPE_F32, /*is_few=*/false, 2);
        else
            add_span(p, &x, now->span, head, RADISH_DTYPE_F32, /*is_few=*/false, 1);
        x.d += n_vecs * LANES;
        at += (size_t)n_vecs * LANES * elem;
    }
}

INLINE void compute_segment(const struct attention_part *p, enum dtype dtype) {
    struct walk walks[2];
    score_keys(p, dtype);
    for (uint32_t i = 0; i < p->n_queries; i++) weigh_keys(p, i);
    memset(p->acc, 0, (size_t)p->n_queries * p->v_head_dim * sizeof *p->acc);
    find_block(p, 0, 0, /*is_v=*/true, &walks[0]);
    for (uint32_t n = 0; walks[n].span; n ^= 1) {
        const struct walk *now = &walks[n];
        struct walk *next = &walks[n ^ 1];
        find_next(p, now, /*is_v=*/true, next);
        if (!next->span) guess_next(p, next);
        const uint32_t next_dim = next->span ? p->v_head_dim : p->head_dim;
        for (uint32_t head = 0; head < p->n_kv_heads; head++) {
            struct fetch ahead = begin_fetch(p, next, head, next_dim);
            if (now->span->n_queries <= FEW_QUERIES)
                add_direct(p, now, head, &ahead, dtype);
            else
                add_panels(p, now, head, &ahead, dtype);
            fetch_lines(&ahead, UINT32_MAX);
        }
    }
}

#endif
