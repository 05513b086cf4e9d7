/* test_matmul_cut.c - products are cut into parts that get smaller: with any number of threads
 * every output is computed, once, and the same to the bit. */
#include "base/rng.h"
#include "kernel/kernel.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_IN = 32, N_ROWS = 3, N_PRODUCTS = 3, N_OUT_MAX = 40000 };

/* Panels of 16: one thread has few, 300 threads (1,200 shares) more than the table of parts. */
static const uint32_t widths[][N_PRODUCTS] = {{N_OUT_MAX, 0, 0},  {1024, 0, 0},  {16, 0, 0},
                                              {2048, 1024, 1024}, {1000, 17, 1}, {20000, 16, 9000}};

struct bench {
    struct device *device;
    struct weight *weights[N_PRODUCTS];
    float *data, *x, *y[N_PRODUCTS];
};

static void open_bench(struct bench *b, uint32_t n_threads, const uint32_t *n_out) {
    const struct device_options options = {.n_threads = n_threads,
                                           .precision = RADISH_PRECISION_EXACT};
    struct radish_error err = {0};
    *b = (struct bench){.data = malloc((size_t)N_OUT_MAX * N_IN * sizeof(float)),
                        .x = malloc(N_ROWS * N_IN * sizeof(float))};
    assert_true(b->data && b->x);
    for (uint32_t i = 0; i < N_OUT_MAX * N_IN; i++) b->data[i] = (float)rng_uniform(1, i) - 0.5f;
    for (uint32_t i = 0; i < N_ROWS * N_IN; i++) b->x[i] = (float)rng_uniform(2, i) - 0.5f;
    if (device_open("cpu", &options, &b->device, &err) != RADISH_OK) fail_msg("%s", err.msg);
    assert_int_equal(b->device->ops->scratch_reserve(b->device, N_ROWS, N_IN, 1, &err), RADISH_OK);
    for (uint32_t p = 0; p < N_PRODUCTS && n_out[p]; p++) {
        const struct weight_desc desc = {.name = "w",
                                         .dtype = RADISH_DTYPE_F32,
                                         .n_out = n_out[p],
                                         .n_in = N_IN,
                                         .data = b->data,
                                         .is_multiplied = true};
        if (b->device->ops->weight_create(b->device, &desc, &b->weights[p], &err) != RADISH_OK)
            fail_msg("%s", err.msg);
        b->y[p] = malloc((size_t)N_ROWS * n_out[p] * sizeof(float));
        assert_non_null(b->y[p]);
        for (uint32_t i = 0; i < N_ROWS * n_out[p]; i++) b->y[p][i] = NAN;
    }
}

static void close_bench(struct bench *b) {
    for (uint32_t p = 0; p < N_PRODUCTS; p++) {
        b->device->ops->weight_destroy(b->device, b->weights[p]);
        free(b->y[p]);
    }
    device_close(b->device);
    free(b->data);
    free(b->x);
}

static void run_bench(struct bench *b, const uint32_t *n_out) {
    struct matmul_group_args args = {.x = b->x, .n_rows = N_ROWS, .n_in = N_IN, .x_stride = N_IN};
    for (uint32_t p = 0; p < N_PRODUCTS && n_out[p]; p++)
        args.products[args.n_products++] =
            (struct matmul_product){.w = b->weights[p], .y = b->y[p], .y_stride = n_out[p]};
    b->device->ops->step_begin(b->device);
    device_matmul_group(b->device, &args);
    assert_int_equal(b->device->ops->step_submit(b->device), RADISH_OK);
}

static void test_any_number_of_threads_computes_every_output(void **state) {
    (void)state;
    static const uint32_t threads[] = {2, 3, 16, 300};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct bench alone;
        open_bench(&alone, 1, widths[i]);
        run_bench(&alone, widths[i]);
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            struct bench b;
            if (threads[t] == 300 && i) continue; /* the table is full in the first only */
            open_bench(&b, threads[t], widths[i]);
            run_bench(&b, widths[i]);
            for (uint32_t p = 0; p < N_PRODUCTS && widths[i][p]; p++)
                for (uint32_t k = 0; k < N_ROWS * widths[i][p]; k++) {
                    if (!memcmp(&b.y[p][k], &alone.y[p][k], sizeof(float))) continue;
                    fail_msg("product %u, output %u of %u, %u threads: %g, expected %g", p, k,
                             widths[i][p], threads[t], (double)b.y[p][k], (double)alone.y[p][k]);
                }
            close_bench(&b);
        }
        for (uint32_t p = 0; p < N_PRODUCTS && widths[i][p]; p++)
            for (uint32_t k = 0; k < N_ROWS * widths[i][p]; k++)
                assert_true(alone.y[p][k] == alone.y[p][k]); /* a number */
        close_bench(&alone);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads_computes_every_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
