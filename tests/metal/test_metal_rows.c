/* test_metal_rows.c - the operations on rows of activations on the device: every one over the
 * shapes that the CPU's kernels are tested with, and shapes that a GPU cuts in its own way.
 *
 * Norms have another form for each width, rows that share a threadgroup, and the most SIMD-groups
 * that a pipeline allows; keep_rows moves rows in eights; embed reads ids that the host has not
 * seen. */
#include "base/rng.h"
#include "kernel_check.h"
#include "kernel_memory.h"
#include "stand_in.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void (*const checks[KERNEL_OP_COUNT])(const struct kernel_row *) = {
    [KERNEL_OP_EMBED] = check_embed,         [KERNEL_OP_RMSNORM] = check_rmsnorm,
    [KERNEL_OP_LAYERNORM] = check_layernorm, [KERNEL_OP_SILU_MUL] = check_silu_mul,
    [KERNEL_OP_ACTIVATE] = check_activate,   [KERNEL_OP_SOFT_CAP] = check_soft_cap,
    [KERNEL_OP_KEEP_ROWS] = check_keep_rows,
};

static void check_row(void **state) {
    const struct kernel_row *row = *state;
    checks[row->op](row);
}

static struct device *open_device(void) {
    struct device *device =
        check_open_named(CHECK_METAL, NULL, /*n_threads=*/1, RADISH_PRECISION_FAST);
    check_memory_from(device);
    return device;
}

static void close_device(struct device *device) {
    check_memory_from(NULL);
    device_close(device);
}

static void finish_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

/* ---- norms ---- */

struct norm_case {
    uint32_t n_rows, width, stride;
    float *x, *w, *bias, *y;
};

static struct norm_case norm_init(uint32_t n_rows, uint32_t width) {
    const uint32_t stride = width + 3;
    struct norm_case c = {n_rows,
                          width,
                          stride,
                          check_floats((size_t)n_rows * stride),
                          check_floats(width),
                          check_floats(width),
                          check_floats((size_t)n_rows * stride)};
    for (uint32_t r = 0; r < n_rows; r++) {
        check_fill(c.x + (size_t)r * stride, width, 70 + r, 2.0f);
        for (uint32_t i = 0; i < width; i++) c.x[(size_t)r * stride + i] += 5.0f;
    }
    check_fill(c.w, width, 68, 2.0f);
    check_fill(c.bias, width, 69, 2.0f);
    return c;
}

static void norm_deinit(struct norm_case *c) {
    check_free(c->x), check_free(c->w), check_free(c->bias), check_free(c->y);
}

/* Against double, and nothing written behind a row. A row's mean is 0 for RMS. */
static void check_normed(const struct norm_case *c, bool is_layer) {
    for (uint32_t r = 0; r < c->n_rows; r++) {
        const float *x = c->x + (size_t)r * c->stride, *y = c->y + (size_t)r * c->stride;
        double mean = 0, squares = 0;
        for (uint32_t i = 0; i < c->width && is_layer; i++) mean += (double)x[i] / c->width;
        for (uint32_t i = 0; i < c->width; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double inverse = 1 / sqrt(squares / c->width + 1e-5);
        for (uint32_t i = 0; i < c->width; i++) {
            const double w = (double)c->w[i], bias = is_layer ? (double)c->bias[i] : 0;
            const double expected = ((double)x[i] - mean) * inverse * w + bias;
            const double terms = (fabs((double)x[i]) + mean) * inverse * fabs(w) + fabs(bias);
            check_close_to((double)y[i], expected, 1e-6 * terms, "norm", (size_t)r * c->stride + i);
        }
        for (uint32_t i = c->width; i < c->stride; i++) assert_true(isnan(y[i]));
    }
}

static void run_norm_case(struct device *device, uint32_t n_rows, uint32_t width) {
    struct norm_case c = norm_init(n_rows, width);
    const struct rmsnorm_args rms = {c.x,      c.w,      c.y,   n_rows, width,
                                     c.stride, c.stride, 1e-5f, false};
    const struct layernorm_args layer = {c.x,   c.w,      c.bias,   c.y,  n_rows,
                                         width, c.stride, c.stride, 1e-5f};
    check_supports(device, KERNEL_OP_RMSNORM, &(struct kernel_shape){.n_in = width});
    check_supports(device, KERNEL_OP_LAYERNORM, &(struct kernel_shape){.n_in = width});
    device->ops->step_begin(device);
    device->ops->rmsnorm(device, &rms);
    finish_step(device);
    check_normed(&c, /*is_layer=*/false);
    device->ops->step_begin(device);
    device->ops->layernorm(device, &layer);
    finish_step(device);
    check_normed(&c, /*is_layer=*/true);
    norm_deinit(&c);
}

/* Widths on both sides of where one more SIMD-group joins; narrow rows in odd numbers. */
static const uint32_t norm_shapes[][2] = {{301, 1},  {7, 80},   {17, 128}, {9, 256},  {3, 257},
                                          {2, 511},  {3, 513},  {2, 1023}, {2, 1025}, {2, 2047},
                                          {2, 3072}, {1, 4096}, {2, 4097}, {1, 5120}, {1, 8193}};
enum { N_NORM_SHAPES = sizeof norm_shapes / sizeof *norm_shapes };

static void test_norms_of_every_width_agree_with_double(void **state) {
    (void)state;
    struct device *device = open_device();
    for (int i = 0; i < N_NORM_SHAPES; i++)
        run_norm_case(device, norm_shapes[i][0], norm_shapes[i][1]);
    close_device(device);
}

/* Kernels that need many registers allow small threadgroups only. */
static void test_norms_fit_into_what_a_pipeline_allows(void **state) {
    static const char *const limits[] = {"32", "96", "320"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setenv("MTL_SIM_THREADS_MAX", limits[i], 1), 0);
        stand_in_reset();
        struct device *device = open_device();
        run_norm_case(device, 9, 128);
        run_norm_case(device, 2, 1025);
        run_norm_case(device, 1, 4097);
        close_device(device);
        assert_int_equal(stand_in_faults(), 0);
    }
    assert_int_equal(unsetenv("MTL_SIM_THREADS_MAX"), 0);
    stand_in_reset();
}

/* The width of a layer is all that a model asks for; heads are normed as well. */
static void test_norms_of_widths_that_nobody_asked_for_are_there(void **state) {
    (void)state;
    struct device *device = open_device();
    struct norm_case c = norm_init(6, 96);
    const struct rmsnorm_args args = {c.x, c.w, c.y, 6, 96, c.stride, c.stride, 1e-5f, false};
    check_supports(device, KERNEL_OP_RMSNORM, &(struct kernel_shape){.n_in = 3072});
    device->ops->step_begin(device);
    device->ops->rmsnorm(device, &args);
    finish_step(device);
    check_normed(&c, /*is_layer=*/false);
    norm_deinit(&c);
    close_device(device);
}

/* ---- rows ---- */

static void test_kept_rows_are_those_asked_for_whatever_the_gaps(void **state) {
    enum { ROWS = 60, WIDTH = 5, STRIDE = 6, RUNS = 40 };
    (void)state;
    struct device *device = open_device();
    float *x = check_floats(ROWS * STRIDE), before[ROWS * STRIDE];
    uint32_t *rows = check_alloc(ROWS * sizeof *rows);
    check_supports(device, KERNEL_OP_KEEP_ROWS, &(struct kernel_shape){.n_in = WIDTH});
    for (uint32_t run = 0; run < RUNS; run++) {
        const uint64_t rare = 1 + rng_u64(check_seed(), run) % 4;
        uint32_t n = 0;
        for (uint32_t r = 0; r < ROWS; r++)
            if (rng_u64(check_seed() + run, r) % rare == 0) rows[n++] = r;
        check_fill(x, ROWS * STRIDE, 300 + run, 1.0f);
        memcpy(before, x, sizeof before);
        const struct keep_rows_args args = {x, rows, n, WIDTH, STRIDE};
        device->ops->step_begin(device);
        device->ops->keep_rows(device, &args);
        finish_step(device);
        for (uint32_t i = 0; i < n; i++) {
            check_same_bits(x + i * STRIDE, before + rows[i] * STRIDE, WIDTH * sizeof *x, "kept");
            check_same_bits(x + i * STRIDE + WIDTH, before + i * STRIDE + WIDTH, sizeof *x, "gap");
        }
        check_same_bits(x + n * STRIDE, before + n * STRIDE, (ROWS - n) * STRIDE * sizeof *x,
                        "rows behind");
    }
    check_free(rows), check_free(x);
    close_device(device);
}

/* What a step has drawn the host learns later: nothing it may hold leads out of the matrix. */
static void test_drawn_ids_that_are_none_take_row_0(void **state) {
    enum { N_VOCAB = 7, WIDTH = 13, ROWS = 6 };
    static const int32_t drawn[] = {3, -1, N_VOCAB, INT32_MAX, INT32_MIN, 6};
    static const int32_t expected[] = {3, 0, 0, 0, 0, 6};
    (void)state;
    struct device *device = open_device();
    const struct kernel_shape shape = {
        .weight_dtype = RADISH_DTYPE_F32, .n_out = N_VOCAB, .n_in = WIDTH};
    uint8_t *data = check_matrix(RADISH_DTYPE_F32, N_VOCAB, WIDTH, 5);
    struct weight *w = check_weight(device, RADISH_DTYPE_F32, N_VOCAB, WIDTH, data, true, false);
    float *out = check_floats(ROWS * WIDTH);
    int32_t *ids = check_alloc(ROWS * sizeof *ids), *sampled = check_copy(drawn, sizeof drawn);
    for (int32_t i = 0; i < ROWS; i++) ids[i] = -1 - i;
    check_supports(device, KERNEL_OP_EMBED, &shape);
    device->ops->step_begin(device);
    device->ops->embed(device, &(struct embed_args){w, ids, sampled, out, ROWS, WIDTH, 1.0f});
    finish_step(device);
    for (int i = 0; i < ROWS; i++)
        check_same_bits(out + i * WIDTH, data + (size_t)expected[i] * WIDTH * sizeof *out,
                        WIDTH * sizeof *out, "a row");
    device->ops->weight_destroy(device, w);
    check_free(sampled), check_free(ids), check_free(out), free(data);
    close_device(device);
}

static void test_a_matrix_that_no_kernel_reads_is_refused_by_name(void **state) {
    (void)state;
    struct device *device = open_device();
    const struct kernel_shape shape = {.weight_dtype = RADISH_DTYPE_IQ4_NL, .n_out = 8, .n_in = 32};
    char reason[160] = "";
    assert_false(device->ops->supports(device, KERNEL_OP_EMBED, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "IQ4_NL"));
    close_device(device);
}

enum { N_COMMON = 6, N_ROWS_MAX = 16 };

int main(void) {
    struct CMUnitTest tests[N_COMMON + N_ROWS_MAX] = {
        cmocka_unit_test(test_norms_of_every_width_agree_with_double),
        cmocka_unit_test(test_norms_fit_into_what_a_pipeline_allows),
        cmocka_unit_test(test_norms_of_widths_that_nobody_asked_for_are_there),
        cmocka_unit_test(test_kept_rows_are_those_asked_for_whatever_the_gaps),
        cmocka_unit_test(test_drawn_ids_that_are_none_take_row_0),
        cmocka_unit_test(test_a_matrix_that_no_kernel_reads_is_refused_by_name),
    };
    uint32_t n_rows;
    size_t n_tests = N_COMMON;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_METAL, &n_rows);
    for (uint32_t i = 0; i < n_rows && n_tests < N_COMMON + N_ROWS_MAX; i++)
        if (checks[rows[i].op])
            tests[n_tests++] = (struct CMUnitTest){.name = rows[i].name,
                                                   .test_func = check_row,
                                                   .initial_state = (void *)(uintptr_t)&rows[i]};
    check_seed();
    return _cmocka_run_group_tests("metal rows", tests, n_tests, NULL, NULL);
}
