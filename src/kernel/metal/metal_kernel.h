/* metal_kernel.h - the operations of Metal devices, declared from ops.def: two functions for each
 * row KERNEL_METAL(name, ...), both in metal_<op>.c.
 *
 *   bool name_make(d, shape, reason_out, reason_bytes)  makes every pipeline that the operation may
 *        use for such a shape, with whatever number of rows; false and the reason where the shape
 *        cannot be done. While a model loads; not once for a shape: often, and then it finds them.
 *   void name(d, args)  encodes the operation: uses, binds, runs (metal_int.h). Allocates nothing.
 *
 * Without RADISH_METAL there are none. Threads: the engine's. */
#ifndef KERNEL_METAL_METAL_KERNEL_H
#define KERNEL_METAL_METAL_KERNEL_H

#include "radish.h"

#include "kernel/kernel_args.h"

struct metal_device;
struct kernel_shape;

#define METAL_ARGS_EMBED         struct embed_args
#define METAL_ARGS_RMSNORM       struct rmsnorm_args
#define METAL_ARGS_LAYERNORM     struct layernorm_args
#define METAL_ARGS_MATMUL        struct matmul_args
#define METAL_ARGS_MATMUL_GROUP  struct matmul_group_args
#define METAL_ARGS_SILU_MUL      struct silu_mul_args
#define METAL_ARGS_ACTIVATE      struct activate_args
#define METAL_ARGS_SOFT_CAP      struct soft_cap_args
#define METAL_ARGS_KEEP_ROWS     struct keep_rows_args
#define METAL_ARGS_ROPE_KV_STORE struct rope_kv_store_args
#define METAL_ARGS_ATTENTION     struct attention_args
#define METAL_ARGS_SAMPLE        struct sample_rows_args

typedef bool (*metal_make_fn)(struct metal_device *d, const struct kernel_shape *shape,
                              char *reason_out, size_t reason_bytes);

#define KERNEL_METAL(name, op, formats, accepts, tolerance, text)                                  \
    bool name##_make(struct metal_device *d, const struct kernel_shape *shape, char *reason_out,   \
                     size_t reason_bytes);                                                         \
    void name(struct metal_device *d, const METAL_ARGS_##op *args);
#include "kernel/ops.def"

#endif
