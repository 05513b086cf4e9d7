/* avx512_matmul.c - float matrix products on 16 lanes: f32 and f16 weights, class kseq.
 *
 *   y[r, n] = sum over k of x[r, k] * w[n, k]
 *
 * Lanes run along output rows: a panel of 16 is one vector. A register tile is MR token rows times
 * NP panels; every (token, output) pair is one chain of FMAs over k, ascending, whatever MR and NP
 * are. Six tokens times four panels use 24 + 4 of 32 registers and load 10 values per 24 FMAs; one
 * token alone reads four panels side by side. */
#include "avx512_tile.h"

enum { MR_MAX = 6, NP_MAX = 4 };

/* The 16 weights of one input as floats. */
INLINE __m512 load_weights(enum pack_format format, const uint8_t *panel, size_t k) {
    if (format == PACK_F32)
        return _mm512_load_ps((const float *)(const void *)panel + k * PANEL_ROWS);
    return _mm512_cvtph_ps(
        _mm256_load_si256((const __m256i *)(const void *)(panel + k * 2 * PANEL_ROWS)));
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    const size_t panel_bytes = p->w->panel_bytes, n_in = p->w->n_in;
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const float *x[MR_MAX];
    __m512 sums[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t k = 0; k < n_in; k++) {
        __m512 weights[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            weights[n] = load_weights(format, w + (size_t)n * panel_bytes, k);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            const __m512 value = _mm512_set1_ps(x[m][k]);
            UNROLL for (int n = 0; n < np; n++) {
                sums[m][n] = _mm512_fmadd_ps(value, weights[n], sums[m][n]);
                SETTLE(sums[m][n]);
            }
        }
    }
    avx512_store_tile(p, row, panel, mr, np, sums);
}

void f32_f32_matmul__avx512(const struct matmul_part *part) {
    avx512_run_tiles(part, PACK_F32, multiply_tile);
}

void f16_f32_matmul__avx512(const struct matmul_part *part) {
    avx512_run_tiles(part, PACK_F16, multiply_tile);
}
