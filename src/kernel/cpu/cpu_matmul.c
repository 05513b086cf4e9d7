/* cpu_matmul.c - cuts a matrix product into parts: output rows (panels) times token rows, never
 * along the inputs.
 *
 * First the activations are prepared (cpu_activations.h), row by row, once for the whole call. Then
 * the parts: a block of token rows that fits a private cache, times a few panels. Inside a part the
 * variant keeps one panel in the first-level cache while the token rows pass by. Neither cut
 * changes a bit, so both follow the number of threads and the sizes freely. Small calls are
 * prepared and computed by the caller alone: waking others costs more than it brings. */
#include "base/invariant.h"
#include "cpu_activations.h"
#include "device_cpu.h"

enum {
    PART_BYTES = 192 * 1024, /* activations of a part: well inside a 512 KiB second-level cache */
    PARTS_PER_THREAD = 4,    /* so that a worker that lags delays little */
    PREPARE_ROWS = 8,        /* rows an item of the preparation */
    AMX_ROWS = 32,           /* tokens of a block of tiles, for bf16 */
    SERIAL_PREPARE_ELEMS = 16 * 1024,
    SERIAL_MULTIPLY_OPS = 64 * 1024
};

struct matmul_run {
    struct matmul_part part; /* template of all parts */
    const struct matmul_args *args;
    matmul_fn fn;
    struct act_rows rows;
    uint32_t rows_per_part, panels_per_part, n_row_parts;
};

size_t cpu_matmul_scratch_bytes(uint32_t rows_max, uint32_t width_max) {
    return activations_bytes_max(rows_max, width_max);
}

static void prepare_rows(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct matmul_run *run = user;
    const uint32_t first = item * PREPARE_ROWS, left = run->args->n_rows - first;
    const uint32_t end = first + (left < PREPARE_ROWS ? left : PREPARE_ROWS);
    for (uint32_t row = first; row < end; row++)
        activations_prepare(&run->rows, row, run->args->x + (size_t)row * run->args->x_stride);
}

static void prepare(struct cpu_device *d, struct matmul_run *run) {
    const struct weight *w = run->part.w;
    const uint32_t n_rows = run->args->n_rows;
    const size_t bytes = activations_bytes(w, n_rows);
    activations_place(w, n_rows, d->scratch, &run->rows);
    run->part.a = activations_of(&run->rows, run->args->x, run->args->x_stride);
    if (!bytes) return;
    RADISH_INVARIANT(bytes <= d->activation_bytes, "matmul scratch: %zu of %zu bytes", bytes,
                     d->activation_bytes);
    const uint32_t n_items = (n_rows + PREPARE_ROWS - 1) / PREPARE_ROWS;
    if ((size_t)n_rows * w->n_in > SERIAL_PREPARE_ELEMS)
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
    const uint32_t elem_bytes = run.rows.blocks || run.rows.halves ? 2 : sizeof(float);
    const uint32_t tile_rows = run.rows.halves ? AMX_ROWS : PANEL_MR_MAX;
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
