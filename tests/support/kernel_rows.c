/* kernel_rows.c - embed, rmsnorm and silu_mul against double arithmetic, and bit for bit across
 * variants, threads and batches. */
#include "kernel/cpu/cpu_kernel.h"
#include "kernel_check.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint32_t widths[] = {1, 7, 8, 15, 16, 17, 31, 32, 64, 100, 576, 2049};
enum { N_WIDTHS = sizeof widths / sizeof *widths };
static const uint32_t batches[] = {1, 3, 21};
enum { N_BATCHES = sizeof batches / sizeof *batches };

static void finish_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

/* ---- embed ---- */

/* Values have their bits where the row promises that; else the parts of each are rounded once more.
 */
static void check_gather(struct device *device, enum dtype dtype, bool is_multiplied, float scale,
                         double tolerance) {
    enum { N_VOCAB = 37, N_ROWS = 40 };
    const uint32_t width = dtype_is_quantised(dtype) ? 2 * dtype_block_elems(dtype) : 45;
    const uint32_t stride = width + 3;
    const struct kernel_shape shape = {.weight_dtype = dtype, .n_out = N_VOCAB, .n_in = width};
    uint8_t *data = check_matrix(dtype, N_VOCAB, width, 11);
    struct weight *w = check_weight(device, dtype, N_VOCAB, width, data, true, is_multiplied);
    float *out = check_floats((size_t)N_ROWS * stride);
    int32_t ids[N_ROWS];
    const int32_t sampled[3] = {36, 5, -1};
    for (int32_t i = 0; i < N_ROWS; i++) ids[i] = i < 3 ? -1 - i : (i * 7) % N_VOCAB;
    int32_t *const ids_there = check_copy(ids, sizeof ids);
    int32_t *const sampled_there = check_copy(sampled, sizeof sampled);
    const struct embed_args args = {w, ids_there, sampled_there, out, N_ROWS, stride, scale};
    double *values = malloc(2 * N_VOCAB * width * sizeof *values),
           *sizes = values + N_VOCAB * width;
    assert_non_null(values);
    check_matrix_values(dtype, N_VOCAB * width, data, values, sizes);

    check_supports(device, KERNEL_OP_EMBED, &shape);
    device->ops->step_begin(device);
    device->ops->embed(device, &args);
    finish_step(device);

    for (uint32_t r = 0; r < N_ROWS; r++) {
        int32_t id = ids[r] < 0 ? sampled[-1 - ids[r]] : ids[r];
        if (id < 0) id = 0; /* nothing was drawn */
        for (uint32_t i = 0; i < width; i++) {
            const size_t at = (size_t)id * width + i;
            const double expected = (double)((float)values[at] * scale);
            check_close_to((double)out[(size_t)r * stride + i], expected,
                           tolerance * sizes[at] * (double)scale, dtype_name(dtype), at);
        }
        assert_true(isnan(out[(size_t)r * stride + width]));
    }
    device->ops->weight_destroy(device, w);
    free(values), check_free(sampled_there), check_free(ids_there), check_free(out), free(data);
}

void check_embed(const struct kernel_row *row) {
    for (int precision = 0; precision < 2; precision++) {
        struct kernel_devices devices;
        check_open(row, (enum radish_precision)precision, &devices);
        for (int t = 0; t < RADISH_DTYPE_COUNT; t++) {
            const enum dtype dtype = (enum dtype)t;
            if (dtype > RADISH_DTYPE_BF16 && !quant_form_find(dtype)) continue;
            check_gather(devices.two, dtype, false, 1.0f, row->tolerance);
            check_gather(devices.two, dtype, true, 1.0f, row->tolerance);
            check_gather(devices.one, dtype, true, 24.5f, row->tolerance);
        }
        check_close(&devices);
    }
}

/* ---- rmsnorm ---- */

static void run_rmsnorm(struct device *device, const float *x, const float *w, float *y,
                        uint32_t n_rows, uint32_t width, uint32_t stride) {
    const struct rmsnorm_args args = {x, w, y, n_rows, width, stride, stride, 1e-5f, false};
    check_supports(device, KERNEL_OP_RMSNORM, &(struct kernel_shape){.n_in = width});
    device->ops->step_begin(device);
    device->ops->rmsnorm(device, &args);
    finish_step(device);
}

/* y += what rmsnorm gives, one rounding: as the two would do one after the other; bit for bit where
 * compilers may not make one operation of two. */
static void check_norm_added(const struct kernel_devices *devices, const float *x, const float *w,
                             const float *normed, uint32_t n_rows, uint32_t width,
                             uint32_t stride) {
    const size_t n = (size_t)n_rows * stride;
    struct device *device = devices->two;
    float *y = check_floats(n), *expected = check_floats(n);
    for (uint32_t r = 0; r < n_rows; r++) check_fill(y + (size_t)r * stride, width, 210 + r, 3.0f);
    for (size_t i = 0; i < n; i++) expected[i] = isnan(y[i]) ? y[i] : y[i] + normed[i];
    const double tolerance = devices->ref ? 0 : devices->row->tolerance;
    const struct rmsnorm_args args = {x, w, y, n_rows, width, stride, stride, 1e-5f, true};
    device->ops->step_begin(device);
    device->ops->rmsnorm(device, &args);
    finish_step(device);
    for (size_t i = 0; i < n; i++)
        if (i % stride < width)
            check_close_to((double)y[i], (double)expected[i],
                           tolerance * (3.0 + fabs((double)normed[i])), "added", i);
        else
            assert_true(isnan(y[i]));
    check_free(expected), check_free(y);
}

static void check_norm(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width) {
    const uint32_t stride = width + 2;
    const size_t n = (size_t)n_rows * stride, bytes = n * sizeof(float);
    float *x = check_floats(n), *w = check_floats(width), *y = check_floats(n),
          *other = check_floats(n);
    for (uint32_t r = 0; r < n_rows; r++) check_fill(x + (size_t)r * stride, width, 21 + r, 4.0f);
    check_fill(w, width, 20, 2.0f);

    run_rmsnorm(devices->one, x, w, y, n_rows, width, stride);

    for (uint32_t r = 0; r < n_rows; r++) {
        const float *row = x + (size_t)r * stride;
        double sum = 0;
        for (uint32_t i = 0; i < width; i++) sum += (double)row[i] * (double)row[i];
        const double inverse = 1.0 / sqrt(sum / width + 1e-5);
        for (uint32_t i = 0; i < width; i++) {
            const double expected = (double)row[i] * inverse * (double)w[i];
            check_close_to((double)y[(size_t)r * stride + i], expected,
                           devices->row->tolerance * fabs(expected), "rmsnorm", i);
        }
        assert_true(isnan(y[(size_t)r * stride + width]));
    }
    run_rmsnorm(devices->two, x, w, other, n_rows, width, stride);
    check_same_bits(other, y, bytes, "two threads");
    if (devices->ref) {
        run_rmsnorm(devices->ref, x, w, other, n_rows, width, stride);
        check_same_bits(other, y, bytes, "plain C");
    }
    check_norm_added(devices, x, w, y, n_rows, width, stride);
    const size_t last = (size_t)(n_rows - 1) * stride;
    run_rmsnorm(devices->two, x + last, w, x + last, 1, width, stride); /* alone, in place */
    check_same_bits(x + last, y + last, width * sizeof *x, "a row alone, in place");
    check_free(other), check_free(y), check_free(w), check_free(x);
}

void check_rmsnorm(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_norm(&devices, batches[b], widths[i]);
    check_close(&devices);
}

/* ---- silu_mul ---- */

static void run_silu(struct device *device, const float *gate, const float *up, float *out,
                     uint32_t n_rows, uint32_t width, uint32_t stride) {
    const struct silu_mul_args args = {gate, up, out, n_rows, width, stride, stride};
    check_supports(device, KERNEL_OP_SILU_MUL, &(struct kernel_shape){.n_in = width});
    device->ops->step_begin(device);
    device->ops->silu_mul(device, &args);
    finish_step(device);
}

static void check_silu(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width) {
    static const float edges[] = {0.0f, -0.0f, 87.0f, -87.0f, -88.5f, 100.0f, -100.0f, 1e30f};
    const uint32_t stride = width + 1;
    const size_t n = (size_t)n_rows * stride, bytes = n * sizeof(float);
    float *gate = check_floats(n), *up = check_floats(n), *out = check_floats(n),
          *other = check_floats(n);
    for (uint32_t r = 0; r < n_rows; r++) {
        check_fill(gate + (size_t)r * stride, width, 31 + r, 30.0f);
        check_fill(up + (size_t)r * stride, width, 3100 + r, 2.0f);
    }
    for (uint32_t i = 0; i < width && i < 8; i++) gate[i] = edges[i];

    run_silu(devices->one, gate, up, out, n_rows, width, stride);

    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < width; i++) {
            const size_t at = (size_t)r * stride + i;
            const double g = (double)gate[at];
            const double expected = g / (1.0 + exp(-g)) * (double)up[at];
            check_close_to((double)out[at], expected,
                           devices->row->tolerance * fabs(expected) + 1e-35, "silu_mul", at);
        }
        assert_true(isnan(out[(size_t)r * stride + width]));
    }
    run_silu(devices->two, gate, up, other, n_rows, width, stride);
    check_same_bits(other, out, bytes, "two threads");
    if (devices->ref) {
        run_silu(devices->ref, gate, up, other, n_rows, width, stride);
        check_same_bits(other, out, bytes, "plain C");
    }
    const size_t last = (size_t)(n_rows - 1) * stride;
    run_silu(devices->two, gate + last, up + last, gate + last, 1, width, stride);
    check_same_bits(gate + last, out + last, width * sizeof *out, "a row alone, in place");
    check_free(other), check_free(out), check_free(up), check_free(gate);
}

void check_silu_mul(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_silu(&devices, batches[b], widths[i]);
    check_close(&devices);
}
