/* cpu_activations.c - prepares the inputs of matrix products, row by row: rounded to bf16 for bf16
 * weights, or quantised to int8 in blocks of 32 for quantised ones (--precision fast only).
 *
 * A row is prepared by itself and the same way whatever else is in the call, so neither the batch
 * nor the number of threads changes a bit. Doing it once per row and not inside the kernels saves
 * the work for every panel but one, and lets several weights share it.
 * What is done to a row is a kernel (ref_prepare.c), chosen with the weight. For weights that AMX
 * multiplies, it writes int8 rows into tiles of 16 rows, block by block: AMX loads take three times
 * as long where a row of a tile crosses a cache line, as half of them do in rows of blocks. The
 * last rows, and all where there are few, stay rows of blocks. */
#include "cpu_activations.h"

#include "kernel/registry.h"

enum {
    SCRATCH_ALIGN = 64,
    TILED_LEAST = 48 /* fewer rows wait for the weights, or for opening them twice */
};

static size_t align_up(size_t bytes) {
    return (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

/* An odd number of cache lines: rows a power of two apart would share a few sets of a cache. */
static size_t pad_width(size_t width) {
    return width % 64 ? width : width + 32;
}

/* What bf16 takes, 192 bytes per 32 inputs; i8 takes 52, and in tiles 40 besides. */
size_t activations_bytes_max(uint32_t rows_max, uint32_t width_max) {
    const size_t width = ((size_t)width_max + ACT_BLOCK - 1) / ACT_BLOCK * ACT_BLOCK + 32;
    return align_up(rows_max * width * sizeof(float)) +
           align_up(rows_max * width * sizeof(uint16_t));
}

static bool is_quantised(const struct weight *w) {
    return w->format == PACK_I8;
}

static bool is_tiled(const struct weight *w) {
    return is_quantised(w) && w->form->block == ACT_BLOCK && w->matmul &&
           w->matmul->isa == CPU_ISA_AMX;
}

/* How many of n_rows rows are in tiles. */
static uint32_t count_tiled(const struct weight *w, uint32_t n_rows) {
    if (!is_tiled(w) || n_rows < TILED_LEAST) return 0;
    return n_rows / ACT_TILE_ROWS * ACT_TILE_ROWS;
}

static size_t block_bytes(const struct weight *w, uint32_t n_rows) {
    return align_up(n_rows * (size_t)(w->n_in / ACT_BLOCK) * sizeof(struct act_block));
}

static size_t tile_bytes(const struct weight *w, uint32_t n_tiled) {
    return n_tiled / ACT_TILE_ROWS * (size_t)(w->n_in / ACT_BLOCK) * sizeof(struct act_tile);
}

size_t activations_bytes(const struct weight *w, uint32_t n_rows) {
    const size_t width = pad_width(2 * panel_pairs(w));
    if (is_quantised(w)) return block_bytes(w, n_rows) + tile_bytes(w, count_tiled(w, n_rows));
    if (w->format != PACK_BF16) return 0;
    return align_up(n_rows * width * sizeof(float)) + align_up(n_rows * width * sizeof(uint16_t));
}

bool activations_serve(const struct weight *w, const struct weight *other) {
    if (w->n_in != other->n_in) return false;
    if (is_quantised(w))
        return is_quantised(other) && w->form->block == other->form->block &&
               w->form->offset == other->form->offset && is_tiled(w) == is_tiled(other);
    return !is_quantised(other) && (w->format == PACK_BF16) == (other->format == PACK_BF16);
}

void activations_place(const struct weight *w, uint32_t n_rows, uint8_t *scratch,
                       struct act_rows *rows_out) {
    *rows_out = (struct act_rows){.w = w};
    if (w->prepare) rows_out->fn = (prepare_fn)w->prepare->fn;
    if (is_quantised(w)) {
        rows_out->blocks = (void *)scratch;
        rows_out->n_tiled = count_tiled(w, n_rows);
        if (rows_out->n_tiled) rows_out->tiles = (void *)(scratch + block_bytes(w, n_rows));
    } else if (w->format == PACK_BF16) {
        rows_out->width = (uint32_t)pad_width(2 * panel_pairs(w));
        rows_out->rounded = (void *)scratch;
        rows_out->halves =
            (void *)(scratch + align_up(n_rows * (size_t)rows_out->width * sizeof(float)));
    }
}

void activations_prepare(const struct act_rows *rows, uint32_t row, const float *x) {
    if (rows->fn) rows->fn(rows, row, x);
}

struct activations activations_of(const struct act_rows *rows, const float *x, uint32_t x_stride) {
    return (struct activations){.x = rows->rounded ? rows->rounded : x,
                                .x_stride = rows->rounded ? rows->width : x_stride,
                                .halves = rows->halves,
                                .blocks = rows->blocks,
                                .tiles = rows->tiles,
                                .n_tiled = rows->n_tiled};
}
