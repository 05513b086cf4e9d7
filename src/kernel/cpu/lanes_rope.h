/* lanes_rope.h - rope_kv_store on vectors of any width, with the bits of ref_rows.c. Included by
 * avx2_rope.c and avx512_rope.c, which define
 *
 *   LANES, vec                    floats in a vector, and its type
 *   vec_load, vec_store, vec_mul, vec_add, vec_sub
 *   vec_load_n(p, n), vec_store_n(p, n, x)
 *                                 the first n < LANES lanes; the others are zero, or left alone
 *   vec_swap(x)                   neighbours change places: 1 0 3 2 ...
 *   store_one(pool, at, dtype, x) x rounded to the pool's dtype, to its elements [at, at + LANES)
 *   store_two(pool, at, dtype, x, y)      two vectors, to [at, at + 2 LANES)
 *   store_n(pool, at, dtype, x, n)        the first n < LANES lanes
 *
 *   halves       (x, y) = (d, d + rotary_dim / 2):  x cos - y sin, x sin + y cos
 *   interleaved  (x, y) = (2d, 2d + 1): the same as v * c + swap(v) * s with c = cos cos, s = -sin
 *                sin for each pair, since a - b is a + (-b) to the last bit
 *
 * q [rows, heads, head_dim] is turned in place; k likewise on its way to k_pool [slots, KV heads,
 * head_dim], v goes to v_pool, all for one row before the next: cos and sin are read once for all
 * heads, K passes through registers only. A head is a straight stream, and so is a slot.
 *
 * What a compiler must know to unroll a head is head_dim, rotary_dim and the pool's dtype: there is
 * a body for each usual head_dim with full rotation by halves and one for everything else, picked
 * once a call. (Numbers of heads are loop bounds outside of that: as constants they buy nothing.)
 * Nothing is bound by arithmetic here: a vector of Q costs a load and a store, one of K or V a
 * load, some ten integer operations of rounding to bf16, and half a store.
 *
 * The pool's rows are cold, since a slot is written once, and stores that miss hold up those behind
 * them. So a row's lines of the pool are asked for while its Q is turned, a few with each head,
 * which four passes could not do. All at once before the first head, they gain nothing; a row
 * ahead, less, and nothing where there is one row; K and V before Q, nothing. Stores past the
 * caches are faster still from 16 rows on, and half as fast as unfused at a small one (2026-11-30,
 * docs/SPEED.md).
 *
 * Longer than a header should be: it is the whole operation, and no half of it is of use alone. */
#ifndef KERNEL_CPU_LANES_ROPE_H
#define KERNEL_CPU_LANES_ROPE_H

#include "tile_loops.h"

/* A head's rotation, as its row's position has it. */
struct turn {
    const float *cosines, *sines; /* halves: [rotary_dim / 2]; interleaved: [rotary_dim], c and s */
};

/* What a body is made for; constants, but for the dimensions in bodies for every shape. */
struct shape {
    enum dtype dtype;
    uint32_t head_dim, rotary_dim;
    bool is_interleaved;
    uint32_t n_kept; /* vectors of cos, and of sin, in registers for all heads of a row; 0: none */
};

enum { KEPT_MAX = 4, LINE_BYTES = 64 };

/* A row in the pools: its first bytes of K and of V, how many there are, and bytes of each to ask
 * for with a head of Q, whole lines. Step 0: nothing is asked for. */
struct lines {
    const char *k, *v;
    uint32_t k_bytes, v_bytes, step;
};

/* Elements [at, at + n) of the pool = src. */
INLINE void convert(const float *src, void *pool, size_t at, uint32_t n, enum dtype dtype) {
    uint32_t i = 0;
    for (; n - i >= 2 * LANES; i += 2 * LANES)
        store_two(pool, at + i, dtype, vec_load(src + i), vec_load(src + i + LANES));
    if (n - i >= LANES) {
        store_one(pool, at + i, dtype, vec_load(src + i));
        i += LANES;
    }
    if (i < n) store_n(pool, at + i, dtype, vec_load_n(src + i, n - i), n - i);
}

INLINE vec turn_first(vec x, vec y, vec c, vec s) {
    return vec_sub(vec_mul(x, c), vec_mul(y, s));
}

INLINE vec turn_second(vec x, vec y, vec c, vec s) {
    return vec_add(vec_mul(x, s), vec_mul(y, c));
}

/* One head of Q, in place. */
INLINE void turn_halves(float *head, struct turn t, uint32_t half) {
    uint32_t d = 0;
    for (; half - d >= LANES; d += LANES) {
        const vec x = vec_load(head + d), y = vec_load(head + half + d);
        const vec c = vec_load(t.cosines + d), s = vec_load(t.sines + d);
        vec_store(head + d, turn_first(x, y, c, s));
        vec_store(head + half + d, turn_second(x, y, c, s));
    }
    if (d == half) return;
    const uint32_t n = half - d;
    const vec x = vec_load_n(head + d, n), y = vec_load_n(head + half + d, n);
    const vec c = vec_load_n(t.cosines + d, n), s = vec_load_n(t.sines + d, n);
    vec_store_n(head + d, n, turn_first(x, y, c, s));
    vec_store_n(head + half + d, n, turn_second(x, y, c, s));
}

/* The same with all of cos and sin in registers. */
INLINE void turn_halves_kept(float *head, const vec *cosines, const vec *sines, uint32_t n) {
    UNROLL for (uint32_t i = 0; i < n; i++) {
        const vec x = vec_load(head + i * LANES);
        vec y = vec_load(head + (n + i) * LANES);
        SETTLE(y); /* or it is loaded twice, by both products */
        vec_store(head + i * LANES, turn_first(x, y, cosines[i], sines[i]));
        vec_store(head + (n + i) * LANES, turn_second(x, y, cosines[i], sines[i]));
    }
}

/* One head of K, to the pool. */
INLINE void turn_halves_to(const float *head, void *pool, size_t at, enum dtype dtype,
                           struct turn t, uint32_t half) {
    uint32_t d = 0;
    for (; half - d >= 2 * LANES; d += 2 * LANES) {
        const vec x0 = vec_load(head + d), y0 = vec_load(head + half + d);
        const vec x1 = vec_load(head + d + LANES), y1 = vec_load(head + half + d + LANES);
        const vec c0 = vec_load(t.cosines + d), s0 = vec_load(t.sines + d);
        const vec c1 = vec_load(t.cosines + d + LANES), s1 = vec_load(t.sines + d + LANES);
        store_two(pool, at + d, dtype, turn_first(x0, y0, c0, s0), turn_first(x1, y1, c1, s1));
        store_two(pool, at + half + d, dtype, turn_second(x0, y0, c0, s0),
                  turn_second(x1, y1, c1, s1));
    }
    if (half - d >= LANES) {
        const vec x = vec_load(head + d), y = vec_load(head + half + d);
        const vec c = vec_load(t.cosines + d), s = vec_load(t.sines + d);
        store_one(pool, at + d, dtype, turn_first(x, y, c, s));
        store_one(pool, at + half + d, dtype, turn_second(x, y, c, s));
        d += LANES;
    }
    if (d == half) return;
    const uint32_t n = half - d;
    const vec x = vec_load_n(head + d, n), y = vec_load_n(head + half + d, n);
    const vec c = vec_load_n(t.cosines + d, n), s = vec_load_n(t.sines + d, n);
    store_n(pool, at + d, dtype, turn_first(x, y, c, s), n);
    store_n(pool, at + half + d, dtype, turn_second(x, y, c, s), n);
}

INLINE vec turn_pairs(vec x, vec c, vec s) {
    return vec_add(vec_mul(x, c), vec_mul(vec_swap(x), s));
}

INLINE void turn_interleaved(float *head, struct turn t, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES)
        vec_store(head + i,
                  turn_pairs(vec_load(head + i), vec_load(t.cosines + i), vec_load(t.sines + i)));
    if (i == n) return;
    const vec c = vec_load_n(t.cosines + i, n - i), s = vec_load_n(t.sines + i, n - i);
    vec_store_n(head + i, n - i, turn_pairs(vec_load_n(head + i, n - i), c, s));
}

INLINE void turn_interleaved_to(const float *head, void *pool, size_t at, enum dtype dtype,
                                struct turn t, uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= LANES; i += LANES)
        store_one(pool, at + i, dtype,
                  turn_pairs(vec_load(head + i), vec_load(t.cosines + i), vec_load(t.sines + i)));
    if (i == n) return;
    const vec c = vec_load_n(t.cosines + i, n - i), s = vec_load_n(t.sines + i, n - i);
    store_n(pool, at + i, dtype, turn_pairs(vec_load_n(head + i, n - i), c, s), n - i);
}

/* c and s of `interleaved` above, from the table's cos and sin. */
INLINE void spread_pairs(const float *table, uint32_t rotary_dim, float *c, float *s) {
    const float *cosines = table, *sines = table + rotary_dim / 2;
    for (uint32_t d = 0; d < rotary_dim / 2; d++) {
        c[2 * d] = c[2 * d + 1] = cosines[d];
        s[2 * d] = -sines[d];
        s[2 * d + 1] = sines[d];
    }
}

/* Of every row alike; a pass without Q, or without K and V, asks for nothing. */
INLINE struct lines find_lines(const struct rope_kv_store_args *a, struct shape shape) {
    if (!a->n_heads || !a->n_kv_heads) return (struct lines){0};
    const uint32_t bytes = a->n_kv_heads * (shape.dtype == RADISH_DTYPE_F32 ? 4 : 2);
    const uint32_t k_bytes = bytes * shape.head_dim, v_bytes = bytes * a->v_head_dim;
    const uint32_t n_lines = ((k_bytes > v_bytes ? k_bytes : v_bytes) - 1) / LINE_BYTES + 1;
    return (struct lines){.k_bytes = k_bytes,
                          .v_bytes = v_bytes,
                          .step = ((n_lines - 1) / a->n_heads + 1) * LINE_BYTES};
}

INLINE struct lines find_slot_lines(const struct rope_kv_store_args *a, int32_t slot,
                                    struct lines lines) {
    if (slot < 0 || !lines.step) return (struct lines){0};
    lines.k = (const char *)a->k_pool + (size_t)slot * lines.k_bytes;
    lines.v = (const char *)a->v_pool + (size_t)slot * lines.v_bytes;
    return lines;
}

/* Asks for a head's lines, those from byte `at` on, as far as the row has them, to be written:
 * PREFETCHW, or PRFM PSTL2KEEP; AVX2 alone has no such request, there it is PREFETCHT1. */
INLINE void ask_lines(struct lines lines, uint32_t at) {
    for (const uint32_t end = at + lines.step; at < end; at += LINE_BYTES) {
        if (at < lines.k_bytes) __builtin_prefetch(lines.k + at, /*rw=*/1, /*locality=*/2);
        if (at < lines.v_bytes) __builtin_prefetch(lines.v + at, /*rw=*/1, /*locality=*/2);
    }
}

/* Q of a row. */
INLINE void turn_row(const struct rope_kv_store_args *a, uint32_t row, struct turn t,
                     struct lines lines, struct shape shape) {
    vec cosines[KEPT_MAX], sines[KEPT_MAX];
    UNROLL for (uint32_t i = 0; i < shape.n_kept; i++) {
        cosines[i] = vec_load(t.cosines + i * LANES);
        sines[i] = vec_load(t.sines + i * LANES);
    }
    float *q = a->q + (size_t)row * a->q_stride;
    uint32_t at = 0;
    for (uint32_t h = 0; h < a->n_heads; h++, q += shape.head_dim, at += lines.step) {
        ask_lines(lines, at);
        if (shape.n_kept)
            turn_halves_kept(q, cosines, sines, shape.n_kept);
        else if (shape.is_interleaved)
            turn_interleaved(q, t, shape.rotary_dim);
        else
            turn_halves(q, t, shape.rotary_dim / 2);
    }
}

/* K and V of a row. */
INLINE void store_row(const struct rope_kv_store_args *a, uint32_t row, struct turn t,
                      struct shape shape) {
    const uint32_t head_dim = shape.head_dim, rotary_dim = shape.rotary_dim;
    const enum dtype dtype = shape.dtype;
    const size_t first = (size_t)a->slots[row] * a->n_kv_heads;
    const float *k = a->k + (size_t)row * a->k_stride;
    if (rotary_dim == 0) convert(k, a->k_pool, first * head_dim, a->n_kv_heads * head_dim, dtype);
    for (uint32_t h = 0; rotary_dim && h < a->n_kv_heads; h++, k += head_dim) {
        const size_t at = (first + h) * head_dim;
        if (shape.is_interleaved)
            turn_interleaved_to(k, a->k_pool, at, dtype, t, rotary_dim);
        else
            turn_halves_to(k, a->k_pool, at, dtype, t, rotary_dim / 2);
        convert(k + rotary_dim, a->k_pool, at + rotary_dim, head_dim - rotary_dim, dtype);
    }
    convert(a->v + (size_t)row * a->v_stride, a->v_pool, first * a->v_head_dim,
            a->n_kv_heads * a->v_head_dim, dtype);
}

/* Rows [first, end). */
INLINE void run_rows(const struct rope_kv_store_args *a, uint32_t first, uint32_t end,
                     struct shape shape) {
    const struct lines lines = find_lines(a, shape);
    float c[HEAD_DIM_MAX], s[HEAD_DIM_MAX];
    for (uint32_t row = first; row < end; row++) {
        const float *table = a->rope_table + (size_t)a->positions[row] * shape.rotary_dim;
        struct turn t = {table, table + shape.rotary_dim / 2};
        if (shape.is_interleaved) {
            spread_pairs(table, shape.rotary_dim, c, s);
            t = (struct turn){c, s};
        }
        turn_row(a, row, t, find_slot_lines(a, a->slots[row], lines), shape);
        if (a->slots[row] >= 0) store_row(a, row, t, shape);
    }
}

/* ---- bodies: one for each dtype of the usual shapes, and those for every shape ---- */

typedef void (*body_fn)(const struct rope_kv_store_args *a, uint32_t first, uint32_t end);

#define BODY(name, ...)                                                                            \
    static void name(const struct rope_kv_store_args *a, uint32_t first, uint32_t end) {           \
        run_rows(a, first, end, (struct shape){__VA_ARGS__});                                      \
    }
#define N_KEPT(dim)                                                                                \
    ((dim) / 2 % LANES == 0 && (dim) / 2 / LANES <= KEPT_MAX ? (dim) / 2 / LANES : 0)
#define FULL_BODY(name, dtype, dim) BODY(name, RADISH_DTYPE_##dtype, dim, dim, false, N_KEPT(dim))
#define FULL_BODIES(dim)                                                                           \
    FULL_BODY(run_f32_##dim, F32, dim)                                                             \
    FULL_BODY(run_f16_##dim, F16, dim)                                                             \
    FULL_BODY(run_bf16_##dim, BF16, dim)
#define ANY_BODY(name, dtype, is_interleaved)                                                      \
    BODY(name, RADISH_DTYPE_##dtype, a->head_dim, a->rotary_dim, is_interleaved, 0)

FULL_BODIES(64)
FULL_BODIES(80)
FULL_BODIES(96)
FULL_BODIES(128)
FULL_BODIES(256)
ANY_BODY(run_f32_halves, F32, false)
ANY_BODY(run_f16_halves, F16, false)
ANY_BODY(run_bf16_halves, BF16, false)
ANY_BODY(run_f32_interleaved, F32, true)
ANY_BODY(run_f16_interleaved, F16, true)
ANY_BODY(run_bf16_interleaved, BF16, true)

#define BODIES(suffix)                                                                             \
    { run_f32_##suffix, run_f16_##suffix, run_bf16_##suffix }

static body_fn find_body(const struct rope_kv_store_args *a) {
    static const struct {
        uint32_t head_dim;
        body_fn bodies[3];
    } full[] = {{128, BODIES(128)},
                {64, BODIES(64)},
                {80, BODIES(80)},
                {96, BODIES(96)},
                {256, BODIES(256)}};
    static const body_fn halves[3] = BODIES(halves), interleaved[3] = BODIES(interleaved);
    const uint32_t at = a->kv_dtype == RADISH_DTYPE_F32   ? 0
                        : a->kv_dtype == RADISH_DTYPE_F16 ? 1
                                                          : 2;
    if (a->is_interleaved) return interleaved[at];
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        if (a->head_dim == full[i].head_dim && a->rotary_dim == a->head_dim)
            return full[i].bodies[at];
    return halves[at];
}

#endif
