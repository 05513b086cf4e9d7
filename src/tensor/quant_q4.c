/* quant_q4.c - Q4_0 and Q4_1: 32 elements of 4 bits with one scale, the oldest and simplest of the
 * block formats.
 *
 *   Q4_0, 18 bytes          Q4_1, 20 bytes
 *     0  f16 d                0  f16 d
 *     2  qs[16]               2  f16 m
 *                             4  qs[16]
 *
 * Byte j of qs holds element j in its low half and element j + 16 in its high half, so that one
 * vector load, a mask and a shift give two runs of 16 neighbouring elements.
 *   Q4_0: y = (q - 8) * d        Q4_1: y = q * d + m
 * The product and the sum are rounded one by one (no fused multiply-add), as the reference does. */
#include "quant.h"

enum { ELEMS = 32, Q4_0_BYTES = 18, Q4_1_BYTES = 20 };

void quant_q4_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q4_0_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src);
        const uint8_t *qs = src + 2;
        for (int j = 0; j < ELEMS / 2; j++) {
            dst[j] = (float)((qs[j] & 15) - 8) * d;
            dst[j + ELEMS / 2] = (float)((qs[j] >> 4) - 8) * d;
        }
    }
}

void quant_q4_1_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q4_1_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src), m = quant_load_f16(src + 2);
        const uint8_t *qs = src + 4;
        for (int j = 0; j < ELEMS / 2; j++) {
            dst[j] = (float)(qs[j] & 15) * d + m;
            dst[j + ELEMS / 2] = (float)(qs[j] >> 4) * d + m;
        }
    }
}
