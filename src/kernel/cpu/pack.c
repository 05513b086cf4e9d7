/* pack.c - repacks a matrix once, at load, so that the inner loop of every product reads one
 * straight stream.
 *
 * SIMD lanes run along output rows: a panel holds 16 rows, input by input, so one vector load
 * brings the same input of 16 (or 8) rows, and every row keeps its own chain of sums whatever the
 * number of tokens (ARCHITECTURE section 4). Quantised types keep the bits that they have in the
 * file, cut into planes that vectors take apart with a shift and a mask (quant_panel.h): a token
 * alone reads all weights, so what a weight takes is what decoding costs. The file's own blocks
 * would need another kernel for each of ten types, and a shuffle for every row. In exact precision
 * quantised types become f32 panels instead, with the dequantiser's own values.
 *
 * A plain matrix that is to be quantised takes the same way: where a block of the file is read, one
 * is made of the file's numbers, on the stack. So the weights are those of a quantised file, bit
 * for bit, and quantising costs no memory and runs on all threads.
 *
 * Historical note: keeping the file's blocks for embed beside the panels for matmul was refused: a
 * tied embedding is the largest matrix of a small model, and reading a row out of panels gives the
 * same bits. */
#include "pack.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "tensor/quantise.h"
#include "unpack.h"

#include <string.h>

enum { BLOCK_BYTES_MAX = 256 }; /* of one block of any type */

enum pack_format pack_format_for(enum dtype dtype, enum radish_precision precision) {
    if (dtype == RADISH_DTYPE_F32) return PACK_F32;
    if (dtype == RADISH_DTYPE_F16) return PACK_F16;
    if (dtype == RADISH_DTYPE_BF16)
        return precision == RADISH_PRECISION_EXACT ? PACK_F32 : PACK_BF16;
    if (!quant_form_find(dtype)) return PACK_RAW;
    return precision == RADISH_PRECISION_EXACT ? PACK_F32 : PACK_I8;
}

static bool set_quant_layout(struct weight *w) {
    w->form = quant_form_find(w->dtype);
    if (!w->form) return false;
    const uint32_t chunk = quant_chunk(*w->form);
    return mem_mul((w->n_in + chunk - 1) / chunk, quant_chunk_bytes(*w->form), &w->panel_bytes);
}

bool pack_layout(enum dtype dtype, enum pack_format format, uint32_t n_out, uint32_t n_in,
                 struct weight *w) {
    *w = (struct weight){.format = format, .dtype = dtype, .n_out = n_out, .n_in = n_in};
    uint64_t row_bytes;
    if (!n_out || !n_in || n_out > UINT32_MAX - PANEL_ROWS) return false;
    if (!dtype_row_bytes(dtype, n_in, &row_bytes) || row_bytes > SIZE_MAX) return false;
    w->n_panels = (n_out + PANEL_ROWS - 1) / PANEL_ROWS;
    w->row_bytes = (size_t)row_bytes;
    if (format == PACK_RAW) {
        if (!mem_mul(w->row_bytes, PANEL_ROWS, &w->panel_bytes)) return false;
        return mem_mul(w->row_bytes, n_out, &w->bytes);
    }
    if (format == PACK_I8) {
        if (!set_quant_layout(w)) return false;
    } else if (format == PACK_BF16) {
        if (!mem_mul(panel_pairs(w), PANEL_ROWS * 2 * sizeof(uint16_t), &w->panel_bytes))
            return false;
    } else {
        const size_t elem_bytes = format == PACK_F32 ? sizeof(float) : sizeof(uint16_t);
        if (!mem_mul(n_in, PANEL_ROWS * elem_bytes, &w->panel_bytes)) return false;
    }
    return mem_mul(w->panel_bytes, w->n_panels, &w->bytes);
}

/* A row of the file on its way, from block to block of the weight's dtype. */
struct row_reader {
    enum dtype dtype, made; /* in the file, and in the weight */
    const uint8_t *next;
    uint8_t block[BLOCK_BYTES_MAX]; /* made of the file's numbers, where the two differ */
};

/* NULL: the numbers cannot become a block. */
static const uint8_t *read_block(struct row_reader *reader) {
    const uint8_t *src = reader->next;
    const uint32_t elems = dtype_block_elems(reader->made);
    if (reader->made == reader->dtype) {
        reader->next += dtype_block_bytes(reader->made);
        return src;
    }
    float numbers[UNPACK_ELEMS_MAX];
    reader->next += (size_t)elems * dtype_block_bytes(reader->dtype);
    dtype_to_f32(reader->dtype, src, numbers, elems);
    return quantise_row(reader->made, numbers, elems, reader->block) ? reader->block : NULL;
}

static bool pack_raw(const struct weight *w, struct row_reader *reader, uint8_t *dst) {
    const uint32_t bytes = dtype_block_bytes(w->dtype);
    for (size_t at = 0; at < w->row_bytes; at += bytes) {
        const uint8_t *block = read_block(reader);
        if (!block) return false;
        memcpy(dst + at, block, bytes);
    }
    return true;
}

static bool pack_f32(const struct weight *w, struct row_reader *reader, uint32_t row,
                     uint8_t *panel) {
    const uint32_t elems = dtype_block_elems(w->dtype);
    float *dst = (float *)panel + row;
    float numbers[UNPACK_ELEMS_MAX];
    for (uint32_t k = 0; k < w->n_in; k += elems) {
        const uint8_t *block = read_block(reader);
        if (!block) return false;
        dtype_to_f32(w->dtype, block, numbers, elems);
        for (uint32_t i = 0; i < elems; i++) dst[(size_t)(k + i) * PANEL_ROWS] = numbers[i];
    }
    return true;
}

static void pack_f16(struct weight *w, const uint8_t *src, uint32_t row, uint8_t *panel) {
    uint16_t *dst = (uint16_t *)panel + row;
    for (uint32_t k = 0; k < w->n_in; k++)
        dst[(size_t)k * PANEL_ROWS] = (uint16_t)(src[2 * k] | src[2 * k + 1] << 8);
}

/* Half k of row `row` of a BF16 panel. */
static inline size_t pair_position(size_t k, uint32_t row) {
    return (k / 2 * PANEL_ROWS + row) * 2 + k % 2;
}

static void pack_bf16(struct weight *w, const uint8_t *src, uint32_t row, uint8_t *panel) {
    uint16_t *dst = (uint16_t *)panel;
    for (uint32_t k = 0; k < w->n_in; k++)
        dst[pair_position(k, row)] = (uint16_t)(src[2 * k] | src[2 * k + 1] << 8);
}

static bool pack_quants(const struct weight *w, struct row_reader *reader, uint32_t row,
                        uint8_t *panel) {
    const struct quant_form form = *w->form;
    const uint32_t elems = dtype_block_elems(w->dtype), chunk = quant_chunk(form);
    struct unpacked block;
    for (uint32_t k = 0; k < w->n_in; k += elems) {
        const uint8_t *src = read_block(reader);
        if (!src) return false;
        unpack_block(w->dtype, src, &block);
        uint8_t *dst = panel + (size_t)(k / chunk) * quant_chunk_bytes(form);
        uint8_t *quants =
            dst + quant_units_at(form) + row * 4 + k % chunk / ACT_BLOCK * quant_unit_bytes(form);
        for (uint32_t i = 0; i < elems; i += 4) {
            uint32_t group;
            memcpy(&group, block.quants + i, sizeof group);
            quant_put_group(form, quants + i / ACT_BLOCK * quant_unit_bytes(form),
                            i % ACT_BLOCK / 4, group);
        }
        const uint32_t first = k % chunk / form.block;
        for (uint32_t part = 0; part < elems / form.block; part++)
            quant_put_scale(form, dst, row, first + part, block.super, block.scales[part]);
    }
    return true;
}

bool pack_panel(struct weight *w, const struct pack_source *source, uint32_t panel) {
    const size_t row_bytes =
        (size_t)w->n_in / dtype_block_elems(source->dtype) * dtype_block_bytes(source->dtype);
    const uint32_t first = panel * PANEL_ROWS, left = w->n_out - first;
    const uint32_t n = left < PANEL_ROWS ? left : PANEL_ROWS;
    const uint8_t *src = (const uint8_t *)source->data + (size_t)first * row_bytes;
    uint8_t *dst = w->data + (size_t)panel * w->panel_bytes;
    bool is_packed = true;
    if (w->format == PACK_RAW && source->dtype == w->dtype) {
        memcpy(dst, src, n * row_bytes);
        return true;
    }
    /* Rows past the matrix stay as the memory came: zeros, a scale of zero. */
    for (uint32_t row = 0; is_packed && row < n; row++, src += row_bytes) {
        struct row_reader reader = {.dtype = source->dtype, .made = w->dtype, .next = src};
        if (w->format == PACK_RAW)
            is_packed = pack_raw(w, &reader, dst + row * w->row_bytes);
        else if (w->format == PACK_F32)
            is_packed = pack_f32(w, &reader, row, dst);
        else if (w->format == PACK_I8)
            is_packed = pack_quants(w, &reader, row, dst);
        else if (w->format == PACK_F16)
            pack_f16(w, src, row, dst);
        else
            pack_bf16(w, src, row, dst);
    }
    return is_packed;
}

static void read_quants(const struct weight *w, const uint8_t *panel, uint32_t row, float *out) {
    const struct quant_form form = *w->form;
    const uint32_t chunk = quant_chunk(form);
    float d = 0, m = 0;
    for (uint32_t k = 0; k < w->n_in; k += 4) {
        const uint8_t *src = panel + (size_t)(k / chunk) * quant_chunk_bytes(form);
        const uint8_t *quants =
            src + quant_units_at(form) + row * 4 + k % chunk / ACT_BLOCK * quant_unit_bytes(form);
        if (k % form.block == 0) {
            d = quant_get_scale(form, src, row, k % chunk / form.block, 0);
            m = form.has_min ? quant_get_scale(form, src, row, k % chunk / form.block, 1) : 0.0f;
        }
        const uint32_t group = quant_get_group(form, quants, k % ACT_BLOCK / 4);
        for (uint32_t i = 0; i < 4; i++) {
            const float product = d * (float)((int)(group >> 8 * i & 255) - (int)form.offset);
            out[k + i] = form.has_min ? product + m : product;
        }
    }
}

void pack_row_to_f32(const struct weight *w, uint32_t row, float *out) {
    if (w->format == PACK_RAW) {
        dtype_to_f32(w->dtype, w->data + (size_t)row * w->row_bytes, out, w->n_in);
        return;
    }
    const uint8_t *panel = w->data + (size_t)(row / PANEL_ROWS) * w->panel_bytes;
    const uint32_t r = row % PANEL_ROWS;
    if (w->format == PACK_I8) {
        read_quants(w, panel, r, out);
        return;
    }
    const float *f = (const float *)(const void *)panel + r;
    const uint16_t *h = (const uint16_t *)(const void *)panel;
    for (size_t k = 0; k < w->n_in; k++) {
        if (w->format == PACK_F32)
            out[k] = f[k * PANEL_ROWS];
        else if (w->format == PACK_F16)
            out[k] = dtype_f16_to_f32(h[k * PANEL_ROWS + r]);
        else
            out[k] = dtype_bf16_to_f32(h[pair_position(k, r)]);
    }
}
