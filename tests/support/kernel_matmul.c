/* kernel_matmul.c - matrix products against double arithmetic, and bit for bit against each other.
 *
 * The expected value follows what ops.def declares about rounding on entry (bf16 activations, int8
 * in blocks of 32) and computes the rest in double; the bound is the row's tolerance times the sum
 * of absolute terms. A second, looser check compares the whole output with the product of unrounded
 * activations, so that the declared rounding itself stays reasonable. */
#include "kernel/cpu/cpu_activations.h"
#include "kernel_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct matmul_case {
    const struct kernel_devices *devices;
    enum dtype dtype;
    uint32_t n_out, n_in, n_rows, x_stride, y_stride;
    bool has_bias, accumulate;
    uint8_t *data;
    double *w, *w_size; /* [n_out, n_in] values, and the size of the terms each is made of */
    float *x, *bias, *y_before;
    double *x_seen; /* [n_rows, n_in] after rounding on entry */
};

/* Activations as the kernel is declared to see them. */
static void round_on_entry(struct matmul_case *c) {
    const bool is_fast = c->devices->precision == RADISH_PRECISION_FAST;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        const float *x = c->x + (size_t)r * c->x_stride;
        double *seen = c->x_seen + (size_t)r * c->n_in;
        for (uint32_t k = 0; k < c->n_in; k++) {
            seen[k] = (double)x[k];
            if (is_fast && c->dtype == RADISH_DTYPE_BF16)
                seen[k] = (double)dtype_bf16_to_f32(dtype_f32_to_bf16(x[k]));
        }
        if (!is_fast || !dtype_is_quantised(c->dtype)) continue;
        for (uint32_t b = 0; b < c->n_in; b += ACT_BLOCK) {
            float amax = 0;
            for (uint32_t k = b; k < b + ACT_BLOCK; k++) amax = fmaxf(amax, fabsf(x[k]));
            for (uint32_t k = b; k < b + ACT_BLOCK; k++)
                seen[k] = amax > 0
                              ? (double)nearbyintf(x[k] * (127.0f / amax)) * (double)(amax / 127.0f)
                              : 0;
        }
    }
}

static float *run_case(const struct matmul_case *c, struct device *device, uint32_t row,
                       uint32_t n_rows) {
    struct weight *w = check_weight(device, c->dtype, c->n_out, c->n_in, c->data, false, true);
    const size_t n = (size_t)n_rows * c->y_stride;
    float *y = check_floats(n);
    if (c->accumulate) memcpy(y, c->y_before + (size_t)row * c->y_stride, n * sizeof *y);
    const struct matmul_args args = {.w = w,
                                     .x = c->x + (size_t)row * c->x_stride,
                                     .bias = c->has_bias ? c->bias : NULL,
                                     .y = y,
                                     .n_rows = n_rows,
                                     .x_stride = c->x_stride,
                                     .y_stride = c->y_stride,
                                     .accumulate = c->accumulate};
    device->ops->step_begin(device);
    device->ops->matmul(device, &args);
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
    device->ops->weight_destroy(device, w);
    return y;
}

static void compare_values(const struct matmul_case *c, const float *y) {
    const double tolerance = c->devices->row->tolerance;
    double error2 = 0, size2 = 0;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        for (uint32_t n = 0; n < c->n_out; n++) {
            const size_t at = (size_t)r * c->y_stride + n;
            const double *w = c->w + (size_t)n * c->n_in, *w_size = c->w_size + (size_t)n * c->n_in;
            double sum = 0, bound = 0, unrounded = 0;
            for (uint32_t k = 0; k < c->n_in; k++) {
                const double x = c->x_seen[(size_t)r * c->n_in + k];
                sum += w[k] * x;
                bound += w_size[k] * fabs(x);
                unrounded += w[k] * (double)c->x[(size_t)r * c->x_stride + k];
            }
            error2 += (sum - unrounded) * (sum - unrounded);
            size2 += unrounded * unrounded;
            if (c->has_bias) sum += (double)c->bias[n], bound += fabs((double)c->bias[n]);
            if (c->accumulate)
                sum += (double)c->y_before[at], bound += fabs((double)c->y_before[at]);
            check_close_to((double)y[at], sum, tolerance * bound + 1e-30, c->devices->row->name,
                           at);
        }
        for (uint32_t n = c->n_out; n < c->y_stride; n++) {
            const size_t at = (size_t)r * c->y_stride + n;
            if (!isnan(y[at])) fail_msg("%s writes past a row", c->devices->row->name);
        }
    }
    /* Rounding activations costs about 1 %, more on a lone tiny product. */
    if (c->n_in >= 256 && c->n_out * c->n_rows >= 64 && error2 > 0.02 * 0.02 * size2)
        fail_msg("rounding on entry costs %.3g", sqrt(error2 / size2));
}

static void compare_bits(const struct matmul_case *c, const float *y) {
    const size_t row_bytes = c->y_stride * sizeof *y, bytes = c->n_rows * row_bytes;
    float *two = run_case(c, c->devices->two, 0, c->n_rows);
    check_same_bits(two, y, bytes, "two threads");
    free(two);
    float *ref = run_case(c, c->devices->ref, 0, c->n_rows);
    check_same_bits(ref, y, bytes, "plain C");
    free(ref);
    for (uint32_t r = 0; r < c->n_rows; r += 1 + c->n_rows / 4) {
        float *alone = run_case(c, c->devices->two, r, 1);
        check_same_bits(alone, y + (size_t)r * c->y_stride, row_bytes, "a row alone");
        free(alone);
    }
}

/* Weights and activations whose products and sums are denormal, beside ordinary ones, and weights
 * that are denormal themselves: some classes take these for zeros, all variants alike. */
static void make_tiny(struct matmul_case *c) {
    for (uint32_t k = 0; k < c->n_in; k++) {
        const uint16_t tiny = (uint16_t)((127 - 100) << 7 | (k * 37 & 0x7f));
        const uint16_t denormal = (uint16_t)(1 + (k * 29 & 0x7e));
        memcpy(c->data + 2 * (size_t)k, &tiny, sizeof tiny);
        if (c->n_out > 1) memcpy(c->data + 2 * ((size_t)c->n_in + k), &denormal, sizeof denormal);
        c->x[k] = ldexpf(c->x[k], -30);
        if (c->n_rows > 1) c->x[c->x_stride + k] = ldexpf(c->x[c->x_stride + k], -120);
    }
}

static void check_case(const struct kernel_devices *devices, enum dtype dtype, uint32_t n_out,
                       uint32_t n_in, uint32_t n_rows) {
    const uint32_t variety = n_out + n_in + n_rows;
    struct matmul_case c = {
        .devices = devices, .dtype = dtype, .n_out = n_out, .n_in = n_in, .n_rows = n_rows};
    c.x_stride = n_in + variety % 3 * 5;
    c.y_stride = n_out + variety % 2 * 3;
    c.has_bias = variety % 3 == 1;
    c.accumulate = variety % 4 == 2;
    c.data = check_matrix(dtype, n_out, n_in, variety);
    c.w = malloc(2 * (size_t)n_out * n_in * sizeof *c.w);
    c.x_seen = malloc((size_t)n_rows * n_in * sizeof *c.x_seen);
    assert_non_null(c.w);
    assert_non_null(c.x_seen);
    c.w_size = c.w + (size_t)n_out * n_in;
    c.x = check_floats((size_t)n_rows * c.x_stride);
    c.y_before = check_floats((size_t)n_rows * c.y_stride);
    c.bias = check_floats(n_out);
    check_fill(c.bias, n_out, variety + 3, 2.0f);
    for (uint32_t r = 0; r < n_rows; r++) {
        check_fill(c.x + (size_t)r * c.x_stride, n_in, variety + 100 + r, 3.0f);
        check_fill(c.y_before + (size_t)r * c.y_stride, n_out, variety + 5000 + r, 1.0f);
    }
    if (n_in >= 64) memset(c.x + 32, 0, 32 * sizeof *c.x); /* a block of zeros */
    if (dtype == RADISH_DTYPE_BF16 && variety % 2) make_tiny(&c);
    check_matrix_values(dtype, (size_t)n_out * n_in, c.data, c.w, c.w_size);
    round_on_entry(&c);

    float *y = run_case(&c, devices->one, 0, n_rows);

    compare_values(&c, y);
    compare_bits(&c, y);
    free(y), free(c.bias), free(c.y_before), free(c.x), free(c.x_seen), free(c.w), free(c.data);
}

static void check_dtype(const struct kernel_row *row, enum dtype dtype,
                        enum radish_precision precision) {
    static const uint32_t outs[] = {1, 15, 16, 17, 32, 67};
    static const uint32_t widths[] = {1, 7, 31, 32, 33, 64, 130}, blocks[] = {1, 2, 3, 5};
    static const uint32_t batches[] = {1, 3, 29};
    struct kernel_devices devices;
    check_open(row, precision, &devices);
    const bool is_quantised = dtype_is_quantised(dtype);
    const uint32_t n_widths = is_quantised ? 4 : 7, elems = dtype_block_elems(dtype);
    const bool is_short = check_is_short();
    for (size_t o = 0; o < sizeof outs / sizeof *outs; o += is_short ? 5 : 1)
        for (uint32_t i = 0; i < n_widths; i += is_short ? 3 : 1)
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                check_case(&devices, dtype, outs[o], is_quantised ? blocks[i] * elems : widths[i],
                           batches[b]);
    /* Large enough for several parts, token blocks and threads; 1 to 13 rows meet every tile. */
    const uint32_t width = !is_short ? 512 : elems > 128 ? elems : 128;
    check_case(&devices, dtype, is_short ? 99 : 193, 2 * width, 41);
    /* Rows for several passages over opened units, tiles of 16 and a few more; 11 units where the
     * type allows. */
    const uint32_t narrow = elems > 128 ? elems : is_quantised ? 11 * elems : 130;
    if (!is_short || row->isa == CPU_ISA_AVX512VNNI || row->isa == CPU_ISA_AMX)
        check_case(&devices, dtype, is_short ? 35 : 67, narrow, 211);
    for (uint32_t n_rows = 1; n_rows <= 13; n_rows++)
        check_case(&devices, dtype, is_short ? 67 : 131, width, n_rows);
    check_close(&devices);
}

/* Which rows lie in tiles: else AMX would be left to stand still, with the same bits. */
static void check_tiled(const struct kernel_row *row, enum dtype dtype, uint32_t n_rows,
                        uint32_t n_tiled) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    uint8_t *matrix = check_matrix(dtype, 16, 256, 1);
    struct weight *w = check_weight(devices.one, dtype, 16, 256, matrix, false, true);
    const size_t bytes = activations_bytes(w, n_rows);
    uint8_t *scratch = aligned_alloc(64, bytes);
    struct act_rows rows;
    assert_non_null(scratch);
    activations_place(w, n_rows, scratch, &rows);
    assert_int_equal(rows.n_tiled, n_tiled);
    if (n_tiled)
        assert_true((uint8_t *)(rows.tiles + n_tiled / ACT_TILE_ROWS * 8) <= scratch + bytes);
    free(scratch);
    devices.one->ops->weight_destroy(devices.one, w);
    free(matrix);
    check_close(&devices);
}

void check_matmul(const struct kernel_row *row) {
    if (row->formats == KERNEL_I8) {
        const bool has_tiles = row->isa == CPU_ISA_AMX;
        check_tiled(row, RADISH_DTYPE_Q4_K, 47, 0);
        check_tiled(row, RADISH_DTYPE_Q4_K, 63, has_tiles ? 48 : 0);
        check_tiled(row, RADISH_DTYPE_Q6_K, 63, 0);
    }
    for (int t = 0; t < RADISH_DTYPE_COUNT; t++) {
        const enum dtype dtype = (enum dtype)t;
        if (row->formats == KERNEL_I8 && quant_form_find(dtype))
            check_dtype(row, dtype, RADISH_PRECISION_FAST);
        /* In exact precision quantised weights are f32 panels; two types stand for all. */
        if (row->formats == KERNEL_F32 &&
            (dtype == RADISH_DTYPE_Q4_1 || dtype == RADISH_DTYPE_Q6_K))
            check_dtype(row, dtype, RADISH_PRECISION_EXACT);
    }
    const enum dtype plain = row->formats == KERNEL_F32   ? RADISH_DTYPE_F32
                             : row->formats == KERNEL_F16 ? RADISH_DTYPE_F16
                                                          : RADISH_DTYPE_BF16;
    if (row->formats == KERNEL_I8) return;
    check_dtype(row, plain, RADISH_PRECISION_FAST);
    check_dtype(row, plain, RADISH_PRECISION_EXACT);
}
