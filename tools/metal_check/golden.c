/* golden.c - compares what a device makes of the golden vectors with what the reference made.
 *
 * A device is opened for each row of ops.def with that row forced, so that a kernel which is not
 * the default is looked at as well. Two results of one operation may both be off by the row's
 * tolerance, which is relative to the size of its terms (the case's "bound"); numbers of a pool may
 * besides fall to either side of a rounding. What an operation must leave alone is in the expected
 * arrays, too: padding between rows, slots that nobody names. */
#include "golden.h"

#include "base/mem.h"
#include "base/status.h"
#include "cases.h"
#include "device_int.h"
#include "kernel/registry.h"
#include "kernels/matmul_args.h"
#include "operations.h"
#include "vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCT_TOLERANCE 3e-6

/* The comparison of one row. */
struct tally {
    const struct kernel_row *row;
    uint32_t n_cases, n_refused, n_failed;
    double worst; /* in shares of what is allowed */
    char first[320];
};

/* What one step of the type is worth at x. */
static double spacing(enum dtype dtype, double x) {
    if (dtype == RADISH_DTYPE_F16) return fmax(fabs(x) * 0x1p-10, 0x1p-24);
    return dtype == RADISH_DTYPE_BF16 ? fabs(x) * 0x1p-7 : 0;
}

/* What two results may differ by, for numbers of float32. A group has the bits of its products;
 * products of many rows take quantised weights for halves. */
static double allowed_error(const struct kernel_row *row, const struct vector_case *c) {
    double tolerance = row->op == KERNEL_OP_MATMUL_GROUP ? PRODUCT_TOLERANCE : row->tolerance;
    if (row->op == KERNEL_OP_MATMUL && vector_u32(c, "n_rows") > GEMV_ROWS_MAX &&
        dtype_is_quantised(vector_dtype(c, "weight_dtype")))
        tolerance += 0x1p-11;
    return 2 * tolerance * vector_number(c, "bound");
}

static void compare(struct tally *tally, const struct vector_case *c, const struct vector_array *a,
                    const uint8_t *result) {
    const size_t size = dtype_block_bytes(a->dtype), n = a->n_bytes / size;
    const double allowed = allowed_error(tally->row, c);
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(result + i * size, a->expected + i * size, size)) continue;
        double got = 0, expected = 0;
        if (a->dtype == RADISH_DTYPE_I32) {
            int32_t ids[2];
            memcpy(&ids[0], result + i * size, sizeof *ids);
            memcpy(&ids[1], a->expected + i * size, sizeof *ids);
            got = ids[0];
            expected = ids[1];
        } else {
            float x[2];
            dtype_to_f32(a->dtype, result + i * size, &x[0], 1);
            dtype_to_f32(a->dtype, a->expected + i * size, &x[1], 1);
            got = (double)x[0];
            expected = (double)x[1];
        }
        const double bound =
            a->dtype == RADISH_DTYPE_I32 ? 0 : allowed + spacing(a->dtype, expected);
        const double error = fabs(got - expected);
        if (error <= bound) {
            if (error > tally->worst * bound) tally->worst = error / bound;
            continue;
        }
        if (!*tally->first)
            snprintf(tally->first, sizeof tally->first,
                     "%s: %s[%zu] = %.9g instead of %.9g, allowed %.2g", c->name, a->name, i, got,
                     expected, bound);
        tally->n_failed++;
        return;
    }
}

static void check_case(struct device *device, const struct vector_case *c, struct tally *tally) {
    uint8_t *results[VECTOR_ARRAYS_MAX] = {0};
    struct radish_error err = {0};
    enum radish_status status = RADISH_OK;
    for (uint32_t i = 0; i < c->n_arrays; i++) {
        results[i] = mem_zalloc(c->arrays[i].n_bytes, 1);
        if (!results[i]) status = error_nomem(&err);
    }
    if (status == RADISH_OK) status = operations_run(device, c, results, &err);
    const uint32_t n_failed = tally->n_failed;
    for (uint32_t i = 0; i < c->n_arrays && status == RADISH_OK; i++)
        if (c->arrays[i].is_out && tally->n_failed == n_failed)
            compare(tally, c, &c->arrays[i], results[i]);
    tally->n_cases++;
    if (status == RADISH_E_UNSUPPORTED) tally->n_refused++;
    if (status != RADISH_OK && status != RADISH_E_UNSUPPORTED) tally->n_failed++;
    if (status != RADISH_OK && !*tally->first)
        snprintf(tally->first, sizeof tally->first, "%s", err.msg);
    for (uint32_t i = 0; i < c->n_arrays; i++) free(results[i]);
}

static void print_tally(const struct tally *tally) {
    const char *verdict = tally->n_failed ? "FAILED" : "ok";
    printf("  %-42s %-6s %u of %u cases, worst %.3f of what is allowed%s%s\n", tally->row->name,
           verdict, tally->n_cases - tally->n_refused - tally->n_failed, tally->n_cases,
           tally->worst, *tally->first ? "; " : "", tally->first);
    fflush(stdout);
}

/* Whether the row passed: all cases that it does not refuse, and at least one. */
static bool check_row(const struct kernel_row *row, const struct vectors *vectors) {
    struct tally tally = {.row = row};
    char choice[120];
    snprintf(choice, sizeof choice, "%s=%s", kernel_op_name(row->op), row->name);
    const char *const choices[] = {choice};
    const struct device_options options = {.n_threads = 1, .kernels = choices, .n_kernels = 1};
    struct radish_error err = {0};
    struct device *device = NULL;
    enum radish_status status = device_open(METAL_DEVICE_NAME, &options, &device, &err);
    if (status == RADISH_OK) status = operations_reserve(device, &err);
    for (uint32_t i = 0; i < vectors->n_cases && status == RADISH_OK; i++)
        if (vectors->cases[i].op == row->op) check_case(device, &vectors->cases[i], &tally);
    if (device) device_close(device);
    if (status != RADISH_OK) {
        snprintf(tally.first, sizeof tally.first, "%s", err.msg);
        tally.n_failed = tally.n_cases = 1;
    }
    if (tally.n_cases && tally.n_refused == tally.n_cases) tally.n_failed = tally.n_cases;
    if (tally.n_cases) print_tally(&tally);
    return !tally.n_failed;
}

int golden_check(const char *path) {
    static struct vectors vectors;
    struct radish_error err = {0};
    if (vectors_read(path, &vectors, &err) != RADISH_OK) {
        printf("  %s\n", err.msg);
        return -1;
    }
    uint32_t n_rows;
    int n_failed = 0;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_METAL, &n_rows);
    for (uint32_t i = 0; i < n_rows; i++) n_failed += !check_row(&rows[i], &vectors);
    vectors_deinit(&vectors);
    return n_failed;
}

bool golden_make(const char *path) {
    static struct vectors vectors;
    struct radish_error err = {0};
    enum radish_status status = cases_make(&vectors, &err);
    if (status == RADISH_OK) status = cases_expect(&vectors, &err);
    if (status == RADISH_OK) status = vectors_write(path, &vectors, &err);
    vectors_deinit(&vectors);
    if (status != RADISH_OK) printf("%s\n", err.msg);
    return status == RADISH_OK;
}
