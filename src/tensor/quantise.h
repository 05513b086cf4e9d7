/* quantise.h - plain numbers into the block formats of GGUF, for weights that are quantised while
 * they are loaded.
 *
 * Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 have the bits of ggml's reference quantisers. Q4_K, Q5_K and Q6_K
 * leave the choice of scales free; ours is described in quantise_k.c. The result depends on the
 * numbers alone: not on the machine, nor on how rows are cut into calls. Owns nothing. Threads:
 * any. */
#ifndef TENSOR_QUANTISE_H
#define TENSOR_QUANTISE_H

#include "radish.h"

#include "tensor/dtype.h"

/* The types that quantise_row() makes, by the names that --quantization has for them: "q8_0",
 * "q4_k" (upper case is the same). False: not one of them. */
bool quantise_type_find(const char *name, enum dtype *dtype_out);
const char *quantise_type_name(enum dtype dtype); /* NULL: not one of them; static */
const char *quantise_type_names(void);            /* "q8_0, q6_k, ...", for messages; static */

/* What to make of rows of n_in elements when `wanted` is asked for: that, or where its blocks do
 * not fit into a row, the nearest type with smaller blocks. False: none fits. */
bool quantise_type_for(enum dtype wanted, uint32_t n_in, enum dtype *dtype_out);

/* dst = n elements of src as blocks; n a multiple of dtype_block_elems(), dst needs no alignment.
 * False: a number is not finite, or a scale is too large for f16; dst is then worth nothing. */
bool quantise_row(enum dtype dtype, const float *src, size_t n, uint8_t *dst);

#endif
