/* metal_grid.h - sizes that operations work out before they dispatch. Threads: any. */
#ifndef KERNEL_METAL_METAL_GRID_H
#define KERNEL_METAL_METAL_GRID_H

#include "metal_int.h"

#define METAL_GROUP_THREADS 256 /* of a threadgroup, where a kernel has no wish of its own */

/* Bytes from the first number of the first row to the last of the last; n_rows > 0. */
static inline size_t metal_rows_bytes(uint32_t n_rows, size_t stride, size_t width,
                                      size_t elem_bytes) {
    return ((n_rows - 1) * stride + width) * elem_bytes;
}

/* Threads of a group for a grid without barriers: as many neighbours along x as fit, then along y,
 * then along z. So a group is nearly full whatever the counts are: one that had to divide an odd
 * number of rows would shrink to a few threads. */
static inline void metal_group(const struct mtl_pipeline *pipeline, const uint32_t grid[3],
                               uint32_t group_out[3]) {
    uint32_t room = mtl_pipeline_threads_max(pipeline);
    if (room > METAL_GROUP_THREADS) room = METAL_GROUP_THREADS;
    for (int i = 0; i < 3; i++) {
        group_out[i] = grid[i] < room ? grid[i] : room;
        room /= group_out[i];
    }
}

#endif
