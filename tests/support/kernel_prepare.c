/* kernel_prepare.c - rows as matrix products read them: values against the definition, bits against
 * plain C, for numbers of every kind. */
#include "kernel_check.h"

#include "kernel/cpu/cpu_activations.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

enum { N_OUT = 16, N_ROWS = 6 };

static const uint32_t widths[] = {32, 64, 96, 576, 1024};
static const uint32_t odd_widths[] = {1, 15, 16, 17, 33, 100}; /* bf16 only */

/* Rows of ordinary numbers; of tiny ones; of zeros but one; of numbers that are not finite; of ties
 * between two integers; of ties between two bf16 numbers and what is next to them. */
static void fill_row(float *x, uint32_t n, uint32_t row) {
    static const float strange[] = {NAN, INFINITY, -INFINITY, -NAN, 3.4e38f, 1e-45f, -1e-39f, 0.0f};
    static const uint32_t low_halves[] = {0x8000, 0x7fff, 0x8001, 0xffff, 0};
    check_fill(x, n, 40 + row, row == 1 ? 1e-38f : 3.0f);
    for (uint32_t k = 0; k < n; k++) {
        if (row == 2) x[k] = k % 32 == 7 ? -2.5f : 0.0f;
        if (row == 3 && k % 3 == 0) x[k] = strange[k / 3 % 8];
        if (row == 4) x[k] = (float)((int)(k % 255) - 127) * 0.5f;
        if (row == 5) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            bits = (bits & 0xffff0000u) | low_halves[k % 5];
            memcpy(&x[k], &bits, sizeof bits);
        }
    }
}

/* |x - q * scale| is at most half a step, and what goes with a block is what the header says. */
static void check_values(const struct weight *w, const float *x, const struct act_block *blocks) {
    const uint32_t n_parts = ACT_BLOCK / w->form->block;
    for (uint32_t b = 0; b < w->n_in / ACT_BLOCK; b++, x += ACT_BLOCK, blocks++) {
        for (uint32_t part = 0; part < n_parts; part++) {
            int32_t sum = 0;
            for (uint32_t i = part * w->form->block; i < (part + 1) * w->form->block; i++) {
                check_close_to((double)blocks->q[i] * blocks->scale, x[i],
                               (double)blocks->scale * 0.50001 + 1e-30, "activation", i);
                sum += blocks->q[i];
            }
            assert_int_equal(blocks->start[part], INT_BASE_BITS - sum * (int32_t)w->form->offset);
            check_close_to(blocks->sum[part], (double)sum * blocks->scale,
                           fabs((double)sum * blocks->scale) * 1e-6, "sum", b);
        }
    }
}

static void check_halves(const struct act_rows *rows, uint32_t row, const float *x, bool is_plain) {
    for (uint32_t k = 0; k < rows->width; k++) {
        const float rounded = rows->rounded[(size_t)row * rows->width + k];
        const float half = dtype_bf16_to_f32(rows->halves[(size_t)row * rows->width + k]);
        check_same_bits(&rounded, &half, sizeof half, "both forms");
        if (k >= rows->w->n_in)
            assert_true(rounded == 0);
        else if (is_plain)
            check_close_to(rounded, x[k], fabs((double)x[k]) / 256, "bf16", k);
    }
}

static void check_width(const struct kernel_devices *devices, enum dtype dtype, uint32_t n_in) {
    uint8_t *matrix = check_matrix(dtype, N_OUT, n_in, 1);
    struct weight *w = check_weight(devices->one, dtype, N_OUT, n_in, matrix, false, true);
    struct weight *ref = check_weight(devices->ref, dtype, N_OUT, n_in, matrix, false, true);
    assert_ptr_equal(w->prepare, devices->row);
    const size_t bytes = activations_bytes(w, N_ROWS);
    uint8_t *one = aligned_alloc(64, bytes), *two = aligned_alloc(64, bytes);
    float *x = check_floats(n_in);
    struct act_rows rows, expected;
    assert_true(one && two);
    memset(one, 0xA5, bytes);
    memset(two, 0xA5, bytes);
    activations_place(w, N_ROWS, one, &rows);
    activations_place(ref, N_ROWS, two, &expected);
    for (uint32_t row = 0; row < N_ROWS; row++) {
        fill_row(x, n_in, row);
        activations_prepare(&rows, row, x);
        activations_prepare(&expected, row, x);
        if (rows.blocks && row != 3)
            check_values(w, x, rows.blocks + (size_t)row * (n_in / ACT_BLOCK));
        if (rows.rounded) check_halves(&rows, row, x, row != 1 && row != 3);
    }
    check_same_bits(one, two, bytes, "prepared rows");
    free(x);
    free(two);
    free(one);
    devices->one->ops->weight_destroy(devices->one, w);
    devices->ref->ops->weight_destroy(devices->ref, ref);
    free(matrix);
}

/* Rows of tiles hold the numbers of rows of blocks. */
static void check_tiles(const struct kernel_devices *devices, enum dtype dtype, uint32_t n_in) {
    enum { ROWS = 2 * ACT_TILE_ROWS };
    uint8_t *matrix = check_matrix(dtype, N_OUT, n_in, 1);
    struct weight *w = check_weight(devices->one, dtype, N_OUT, n_in, matrix, false, true);
    const size_t n_units = n_in / ACT_BLOCK;
    struct act_block *blocks = malloc(ROWS * n_units * sizeof *blocks);
    struct act_tile *tiles = malloc(2 * n_units * sizeof *tiles);
    float *x = check_floats(n_in);
    assert_true(blocks && tiles);
    struct act_rows alone = {.w = w, .fn = (prepare_fn)w->prepare->fn, .blocks = blocks};
    struct act_rows tiled = {.w = w, .fn = alone.fn, .tiles = tiles, .n_tiled = ROWS};
    for (uint32_t row = 0; row < ROWS; row++) {
        fill_row(x, n_in, row % N_ROWS);
        activations_prepare(&alone, row, x);
        activations_prepare(&tiled, row, x);
    }
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t unit = 0; unit < n_units; unit++) {
            const struct act_block *block = blocks + row * n_units + unit;
            const struct act_tile *tile = tiles + row / ACT_TILE_ROWS * n_units + unit;
            const size_t at = row % ACT_TILE_ROWS;
            check_same_bits(tile->q[at], block->q, sizeof block->q, "integers in a tile");
            check_same_bits(&tile->scale[at], &block->scale, sizeof(float), "a tile's scale");
            if (w->form->has_min)
                check_same_bits(&tile->sum[at], block->sum, sizeof(float), "a tile's sum");
        }
    }
    free(x);
    free(tiles);
    free(blocks);
    devices->one->ops->weight_destroy(devices->one, w);
    free(matrix);
}

/* Only processors with AVX2 can have tiles. */
static bool can_tile(const struct kernel_row *row) {
    return row->formats & KERNEL_I8 && row->isa != CPU_ISA_NEON;
}

void check_prepare(const struct kernel_row *row) {
    /* An offset, a minimum, blocks of 16, half bytes. */
    static const enum dtype quantised[] = {RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q5_1, RADISH_DTYPE_Q4_0};
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (row->formats & KERNEL_BF16) check_width(&devices, RADISH_DTYPE_BF16, widths[i]);
        for (size_t d = 0; row->formats & KERNEL_I8 && d < sizeof quantised / sizeof *quantised;
             d++)
            check_width(&devices, quantised[d], widths[i]);
        for (size_t d = 0; can_tile(row) && d < sizeof quantised / sizeof *quantised; d++)
            check_tiles(&devices, quantised[d], widths[i]);
    }
    for (size_t i = 0; row->formats & KERNEL_BF16 && i < sizeof odd_widths / sizeof *odd_widths;
         i++)
        check_width(&devices, RADISH_DTYPE_BF16, odd_widths[i]);
    if (row->formats & KERNEL_I8) check_width(&devices, RADISH_DTYPE_Q6_K, 512);
    check_close(&devices);
}
