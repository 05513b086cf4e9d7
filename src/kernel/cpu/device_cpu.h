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

struct cpu_device {
    struct device_base base; /* first */
    bool is_in_step;
    /* Shared by the workers of one operation: prepared activations, or attention's item list and
     * partial results. Per worker: attention's tiles. */
    uint8_t *scratch;
    size_t scratch_bytes, activation_bytes, worker_bytes;
    uint32_t kv_len_max, rows_max;
};

/* Scratch each driver needs, for the plan. */
size_t cpu_matmul_scratch_bytes(uint32_t rows_max, uint32_t width_max);
size_t cpu_attention_shared_bytes(uint32_t n_threads, uint32_t rows_max, uint32_t kv_len_max);
size_t cpu_attention_worker_bytes(void);

void cpu_matmul(struct cpu_device *d, const struct matmul_args *args);
void cpu_attention(struct cpu_device *d, attention_fn fn, const struct attention_args *args);

#endif
