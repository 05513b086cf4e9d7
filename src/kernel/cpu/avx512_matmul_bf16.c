/* avx512_matmul_bf16.c - matrix products of bf16 weights on 16 lanes, class kpair.
 *
 *   y[r, n] = sum over pairs of inputs: fma(x[2i], w[n, 2i], fma(x[2i + 1], w[n, 2i + 1], sum))
 *
 * A vector of a panel holds a pair of bf16 weights for each of its 16 rows. The odd one is a float
 * once the other is masked away, the even one after a shift. Tiles and chains as in
 * avx512_matmul.c, in the order that VDPBF16PS has, and without denormals, as it. */
#include "avx512_tile.h"
#include "float_env.h"

enum { MR_MAX = 6, NP_MAX = 4 };

/* Input 2i + 1 (which = 1) or 2i of 16 rows as floats. */
INLINE __m512 widen(__m512i pairs, const int which) {
    const __m512i mask = _mm512_set1_epi32((int)0xffff0000u);
    return _mm512_castsi512_ps(which ? _mm512_and_si512(pairs, mask)
                                     : _mm512_slli_epi32(pairs, 16));
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    (void)format;
    const size_t panel_bytes = p->w->panel_bytes, n_pairs = panel_pairs(p->w);
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const float *x[MR_MAX];
    __m512 sums[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t i = 0; i < n_pairs; i++) {
        __m512i pairs[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            pairs[n] = _mm512_load_si512(w + (size_t)n * panel_bytes + i * 4 * PANEL_ROWS);
        }
        UNROLL for (int which = 1; which >= 0; which--) {
            __m512 weights[NP_MAX];
            UNROLL for (int n = 0; n < np; n++) {
                weights[n] = widen(pairs[n], which);
            }
            UNROLL for (int m = 0; m < mr; m++) {
                const __m512 value = _mm512_set1_ps(x[m][2 * i + (size_t)which]);
                UNROLL for (int n = 0; n < np; n++) {
                    sums[m][n] = _mm512_fmadd_ps(value, weights[n], sums[m][n]);
                    SETTLE(sums[m][n]);
                }
            }
        }
    }
    avx512_store_tile(p, row, panel, mr, np, sums);
}

void bf16_f32_matmul__avx512(const struct matmul_part *p) {
    const uint64_t env = float_env_flush_denormals();
    avx512_run_tiles(p, PACK_BF16, multiply_tile);
    float_env_restore(env);
}
