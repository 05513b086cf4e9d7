/* bench_kernels.h - what the files of 'radish bench kernels' share: the device, the limits of the
 * machine, how a thing is timed and how a row is printed.
 *
 * Functions that are compared are timed in turns within one run, so that what disturbs one disturbs
 * all. Threads: main thread only, which is worker 0 of the device. */
#ifndef CLI_BENCH_KERNELS_H
#define CLI_BENCH_KERNELS_H

#include "radish.h"

#include "args.h"
#include "kernel/kernel.h"
#include "kernel/registry.h"

struct kernel_bench {
    const struct args *args;
    struct device *device;
    struct registry registry;                   /* the same choices */
    enum cpu_isa best_isa;                      /* of the processor */
    double read_gbs;                            /* all threads reading memory */
    double peak[CPU_ISA_COUNT][KERNEL_FORMATS]; /* GOP/s of an instruction set (0: not its), by
                                                   operand format */
};

/* Measures what all threads together read (GB/s) and compute (GOP/s, 2 per multiply-add). */
double peak_read_gbs(struct device *device);
void peak_measure(struct device *device, double peak_out[CPU_ISA_COUNT][KERNEL_FORMATS]);

/* Reads `bytes`, a multiple of 256 at an address that is one of 32, as fast as it can. */
void peak_read(const void *p, size_t bytes);
/* Reads and writes n floats in place, at the speed of the caches: changes their signs. */
void peak_touch(float *x, size_t n);
/* Copies, with plain vectors: for a few KB memcpy() may choose slower ways. */
void peak_copy(void *dst, const void *src, size_t bytes);

/* ---- timing ---- */

enum { TIMED_MAX = 4 };

/* fn(user) does it once. */
struct timed {
    void (*fn)(void *user);
    void *user;
    double median_ns, min_ns; /* of one call */
};

/* All of them in turns; about `budget_ms` for each. */
void kernel_bench_time(struct timed *timed, uint32_t n, uint32_t budget_ms);

/* A matrix in the file's form, of random bytes, of which the top one of every number makes it small
 * and no denormal; NULL: no memory. The caller frees it. */
uint8_t *kernel_bench_matrix(enum dtype dtype, uint32_t n_out, uint32_t n_in);

/* ---- rows ---- */

bool kernel_bench_wants_dtype(const struct kernel_bench *b, enum dtype dtype, bool by_default);

bool kernel_bench_wants_op(const struct kernel_bench *b, const char *op);

/* The kernel in use for an operation on weights, or keys and values, of a type (NULL: none), and
 * what its instructions can compute at most, in GOP/s. */
const struct kernel_row *kernel_bench_row(const struct kernel_bench *b, enum kernel_op op,
                                          enum dtype dtype);
double kernel_bench_peak(const struct kernel_bench *b, enum kernel_op op, enum dtype dtype);

struct kernel_figure {
    const char *op, *shape, *dtype;
    uint32_t n_rows;
    double ns, min_ns; /* of one call: the median, and the least or 0 */
    double bytes, ops; /* of one call; ops 0: none worth a figure */
    double peak;       /* GOP/s, or 0 */
    double onednn_ns;  /* the same by oneDNN, or 0: not measured */
    double of_onednn;  /* radish's speed to oneDNN's, in the same rounds */
    const char
        *extra; /* with --json further members, ", \"name\": value" ..., else text; or NULL */
};
/* -1, or an exit status after a message. */
int kernel_bench_print(const struct kernel_bench *b, const struct kernel_figure *figure);

/* ---- the tables: -1, or an exit status after a message ---- */

int bench_kernels_rope(const struct kernel_bench *b);
int bench_kernels_matmul(const struct kernel_bench *b);
int bench_kernels_group(const struct kernel_bench *b);
int bench_kernels_attention(const struct kernel_bench *b);
int bench_kernels_rows(const struct kernel_bench *b); /* all others */

#endif
