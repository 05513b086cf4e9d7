/* quant_q4_k.c - Q4_K and Q5_K: 256 elements of 4 or 5 bits in 8 groups of 32, each group with a
 * 6-bit scale and a 6-bit minimum, scaled by two f16 of the whole block. One file, because they
 * share the packing of the scales.
 *
 *   Q4_K, 144 bytes         Q5_K, 176 bytes
 *     0   f16 d               0   f16 d
 *     2   f16 dmin            2   f16 dmin
 *     4   scales[12]          4   scales[12]
 *    16   qs[128]            16   qh[32]        bit g of byte j: bit 4 of element j of group g
 *                            48   qs[128]
 *
 * Groups 2p and 2p + 1 share qs[32p .. 32p + 32): the low halves and the high halves of its bytes.
 * scales: for g < 4, byte g holds the scale and byte g + 4 the minimum in their low 6 bits; the two
 * bits left over there are the high bits of group g + 4, whose low 4 bits share byte g + 8 (scale
 * in the low half, minimum in the high half).
 *   y = (d * scale) * q - dmin * minimum */
#include "quant.h"

enum { ELEMS = 256, Q4_K_BYTES = 144, Q5_K_BYTES = 176, GROUP = 32 };

static inline void load_scale(const uint8_t *s, int g, int *scale_out, int *minimum_out) {
    if (g < 4) {
        *scale_out = s[g] & 63;
        *minimum_out = s[g + 4] & 63;
    } else {
        *scale_out = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *minimum_out = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

void quant_q4_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q4_K_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src), dmin = quant_load_f16(src + 2);
        for (int g = 0; g < ELEMS / GROUP; g++) {
            int scale_bits, minimum_bits;
            load_scale(src + 4, g, &scale_bits, &minimum_bits);
            const float scale = d * (float)scale_bits, minimum = dmin * (float)minimum_bits;
            const uint8_t *q = src + 16 + GROUP * (g / 2);
            const int shift = 4 * (g % 2);
            for (int j = 0; j < GROUP; j++)
                dst[g * GROUP + j] = scale * (float)(q[j] >> shift & 15) - minimum;
        }
    }
}

void quant_q5_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q5_K_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src), dmin = quant_load_f16(src + 2);
        const uint8_t *qh = src + 16;
        for (int g = 0; g < ELEMS / GROUP; g++) {
            int scale_bits, minimum_bits;
            load_scale(src + 4, g, &scale_bits, &minimum_bits);
            const float scale = d * (float)scale_bits, minimum = dmin * (float)minimum_bits;
            const uint8_t *q = src + 48 + GROUP * (g / 2);
            const int shift = 4 * (g % 2);
            for (int j = 0; j < GROUP; j++) {
                const int bits = (q[j] >> shift & 15) | (qh[j] >> g & 1) << 4;
                dst[g * GROUP + j] = scale * (float)bits - minimum;
            }
        }
    }
}
