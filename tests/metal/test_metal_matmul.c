/* test_metal_matmul.c - products on the device against double arithmetic: every type of weights,
 * ragged shapes, one row of x to more than one dispatch takes.
 *
 * Matrices lie 4 bytes past a multiple of 256, which is all that a mapped file promises. Padding
 * between rows is NaN, so that what reads it, or writes it, is seen. Where gemm.metal keeps weights
 * as halves, the expected value has them rounded, too; the last bit of one of them may fall either
 * way, as the compiler contracts scale * q + minimum or does not. Everything else is held to the
 * rounding of float sums. */
#include "kernel/metal/kernels/matmul_args.h"
#include "kernel/metal/metal_int.h"
#include "kernel_check.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DATA_OFFSET = 4, MANY_ROWS = 1099 };

#define TOLERANCE 3e-6

struct shape {
    uint32_t n_out, n_in, n_rows;
};

struct product {
    struct device *device;
    enum dtype dtype;
    struct shape shape;
    uint32_t x_stride, y_stride;
    bool has_bias, accumulate, is_rounded; /* weights to half */
    uint8_t *data;
    size_t data_bytes;
    double *w, *w_size;  /* [n_out, n_in] */
    float *x, *bias, *y; /* y before */
    float x_scale;
};

static struct device *open_device(enum radish_precision precision) {
    struct device *device = check_open_named(CHECK_METAL, NULL, /*n_threads=*/1, precision);
    check_memory_from(device);
    return device;
}

static void close_device(struct device *device) {
    check_memory_from(NULL);
    device_close(device);
}

/* y with one more row behind it. */
static size_t y_floats(const struct product *p) {
    return (size_t)(p->shape.n_rows + 1) * p->y_stride;
}

/* The product, in y_out, which has a copy of y. */
static void run(const struct product *p, float *y_out) {
    const struct device_vtable *ops = p->device->ops;
    const struct shape *s = &p->shape;
    const struct kernel_shape asked = {
        .weight_dtype = p->dtype, .n_out = s->n_out, .n_in = s->n_in};
    check_supports(p->device, KERNEL_OP_MATMUL, &asked);
    uint8_t *data = check_alloc(DATA_OFFSET + p->data_bytes);
    memcpy(data + DATA_OFFSET, p->data, p->data_bytes);
    const struct weight w = {.dtype = p->dtype,
                             .n_out = s->n_out,
                             .n_in = s->n_in,
                             .data = data + DATA_OFFSET,
                             .row_bytes = p->data_bytes / s->n_out,
                             .bytes = p->data_bytes};
    const struct matmul_args args = {.w = &w,
                                     .x = p->x,
                                     .bias = p->has_bias ? p->bias : NULL,
                                     .y = y_out,
                                     .n_rows = s->n_rows,
                                     .x_stride = p->x_stride,
                                     .y_stride = p->y_stride,
                                     .accumulate = p->accumulate};
    ops->step_begin(p->device);
    ops->matmul(p->device, &args);
    assert_int_equal(ops->step_submit(p->device), RADISH_OK);
    assert_int_equal(ops->step_wait(p->device), RADISH_OK);
    check_free(data);
}

static void compare_element(const struct product *p, float value, uint32_t r, uint32_t n) {
    const double *w = p->w + (size_t)n * p->shape.n_in,
                 *size = p->w_size + (size_t)n * p->shape.n_in;
    const float *x = p->x + (size_t)r * p->x_stride;
    double sum = 0, terms = 0, last_bit = 0;
    for (uint32_t k = 0; k < p->shape.n_in; k++) {
        sum += w[k] * (double)x[k];
        terms += size[k] * fabs((double)x[k]);
        if (p->is_rounded) last_bit = fmax(last_bit, fabs(w[k] * (double)x[k]) * 0x1p-10);
    }
    const size_t at = (size_t)r * p->y_stride + n;
    if (p->has_bias) sum += (double)p->bias[n], terms += fabs((double)p->bias[n]);
    if (p->accumulate) sum += (double)p->y[at], terms += fabs((double)p->y[at]);
    char what[64];
    snprintf(what, sizeof what, "%s [%u, %u] of %u rows", dtype_name(p->dtype), p->shape.n_out,
             p->shape.n_in, p->shape.n_rows);
    check_close_to((double)value, sum, TOLERANCE * terms + last_bit + 1e-30, what, at);
}

static void compare(const struct product *p, const float *y) {
    for (uint32_t r = 0; r <= p->shape.n_rows; r++) {
        const float *row = y + (size_t)r * p->y_stride;
        for (uint32_t n = 0; n < p->y_stride; n++) {
            const bool is_inside = r < p->shape.n_rows && n < p->shape.n_out;
            if (is_inside)
                compare_element(p, row[n], r, n);
            else if (!isnan(row[n]))
                fail_msg("%s writes past a row", dtype_name(p->dtype));
        }
    }
}

/* is_rounded: gemm.metal takes the weights for halves. */
static bool has_half_tiles(const struct product *p) {
    return p->shape.n_rows > GEMV_ROWS_MAX && dtype_is_quantised(p->dtype) &&
           device_precision(p->device) == RADISH_PRECISION_FAST;
}

/* p has device, dtype, shape, and what is not ordinary about it. NULL data: random. */
static void check_product(struct product p) {
    const struct shape *s = &p.shape;
    const size_t n = (size_t)s->n_out * s->n_in;
    const uint32_t variety = s->n_out + s->n_in + s->n_rows;
    uint64_t row_bytes;
    assert_true(dtype_row_bytes(p.dtype, s->n_in, &row_bytes));
    p.data_bytes = (size_t)row_bytes * s->n_out;
    if (!p.data) p.data = check_matrix(p.dtype, s->n_out, s->n_in, variety);
    p.w = malloc(2 * n * sizeof *p.w);
    assert_non_null(p.w);
    p.w_size = p.w + n;
    check_matrix_values(p.dtype, n, p.data, p.w, p.w_size);
    p.is_rounded = has_half_tiles(&p);
    for (size_t i = 0; i < n && p.is_rounded; i++)
        p.w[i] = (double)dtype_f16_to_f32(dtype_f32_to_f16((float)p.w[i]));
    p.x_stride = s->n_in + variety % 3 * 5;
    p.y_stride = s->n_out + variety % 2 * 3;
    p.has_bias = variety % 3 == 1;
    p.accumulate = variety % 4 == 2;
    if (p.x_scale == 0) p.x_scale = 3.0f;
    p.x = check_floats((size_t)s->n_rows * p.x_stride);
    p.y = check_floats(y_floats(&p));
    p.bias = check_floats(s->n_out);
    check_fill(p.bias, s->n_out, variety + 3, 2.0f);
    for (uint32_t r = 0; r < s->n_rows; r++) {
        check_fill(p.x + (size_t)r * p.x_stride, s->n_in, variety + 100 + r, p.x_scale);
        if (p.accumulate)
            check_fill(p.y + (size_t)r * p.y_stride, s->n_out, variety + 5000 + r, 1.0f);
    }
    float *y = check_copy(p.y, y_floats(&p) * sizeof *y);
    run(&p, y);
    compare(&p, y);
    check_free(y), check_free(p.bias), check_free(p.y), check_free(p.x);
    free(p.w), free(p.data);
}

/* Every number of rows with every number of outputs, widths in turn. */
static void multiplies(void **state) {
    static const uint32_t outs[] = {1, 7, 33, 65}, blocks[] = {1, 3, 2};
    static const uint32_t widths[] = {1, 80, 5, 32, 256, 130, 47};
    static const uint32_t batches[] = {1, 2, 3, 5, 8, 9, 31, 33, 64, 70};
    const enum dtype dtype = (enum dtype)(uintptr_t)*state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    uint32_t turn = 0;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        for (size_t o = 0; o < sizeof outs / sizeof *outs; o++, turn++) {
            const uint32_t n_in = dtype_is_quantised(dtype)
                                      ? blocks[turn % 3] * dtype_block_elems(dtype)
                                      : widths[turn % 7];
            check_product((struct product){
                .device = device, .dtype = dtype, .shape = {outs[o], n_in, batches[b]}});
        }
    }
    close_device(device);
}

/* Few rows of many inputs: SIMD-groups share a row's inputs. */
static void shares_long_rows(void **state) {
    static const uint32_t batches[] = {1, 2, 4, 7};
    struct device *device = open_device(RADISH_PRECISION_FAST);
    const enum dtype dtype = (enum dtype)(uintptr_t)*state;
    const uint32_t n_in = dtype_is_quantised(dtype) ? 2304 : 2311;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        check_product(
            (struct product){.device = device, .dtype = dtype, .shape = {9, n_in, batches[b]}});
    close_device(device);
}

/* In --precision exact no weight is rounded, in batches as well. */
static void keeps_weights_exact(void **state) {
    struct device *device = open_device(RADISH_PRECISION_EXACT);
    const enum dtype dtype = (enum dtype)(uintptr_t)*state;
    const uint32_t n_in = dtype_is_quantised(dtype) ? 2 * dtype_block_elems(dtype) : 75;
    check_product((struct product){.device = device, .dtype = dtype, .shape = {67, n_in, 1}});
    check_product((struct product){.device = device, .dtype = dtype, .shape = {67, n_in, 35}});
    close_device(device);
}

static void takes_more_rows_than_a_dispatch(void **state) {
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    check_product((struct product){
        .device = device, .dtype = RADISH_DTYPE_Q8_0, .shape = {3, 32, MANY_ROWS}});
    close_device(device);
}

static void takes_inputs_that_do_not_fit_a_half(void **state) {
    static const enum dtype dtypes[] = {RADISH_DTYPE_F16, RADISH_DTYPE_BF16, RADISH_DTYPE_Q4_0,
                                        RADISH_DTYPE_Q6_K};
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (uint32_t rows = 2; rows <= 12; rows += 10)
            check_product((struct product){
                .device = device, .dtype = dtypes[i], .shape = {5, 256, rows}, .x_scale = 1e9f});
    close_device(device);
}

/* bf16 and f32 reach further than a half in both directions. */
static void takes_weights_that_do_not_fit_a_half(void **state) {
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    for (uint32_t rows = 1; rows <= 10; rows += 9) {
        const struct shape shape = {10, 24, rows};
        const size_t n = (size_t)shape.n_out * shape.n_in;
        float *wide = malloc(n * sizeof *wide);
        uint16_t *narrow = malloc(n * sizeof *narrow);
        assert_non_null(wide);
        assert_non_null(narrow);
        for (size_t i = 0; i < n; i++) {
            wide[i] = check_random(77, i) * (i / 24 % 2 ? 1e12f : 1e-12f);
            narrow[i] = dtype_f32_to_bf16(wide[i]);
        }
        check_product((struct product){
            .device = device, .dtype = RADISH_DTYPE_F32, .shape = shape, .data = (uint8_t *)wide});
        check_product((struct product){.device = device,
                                       .dtype = RADISH_DTYPE_BF16,
                                       .shape = shape,
                                       .data = (uint8_t *)narrow});
    }
    close_device(device);
}

static void refuses_types_without_a_kernel(void **state) {
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    const struct kernel_shape shape = {
        .weight_dtype = RADISH_DTYPE_IQ4_NL, .n_out = 32, .n_in = 32};
    char reason[160] = "";
    assert_false(device->ops->supports(device, KERNEL_OP_MATMUL, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "IQ4_NL"));
    close_device(device);
}

static const struct {
    const char *name;
    void (*check)(void **state);
} of_every_type[] = {{"multiplies", multiplies},
                     {"shares_long_rows", shares_long_rows},
                     {"keeps_weights_exact", keeps_weights_exact}};

int main(void) {
    static char names[RADISH_DTYPE_COUNT][3][40];
    struct CMUnitTest tests[3 * RADISH_DTYPE_COUNT + 4];
    size_t n = 0;
    check_seed();
    for (int t = 0; t < RADISH_DTYPE_COUNT; t++) {
        for (size_t i = 0; i < 3 && dtype_can_read((enum dtype)t); i++) {
            snprintf(names[t][i], sizeof names[t][i], "%s: %s", dtype_name((enum dtype)t),
                     of_every_type[i].name);
            tests[n++] = (struct CMUnitTest){.name = names[t][i],
                                             .test_func = of_every_type[i].check,
                                             .initial_state = (void *)(uintptr_t)t};
        }
    }
    const struct CMUnitTest others[4] = {cmocka_unit_test(takes_more_rows_than_a_dispatch),
                                         cmocka_unit_test(takes_inputs_that_do_not_fit_a_half),
                                         cmocka_unit_test(takes_weights_that_do_not_fit_a_half),
                                         cmocka_unit_test(refuses_types_without_a_kernel)};
    memcpy(tests + n, others, sizeof others);
    return _cmocka_run_group_tests("metal_matmul", tests, n + 4, NULL, NULL);
}
