/* matmul_args.h - what metal_matmul.c tells the kernels of gemv.metal and gemm.metal; read by C and
 * MSL. */
#ifndef KERNEL_METAL_MATMUL_ARGS_H
#define KERNEL_METAL_MATMUL_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

/* y[r] = W x[r] (+ bias) (+ y[r]) for n_rows rows. Strides in elements. */
struct matmul_sizes {
    uint32_t n_out, n_in, n_rows;
    uint32_t x_stride, y_stride;
    uint32_t row_bytes; /* of W */
    uint32_t has_bias, accumulate;
    /* gemv.metal alone: */
    uint32_t activation; /* ACT_* of act_args.h, or none */
    uint32_t has_bias_up;
};
#define MATMUL_NO_ACTIVATION 4

/* gemv.metal. Indexes of function constants; those of all kernels differ, since all are one
 * library. */
#define GEMV_CONSTANT_OUT   200 /* rows of W that a SIMD-group has, or of a pair: 2 or 4 */
#define GEMV_CONSTANT_ROWS  201 /* rows of x, n_rows or more: 1 .. GEMV_ROWS_MAX */
#define GEMV_CONSTANT_SPLIT 202 /* SIMD-groups that share a row's inputs: divides GEMV_SIMDS */
#define GEMV_CONSTANTS      3
#define GEMV_OUT_MAX        4
#define GEMV_ROWS_MAX       8
#define GEMV_SUMS_MAX       16 /* of a SIMD-group: OUT * ROWS may not exceed it */
#define GEMV_SIMDS          4  /* of a threadgroup */
#define GEMV_SHARED_BYTES   (GEMV_SIMDS * GEMV_SUMS_MAX * 4)

/* gemm.metal. A threadgroup makes a tile of y: GEMM_ROWS rows, GEMM_OUT columns. */
#define GEMM_ROWS    32
#define GEMM_OUT     64
#define GEMM_IN      32 /* inputs at a time */
#define GEMM_THREADS 128
/* The tiles of W (half or float) and x (float); at the end, a tile of y takes their place. */
#define GEMM_SHARED_F16 (GEMM_OUT * GEMM_IN * 2 + GEMM_ROWS * GEMM_IN * 4)
#define GEMM_SHARED_F32 (GEMM_OUT * GEMM_IN * 4 + GEMM_ROWS * GEMM_IN * 4)

#endif
