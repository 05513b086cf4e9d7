/* act_args.h - what metal_rows.c tells the kernels of act.metal; read by C and MSL. */
#ifndef KERNEL_METAL_ACT_ARGS_H
#define KERNEL_METAL_ACT_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct act_sizes {
    uint32_t in_stride, out_stride; /* elements from row to row */
    float cap;                      /* of act_cap_f32 */
};

/* Indexes of function constants; those of all kernels differ, since all are one library. */
#define ACT_CONSTANT_KIND   130
#define ACT_CONSTANT_HAS_UP 131

/* enum activation of kernel_args.h; metal_rows.c asserts that these are equal. */
#define ACT_SILU      0
#define ACT_GELU      1
#define ACT_GELU_TANH 2
#define ACT_RELU2     3

#endif
