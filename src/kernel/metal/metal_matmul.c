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
 * A group that ends in an activation (gate and up of a layer) is one dispatch for few rows, after
 * its norm: gemv_pair makes both products and what comes of them, in the bits of its parts. The
 * norm stays by itself: every threadgroup would have to repeat it, and its sum would have other
 * bits.
 *
 * Pipelines are made at load and found by name and constants later. Cost of encoding: one dispatch,
 * five bindings. */
#include "metal_device.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/act_args.h"
#include "kernels/matmul_args.h"

#include <stdio.h>

_Static_assert(ACT_RELU2 < MATMUL_NO_ACTIVATION, "an activation of its own");

enum { SIMDS_WANTED = 1024, SPLIT_IN_MIN = 2048, GEMM_ROWS_MAX = 1024 };

/* Kernels of a type of weights. */
struct matmul_kernels {
    enum dtype dtype;
    const char *gemv, *gemv_pair, *gemm, *gemm_exact;
};

static const struct matmul_kernels types[] = {
    {RADISH_DTYPE_F32, "gemv_f32", "gemv_pair_f32", "gemm_f32_f32", "gemm_f32_f32"},
    {RADISH_DTYPE_F16, "gemv_f16", "gemv_pair_f16", "gemm_f16_f16", "gemm_f16_f32"},
    {RADISH_DTYPE_BF16, "gemv_bf16", "gemv_pair_bf16", "gemm_bf16_f32", "gemm_bf16_f32"},
    {RADISH_DTYPE_Q4_0, "gemv_q4_0", "gemv_pair_q4_0", "gemm_q4_0_f16", "gemm_q4_0_f32"},
    {RADISH_DTYPE_Q4_1, "gemv_q4_1", "gemv_pair_q4_1", "gemm_q4_1_f16", "gemm_q4_1_f32"},
    {RADISH_DTYPE_Q5_0, "gemv_q5_0", "gemv_pair_q5_0", "gemm_q5_0_f16", "gemm_q5_0_f32"},
    {RADISH_DTYPE_Q5_1, "gemv_q5_1", "gemv_pair_q5_1", "gemm_q5_1_f16", "gemm_q5_1_f32"},
    {RADISH_DTYPE_Q8_0, "gemv_q8_0", "gemv_pair_q8_0", "gemm_q8_0_f16", "gemm_q8_0_f32"},
    {RADISH_DTYPE_Q2_K, "gemv_q2_k", "gemv_pair_q2_k", "gemm_q2_k_f16", "gemm_q2_k_f32"},
    {RADISH_DTYPE_Q3_K, "gemv_q3_k", "gemv_pair_q3_k", "gemm_q3_k_f16", "gemm_q3_k_f32"},
    {RADISH_DTYPE_Q4_K, "gemv_q4_k", "gemv_pair_q4_k", "gemm_q4_k_f16", "gemm_q4_k_f32"},
    {RADISH_DTYPE_Q5_K, "gemv_q5_k", "gemv_pair_q5_k", "gemm_q5_k_f16", "gemm_q5_k_f32"},
    {RADISH_DTYPE_Q6_K, "gemv_q6_k", "gemv_pair_q6_k", "gemm_q6_k_f16", "gemm_q6_k_f32"},
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

static const struct mtl_pipeline *gemv_pipeline(struct metal_device *d, const char *kernel,
                                                struct gemv_plan plan, char *reason_out,
                                                size_t reason_bytes) {
    const struct mtl_constant constants[GEMV_CONSTANTS] = {
        metal_uint(GEMV_CONSTANT_OUT, plan.out), metal_uint(GEMV_CONSTANT_ROWS, plan.rows),
        metal_uint(GEMV_CONSTANT_SPLIT, plan.split)};
    return metal_pipeline(d, kernel, constants, GEMV_CONSTANTS, reason_out, reason_bytes);
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
        const struct mtl_pipeline *one, *pair;
        one = gemv_pipeline(d, kernels->gemv, plan, reason_out, reason_bytes);
        if (!can_run(one, GEMV_SIMDS * MTL_SIMD_WIDTH, reason_out, reason_bytes)) return false;
        pair = gemv_pipeline(d, kernels->gemv_pair, plan, reason_out, reason_bytes);
        if (!can_run(pair, GEMV_SIMDS * MTL_SIMD_WIDTH, reason_out, reason_bytes)) return false;
    }
    return can_run(gemm_pipeline(d, kernels, reason_out, reason_bytes), GEMM_THREADS, reason_out,
                   reason_bytes);
}

/* A product, and what a group adds to it. */
struct product {
    const struct matmul_args *args;
    uint32_t activation;     /* ACT_* or MATMUL_NO_ACTIVATION */
    const struct weight *up; /* of gemv_pair, as large as args->w; or NULL */
    const float *bias_up;
};

/* What all kernels are given, for rows [first, first + n_rows) of x and y. */
static void bind(struct metal_device *d, const struct product *p, uint32_t first, uint32_t n_rows) {
    const struct matmul_args *a = p->args;
    const struct weight *w = a->w;
    const struct matmul_sizes sizes = {.n_out = w->n_out,
                                       .n_in = w->n_in,
                                       .n_rows = n_rows,
                                       .x_stride = a->x_stride,
                                       .y_stride = a->y_stride,
                                       .row_bytes = (uint32_t)w->row_bytes,
                                       .has_bias = a->bias != NULL,
                                       .accumulate = a->accumulate,
                                       .activation = p->activation,
                                       .has_bias_up = p->bias_up != NULL};
    const float *x = a->x + (size_t)first * a->x_stride;
    float *y = a->y + (size_t)first * a->y_stride;
    /* Something has to be bound where there is no bias. */
    const float *bias = a->bias ? a->bias : x, *bias_up = p->bias_up ? p->bias_up : x;
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, w->data, w->n_out * w->row_bytes);
    metal_read(d, 2, x, ((size_t)(n_rows - 1) * a->x_stride + w->n_in) * sizeof *x);
    metal_read(d, 3, bias, (a->bias ? w->n_out : 1) * sizeof *bias);
    metal_write(d, 4, y, ((size_t)(n_rows - 1) * a->y_stride + w->n_out) * sizeof *y);
    if (!p->up) return;
    metal_read(d, 5, p->up->data, w->n_out * w->row_bytes);
    metal_read(d, 6, bias_up, (p->bias_up ? w->n_out : 1) * sizeof *bias_up);
}

static void run_gemv(struct metal_device *d, const struct matmul_kernels *kernels,
                     const struct product *p) {
    const struct matmul_args *a = p->args;
    const struct gemv_plan plan = plan_gemv(a->w->n_out, a->w->n_in, a->n_rows);
    const char *kernel = p->up ? kernels->gemv_pair : kernels->gemv;
    const uint32_t simd_out = p->up ? plan.out / 2 : plan.out;
    const uint32_t group_out = simd_out * GEMV_SIMDS / plan.split;
    metal_use(d, gemv_pipeline(d, kernel, plan, NULL, 0));
    bind(d, p, 0, a->n_rows);
    metal_shared(d, 0, GEMV_SHARED_BYTES);
    const uint32_t n_groups[3] = {(a->w->n_out + group_out - 1) / group_out, 1, 1};
    const uint32_t group[3] = {GEMV_SIMDS * MTL_SIMD_WIDTH, 1, 1};
    metal_run_groups(d, n_groups, group);
}

static void run_gemm(struct metal_device *d, const struct matmul_kernels *kernels,
                     const struct product *p) {
    const struct matmul_args *a = p->args;
    const uint32_t shrink = metal_shrink(d), shrunk = shrink < 31 ? GEMM_ROWS_MAX >> shrink : 0;
    const uint32_t rows_max = shrunk > GEMM_ROWS ? shrunk : GEMM_ROWS;
    const size_t shared = has_float_tiles(d, kernels) ? GEMM_SHARED_F32 : GEMM_SHARED_F16;
    const struct mtl_pipeline *pipeline = gemm_pipeline(d, kernels, NULL, 0);
    for (uint32_t first = 0; first < a->n_rows; first += rows_max) {
        const uint32_t n_rows = a->n_rows - first < rows_max ? a->n_rows - first : rows_max;
        metal_use(d, pipeline);
        bind(d, p, first, n_rows);
        metal_shared(d, 0, shared);
        const uint32_t n_groups[3] = {(n_rows + GEMM_ROWS - 1) / GEMM_ROWS,
                                      (a->w->n_out + GEMM_OUT - 1) / GEMM_OUT, 1};
        const uint32_t group[3] = {GEMM_THREADS, 1, 1};
        metal_run_groups(d, n_groups, group);
    }
}

static const struct matmul_kernels *get_kernels(const struct weight *w) {
    const struct matmul_kernels *kernels = find_type(w->dtype);
    RADISH_INVARIANT(kernels, "matmul of %s", dtype_name(w->dtype));
    return kernels;
}

void any_f32_matmul__metal(struct metal_device *d, const struct matmul_args *args) {
    const struct product product = {.args = args, .activation = MATMUL_NO_ACTIVATION};
    if (!args->n_rows) return;
    if (args->n_rows <= GEMV_ROWS_MAX)
        run_gemv(d, get_kernels(args->w), &product);
    else
        run_gemm(d, get_kernels(args->w), &product);
}

/* ---- groups ---- */

bool any_f32_matmul_group__metal_unfused_make(struct metal_device *d,
                                              const struct kernel_shape *shape, char *reason_out,
                                              size_t reason_bytes) {
    (void)d, (void)shape, (void)reason_out, (void)reason_bytes;
    return true; /* each operation has been asked for by itself */
}

void any_f32_matmul_group__metal_unfused(struct metal_device *d,
                                         const struct matmul_group_args *args) {
    device_matmul_parts(&d->base.device, args);
}

bool any_f32_matmul_group__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                                      char *reason_out, size_t reason_bytes) {
    (void)d, (void)shape, (void)reason_out, (void)reason_bytes;
    return true; /* matmul's makes pairs as well */
}

/* One dispatch can make it: few rows, one product or two of one type, activated. */
static bool can_fuse(const struct matmul_group_args *a) {
    if (!a->is_activated || !a->n_rows || a->n_rows > GEMV_ROWS_MAX) return false;
    return a->n_products == 1 || a->products[0].w->dtype == a->products[1].w->dtype;
}

void any_f32_matmul_group__metal(struct metal_device *d, const struct matmul_group_args *args) {
    if (!can_fuse(args)) {
        device_matmul_parts(&d->base.device, args);
        return;
    }
    struct matmul_group_args norm = *args;
    norm.n_products = 0;
    norm.is_activated = false;
    device_matmul_parts(&d->base.device, &norm);

    const struct matmul_product *first = &args->products[0], *up = &args->products[1];
    const struct matmul_args matmul = {.w = first->w,
                                       .x = args->x,
                                       .bias = first->bias,
                                       .y = first->y,
                                       .n_rows = args->n_rows,
                                       .x_stride = args->x_stride,
                                       .y_stride = first->y_stride};
    struct product product = {.args = &matmul, .activation = (uint32_t)args->activation};
    if (args->n_products == 2) {
        product.up = up->w;
        product.bias_up = up->bias;
    }
    run_gemv(d, get_kernels(first->w), &product);
}
