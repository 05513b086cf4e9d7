/* quant_kinds.h - one function of a kernel for each quantised weight type.
 *
 * A file that includes this defines multiply(), which is inlined once per type with the type's row
 * of the table as constants; one function per type, so that each is compiled by itself. */
#ifndef KERNEL_CPU_QUANT_KINDS_H
#define KERNEL_CPU_QUANT_KINDS_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <string.h>

/* All of the part. */
INLINE void multiply(const struct matmul_part *p, const struct quant_form form);

#define X(name, ...)                                                                               \
    static void multiply_##name(const struct matmul_part *p) {                                     \
        multiply(p, (struct quant_form){__VA_ARGS__});                                             \
    }
QUANT_FORMS(X)
#undef X

static void multiply_quants(const struct matmul_part *p) {
#define X(name, ...) [RADISH_DTYPE_##name] = multiply_##name,
    static void (*const by_type[RADISH_DTYPE_COUNT])(const struct matmul_part *p) = {
        QUANT_FORMS(X)};
#undef X
    by_type[p->w->dtype](p);
}

/* Four activations as the 32 bits that every lane gets. */
static inline int32_t load_quad(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return quad;
}

#endif
