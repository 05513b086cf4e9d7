/* gemm.metal - y = x W' for nine rows of x and more: what prefill asks for, limited by arithmetic;
 * 8 x 8 matrices of SIMD-groups do it.
 *
 *   y[r, n] = sum over k of x[r, k] W[n, k]   (+ bias[n]) (+ y[r, n])
 *
 *   W [n_out, n_in] of any type of quants.h, as in the file; x [n_rows, x_stride], y [n_rows,
 *   y_stride] and all sums float32
 *
 * Grid: x tiles of GEMM_ROWS rows of x, y tiles of GEMM_OUT rows of W; so threadgroups that run
 * together share a tile of W, and W is read from memory about once. Threads: GEMM_THREADS, four
 * SIMD-groups, of which each makes a quarter of the tile:
 *
 *                n 0 .. 31     32 .. 63
 *   r  0 .. 15   SIMD-group 0  1             in each 2 x 4 matrices of sums
 *     16 .. 31                 2  3
 *
 * Inputs are taken GEMM_IN at a time. All threads turn their part of W into numbers in threadgroup
 * memory (thread t: 16 inputs of row t / 2), and bring x there (8 inputs of row t / 4); 8 x 8
 * blocks lie one after the other, each row by row, so that a matrix is loaded from 64 neighbours.
 * Those of W are loaded transposed. At the end the sums go through threadgroup memory, too, since
 * edges of y are ragged and y may have to be added to.
 *
 * Numbers of W in the tile are S: half where that is exact (f16) or close (quantised types: their
 * scales are halves, 2^-12 of a weight is lost; matrices of half are the fast ones), else float.
 * x stays float: activations of some models do not fit a half. Sums are float. With --precision
 * exact all matrices are float. Rows past the end are read as the last one and not written; inputs
 * past the end are zeros in both, which only plain types have. Not measured on a GPU yet. */
#include <metal_stdlib>
#include <metal_simdgroup_matrix>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "matmul_args.h"

using namespace metal;

#include "quants.h"
#include "unroll.h"

/* Where run `run` (8 inputs) of a row begins in a tile of 8 x 8 blocks, GEMM_IN wide. */
static inline uint gemm_place(uint row, uint run) {
    return (row / 8 * (GEMM_IN / 8) + run) * 64 + row % 8 * 8;
}

template <typename S>
static inline void gemm_put(threadgroup S *to, float4 low, float4 high) {
    METAL_UNROLL
    for (uint i = 0; i < 4; i++) {
        to[i] = S(low[i]);
        to[i + 4] = S(high[i]);
    }
}

/* Inputs [k, k + 8) of a row of W, zeros past n_in. */
template <typename W, typename S>
static inline void gemm_put_weights(threadgroup S *to, const device uchar *row, uint k, uint n_in) {
    if (!W::IS_PLAIN || k + 8 <= n_in) {
        const quant_run run = W::run(row + ulong(k / W::BLOCK) * W::BYTES, k % W::BLOCK);
        gemm_put(to, quant_low(run), quant_high(run));
        return;
    }
    for (uint i = 0; i < 8; i++) to[i] = k + i < n_in ? S(W::element(row, k + i)) : S(0.0f);
}

static inline void gemm_put_inputs(threadgroup float *to, const device float *row, uint k,
                                   uint n_in) {
    if (k + 8 <= n_in) {
        for (uint i = 0; i < 8; i++) to[i] = row[k + i];
        return;
    }
    for (uint i = 0; i < 8; i++) to[i] = k + i < n_in ? row[k + i] : 0.0f;
}

template <typename W, typename S>
[[max_total_threads_per_threadgroup(GEMM_THREADS)]]
kernel void gemm(constant matmul_sizes &sizes [[buffer(0)]],
                 const device uchar *w [[buffer(1)]],
                 const device float *x [[buffer(2)]],
                 const device float *bias [[buffer(3)]],
                 device float *y [[buffer(4)]],
                 threadgroup uchar *shared [[threadgroup(0)]],
                 uint2 tile [[threadgroup_position_in_grid]],
                 uint t [[thread_index_in_threadgroup]],
                 uint simd [[simdgroup_index_in_threadgroup]]) {
    threadgroup S *tile_w = (threadgroup S *)shared;
    threadgroup float *tile_x = (threadgroup float *)(shared + GEMM_OUT * GEMM_IN * sizeof(S));
    threadgroup float *tile_y = (threadgroup float *)shared;
    const uint first_r = tile.x * GEMM_ROWS, first_n = tile.y * GEMM_OUT;
    const device uchar *row_w = w + ulong(min(first_n + t / 2, sizes.n_out - 1)) * sizes.row_bytes;
    const device float *row_x = x + ulong(min(first_r + t / 4, sizes.n_rows - 1)) * sizes.x_stride;
    threadgroup S *put_w = tile_w + gemm_place(t / 2, t % 2 * 2);
    threadgroup float *put_x = tile_x + gemm_place(t / 4, t % 4);
    const uint at_n = simd % 2 * 32, at_r = simd / 2 * 16;

    simdgroup_matrix<float, 8, 8> sums[2][4];
    METAL_UNROLL
    for (uint i = 0; i < 2; i++)
        METAL_UNROLL
        for (uint j = 0; j < 4; j++) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < sizes.n_in; k += GEMM_IN) {
        const uint k_w = k + t % 2 * 16;
        gemm_put_weights<W, S>(put_w, row_w, k_w, sizes.n_in);
        gemm_put_weights<W, S>(put_w + 64, row_w, k_w + 8, sizes.n_in);
        gemm_put_inputs(put_x, row_x, k + t % 4 * 8, sizes.n_in);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint run = 0; run < GEMM_IN / 8; run++) {
            simdgroup_matrix<float, 8, 8> a[2];
            simdgroup_matrix<S, 8, 8> b[4];
            METAL_UNROLL
            for (uint i = 0; i < 2; i++)
                simdgroup_load(a[i], tile_x + gemm_place(at_r + i * 8, run), 8);
            METAL_UNROLL
            for (uint j = 0; j < 4; j++)
                simdgroup_load(b[j], tile_w + gemm_place(at_n + j * 8, run), 8, ulong2(0, 0), true);
            METAL_UNROLL
            for (uint i = 0; i < 2; i++)
                METAL_UNROLL
                for (uint j = 0; j < 4; j++)
                    simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    METAL_UNROLL
    for (uint i = 0; i < 2; i++)
        METAL_UNROLL
        for (uint j = 0; j < 4; j++)
            simdgroup_store(sums[i][j], tile_y + (at_r + i * 8) * GEMM_OUT + at_n + j * 8,
                            GEMM_OUT);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint i = t; i < GEMM_ROWS * GEMM_OUT; i += GEMM_THREADS) {
        const uint r = first_r + i / GEMM_OUT, n = first_n + i % GEMM_OUT;
        if (r >= sizes.n_rows || n >= sizes.n_out) continue;
        device float *to = y + ulong(r) * sizes.y_stride + n;
        const float sum = sizes.has_bias ? tile_y[i] + bias[n] : tile_y[i];
        *to = sizes.accumulate ? *to + sum : sum;
    }
}

#define GEMM_FLOAT(name, W)                                                                        \
    template [[host_name(name)]] kernel decltype(gemm<W, float>) gemm<W, float>;
#define GEMM_HALF(name, W)                                                                         \
    template [[host_name(name)]] kernel decltype(gemm<W, half>) gemm<W, half>;
GEMM_FLOAT("gemm_f32_f32", quant_f32)
GEMM_FLOAT("gemm_f16_f32", quant_f16)
GEMM_FLOAT("gemm_bf16_f32", quant_bf16)
GEMM_FLOAT("gemm_q8_0_f32", quant_q8_0)
GEMM_FLOAT("gemm_q4_0_f32", quant_q4_0)
GEMM_FLOAT("gemm_q4_1_f32", quant_q4_1)
GEMM_FLOAT("gemm_q5_0_f32", quant_q5_0)
GEMM_FLOAT("gemm_q5_1_f32", quant_q5_1)
GEMM_FLOAT("gemm_q2_k_f32", quant_q2_k)
GEMM_FLOAT("gemm_q3_k_f32", quant_q3_k)
GEMM_FLOAT("gemm_q4_k_f32", quant_q4_k)
GEMM_FLOAT("gemm_q5_k_f32", quant_q5_k)
GEMM_FLOAT("gemm_q6_k_f32", quant_q6_k)
GEMM_HALF("gemm_f16_f16", quant_f16)
GEMM_HALF("gemm_q8_0_f16", quant_q8_0)
GEMM_HALF("gemm_q4_0_f16", quant_q4_0)
GEMM_HALF("gemm_q4_1_f16", quant_q4_1)
GEMM_HALF("gemm_q5_0_f16", quant_q5_0)
GEMM_HALF("gemm_q5_1_f16", quant_q5_1)
GEMM_HALF("gemm_q2_k_f16", quant_q2_k)
GEMM_HALF("gemm_q3_k_f16", quant_q3_k)
GEMM_HALF("gemm_q4_k_f16", quant_q4_k)
GEMM_HALF("gemm_q5_k_f16", quant_q5_k)
GEMM_HALF("gemm_q6_k_f16", quant_q6_k)
