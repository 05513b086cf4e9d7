/* quant_q3_k.c - Q3_K: 256 elements of 3 bits in 16 groups of 16, each group with a 6-bit signed
 * scale; no minimum.
 *
 *   110 bytes
 *     0   hmask[32]         the third bit: bit k of byte j belongs to element 32k + j
 *    32   qs[64]            the low two bits, in planes as in Q2_K (quant_q2_k.c)
 *    96   scales[12]        16 scales of 6 bits:
 *   108   f16 d               bytes 0..7   low 4 bits: group g in the low half of byte g (g < 8),
 *                                          group g + 8 in its high half
 *                             bytes 8..11  high 2 bits: group g in bits 2(g / 4).. of byte 8 + g %
 * 4 y = (d * (scale - 32)) * (q - (third bit ? 0 : 4)) */
#include "quant.h"

enum { ELEMS = 256, BLOCK_BYTES = 110, GROUP = 16 };

static inline int load_scale(const uint8_t *scales, int g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = scales[8 + g % 4] >> 2 * (g / 4) & 3;
    return (low | high << 4) - 32;
}

void quant_q3_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += BLOCK_BYTES, dst += ELEMS) {
        const uint8_t *hmask = src, *qs = src + 32, *scales = src + 96;
        const float d = quant_load_f16(src + 108);
        for (int g = 0; g < ELEMS / GROUP; g++) {
            const float scale = d * (float)load_scale(scales, g);
            const uint8_t *q = qs + 32 * (g / 8) + GROUP * (g % 2);
            const uint8_t *h = hmask + GROUP * (g % 2);
            const int shift = 2 * (g % 8 / 2), plane = g / 2;
            for (int j = 0; j < GROUP; j++) {
                const int below = h[j] >> plane & 1 ? 0 : 4;
                dst[g * GROUP + j] = scale * (float)((q[j] >> shift & 3) - below);
            }
        }
    }
}
