/* probe_args.h - what probe.metal reads, for both sides. */
#ifndef KERNEL_METAL_PROBE_ARGS_H
#define KERNEL_METAL_PROBE_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

struct probe_args {
    uint32_t n_vectors; /* of 4 floats */
    uint32_t n_threads; /* of the grid */
};

#endif
