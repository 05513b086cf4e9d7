/* norm.metal - RMSNorm and LayerNorm.
 *
 *   norm_rms_f32    y[r, i] (+)= x[r, i] / sqrt(mean_i(x[r, i]^2) + eps) * w[i]
 *   norm_layer_f32  y[r, i] = (x[r, i] - m) / sqrt(mean_i((x[r, i] - m)^2) + eps) * w[i] (+ bias[i])
 *
 * x [n_rows, x_stride], y [n_rows, y_stride], w and bias [width], all float32; y may be x. NORM_SIMDS
 * SIMD-groups share a row, by its width alone, so a row's bits do not depend on the batch:
 *
 *   NORM_SIMDS 1   the threadgroup is several rows, one a SIMD-group; no threadgroup memory
 *   else           the threadgroup is a row; sums meet in threadgroup memory, one barrier a sum
 *
 * A thread has elements lane, lane + 32 NORM_SIMDS ...: neighbours read neighbours, and widths need
 * not be multiples of anything. The variance is summed from differences in a pass of its own, for
 * rows whose mean is far larger than their spread; the second and third read of a row come from the
 * cache. Per element: 4 bytes read (8 where y is added to), 4 written. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "norm_args.h"

using namespace metal;

constant uint NORM_SIMDS [[function_constant(NORM_CONSTANT_SIMDS)]];

/* The row of a SIMD-group, and where in it a thread begins. */
static uint norm_row(uint group, uint simd, uint n_simds) {
    return NORM_SIMDS > 1 ? group : group * n_simds + simd;
}

static uint norm_first(uint simd, uint lane) {
    return NORM_SIMDS > 1 ? simd * 32 + lane : lane;
}

/* The sum over all threads of a row, in each of them; partials [NORM_SIMDS] is used once. */
static float norm_sum(float x, threadgroup float *partials, uint simd, uint lane) {
    x = simd_sum(x);
    if (NORM_SIMDS == 1) return x;
    if (lane == 0) partials[simd] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_sum(lane < NORM_SIMDS ? partials[lane] : 0.0f);
}

kernel void norm_rms_f32(constant norm_sizes &sizes [[buffer(0)]],
                         const device float *x [[buffer(1)]],
                         const device float *w [[buffer(2)]],
                         device float *y [[buffer(3)]],
                         uint group [[threadgroup_position_in_grid]],
                         uint n_simds [[simdgroups_per_threadgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float partials[NORM_SIMDS_MAX];
    const uint row = norm_row(group, simd, n_simds);
    if (row >= sizes.n_rows) return; /* a whole SIMD-group, where none waits for another */
    const device float *from = x + ulong(row) * sizes.x_stride;
    device float *to = y + ulong(row) * sizes.y_stride;
    const uint first = norm_first(simd, lane), step = 32 * NORM_SIMDS;
    float squares = 0.0f;
    for (uint i = first; i < sizes.width; i += step) squares = fma(from[i], from[i], squares);
    const float mean = norm_sum(squares, partials, simd, lane) / float(sizes.width);
    const float inverse = 1.0f / precise::sqrt(mean + sizes.eps);
    for (uint i = first; i < sizes.width; i += step) {
        const float normed = from[i] * inverse * w[i];
        to[i] = sizes.is_added ? to[i] + normed : normed;
    }
}

kernel void norm_layer_f32(constant norm_sizes &sizes [[buffer(0)]],
                           const device float *x [[buffer(1)]],
                           const device float *w [[buffer(2)]],
                           device float *y [[buffer(3)]],
                           const device float *bias [[buffer(4)]],
                           uint group [[threadgroup_position_in_grid]],
                           uint n_simds [[simdgroups_per_threadgroup]],
                           uint simd [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float partials[NORM_SIMDS_MAX];
    threadgroup float square_partials[NORM_SIMDS_MAX];
    const uint row = norm_row(group, simd, n_simds);
    if (row >= sizes.n_rows) return; /* a whole SIMD-group, where none waits for another */
    const device float *from = x + ulong(row) * sizes.x_stride;
    device float *to = y + ulong(row) * sizes.y_stride;
    const uint first = norm_first(simd, lane), step = 32 * NORM_SIMDS;
    float sum = 0.0f, squares = 0.0f;
    for (uint i = first; i < sizes.width; i += step) sum += from[i];
    const float mean = norm_sum(sum, partials, simd, lane) / float(sizes.width);
    for (uint i = first; i < sizes.width; i += step) {
        const float difference = from[i] - mean;
        squares = fma(difference, difference, squares);
    }
    const float variance = norm_sum(squares, square_partials, simd, lane) / float(sizes.width);
    const float inverse = 1.0f / precise::sqrt(variance + sizes.eps);
    for (uint i = first; i < sizes.width; i += step) {
        const float normed = (from[i] - mean) * inverse * w[i];
        to[i] = sizes.has_bias ? normed + bias[i] : normed;
    }
}
