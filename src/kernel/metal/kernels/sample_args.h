/* sample_args.h - what sample.metal reads, for both sides. */
#ifndef KERNEL_METAL_SAMPLE_ARGS_H
#define KERNEL_METAL_SAMPLE_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct metal_sample_args {
    uint32_t width, stride;
};

/* As struct sample_draw of kernel_args.h. */
struct metal_sample_draw {
    uint32_t is_off, top_k;
    float temperature, top_p, min_p, u;
};

/* Values of a digit of a search, each counted in two words of threadgroup memory. */
#define METAL_SAMPLE_BINS 2048
/* A weight of 1 is 2^44, and 2^19 of them are less than 2^64. */
#define METAL_SAMPLE_FRACTION_BITS 44
#define METAL_SAMPLE_WIDTH_MAX     524288

#endif
