/* bench_kernels_group.c - groups of products at Qwen3-0.6B's shapes, as a layer calls them, beside
 * the same made of its parts.
 *
 *   qkv      rmsnorm, then Q, K and V of its rows
 *   gate up  rmsnorm, then gate and up of its rows, then silu(gate) * up
 *
 * The parts are device_matmul_parts(): an operation each, with a section of the compute pool and a
 * pass over the activations. Both are timed in the same rounds (bench_compare.c), over enough sets
 * of weights in turn that no cache holds them. What a group saves is the same at every number of
 * rows or nearly so: it shows where a step is short, which is where answers are generated. Bytes
 * are those of the packed weights, of the rows read and of the results. */
#include "bench_kernels.h"

#include "bench_compare.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 1024, ROWS_MAX = 512, SETS_MAX = 64, GROUP_MS = 120 };
#define SETS_BYTES ((uint64_t)128 << 20) /* of all weights used in turn */

/* What a layer computes from one norm. */
struct group_shape {
    const char *name;
    uint32_t n_products, n_out[MATMUL_GROUP_MAX];
    bool is_activated;
};

struct group_bench {
    struct device *device;
    const struct group_shape *shape;
    struct weight *weights[SETS_MAX][MATMUL_GROUP_MAX];
    uint32_t n_sets, next;
    uint64_t set_bytes; /* as packed */
    struct matmul_group_args args;
    float *block; /* norm_x, x, the results, norm_w */
};

static void run_with(struct group_bench *g,
                     void (*run)(struct device *, const struct matmul_group_args *)) {
    struct weight *const *set = g->weights[g->next++ % g->n_sets];
    for (uint32_t i = 0; i < g->args.n_products; i++) g->args.products[i].w = set[i];
    g->device->ops->step_begin(g->device);
    run(g->device, &g->args);
    if (g->device->ops->step_submit(g->device) == RADISH_OK)
        (void)!g->device->ops->step_wait(g->device);
}

static void run_group(void *user) {
    run_with(user, device_matmul_group);
}

static void run_parts(void *user) {
    run_with(user, device_matmul_parts);
}

static int create_set(struct group_bench *g, enum dtype dtype, const void *data) {
    struct radish_error err = {0};
    g->set_bytes = 0;
    for (uint32_t i = 0; i < g->shape->n_products; i++) {
        const struct weight_desc desc = {.name = g->shape->name,
                                         .dtype = dtype,
                                         .n_out = g->shape->n_out[i],
                                         .n_in = HIDDEN,
                                         .data = data,
                                         .is_multiplied = true};
        g->set_bytes += g->device->ops->weight_bytes(g->device, &desc);
        if (g->device->ops->weight_create(g->device, &desc, &g->weights[g->n_sets][i], &err) !=
            RADISH_OK)
            return command_fail("%s", err.msg);
    }
    g->n_sets++;
    return -1;
}

static bool fill(struct group_bench *g) {
    const struct group_shape *s = g->shape;
    size_t width = 2 * HIDDEN;
    for (uint32_t i = 0; i < s->n_products; i++) width += s->n_out[i];
    const size_t n = ROWS_MAX * width + HIDDEN;
    g->block = malloc(n * sizeof *g->block);
    if (!g->block) return false;
    for (size_t i = 0; i < n; i++) g->block[i] = (float)(i % 17) / 8.0f - 1.0f;
    float *x = g->block + (size_t)ROWS_MAX * HIDDEN, *y = x + (size_t)ROWS_MAX * HIDDEN;
    g->args = (struct matmul_group_args){.n_products = s->n_products,
                                         .x = x,
                                         .n_in = HIDDEN,
                                         .x_stride = HIDDEN,
                                         .norm = MATMUL_NORM_RMS,
                                         .norm_x = g->block,
                                         .norm_w = g->block + ROWS_MAX * width,
                                         .norm_x_stride = HIDDEN,
                                         .norm_eps = 1e-6f,
                                         .is_activated = s->is_activated,
                                         .n_out = s->n_out[0],
                                         .activation = ACTIVATION_SILU};
    for (uint32_t i = 0; i < s->n_products; i++) {
        g->args.products[i] = (struct matmul_product){.y = y, .y_stride = s->n_out[i]};
        y += (size_t)ROWS_MAX * s->n_out[i];
    }
    return true;
}

static int run_batch(const struct kernel_bench *b, struct group_bench *g, enum dtype dtype,
                     uint32_t n_rows) {
    struct compared compared[2] = {{.fn = run_group, .user = g}, {.fn = run_parts, .user = g}};
    const struct group_shape *s = g->shape;
    char extra[160];
    double n_out = 0;
    for (uint32_t i = 0; i < s->n_products; i++) n_out += s->n_out[i];
    g->args.n_rows = n_rows;
    bench_compare(compared, 2, GROUP_MS, device_n_threads(b->device) == 1);
    const struct compared *parts = &compared[1];
    snprintf(extra, sizeof extra,
             b->args->json
                 ? ", \"parts_ns\": %.0f, \"parts_ratio\": %.4f, \"parts_quartiles\": [%.4f, %.4f]"
                 : "  parts %.0f ns; to the group %.3f (%.3f to %.3f)",
             parts->median_ns, parts->ratio, parts->ratio_low, parts->ratio_high);
    const double written = s->is_activated ? s->n_out[0] : n_out;
    const struct kernel_figure figure = {.op = "matmul_group",
                                         .shape = s->name,
                                         .dtype = dtype_name(dtype),
                                         .n_rows = n_rows,
                                         .ns = compared[0].median_ns,
                                         .min_ns = compared[0].min_ns,
                                         .bytes = (double)g->set_bytes +
                                                  4.0 * n_rows * (HIDDEN + written),
                                         .ops = 2.0 * n_rows * n_out * HIDDEN,
                                         .peak = kernel_bench_peak(b, KERNEL_OP_MATMUL, dtype),
                                         .extra = extra};
    return kernel_bench_print(b, &figure);
}

static int run_shape(const struct kernel_bench *b, enum dtype dtype,
                     const struct group_shape *shape) {
    static const uint32_t batches[] = {1, 4, 16, 64, 512};
    struct group_bench *g = calloc(1, sizeof *g);
    if (!g) return command_fail("out of memory");
    g->device = b->device;
    g->shape = shape;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < shape->n_products; i++)
        if (shape->n_out[i] > largest) largest = shape->n_out[i];
    uint8_t *data = kernel_bench_matrix(dtype, largest, HIDDEN);
    int rc = data && fill(g) ? -1 : command_fail("out of memory");
    do {
        if (rc < 0) rc = create_set(g, dtype, data);
    } while (rc < 0 && g->n_sets < SETS_MAX && g->n_sets * g->set_bytes < SETS_BYTES);
    for (size_t i = 0; i < sizeof batches / sizeof *batches && rc < 0; i++)
        rc = run_batch(b, g, dtype, batches[i]);
    for (uint32_t i = 0; i < SETS_MAX * MATMUL_GROUP_MAX; i++)
        b->device->ops->weight_destroy(b->device,
                                       g->weights[i / MATMUL_GROUP_MAX][i % MATMUL_GROUP_MAX]);
    free(data), free(g->block), free(g);
    return rc;
}

int bench_kernels_group(const struct kernel_bench *b) {
    static const struct group_shape shapes[] = {{"qkv", 3, {2048, 1024, 1024}, false},
                                                {"gate up", 2, {3072, 3072}, true}};
    int rc = -1;
    for (int t = 0; t < RADISH_DTYPE_COUNT && rc < 0; t++) {
        const enum dtype dtype = (enum dtype)t;
        const bool is_usual = dtype == RADISH_DTYPE_BF16 || dtype == RADISH_DTYPE_Q8_0;
        if (!dtype_can_read(dtype) || !kernel_bench_wants_dtype(b, dtype, is_usual)) continue;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && rc < 0; i++)
            rc = run_shape(b, dtype, &shapes[i]);
    }
    return rc;
}
