/* registry.h - the table of kernel variants (ops.def) and the choice among them.
 *
 * A choice depends on the operation, the operand format, the family of the device, the instruction
 * sets of the machine, the shape of the weight or head, and --kernel: never on how many tokens,
 * sequences or threads there are. Owns: nothing; a struct registry holds what was forced and what
 * was refused. Threads: the device's. */
#ifndef KERNEL_REGISTRY_H
#define KERNEL_REGISTRY_H

#include "radish.h"

#include "base/buf.h"
#include "kernel/cpu/cpu_features.h"
#include "kernel/kernel.h"

/* Operand formats as bits: for matmul and embed a weight's pack_format, for rope_kv_store and
 * attention the KV dtype. */
#define KERNEL_F32  1u
#define KERNEL_F16  2u
#define KERNEL_BF16 4u
#define KERNEL_I8   8u
#define KERNEL_KV   (KERNEL_F32 | KERNEL_F16 | KERNEL_BF16)
#define KERNEL_ANY  15u

#define KERNEL_FORMATS 4 /* bits above */

typedef void (*kernel_fn)(void); /* the variant; cast to the operation's type before a call */
typedef bool (*kernel_accepts_fn)(const struct kernel_shape *shape, char *reason_out,
                                  size_t reason_bytes);

/* Whose kernels: a device has those of one family. Those of a build without Metal have no rows. */
enum kernel_family { KERNEL_FAMILY_CPU, KERNEL_FAMILY_METAL };

struct kernel_row {
    const char *name; /* "bf16_f32_matmul__avx2" */
    enum kernel_op op;
    enum kernel_family family;
    enum cpu_isa isa; /* of the CPU's */
    uint32_t formats;
    kernel_accepts_fn accepts;
    const char *bit_class, *text;
    double tolerance;
    kernel_fn fn;
    kernel_fn make; /* of Metal's: makes the pipelines for a shape (metal/metal_kernel.h) */
};

const struct kernel_row *registry_rows(enum kernel_family family, uint32_t *n_out);
const char *kernel_row_variant(const struct kernel_row *row); /* "avx2", from its name */

struct registry {
    enum kernel_family family;
    const struct kernel_row
        *forced[KERNEL_OP_COUNT][KERNEL_FORMATS]; /* by format bit; NULL = automatic */
};

/* Applies "OP=VARIANT" choices. E_UNSUPPORTED: unknown or impossible here; lists what there is. */
enum radish_status registry_init(struct registry *r, enum kernel_family family,
                                 const char *const *kernels, uint32_t n_kernels,
                                 struct radish_error *err) RADISH_CHECK_RESULT;

/* The variant for one operation, operand format (a single bit) and shape; NULL and a reason when
 * there is none. shape may be NULL: then what would be chosen for an ordinary one. When a better or
 * forced one had to be passed over for its shape, *reason_out says why; else it is "". */
const struct kernel_row *registry_find(const struct registry *r, enum kernel_op op, uint32_t format,
                                       const struct kernel_shape *shape, char *reason_out,
                                       size_t reason_bytes);

/* "matmul=bf16_f32_matmul__avx2 ..." and the table with reasons. */
void registry_print_short(const struct registry *r, struct buf *out);
void registry_print(const struct registry *r, struct buf *out);

#endif
