/* kernel_group.c - groups of products and the keeping of rows, bit for bit against the operations
 * that they are made of.
 *
 * What is expected is computed here, by rmsnorm or layernorm, one matmul for each product, silu_mul
 * or activate: so both the fused variant and the parts that a device without one is given are held
 * against something else. Each group is also computed by one thread and two, and its rows alone. */
#include "kernel_check.h"
#include "kernel_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A kind of group. A product without dtype (COUNT) is not there. */
struct group_kind {
    enum dtype dtypes[MATMUL_GROUP_MAX];
    uint32_t n_outs[MATMUL_GROUP_MAX];
    enum matmul_norm norm;
    bool has_biases, is_activated;
    enum activation activation;
};

#define NONE RADISH_DTYPE_COUNT
#define F32  RADISH_DTYPE_F32
#define F16  RADISH_DTYPE_F16
#define BF16 RADISH_DTYPE_BF16
#define Q8_0 RADISH_DTYPE_Q8_0
#define Q4_0 RADISH_DTYPE_Q4_0
#define Q4_K RADISH_DTYPE_Q4_K
#define Q6_K RADISH_DTYPE_Q6_K

static const struct group_kind kinds[] = {
    {{BF16, BF16, BF16}, {67, 16, 33}, MATMUL_NORM_RMS, false, false, 0},
    {{BF16, BF16, NONE}, {131, 131}, MATMUL_NORM_RMS, false, true, ACTIVATION_SILU},
    {{F32, F32, F32}, {32, 17, 1}, MATMUL_NORM_LAYER, true, false, 0},
    {{F16, F32, BF16}, {48, 15, 64}, MATMUL_NORM_RMS, true, false, 0},
    {{Q8_0, Q8_0, Q8_0}, {64, 32, 32}, MATMUL_NORM_NONE, true, false, 0},
    {{Q4_K, Q4_K, Q6_K}, {96, 48, 48}, MATMUL_NORM_RMS, false, false, 0},
    {{Q4_0, BF16, Q6_K}, {96, 48, 40}, MATMUL_NORM_LAYER, false, false, 0},
    {{Q4_K, Q6_K, NONE}, {193, 193}, MATMUL_NORM_RMS, true, true, ACTIVATION_SILU},
    {{Q8_0, Q8_0, NONE}, {140, 140}, MATMUL_NORM_RMS, false, true, ACTIVATION_GELU_TANH},
    {{BF16, NONE, NONE}, {150}, MATMUL_NORM_LAYER, true, true, ACTIVATION_RELU2},
    {{F32, NONE, NONE}, {65}, MATMUL_NORM_NONE, true, true, ACTIVATION_GELU},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds, N_IN = 512 };

struct group_case {
    const struct group_kind *kind;
    uint32_t n_products, n_rows, y_strides[MATMUL_GROUP_MAX];
    uint8_t *data[MATMUL_GROUP_MAX];
    float *x, *norm_w, *norm_bias, *bias;
};

/* Outputs of a group: what products read, and what they wrote. */
struct group_out {
    float *x, *y[MATMUL_GROUP_MAX];
};

enum { X_STRIDE = N_IN + 5, Y_MAX = 200 };

static void fill_args(const struct group_case *c, struct device *device, uint32_t row,
                      uint32_t n_rows, struct group_out *out, struct matmul_group_args *args) {
    const struct group_kind *kind = c->kind;
    const size_t at = (size_t)row * X_STRIDE, n = (size_t)n_rows * X_STRIDE;
    out->x = check_floats(n);
    if (kind->norm == MATMUL_NORM_NONE) memcpy(out->x, c->x + at, n * sizeof *out->x);
    *args = (struct matmul_group_args){.n_products = c->n_products,
                                       .x = out->x,
                                       .n_rows = n_rows,
                                       .n_in = N_IN,
                                       .x_stride = X_STRIDE,
                                       .norm = (int32_t)kind->norm,
                                       .norm_x = c->x + at,
                                       .norm_w = c->norm_w,
                                       .norm_bias = kind->has_biases ? c->norm_bias : NULL,
                                       .norm_x_stride = X_STRIDE,
                                       .norm_eps = 1e-5f,
                                       .is_activated = kind->is_activated,
                                       .n_out = kind->n_outs[0],
                                       .activation = (int32_t)kind->activation};
    for (uint32_t i = 0; i < c->n_products; i++) {
        out->y[i] = check_floats((size_t)n_rows * c->y_strides[i]);
        args->products[i] =
            (struct matmul_product){.w = check_weight(device, kind->dtypes[i], kind->n_outs[i],
                                                      N_IN, c->data[i], false, true),
                                    .bias = kind->has_biases ? c->bias : NULL,
                                    .y = out->y[i],
                                    .y_stride = c->y_strides[i]};
    }
}

static void free_weights(const struct group_case *c, struct device *device,
                         struct matmul_group_args *args) {
    for (uint32_t i = 0; i < c->n_products; i++)
        device->ops->weight_destroy(device, (struct weight *)(uintptr_t)args->products[i].w);
}

static void free_out(const struct group_case *c, struct group_out *out) {
    for (uint32_t i = 0; i < c->n_products; i++) free(out->y[i]);
    free(out->x);
}

static void norm_alone(struct device *device, const struct matmul_group_args *a) {
    const struct rmsnorm_args rms = {.x = a->norm_x,
                                     .w = a->norm_w,
                                     .y = a->x,
                                     .n_rows = a->n_rows,
                                     .width = N_IN,
                                     .x_stride = X_STRIDE,
                                     .y_stride = X_STRIDE,
                                     .eps = 1e-5f};
    const struct layernorm_args layer = {.x = a->norm_x,
                                         .w = a->norm_w,
                                         .bias = a->norm_bias,
                                         .y = a->x,
                                         .n_rows = a->n_rows,
                                         .width = N_IN,
                                         .x_stride = X_STRIDE,
                                         .y_stride = X_STRIDE,
                                         .eps = 1e-5f};
    if (a->norm == MATMUL_NORM_RMS) device->ops->rmsnorm(device, &rms);
    if (a->norm == MATMUL_NORM_LAYER) device->ops->layernorm(device, &layer);
}

static void activate_alone(struct device *device, const struct matmul_group_args *a) {
    const uint32_t stride = a->products[0].y_stride;
    float *y = a->products[0].y, *up = a->n_products == 2 ? a->products[1].y : NULL;
    const struct silu_mul_args silu = {y, up, y, a->n_rows, a->n_out, stride, stride};
    const struct activate_args act = {.x = y,
                                      .up = up,
                                      .out = y,
                                      .n_rows = a->n_rows,
                                      .width = a->n_out,
                                      .in_stride = stride,
                                      .out_stride = stride,
                                      .kind = a->activation};
    if (up && a->activation == ACTIVATION_SILU)
        device->ops->silu_mul(device, &silu);
    else
        device->ops->activate(device, &act);
}

static void multiply_alone(struct device *device, const struct matmul_group_args *a) {
    for (uint32_t i = 0; i < a->n_products; i++) {
        const struct matmul_args product = {.w = a->products[i].w,
                                            .x = a->x,
                                            .bias = a->products[i].bias,
                                            .y = a->products[i].y,
                                            .n_rows = a->n_rows,
                                            .x_stride = a->x_stride,
                                            .y_stride = a->products[i].y_stride};
        device->ops->matmul(device, &product);
    }
}

/* Rows [row, row + n_rows) of the case, as a group or by the operations it is made of. */
static struct group_out run_case(const struct group_case *c, struct device *device, bool is_group,
                                 uint32_t row, uint32_t n_rows) {
    struct group_out out = {0};
    struct matmul_group_args args;
    fill_args(c, device, row, n_rows, &out, &args);
    device->ops->step_begin(device);
    if (is_group) {
        device_matmul_group(device, &args);
    } else {
        norm_alone(device, &args);
        multiply_alone(device, &args);
        if (args.is_activated) activate_alone(device, &args);
    }
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
    free_weights(c, device, &args);
    return out;
}

/* Rows of out are rows [row, ...) of expected. The second product of an activation may hold
 * anything afterwards. */
static void compare(const struct group_case *c, const struct group_out *out, uint32_t n_rows,
                    const struct group_out *expected, uint32_t row, const char *what) {
    const uint32_t n = c->kind->is_activated ? 1 : c->n_products;
    check_same_bits(out->x, expected->x + (size_t)row * X_STRIDE,
                    (size_t)n_rows * X_STRIDE * sizeof(float), what);
    for (uint32_t i = 0; i < n; i++)
        check_same_bits(out->y[i], expected->y[i] + (size_t)row * c->y_strides[i],
                        (size_t)n_rows * c->y_strides[i] * sizeof(float), what);
}

static void check_against(const struct group_case *c, struct device *device, bool is_group,
                          uint32_t row, uint32_t n_rows, const struct group_out *expected,
                          const char *what) {
    struct group_out out = run_case(c, device, is_group, row, n_rows);
    compare(c, &out, n_rows, expected, row, what);
    free_out(c, &out);
}

static void check_kind(const struct kernel_devices *devices, const struct group_kind *kind,
                       uint32_t n_rows) {
    struct group_case c = {.kind = kind, .n_rows = n_rows};
    c.x = check_floats((size_t)n_rows * X_STRIDE);
    c.norm_w = check_floats(N_IN), c.norm_bias = check_floats(N_IN), c.bias = check_floats(Y_MAX);
    for (uint32_t r = 0; r < n_rows; r++) check_fill(c.x + (size_t)r * X_STRIDE, N_IN, 40 + r, 3);
    check_fill(c.norm_w, N_IN, 30, 1), check_fill(c.norm_bias, N_IN, 31, 1);
    check_fill(c.bias, Y_MAX, 32, 2);
    while (c.n_products < MATMUL_GROUP_MAX && kind->dtypes[c.n_products] != NONE) {
        const uint32_t i = c.n_products++, n_out = kind->n_outs[i];
        c.data[i] = check_matrix(kind->dtypes[i], n_out, N_IN, 7000 + i);
        c.y_strides[i] = n_out + (kind->is_activated ? 3 : i);
    }

    struct group_out expected = run_case(&c, devices->one, false, 0, n_rows);

    check_against(&c, devices->one, true, 0, n_rows, &expected, "a group");
    check_against(&c, devices->two, true, 0, n_rows, &expected, "a group, two threads");
    check_against(&c, devices->ref, true, 0, n_rows, &expected, "its parts");
    for (uint32_t row = 0; row < n_rows; row += 1 + n_rows / 3)
        check_against(&c, devices->two, true, row, 1, &expected, "a row alone");
    free_out(&c, &expected);
    for (uint32_t i = 0; i < c.n_products; i++) free(c.data[i]);
    free(c.x), free(c.norm_w), free(c.norm_bias), free(c.bias);
}

void check_matmul_group(const struct kernel_row *row) {
    static const uint32_t batches[] = {1, 37, 3, 211};
    const uint32_t n_batches = check_is_short() ? 2 : 4, n_many = check_is_short() ? 37 : 211;
    for (int precision = 0; precision < 2; precision++) {
        struct kernel_devices devices;
        struct radish_error err;
        check_open(row, (enum radish_precision)precision, &devices);
        for (uint32_t k = 0; k < N_KINDS; k++)
            for (uint32_t b = 0; b < n_batches; b++) check_kind(&devices, &kinds[k], batches[b]);
        /* Scratch for one preparation only: groups of several formats fall apart. */
        assert_int_equal(devices.two->ops->scratch_reserve(devices.two, n_many, N_IN, 1, &err),
                         RADISH_OK);
        for (uint32_t k = 0; k < N_KINDS; k++) check_kind(&devices, &kinds[k], n_many);
        check_close(&devices);
    }
}

/* ---- keep_rows ---- */

static void check_keeping(struct device *device, uint32_t n_rows, uint32_t step, uint32_t width) {
    const uint32_t stride = width + 3, n_kept = (n_rows + step - 1) / step;
    float *x = check_floats((size_t)n_rows * stride),
          *before = check_floats((size_t)n_rows * stride);
    uint32_t *rows = check_alloc(n_kept * sizeof *rows);
    for (uint32_t r = 0; r < n_rows; r++) check_fill(x + (size_t)r * stride, width, 60 + r, 1);
    memcpy(before, x, (size_t)n_rows * stride * sizeof *x);
    for (uint32_t i = 0; i < n_kept; i++) rows[i] = n_rows - 1 - (n_kept - 1 - i) * step;
    const struct keep_rows_args args = {x, rows, n_kept, width, stride};

    check_supports(device, KERNEL_OP_KEEP_ROWS, &(struct kernel_shape){.n_in = width});
    device->ops->step_begin(device);
    device->ops->keep_rows(device, &args);
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);

    for (uint32_t i = 0; i < n_kept; i++)
        check_same_bits(x + (size_t)i * stride, before + (size_t)rows[i] * stride,
                        width * sizeof *x, "a kept row");
    check_same_bits(x + (size_t)n_kept * stride, before + (size_t)n_kept * stride,
                    (size_t)(n_rows - n_kept) * stride * sizeof *x, "rows behind");
    check_free(rows), check_free(before), check_free(x);
}

void check_keep_rows(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    check_keeping(devices.one, 1, 1, 7);
    check_keeping(devices.two, 9, 9, 64);
    check_keeping(devices.two, 290, 1, 100);
    check_keeping(devices.two, 290, 2, 576);
    check_keeping(devices.two, 293, 7, 1001);
    check_close(&devices);
}
