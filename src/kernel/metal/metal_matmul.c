/* metal_matmul.c - products with matrices as files have them: which kernel, how many threads.
 *
 * Up to GEMV_ROWS_MAX rows of x go through gemv.metal, which reads W once and is limited by that;
 * more go through gemm.metal, limited by arithmetic. A token alone is added up in another order
 * than one among many, so bits differ in the last places; Metal's bit class says so. Neither
 * repacks W, which stays where the file is mapped.
 *
 * The kernels' numbers that do not follow from the operation:
 *   rows of x      1, 2, 4 or 8 are compiled for; three rows run as four of which one is not
 * written rows of W      4 to a SIMD-group, 2 from four rows of x on: sums and what is kept live in
 *                  registers
 *   SPLIT          4 SIMD-groups share a row's inputs where the matrix would give fewer than
 *                  SIMDS_WANTED of them without and its rows are long enough to be shared
 * All are guesses from what is public about these GPUs: nothing has been measured on one.
 *
 * gemm.metal keeps W's numbers as halves while it multiplies, but float in --precision exact, and
 * for types that do not fit a half (f32, bf16). A dispatch takes at most GEMM_ROWS_MAX rows of x,
 * halved each time the system has ended a step that took too long (metal_shrink()).
 *
 * Pipelines are made at load and found by name and constants later. Cost of encoding: one dispatch,
 * five bindings. */
#include "metal_int.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/matmul_args.h"

#include <stdio.h>

enum { SIMDS_WANTED = 1024, SPLIT_IN_MIN = 2048, GEMM_ROWS_MAX = 1024 };

/* Kernels of a type of weights. */
struct matmul_kernels {
    enum dtype dtype;
    const char *gemv, *gemm, *gemm_exact;
};

static const struct matmul_kernels types[] = {
    {RADISH_DTYPE_F32, "gemv_f32", "gemm_f32_f32", "gemm_f32_f32"},
    {RADISH_DTYPE_F16, "gemv_f16", "gemm_f16_f16", "gemm_f16_f32"},
    {RADISH_DTYPE_BF16, "gemv_bf16", "gemm_bf16_f32", "gemm_bf16_f32"},
    {RADISH_DTYPE_Q4_0, "gemv_q4_0", "gemm_q4_0_f16", "gemm_q4_0_f32"},
    {RADISH_DTYPE_Q4_1, "gemv_q4_1", "gemm_q4_1_f16", "gemm_q4_1_f32"},
    {RADISH_DTYPE_Q5_0, "gemv_q5_0", "gemm_q5_0_f16", "gemm_q5_0_f32"},
    {RADISH_DTYPE_Q5_1, "gemv_q5_1", "gemm_q5_1_f16", "gemm_q5_1_f32"},
    {RADISH_DTYPE_Q8_0, "gemv_q8_0", "gemm_q8_0_f16", "gemm_q8_0_f32"},
    {RADISH_DTYPE_Q2_K, "gemv_q2_k", "gemm_q2_k_f16", "gemm_q2_k_f32"},
    {RADISH_DTYPE_Q3_K, "gemv_q3_k", "gemm_q3_k_f16", "gemm_q3_k_f32"},
    {RADISH_DTYPE_Q4_K, "gemv_q4_k", "gemm_q4_k_f16", "gemm_q4_k_f32"},
    {RADISH_DTYPE_Q5_K, "gemv_q5_k", "gemm_q5_k_f16", "gemm_q5_k_f32"},
    {RADISH_DTYPE_Q6_K, "gemv_q6_k", "gemm_q6_k_f16", "gemm_q6_k_f32"},
};

static const struct matmul_kernels *find_type(enum dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == dtype) return &types[i];
    return NULL;
}

/* How gemv.metal runs for a matrix and a number of rows. */
struct gemv_plan {
    uint32_t out, rows, split;
};

static struct gemv_plan plan_gemv(uint32_t n_out, uint32_t n_in, uint32_t n_rows) {
    struct gemv_plan plan = {.rows = 1, .split = 1};
    while (plan.rows < n_rows) plan.rows *= 2;
    plan.out = plan.rows > 2 ? 2 : 4;
    if (n_out / plan.out < SIMDS_WANTED && n_in >= SPLIT_IN_MIN) plan.split = GEMV_SIMDS;
    return plan;
}

static const struct mtl_pipeline *gemv_pipeline(struct metal_device *d,
                                                const struct matmul_kernels *kernels,
                                                struct gemv_plan plan, char *reason_out,
                                                size_t reason_bytes) {
    const struct mtl_constant constants[GEMV_CONSTANTS] = {
        metal_uint(GEMV_CONSTANT_OUT, plan.out), metal_uint(GEMV_CONSTANT_ROWS, plan.rows),
        metal_uint(GEMV_CONSTANT_SPLIT, plan.split)};
    return metal_pipeline(d, kernels->gemv, constants, GEMV_CONSTANTS, reason_out, reason_bytes);
}

static bool has_float_tiles(const struct metal_device *d, const struct matmul_kernels *kernels) {
    return metal_precision(d) == RADISH_PRECISION_EXACT || kernels->gemm == kernels->gemm_exact;
}

static const struct mtl_pipeline *gemm_pipeline(struct metal_device *d,
                                                const struct matmul_kernels *kernels,
                                                char *reason_out, size_t reason_bytes) {
    const char *name = has_float_tiles(d, kernels) ? kernels->gemm_exact : kernels->gemm;
    return metal_pipeline(d, name, NULL, 0, reason_out, reason_bytes);
}

/* The pipeline exists and takes the threads it is written for. */
static bool can_run(const struct mtl_pipeline *pipeline, uint32_t n_threads, char *reason_out,
                    size_t reason_bytes) {
    if (!pipeline) return false;
    const uint32_t n_max = mtl_pipeline_threads_max(pipeline);
    if (n_max >= n_threads) return true;
    snprintf(reason_out, reason_bytes, "this GPU runs only %u threads of the %u together", n_max,
             n_threads);
    return false;
}

bool any_f32_matmul__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                                char *reason_out, size_t reason_bytes) {
    const struct matmul_kernels *kernels = find_type(shape->weight_dtype);
    if (!kernels) {
        snprintf(reason_out, reason_bytes, "no Metal kernel multiplies %s",
                 dtype_name(shape->weight_dtype));
        return false;
    }
    for (uint32_t rows = 1; rows <= GEMV_ROWS_MAX; rows *= 2) {
        const struct gemv_plan plan = plan_gemv(shape->n_out, shape->n_in, rows);
        if (!can_run(gemv_pipeline(d, kernels, plan, reason_out, reason_bytes),
                     GEMV_SIMDS * MTL_SIMD_WIDTH, reason_out, reason_bytes))
            return false;
    }
    return can_run(gemm_pipeline(d, kernels, reason_out, reason_bytes), GEMM_THREADS, reason_out,
                   reason_bytes);
}

/* What both kernels are given, for rows [first, first + n_rows) of x and y. */
static void bind(struct metal_device *d, const struct matmul_args *a, uint32_t first,
                 uint32_t n_rows) {
    const struct weight *w = a->w;
    const struct matmul_sizes sizes = {.n_out = w->n_out,
                                       .n_in = w->n_in,
                                       .n_rows = n_rows,
                                       .x_stride = a->x_stride,
                                       .y_stride = a->y_stride,
                                       .row_bytes = (uint32_t)w->row_bytes,
                                       .has_bias = a->bias != NULL,
                                       .accumulate = a->accumulate};
    const float *x = a->x + (size_t)first * a->x_stride;
    float *y = a->y + (size_t)first * a->y_stride;
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, w->data, w->n_out * w->row_bytes);
    metal_read(d, 2, x, ((size_t)(n_rows - 1) * a->x_stride + w->n_in) * sizeof *x);
    if (a->bias) /* something has to be bound */
        metal_read(d, 3, a->bias, w->n_out * sizeof *a->bias);
    else
        metal_read(d, 3, x, sizeof *x);
    metal_write(d, 4, y, ((size_t)(n_rows - 1) * a->y_stride + w->n_out) * sizeof *y);
}

static void run_gemv(struct metal_device *d, const struct matmul_kernels *kernels,
                     const struct matmul_args *a) {
    const struct gemv_plan plan = plan_gemv(a->w->n_out, a->w->n_in, a->n_rows);
    const uint32_t group_out = plan.out * GEMV_SIMDS / plan.split;
    metal_use(d, gemv_pipeline(d, kernels, plan, NULL, 0));
    bind(d, a, 0, a->n_rows);
    metal_shared(d, 0, GEMV_SHARED_BYTES);
    const uint32_t n_groups[3] = {(a->w->n_out + group_out - 1) / group_out, 1, 1};
    const uint32_t group[3] = {GEMV_SIMDS * MTL_SIMD_WIDTH, 1, 1};
    metal_run_groups(d, n_groups, group);
}

static void run_gemm(struct metal_device *d, const struct matmul_kernels *kernels,
                     const struct matmul_args *a) {
    const uint32_t shrink = metal_shrink(d), shrunk = shrink < 31 ? GEMM_ROWS_MAX >> shrink : 0;
    const uint32_t rows_max = shrunk > GEMM_ROWS ? shrunk : GEMM_ROWS;
    const size_t shared = has_float_tiles(d, kernels) ? GEMM_SHARED_F32 : GEMM_SHARED_F16;
    const struct mtl_pipeline *pipeline = gemm_pipeline(d, kernels, NULL, 0);
    for (uint32_t first = 0; first < a->n_rows; first += rows_max) {
        const uint32_t n_rows = a->n_rows - first < rows_max ? a->n_rows - first : rows_max;
        metal_use(d, pipeline);
        bind(d, a, first, n_rows);
        metal_shared(d, 0, shared);
        const uint32_t n_groups[3] = {(n_rows + GEMM_ROWS - 1) / GEMM_ROWS,
                                      (a->w->n_out + GEMM_OUT - 1) / GEMM_OUT, 1};
        const uint32_t group[3] = {GEMM_THREADS, 1, 1};
        metal_run_groups(d, n_groups, group);
    }
}

void any_f32_matmul__metal(struct metal_device *d, const struct matmul_args *args) {
    if (!args->n_rows) return;
    const struct matmul_kernels *kernels = find_type(args->w->dtype);
    RADISH_INVARIANT(kernels, "matmul of %s", dtype_name(args->w->dtype));
    if (args->n_rows <= GEMV_ROWS_MAX)
        run_gemv(d, kernels, args);
    else
        run_gemm(d, kernels, args);
}
