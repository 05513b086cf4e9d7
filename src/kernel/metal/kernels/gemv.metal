/* gemv.metal - y[r] = W x[r] for up to eight rows of x: what decoding asks for, limited by how fast
 * W is read; so W is read once.
 *
 *   gemv       y[r, n] = sum over k of W[n, k] x[r, k]   (+ bias[n]) (activated) (+ y[r, n])
 *   gemv_pair  y[r, n] = act(the same) * (the same of W_up and bias_up)
 *
 *   W [n_out, n_in] of any type of quants.h, as in the file; x [n_rows, x_stride], y [n_rows,
 *   y_stride] and all sums float32
 *
 * Grid: threadgroups of GEMV_SIMDS SIMD-groups along n. SPLIT of these share OUT rows of W, each
 * takes every SPLIT-th portion of the inputs: rows alone do not fill a GPU where a matrix has few,
 * long ones. A lane reads pieces of 16 weights (two runs of 8 out of the same bytes, quants.h):
 * lane l of a portion reads piece l, so that a SIMD-group reads 512 neighbouring weights of a row
 * at once. Piece i of a block begins at element i * 8 modulo GAP, plus 2 GAP for each GAP passed:
 *
 *     GAP 32:   |i=0|i=1|i=2|i=3| second runs   |i=4|i=5|i=6|i=7| second runs   |  ...
 *
 * A pair's rows are taken in turn, one of W, one of W_up: the sums meet between lanes.
 *
 * Scales are applied to sums over a run, not to each weight: sum of (scale q + min) x = scale (sum
 * of q x) + min (sum of x). Then lanes are added, then SIMD-groups.
 *
 * With one or two rows of x a lane keeps these and runs through the rows of W; with more it keeps
 * W and runs through x: what is kept lives in registers, about 100 either way. Rows past the end,
 * of W or x, are read as the last one and not written. Assumes SIMD-groups of 32 (the host asserts
 * it). Bytes moved: W once, x once per OUT rows of W, from the cache. Not measured on a GPU yet:
 * OUT, SPLIT and GEMV_SIMDS are guesses, set in metal_matmul.c. */
#include <metal_stdlib>

#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#include "formulas.h"
#include "matmul_args.h"

using namespace metal;

#include "quants.h"
#include "unroll.h"

constant uint GEMV_OUT [[function_constant(GEMV_CONSTANT_OUT)]];
constant uint GEMV_ROWS [[function_constant(GEMV_CONSTANT_ROWS)]];
constant uint GEMV_SPLIT [[function_constant(GEMV_CONSTANT_SPLIT)]];

/* Loops over what lives in registers have constant bounds: an array that is indexed by a variable
 * would be put in memory, by a compiler that does not know the function constants yet. */
#define GEMV_EACH(i, n, max)                                                                       \
    METAL_UNROLL for (uint i = 0; i < max; i++) if (i < n)
#define GEMV_EACH_OUT(o) GEMV_EACH(o, GEMV_OUT, GEMV_OUT_MAX)
#define GEMV_EACH_ROW(r) GEMV_EACH(r, GEMV_ROWS, GEMV_ROWS_MAX)

/* 16 inputs, of the two runs of a piece. */
struct gemv_inputs {
    float4 a, b, c, d;
};

/* Where the SIMD-group's rows of W begin. */
struct gemv_rows {
    const device uchar *of[GEMV_OUT_MAX];
};

/* A lane's share of y: of rows of W and of x. */
struct gemv_sums {
    float of[GEMV_OUT_MAX][GEMV_ROWS_MAX];
};

static inline float4 gemv_four(const device float *x) {
    return float4(x[0], x[1], x[2], x[3]);
}

static inline gemv_inputs gemv_load(const device float *x, uint gap) {
    gemv_inputs in;
    in.a = gemv_four(x);
    in.b = gemv_four(x + 4);
    in.c = gemv_four(x + gap);
    in.d = gemv_four(x + gap + 4);
    return in;
}

static inline float gemv_sum(float4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

template <typename W>
static inline float gemv_product(quant_run first, quant_run second, gemv_inputs in) {
    float sum = first.scale * (dot(first.low, in.a) + dot(first.high, in.b));
    sum += second.scale * (dot(second.low, in.c) + dot(second.high, in.d));
    if (W::HAS_MIN) {
        sum += first.minimum * gemv_sum(in.a + in.b);
        sum += second.minimum * gemv_sum(in.c + in.d);
    }
    return sum;
}

/* What a lane has of its SIMD-group's sums: pieces first, first + step, ... of every row. */
template <typename W>
static void gemv_pieces(constant matmul_sizes &sizes, const device float *x,
                        thread gemv_rows &rows, uint first, uint step, thread gemv_sums &sums) {
    const uint gap = W::GAP, pieces = W::BLOCK / 16;
    for (uint p = first; p < sizes.n_in / 16; p += step) {
        const uint block = p / pieces, i = p % pieces;
        const uint j = i * 8 % gap + i * 8 / gap * 2 * gap;
        const ulong at = ulong(block) * W::BYTES;
        const device float *inputs = x + block * W::BLOCK + j;
        if (GEMV_ROWS <= 2) {
            gemv_inputs in[2];
            GEMV_EACH(r, GEMV_ROWS, 2) {
                in[r] = gemv_load(inputs + ulong(min(r, sizes.n_rows - 1)) * sizes.x_stride, gap);
            }
            GEMV_EACH_OUT(o) {
                const quant_run low = W::run(rows.of[o] + at, j);
                const quant_run high = W::run(rows.of[o] + at, j + gap);
                GEMV_EACH(r, GEMV_ROWS, 2) { sums.of[o][r] += gemv_product<W>(low, high, in[r]); }
            }
        } else {
            quant_run low[GEMV_OUT_MAX], high[GEMV_OUT_MAX];
            GEMV_EACH_OUT(o) {
                low[o] = W::run(rows.of[o] + at, j);
                high[o] = W::run(rows.of[o] + at, j + gap);
            }
            GEMV_EACH_ROW(r) {
                const ulong row = min(r, sizes.n_rows - 1);
                const gemv_inputs in = gemv_load(inputs + row * sizes.x_stride, gap);
                GEMV_EACH_OUT(o) { sums.of[o][r] += gemv_product<W>(low[o], high[o], in); }
            }
        }
    }
}

/* Inputs past the last whole piece, one for each lane. */
template <typename W>
static void gemv_rest(constant matmul_sizes &sizes, const device float *x, thread gemv_rows &rows,
                      uint lane, thread gemv_sums &sums) {
    const uint k = sizes.n_in / 16 * 16 + lane;
    if (k >= sizes.n_in) return;
    GEMV_EACH_OUT(o) {
        const float weight = W::element(rows.of[o], k);
        GEMV_EACH_ROW(r) {
            sums.of[o][r] += weight * x[ulong(min(r, sizes.n_rows - 1)) * sizes.x_stride + k];
        }
    }
}

/* Sums of a SIMD-group's rows: lane o * ROWS + r of part 0 has that of row o of W, row r of x. */
template <typename W>
static float gemv_total(constant matmul_sizes &sizes, const device float *x, thread gemv_rows &rows,
                        threadgroup float *shared, uint simd, uint lane) {
    const uint part = simd % GEMV_SPLIT;
    gemv_sums sums;
    GEMV_EACH_OUT(o) {
        GEMV_EACH_ROW(r) { sums.of[o][r] = 0.0f; }
    }
    gemv_pieces<W>(sizes, x, rows, part * 32 + lane, GEMV_SPLIT * 32, sums);
    if (W::IS_PLAIN && part == 0) gemv_rest<W>(sizes, x, rows, lane, sums);
    float total = 0.0f;
    GEMV_EACH_OUT(o) {
        GEMV_EACH_ROW(r) {
            const float sum = simd_sum(sums.of[o][r]);
            if (lane == o * GEMV_ROWS + r) total = sum;
        }
    }
    if (GEMV_SPLIT == 1) return total;
    if (lane < GEMV_SUMS_MAX) shared[simd * GEMV_SUMS_MAX + lane] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (part == 0 && lane < GEMV_SUMS_MAX)
        for (uint s = 1; s < GEMV_SPLIT; s++) total += shared[(simd + s) * GEMV_SUMS_MAX + lane];
    return total;
}

/* The first of `n` outputs of a SIMD-group. */
static inline uint gemv_first(uint group, uint simd, uint n) {
    return (group * (GEMV_SIMDS / GEMV_SPLIT) + simd / GEMV_SPLIT) * n;
}

template <typename W>
[[max_total_threads_per_threadgroup(GEMV_SIMDS * 32)]]
kernel void gemv(constant matmul_sizes &sizes [[buffer(0)]],
                 const device uchar *w [[buffer(1)]],
                 const device float *x [[buffer(2)]],
                 const device float *bias [[buffer(3)]],
                 device float *y [[buffer(4)]],
                 threadgroup float *shared [[threadgroup(0)]],
                 uint group [[threadgroup_position_in_grid]],
                 uint simd [[simdgroup_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]]) {
    const uint first = gemv_first(group, simd, GEMV_OUT);
    gemv_rows rows;
    GEMV_EACH_OUT(o) {
        rows.of[o] = w + ulong(min(first + o, sizes.n_out - 1)) * sizes.row_bytes;
    }
    float total = gemv_total<W>(sizes, x, rows, shared, simd, lane);
    const uint n = first + lane / GEMV_ROWS, r = lane % GEMV_ROWS;
    if (simd % GEMV_SPLIT || lane >= GEMV_OUT * GEMV_ROWS || n >= sizes.n_out || r >= sizes.n_rows)
        return;
    device float *to = y + ulong(r) * sizes.y_stride + n;
    if (sizes.has_bias) total += bias[n];
    if (sizes.activation != MATMUL_NO_ACTIVATION)
        total = formula_activation(sizes.activation, total);
    *to = sizes.accumulate ? *to + total : total;
}

template <typename W>
[[max_total_threads_per_threadgroup(GEMV_SIMDS * 32)]]
kernel void gemv_pair(constant matmul_sizes &sizes [[buffer(0)]],
                      const device uchar *w [[buffer(1)]],
                      const device float *x [[buffer(2)]],
                      const device float *bias [[buffer(3)]],
                      device float *y [[buffer(4)]],
                      const device uchar *w_up [[buffer(5)]],
                      const device float *bias_up [[buffer(6)]],
                      threadgroup float *shared [[threadgroup(0)]],
                      uint group [[threadgroup_position_in_grid]],
                      uint simd [[simdgroup_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
    const uint first = gemv_first(group, simd, GEMV_OUT / 2), last = sizes.n_out - 1;
    gemv_rows rows;
    GEMV_EACH_OUT(o) {
        const ulong at = ulong(min(first + o / 2, last)) * sizes.row_bytes;
        rows.of[o] = (o % 2 ? w_up : w) + at;
    }
    float total = gemv_total<W>(sizes, x, rows, shared, simd, lane);
    const uint o = lane / GEMV_ROWS, r = lane % GEMV_ROWS, n = first + o / 2;
    const bool is_up = o % 2;
    if (is_up ? sizes.has_bias_up : sizes.has_bias)
        total += is_up ? bias_up[min(n, last)] : bias[min(n, last)];
    const float up = simd_shuffle_down(total, ushort(GEMV_ROWS));
    if (simd % GEMV_SPLIT || is_up || o >= GEMV_OUT || n > last || r >= sizes.n_rows) return;
    y[ulong(r) * sizes.y_stride + n] = formula_activation(sizes.activation, total) * up;
}

#define GEMV_TYPE(name, W)                                                                         \
    template [[host_name("gemv_" name)]] kernel decltype(gemv<W>) gemv<W>;                         \
    template [[host_name("gemv_pair_" name)]] kernel decltype(gemv_pair<W>) gemv_pair<W>;
GEMV_TYPE("f32", quant_f32)
GEMV_TYPE("f16", quant_f16)
GEMV_TYPE("bf16", quant_bf16)
GEMV_TYPE("q8_0", quant_q8_0)
GEMV_TYPE("q4_0", quant_q4_0)
GEMV_TYPE("q4_1", quant_q4_1)
GEMV_TYPE("q5_0", quant_q5_0)
GEMV_TYPE("q5_1", quant_q5_1)
GEMV_TYPE("q2_k", quant_q2_k)
GEMV_TYPE("q3_k", quant_q3_k)
GEMV_TYPE("q4_k", quant_q4_k)
GEMV_TYPE("q5_k", quant_q5_k)
GEMV_TYPE("q6_k", quant_q6_k)
