/* cpu_activations.c - prepares the inputs of matrix products, row by row: rounded to bf16 for bf16
 * weights, or quantised to int8 in blocks of 32 for quantised ones (--precision fast only).
 *
 * A row is prepared by itself and the same way whatever else is in the call, so neither the batch
 * nor the number of threads changes a bit. Doing it once per row and not inside the kernels saves
 * the work for every panel but one, and lets several weights share it.
 *
 * Quantising: s = max|x| / 127 over the block, q = x * (127 / max|x|) rounded to even. Adding and
 * subtracting 1.5 * 2^23 rounds exactly that way in plain float arithmetic, which every compiler
 * vectorises; the low byte of the sum's bits is the integer. */
#include "cpu_activations.h"

#include <math.h>
#include <string.h>

enum { SCRATCH_ALIGN = 64 };

static size_t align_up(size_t bytes) {
    return (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

/* What bf16 takes; i8 takes 52 bytes per 32 inputs. */
size_t activations_bytes_max(uint32_t rows_max, uint32_t width_max) {
    const size_t width = ((size_t)width_max + ACT_BLOCK - 1) / ACT_BLOCK * ACT_BLOCK;
    return align_up(rows_max * width * sizeof(float)) +
           align_up(rows_max * width * sizeof(uint16_t));
}

static bool is_quantised(const struct weight *w) {
    return w->format == PACK_I8 || w->format == PACK_I4;
}

size_t activations_bytes(const struct weight *w, uint32_t n_rows) {
    const size_t width = 2 * panel_pairs(w);
    if (is_quantised(w))
        return align_up(n_rows * (size_t)(w->n_in / ACT_BLOCK) * sizeof(struct act_block));
    if (w->format != PACK_BF16) return 0;
    return align_up(n_rows * width * sizeof(float)) + align_up(n_rows * width * sizeof(uint16_t));
}

bool activations_serve(const struct weight *w, const struct weight *other) {
    if (w->n_in != other->n_in) return false;
    if (is_quantised(w))
        return is_quantised(other) && w->block == other->block && w->offset == other->offset;
    return !is_quantised(other) && (w->format == PACK_BF16) == (other->format == PACK_BF16);
}

void activations_place(const struct weight *w, uint32_t n_rows, uint8_t *scratch,
                       struct act_rows *rows_out) {
    *rows_out = (struct act_rows){.w = w};
    if (is_quantised(w)) {
        rows_out->blocks = (void *)scratch;
    } else if (w->format == PACK_BF16) {
        rows_out->width = (uint32_t)(2 * panel_pairs(w));
        rows_out->rounded = (void *)scratch;
        rows_out->halves =
            (void *)(scratch + align_up(n_rows * (size_t)rows_out->width * sizeof(float)));
    }
}

static inline float round_bf16(float x) {
    union {
        float f;
        uint32_t u;
    } v = {x};
    const uint32_t rounded = (v.u + 0x7fff + (v.u >> 16 & 1)) & 0xffff0000u;
    const uint32_t quiet = (v.u | 0x400000u) & 0xffff0000u;
    v.u = (v.u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
    return v.f;
}

static void quantise_block(const float *x, uint32_t n_parts, int32_t offset,
                           struct act_block *out) {
    const float magic = 12582912.0f, amax_min = 1e-30f;
    float amax = 0;
    for (int i = 0; i < ACT_BLOCK; i++) {
        const float a = fabsf(x[i]);
        amax = a > amax ? a : amax;
    }
    if (amax < amax_min) amax = 0;
    const float inverse = amax > 0 ? 127.0f / amax : 0.0f;
    int32_t q[ACT_BLOCK], sums[2] = {0};
    for (int i = 0; i < ACT_BLOCK; i++) {
        const float shifted = x[i] * inverse + magic;
        memcpy(&q[i], &shifted, sizeof shifted);
    }
    for (int i = 0; i < ACT_BLOCK; i++) {
        q[i] = (int32_t)((uint32_t)q[i] << 24) >> 24;
        out->q[i] = (int8_t)q[i];
    }
    for (int i = 0; i < ACT_BLOCK / 2; i++) sums[0] += q[i];
    for (int i = ACT_BLOCK / 2; i < ACT_BLOCK; i++) sums[1] += q[i];
    if (n_parts == 1) sums[0] += sums[1];
    out->scale = amax / 127.0f;
    for (int part = 0; part < 2; part++) {
        out->start[part] = -sums[part] * offset;
        out->sum[part] = (float)sums[part] * out->scale;
    }
}

static void quantise_row(const struct act_rows *rows, uint32_t row, const float *x) {
    const struct weight *w = rows->w;
    const uint32_t n_blocks = w->n_in / ACT_BLOCK;
    struct act_block *blocks = rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++)
        quantise_block(x + b * ACT_BLOCK, ACT_BLOCK / w->block, (int32_t)w->offset, &blocks[b]);
}

static void round_row(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_in = rows->w->n_in, width = rows->width;
    float *rounded = rows->rounded + (size_t)row * width;
    uint16_t *halves = rows->halves + (size_t)row * width;
    for (uint32_t k = 0; k < n_in; k++) {
        uint32_t bits;
        rounded[k] = round_bf16(x[k]);
        memcpy(&bits, &rounded[k], sizeof bits);
        halves[k] = (uint16_t)(bits >> 16);
    }
    for (uint32_t k = n_in; k < width; k++) {
        rounded[k] = 0;
        halves[k] = 0;
    }
}

void activations_prepare(const struct act_rows *rows, uint32_t row, const float *x) {
    if (rows->blocks)
        quantise_row(rows, row, x);
    else if (rows->rounded)
        round_row(rows, row, x);
}

struct activations activations_of(const struct act_rows *rows, const float *x, uint32_t x_stride) {
    return (struct activations){.x = rows->rounded ? rows->rounded : x,
                                .x_stride = rows->rounded ? rows->width : x_stride,
                                .halves = rows->halves,
                                .blocks = rows->blocks};
}
