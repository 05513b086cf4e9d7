/* gather_args.h - what metal_rows.c tells the kernels of gather.metal; read by C and MSL. */
#ifndef KERNEL_METAL_GATHER_ARGS_H
#define KERNEL_METAL_GATHER_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct gather_sizes {
    uint32_t n_rows;
    uint32_t width;
    uint32_t stride;                        /* elements from row to row of what is written */
    uint32_t n_sampled, n_vocab;            /* of embed */
    uint32_t row_bytes_low, row_bytes_high; /* of embed's matrix; 64 bits */
    float scale;                            /* of embed */
};

#define GATHER_RUN  8 /* elements of a thread of embed */
#define GATHER_ROWS 8 /* rows that a thread of keep_rows has in hand */

#endif
