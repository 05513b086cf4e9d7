/* avx2_matmul_bf16.c - matrix products of bf16 weights on 8 lanes, class kpair.
 *
 *   y[r, n] = sum over pairs of inputs: fma(x[2i], w[n, 2i], fma(x[2i + 1], w[n, 2i + 1], sum))
 *
 * Lanes run along output rows. A panel has 16 of them: two vectors, each of which holds a pair of
 * bf16 weights in every lane. The odd one is a float once the other is masked away, the even one
 * after a shift: one operation for each vector of floats, as many as there are loads. Tiles and
 * chains as in avx2_matmul.c, in the order that VDPBF16PS has, and without denormals, as it. */
#include "avx2_tile.h"
#include "float_env.h"

enum { MR_MAX = 6, NP_MAX = 4 };

/* Input 2i + 1 (which = 1) or 2i of 8 rows as floats. */
INLINE __m256 widen(__m256i pairs, const int which) {
    const __m256i mask = _mm256_set1_epi32((int)0xffff0000u);
    return _mm256_castsi256_ps(which ? _mm256_and_si256(pairs, mask)
                                     : _mm256_slli_epi32(pairs, 16));
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    (void)format;
    const size_t panel_bytes = p->w->panel_bytes, n_pairs = panel_pairs(p->w);
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const float *x[MR_MAX];
    __m256 low[MR_MAX][NP_MAX], high[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
        UNROLL for (int n = 0; n < np; n++) {
            low[m][n] = high[m][n] = _mm256_setzero_ps();
        }
    }
    for (size_t i = 0; i < n_pairs; i++) {
        UNROLL for (int n = 0; n < np; n++) {
            const __m256i *pairs =
                (const __m256i *)(const void *)(w + (size_t)n * panel_bytes + i * 4 * PANEL_ROWS);
            UNROLL for (int which = 1; which >= 0; which--) {
                const __m256 w_low = widen(_mm256_load_si256(pairs), which);
                const __m256 w_high = widen(_mm256_load_si256(pairs + 1), which);
                UNROLL for (int m = 0; m < mr; m++) {
                    const __m256 value = _mm256_broadcast_ss(x[m] + 2 * i + which);
                    low[m][n] = _mm256_fmadd_ps(value, w_low, low[m][n]);
                    high[m][n] = _mm256_fmadd_ps(value, w_high, high[m][n]);
                    SETTLE(low[m][n]);
                    SETTLE(high[m][n]);
                }
            }
        }
    }
    avx2_store_tile(p, row, panel, mr, np, low, high);
}

void bf16_f32_matmul__avx2(const struct matmul_part *p) {
    const uint64_t env = float_env_flush_denormals();
    avx2_run_tiles(p, PACK_BF16, multiply_tile);
    float_env_restore(env);
}
