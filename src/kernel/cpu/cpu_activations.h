/* cpu_activations.h - the inputs of matrix products as the matmul kernels read them.
 *
 * Weights fix what they need: rows as they are (f32, f16), rounded to bf16, or int8 in blocks. Many
 * weights may need the same; then one preparation serves them all. Owns nothing: the caller gives
 * scratch. Threads: rows may be prepared side by side. */
#ifndef KERNEL_CPU_CPU_ACTIVATIONS_H
#define KERNEL_CPU_CPU_ACTIVATIONS_H

#include "radish.h"

#include "cpu_kernel.h"

#include <string.h>

/* Prepared rows for one weight and for all that need the same. */
struct act_rows {
    const struct weight *w;
    prepare_fn fn;  /* NULL: rows are read as they are */
    float *rounded; /* bf16, in both forms */
    uint16_t *halves;
    struct act_block *blocks; /* i8, of the rows that are in no tile */
    struct act_tile *tiles;   /* i8, of the first n_tiled rows; NULL: none */
    uint32_t n_tiled;         /* a multiple of ACT_TILE_ROWS */
    uint32_t width;           /* elements from row to row of rounded and halves */
};

/* The most that activations_bytes() says of rows_max rows and widths up to width_max. */
size_t activations_bytes_max(uint32_t rows_max, uint32_t width_max);

/* Scratch that n_rows prepared rows take, a multiple of 64; 0: the weight reads them as they are.
 */
size_t activations_bytes(const struct weight *w, uint32_t n_rows);

/* Whether rows prepared for one weight serve the other, too. */
bool activations_serve(const struct weight *w, const struct weight *other);

/* Where n_rows prepared rows go: scratch, 64-byte aligned, [activations_bytes()]. */
void activations_place(const struct weight *w, uint32_t n_rows, uint8_t *scratch,
                       struct act_rows *rows_out);

/* Prepares row `row`, whose numbers are x[n_in]. Rows of a tile share cache lines: they are best
 * prepared by one thread. */
void activations_prepare(const struct act_rows *rows, uint32_t row, const float *x);

/* What kernels are given; x: the rows as they are, for weights that read these. */
struct activations activations_of(const struct act_rows *rows, const float *x, uint32_t x_stride);

/* ---- what the variants of prepare share ---- */

#define ACT_NOTHING 1e-30f /* blocks of smaller numbers become zeros */

static inline float act_amax(float amax) {
    return amax < ACT_NOTHING ? 0.0f : amax;
}

static inline float act_inverse(float amax) {
    return amax > 0 ? 127.0f / amax : 0.0f;
}

/* All but the integers; sums: of the integers of either half. */
static inline void act_finish_block(const struct weight *w, float amax, const int32_t sums[2],
                                    struct act_block *block) {
    const int32_t first = w->form->block == ACT_BLOCK ? sums[0] + sums[1] : sums[0];
    const float scale = amax / 127.0f;
    block->scale = scale;
    block->start[0] = INT_BASE_BITS - first * (int32_t)w->form->offset;
    block->start[1] = INT_BASE_BITS - sums[1] * (int32_t)w->form->offset;
    block->sum[0] = (float)first * scale;
    block->sum[1] = (float)sums[1] * scale;
}

/* The tile of block 0 of a row, of the rows before n_tiled; those of further blocks follow. */
static inline struct act_tile *act_find_tile(const struct act_rows *rows, uint32_t row) {
    return rows->tiles + row / ACT_TILE_ROWS * (size_t)(rows->w->n_in / ACT_BLOCK);
}

static inline void act_put_block(const struct act_block *block, uint32_t row,
                                 struct act_tile *tile) {
    const uint32_t at = row % ACT_TILE_ROWS;
    memcpy(tile->q[at], block->q, sizeof block->q);
    tile->scale[at] = block->scale;
    tile->sum[at] = block->sum[0];
}

/* x as bf16, rounded to even, in both forms. */
static inline void act_round(float x, float *rounded_out, uint16_t *half_out) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    const uint32_t quiet = (bits | 0x400000u) & 0xffff0000u;
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
    memcpy(rounded_out, &bits, sizeof bits);
    *half_out = (uint16_t)(bits >> 16);
}

#endif
