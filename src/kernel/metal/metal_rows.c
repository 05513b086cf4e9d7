/* metal_rows.c - the operations on rows of activations on Metal: embed, keep_rows, rmsnorm,
 * layernorm, silu_mul, activate and soft_cap. Kernels in gather.metal, norm.metal and act.metal.
 *
 * All of them wait for memory, not for arithmetic, so what matters is that neighbouring threads
 * touch neighbouring numbers and that no row is cut where it need not be:
 *
 *   element by element  a grid of (width, rows); silu_mul is activate's SiLU with an `up`
 *   norms               a row by as many SIMD-groups as its width asks for; narrow rows (the norms
 *                       of single heads) share a threadgroup, each with a SIMD-group of its own
 *   embed               a grid of (runs of 8 elements, rows), a pipeline for each type of matrix
 *   keep_rows           a thread a column, which walks the rows (gather.metal says why)
 *
 * Activations are float32, as the contract has them; sums are cut by width alone, so that a row's
 * bits do not depend on what else is in the batch. What an optional operand would be bound to is
 * another operand of the same shape, and a flag or constant says that nobody reads it: a binding
 * that is missing is a fault. */
#include "metal_grid.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/act_args.h"
#include "kernels/gather_args.h"
#include "kernels/norm_args.h"

#include <stdio.h>

static void run_grid(struct metal_device *d, const struct mtl_pipeline *pipeline, uint32_t x,
                     uint32_t y) {
    const uint32_t grid[3] = {x, y, 1};
    uint32_t group[3];
    metal_group(pipeline, grid, group);
    metal_run_threads(d, grid, group);
}

static size_t floats_bytes(uint32_t n_rows, uint32_t stride, uint32_t width) {
    return metal_rows_bytes(n_rows, stride, width, sizeof(float));
}

/* ---- embed ---- */

static const char *embed_kernel(enum dtype dtype) {
    switch (dtype) {
    case RADISH_DTYPE_F32: return "embed_f32";
    case RADISH_DTYPE_F16: return "embed_f16";
    case RADISH_DTYPE_BF16: return "embed_bf16";
    case RADISH_DTYPE_Q4_0: return "embed_q4_0";
    case RADISH_DTYPE_Q4_1: return "embed_q4_1";
    case RADISH_DTYPE_Q5_0: return "embed_q5_0";
    case RADISH_DTYPE_Q5_1: return "embed_q5_1";
    case RADISH_DTYPE_Q8_0: return "embed_q8_0";
    case RADISH_DTYPE_Q2_K: return "embed_q2_k";
    case RADISH_DTYPE_Q3_K: return "embed_q3_k";
    case RADISH_DTYPE_Q4_K: return "embed_q4_k";
    case RADISH_DTYPE_Q5_K: return "embed_q5_k";
    case RADISH_DTYPE_Q6_K: return "embed_q6_k";
    default: return NULL;
    }
}

bool any_f32_embed__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                               char *reason_out, size_t reason_bytes) {
    const char *kernel = embed_kernel(shape->weight_dtype);
    if (!kernel) {
        snprintf(reason_out, reason_bytes, "no kernel reads rows of %s",
                 dtype_name(shape->weight_dtype));
        return false;
    }
    return metal_pipeline(d, kernel, NULL, 0, reason_out, reason_bytes);
}

/* Rows of the last step's draws that ids name. Ids of the matrix are checked here, as on the CPU:
 * the host wrote them. What was drawn it does not know; the kernel looks at that. */
static uint32_t count_sampled(const struct embed_args *a) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < a->n_rows; r++) {
        const int32_t id = a->token_ids[r];
        RADISH_INVARIANT(id < 0 || (uint32_t)id < a->w->n_out, "token id %d of %u", id,
                         a->w->n_out);
        if (id < 0 && (uint32_t)(-1 - id) >= n) n = (uint32_t)(-1 - id) + 1;
    }
    RADISH_INVARIANT(!n || a->sampled, "an id below 0 with nothing sampled");
    return n;
}

void any_f32_embed__metal(struct metal_device *d, const struct embed_args *args) {
    if (!args->n_rows) return;
    const struct weight *w = args->w;
    const uint32_t n_sampled = count_sampled(args);
    const int32_t *sampled = n_sampled ? args->sampled : args->token_ids;
    const struct gather_sizes sizes = {.n_rows = args->n_rows,
                                       .width = w->n_in,
                                       .stride = args->out_stride,
                                       .n_sampled = n_sampled,
                                       .n_vocab = w->n_out,
                                       .row_bytes_low = (uint32_t)w->row_bytes,
                                       .row_bytes_high = (uint32_t)((uint64_t)w->row_bytes >> 32),
                                       .scale = args->scale};
    const struct mtl_pipeline *pipeline =
        metal_pipeline(d, embed_kernel(w->dtype), NULL, 0, NULL, 0);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, w->data, w->bytes);
    metal_read(d, 2, args->token_ids, args->n_rows * sizeof *args->token_ids);
    metal_read(d, 3, sampled, (n_sampled ? n_sampled : 1) * sizeof *sampled);
    metal_write(d, 4, args->out, floats_bytes(args->n_rows, args->out_stride, w->n_in));
    run_grid(d, pipeline, (w->n_in + GATHER_RUN - 1) / GATHER_RUN, args->n_rows);
}

/* ---- keep_rows ---- */

bool f32_keep_rows__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                               char *reason_out, size_t reason_bytes) {
    (void)shape;
    return metal_pipeline(d, "keep_rows_f32", NULL, 0, reason_out, reason_bytes);
}

void f32_keep_rows__metal(struct metal_device *d, const struct keep_rows_args *args) {
    if (!args->n_rows || !args->width) return;
    const struct gather_sizes sizes = {
        .n_rows = args->n_rows, .width = args->width, .stride = args->stride};
    const uint32_t n_touched = args->rows[args->n_rows - 1] + 1;
    const struct mtl_pipeline *pipeline = metal_pipeline(d, "keep_rows_f32", NULL, 0, NULL, 0);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, args->rows, args->n_rows * sizeof *args->rows);
    metal_write(d, 2, args->x, floats_bytes(n_touched, args->stride, args->width));
    run_grid(d, pipeline, args->width, 1);
}

/* ---- norms ---- */

enum {
    SIMD_ELEMS = 128,   /* of a row for each SIMD-group: four reads a thread */
    NARROW_ELEMS = 256, /* rows up to this are one SIMD-group's */
    NARROW_ROWS = 8     /* of a threadgroup */
};

/* How many SIMD-groups share a row: a power of two, so that a few pipelines serve all widths. A
 * model asks for the width of its layers only, and norms single heads and whole rows of Q, too. */
static uint32_t simds_for(uint32_t width) {
    uint32_t simds = 1;
    if (width <= NARROW_ELEMS) return simds;
    while (simds < NORM_SIMDS_MAX && simds * SIMD_ELEMS < width) simds *= 2;
    return simds;
}

static const struct mtl_pipeline *find_norm(struct metal_device *d, const char *kernel,
                                            uint32_t simds, char *reason_out, size_t reason_bytes) {
    const struct mtl_constant constant = metal_uint(NORM_CONSTANT_SIMDS, simds);
    return metal_pipeline(d, kernel, &constant, 1, reason_out, reason_bytes);
}

static bool make_norm(struct metal_device *d, const char *kernel, char *reason_out,
                      size_t reason_bytes) {
    for (uint32_t simds = 1; simds <= NORM_SIMDS_MAX; simds *= 2)
        if (!find_norm(d, kernel, simds, reason_out, reason_bytes)) return false;
    return true;
}

/* The pipeline for rows of `width`. Kernels that need many registers allow fewer threads than a
 * threadgroup may have; then a row has fewer SIMD-groups. */
static const struct mtl_pipeline *choose_norm(struct metal_device *d, const char *kernel,
                                              uint32_t width, uint32_t *simds_out) {
    for (uint32_t simds = simds_for(width);; simds /= 2) {
        const struct mtl_pipeline *pipeline = find_norm(d, kernel, simds, NULL, 0);
        *simds_out = simds;
        if (simds == 1 || simds * MTL_SIMD_WIDTH <= mtl_pipeline_threads_max(pipeline))
            return pipeline;
    }
}

static void run_norm(struct metal_device *d, const struct mtl_pipeline *pipeline, uint32_t n_rows,
                     uint32_t simds) {
    uint32_t rows = simds > 1 ? 1 : NARROW_ROWS;
    const uint32_t rows_max = mtl_pipeline_threads_max(pipeline) / MTL_SIMD_WIDTH;
    if (simds == 1 && rows > rows_max) rows = rows_max;
    if (simds == 1 && rows > n_rows) rows = n_rows;
    const uint32_t n_groups[3] = {(n_rows + rows - 1) / rows, 1, 1};
    const uint32_t group[3] = {rows * simds * MTL_SIMD_WIDTH, 1, 1};
    metal_run_groups(d, n_groups, group);
}

bool f32_rmsnorm__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                             char *reason_out, size_t reason_bytes) {
    (void)shape;
    return make_norm(d, "norm_rms_f32", reason_out, reason_bytes);
}

void f32_rmsnorm__metal(struct metal_device *d, const struct rmsnorm_args *args) {
    if (!args->n_rows || !args->width) return;
    const struct norm_sizes sizes = {.n_rows = args->n_rows,
                                     .width = args->width,
                                     .x_stride = args->x_stride,
                                     .y_stride = args->y_stride,
                                     .is_added = args->accumulate,
                                     .eps = args->eps};
    uint32_t simds;
    const struct mtl_pipeline *pipeline = choose_norm(d, "norm_rms_f32", args->width, &simds);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, args->x, floats_bytes(args->n_rows, args->x_stride, args->width));
    metal_read(d, 2, args->w, args->width * sizeof *args->w);
    metal_write(d, 3, args->y, floats_bytes(args->n_rows, args->y_stride, args->width));
    run_norm(d, pipeline, args->n_rows, simds);
}

bool f32_layernorm__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                               char *reason_out, size_t reason_bytes) {
    (void)shape;
    return make_norm(d, "norm_layer_f32", reason_out, reason_bytes);
}

void f32_layernorm__metal(struct metal_device *d, const struct layernorm_args *args) {
    if (!args->n_rows || !args->width) return;
    const struct norm_sizes sizes = {.n_rows = args->n_rows,
                                     .width = args->width,
                                     .x_stride = args->x_stride,
                                     .y_stride = args->y_stride,
                                     .has_bias = args->bias != NULL,
                                     .eps = args->eps};
    const float *bias = args->bias ? args->bias : args->w;
    uint32_t simds;
    const struct mtl_pipeline *pipeline = choose_norm(d, "norm_layer_f32", args->width, &simds);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, args->x, floats_bytes(args->n_rows, args->x_stride, args->width));
    metal_read(d, 2, args->w, args->width * sizeof *args->w);
    metal_write(d, 3, args->y, floats_bytes(args->n_rows, args->y_stride, args->width));
    metal_read(d, 4, bias, args->width * sizeof *bias);
    run_norm(d, pipeline, args->n_rows, simds);
}

/* ---- activations ---- */

_Static_assert(ACT_SILU == ACTIVATION_SILU && ACT_GELU == ACTIVATION_GELU &&
                   ACT_GELU_TANH == ACTIVATION_GELU_TANH && ACT_RELU2 == ACTIVATION_RELU2,
               "the kernels' names for activations are those of kernel_args.h");

static const struct mtl_pipeline *find_act(struct metal_device *d, int32_t kind, bool has_up,
                                           char *reason_out, size_t reason_bytes) {
    const struct mtl_constant constants[] = {metal_uint(ACT_CONSTANT_KIND, (uint32_t)kind),
                                             metal_bool(ACT_CONSTANT_HAS_UP, has_up)};
    return metal_pipeline(d, "act_f32", constants, 2, reason_out, reason_bytes);
}

static void run_act(struct metal_device *d, const struct activate_args *a) {
    if (!a->n_rows || !a->width) return;
    const struct act_sizes sizes = {.in_stride = a->in_stride, .out_stride = a->out_stride};
    const struct mtl_pipeline *pipeline = find_act(d, a->kind, a->up != NULL, NULL, 0);
    const size_t in_bytes = floats_bytes(a->n_rows, a->in_stride, a->width);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, a->x, in_bytes);
    metal_read(d, 2, a->up ? a->up : a->x, in_bytes);
    metal_write(d, 3, a->out, floats_bytes(a->n_rows, a->out_stride, a->width));
    run_grid(d, pipeline, a->width, a->n_rows);
}

bool f32_activate__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                              char *reason_out, size_t reason_bytes) {
    (void)shape;
    for (int32_t kind = ACTIVATION_SILU; kind <= ACTIVATION_RELU2; kind++)
        if (!find_act(d, kind, /*has_up=*/true, reason_out, reason_bytes) ||
            !find_act(d, kind, /*has_up=*/false, reason_out, reason_bytes))
            return false;
    return true;
}

void f32_activate__metal(struct metal_device *d, const struct activate_args *args) {
    run_act(d, args);
}

bool f32_silu_mul__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                              char *reason_out, size_t reason_bytes) {
    (void)shape;
    return find_act(d, ACTIVATION_SILU, /*has_up=*/true, reason_out, reason_bytes);
}

void f32_silu_mul__metal(struct metal_device *d, const struct silu_mul_args *args) {
    const struct activate_args act = {.x = args->gate,
                                      .up = args->up,
                                      .out = args->out,
                                      .n_rows = args->n_rows,
                                      .width = args->width,
                                      .in_stride = args->in_stride,
                                      .out_stride = args->out_stride,
                                      .kind = ACTIVATION_SILU};
    run_act(d, &act);
}

/* ---- soft cap ---- */

bool f32_soft_cap__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                              char *reason_out, size_t reason_bytes) {
    (void)shape;
    return metal_pipeline(d, "act_cap_f32", NULL, 0, reason_out, reason_bytes);
}

void f32_soft_cap__metal(struct metal_device *d, const struct soft_cap_args *args) {
    if (!args->n_rows || !args->width) return;
    const struct act_sizes sizes = {.in_stride = args->stride, .cap = args->cap};
    const struct mtl_pipeline *pipeline = metal_pipeline(d, "act_cap_f32", NULL, 0, NULL, 0);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_write(d, 1, args->x, floats_bytes(args->n_rows, args->stride, args->width));
    run_grid(d, pipeline, args->width, args->n_rows);
}
