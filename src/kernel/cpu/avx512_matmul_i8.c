/* avx512_matmul_i8.c - integer matrix products with VNNI: every quantised weight type, class
 * kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a), d[n] * s[r], y[r, n])      blocks ascending
 *
 * VPDPBUSD multiplies 4 unsigned with 4 signed bytes per lane and adds them to 32 bits without
 * saturation: just what the pack holds (quants with an offset, 16 output rows times 4 inputs a
 * vector), for quants up to 255. The correction for the offset is what the sum starts from. A tile
 * is MR tokens times NP panels: 6 x 2 are 12 integer chains (4-5 cycles of latency), one token
 * reads four panels side by side. Per block of 32 inputs, token and panel: 8 VPDPBUSD and 3 or 4
 * float operations.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx512_tile.h"
#include "vnni_kinds.h"

enum { MR_MAX = 6, NP_MAX = 4, GROUP_BYTES = 4 * PANEL_ROWS };

/* Group g of a block: 4 inputs of 16 rows. */
INLINE __m512i load_group(const struct i8_kind kind, const uint8_t *w, int g) {
    if (!kind.is_nibbles) return _mm512_loadu_si512(w + g * GROUP_BYTES);
    const __m512i both = _mm512_loadu_si512(w + g % 4 * GROUP_BYTES);
    const __m512i moved = g < 4 ? both : _mm512_srli_epi16(both, 4);
    return _mm512_and_si512(moved, _mm512_set1_epi8(15));
}

/* Scales (which = 0) or minimums (which = 1) of a block. */
INLINE __m512 load_scales(const struct i8_kind kind, const uint8_t *scales, int which) {
    if (!kind.has_half_scales)
        return _mm512_loadu_ps((const float *)(const void *)scales + which * PANEL_ROWS);
    const uint8_t *at = scales + which * 2 * PANEL_ROWS;
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* One token waits for memory: a block two ahead is asked for. */
INLINE void prefetch_block(const struct i8_kind kind, const uint8_t *w) {
    const int scale_bytes = PANEL_ROWS * (kind.has_half_scales ? 2 : 4) * (kind.has_min ? 2 : 1);
    const int bytes = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1) + scale_bytes;
    UNROLL for (int at = 0; at < bytes; at += 64) {
        _mm_prefetch((const char *)w + 2 * bytes + at, _MM_HINT_T0);
    }
}

/* One scale block of np panels into the sums of mr tokens; act: their blocks of 32. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                      const struct act_block *act, size_t act_stride, const int part, const int mr,
                      const int np, __m512 sums[MR_MAX][NP_MAX]) {
    __m512i dots[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            dots[m][n] = _mm512_set1_epi32(act[(size_t)m * act_stride].start[part]);
        }
    }
    UNROLL for (int n = 0; mr == 1 && n < np; n++) {
        prefetch_block(kind, w + (size_t)n * panel_bytes);
    }
    UNROLL for (int g = 0; g < kind.block / 4; g++) {
        __m512i quants[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            quants[n] = load_group(kind, w + (size_t)n * panel_bytes, g);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = act[(size_t)m * act_stride].q + part * kind.block + g * 4;
            UNROLL for (int n = 0; n < np; n++) {
                dots[m][n] =
                    _mm512_dpbusd_epi32(dots[m][n], quants[n], _mm512_set1_epi32(load_quad(q)));
            }
        }
    }
    UNROLL for (int n = 0; n < np; n++) {
        const int scales_at = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
        const uint8_t *scales = w + (size_t)n * panel_bytes + scales_at;
        const __m512 d = load_scales(kind, scales, 0);
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block->scale));
            sums[m][n] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m][n]), scale, sums[m][n]);
            if (!kind.has_min) continue;
            const __m512 minimum = load_scales(kind, scales, 1);
            sums[m][n] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(block->sum[part]), sums[m][n]);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, panel_bytes = p->w->panel_bytes;
    const size_t block_bytes = p->w->block_bytes;
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_blocks;
    __m512 sums[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t b = 0; b < n_blocks; b++, act++) {
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            add_block(kind, w, panel_bytes, act, n_blocks, part, mr, np, sums);
            w += block_bytes;
        }
    }
    avx512_store_tile(p, row, panel, mr, np, sums);
}

INLINE void multiply_panels(const struct matmul_part *p, const struct i8_kind kind, uint32_t panel,
                            const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    uint32_t row = p->row_first;
    for (; end - row >= 6; row += 6) multiply_tile(p, kind, row, panel, 6, np);
    for (; end - row >= 4; row += 4) multiply_tile(p, kind, row, panel, 4, np);
    for (; end - row >= 2; row += 2) multiply_tile(p, kind, row, panel, 2, np);
    if (end > row) multiply_tile(p, kind, row, panel, 1, np);
}

INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    if (p->n_rows == 1)
        for (; end - panel >= 4; panel += 4) multiply_tile(p, kind, p->row_first, panel, 1, 4);
    for (; end - panel >= 2; panel += 2) multiply_panels(p, kind, panel, 2);
    if (panel < end) multiply_panels(p, kind, panel, 1);
}

void i4_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i4(p);
}

void i8_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i8(p);
}
