/* matmul_tiles.h - how the token rows of a part are cut into register tiles: six at a time, then
 * what is left in tiles of 4, 2 and 1.
 *
 * A tile is a function that is inlined with its size fixed, so that its sums live in registers.
 * Which tile computes a row changes no bits: every sum is a chain of its own, over the same inputs
 * in the same order. Included by the tile headers of the instruction sets. */
#ifndef KERNEL_CPU_MATMUL_TILES_H
#define KERNEL_CPU_MATMUL_TILES_H

#include "cpu_kernel.h"
#include "tile_loops.h"

/* Rows [row, row + mr) times panels [panel, panel + np), of weights in `format`. */
typedef void (*tile_fn)(const struct matmul_part *p, enum pack_format format, uint32_t row,
                        uint32_t panel, const int mr, const int np);

/* All rows of the part times np panels. */
INLINE void tile_rows(const struct matmul_part *p, enum pack_format format, uint32_t panel,
                      const int np, tile_fn tile) {
    const uint32_t end = p->row_first + p->n_rows;
    uint32_t row = p->row_first;
    for (; end - row >= 6; row += 6) tile(p, format, row, panel, 6, np);
    for (; end - row >= 4; row += 4) tile(p, format, row, panel, 4, np);
    for (; end - row >= 2; row += 2) tile(p, format, row, panel, 2, np);
    if (end > row) tile(p, format, row, panel, 1, np);
}

#endif
