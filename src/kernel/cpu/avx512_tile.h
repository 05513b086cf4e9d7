/* avx512_tile.h - what the AVX-512 kernels share: the loops of tiles, which panels a tile takes,
 * the store of its rows, and what is asked for while a tile is computed.
 *
 * Included by avx512_*.c and amx_*.c only. */
#ifndef KERNEL_CPU_AVX512_TILE_H
#define KERNEL_CPU_AVX512_TILE_H

#include "matmul_tiles.h"

#include <immintrin.h>

enum { AVX512_I8_PANELS = 3 }; /* side by side, of int8 products with many tokens */

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

/* The sums of a tile of mr rows and np <= 4 panels, of which every row has 4. */
INLINE void avx512_store_tile(const struct matmul_part *p, uint32_t row, uint32_t panel,
                              const int mr, const int np, __m512 (*sums)[4]) {
    if (!p->bias && p->w->n_out / PANEL_ROWS >= panel + (uint32_t)np) { /* as nearly always */
        float *y = p->y + (size_t)row * p->y_stride + (size_t)panel * PANEL_ROWS;
        const __mmask16 old = p->accumulate ? (__mmask16)0xffff : 0;
        UNROLL for (int m = 0; m < mr; m++, y += p->y_stride) {
            UNROLL for (int n = 0; n < np; n++) {
                float *at = y + n * PANEL_ROWS;
                const __m512 sum =
                    _mm512_mask_add_ps(sums[m][n], old, _mm512_maskz_loadu_ps(old, at), sums[m][n]);
                _mm512_storeu_ps(at, sum);
            }
        }
        return;
    }
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            avx512_store(p, row + (uint32_t)m, panel + (uint32_t)n, sums[m][n]);
        }
    }
}

/* The sums of n_rows rows and np panels out of memory. */
INLINE void avx512_store_rows(const struct matmul_part *p, uint32_t row, uint32_t n_rows,
                              uint32_t panel, const int np,
                              const __m512 (*sums)[AVX512_I8_PANELS]) {
    if (p->bias || p->w->n_out / PANEL_ROWS < panel + (uint32_t)np) {
        for (uint32_t m = 0; m < n_rows; m++)
            for (int n = 0; n < np; n++) avx512_store(p, row + m, panel + (uint32_t)n, sums[m][n]);
        return;
    }
    float *y = p->y + (size_t)row * p->y_stride + (size_t)panel * PANEL_ROWS;
    const __mmask16 old = p->accumulate ? (__mmask16)0xffff : 0;
    for (uint32_t m = 0; m < n_rows; m++, y += p->y_stride) {
        UNROLL for (int n = 0; n < np; n++) {
            float *at = y + n * PANEL_ROWS;
            const __m512 before = _mm512_maskz_loadu_ps(old, at);
            _mm512_storeu_ps(at, _mm512_mask_add_ps(sums[m][n], old, before, sums[m][n]));
        }
    }
}

/* What is asked for while the tokens pass by some panels: the panels that come next, spread over
 * the steps of all tiles, so that these do not wait for memory. */
struct read_ahead {
    const uint8_t *next;
    size_t n_lines; /* a step */
};

/* Up to next_max panels from `panel` on, or what comes behind the part, in n_steps steps. */
INLINE struct read_ahead avx512_plan_ahead(const struct matmul_part *p, uint32_t panel,
                                           uint32_t next_max, size_t n_steps) {
    const uint32_t n_left = p->panel_first + p->n_panels - panel;
    const size_t most = next_max * p->w->panel_bytes;
    const size_t left = n_left ? n_left * p->w->panel_bytes : p->next_bytes;
    const size_t n_lines = ((left < most ? left : most) + 63) / 64;
    return (struct read_ahead){.next = n_left ? p->w->data + panel * p->w->panel_bytes : p->next,
                               .n_lines = n_steps ? (n_lines + n_steps - 1) / n_steps : 0};
}

INLINE void avx512_ask_panels(struct read_ahead *ahead) {
    for (size_t i = 0; i < ahead->n_lines; i++, ahead->next += 64)
        _mm_prefetch((const char *)ahead->next, _MM_HINT_T1);
}

/* The lines that a row of np panels will be stored to. Stores that miss wait for each other, and
 * all later ones behind them. */
INLINE void avx512_ask_row(const struct matmul_part *p, uint32_t row, uint32_t panel,
                           const int np) {
    const float *y = p->y + (size_t)row * p->y_stride + (size_t)panel * PANEL_ROWS;
    UNROLL for (int n = 0; n < np; n++) {
        __builtin_prefetch(y + n * PANEL_ROWS, /*rw=*/1);
    }
}

/* A part in tiles of four panels, the last panels one by one. */
INLINE void avx512_run_tiles(const struct matmul_part *p, enum pack_format format, tile_fn tile) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    for (; end - panel >= 4; panel += 4) tile_rows(p, format, panel, 4, tile);
    for (; panel < end; panel++) tile_rows(p, format, panel, 1, tile);
}

#endif
