/* ref_matmul.c - matrix products in plain C: the specification of the classes kseq, kseq_i8, kpair
 * and kpair32.
 *
 *   y[r, n] = sum over k of x[r, k] * w[n, k]
 *
 * kseq: one chain of fused multiply-adds over k, ascending, from 0. kseq_i8: per scale block the
 * integer dot product of quants, which is exact in any order, times the weights' scale, then one
 * fma with the activations' (and before it one with the minimum, which need not wait for the dot).
 * Vector variants run 8 or 16 of these chains side by side, one output row per lane, and so give
 * the same bits; that is all there is to the promise that a token alone, in a batch, in a chunk and
 * with any number of threads gets the same numbers.
 *
 * bf16 weights have two classes, which are what two instructions compute, found by comparing 3.2
 * million of their results with candidates: VDPBF16PS is a chain of two FMAs, the odd input of a
 * pair first (kpair); TDPBF16PS of AMX is, per 32 inputs, a chain over the even ones and one over
 * the odd ones, both from 0, whose sum is added (kpair32). Both take denormals for zeros, and so
 * does everything in these classes.
 *
 * Slow: without FMA instructions in the build each step is a call of fmaf(). It serves machines
 * below AVX2 (with a warning) and tests. */
#include "cpu_kernel.h"
#include "float_env.h"

#include <math.h>

enum { FLOAT_ROWS = 8 };

static inline float load_weight(const struct weight *w, const uint8_t *panel, size_t k,
                                uint32_t row) {
    const float *f = (const float *)(const void *)panel + k * PANEL_ROWS;
    const uint16_t *h = (const uint16_t *)(const void *)panel + k * PANEL_ROWS;
    if (w->format == PACK_F32) return f[row];
    return dtype_f16_to_f32(h[row]);
}

/* Up to FLOAT_ROWS rows times a panel: a half costs more to read than to multiply with. */
static void multiply_rows(const struct matmul_part *p, uint32_t panel, uint32_t row,
                          uint32_t n_rows) {
    const uint8_t *data = p->w->data + (size_t)panel * p->w->panel_bytes;
    const float *x = p->a.x + (size_t)row * p->a.x_stride;
    float sums[FLOAT_ROWS][PANEL_ROWS] = {{0}}, weights[PANEL_ROWS];
    for (uint32_t k = 0; k < p->w->n_in; k++) {
        for (uint32_t i = 0; i < PANEL_ROWS; i++) weights[i] = load_weight(p->w, data, k, i);
        for (uint32_t r = 0; r < n_rows; r++)
            for (uint32_t i = 0; i < PANEL_ROWS; i++)
                sums[r][i] = fmaf(x[(size_t)r * p->a.x_stride + k], weights[i], sums[r][i]);
    }
    for (uint32_t r = 0; r < n_rows; r++) matmul_store(p, row + r, panel, sums[r]);
}

static void multiply_floats(const struct matmul_part *p) {
    const uint32_t end = p->row_first + p->n_rows;
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++)
        for (uint32_t row = p->row_first; row < end; row += FLOAT_ROWS)
            multiply_rows(p, panel, row, end - row < FLOAT_ROWS ? end - row : FLOAT_ROWS);
}

void f32_f32_matmul__ref(const struct matmul_part *part) {
    multiply_floats(part);
}

void f16_f32_matmul__ref(const struct matmul_part *part) {
    multiply_floats(part);
}

/* A weight of a pair as a float; the halves of a row's pair lie side by side. */
static inline float load_half(const uint16_t *pair, uint32_t row, uint32_t which) {
    return dtype_bf16_to_f32(pair[2 * row + which]);
}

static void add_pair(const uint16_t *w, const float *x, float sums[PANEL_ROWS]) {
    for (uint32_t i = 0; i < PANEL_ROWS; i++) {
        sums[i] = fmaf(x[1], load_half(w, i, 1), sums[i]);
        sums[i] = fmaf(x[0], load_half(w, i, 0), sums[i]);
    }
}

static void add_two_chains(const uint16_t *w, const float *x, float sums[PANEL_ROWS]) {
    for (uint32_t i = 0; i < PANEL_ROWS; i++) {
        float even = 0, odd = 0;
        for (uint32_t k = 0; k < PAIRS_BLOCK; k++) {
            even = fmaf(x[2 * k], load_half(w + (size_t)k * 2 * PANEL_ROWS, i, 0), even);
            odd = fmaf(x[2 * k + 1], load_half(w + (size_t)k * 2 * PANEL_ROWS, i, 1), odd);
        }
        sums[i] = sums[i] + (even + odd);
    }
}

/* n_pairs: how many pairs `add` takes at once. */
static void multiply_pairs(const struct matmul_part *p, uint32_t n_pairs,
                           void (*add)(const uint16_t *w, const float *x, float *sums)) {
    const uint64_t env = float_env_flush_denormals();
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        const uint16_t *w = (const void *)(p->w->data + (size_t)panel * p->w->panel_bytes);
        for (uint32_t row = p->row_first; row < p->row_first + p->n_rows; row++) {
            const float *x = p->a.x + (size_t)row * p->a.x_stride;
            float sums[PANEL_ROWS] = {0};
            for (size_t i = 0; i < panel_pairs(p->w); i += n_pairs)
                add(w + i * 2 * PANEL_ROWS, x + 2 * i, sums);
            matmul_store(p, row, panel, sums);
        }
    }
    float_env_restore(env);
}

void bf16_f32_matmul__ref(const struct matmul_part *part) {
    multiply_pairs(part, 1, add_pair);
}

void bf16_f32_matmul__ref32(const struct matmul_part *part) {
    multiply_pairs(part, PAIRS_BLOCK, add_two_chains);
}

/* Quants of a scale block of one row times activations q. */
static int32_t dot_quants(const struct quant_form form, const uint8_t *row, uint32_t first_group,
                          const int8_t *q) {
    int32_t dot = 0;
    for (uint32_t i = 0; i < form.block; i += 4) {
        const uint32_t group = quant_get_group(form, row, first_group + i / 4);
        for (uint32_t j = 0; j < 4; j++) dot += (int32_t)(group >> 8 * j & 255) * q[i + j];
    }
    return dot;
}

static void multiply_quants_row(const struct matmul_part *p, const uint8_t *panel, uint32_t row,
                                float sums[PANEL_ROWS]) {
    const struct quant_form form = *p->w->form;
    const uint32_t n_in = p->w->n_in, chunk = quant_chunk(form);
    const struct act_block *act = p->a.blocks + (size_t)row * (n_in / ACT_BLOCK);
    for (uint32_t k = 0; k < n_in; k += form.block) {
        const uint8_t *src = panel + (size_t)(k / chunk) * quant_chunk_bytes(form);
        const uint8_t *unit =
            src + quant_units_at(form) + k % chunk / ACT_BLOCK * quant_unit_bytes(form);
        const struct act_block *a = &act[k / ACT_BLOCK];
        const uint32_t at = k % ACT_BLOCK, part = at / form.block, block = k % chunk / form.block;
        for (uint32_t i = 0; i < PANEL_ROWS; i++) {
            const int32_t dot = dot_quants(form, unit + i * 4, at / 4, a->q + at) +
                                (a->start[part] - INT_BASE_BITS);
            const float d = quant_get_scale(form, src, i, block, 0);
            if (form.has_min)
                sums[i] = fmaf(quant_get_scale(form, src, i, block, 1), a->sum[part], sums[i]);
            sums[i] = fmaf((float)dot * d, a->scale, sums[i]);
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
