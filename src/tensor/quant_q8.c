/* quant_q8.c - Q8_0: 32 signed bytes with one scale.
 *
 *   34 bytes
 *     0  f16 d
 *     2  i8 qs[32]          y = q * d */
#include "quant.h"

enum { ELEMS = 32, Q8_0_BYTES = 34 };

void quant_q8_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q8_0_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src);
        for (int j = 0; j < ELEMS; j++) dst[j] = (float)(int8_t)src[2 + j] * d;
    }
}
