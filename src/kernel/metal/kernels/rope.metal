/* rope.metal - rotary position embedding on Q, on K with its store into the pool, and V into the
 * pool: three kernels that touch disjoint memory and so run side by side, and one that does it all.
 *
 *   (x, y) -> (x cos - y sin, x sin + y cos)   pairs (d, d + rotary_dim/2), or (2d, 2d + 1)
 *
 *   kernel            grid (x, y, z)                                   reads -> writes
 *   rope_q_f32        pairs,                  head groups, rows        q, table -> q
 *   rope_k_pool_*     pairs + tail,           head groups, rows        k, table -> k_pool[slot]
 *   v_to_pool_*       numbers of a row,       rows                     v -> v_pool[slot]
 *   rope_all_*        the widest of these,    groups of Q, K, V, rows  all of it
 *
 * q [rows, q_stride], k [rows, k_stride], v [rows, v_stride] are float32; pools [n_slots, n_kv_heads,
 * head_dim or v_head_dim] float32, float16 or bfloat16, rounded to nearest even, once; the table
 * [n_positions, rotary_dim] holds a position's cosines, then its sines. A head group is ROPE_HEADS
 * heads: one read of cosine and sine serves them all. The tail, [rotary_dim, head_dim) of a head, is
 * copied; Q is turned in place, so its tail is left alone.
 *
 * The table is made on the host, in double: inline trigonometry of position * frequency is off by
 * 8e-3 at position 131,071 in float32, and the exact reductions that cure it do not survive the
 * fast math that Metal's compiler has on by default. What is left here is two products and a sum.
 *
 * A slot below 0 or past the pool writes nothing, a position past the table takes the last row: the
 * runner has refused both, and no batch may reach another's memory even if it had not. Slots times
 * the width of a row exceed 32 bits, so indexes are 64 bits wide. Threads are exactly the grid;
 * there are no barriers and no SIMD-group operations. Per number of K or V: 4 bytes read, 2 or 4
 * written. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "rope_args.h"

using namespace metal;

constant uint ROPE_HEAD_DIM [[function_constant(ROPE_CONSTANT_HEAD_DIM)]];
constant uint ROPE_ROTARY_DIM [[function_constant(ROPE_CONSTANT_ROTARY_DIM)]];
constant bool ROPE_IS_INTERLEAVED [[function_constant(ROPE_CONSTANT_IS_INTERLEAVED)]];
constant uint ROPE_HEADS [[function_constant(ROPE_CONSTANT_HEADS)]]; /* a thread's */
constant uint ROPE_V_HEAD_DIM [[function_constant(ROPE_CONSTANT_V_HEAD_DIM)]];

static bool rope_has_slot(int slot, uint n_slots) {
    return slot >= 0 && uint(slot) < n_slots;
}

/* Where pair `pair` of a head begins, and how far away its other half is. */
static uint rope_first(uint pair) {
    return ROPE_IS_INTERLEAVED ? 2 * pair : pair;
}

static uint rope_distance() {
    return ROPE_IS_INTERLEAVED ? 1 : ROPE_ROTARY_DIM / 2;
}

/* Cosine and sine of a pair at a position. */
static float2 rope_angle(const device float *table, int position, uint n_positions, uint pair) {
    const ulong row = min(uint(position), n_positions - 1);
    const device float *cosines = table + row * ROPE_ROTARY_DIM;
    return float2(cosines[pair], cosines[ROPE_ROTARY_DIM / 2 + pair]);
}

static float2 rope_turn(float x, float y, float2 angle) {
    return float2(x * angle.x - y * angle.y, x * angle.y + y * angle.x);
}

/* Pair `pair` of the heads [first, end) of a row, in place. */
static void rope_turn_heads(device float *row, uint first, uint end, uint pair, float2 angle) {
    for (uint head = first; head < end; head++) {
        device float *x = row + ulong(head) * ROPE_HEAD_DIM + rope_first(pair);
        device float *y = x + rope_distance();
        const float2 turned = rope_turn(*x, *y, angle);
        *x = turned.x;
        *y = turned.y;
    }
}

/* The same from a row of K to its place in the pool; past the pairs, the tail. */
template <typename T>
static void rope_store_heads(const device float *row, device T *place, uint first, uint end,
                             uint at, const device float *table, int position, uint n_positions) {
    const uint half_dim = ROPE_ROTARY_DIM / 2;
    if (at < half_dim) {
        const float2 angle = rope_angle(table, position, n_positions, at);
        for (uint head = first; head < end; head++) {
            const ulong x = ulong(head) * ROPE_HEAD_DIM + rope_first(at), y = x + rope_distance();
            const float2 turned = rope_turn(row[x], row[y], angle);
            place[x] = T(turned.x);
            place[y] = T(turned.y);
        }
        return;
    }
    const uint element = half_dim + at; /* rotary_dim + (at - half_dim) */
    for (uint head = first; head < end; head++) {
        const ulong x = ulong(head) * ROPE_HEAD_DIM + element;
        place[x] = T(row[x]);
    }
}

kernel void rope_q_f32(constant rope_sizes &sizes [[buffer(0)]],
                       const device int *positions [[buffer(1)]],
                       const device float *table [[buffer(2)]],
                       device float *q [[buffer(3)]],
                       uint3 at [[thread_position_in_grid]]) {
    const uint first = at.y * ROPE_HEADS, end = min(first + ROPE_HEADS, sizes.n_heads);
    const float2 angle = rope_angle(table, positions[at.z], sizes.n_positions, at.x);
    rope_turn_heads(q + ulong(at.z) * sizes.q_stride, first, end, at.x, angle);
}

template <typename T>
kernel void rope_k_pool(constant rope_sizes &sizes [[buffer(0)]],
                        const device int *positions [[buffer(1)]],
                        const device float *table [[buffer(2)]],
                        const device float *k [[buffer(3)]],
                        const device int *slots [[buffer(4)]],
                        device T *k_pool [[buffer(5)]],
                        uint3 at [[thread_position_in_grid]]) {
    const int slot = slots[at.z];
    if (!rope_has_slot(slot, sizes.n_slots)) return;
    const uint first = at.y * ROPE_HEADS, end = min(first + ROPE_HEADS, sizes.n_kv_heads);
    const ulong width = ulong(sizes.n_kv_heads) * ROPE_HEAD_DIM;
    rope_store_heads<T>(k + ulong(at.z) * sizes.k_stride, k_pool + ulong(slot) * width, first, end,
                        at.x, table, positions[at.z], sizes.n_positions);
}

template <typename T>
kernel void v_to_pool(constant rope_sizes &sizes [[buffer(0)]],
                      const device float *v [[buffer(1)]],
                      const device int *slots [[buffer(2)]],
                      device T *v_pool [[buffer(3)]],
                      uint2 at [[thread_position_in_grid]]) {
    const int slot = slots[at.y];
    if (!rope_has_slot(slot, sizes.n_slots)) return;
    v_pool[ulong(slot) * sizes.v_width + at.x] = T(v[ulong(at.y) * sizes.v_stride + at.x]);
}

/* Groups of heads along y: those of Q, then those of K, then those of V. A thread whose x is past
 * what its group needs has nothing to do. */
template <typename T>
kernel void rope_all(constant rope_sizes &sizes [[buffer(0)]],
                     const device int *positions [[buffer(1)]],
                     const device float *table [[buffer(2)]],
                     device float *q [[buffer(3)]],
                     const device float *k [[buffer(4)]],
                     const device float *v [[buffer(5)]],
                     const device int *slots [[buffer(6)]],
                     device T *k_pool [[buffer(7)]],
                     device T *v_pool [[buffer(8)]],
                     uint3 at [[thread_position_in_grid]]) {
    const uint half_dim = ROPE_ROTARY_DIM / 2;
    const uint n_q = (sizes.n_heads + ROPE_HEADS - 1) / ROPE_HEADS;
    const uint n_kv = (sizes.n_kv_heads + ROPE_HEADS - 1) / ROPE_HEADS;
    if (at.y < n_q) {
        if (at.x >= half_dim) return;
        const uint first = at.y * ROPE_HEADS, end = min(first + ROPE_HEADS, sizes.n_heads);
        const float2 angle = rope_angle(table, positions[at.z], sizes.n_positions, at.x);
        rope_turn_heads(q + ulong(at.z) * sizes.q_stride, first, end, at.x, angle);
        return;
    }
    const int slot = slots[at.z];
    if (!rope_has_slot(slot, sizes.n_slots)) return;
    const uint group = (at.y - n_q) % n_kv;
    const uint first = group * ROPE_HEADS, end = min(first + ROPE_HEADS, sizes.n_kv_heads);
    if (at.y < n_q + n_kv) {
        if (at.x >= ROPE_HEAD_DIM - half_dim) return;
        const ulong width = ulong(sizes.n_kv_heads) * ROPE_HEAD_DIM;
        rope_store_heads<T>(k + ulong(at.z) * sizes.k_stride, k_pool + ulong(slot) * width, first,
                            end, at.x, table, positions[at.z], sizes.n_positions);
        return;
    }
    if (at.x >= ROPE_V_HEAD_DIM) return;
    const device float *from = v + ulong(at.z) * sizes.v_stride;
    device T *to = v_pool + ulong(slot) * sizes.v_width;
    for (uint head = first; head < end; head++) {
        const ulong x = ulong(head) * ROPE_V_HEAD_DIM + at.x;
        to[x] = T(from[x]);
    }
}

template [[host_name("rope_k_pool_f32")]] kernel decltype(rope_k_pool<float>) rope_k_pool<float>;
template [[host_name("rope_k_pool_f16")]] kernel decltype(rope_k_pool<half>) rope_k_pool<half>;
template [[host_name("rope_k_pool_bf16")]] kernel decltype(rope_k_pool<bfloat>) rope_k_pool<bfloat>;
template [[host_name("v_to_pool_f32")]] kernel decltype(v_to_pool<float>) v_to_pool<float>;
template [[host_name("v_to_pool_f16")]] kernel decltype(v_to_pool<half>) v_to_pool<half>;
template [[host_name("v_to_pool_bf16")]] kernel decltype(v_to_pool<bfloat>) v_to_pool<bfloat>;
template [[host_name("rope_all_f32")]] kernel decltype(rope_all<float>) rope_all<float>;
template [[host_name("rope_all_f16")]] kernel decltype(rope_all<half>) rope_all<half>;
template [[host_name("rope_all_bf16")]] kernel decltype(rope_all<bfloat>) rope_all<bfloat>;
