/* device_cpu.h - the CPU device's own state, and its drivers: how an operation is cut into parts
 * and run over the compute pool. For the files of kernel/cpu only.
 *
 * Threads: drivers are called by the device's thread. Scratch belongs to the operation that runs;
 * nothing survives between operations. */
#ifndef KERNEL_CPU_DEVICE_CPU_H
#define KERNEL_CPU_DEVICE_CPU_H

#include "radish.h"

#include "cpu_kernel.h"
#include "kernel/device_int.h"
#include "weight_arena.h"

#define CPU_PARTS_MAX 1024 /* of the panels of a product or a group */

struct cpu_device {
    struct device_base base; /* first */
    struct weight_arena weights;
    bool is_in_step;
    /* Shared by the workers of one operation: prepared activations, or attention's item list and
     * partial results. Per worker: attention's tiles. */
    uint8_t *scratch;
    size_t scratch_bytes, activation_bytes, worker_bytes;
    uint32_t kv_len_max, rows_max;
    uint32_t part_starts[CPU_PARTS_MAX + 1]; /* of the products at hand: where parts begin */
};

/* fn over rows [first, end) of args. */
typedef void (*cpu_rows_fn)(const void *args, kernel_fn fn, uint32_t first, uint32_t end);

/* Spreads n_rows rows of `width` elements over the pool, or does them here when they are few. */
void cpu_run_rows(struct cpu_device *d, cpu_rows_fn run, kernel_fn fn, const void *args,
                  uint32_t n_rows, uint32_t width);

/* Scratch each driver needs, for the plan. */
size_t cpu_matmul_scratch_bytes(uint32_t rows_max, uint32_t width_max);
size_t cpu_attention_shared_bytes(uint32_t n_threads, uint32_t rows_max, uint32_t kv_len_max);
size_t cpu_attention_worker_bytes(void);

/* The kernel for an operation that supports() accepts. */
const struct kernel_row *cpu_choose(struct cpu_device *d, enum kernel_op op,
                                    const struct kernel_shape *shape);

void cpu_matmul(struct cpu_device *d, const struct matmul_args *args);
void cpu_rope_kv_store(struct cpu_device *d, const struct kernel_row *row,
                       const struct rope_kv_store_args *args);
bool cpu_rope_is_unfused(const struct kernel_row *row); /* four passes instead of one */
void cpu_attention(struct cpu_device *d, attention_fn fn, const struct attention_args *args);

#endif
