/* quantise_int.h - a quantiser per type, for quantise.c's table only.
 *
 * Every function makes one whole block at dst of the finite numbers at src. False: a scale is too
 * large for f16. Threads: any. */
#ifndef TENSOR_QUANTISE_INT_H
#define TENSOR_QUANTISE_INT_H

#include "radish.h"

bool quantise_q4_k_block(const float *src, uint8_t *dst); /* quantise_k.c */
bool quantise_q5_k_block(const float *src, uint8_t *dst);
bool quantise_q6_k_block(const float *src, uint8_t *dst);

/* f16, little-endian. False: infinite. */
bool quantise_store_f16(float f, uint8_t *dst); /* quantise.c */

#endif
