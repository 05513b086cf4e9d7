/* probe.metal - kernels that compute next to nothing, to measure what surrounds a kernel: launches,
 * barriers, reading memory. Used by tools/metal_check; no operation calls them.
 *
 *   probe_touch   out[i] += 1                                  a dispatch, and nothing else
 *   probe_read    x [n_vectors of 4 floats] -> a sum a thread  thread t reads t, t + threads, ...
 *
 * Sums are written, so that no reading can be left out. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "probe_args.h"

using namespace metal;

kernel void probe_touch(device uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    out[i] += 1u;
}

kernel void probe_read(const device float4 *x [[buffer(0)]], device float *sums [[buffer(1)]],
                       constant probe_args &args [[buffer(2)]],
                       uint thread_idx [[thread_position_in_grid]]) {
    float4 sum = float4(0.0f);
    for (uint i = thread_idx; i < args.n_vectors; i += args.n_threads) sum += x[i];
    sums[thread_idx] = sum.x + sum.y + sum.z + sum.w;
}
