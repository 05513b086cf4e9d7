/* unpack.h - a block of a quantised type as small unsigned integers with scales, for packing.
 *
 * weight = d * sc * (quant - offset) + m * mn, with the roundings of dtype_to_f32(): d * sc and
 * m * mn are exact, then the product, then the sum. Threads: any. */
#ifndef KERNEL_CPU_UNPACK_H
#define KERNEL_CPU_UNPACK_H

#include "radish.h"

#include "quant_panel.h"

enum {
    UNPACK_ELEMS_MAX = 256, /* elements of the largest block of a file */
    UNPACK_PARTS_MAX = UNPACK_ELEMS_MAX / 16
};

/* One block of a file. Types with scales in one level have sc = mn = 1, those without minimums
 * m = 0. */
struct unpacked {
    uint8_t quants[UNPACK_ELEMS_MAX];   /* [dtype_block_elems] */
    uint16_t super[2];                  /* d and m, f16 */
    int8_t scales[UNPACK_PARTS_MAX][2]; /* sc and mn of each part: quant_form.block elements */
};

/* src: of a type that quant_form_find() knows. */
void unpack_block(enum dtype dtype, const uint8_t *src, struct unpacked *out);

/* d * sc (which = 0) or m * mn (which = 1). */
static inline float unpack_scale(const struct unpacked *u, uint32_t part, uint32_t which) {
    return dtype_f16_to_f32(u->super[which]) * (float)u->scales[part][which];
}

#endif
