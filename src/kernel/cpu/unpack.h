/* unpack.h - a block of a quantised type as small unsigned integers with scales, for packing.
 *
 * weight = d * (quant - offset) + m, with the roundings of dtype_to_f32(): the product first, then
 * the sum. Threads: any. */
#ifndef KERNEL_CPU_UNPACK_H
#define KERNEL_CPU_UNPACK_H

#include "radish.h"

#include "tensor/dtype.h"

struct unpack_type {
    uint32_t block;     /* elements that share d and m: 32 or 16 */
    uint32_t offset;    /* subtracted from the quants */
    uint32_t quant_max; /* largest quant, offset included */
    bool has_min;
};

/* False: not a quantised type that can be unpacked. */
bool unpack_find_type(enum dtype dtype, struct unpack_type *type_out);

#define UNPACK_ELEMS_MAX 256 /* elements of the largest block */

/* One block of the file: quants[dtype_block_elems], d and m one per scale block. */
void unpack_block(enum dtype dtype, const uint8_t *src, uint8_t *quants, float *d, float *m);

#endif
