/* bench_matmul.c - speed of the matrix products: per kernel and batch, GOP/s (2 per multiply-add)
 * and GB/s of packed weights.
 *
 * Usage: bench_matmul [N_OUT N_IN [THREADS [KERNEL]]]; KERNEL as for --kernel ("matmul=ref").
 * Prints CSV. Each line is the best of 40 runs of about 3 ms, short enough to miss other programs,
 * with the weights of eight matrices used in turn, so that few tokens read from memory and not from
 * a cache, as in a model.
 */
#include "base/clock.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MATRICES = 8, ROWS_MAX = 512, RUNS = 40 };
#define RUN_NS 3000000u

static void fill(uint8_t *data, size_t bytes, enum dtype dtype) {
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(state >> 24);
    }
    /* The top byte of every number: no infinities or NaN, and no denormals, which some processors
     * multiply a hundred times slower. */
    const size_t step = dtype_is_quantised(dtype) ? 1 : dtype_block_bytes(dtype);
    for (size_t i = step - 1; i < bytes; i += step)
        data[i] = (uint8_t)(step == 1 ? data[i] & 0xBF : (data[i] & 0x81) | 0x3C);
}

struct bench {
    struct device *device;
    struct weight *weights[N_MATRICES];
    float *x, *y;
    uint32_t n_out, n_in;
};

static uint64_t run_once(const struct bench *b, uint32_t n_rows, uint32_t *n_done) {
    const uint64_t start = clock_ns();
    uint32_t n = 0;
    do {
        const struct matmul_args args = {.w = b->weights[n++ % N_MATRICES],
                                         .x = b->x,
                                         .y = b->y,
                                         .n_rows = n_rows,
                                         .x_stride = b->n_in,
                                         .y_stride = b->n_out};
        b->device->ops->matmul(b->device, &args);
    } while (clock_ns() - start < RUN_NS);
    *n_done = n;
    return clock_ns() - start;
}

static void bench_dtype(struct bench *b, enum dtype dtype) {
    static const uint32_t batches[] = {1, 2, 4, 8, 64, 512};
    struct radish_error err;
    uint64_t row_bytes, weight_bytes = 0;
    if (!dtype_row_bytes(dtype, b->n_in, &row_bytes)) return;
    uint8_t *data = malloc((size_t)row_bytes * b->n_out);
    if (!data) exit(1);
    fill(data, (size_t)row_bytes * b->n_out, dtype);
    for (int i = 0; i < N_MATRICES; i++) {
        const struct weight_desc desc = {.name = "w",
                                         .dtype = dtype,
                                         .n_out = b->n_out,
                                         .n_in = b->n_in,
                                         .data = data,
                                         .is_multiplied = true};
        weight_bytes = b->device->ops->weight_bytes(b->device, &desc);
        if (b->device->ops->weight_create(b->device, &desc, &b->weights[i], &err) != RADISH_OK) {
            fprintf(stderr, "%s\n", err.msg);
            exit(1);
        }
    }
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        double best = 1e30;
        for (int run = 0; run < RUNS; run++) {
            uint32_t n;
            const uint64_t ns = run_once(b, batches[i], &n);
            if ((double)ns / n < best) best = (double)ns / n;
        }
        const double ops = 2.0 * b->n_out * b->n_in * batches[i];
        printf("%s,%u,%u,%u,%u,%.1f,%.1f,%.1f\n", dtype_name(dtype), b->n_out, b->n_in,
               device_n_threads(b->device), batches[i], best / 1000, ops / best,
               (double)weight_bytes / best);
        fflush(stdout);
    }
    for (int i = 0; i < N_MATRICES; i++) b->device->ops->weight_destroy(b->device, b->weights[i]);
    free(data);
}

int main(int argc, char **argv) {
    struct bench b = {.n_out = argc > 2 ? (uint32_t)atoi(argv[1]) : 1536,
                      .n_in = argc > 2 ? (uint32_t)atoi(argv[2]) : 576};
    const char *kernel = argc > 4 ? argv[4] : NULL;
    const struct device_options options = {.n_threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0,
                                           .kernels = &kernel,
                                           .n_kernels = kernel ? 1 : 0};
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32,  RADISH_DTYPE_F16,  RADISH_DTYPE_BF16,
                                        RADISH_DTYPE_Q4_0, RADISH_DTYPE_Q4_1, RADISH_DTYPE_Q5_0,
                                        RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q2_K, RADISH_DTYPE_Q4_K,
                                        RADISH_DTYPE_Q6_K};
    struct radish_error err;
    if (device_open("cpu", &options, &b.device, &err) != RADISH_OK ||
        b.device->ops->scratch_reserve(b.device, ROWS_MAX, b.n_in, 1, &err) != RADISH_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    b.x = malloc((size_t)ROWS_MAX * b.n_in * sizeof *b.x);
    b.y = malloc((size_t)ROWS_MAX * b.n_out * sizeof *b.y);
    if (!b.x || !b.y) return 1;
    for (size_t i = 0; i < (size_t)ROWS_MAX * b.n_in; i++) b.x[i] = (float)(i % 17) - 8.0f;
    printf("# %s\ndtype,n_out,n_in,threads,rows,us,gops,gbs\n", device_kernels(b.device));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) bench_dtype(&b, dtypes[i]);
    free(b.y), free(b.x);
    device_close(b.device);
    return 0;
}
