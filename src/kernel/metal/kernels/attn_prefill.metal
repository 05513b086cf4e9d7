/* attn_prefill.metal - attention of the rows of a chunk over the KV pool, 32 at a time, on 8 x 8
 * matrices of SIMD-groups.
 *
 *   out[r, head] = sum_t p[r, t] v[t] / sum_t p[r, t],  t <= position of r (and in its window)
 *
 * A threadgroup has a tile (up to 32 rows of one sequence) and one query head; each of its four
 * SIMD-groups has eight of the rows. ATTN_TILE_KEYS keys at a time are brought to threadgroup memory
 * through the slot table, as the pool has them:
 *
 *   keys of K, head_dim rounded up to 8 and ATTN_TILE_PAD each | the same keys of V, likewise
 *
 * barrier, each SIMD-group S = Q K' in log2 units, softmax on the fragments, O = O keep + P V,
 * barrier. Q and O stay in registers (Q of heads above 128 is read anew for each tile: it is in the
 * cache). Fragments are float whatever the pool is; nothing is rounded on the way. A lane holds
 * (row, col) and (row, col + 1) of a matrix as attn_row() and attn_col() say: the layout that public
 * kernels rely on. The four lanes of a row differ in bits 0 and 3 of their number, so the maximum
 * and the sum of a row meet by simd_shuffle_xor() of 1 and 8.
 *
 * Keys that no row of the tile sees are not brought; a SIMD-group passes over keys that none of its
 * rows sees. Rows past the end of the tile see nothing and are neither read nor written. Keys past
 * it are zeros, as are slots past the pool's end, which the host does not let pass.
 *
 * Grid: x = query heads (those of one KV head run side by side and find K and V in the cache), y =
 * tiles. Threads: ATTENTION_TILE_THREADS. COLS is how many matrices side by side a head has at most:
 * 8, 16, 32 or 64; loops over them are unrolled and cut by constants. Not run on Apple hardware. */
#include <metal_simdgroup_matrix>
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "attention.h"

using namespace metal;

constant uint ATTN_TILE_KEYS [[function_constant(ATTENTION_CONSTANT_TILE_KEYS)]]; /* 8, 16 or 32 */
constant uint ATTN_TILE_PAD [[function_constant(ATTENTION_CONSTANT_TILE_PAD)]];   /* 0 or 8 */

#define ATTN_KEY_MATRICES 4 /* a tile's, side by side, at most */

typedef simdgroup_matrix<float, 8, 8> attn_matrix;

/* A SIMD-group's rows and what they know: keys [seen_first, seen_end) are seen by some of them; the
 * rest is this lane's row, its fragments' first column, and its row's (max, sum of this lane's). */
struct attn_rows {
    uint seen_first, seen_end;
    uint position;
    bool is_there;
    uint row, col; /* within matrices */
    float top, sum;
};

template <typename T> struct attn_quad;
template <> struct attn_quad<float> {
    typedef float4 type;
};
template <> struct attn_quad<half> {
    typedef half4 type;
};
template <> struct attn_quad<bfloat> {
    typedef bfloat4 type;
};

static uint attn_row(uint lane) {
    return (lane / 4 & 4) + lane / 2 % 4;
}

static uint attn_col(uint lane) {
    return (lane / 4 & 2) * 2 + lane % 2 * 2;
}

static uint attn_width(uint n) {
    return (n + 7) / 8 * 8;
}

static uint attn_first_seen(uint position, uint window) {
    return window && position + 1 > window ? position + 1 - window : 0;
}

/* n numbers of n_keys slots, four numbers a thread and turn; zeros around them. */
template <typename T>
static void attn_load_tile(const device T *pool, ulong stride, uint n, const device uint *slots,
                           uint n_keys, uint n_slots, threadgroup T *tile, uint thread_index) {
    typedef typename attn_quad<T>::type quad;
    const uint n_quads = attn_width(n) / 4;
    const uint width = attn_width(n) + ATTN_TILE_PAD;
    for (uint e = thread_index; e < ATTN_TILE_KEYS * n_quads; e += ATTENTION_TILE_THREADS) {
        const uint key = e / n_quads;
        const uint d = e % n_quads * 4;
        const uint slot = key < n_keys ? slots[key] : n_slots;
        const device T *from = pool + min(slot, n_slots - 1) * stride + d;
        threadgroup T *to = tile + key * width + d;
        if (n % 4 == 0 && slot < n_slots && d < n) {
            *(threadgroup quad *)to = *(const device quad *)from;
        } else {
            for (uint j = 0; j < 4; j++) to[j] = slot < n_slots && d + j < n ? from[j] : T(0.0f);
        }
    }
}

/* Columns [8 j, 8 j + 8) of Q; q is this lane's row. */
static attn_matrix attn_load_q(const device float *q, uint j, thread const attn_rows &rows,
                               float q_scale) {
    attn_matrix m;
    for (uint e = 0; e < 2; e++) {
        const uint d = j * 8 + rows.col + e;
        m.thread_elements()[e] = rows.is_there && d < ATTN_HEAD_DIM ? q[d] * q_scale : 0.0f;
    }
    return m;
}

/* s = Q K', before soft cap and masks. */
template <typename T, int COLS>
static void attn_scores(thread attn_matrix *q_parts, const device float *q, float q_scale,
                        const threadgroup T *k_tile, thread const attn_rows &rows,
                        thread attn_matrix *s) {
    const uint width = attn_width(ATTN_HEAD_DIM) + ATTN_TILE_PAD;
    for (int i = 0; i < ATTN_KEY_MATRICES; i++)
        s[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    METAL_UNROLL for (int j = 0; j < COLS; j++) {
        if (uint(j) * 8 >= ATTN_HEAD_DIM) break;
        attn_matrix part;
        if (COLS > 16)
            part = attn_load_q(q, j, rows, q_scale);
        else
            part = q_parts[j];
        METAL_UNROLL for (int i = 0; i < ATTN_KEY_MATRICES; i++) {
            if (uint(i) * 8 >= ATTN_TILE_KEYS) break;
            /* K transposed: the matrix's row is the head's number, its column the key. */
            const threadgroup T *from = k_tile + (i * 8 + rows.col) * width + j * 8 + rows.row;
            attn_matrix k;
            k.thread_elements()[0] = float(from[0]);
            k.thread_elements()[1] = float(from[width]);
            simdgroup_multiply_accumulate(s[i], part, k, s[i]);
        }
    }
}

/* s becomes p, of keys from t on; rows.top and rows.sum follow. What the accumulator is to be
 * multiplied by. */
static float attn_softmax(constant attention_numbers &a, uint t, thread attn_rows &rows,
                          thread attn_matrix *s) {
    float top = rows.top;
    METAL_UNROLL for (int i = 0; i < ATTN_KEY_MATRICES; i++) {
        if (uint(i) * 8 >= ATTN_TILE_KEYS) break;
        for (uint e = 0; e < 2; e++) {
            const uint key = t + i * 8 + rows.col + e;
            const bool is_seen = rows.is_there && key <= rows.position &&
                                 (a.window == 0 || rows.position - key < a.window);
            const float score = attn_bend(s[i].thread_elements()[e], a.score_scale);
            s[i].thread_elements()[e] = is_seen ? score : ATTN_LOWEST;
            if (is_seen) top = max(top, score);
        }
    }
    top = max(top, simd_shuffle_xor(top, 1));
    top = max(top, simd_shuffle_xor(top, 8));
    const float keep = exp2(rows.top - top);
    rows.top = top;
    rows.sum *= keep;
    METAL_UNROLL for (int i = 0; i < ATTN_KEY_MATRICES; i++) {
        if (uint(i) * 8 >= ATTN_TILE_KEYS) break;
        for (uint e = 0; e < 2; e++) {
            const float score = s[i].thread_elements()[e];
            const float p = score > ATTN_LOWEST ? exp2(score - top) : 0.0f;
            s[i].thread_elements()[e] = p;
            rows.sum += p;
        }
    }
    return keep;
}

/* acc = acc * keep + P V */
template <typename T, int COLS>
static void attn_values(thread attn_matrix *p, const threadgroup T *v_tile, float keep,
                        thread const attn_rows &rows, thread attn_matrix *acc) {
    const uint width = attn_width(ATTN_V_HEAD_DIM) + ATTN_TILE_PAD;
    METAL_UNROLL for (int j = 0; j < COLS; j++) {
        if (uint(j) * 8 >= ATTN_V_HEAD_DIM) break;
        acc[j].thread_elements()[0] *= keep;
        acc[j].thread_elements()[1] *= keep;
        METAL_UNROLL for (int i = 0; i < ATTN_KEY_MATRICES; i++) {
            if (uint(i) * 8 >= ATTN_TILE_KEYS) break;
            const threadgroup T *from = v_tile + (i * 8 + rows.row) * width + j * 8 + rows.col;
            attn_matrix v;
            v.thread_elements()[0] = float(from[0]);
            v.thread_elements()[1] = float(from[1]);
            simdgroup_multiply_accumulate(acc[j], p[i], v, acc[j]);
        }
    }
}

/* Row `row` of a SIMD-group is row 8 * simdgroup + row of the tile. */
static attn_rows attn_find_rows(uint position, uint n_rows, uint window, uint simdgroup,
                                uint lane) {
    const uint first = simdgroup * 8;
    attn_rows rows;
    rows.row = attn_row(lane);
    rows.col = attn_col(lane);
    rows.is_there = first + rows.row < n_rows;
    rows.position = position + first + rows.row;
    rows.seen_first = attn_first_seen(position + first, window);
    rows.seen_end = first < n_rows ? position + min(first + 8, n_rows) : 0;
    rows.top = ATTN_LOWEST;
    rows.sum = 0.0f;
    return rows;
}

template <typename T, int COLS>
[[max_total_threads_per_threadgroup(ATTENTION_TILE_THREADS)]]
kernel void attn_prefill(constant attention_numbers &a [[buffer(0)]],
                         const device float *q [[buffer(1)]],
                         const device T *k_pool [[buffer(2)]],
                         const device T *v_pool [[buffer(3)]],
                         const device uint *slots [[buffer(4)]],
                         const device attention_tile *tiles [[buffer(5)]],
                         device float *out [[buffer(6)]],
                         threadgroup T *shared [[threadgroup(0)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint thread_index [[thread_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    const uint position = tiles[group.y].position;
    const uint n_rows = tiles[group.y].n_rows;
    const uint kv_head = group.x / (a.n_heads / a.n_kv_heads);
    attn_rows rows = attn_find_rows(position, n_rows, a.window, simdgroup, lane);
    const ulong row = ulong(tiles[group.y].row - a.row_first) +
                      (rows.is_there ? simdgroup * 8 + rows.row : 0);
    const device float *row_q = q + row * a.q_stride + ulong(group.x) * ATTN_HEAD_DIM;
    const device T *head_k = k_pool + ulong(kv_head) * ATTN_HEAD_DIM;
    const device T *head_v = v_pool + ulong(kv_head) * ATTN_V_HEAD_DIM;
    threadgroup T *k_tile = shared;
    threadgroup T *v_tile = shared + ATTN_TILE_KEYS * (attn_width(ATTN_HEAD_DIM) + ATTN_TILE_PAD);

    attn_matrix q_parts[COLS > 16 ? 1 : COLS];
    attn_matrix acc[COLS];
    METAL_UNROLL for (int j = 0; j < COLS; j++) {
        acc[j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        if (COLS <= 16) q_parts[COLS > 16 ? 0 : j] = attn_load_q(row_q, j, rows, a.q_scale);
    }
    const uint end = position + n_rows;
    for (uint t = attn_first_seen(position, a.window); t < end; t += ATTN_TILE_KEYS) {
        const device uint *key_slots = slots + ulong(tiles[group.y].slot_first) + t;
        const uint n_keys = min(ATTN_TILE_KEYS, end - t);
        attn_load_tile(head_k, ulong(a.n_kv_heads) * ATTN_HEAD_DIM, ATTN_HEAD_DIM, key_slots,
                       n_keys, a.n_slots, k_tile, thread_index);
        attn_load_tile(head_v, ulong(a.n_kv_heads) * ATTN_V_HEAD_DIM, ATTN_V_HEAD_DIM, key_slots,
                       n_keys, a.n_slots, v_tile, thread_index);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < rows.seen_end && t + ATTN_TILE_KEYS > rows.seen_first) {
            attn_matrix s[ATTN_KEY_MATRICES];
            attn_scores<T, COLS>(q_parts, row_q, a.q_scale, k_tile, rows, s);
            const float keep = attn_softmax(a, t, rows, s);
            attn_values<T, COLS>(s, v_tile, keep, rows, acc);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const float half_sum = rows.sum + simd_shuffle_xor(rows.sum, 1);
    const float sum = half_sum + simd_shuffle_xor(half_sum, 8);
    if (!rows.is_there) return;
    device float *to = out + row * a.out_stride + ulong(group.x) * ATTN_V_HEAD_DIM;
    METAL_UNROLL for (int j = 0; j < COLS; j++) {
        for (uint e = 0; e < 2; e++) {
            const uint d = j * 8 + rows.col + e;
            if (d < ATTN_V_HEAD_DIM) to[d] = acc[j].thread_elements()[e] / sum;
        }
    }
}

#define ATTN_PREFILL_COLS(name, T, COLS)                                                           \
    template [[host_name("attn_prefill_" name)]]                                                   \
    kernel decltype(attn_prefill<T, COLS>) attn_prefill<T, COLS>;
#define ATTN_PREFILL_OF(name, T)                                                                   \
    ATTN_PREFILL_COLS("64_" name, T, 8)                                                            \
    ATTN_PREFILL_COLS("128_" name, T, 16)                                                          \
    ATTN_PREFILL_COLS("256_" name, T, 32)                                                          \
    ATTN_PREFILL_COLS("512_" name, T, 64)
ATTN_PREFILL_OF("f32", float)
ATTN_PREFILL_OF("f16", half)
ATTN_PREFILL_OF("bf16", bfloat)
