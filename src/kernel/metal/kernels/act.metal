/* act.metal - what is done to each element by itself: activations, gated or not, and the soft cap.
 *
 *   act_f32      out[r, i] = act(x[r, i]) (* up[r, i])
 *   act_cap_f32  x[r, i] = cap * tanh(x[r, i] / cap)
 *
 * x, up [n_rows, in_stride], out [n_rows, out_stride], float32; out may be x. The grid is (width,
 * n_rows), exactly, a thread an element; which activation, and whether there is an `up`, are
 * constants of the pipeline. NaN stays NaN. Per element: 4 or 8 bytes read, 4 written. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "act_args.h"
#include "formulas.h"

using namespace metal;

constant uint ACT_KIND [[function_constant(ACT_CONSTANT_KIND)]];
constant bool ACT_HAS_UP [[function_constant(ACT_CONSTANT_HAS_UP)]];

kernel void act_f32(constant act_sizes &sizes [[buffer(0)]],
                    const device float *x [[buffer(1)]],
                    const device float *up [[buffer(2)]],
                    device float *out [[buffer(3)]],
                    uint2 at [[thread_position_in_grid]]) {
    const ulong from = ulong(at.y) * sizes.in_stride + at.x;
    const float y = formula_activation(ACT_KIND, x[from]);
    out[ulong(at.y) * sizes.out_stride + at.x] = ACT_HAS_UP ? y * up[from] : y;
}

kernel void act_cap_f32(constant act_sizes &sizes [[buffer(0)]],
                        device float *x [[buffer(1)]],
                        uint2 at [[thread_position_in_grid]]) {
    const ulong i = ulong(at.y) * sizes.in_stride + at.x;
    x[i] = sizes.cap * formula_tanh(x[i] / sizes.cap);
}
