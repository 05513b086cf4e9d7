/* vnni_kinds.h - the quantised weight types as VNNI kernels see them, and one function for each.
 *
 * A file that includes this defines multiply(), which is inlined once per kind with its fields as
 * constants; one function per kind, so that each is compiled by itself. */
#ifndef KERNEL_CPU_VNNI_KINDS_H
#define KERNEL_CPU_VNNI_KINDS_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <string.h>

/* What is known at compile time about a weight type. */
struct i8_kind {
    int block; /* inputs that share a scale */
    bool has_min;
    bool is_nibbles;      /* I4: two quants a byte */
    bool has_half_scales; /* f16 */
};

/* All of the part. */
INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind);

static void multiply_q4_0(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, false, true, true});
}

static void multiply_q4_1(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, true, true, true});
}

static void multiply_q4_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, true, true, false});
}

static void multiply_32(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, false, false, true});
}

static void multiply_32_min(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, true, false, false});
}

static void multiply_16(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, false, false, false});
}

static void multiply_16_min(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, true, false, false});
}

static void multiply_i4(const struct matmul_part *p) {
    if (!p->w->has_min)
        multiply_q4_0(p);
    else
        p->w->has_half_scales ? multiply_q4_1(p) : multiply_q4_k(p);
}

static void multiply_i8(const struct matmul_part *p) {
    if (p->w->block == 16)
        p->w->has_min ? multiply_16_min(p) : multiply_16(p);
    else
        p->w->has_min ? multiply_32_min(p) : multiply_32(p);
}

/* Four activations as the 32 bits that every lane gets. */
static inline int32_t load_quad(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return quad;
}

#endif
