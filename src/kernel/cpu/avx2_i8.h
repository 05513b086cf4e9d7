/* avx2_i8.h - integer matrix products on 256 bits: what the variants for AVX2 and for VNNI without
 * AVX-512 share. Every quantised weight type, class kseq_i8. A variant defines, before it includes
 * this,
 *
 *   dot_block(form, unit, part, act, act_stride, mr, dots)
 *                      dots[m][half] = integer dot products of scale block `part` of a unit with
 *                      the activations of token m, corrected for the offset
 *   DOTS_HAVE_BASE(form) whether they start from INT_BASE_BITS (struct act_block), too
 *
 * after including avx2_quants.h, and calls multiply_quants().
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a) * d[n], s[r], y[r, n])      blocks ascending
 *
 * A vector of weights is 8 output rows times 4 inputs, a panel two of them; the 4 activations are
 * broadcast. A tile is MR tokens times one panel; its float sums stay in registers or, from MR 4
 * on, partly on the stack, touched once per block.
 *
 * Few tokens read the quants as they lie, which costs up to five operations a vector. Where there
 * are more tiles than one, some hundred inputs of a panel are opened first, once for up to
 * OPEN_ROWS tokens, and the tiles read these; their float sums wait in memory from then till the
 * next inputs. Opening costs about what a tile of two tokens does.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it.
 * Included by avx2_matmul_i8.c and avxvnni_matmul_i8.c only. */
#ifndef KERNEL_CPU_AVX2_I8_H
#define KERNEL_CPU_AVX2_I8_H

#include "avx2_quants.h"
#include "avx2_tile.h"
#include "quant_kinds.h"

enum {
    OPEN_ROWS_MIN = 7, /* more than a tile takes */
    OPEN_ROWS = 96,    /* a few more, so that what is left is none or OPEN_ROWS_MIN */
    LINE_BYTES = 64,
    AHEAD_BYTES = 36 * 64 /* asked for by a few tokens */
};

/* One scale block of a panel into the sums of mr tokens; act: their blocks of 32. */
INLINE void add_block(const struct quant_form form, const struct quant_block *at,
                      const struct act_block *act, size_t act_stride, const int part, const int mr,
                      __m256 (*sums)[HALVES]) {
    __m256i dots[MR_MAX][HALVES];
    dot_block(form, at->unit, part, act, act_stride, mr, dots);
    UNROLL for (int half = 0; half < HALVES; half++) {
        const __m256 d = load_scales(form, at, 0, half);
        const __m256 base = _mm256_mul_ps(d, _mm256_set1_ps(-INT_BASE));
        const bool has_base = DOTS_HAVE_BASE(form);
        const __m256 minimum = form.has_min ? load_scales(form, at, 1, half) : d;
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const __m256 scaled = has_base
                                      ? _mm256_fmadd_ps(_mm256_castsi256_ps(dots[m][half]), d, base)
                                      : _mm256_mul_ps(_mm256_cvtepi32_ps(dots[m][half]), d);
            __m256 sum = sums[m][half];
            if (form.has_min)
                sum = _mm256_fmadd_ps(minimum, _mm256_broadcast_ss(&block->sum[part]), sum);
            sums[m][half] = _mm256_fmadd_ps(scaled, _mm256_broadcast_ss(&block->scale), sum);
        }
    }
}

/* Few tokens wait for memory: the unit's share of a chunk ahead is asked for. */
INLINE void prefetch_unit(const struct quant_form form, const uint8_t *chunk, size_t unit) {
    const size_t bytes = quant_chunk_bytes(form) / quant_chunk_units(form);
    const uint8_t *next = chunk + unit * bytes + AHEAD_BYTES;
    for (size_t at = 0; at < bytes; at += 64) _mm_prefetch((const char *)next + at, _MM_HINT_T0);
}

/* Units [0, n_units) of a chunk. */
INLINE void add_chunk(const struct quant_form form, const uint8_t *chunk, size_t n_units,
                      const struct act_block *act, size_t act_stride, const int mr,
                      __m256 (*sums)[HALVES]) {
    for (size_t unit = 0; unit < n_units; unit++, act++) {
        if (form.scales != SCALES_FLOATS) prefetch_unit(form, chunk, unit);
        UNROLL for (int part = 0; part < ACT_BLOCK / (int)form.block; part++) {
            const struct quant_block at = quant_find_block(form, chunk, unit, (uint32_t)part);
            add_block(form, &at, act, act_stride, part, mr, sums);
        }
    }
}

/* ---- tiles that read quants as they lie ---- */

INLINE void multiply_tile(const struct matmul_part *p, const struct quant_form form, uint32_t row,
                          uint32_t panel, const int mr) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, in_chunk = quant_chunk_units(form);
    const uint8_t *w = p->w->data + (size_t)panel * p->w->panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_units;
    __m256 sums[MR_MAX][HALVES];
    UNROLL for (int m = 0; m < mr; m++) {
        sums[m][0] = sums[m][1] = _mm256_setzero_ps();
    }
    for (size_t unit = 0; unit < n_units; unit += in_chunk, w += quant_chunk_bytes(form)) {
        const size_t left = n_units - unit;
        add_chunk(form, w, left < in_chunk ? left : in_chunk, act + unit, n_units, mr, sums);
    }
    UNROLL for (int m = 0; m < mr; m++) {
        avx2_store(p, row + (uint32_t)m, panel, sums[m][0], sums[m][1]);
    }
}

INLINE void multiply_rows(const struct matmul_part *p, const struct quant_form form,
                          uint32_t panel) {
    const uint32_t end = p->row_first + p->n_rows;
    uint32_t row = p->row_first;
    if (form.low_bits == 8 || OPEN_ROWS_MIN > 6)
        for (; end - row >= 6; row += 6) multiply_tile(p, form, row, panel, 6);
    for (; end - row >= 4; row += 4) multiply_tile(p, form, row, panel, 4);
    for (; end - row >= 2; row += 2) multiply_tile(p, form, row, panel, 2);
    if (end > row) multiply_tile(p, form, row, panel, 1);
}

/* ---- tiles that read opened ones ---- */

/* An opened chunk into the sums of mr tokens, which are in memory. */
INLINE void add_opened(const struct quant_form form, const uint8_t *opened, size_t n_units,
                       const struct act_block *act, size_t act_stride, const int mr,
                       __m256 (*waiting)[HALVES]) {
    __m256 sums[MR_MAX][HALVES];
    UNROLL for (int m = 0; m < mr; m++) {
        sums[m][0] = waiting[m][0];
        sums[m][1] = waiting[m][1];
    }
    add_chunk(quant_opened(form), opened, n_units, act, act_stride, mr, sums);
    UNROLL for (int m = 0; m < mr; m++) {
        waiting[m][0] = sums[m][0];
        waiting[m][1] = sums[m][1];
    }
}

/* n_rows rows times an opened chunk. While they pass by, what is opened next is asked for: n_lines
 * from `next` on. */
INLINE void add_opened_rows(const struct quant_form form, const uint8_t *opened, size_t n_units,
                            const struct act_block *act, size_t act_stride, uint32_t n_rows,
                            __m256 (*sums)[HALVES], const uint8_t *next, size_t n_lines) {
    const size_t n_ahead = (n_lines + n_rows / 6 - 1) / (n_rows / 6);
    uint32_t m = 0;
    for (; n_rows - m >= 6; m += 6) {
        for (size_t i = 0; i < n_ahead; i++, next += LINE_BYTES)
            _mm_prefetch((const char *)next, _MM_HINT_T1);
        add_opened(form, opened, n_units, act + m * act_stride, act_stride, 6, sums + m);
    }
    for (; n_rows - m >= 4; m += 4)
        add_opened(form, opened, n_units, act + m * act_stride, act_stride, 4, sums + m);
    for (; n_rows - m >= 2; m += 2)
        add_opened(form, opened, n_units, act + m * act_stride, act_stride, 2, sums + m);
    if (n_rows > m)
        add_opened(form, opened, n_units, act + m * act_stride, act_stride, 1, sums + m);
}

/* n_rows rows, from `row` on, OPEN_ROWS_MIN of them or more, times one panel. */
INLINE void multiply_opened(const struct matmul_part *p, const struct quant_form form, uint32_t row,
                            uint32_t n_rows, uint32_t panel) {
    const size_t n_units = p->w->n_in / ACT_BLOCK;
    const size_t n_chunks = OPEN_UNITS / quant_chunk_units(form);
    const size_t bytes = n_chunks * quant_chunk_bytes(form);
    const uint8_t *w = p->w->data + (size_t)panel * p->w->panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_units;
    _Alignas(64) uint8_t opened[OPEN_BYTES];
    __m256 sums[OPEN_ROWS + OPEN_ROWS_MIN][HALVES];
    for (uint32_t m = 0; m < n_rows; m++) sums[m][0] = sums[m][1] = _mm256_setzero_ps();
    for (size_t unit = 0; unit < n_units; unit += OPEN_UNITS, act += OPEN_UNITS, w += bytes) {
        const size_t n = n_units - unit < OPEN_UNITS ? n_units - unit : OPEN_UNITS;
        open_units(form, w, n, opened);
        add_opened_rows(form, opened, n, act, n_units, n_rows, sums, w + bytes, bytes / LINE_BYTES);
    }
    for (uint32_t m = 0; m < n_rows; m++) avx2_store(p, row + m, panel, sums[m][0], sums[m][1]);
}

INLINE void multiply(const struct matmul_part *p, const struct quant_form form) {
    const uint32_t end = p->row_first + p->n_rows;
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        if (p->n_rows < OPEN_ROWS_MIN || form.low_bits == 8) {
            multiply_rows(p, form, panel);
            continue;
        }
        for (uint32_t row = p->row_first, n; row < end; row += n) {
            n = end - row < OPEN_ROWS + OPEN_ROWS_MIN ? end - row : OPEN_ROWS;
            multiply_opened(p, form, row, n, panel);
        }
    }
}

#endif
