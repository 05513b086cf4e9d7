/* kernel_check.c - devices, operands and comparisons of the kernel tests.
 *
 * Operands are random but reproducible: every value is a function of the seed, a stream number and
 * an index (base/rng.h), so a failure names all that is needed to see it again. Quantised matrices
 * are random bytes, which reach every quant and scale, with the f16 fields replaced by small finite
 * numbers. Outputs start as NaN, so that an element nobody writes is seen. */
#include "kernel_check.h"

#include "base/rng.h"
#include "kernel/cpu/unpack.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t check_seed(void) {
    static uint64_t seed;
    if (!seed) {
        const char *text = getenv("RADISH_TEST_SEED");
        seed = text ? strtoull(text, NULL, 10) : rng_seed_from_system() % 1000000 + 1;
        print_message("seed %llu (RADISH_TEST_SEED)\n", (unsigned long long)seed);
    }
    return seed;
}

bool check_is_short(void) {
    return getenv("RADISH_TEST_SHORT") != NULL;
}

struct device *check_open_device(const char *choice, uint32_t n_threads,
                                 enum radish_precision precision) {
    return check_open_named("cpu", choice, n_threads, precision);
}

struct device *check_open_named(const char *name, const char *choice, uint32_t n_threads,
                                enum radish_precision precision) {
    const struct device_options options = {.n_threads = n_threads,
                                           .precision = precision,
                                           .kernels = &choice,
                                           .n_kernels = choice ? 1 : 0};
    struct radish_error err = {0};
    struct device *device;
    if (device_open(name, &options, &device, &err) != RADISH_OK) fail_msg("%s", err.msg);
    if (device->ops->scratch_reserve(device, CHECK_ROWS_MAX, CHECK_WIDTH_MAX, CHECK_KV_MAX, &err) !=
        RADISH_OK)
        fail_msg("%s", err.msg);
    return device;
}

void check_supports(struct device *device, enum kernel_op op, const struct kernel_shape *shape) {
    char reason[160] = "";
    if (!device->ops->supports(device, op, shape, reason, sizeof reason))
        fail_msg("%s: %s", kernel_op_name(op), reason);
}

/* The plain C variant of the row's bit class. */
static const struct kernel_row *find_ref(const struct kernel_row *row) {
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_CPU, &n_rows);
    for (uint32_t i = 0; i < n_rows; i++)
        if (rows[i].op == row->op && rows[i].isa == CPU_ISA_REF &&
            (rows[i].formats & row->formats) && !strcmp(rows[i].bit_class, row->bit_class))
            return &rows[i];
    fail_msg("%s: its bit class %s has no plain C variant", row->name, row->bit_class);
    return NULL;
}

void check_open(const struct kernel_row *row, enum radish_precision precision,
                struct kernel_devices *devices_out) {
    char choice[96], ref[96];
    snprintf(choice, sizeof choice, "%s=%s", kernel_op_name(row->op), row->name);
    *devices_out = (struct kernel_devices){.row = row, .precision = precision};
    if (row->family == KERNEL_FAMILY_METAL) {
        devices_out->one = devices_out->two =
            check_open_named(CHECK_METAL, choice, /*n_threads=*/1, precision);
        check_memory_from(devices_out->one);
        return;
    }
    snprintf(ref, sizeof ref, "%s=%s", kernel_op_name(row->op), find_ref(row)->name);
    devices_out->one = check_open_device(choice, 1, precision);
    devices_out->two = check_open_device(choice, 2, precision);
    devices_out->ref = check_open_device(ref, 1, precision);
}

void check_close(struct kernel_devices *devices) {
    check_memory_from(NULL);
    device_close(devices->one);
    if (devices->two != devices->one) device_close(devices->two);
    device_close(devices->ref);
}

float check_random(uint64_t stream, uint64_t i) {
    return (float)(2.0 * rng_uniform(check_seed() * 1000003 + stream, i) - 1.0);
}

void check_fill(float *x, size_t n, uint64_t stream, float scale) {
    for (size_t i = 0; i < n; i++) x[i] = scale * check_random(stream, i);
}

void check_fill_nan(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = NAN;
}

float *check_floats(size_t n) {
    float *x = check_alloc(n * sizeof *x);
    check_fill_nan(x, n);
    return x;
}

/* Byte offsets of the f16 fields of a block; -1 ends the list. */
static const int *f16_fields(enum dtype dtype) {
    static const int first[] = {0, -1}, first_two[] = {0, 2, -1}, q2_k[] = {80, 82, -1};
    static const int q3_k[] = {108, -1}, q6_k[] = {208, -1};
    switch (dtype) {
    case RADISH_DTYPE_Q4_0:
    case RADISH_DTYPE_Q5_0:
    case RADISH_DTYPE_Q8_0: return first;
    case RADISH_DTYPE_Q2_K: return q2_k;
    case RADISH_DTYPE_Q3_K: return q3_k;
    case RADISH_DTYPE_Q6_K: return q6_k;
    default: return first_two;
    }
}

static void fill_plain(enum dtype dtype, uint8_t *data, size_t n, uint64_t stream) {
    for (size_t i = 0; i < n; i++) {
        const float f = check_random(stream, i);
        const uint16_t h = dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(f) : dtype_f32_to_bf16(f);
        if (dtype == RADISH_DTYPE_F32)
            memcpy(data + 4 * i, &f, 4);
        else
            memcpy(data + 2 * i, &h, 2);
    }
}

uint8_t *check_matrix(enum dtype dtype, uint32_t n_out, uint32_t n_in, uint64_t stream) {
    uint64_t row_bytes;
    assert_true(dtype_row_bytes(dtype, n_in, &row_bytes));
    const size_t bytes = (size_t)row_bytes * n_out, block = dtype_block_bytes(dtype);
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    if (!dtype_is_quantised(dtype)) {
        fill_plain(dtype, data, (size_t)n_out * n_in, stream);
        return data;
    }
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)rng_u64(check_seed() * 1000003 + stream, i);
    for (size_t b = 0; b < bytes; b += block) {
        for (const int *at = f16_fields(dtype); *at >= 0; at++) {
            const uint16_t h = dtype_f32_to_f16(0.02f * check_random(stream + 7, b + (size_t)*at));
            memcpy(data + b + *at, &h, 2);
        }
    }
    return data;
}

void check_matrix_values(enum dtype dtype, size_t n, const uint8_t *data, double *values_out,
                         double *sizes_out) {
    const uint32_t elems = dtype_block_elems(dtype), bytes = dtype_block_bytes(dtype);
    const struct quant_form *form = quant_form_find(dtype);
    float values[UNPACK_ELEMS_MAX];
    struct unpacked block;
    for (size_t i = 0; i < n; i += elems, data += bytes) {
        dtype_to_f32(dtype, data, values, elems);
        if (form) unpack_block(dtype, data, &block);
        for (uint32_t j = 0; j < elems; j++) {
            values_out[i + j] = (double)values[j];
            sizes_out[i + j] = fabs((double)values[j]);
            if (!form) continue;
            const float m = unpack_scale(&block, j / form->block, 1);
            const float product = unpack_scale(&block, j / form->block, 0) *
                                  (float)((int)block.quants[j] - (int)form->offset);
            if ((form->has_min ? product + m : product) != values[j])
                fail_msg("%s: unpacked element %u differs", dtype_name(dtype), j);
            sizes_out[i + j] = fabs((double)product) + fabs((double)m);
        }
    }
}

struct weight *check_weight(struct device *device, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                            const void *data, bool is_gathered, bool is_multiplied) {
    const struct weight_desc desc = {.name = "w",
                                     .dtype = dtype,
                                     .n_out = n_out,
                                     .n_in = n_in,
                                     .data = data,
                                     .is_gathered = is_gathered,
                                     .is_multiplied = is_multiplied};
    struct weight *w;
    struct radish_error err = {0};
    if (device->ops->weight_create(device, &desc, &w, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return w;
}

void check_close_to(double value, double expected, double bound, const char *what, size_t i) {
    const double difference = fabs(value - expected);
    if (difference <= bound) return; /* NaN is no such number */
    fail_msg("%s: element %zu is %.9g, expected %.9g, off by %.3g, allowed %.3g (seed %llu)", what,
             i, value, expected, difference, bound, (unsigned long long)check_seed());
}

void check_same_bits(const void *a, const void *b, size_t bytes, const char *what) {
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            fail_msg("%s: byte %zu of %zu differs: %02x and %02x (seed %llu)", what, i, bytes, x[i],
                     y[i], (unsigned long long)check_seed());
}
