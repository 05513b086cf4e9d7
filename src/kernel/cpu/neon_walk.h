/* neon_walk.h - how the NEON matmul kernels walk a part in tiles.
 *
 * A kernel defines, before it includes this,
 *
 *   KIND                         what its tiles are made for: a type known at compile time
 *   VECS_OF_8, VECS_OF_4, VECS_OF_2, VECS_OF_1
 *                                vectors that a tile of so many token rows takes: 1, 2 or 4 of a
 *                                panel, or whole panels (8, 16); 0 for VECS_OF_8: no such tile
 *   multiply_tile(p, kind, row, panel, quarter, mr, nv)
 *                                mr rows from `row` on times nv vectors from that quarter on
 *
 * and has multiply(p, kind). With 32 registers, 16 sums and what they are made of fit, and 16
 * chains keep four units of a latency of four busy, the widest that there are; so a tile is wide
 * where rows are few and tall where they are many. How a part is cut into tiles changes no bit.
 *
 * Included by neon*.c only. The pieces of a tile take more than seven parameters: as constants they
 * unroll it. */
#ifndef KERNEL_CPU_NEON_WALK_H
#define KERNEL_CPU_NEON_WALK_H

#include "neon_tile.h"

/* mr rows times one panel. */
INLINE void multiply_rows(const struct matmul_part *p, const KIND kind, uint32_t row,
                          uint32_t panel, const int mr, const int nv) {
    NO_UNROLL for (uint32_t quarter = 0; quarter < QUARTERS; quarter += (uint32_t)nv)
        multiply_tile(p, kind, row, panel, quarter, mr, nv);
}

INLINE void multiply_panel(const struct matmul_part *p, const KIND kind, uint32_t panel) {
    const uint32_t end = p->row_first + p->n_rows;
    uint32_t row = p->row_first;
    if (VECS_OF_8)
        for (; end - row >= 8; row += 8) multiply_rows(p, kind, row, panel, 8, VECS_OF_8);
    for (; end - row >= 4; row += 4) multiply_rows(p, kind, row, panel, 4, VECS_OF_4);
    for (; end - row >= 2; row += 2)
        multiply_rows(p, kind, row, panel, 2, VECS_OF_2 < QUARTERS ? VECS_OF_2 : QUARTERS);
    if (end > row) multiply_rows(p, kind, row, panel, 1, QUARTERS);
}

INLINE void multiply(const struct matmul_part *p, const KIND kind) {
    const uint32_t end = p->panel_first + p->n_panels;
    const uint32_t panels_of_1 = VECS_OF_1 / QUARTERS, panels_of_2 = VECS_OF_2 / QUARTERS;
    uint32_t panel = p->panel_first;
    if (p->n_rows == 1 && panels_of_1 > 1)
        for (; end - panel >= panels_of_1; panel += panels_of_1)
            multiply_tile(p, kind, p->row_first, panel, 0, 1, VECS_OF_1);
    if (p->n_rows == 2 && panels_of_2 > 1)
        for (; end - panel >= panels_of_2; panel += panels_of_2)
            multiply_tile(p, kind, p->row_first, panel, 0, 2, VECS_OF_2);
    for (; panel < end; panel++) multiply_panel(p, kind, panel);
}

#endif
