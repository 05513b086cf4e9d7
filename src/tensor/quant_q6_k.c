/* quant_q6_k.c - Q6_K: 256 elements of 6 bits in 16 groups of 16, each group with a signed 8-bit
 * scale; no minimum.
 *
 *   210 bytes
 *     0   ql[128]           the low 4 bits
 *   128   qh[64]            the high 2 bits
 *   192   i8 scales[16]
 *   208   f16 d
 *
 * The block is two halves of 128 elements; half h owns ql[64h .. 64h + 64) and qh[32h .. 32h + 32).
 * Quarter k of a half (32 elements) takes its low bits from ql bytes 32(k % 2) .. + 32, low halves
 * for k < 2, high halves for k >= 2, and its high bits from bits 2k, 2k + 1 of the 32 bytes of qh.
 *   y = (d * scale) * (q - 32) */
#include "quant.h"

enum { ELEMS = 256, BLOCK_BYTES = 210, QUARTER = 32, GROUP = 16 };

void quant_q6_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += BLOCK_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src + 208);
        for (int g = 0; g < ELEMS / GROUP; g++) {
            const int half = g / 8, k = g % 8 / 2, first = GROUP * (g % 2);
            const uint8_t *ql = src + 64 * half + QUARTER * (k % 2) + first;
            const uint8_t *qh = src + 128 + QUARTER * half + first;
            const float scale = d * (float)(int8_t)src[192 + g];
            const int low_shift = 4 * (k / 2), high_shift = 2 * k;
            for (int j = 0; j < GROUP; j++) {
                const int bits = (ql[j] >> low_shift & 15) | (qh[j] >> high_shift & 3) << 4;
                dst[g * GROUP + j] = scale * (float)(bits - 32);
            }
        }
    }
}
