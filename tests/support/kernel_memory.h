/* kernel_memory.h - where the operands of a kernel test lie: on the heap for the CPU's kernels, in
 * a device's own memory for those that can reach nothing else.
 *
 * Devices tested here have addresses that the host can read and write between steps. */
#ifndef TESTS_KERNEL_MEMORY_H
#define TESTS_KERNEL_MEMORY_H

#include "kernel/kernel.h"

/* From now on memory comes from this device; NULL: from the heap. What is held stays what it is. */
void check_memory_from(struct device *device);
/* Never NULL; what it holds is anything. At most CHECK_BLOCKS_MAX at a time of a device. */
#define CHECK_BLOCKS_MAX 64
void *check_alloc(size_t bytes);
void *check_copy(const void *from, size_t bytes); /* the same with a copy of that */
void check_free(void *address);                   /* any of the above, or NULL, or malloc()'s */

#endif
