/* rope_args.h - what metal_rope.c tells the kernels of rope.metal; read by C and MSL. */
#ifndef KERNEL_METAL_ROPE_ARGS_H
#define KERNEL_METAL_ROPE_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct rope_sizes {
    uint32_t n_heads, n_kv_heads;
    uint32_t q_stride, k_stride, v_stride; /* elements from row to row */
    uint32_t v_width;                      /* numbers of a row that go to the pool of V */
    uint32_t n_slots, n_positions;         /* rows of the pools, rows of the table */
};

/* Indexes of function constants; those of all kernels differ, since all are one library. */
#define ROPE_CONSTANT_HEAD_DIM       100
#define ROPE_CONSTANT_ROTARY_DIM     101
#define ROPE_CONSTANT_IS_INTERLEAVED 102
#define ROPE_CONSTANT_HEADS          103
#define ROPE_CONSTANT_V_HEAD_DIM     104
#define ROPE_CONSTANTS               5

#endif
