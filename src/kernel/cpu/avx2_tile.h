/* avx2_tile.h - what the AVX2 matmul kernels share: loops that must be unrolled so that sums stay
 * in registers, and the store of a tile row.
 *
 * Included by avx2_*.c only. */
#ifndef KERNEL_CPU_AVX2_TILE_H
#define KERNEL_CPU_AVX2_TILE_H

#include "cpu_kernel.h"
#include "tile_loops.h"

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

#endif
