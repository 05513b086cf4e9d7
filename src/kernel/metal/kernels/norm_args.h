/* norm_args.h - what metal_rows.c tells the kernels of norm.metal; read by C and MSL. */
#ifndef KERNEL_METAL_NORM_ARGS_H
#define KERNEL_METAL_NORM_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct norm_sizes {
    uint32_t n_rows, width;
    uint32_t x_stride, y_stride; /* elements from row to row */
    uint32_t is_added;           /* RMS: to what y holds */
    uint32_t has_bias;           /* layer norm */
    float eps;
};

/* Index of a function constant; those of all kernels differ, since all are one library. */
#define NORM_CONSTANT_SIMDS 120

#define NORM_SIMDS_MAX 32 /* SIMD-groups of a threadgroup */

#endif
