/* quant_q5.c - Q5_0 and Q5_1: as Q4 (quant_q4.c), with a fifth bit per element kept apart.
 *
 *   Q5_0, 22 bytes          Q5_1, 24 bytes
 *     0  f16 d                0  f16 d
 *     2  u32 qh               2  f16 m
 *     6  qs[16]               4  u32 qh
 *                             8  qs[16]
 *
 * Bit j of qh is bit 4 of element j; the low four bits lie as in Q4: element j in the low half of
 * qs[j], element j + 16 in its high half.
 *   Q5_0: y = (q - 16) * d       Q5_1: y = q * d + m */
#include "quant.h"

enum { ELEMS = 32, Q5_0_BYTES = 22, Q5_1_BYTES = 24 };

/* The 5 bits of element j of a block. */
static inline int load_q5(const uint8_t *qs, uint32_t qh, int j) {
    const int low = j < ELEMS / 2 ? qs[j] & 15 : qs[j - ELEMS / 2] >> 4;
    return low | (int)(qh >> j & 1) << 4;
}

void quant_q5_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q5_0_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src);
        const uint32_t qh = quant_load_u32(src + 2);
        for (int j = 0; j < ELEMS; j++) dst[j] = (float)(load_q5(src + 6, qh, j) - 16) * d;
    }
}

void quant_q5_1_to_f32(const uint8_t *src, float *dst, size_t n_blocks) {
    for (size_t i = 0; i < n_blocks; i++, src += Q5_1_BYTES, dst += ELEMS) {
        const float d = quant_load_f16(src), m = quant_load_f16(src + 2);
        const uint32_t qh = quant_load_u32(src + 4);
        for (int j = 0; j < ELEMS; j++) dst[j] = (float)load_q5(src + 8, qh, j) * d + m;
    }
}
