/* avx2_tile.h - what the AVX2 matmul kernels share: loops that must be unrolled so that sums stay
 * in registers, which panels a tile takes, and the store of its rows.
 *
 * Included by avx2_*.c only. */
#ifndef KERNEL_CPU_AVX2_TILE_H
#define KERNEL_CPU_AVX2_TILE_H

#include "matmul_tiles.h"

#include <immintrin.h>

/* matmul_store() for two vectors of 8 sums: full panels without a detour through memory. Not
 * inlined: gcc tries all combinations of these branches over the stores of a tile, for minutes. */
__attribute__((noinline, unused)) static void avx2_store(const struct matmul_part *p, uint32_t row,
                                                         uint32_t panel, __m256 low, __m256 high) {
    const uint32_t first = panel * PANEL_ROWS;
    if (p->w->n_out - first < PANEL_ROWS) {
        float sums[PANEL_ROWS];
        _mm256_storeu_ps(sums, low);
        _mm256_storeu_ps(sums + 8, high);
        matmul_store(p, row, panel, sums);
        return;
    }
    float *y = p->y + (size_t)row * p->y_stride + first;
    if (p->bias) {
        low = _mm256_add_ps(low, _mm256_loadu_ps(p->bias + first));
        high = _mm256_add_ps(high, _mm256_loadu_ps(p->bias + first + 8));
    }
    if (p->accumulate) {
        low = _mm256_add_ps(_mm256_loadu_ps(y), low);
        high = _mm256_add_ps(_mm256_loadu_ps(y + 8), high);
    }
    _mm256_storeu_ps(y, low);
    _mm256_storeu_ps(y + 8, high);
}

/* The sums of a tile of mr rows and np <= 4 panels, of which every row has 4. */
INLINE void avx2_store_tile(const struct matmul_part *p, uint32_t row, uint32_t panel, const int mr,
                            const int np, __m256 (*low)[4], __m256 (*high)[4]) {
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            avx2_store(p, row + (uint32_t)m, panel + (uint32_t)n, low[m][n], high[m][n]);
        }
    }
}

/* A part in tiles of one panel; one or two rows alone, which would be too few chains, take four or
 * two panels at once. */
INLINE void avx2_run_tiles(const struct matmul_part *p, enum pack_format format, tile_fn tile) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    if (p->n_rows == 1)
        for (; end - panel >= 4; panel += 4) tile(p, format, p->row_first, panel, 1, 4);
    if (p->n_rows == 2)
        for (; end - panel >= 2; panel += 2) tile(p, format, p->row_first, panel, 2, 2);
    for (; panel < end; panel++) tile_rows(p, format, panel, 1, tile);
}

#endif
