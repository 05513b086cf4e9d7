/* neon_tile.h - what the NEON matmul kernels share: where the weights of a tile lie, its sums at
 * the beginning and at the end. A panel of 16 output rows is four vectors, its quarters; a tile is
 * mr token rows times nv vectors.
 *
 * Included by neon*.c only, which define MR_MAX and NV_MAX, the most of both. The pieces of a tile
 * take more than seven parameters: as constants they unroll it. */
#ifndef KERNEL_CPU_NEON_TILE_H
#define KERNEL_CPU_NEON_TILE_H

#include "cpu_kernel.h"
#include "neon_vec.h"

enum { QUARTERS = 4 };

/* w[n]: the tile's vector n in its panel, for vectors of vec_bytes. */
INLINE void find_vectors(const struct matmul_part *p, uint32_t panel, uint32_t quarter,
                         size_t vec_bytes, const int nv, const uint8_t **w_out) {
    UNROLL for (uint32_t n = 0; n < (uint32_t)nv; n++) {
        w_out[n] = p->w->data + (panel + n / QUARTERS) * p->w->panel_bytes +
                   (quarter + n % QUARTERS) * vec_bytes;
    }
}

INLINE void clear_sums(const int mr, const int nv, float32x4_t sums_out[MR_MAX][NV_MAX]) {
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            sums_out[m][n] = vdupq_n_f32(0.0f);
        }
    }
}

/* matmul_store() for the sums of one quarter of a panel. Not inlined: its branches in every store
 * of a tile would be most of the code. */
__attribute__((noinline, unused)) static void store_quarter(const struct matmul_part *p,
                                                            uint32_t row, uint32_t vector,
                                                            float32x4_t sums) {
    const uint32_t first = vector * 4;
    if (first >= p->w->n_out) return;
    const uint32_t n = p->w->n_out - first;
    float *y = p->y + (size_t)row * p->y_stride + first;
    if (n >= 4) {
        if (p->bias) sums = vaddq_f32(sums, vld1q_f32(p->bias + first));
        if (p->accumulate) sums = vaddq_f32(vld1q_f32(y), sums);
        vst1q_f32(y, sums);
        return;
    }
    if (p->bias) sums = vaddq_f32(sums, neon_load_n(p->bias + first, n));
    if (p->accumulate) sums = vaddq_f32(neon_load_n(y, n), sums);
    neon_store_n(y, n, sums);
}

INLINE void store_sums(const struct matmul_part *p, uint32_t row, uint32_t panel, uint32_t quarter,
                       const int mr, const int nv, float32x4_t sums[MR_MAX][NV_MAX]) {
    const uint32_t vector = panel * QUARTERS + quarter;
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            store_quarter(p, row + (uint32_t)m, vector + (uint32_t)n, sums[m][n]);
        }
    }
}

#endif
