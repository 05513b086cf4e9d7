/* kernel_check.h - what the kernel tests share: devices that run one variant, random operands, and
 * the comparisons. Every failed comparison ends the test with the place and both values. */
#ifndef TESTS_KERNEL_CHECK_H
#define TESTS_KERNEL_CHECK_H

#include "radish.h"

#include "kernel/kernel.h"
#include "kernel/registry.h"

/* Devices for one row of ops.def: the variant with one and with two threads, and the plain C
 * variant. Of Metal there is one, and no plain C that it shares its bits with: two is one, ref is
 * NULL, and operands are made in its memory (kernel_memory.h). */
struct kernel_devices {
    const struct kernel_row *row;
    enum radish_precision precision;
    struct device *one, *two, *ref;
};

/* RADISH_TEST_SHORT is set: fewer shapes, for processors that are emulated. */
bool check_is_short(void);

/* The name of a build's Metal device. */
#if defined(RADISH_METAL_SIM)
#define CHECK_METAL "metal-sim"
#else
#define CHECK_METAL "metal"
#endif

#define CHECK_ROWS_MAX  300
#define CHECK_WIDTH_MAX 4200
#define CHECK_KV_MAX    4200

void check_open(const struct kernel_row *row, enum radish_precision precision,
                struct kernel_devices *devices_out);
void check_close(struct kernel_devices *devices);
struct device *check_open_device(const char *choice, uint32_t n_threads,
                                 enum radish_precision precision);
struct device *check_open_named(const char *name, const char *choice, uint32_t n_threads,
                                enum radish_precision precision);

/* Asks as a model does while it loads, before the first call: devices make kernels then. */
void check_supports(struct device *device, enum kernel_op op, const struct kernel_shape *shape);

/* Seed of this run, printed at its start; RADISH_TEST_SEED sets it. */
uint64_t check_seed(void);

float check_random(uint64_t stream, uint64_t i);                   /* (-1, 1), all rows distinct */
void check_fill(float *x, size_t n, uint64_t stream, float scale); /* random */
void check_fill_nan(float *x, size_t n);
float *check_floats(size_t n); /* n floats, all NaN; caller frees with check_free() */

/* Random valid data of a matrix: [n_out, n_in] of dtype. Caller frees with free(). */
uint8_t *check_matrix(enum dtype dtype, uint32_t n_out, uint32_t n_in, uint64_t stream);

/* Its n values, and how large the parts are that each is the sum of (scale and minimum). */
void check_matrix_values(enum dtype dtype, size_t n, const uint8_t *data, double *values_out,
                         double *sizes_out);

struct weight *check_weight(struct device *device, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                            const void *data, bool is_gathered, bool is_multiplied);

/* |value - expected| <= bound, and value is a number. */
void check_close_to(double value, double expected, double bound, const char *what, size_t i);
void check_same_bits(const void *a, const void *b, size_t bytes, const char *what);

/* One test per operation, over every shape worth having; kernel_<op>.c. */
void check_embed(const struct kernel_row *row);
void check_rmsnorm(const struct kernel_row *row);
void check_prepare(const struct kernel_row *row);
void check_matmul(const struct kernel_row *row);
void check_matmul_group(const struct kernel_row *row);
void check_keep_rows(const struct kernel_row *row);
void check_silu_mul(const struct kernel_row *row);
void check_layernorm(const struct kernel_row *row);
void check_activate(const struct kernel_row *row);
void check_soft_cap(const struct kernel_row *row);
void check_rope_kv_store(const struct kernel_row *row);
void check_attention(const struct kernel_row *row);

#endif
