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
#include "stand_in.h"

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

/* A matrix on the device, DATA_OFFSET bytes behind what place() returns. */
static uint8_t *place(struct device *device, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                      const uint8_t *data, struct weight *w_out) {
    const struct kernel_shape asked = {.weight_dtype = dtype, .n_out = n_out, .n_in = n_in};
    uint64_t row_bytes;
    check_supports(device, KERNEL_OP_MATMUL, &asked);
    assert_true(dtype_row_bytes(dtype, n_in, &row_bytes));
    const size_t bytes = (size_t)row_bytes * n_out;
    uint8_t *address = check_alloc(DATA_OFFSET + bytes);
    memcpy(address + DATA_OFFSET, data, bytes);
    *w_out = (struct weight){.dtype = dtype,
                             .n_out = n_out,
                             .n_in = n_in,
                             .data = address + DATA_OFFSET,
                             .row_bytes = (size_t)row_bytes,
                             .bytes = bytes};
    return address;
}

static void end_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

/* The product, in y_out, which has a copy of y. */
static void run(const struct product *p, float *y_out) {
    const struct shape *s = &p->shape;
    struct weight w;
    uint8_t *data = place(p->device, p->dtype, s->n_out, s->n_in, p->data, &w);
    const struct matmul_args args = {.w = &w,
                                     .x = p->x,
                                     .bias = p->has_bias ? p->bias : NULL,
                                     .y = y_out,
                                     .n_rows = s->n_rows,
                                     .x_stride = p->x_stride,
                                     .y_stride = p->y_stride,
                                     .accumulate = p->accumulate};
    p->device->ops->step_begin(p->device);
    p->device->ops->matmul(p->device, &args);
    end_step(p->device);
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

/* Every number of rows with every number of outputs, half of these pairs for each type; widths in
 * turn. */
static void multiplies(void **state) {
    static const uint32_t outs[] = {1, 7, 33, 65}, blocks[] = {1, 3, 2};
    static const uint32_t widths[] = {1, 80, 5, 32, 256, 130, 47};
    static const uint32_t batches[] = {1, 2, 3, 5, 8, 9, 31, 33, 64, 70};
    const enum dtype dtype = (enum dtype)(uintptr_t)*state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    uint32_t turn = 0;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        for (size_t o = 0; o < sizeof outs / sizeof *outs; o++, turn++) {
            if ((b + o + (size_t)dtype) % 2) continue;
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

/* Dispatches of a product with many rows, which is right. */
static uint64_t count_dispatches(struct device *device) {
    struct stand_in_counts before, after;
    stand_in_counts(&before);
    check_product((struct product){
        .device = device, .dtype = RADISH_DTYPE_Q8_0, .shape = {3, 32, MANY_ROWS}});
    stand_in_counts(&after);
    return after.dispatches - before.dispatches;
}

static void takes_more_rows_than_a_dispatch(void **state) {
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    assert_int_equal(count_dispatches(device), 2);
    close_device(device);
}

/* The system ends the first step, as its watchdog does. */
static void takes_fewer_rows_after_a_step_that_was_ended(void **state) {
    (void)state;
    setenv("MTL_SIM_FAIL", "1", 1);
    stand_in_reset();
    struct device *device = open_device(RADISH_PRECISION_FAST);
    struct weight w;
    const float weight = 1;
    uint8_t *data = place(device, RADISH_DTYPE_F32, 1, 1, (const uint8_t *)&weight, &w);
    float *x = check_floats(1), *y = check_floats(1);
    const struct matmul_args args = {
        .w = &w, .x = x, .y = y, .n_rows = 1, .x_stride = 1, .y_stride = 1};
    device->ops->step_begin(device);
    device->ops->matmul(device, &args);
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_AGAIN);
    check_free(y), check_free(x), check_free(data);
    assert_int_equal(count_dispatches(device), 3);
    close_device(device);
    unsetenv("MTL_SIM_FAIL");
    stand_in_reset();
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

/* ---- groups ---- */

enum { GROUP_STRIDE = 8 }; /* of y, more than n_out */

/* Two products, or one, of the same rows, then an activation. */
struct group {
    enum dtype dtype, dtype_up; /* COUNT: one product */
    uint32_t n_out, n_in, n_rows;
    bool has_bias, has_bias_up, has_norm;
    enum activation activation;
    bool is_fused; /* in one dispatch, besides the norm */
};

/* Runs the group, or its parts, into y; how many dispatches it took. */
static uint64_t run_group(struct device *device, const struct matmul_group_args *args,
                          bool is_group) {
    struct stand_in_counts before, after;
    stand_in_counts(&before);
    device->ops->step_begin(device);
    if (is_group)
        device_matmul_group(device, args);
    else
        device_matmul_parts(device, args);
    end_step(device);
    stand_in_counts(&after);
    return after.dispatches - before.dispatches;
}

static void check_group(struct device *device, const struct group *g) {
    const bool is_pair = g->dtype_up != RADISH_DTYPE_COUNT;
    const size_t stride = g->n_out + GROUP_STRIDE, n_y = g->n_rows * stride;
    uint8_t *host = check_matrix(g->dtype, g->n_out, g->n_in, 11), *host_up = NULL;
    struct weight w, w_up;
    uint8_t *data = place(device, g->dtype, g->n_out, g->n_in, host, &w), *data_up = NULL;
    if (is_pair) {
        host_up = check_matrix(g->dtype_up, g->n_out, g->n_in, 12);
        data_up = place(device, g->dtype_up, g->n_out, g->n_in, host_up, &w_up);
    }
    float *from = check_floats((size_t)g->n_rows * g->n_in), *bias = check_floats(2 * g->n_out);
    float *x = check_floats((size_t)g->n_rows * g->n_in), *norm_w = check_floats(g->n_in);
    float *y = check_floats(n_y), *up = check_floats(n_y), *expected = check_floats(n_y);
    check_fill(from, (size_t)g->n_rows * g->n_in, 13, 2.0f);
    memcpy(x, from, (size_t)g->n_rows * g->n_in * sizeof *x);
    check_fill(bias, 2 * g->n_out, 14, 1.0f);
    check_fill(norm_w, g->n_in, 15, 1.0f);
    struct matmul_group_args args = {
        .products = {{&w, g->has_bias ? bias : NULL, expected, (uint32_t)stride},
                     {&w_up, g->has_bias_up ? bias + g->n_out : NULL, up, (uint32_t)stride}},
        .n_products = is_pair ? 2 : 1,
        .x = x,
        .n_rows = g->n_rows,
        .n_in = g->n_in,
        .x_stride = g->n_in,
        .norm = g->has_norm ? MATMUL_NORM_RMS : MATMUL_NORM_NONE,
        .norm_x = from,
        .norm_w = norm_w,
        .norm_x_stride = g->n_in,
        .norm_eps = 1e-5f,
        .is_activated = true,
        .n_out = g->n_out,
        .activation = (int32_t)g->activation};
    const uint64_t n_parts = run_group(device, &args, /*is_group=*/false);
    args.products[0].y = y;

    const uint64_t n_group = run_group(device, &args, /*is_group=*/true);

    check_same_bits(y, expected, n_y * sizeof *y, "a group and its parts");
    const uint64_t n_norms = g->has_norm;
    assert_int_equal(n_parts, n_norms + args.n_products + 1);
    assert_int_equal(n_group, g->is_fused ? n_norms + 1 : n_parts);
    check_free(expected), check_free(up), check_free(y), check_free(norm_w), check_free(x);
    check_free(bias), check_free(from), check_free(data_up), check_free(data);
    free(host_up), free(host);
}

static void groups_are_one_dispatch_and_have_the_bits_of_their_parts(void **state) {
    static const struct group groups[] = {
        {RADISH_DTYPE_Q4_K, RADISH_DTYPE_Q4_K, 37, 512, 1, 0, 0, 1, ACTIVATION_SILU, true},
        {RADISH_DTYPE_BF16, RADISH_DTYPE_BF16, 9, 75, 2, 1, 1, 0, ACTIVATION_GELU_TANH, true},
        {RADISH_DTYPE_F16, RADISH_DTYPE_F16, 33, 96, 3, 0, 1, 1, ACTIVATION_GELU, true},
        {RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q8_0, 1, 64, 5, 1, 0, 0, ACTIVATION_RELU2, true},
        {RADISH_DTYPE_Q6_K, RADISH_DTYPE_Q6_K, 7, 2304, 8, 0, 0, 0, ACTIVATION_SILU, true},
        {RADISH_DTYPE_Q4_0, RADISH_DTYPE_Q4_0, 6, 2080, 1, 0, 0, 0, ACTIVATION_SILU, true},
        {RADISH_DTYPE_F32, RADISH_DTYPE_COUNT, 19, 40, 2, 1, 0, 1, ACTIVATION_GELU, true},
        {RADISH_DTYPE_Q5_1, RADISH_DTYPE_COUNT, 5, 64, 7, 0, 0, 0, ACTIVATION_RELU2, true},
        /* Parts, where there are many rows or two types. */
        {RADISH_DTYPE_Q4_0, RADISH_DTYPE_Q4_0, 21, 64, 9, 0, 0, 0, ACTIVATION_SILU, false},
        {RADISH_DTYPE_Q4_K, RADISH_DTYPE_Q6_K, 21, 256, 1, 0, 0, 1, ACTIVATION_SILU, false},
    };
    (void)state;
    struct device *device = open_device(RADISH_PRECISION_FAST);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct kernel_shape asked = {.n_in = groups[i].n_in};
        check_supports(device, KERNEL_OP_RMSNORM, &asked);
        check_supports(device, KERNEL_OP_SILU_MUL, &asked);
        check_supports(device, KERNEL_OP_ACTIVATE, &asked);
        check_group(device, &groups[i]);
    }
    close_device(device);
}

static void a_group_can_be_taken_apart(void **state) {
    const struct group group = {
        RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q8_0, 9, 32, 1, 0, 0, 0, ACTIVATION_SILU, false};
    (void)state;
    struct device *device =
        check_open_named(CHECK_METAL, "matmul_group=unfused", 1, RADISH_PRECISION_FAST);
    check_memory_from(device);
    check_supports(device, KERNEL_OP_SILU_MUL, &(struct kernel_shape){.n_in = group.n_out});
    check_group(device, &group);
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

enum { N_OTHERS = 7 };

int main(void) {
    static char names[RADISH_DTYPE_COUNT][3][40];
    struct CMUnitTest tests[3 * RADISH_DTYPE_COUNT + N_OTHERS];
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
    const struct CMUnitTest others[N_OTHERS] = {
        cmocka_unit_test(takes_more_rows_than_a_dispatch),
        cmocka_unit_test(takes_fewer_rows_after_a_step_that_was_ended),
        cmocka_unit_test(takes_inputs_that_do_not_fit_a_half),
        cmocka_unit_test(takes_weights_that_do_not_fit_a_half),
        cmocka_unit_test(groups_are_one_dispatch_and_have_the_bits_of_their_parts),
        cmocka_unit_test(a_group_can_be_taken_apart),
        cmocka_unit_test(refuses_types_without_a_kernel)};
    memcpy(tests + n, others, sizeof others);
    return _cmocka_run_group_tests("metal_matmul", tests, n + N_OTHERS, NULL, NULL);
}
