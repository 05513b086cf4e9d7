/* quant_q2_k.c - Q2_K: 256 elements of 2 bits in 16 groups of 16, each group with a 4-bit scale and
 * a 4-bit minimum, which are themselves scaled by two f16 of the whole block.
 *
 *   84 bytes
 *     0   scales[16]        low half: scale, high half: minimum of group g
 *    16   qs[64]
 *    80   f16 d
 *    82   f16 dmin
 *
 * The block is two halves of 128 elements; half h owns qs[32h .. 32h + 32). Elements 32k .. 32k +
 * 32 of a half are bits 2k and 2k + 1 of its 32 bytes: planes, not neighbours, so that a shift and
 * a mask of whole vectors unpack them. y = (d * scale) * q - dmin * minimum */
#include "quant.h"

enum { ELEMS = 256, BLOCK_BYTES = 84, GROUP = 16 };

void quant_q2_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += BLOCK_BYTES, dst += ELEMS) {
        const uint8_t *scales = src, *qs = src + 16;
        const float d = quant_load_f16(src + 80), dmin = quant_load_f16(src + 82);
        for (int g = 0; g < ELEMS / GROUP; g++) {
            const float scale = d * (float)(scales[g] & 15);
            const float minimum = dmin * (float)(scales[g] >> 4);
            const uint8_t *q = qs + 32 * (g / 8) + GROUP * (g % 2);
            const int shift = 2 * (g % 8 / 2);
            for (int j = 0; j < GROUP; j++)
                dst[g * GROUP + j] = scale * (float)(q[j] >> shift & 3) - minimum;
        }
    }
}
