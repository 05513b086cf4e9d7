/* metal_int.h - the inside of the Metal device, for the files of kernel/metal.
 *
 *   device_metal.c     opens, memory, weights where the file is mapped, steps
 *   metal_encode.c     pipelines by (name, constants), bindings, barriers
 *   metal_<op>.c       one operation: its kernels' names, constants, grids (rows of ops.def)
 *   kernels/<op>.metal the kernels; kernels/<op>_args.h what both sides read
 *   mtl.h, mtl_objc.c  Metal itself
 *
 * An operation is a row of dispatches. Each says what it reads and writes as it binds it; a barrier
 * is put before a dispatch that touches what an earlier one wrote, or writes what an earlier one
 * touched, since the last barrier. So Q, K and V run side by side, and a barrier stands exactly
 * where one is needed, in every step at the same place.
 *
 * Addresses are those of shared storage: host pointers, found again among the device's buffers.
 * Threads: the engine's thread. */
#ifndef KERNEL_METAL_METAL_INT_H
#define KERNEL_METAL_METAL_INT_H

#include "radish.h"

#include "device_int.h"
#include "metal/mtl.h"
#include "tensor/dtype.h"

struct metal_device; /* device_metal.c; its first member is struct device_base */

/* A matrix as the file has it, row after row; in the mapping where that is possible. */
struct weight {
    enum dtype dtype;
    uint32_t n_out, n_in;
    const uint8_t *data; /* [n_out, row_bytes], an address of the device */
    size_t row_bytes;
    size_t bytes;
    bool is_owned; /* a copy, not the mapping */
};

/* ---- pipelines ---- */

/* A kernel with its constants; made on the first call for these (load time: supports() asks for
 * all that an operation will use), afterwards found without allocating. NULL: it could not be made;
 * reason_out (may be NULL) says why. Inside a step it has to be there. */
const struct mtl_pipeline *metal_pipeline(struct metal_device *d, const char *kernel,
                                          const struct mtl_constant *constants,
                                          uint32_t n_constants, char *reason_out,
                                          size_t reason_bytes);

static inline struct mtl_constant metal_uint(uint32_t index, uint32_t value) {
    return (struct mtl_constant){index, MTL_CONSTANT_UINT, {.u = value}};
}
static inline struct mtl_constant metal_bool(uint32_t index, bool value) {
    return (struct mtl_constant){index, MTL_CONSTANT_BOOL, {.b = value}};
}
static inline struct mtl_constant metal_float(uint32_t index, float value) {
    return (struct mtl_constant){index, MTL_CONSTANT_FLOAT, {.f = value}};
}

/* ---- one dispatch: use, bind, run ---- */

void metal_use(struct metal_device *d, const struct mtl_pipeline *pipeline);
/* Binds [address, address + bytes), which must lie in one allocation (or mapping) of the device,
 * and says what the dispatch does with it. */
void metal_read(struct metal_device *d, uint32_t index, const void *address, size_t bytes);
void metal_write(struct metal_device *d, uint32_t index, void *address,
                 size_t bytes); /* and reads */
/* Arguments by value, at most MTL_BYTES_MAX. */
void metal_args(struct metal_device *d, uint32_t index, const void *args, size_t bytes);
void metal_shared(struct metal_device *d, uint32_t index, size_t bytes); /* threadgroup memory */
void metal_run_threads(struct metal_device *d, const uint32_t grid[3], const uint32_t group[3]);
void metal_run_groups(struct metal_device *d, const uint32_t n_groups[3], const uint32_t group[3]);

/* ---- memory of a step ---- */

/* Room in device memory for this step alone: what the host makes while it records (sequences,
 * slots, work lists). Filled by the caller at once. From a part of scratch that is as large as
 * metal_attention_step_bytes() says, or grows; two steps never share it. 256-byte aligned. Never
 * NULL: where there is none the step has failed, and what is filled goes nowhere. */
void *metal_step_alloc(struct metal_device *d, size_t bytes);
/* The same for something that several calls of a step share, by the host address it is made from:
 * *is_new_out says that the caller must fill it. */
void *metal_step_share(struct metal_device *d, const void *key, size_t bytes, bool *is_new_out);
/* Device memory of kernels (split attention's partials, products' halves), from scratch_reserve():
 * one block that operations use one after another. */
void *metal_scratch(struct metal_device *d, size_t bytes);
size_t metal_scratch_room(const struct metal_device *d); /* the most that may be asked for */

/* What attention needs for batches of up to so many rows (metal_attention.c): of that block, and of
 * a step's memory for the slot tables of a batch (as many sequences as rows, but at most
 * METAL_ATTENTION_SEQS_MAX) and its lists of work. */
#define METAL_ATTENTION_SEQS_MAX 256
uint64_t metal_attention_scratch_bytes(uint32_t rows_max, uint32_t width_max, uint32_t kv_len_max);
uint64_t metal_attention_step_bytes(uint32_t rows_max, uint32_t kv_len_max);

/* How far the device has shrunk its pieces after command buffers that the system ended: 0 = not;
 * each step halves what one dispatch may do (rows of attention by KV length). */
uint32_t metal_shrink(const struct metal_device *d);
enum radish_precision metal_precision(const struct metal_device *d);

#endif
