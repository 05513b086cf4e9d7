/* attn_decode.metal - attention of single rows over the KV pool, and the merge of their blocks.
 *
 *   out[row, head] = sum_t p[t] v[t] / sum_t p[t],  p[t] = exp2(score[t] - max),
 *   score[t] = q.k[t] * scale * log2(e), or cap * log2(e) * tanh(q.k[t] * scale / cap)
 *
 *   q [n_rows, q_stride], out [n_rows, out_stride] float; pools [n_slots, n_kv_heads, head_dim]
 *
 * A threadgroup has one task (a row and some of its keys) and ATTN_HEADS query heads of one KV head,
 * so that K and V are read once for all of them. Its SIMD-groups take four keys at a time, in turn:
 *
 *   keys  0 1 2 3 | 4 5 6 7 | ...   SIMD-group s has 4 s .. 4 s + 3, and the same n * 4 further on
 *
 * A lane holds the same few neighbours of q, of k, of v and of the accumulator: head_dim / 32 of
 * them, rounded up. Scores are sums over the SIMD-group; each SIMD-group has its own (max, sum,
 * accumulator), rescaled once for four keys, and threadgroup memory joins them at the end, one head
 * after another.
 *
 * attn_decode writes the row. attn_decode_part leaves (accumulator, max, sum) of a block for
 * attn_merge, which joins the blocks of a row in their order. Which way a row goes, and where its
 * blocks begin, depends on its own length alone: its bits are the same whatever it is batched with.
 *
 * Grid: x = KV heads times tiles of their query heads, y = tasks; attn_merge: x = query heads, y =
 * rows. Threads: whole SIMD-groups of 32, up to ATTENTION_ROW_THREADS. Shared: (head_dim of V + 2)
 * floats a SIMD-group. Slots past the pool's end, which the host does not let pass, count as zeros.
 * Per key and KV head: both rows read once for ATTN_HEADS heads. Not run on Apple hardware. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "attention.h"

using namespace metal;

/* Query heads of a threadgroup: times what a lane has of each, at most ATTENTION_LANE_FLOATS. */
constant uint ATTN_HEADS [[function_constant(ATTENTION_CONSTANT_HEADS)]];

#define ATTN_LANES      32u
#define ATTN_KEYS       4u  /* of a SIMD-group at a time */
#define ATTN_SHARE_MAX  16u /* of a head of 512, numbers a lane */
#define ATTN_HEADS_MAX  8u

/* Who a thread is, and which heads its threadgroup has: kv_head and [head_first, + n_heads). */
struct attn_place {
    uint lane, simdgroup, n_simdgroups;
    uint thread_index, n_threads;
    uint kv_head, head_first, n_heads;
};

/* What a SIMD-group knows of its keys, a lane's share: heads times (q, max, sum, accumulator). */
struct attn_state {
    float q[ATTENTION_LANE_FLOATS];
    float acc[ATTENTION_LANE_FLOATS];
    float top[ATTN_HEADS_MAX];
    float sum[ATTN_HEADS_MAX];
};

/* A task's keys. */
struct attn_keys {
    uint first, end;
};

/* Shares of n numbers. */
static uint attn_share(uint n) {
    return (n + ATTN_LANES - 1) / ATTN_LANES;
}

/* Threadgroups along x count tiles of heads, KV head by KV head. */
static attn_place attn_find_place(constant attention_numbers &a, uint x, uint thread_index,
                                  uint n_threads) {
    const uint group = a.n_heads / a.n_kv_heads;
    const uint n_tiles = (group + ATTN_HEADS - 1) / ATTN_HEADS;
    attn_place at;
    at.lane = thread_index % ATTN_LANES;
    at.simdgroup = thread_index / ATTN_LANES;
    at.n_simdgroups = n_threads / ATTN_LANES;
    at.thread_index = thread_index;
    at.n_threads = n_threads;
    at.kv_head = x / n_tiles;
    at.head_first = at.kv_head * group + x % n_tiles * ATTN_HEADS;
    at.n_heads = min(ATTN_HEADS, group - x % n_tiles * ATTN_HEADS);
    return at;
}

/* A lane's share of each of ATTN_KEYS keys: n numbers of a row of the pool. */
template <typename T>
static void attn_load_keys(const device T *pool, ulong stride, uint n, const device uint *slots,
                           uint n_keys, uint n_slots, uint lane, thread float *keys) {
    const uint share = attn_share(n);
    for (uint i = 0; i < ATTN_KEYS; i++) {
        const uint slot = i < n_keys ? slots[i] : n_slots;
        const device T *row = pool + min(slot, n_slots - 1) * stride;
        for (uint j = 0; j < share; j++) {
            const uint d = lane * share + j;
            keys[i * ATTN_SHARE_MAX + j] = slot < n_slots && d < n ? float(row[d]) : 0.0f;
        }
    }
}

static void attn_begin(constant attention_numbers &a, const device float *q,
                       thread const attn_place &at, thread attn_state &s) {
    const uint share = attn_share(ATTN_HEAD_DIM);
    for (uint i = 0; i < ATTENTION_LANE_FLOATS; i++) s.acc[i] = 0.0f;
    for (uint h = 0; h < ATTN_HEADS; h++) {
        const device float *row = q + ulong(at.head_first + min(h, at.n_heads - 1)) * ATTN_HEAD_DIM;
        s.top[h] = ATTN_LOWEST;
        s.sum[h] = 0.0f;
        for (uint j = 0; j < share; j++) {
            const uint d = at.lane * share + j;
            s.q[h * share + j] = d < ATTN_HEAD_DIM ? row[d] * a.q_scale : 0.0f;
        }
    }
}

/* Folds n_keys keys into one head. */
static void attn_fold(thread attn_state &s, uint head, thread const float *k, thread const float *v,
                      uint n_keys, float score_scale) {
    const uint share = attn_share(ATTN_HEAD_DIM);
    const uint v_share = attn_share(ATTN_V_HEAD_DIM);
    float p[ATTN_KEYS];
    float top = s.top[head];
    for (uint i = 0; i < ATTN_KEYS; i++) {
        float dot = 0.0f;
        for (uint j = 0; j < share; j++)
            dot = fma(s.q[head * share + j], k[i * ATTN_SHARE_MAX + j], dot);
        p[i] = attn_bend(simd_sum(dot), score_scale);
        if (i < n_keys) top = max(top, p[i]);
    }
    const float keep = exp2(s.top[head] - top);
    float sum = s.sum[head] * keep;
    for (uint i = 0; i < ATTN_KEYS; i++) {
        p[i] = i < n_keys ? exp2(p[i] - top) : 0.0f;
        sum += p[i];
    }
    s.top[head] = top;
    s.sum[head] = sum;
    for (uint j = 0; j < v_share; j++) {
        float acc = s.acc[head * v_share + j] * keep;
        for (uint i = 0; i < ATTN_KEYS; i++) acc = fma(p[i], v[i * ATTN_SHARE_MAX + j], acc);
        s.acc[head * v_share + j] = acc;
    }
}

/* This SIMD-group's keys of the task. The pools begin at the KV head. */
template <typename T>
static void attn_walk(constant attention_numbers &a, const device T *k_pool, const device T *v_pool,
                      const device uint *slots, attn_keys keys, thread const attn_place &at,
                      thread attn_state &s) {
    const ulong k_stride = ulong(a.n_kv_heads) * ATTN_HEAD_DIM;
    const ulong v_stride = ulong(a.n_kv_heads) * ATTN_V_HEAD_DIM;
    const uint step = at.n_simdgroups * ATTN_KEYS;
    for (uint t = keys.first + at.simdgroup * ATTN_KEYS; t < keys.end; t += step) {
        const uint n = min(ATTN_KEYS, keys.end - t);
        float k[ATTN_KEYS * ATTN_SHARE_MAX];
        float v[ATTN_KEYS * ATTN_SHARE_MAX];
        attn_load_keys(k_pool, k_stride, ATTN_HEAD_DIM, slots + t, n, a.n_slots, at.lane, k);
        attn_load_keys(v_pool, v_stride, ATTN_V_HEAD_DIM, slots + t, n, a.n_slots, at.lane, v);
        for (uint h = 0; h < ATTN_HEADS; h++) attn_fold(s, h, k, v, n, a.score_scale);
    }
}

/* Joins what the SIMD-groups know. Whole: head h goes to to[h * head_dim of V], divided by its sum.
 * Else as it is, and (max, sum) to sums[h * 2]. */
template <bool IS_WHOLE>
static void attn_join(thread const attn_place &at, thread const attn_state &s,
                      threadgroup float *shared, device float *to, device float *sums) {
    const uint share = attn_share(ATTN_V_HEAD_DIM);
    threadgroup float *tops = shared;
    threadgroup float *parts = tops + at.n_simdgroups;
    threadgroup float *accs = parts + at.n_simdgroups;
    for (uint h = 0; h < ATTN_HEADS; h++) {
        if (at.lane == 0) {
            tops[at.simdgroup] = s.top[h];
            parts[at.simdgroup] = s.sum[h];
        }
        for (uint j = 0; j < share; j++) {
            const uint d = at.lane * share + j;
            if (d < ATTN_V_HEAD_DIM)
                accs[at.simdgroup * ATTN_V_HEAD_DIM + d] = s.acc[h * share + j];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const ulong head = at.head_first + h;
        const bool is_there = h < at.n_heads;
        float top = ATTN_LOWEST;
        float sum = 0.0f;
        for (uint i = 0; i < at.n_simdgroups; i++) top = max(top, tops[i]);
        for (uint i = 0; i < at.n_simdgroups; i++) sum = fma(exp2(tops[i] - top), parts[i], sum);
        for (uint d = at.thread_index; d < ATTN_V_HEAD_DIM && is_there; d += at.n_threads) {
            float acc = 0.0f;
            for (uint i = 0; i < at.n_simdgroups; i++)
                acc = fma(exp2(tops[i] - top), accs[i * ATTN_V_HEAD_DIM + d], acc);
            to[head * ATTN_V_HEAD_DIM + d] = IS_WHOLE ? acc / sum : acc;
        }
        if (!IS_WHOLE && at.thread_index == 0 && is_there) {
            sums[head * 2] = top;
            sums[head * 2 + 1] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

template <typename T>
[[max_total_threads_per_threadgroup(ATTENTION_ROW_THREADS)]]
kernel void attn_decode(constant attention_numbers &a [[buffer(0)]],
                        const device float *q [[buffer(1)]],
                        const device T *k_pool [[buffer(2)]],
                        const device T *v_pool [[buffer(3)]],
                        const device uint *slots [[buffer(4)]],
                        const device attention_task *tasks [[buffer(5)]],
                        device float *out [[buffer(6)]],
                        threadgroup float *shared [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint3 size [[threads_per_threadgroup]]) {
    const attn_place at = attn_find_place(a, group.x, thread_index, size.x);
    const ulong row = tasks[group.y].row - a.row_first;
    attn_keys keys;
    keys.first = tasks[group.y].key_first;
    keys.end = tasks[group.y].key_end;
    attn_state s;
    attn_begin(a, q + row * a.q_stride, at, s);
    attn_walk(a, k_pool + ulong(at.kv_head) * ATTN_HEAD_DIM,
              v_pool + ulong(at.kv_head) * ATTN_V_HEAD_DIM, slots + tasks[group.y].slot_first, keys,
              at, s);
    device float *to = out + row * a.out_stride;
    attn_join<true>(at, s, shared, to, to);
}

/* partials [n_tasks of the dispatch, n_heads * (head_dim of V + 2)] */
template <typename T>
[[max_total_threads_per_threadgroup(ATTENTION_ROW_THREADS)]]
kernel void attn_decode_part(constant attention_numbers &a [[buffer(0)]],
                             const device float *q [[buffer(1)]],
                             const device T *k_pool [[buffer(2)]],
                             const device T *v_pool [[buffer(3)]],
                             const device uint *slots [[buffer(4)]],
                             const device attention_task *tasks [[buffer(5)]],
                             device float *partials [[buffer(6)]],
                             threadgroup float *shared [[threadgroup(0)]],
                             uint3 group [[threadgroup_position_in_grid]],
                             uint thread_index [[thread_index_in_threadgroup]],
                             uint3 size [[threads_per_threadgroup]]) {
    const attn_place at = attn_find_place(a, group.x, thread_index, size.x);
    const ulong row = tasks[group.y].row - a.row_first;
    attn_keys keys;
    keys.first = tasks[group.y].key_first;
    keys.end = tasks[group.y].key_end;
    attn_state s;
    attn_begin(a, q + row * a.q_stride, at, s);
    attn_walk(a, k_pool + ulong(at.kv_head) * ATTN_HEAD_DIM,
              v_pool + ulong(at.kv_head) * ATTN_V_HEAD_DIM, slots + tasks[group.y].slot_first, keys,
              at, s);
    device float *to = partials + ulong(group.y) * a.n_heads * (ATTN_V_HEAD_DIM + 2);
    attn_join<false>(at, s, shared, to, to + ulong(a.n_heads) * ATTN_V_HEAD_DIM);
}

/* A threadgroup has a row and one head, threads along the head. */
kernel void attn_merge(constant attention_numbers &a [[buffer(0)]],
                       const device attention_merge *merges [[buffer(1)]],
                       const device float *partials [[buffer(2)]],
                       device float *out [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint3 size [[threads_per_threadgroup]]) {
    const ulong row = merges[group.y].row - a.row_first;
    const ulong stride = ulong(a.n_heads) * (ATTN_V_HEAD_DIM + 2);
    const uint n = merges[group.y].n_tasks;
    const device float *part = partials + (merges[group.y].task_first - a.task_first) * stride;
    const device float *accs = part + ulong(group.x) * ATTN_V_HEAD_DIM;
    const device float *sums = part + ulong(a.n_heads) * ATTN_V_HEAD_DIM + group.x * 2;
    device float *to = out + row * a.out_stride + ulong(group.x) * ATTN_V_HEAD_DIM;
    float top = ATTN_LOWEST;
    float sum = 0.0f;
    for (uint i = 0; i < n; i++) top = max(top, sums[i * stride]);
    for (uint i = 0; i < n; i++)
        sum = fma(exp2(sums[i * stride] - top), sums[i * stride + 1], sum);
    for (uint d = thread_index; d < ATTN_V_HEAD_DIM; d += size.x) {
        float acc = 0.0f;
        for (uint i = 0; i < n; i++)
            acc = fma(exp2(sums[i * stride] - top), accs[i * stride + d], acc);
        to[d] = acc / sum;
    }
}

#define ATTN_DECODE_OF(name, T)                                                                    \
    template [[host_name("attn_decode_" name)]] kernel decltype(attn_decode<T>) attn_decode<T>;    \
    template [[host_name("attn_decode_part_" name)]]                                               \
    kernel decltype(attn_decode_part<T>) attn_decode_part<T>;
ATTN_DECODE_OF("f32", float)
ATTN_DECODE_OF("f16", half)
ATTN_DECODE_OF("bf16", bfloat)
