/* avx2_matmul.c - float matrix products on 8 lanes: f32 and f16 weights, class kseq.
 *
 *   y[r, n] = sum over k of x[r, k] * w[n, k]
 *
 * Lanes run along output rows: a panel has 16 of them, two vectors. A register tile is MR token
 * rows times NP panels; every (token, output) pair is one chain of FMAs over k, ascending, whatever
 * MR and NP are, so they only decide how many chains run side by side. An FMA takes 4 cycles and
 * two start per cycle: 8 chains are needed. One token alone therefore takes four panels at once (8
 * chains), six tokens take one panel (12 chains, 15 of 16 registers).
 *
 * Per k and panel: 64 (f32) or 32 bytes of weights, 2 * MR FMAs. f16 becomes float by VCVTPH2PS.
 * Bound by bandwidth for few tokens, by the FMA units from MR 4 on. */
#include "avx2_tile.h"

enum { MR_MAX = 6, NP_MAX = 4 };

/* The 16 weights of one input as two vectors of floats. */
INLINE void load_weights(enum pack_format format, const uint8_t *panel, size_t k, __m256 *low,
                         __m256 *high) {
    if (format == PACK_F32) {
        const float *w = (const float *)(const void *)panel + k * PANEL_ROWS;
        *low = _mm256_load_ps(w);
        *high = _mm256_load_ps(w + 8);
    } else {
        const __m128i *w = (const __m128i *)(const void *)(panel + k * 2 * PANEL_ROWS);
        *low = _mm256_cvtph_ps(_mm_load_si128(w));
        *high = _mm256_cvtph_ps(_mm_load_si128(w + 1));
    }
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    const size_t panel_bytes = p->w->panel_bytes, n_in = p->w->n_in;
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const float *x[MR_MAX];
    __m256 low[MR_MAX][NP_MAX], high[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
        UNROLL for (int n = 0; n < np; n++) {
            low[m][n] = high[m][n] = _mm256_setzero_ps();
        }
    }
    for (size_t k = 0; k < n_in; k++) {
        UNROLL for (int n = 0; n < np; n++) {
            __m256 w_low, w_high;
            load_weights(format, w + (size_t)n * panel_bytes, k, &w_low, &w_high);
            UNROLL for (int m = 0; m < mr; m++) {
                const __m256 value = _mm256_broadcast_ss(x[m] + k);
                low[m][n] = _mm256_fmadd_ps(value, w_low, low[m][n]);
                high[m][n] = _mm256_fmadd_ps(value, w_high, high[m][n]);
                SETTLE(low[m][n]);
                SETTLE(high[m][n]);
            }
        }
    }
    avx2_store_tile(p, row, panel, mr, np, low, high);
}

void f32_f32_matmul__avx2(const struct matmul_part *part) {
    avx2_run_tiles(part, PACK_F32, multiply_tile);
}

void f16_f32_matmul__avx2(const struct matmul_part *part) {
    avx2_run_tiles(part, PACK_F16, multiply_tile);
}
