/* bench_kernels_matmul.c - matrix products of Qwen3-0.6B's shapes, and attention at its heads.
 *
 * Products: enough matrices are used in turn that no cache holds them, so that one token reads
 * memory, as in a model; bytes are those of the weights as they are packed, and of the activations.
 * The peak is that of the instruction set and operands which the kernel in use works with. With
 * --beside onednn, its product of the same shape is timed in turns with ours, on the same threads.
 */
#include "bench_kernels.h"

#include "base/log.h"
#include "bench_compare.h"
#include "bench_onednn.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRICES_MAX = 256, MATMUL_MS = 150, LOGITS_ROWS = 64 };
#define WEIGHT_BYTES ((uint64_t)192 << 20) /* of all matrices used in turn */

/* ---- products ---- */

struct matmul_bench {
    struct device *device;
    struct weight *weights[MATRICES_MAX];
    uint32_t n_weights, next;
    struct matmul_args args;
    struct onednn_product *peer; /* or NULL */
};

static void run_matmul(void *user) {
    struct matmul_bench *m = user;
    m->args.w = m->weights[m->next++ % m->n_weights];
    m->device->ops->step_begin(m->device);
    m->device->ops->matmul(m->device, &m->args);
    if (m->device->ops->step_submit(m->device) == RADISH_OK)
        (void)!m->device->ops->step_wait(m->device);
}

/* Times n rows; with a peer that can do them, in turns with it. */
static int run_batch(const struct kernel_bench *b, struct matmul_bench *m, uint32_t n,
                     struct kernel_figure figure) {
    struct compared compared[2] = {{.fn = run_matmul, .user = m},
                                   {.fn = onednn_product_run, .user = m->peer}};
    const bool has_peer = m->peer && onednn_product_set_rows(m->peer, n);
    m->args.n_rows = n;
    bench_compare(compared, has_peer ? 2 : 1, MATMUL_MS, device_n_threads(b->device) == 1);
    figure.n_rows = n;
    figure.ns = compared[0].median_ns;
    figure.min_ns = compared[0].min_ns;
    figure.onednn_ns = has_peer ? compared[1].median_ns : 0;
    figure.of_onednn = has_peer ? compared[1].ratio : 0;
    return kernel_bench_print(b, &figure);
}

static int run_batches(const struct kernel_bench *b, struct matmul_bench *m, enum dtype dtype,
                       const char *shape, uint32_t n_out, uint32_t n_in, uint64_t weight_bytes) {
    static const uint32_t batches[] = {1, 4, 16, 32, 64, 128, 512};
    const bool is_output = n_out > 100000; /* logits are made in blocks */
    int rc = -1;
    for (size_t i = 0; i < sizeof batches / sizeof *batches && rc < 0; i++) {
        const double n = batches[i];
        if (is_output && n > LOGITS_ROWS) break;
        const struct kernel_figure figure = {.op = "matmul",
                                             .shape = shape,
                                             .dtype = dtype_name(dtype),
                                             .bytes = (double)weight_bytes +
                                                      4.0 * n * ((double)n_out + n_in),
                                             .ops = 2.0 * n * n_out * n_in,
                                             .peak = kernel_bench_peak(b, KERNEL_OP_MATMUL, dtype)};
        rc = run_batch(b, m, batches[i], figure);
    }
    return rc;
}

static int create_weights(struct matmul_bench *m, const struct weight_desc *desc,
                          uint64_t *bytes_out) {
    struct radish_error err = {0};
    *bytes_out = m->device->ops->weight_bytes(m->device, desc);
    const uint64_t n = *bytes_out ? WEIGHT_BYTES / *bytes_out + 1 : 1;
    const uint32_t n_wanted = n < MATRICES_MAX ? (uint32_t)n : MATRICES_MAX;
    for (; m->n_weights < n_wanted; m->n_weights++)
        if (m->device->ops->weight_create(m->device, desc, &m->weights[m->n_weights], &err) !=
            RADISH_OK)
            return command_fail("%s", err.msg);
    return -1;
}

static int run_shape(const struct kernel_bench *b, enum dtype dtype, uint32_t n_out,
                     uint32_t n_in) {
    struct matmul_bench m = {.device = b->device};
    char shape[32];
    uint64_t bytes = 0;
    snprintf(shape, sizeof shape, "%u x %u", n_out, n_in);
    uint8_t *data = kernel_bench_matrix(dtype, n_out, n_in);
    const size_t n_x = (size_t)512 * n_in, n_y = (size_t)512 * (n_out < 100000 ? n_out : 20000);
    float *x = malloc(n_x * sizeof *x), *y = malloc(n_y * sizeof *y);
    const struct weight_desc desc = {.name = shape,
                                     .dtype = dtype,
                                     .n_out = n_out,
                                     .n_in = n_in,
                                     .data = data,
                                     .is_multiplied = true};
    int rc = data && x && y ? create_weights(&m, &desc, &bytes) : command_fail("out of memory");
    if (rc < 0) {
        for (size_t i = 0; i < n_x; i++) x[i] = (float)(i % 17) - 8.0f;
        memset(y, 0, n_y * sizeof *y);
        if (b->args->beside)
            m.peer = onednn_product_create(b->device, dtype, n_out, n_in,
                                           n_out < 100000 ? 512 : LOGITS_ROWS, WEIGHT_BYTES);
        m.args = (struct matmul_args){.x = x, .y = y, .x_stride = n_in, .y_stride = n_out};
        rc = run_batches(b, &m, dtype, shape, n_out, n_in, bytes);
    }
    for (uint32_t i = 0; i < m.n_weights; i++)
        b->device->ops->weight_destroy(b->device, m.weights[i]);
    onednn_product_destroy(m.peer);
    free(y), free(x), free(data);
    return rc;
}

/* Says so where the peer cannot do it: rows without its figures are no oversight. */
static void try_peer(const struct kernel_bench *b, enum dtype dtype) {
    struct onednn_product *peer = onednn_product_create(b->device, dtype, 1024, 1024, 1, 1);
    if (!peer)
        log_warn("bench", "oneDNN %s has no product of %s weights here", onednn_describe(),
                 dtype_name(dtype));
    onednn_product_destroy(peer);
}

int bench_kernels_matmul(const struct kernel_bench *b) {
    static const struct {
        uint32_t n_out, n_in;
    } shapes[] = {{2048, 1024}, {1024, 1024}, {1024, 2048},
                  {3072, 1024}, {1024, 3072}, {151936, 1024}};
    int rc = -1;
    for (int t = 0; t < RADISH_DTYPE_COUNT && rc < 0; t++) {
        const enum dtype dtype = (enum dtype)t;
        const bool is_usual = dtype == RADISH_DTYPE_BF16 || dtype == RADISH_DTYPE_Q8_0 ||
                              dtype == RADISH_DTYPE_Q4_0 || dtype == RADISH_DTYPE_Q4_K;
        if (!dtype_can_read(dtype) || !kernel_bench_wants_dtype(b, dtype, is_usual)) continue;
        if (b->args->beside) try_peer(b, dtype);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && rc < 0; i++)
            rc = run_shape(b, dtype, shapes[i].n_out, shapes[i].n_in);
    }
    return rc;
}
