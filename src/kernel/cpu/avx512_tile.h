/* avx512_tile.h - what the AVX-512 kernels share: the loops of tiles, and the store of a tile row
 * of matmul.
 *
 * Included by avx512_*.c only. */
#ifndef KERNEL_CPU_AVX512_TILE_H
#define KERNEL_CPU_AVX512_TILE_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <immintrin.h>

/* matmul_store() for a vector of 16 sums; the last panel under a mask. Not inlined: gcc tries all
 * combinations of these branches over the stores of a tile, for minutes. */
__attribute__((noinline, unused)) static void avx512_store(const struct matmul_part *p,
                                                           uint32_t row, uint32_t panel,
                                                           __m512 sums) {
    const uint32_t first = panel * PANEL_ROWS, left = p->w->n_out - first;
    const __mmask16 mask = left < PANEL_ROWS ? (__mmask16)((1u << left) - 1) : (__mmask16)0xffff;
    float *y = p->y + (size_t)row * p->y_stride + first;
    if (p->bias) sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(mask, p->bias + first));
    if (p->accumulate) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), sums);
    _mm512_mask_storeu_ps(y, mask, sums);
}

#endif
