/* ref_matmul.c - matrix products in plain C: the specification of the classes kseq and kseq_i8.
 *
 *   y[r, n] = sum over k of x[r, k] * w[n, k]
 *
 * kseq: one chain of fused multiply-adds over k, ascending, from 0. kseq_i8: per scale block the
 * integer dot product of quants, which is exact in any order, then one fma with the product of both
 * scales (and one with the minimum). Vector variants run 8 or 16 of these chains side by side, one
 * output row per lane, and so give the same bits; that is all there is to the promise that a token
 * alone, in a batch, in a chunk and with any number of threads gets the same numbers.
 *
 * Slow: without FMA instructions in the build each step is a call of fmaf(). It serves machines
 * below AVX2 (with a warning) and tests. */
#include "cpu_kernel.h"

#include <math.h>

static inline float load_weight(const struct weight *w, const uint8_t *panel, size_t k,
                                uint32_t row) {
    const float *f = (const float *)(const void *)panel + k * PANEL_ROWS;
    const uint16_t *h = (const uint16_t *)(const void *)panel + k * PANEL_ROWS;
    if (w->format == PACK_F32) return f[row];
    if (w->format == PACK_F16) return dtype_f16_to_f32(h[row]);
    return dtype_bf16_to_f32(h[row % 8 * 2 + row / 8]);
}

static void multiply_floats(const struct matmul_part *p) {
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        const uint8_t *data = p->w->data + (size_t)panel * p->w->panel_bytes;
        for (uint32_t row = p->row_first; row < p->row_first + p->n_rows; row++) {
            const float *x = p->a.x + (size_t)row * p->a.x_stride;
            float sums[PANEL_ROWS] = {0};
            for (uint32_t k = 0; k < p->w->n_in; k++)
                for (uint32_t i = 0; i < PANEL_ROWS; i++)
                    sums[i] = fmaf(x[k], load_weight(p->w, data, k, i), sums[i]);
            matmul_store(p, row, panel, sums);
        }
    }
}

void f32_f32_matmul__ref(const struct matmul_part *part) {
    multiply_floats(part);
}

void f16_f32_matmul__ref(const struct matmul_part *part) {
    multiply_floats(part);
}

void bf16_f32_matmul__ref(const struct matmul_part *part) {
    multiply_floats(part);
}

static void multiply_quants_row(const struct matmul_part *p, const uint8_t *block, uint32_t row,
                                float sums[PANEL_ROWS]) {
    const struct weight *w = p->w;
    const struct act_block *act = p->a.blocks + (size_t)row * (w->n_in / ACT_BLOCK);
    for (uint32_t k = 0; k < w->n_in; k += w->block, block += w->block_bytes) {
        const struct act_block *a = &act[k / ACT_BLOCK];
        const uint32_t part = k % ACT_BLOCK / w->block;
        const int8_t *q = a->q + k % ACT_BLOCK;
        for (uint32_t i = 0; i < PANEL_ROWS; i++) {
            int32_t dot = -a->shift[part];
            for (uint32_t j = 0; j < w->block; j++) dot += panel_quant(w, block, i, j) * q[j];
            sums[i] = fmaf((float)dot, panel_scale(w, block, i, 0) * a->scale, sums[i]);
            if (w->has_min) sums[i] = fmaf(panel_scale(w, block, i, 1), a->sum[part], sums[i]);
        }
    }
}

static void multiply_quants(const struct matmul_part *p) {
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        const uint8_t *data = p->w->data + (size_t)panel * p->w->panel_bytes;
        for (uint32_t row = p->row_first; row < p->row_first + p->n_rows; row++) {
            float sums[PANEL_ROWS] = {0};
            multiply_quants_row(p, data, row, sums);
            matmul_store(p, row, panel, sums);
        }
    }
}

void i8_f32_matmul__ref(const struct matmul_part *part) {
    multiply_quants(part);
}

void i4_f32_matmul__ref(const struct matmul_part *part) {
    multiply_quants(part);
}
