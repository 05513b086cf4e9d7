/* kernel_act.c - layernorm, activate and soft_cap against double arithmetic, and bit for bit across
 * variants, threads and batches. */
#include "kernel_check.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint32_t widths[] = {1, 7, 8, 15, 16, 17, 31, 32, 64, 100, 576, 2049};
enum { N_WIDTHS = sizeof widths / sizeof *widths };
static const uint32_t batches[] = {1, 3, 21};
enum { N_BATCHES = sizeof batches / sizeof *batches };

/* Operands of one shape: rows of x and up with a gap behind each, which must stay as it is. */
struct operands {
    uint32_t n_rows, width, stride;
    size_t n, bytes;
    float *x, *up, *w, *bias, *out, *other;
};

static void operands_init(struct operands *o, uint32_t n_rows, uint32_t width, float scale) {
    *o = (struct operands){.n_rows = n_rows, .width = width, .stride = width + 2};
    o->n = (size_t)n_rows * o->stride;
    o->bytes = o->n * sizeof(float);
    o->x = check_floats(o->n);
    o->up = check_floats(o->n);
    o->out = check_floats(o->n);
    o->other = check_floats(o->n);
    o->w = check_floats(width);
    o->bias = check_floats(width);
    for (uint32_t r = 0; r < n_rows; r++) {
        check_fill(o->x + (size_t)r * o->stride, width, 41 + r, scale);
        check_fill(o->up + (size_t)r * o->stride, width, 4100 + r, 2.0f);
    }
    check_fill(o->w, width, 40, 2.0f);
    check_fill(o->bias, width, 39, 3.0f);
}

static void operands_deinit(struct operands *o) {
    check_free(o->x), check_free(o->up), check_free(o->out), check_free(o->other), check_free(o->w),
        check_free(o->bias);
}

static void finish_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

/* ---- layernorm ---- */

static void run_layernorm(struct device *device, const struct operands *o, bool has_bias,
                          const float *x, float *y, uint32_t n_rows) {
    const struct layernorm_args args = {
        x, o->w, has_bias ? o->bias : NULL, y, n_rows, o->width, o->stride, o->stride, 1e-5f};
    check_supports(device, KERNEL_OP_LAYERNORM, &(struct kernel_shape){.n_in = o->width});
    device->ops->step_begin(device);
    device->ops->layernorm(device, &args);
    finish_step(device);
}

static void expect_layernorm(const struct operands *o, bool has_bias, double tolerance) {
    for (uint32_t r = 0; r < o->n_rows; r++) {
        const float *x = o->x + (size_t)r * o->stride, *y = o->out + (size_t)r * o->stride;
        double mean = 0, squares = 0, largest = 0;
        for (uint32_t i = 0; i < o->width; i++) mean += (double)x[i] / o->width;
        for (uint32_t i = 0; i < o->width; i++) {
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
            largest = fmax(largest, fabs((double)x[i]));
        }
        const double inverse = 1.0 / sqrt(squares / o->width + 1e-5);
        for (uint32_t i = 0; i < o->width; i++) {
            const double w = (double)o->w[i], bias = has_bias ? (double)o->bias[i] : 0;
            const double terms = (largest + fabs(mean)) * inverse * fabs(w) + fabs(bias);
            check_close_to((double)y[i], ((double)x[i] - mean) * inverse * w + bias,
                           tolerance * terms, "layernorm", i);
        }
        assert_true(isnan(y[o->width]));
    }
}

static void check_layernorm_of(const struct kernel_devices *devices, uint32_t n_rows,
                               uint32_t width, bool has_bias) {
    struct operands o;
    operands_init(&o, n_rows, width, 4.0f);
    for (size_t i = 0; i < o.n; i++) o.x[i] += 7.0f; /* a mean that matters */
    run_layernorm(devices->one, &o, has_bias, o.x, o.out, n_rows);
    expect_layernorm(&o, has_bias, devices->row->tolerance);
    run_layernorm(devices->two, &o, has_bias, o.x, o.other, n_rows);
    check_same_bits(o.other, o.out, o.bytes, "two threads");
    if (devices->ref) {
        run_layernorm(devices->ref, &o, has_bias, o.x, o.other, n_rows);
        check_same_bits(o.other, o.out, o.bytes, "plain C");
    }
    float *last = o.x + (size_t)(n_rows - 1) * o.stride;
    run_layernorm(devices->two, &o, has_bias, last, last, 1);
    check_same_bits(last, o.out + (last - o.x), width * sizeof *last, "a row alone, in place");
    operands_deinit(&o);
}

void check_layernorm(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_layernorm_of(&devices, batches[b], widths[i], b);
    check_close(&devices);
}

/* ---- activate ---- */

static double activation(int32_t kind, double x) {
    switch (kind) {
    case ACTIVATION_GELU: return x / 2 * erfc(-x / sqrt(2));
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case ACTIVATION_RELU2: return x < 0 ? 0 : x * x;
    default: return x / (1 + exp(-x));
    }
}

static void run_activate(struct device *device, const struct operands *o, int32_t kind,
                         bool is_gated, size_t from, float *out, uint32_t n_rows) {
    const struct activate_args args = {
        o->x + from, is_gated ? o->up + from : NULL, out, n_rows, o->width, o->stride, o->stride,
        kind};
    check_supports(device, KERNEL_OP_ACTIVATE, &(struct kernel_shape){.n_in = o->width});
    device->ops->step_begin(device);
    device->ops->activate(device, &args);
    finish_step(device);
}

static void check_activation(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width,
                             int32_t kind, bool is_gated) {
    static const float edges[] = {0.0f, -0.0f, 12.0f, -12.0f, -88.5f, 100.0f, -100.0f, 1e-30f};
    struct operands o;
    operands_init(&o, n_rows, width, 9.0f);
    for (uint32_t i = 0; i < width && i < 8; i++) o.x[i] = edges[i];
    run_activate(devices->one, &o, kind, is_gated, 0, o.out, n_rows);
    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < width; i++) {
            const size_t at = (size_t)r * o.stride + i;
            const double x = (double)o.x[at], up = is_gated ? (double)o.up[at] : 1;
            const double expected = activation(kind, x);
            check_close_to((double)o.out[at], expected * up,
                           devices->row->tolerance * (fabs(x) + expected) * fabs(up), "activate",
                           at);
        }
        assert_true(isnan(o.out[(size_t)r * o.stride + width]));
    }
    run_activate(devices->two, &o, kind, is_gated, 0, o.other, n_rows);
    check_same_bits(o.other, o.out, o.bytes, "two threads");
    if (devices->ref) {
        run_activate(devices->ref, &o, kind, is_gated, 0, o.other, n_rows);
        check_same_bits(o.other, o.out, o.bytes, "plain C");
    }
    const size_t last = (size_t)(n_rows - 1) * o.stride;
    run_activate(devices->two, &o, kind, is_gated, last, o.x + last, 1);
    check_same_bits(o.x + last, o.out + last, width * sizeof *o.x, "a row alone, in place");
    operands_deinit(&o);
}

void check_activate(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int32_t kind = ACTIVATION_SILU; kind <= ACTIVATION_RELU2; kind++)
        for (int b = 0; b < N_BATCHES; b++)
            for (int i = 0; i < N_WIDTHS; i++)
                check_activation(&devices, batches[b], widths[i], kind, (b + i) % 2);
    check_close(&devices);
}

/* ---- soft_cap ---- */

static void run_soft_cap(struct device *device, const struct operands *o, float *x,
                         uint32_t n_rows) {
    const struct soft_cap_args args = {x, n_rows, o->width, o->stride, 15.0f};
    check_supports(device, KERNEL_OP_SOFT_CAP, &(struct kernel_shape){.n_in = o->width});
    device->ops->step_begin(device);
    device->ops->soft_cap(device, &args);
    finish_step(device);
}

static void check_caps(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width) {
    struct operands o;
    operands_init(&o, n_rows, width, 60.0f);
    const size_t last = (size_t)(n_rows - 1) * o.stride;
    for (size_t i = 0; i < o.n; i++) o.out[i] = o.other[i] = o.x[i];
    run_soft_cap(devices->one, &o, o.out, n_rows);
    for (size_t i = 0; i < o.n; i++) {
        const double x = (double)o.x[i], expected = 15 * tanh(x / 15);
        if (i % o.stride < width)
            check_close_to((double)o.out[i], expected, devices->row->tolerance * fabs(expected),
                           "soft_cap", i);
        else
            assert_true(isnan(o.out[i]));
    }
    run_soft_cap(devices->two, &o, o.other, n_rows);
    check_same_bits(o.other, o.out, o.bytes, "two threads");
    if (devices->ref) {
        for (size_t i = 0; i < o.n; i++) o.other[i] = o.x[i];
        run_soft_cap(devices->ref, &o, o.other, n_rows);
        check_same_bits(o.other, o.out, o.bytes, "plain C");
    }
    run_soft_cap(devices->two, &o, o.x + last, 1);
    check_same_bits(o.x + last, o.out + last, width * sizeof *o.x, "a row alone");
    operands_deinit(&o);
}

void check_soft_cap(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_caps(&devices, batches[b], widths[i]);
    check_close(&devices);
}
