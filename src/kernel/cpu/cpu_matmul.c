/* cpu_matmul.c - cuts a matrix product into parts: output rows (panels) times token rows, never
 * along the inputs.
 *
 * First the activations are prepared, row by row, once for the whole call: rounded to bf16 for bf16
 * weights, or quantised to int8 in blocks of 32 for quantised ones (--precision fast only). Then
 * the parts: a block of token rows that fits a private cache, times a few panels. Inside a part the
 * variant keeps one panel in the first-level cache while the token rows pass by. Neither cut
 * changes a bit, so both follow the number of threads and the sizes freely.
 *
 * Quantising: s = max|x| / 127 over the block, q = x * (127 / max|x|) rounded to even. Adding and
 * subtracting 1.5 * 2^23 rounds exactly that way in plain float arithmetic, which every compiler
 * vectorises; the low byte of the sum's bits is the integer. Small calls are prepared and computed
 * by the caller alone: waking others costs more than it brings. */
#include "base/invariant.h"
#include "device_cpu.h"

#include <math.h>
#include <string.h>

enum {
    PART_BYTES = 192 * 1024, /* activations of a part: well inside a 512 KiB second-level cache */
    PARTS_PER_THREAD = 4,    /* so that a worker that lags delays little */
    PREPARE_ROWS = 8,        /* rows an item of the preparation */
    AMX_ROWS = 32,           /* tokens of a block of tiles, for bf16 */
    SCRATCH_ALIGN = 64,
    SERIAL_PREPARE_ELEMS = 16 * 1024,
    SERIAL_MULTIPLY_OPS = 64 * 1024
};

struct matmul_run {
    struct matmul_part part; /* template of all parts */
    const struct matmul_args *args;
    matmul_fn fn;
    float *rounded; /* bf16, in both forms */
    uint16_t *halves;
    struct act_block *blocks; /* i8 */
    uint32_t rows_per_part, panels_per_part, n_row_parts;
};

/* What bf16 takes; i8 takes 52 bytes per 32 inputs. */
size_t cpu_matmul_scratch_bytes(uint32_t rows_max, uint32_t width_max) {
    const size_t width = ((size_t)width_max + ACT_BLOCK - 1) / ACT_BLOCK * ACT_BLOCK;
    return rows_max * width * (sizeof(float) + sizeof(uint16_t)) + SCRATCH_ALIGN;
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
        out->shift[part] = sums[part] * offset;
        out->sum[part] = (float)sums[part] * out->scale;
    }
}

static void quantise_row(const struct matmul_run *run, uint32_t row) {
    const struct weight *w = run->part.w;
    const uint32_t n_blocks = w->n_in / ACT_BLOCK;
    const float *x = run->args->x + (size_t)row * run->args->x_stride;
    struct act_block *blocks = run->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++)
        quantise_block(x + b * ACT_BLOCK, ACT_BLOCK / w->block, (int32_t)w->offset, &blocks[b]);
}

static void round_row(const struct matmul_run *run, uint32_t row) {
    const uint32_t n_in = run->part.w->n_in, width = run->part.a.x_stride;
    const float *x = run->args->x + (size_t)row * run->args->x_stride;
    float *rounded = run->rounded + (size_t)row * width;
    uint16_t *halves = run->halves + (size_t)row * width;
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

static void prepare_rows(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct matmul_run *run = user;
    const uint32_t first = item * PREPARE_ROWS, left = run->args->n_rows - first;
    const uint32_t end = first + (left < PREPARE_ROWS ? left : PREPARE_ROWS);
    for (uint32_t row = first; row < end; row++)
        run->blocks ? quantise_row(run, row) : round_row(run, row);
}

static void prepare(struct cpu_device *d, struct matmul_run *run) {
    const struct weight *w = run->part.w;
    const size_t n_rows = run->args->n_rows;
    struct activations *a = &run->part.a;
    size_t bytes;
    a->x = run->args->x;
    a->x_stride = run->args->x_stride;
    if (w->format == PACK_I8 || w->format == PACK_I4) {
        bytes = n_rows * (w->n_in / ACT_BLOCK) * sizeof(struct act_block);
        a->blocks = run->blocks = (void *)d->scratch;
    } else if (w->format == PACK_BF16) {
        const size_t width = 2 * panel_pairs(w), aligned = SCRATCH_ALIGN - 1;
        const size_t halves_at = (n_rows * width * sizeof(float) + aligned) & ~aligned;
        bytes = halves_at + n_rows * width * sizeof(uint16_t);
        a->x = run->rounded = (void *)d->scratch;
        a->halves = run->halves = (void *)(d->scratch + halves_at);
        a->x_stride = (uint32_t)width;
    } else {
        return;
    }
    RADISH_INVARIANT(bytes <= d->activation_bytes, "matmul scratch: %zu of %zu bytes", bytes,
                     d->activation_bytes);
    const uint32_t n_items = (run->args->n_rows + PREPARE_ROWS - 1) / PREPARE_ROWS;
    if (n_rows * w->n_in > SERIAL_PREPARE_ELEMS)
        pool_run(d->base.pool, n_items, prepare_rows, run);
    else
        for (uint32_t item = 0; item < n_items; item++) prepare_rows(run, item, 0);
}

static void multiply_part(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct matmul_run *run = user;
    struct matmul_part part = run->part;
    part.row_first = item % run->n_row_parts * run->rows_per_part;
    part.panel_first = item / run->n_row_parts * run->panels_per_part;
    if (part.n_rows - part.row_first < run->rows_per_part)
        part.n_rows -= part.row_first;
    else
        part.n_rows = run->rows_per_part;
    if (part.n_panels - part.panel_first < run->panels_per_part)
        part.n_panels -= part.panel_first;
    else
        part.n_panels = run->panels_per_part;
    run->fn(&part);
}

void cpu_matmul(struct cpu_device *d, const struct matmul_args *args) {
    const struct weight *w = args->w;
    struct matmul_run run = {.args = args,
                             .fn = (matmul_fn)w->matmul->fn,
                             .part = {.w = w,
                                      .y = args->y,
                                      .bias = args->bias,
                                      .y_stride = args->y_stride,
                                      .n_rows = args->n_rows,
                                      .n_panels = w->n_panels,
                                      .accumulate = args->accumulate}};
    prepare(d, &run);
    if ((uint64_t)args->n_rows * w->n_out * w->n_in < SERIAL_MULTIPLY_OPS) {
        run.fn(&run.part);
        return;
    }
    const uint32_t elem_bytes = run.blocks || run.halves ? 2 : sizeof(float);
    const uint32_t tile_rows = run.halves ? AMX_ROWS : PANEL_MR_MAX;
    uint32_t rows = PART_BYTES / (w->n_in * elem_bytes) / tile_rows * tile_rows;
    if (rows < tile_rows) rows = tile_rows;
    run.rows_per_part = rows;
    run.n_row_parts = (args->n_rows + rows - 1) / rows;
    const uint32_t n_wanted = PARTS_PER_THREAD * pool_n_threads(d->base.pool);
    const uint32_t n_panel_parts_wanted = (n_wanted + run.n_row_parts - 1) / run.n_row_parts;
    run.panels_per_part = (w->n_panels + n_panel_parts_wanted - 1) / n_panel_parts_wanted;
    const uint32_t n_panel_parts = (w->n_panels + run.panels_per_part - 1) / run.panels_per_part;
    pool_run(d->base.pool, n_panel_parts * run.n_row_parts, multiply_part, &run);
}
