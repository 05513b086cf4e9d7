/* avx512bf16_matmul.c - matrix products of bf16 weights with VDPBF16PS, class kpair.
 *
 *   y[r, n] = sum over pairs of inputs: fma(x[2i], w[n, 2i], fma(x[2i + 1], w[n, 2i + 1], sum))
 *
 * That is what the instruction computes in each of 16 lanes, the odd input first, each product
 * added with one rounding, denormals taken for zeros. So one load of a panel and one broadcast of a
 * pair of activations serve two inputs of 16 output rows, and nothing is converted. Tiles as in
 * avx512_matmul.c: 24 chains for six tokens, four for one. */
#include "avx512_tile.h"
#include "float_env.h"

#include <string.h>

enum { MR_MAX = 6, NP_MAX = 4 };

INLINE int32_t load_pair(const uint16_t *x) {
    int32_t pair;
    memcpy(&pair, x, sizeof pair);
    return pair;
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    (void)format;
    const size_t panel_bytes = p->w->panel_bytes, n_pairs = panel_pairs(p->w);
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const uint16_t *x[MR_MAX];
    __m512 sums[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.halves + (size_t)(row + (uint32_t)m) * p->a.x_stride;
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t i = 0; i < n_pairs; i++) {
        __m512i pairs[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            pairs[n] = _mm512_load_si512(w + (size_t)n * panel_bytes + i * 4 * PANEL_ROWS);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            const __m512bh value = (__m512bh)_mm512_set1_epi32(load_pair(x[m] + 2 * i));
            UNROLL for (int n = 0; n < np; n++) {
                sums[m][n] = _mm512_dpbf16_ps(sums[m][n], (__m512bh)pairs[n], value);
                SETTLE(sums[m][n]);
            }
        }
    }
    avx512_store_tile(p, row, panel, mr, np, sums);
}

void bf16_f32_matmul__avx512bf16(const struct matmul_part *p) {
    const uint64_t env = float_env_flush_denormals();
    avx512_run_tiles(p, PACK_BF16, multiply_tile);
    float_env_restore(env);
}
