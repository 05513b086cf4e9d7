/* selftest.metal - kernels that only the shim's own tests run: one for each thing it promises.
 *
 * Written by the rules of src/kernel/metal/kernels; test_msl_shim.c says what each must give. */
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#include <metal_stdlib>
using namespace metal;

struct selftest_args {
    uint n;
    float scale;
};

constant uint SELFTEST_WIDTH [[function_constant(9000)]];
constant bool SELFTEST_TWICE [[function_constant(9001)]];
constant float SELFTEST_BIAS [[function_constant(9002)]];
constant uint SELFTEST_MAYBE [[function_constant(9003)]];
constant uint SELFTEST_HALF_WIDTH = SELFTEST_WIDTH / 2;
constant float selftest_table[4] = {1.0, 2.5, -3.0, 0.5e1};

static float scaled(float x, float by) {
    return SELFTEST_TWICE ? 2.0 * x * by : x * by;
}

/* y = scaled(x) in each type. */
template <typename T>
kernel void selftest_scale(constant selftest_args &args [[buffer(0)]],
                           const device T *x [[buffer(1)]], device T *y [[buffer(2)]],
                           uint i [[thread_position_in_grid]]) {
    if (i >= args.n) return;
    y[i] = T(scaled(float(x[i]), args.scale) + selftest_table[i % 4]);
}
template [[host_name("selftest_scale_f32")]] kernel decltype(selftest_scale<float>)
    selftest_scale<float>;
template [[host_name("selftest_scale_" "f16")]] kernel decltype(selftest_scale<half>)
    selftest_scale<half>;
template [[host_name("selftest_scale_bf16")]] kernel decltype(selftest_scale<bfloat>)
    selftest_scale<bfloat>;

/* What constants say: width, half of it, bias, and one that may be absent. */
kernel void selftest_constants(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    const uint maybe = is_function_constant_defined(SELFTEST_MAYBE) ? SELFTEST_MAYBE : 7u;
    const float values[4] = {float(SELFTEST_WIDTH), float(SELFTEST_HALF_WIDTH), SELFTEST_BIAS,
                             float(maybe)};
    out[i] = values[i & 3];
}

/* Where a thread is: 12 numbers each. */
kernel void selftest_places(device uint *out [[buffer(0)]], uint3 g [[thread_position_in_grid]],
                            uint3 t [[thread_position_in_threadgroup]],
                            uint3 tg [[threadgroup_position_in_grid]],
                            uint3 grid [[threads_per_grid]],
                            uint3 size [[threads_per_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]],
                            uint sg [[simdgroup_index_in_threadgroup]],
                            ushort index [[thread_index_in_threadgroup]]) {
    const uint at = (g.x + grid.x * (g.y + grid.y * g.z)) * 12;
    const uint values[12] = {t.x, t.y, t.z, tg.x, tg.y, tg.z, size.x, size.y, size.z, lane, sg, index};
    for (uint k = 0; k < 12; k++) out[at + k] = values[k];
}

/* Eight SIMD-group functions of the lane's x. */
kernel void selftest_simd(const device float *x [[buffer(0)]], device float *out [[buffer(1)]],
                          uint i [[thread_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
    const float v = x[i];
    device float *o = out + i * 8;
    o[0] = simd_sum(v);
    o[1] = simd_max(v);
    o[2] = simd_min(v);
    o[3] = simd_shuffle_xor(v, 5);
    o[4] = simd_shuffle_down(v, 3);
    o[5] = simd_shuffle_up(v, 2);
    o[6] = simd_prefix_exclusive_sum(v);
    o[7] = float(popcount(uint(ulong(simd_ballot(lane % 3 == 0)))));
}

/* Divergence: odd lanes take their own sum, then all meet again. */
kernel void selftest_diverge(device float *out [[buffer(0)]], uint i [[thread_position_in_grid]],
                             uint lane [[thread_index_in_simdgroup]]) {
    float x = float(lane);
    if (lane & 1) {
        x = simd_sum(x);
    }
    out[i] = simd_sum(x);
}

/* Each thread writes, all wait, each reads its neighbour's; a variable and an argument. */
kernel void selftest_barrier(const device float *x [[buffer(0)]], device float *out [[buffer(1)]],
                             threadgroup float *shared [[threadgroup(0)]],
                             uint i [[thread_position_in_grid]],
                             uint t [[thread_index_in_threadgroup]],
                             uint n [[threads_per_threadgroup]]) {
    threadgroup float own[128];
    shared[t] = x[i];
    own[t] = 1.0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = shared[(t + 33) % n] * own[(t + 1) % n];
}

/* The same without the barrier. */
kernel void selftest_race(const device float *x [[buffer(0)]], device float *out [[buffer(1)]],
                          threadgroup float *shared [[threadgroup(0)]],
                          uint i [[thread_position_in_grid]],
                          uint t [[thread_index_in_threadgroup]],
                          uint n [[threads_per_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
    shared[t] = x[i] + simd_sum(0.0);
    out[i] = shared[(t + 33) % n] + float(lane) * 0.0;
}

/* Neighbours of a SIMD-group exchange: simd_sum() is no barrier, simdgroup_barrier is one, and one
 * without mem_threadgroup is none. */
template <bool IS_ORDERED>
kernel void selftest_simd_exchange(const device float *x [[buffer(0)]],
                                   device float *out [[buffer(1)]],
                                   threadgroup float *shared [[threadgroup(0)]],
                                   uint t [[thread_index_in_threadgroup]]) {
    shared[t] = x[t] + simd_sum(0.0);
    simdgroup_barrier(IS_ORDERED ? mem_flags::mem_threadgroup : mem_flags::mem_none);
    out[t] = shared[t ^ 1];
}
template [[host_name("selftest_simd_ordered")]] kernel decltype(selftest_simd_exchange<true>)
    selftest_simd_exchange<true>;
template [[host_name("selftest_simd_race")]] kernel decltype(selftest_simd_exchange<false>)
    selftest_simd_exchange<false>;

/* A barrier that one thread does not reach. */
kernel void selftest_early(device float *out [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    if (t == 40) return;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[t] = 1.0;
}

/* out = a b for 8x8 matrices of T, summed in float. */
template <typename T>
kernel void selftest_matrix(const device T *a [[buffer(0)]], const device float *b [[buffer(1)]],
                            device float *out [[buffer(2)]], constant uint &is_transposed [[buffer(3)]],
                            uint g [[threadgroup_position_in_grid]]) {
    simdgroup_matrix<T, 8, 8> ma;
    simdgroup_matrix<float, 8, 8> mb, mc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    simdgroup_load(ma, a + g * 64, 8);
    simdgroup_load(mb, b + g * 64, 8, ulong2(0, 0), is_transposed != 0);
    simdgroup_multiply_accumulate(mc, ma, mb, mc);
    mc.thread_elements()[0] += 0.25;
    simdgroup_store(mc, out + g * 64, 8);
}
template [[host_name("selftest_matrix_f32")]] kernel decltype(selftest_matrix<float>)
    selftest_matrix<float>;
template [[host_name("selftest_matrix_f16")]] kernel decltype(selftest_matrix<half>)
    selftest_matrix<half>;
template [[host_name("selftest_matrix_bf16")]] kernel decltype(selftest_matrix<bfloat>)
    selftest_matrix<bfloat>;

/* A histogram in threadgroup memory, added to device memory; largest and smallest as well. */
[[max_total_threads_per_threadgroup(128)]]
kernel void selftest_atomic(const device uint *x [[buffer(0)]],
                            device atomic_uint *counts [[buffer(1)]],
                            constant uint &n [[buffer(2)]], uint i [[thread_position_in_grid]],
                            uint t [[thread_index_in_threadgroup]],
                            uint size [[threads_per_threadgroup]]) {
    threadgroup atomic_uint bins[16];
    for (uint k = t; k < 16; k += size) atomic_store_explicit(&bins[k], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i < n) {
        atomic_fetch_add_explicit(&bins[x[i] % 16], 1u, memory_order_relaxed);
        atomic_fetch_max_explicit(&counts[16], x[i], memory_order_relaxed);
        atomic_fetch_min_explicit(&counts[17], x[i], memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = t; k < 16; k += size) {
        const uint c = atomic_load_explicit(&bins[k], memory_order_relaxed);
        if (c != 0) atomic_fetch_add_explicit(&counts[k], c, memory_order_relaxed);
    }
}

/* Vectors: constructors, swizzles, conversions, bits. */
kernel void selftest_vector(const device half4 *x [[buffer(0)]], device float4 *out [[buffer(1)]],
                            uint i [[thread_position_in_grid]]) {
    const float4 v = float4(x[i]);
    const float4 w = float4(v.zw, v.xy) + float4(1.0);
    out[i] = fma(v, w, static_cast<float4>(2.0)) + as_type<float4>(as_type<uint4>(v));
}

/* A denormal stays or becomes zero. */
kernel void selftest_denormal(const device float *x [[buffer(0)]], device float *out [[buffer(1)]],
                              uint i [[thread_position_in_grid]]) {
    out[i] = x[i] * 0.5;
}
