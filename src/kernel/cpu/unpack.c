/* unpack.c - the ten quantised types of GGUF as integers and scales.
 *
 * tensor/quant_*.c turn the same blocks into floats; kernels with integer dot products need the
 * integers themselves. All types meet in one form: unsigned quants below 256, an offset per type,
 * scales (and minimums) in two levels: one f16 a block, and an integer below 128 per 32 or 16
 * elements, 1 where the type has one level alone. Their product is exact, so that
 * d * (quant - offset) + m has the bits of dtype_to_f32(): the kernel tests compare the two on
 * random blocks. Minimums are subtracted in the file: their sign is changed here.
 *
 * Block layouts are described where they are read first: tensor/quant_*.c. */
#include "unpack.h"

#include "base/invariant.h"

#include <string.h>

enum { F16_SIGN = 0x8000 };

static inline uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

/* 32 elements from 16 bytes: low halves, then high halves. */
static void split_nibbles(const uint8_t *src, uint8_t *quants) {
    for (int j = 0; j < 16; j++) {
        quants[j] = src[j] & 15;
        quants[j + 16] = src[j] >> 4;
    }
}

static void add_fifth_bit(uint32_t bits, uint8_t *quants) {
    for (int j = 0; j < 32; j++) quants[j] |= (uint8_t)((bits >> j & 1) << 4);
}

static void unpack_q4_0(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    split_nibbles(src + 2, out->quants);
}

static void unpack_q4_1(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    out->super[1] = load_u16(src + 2);
    split_nibbles(src + 4, out->quants);
}

static void unpack_q5_0(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    split_nibbles(src + 6, out->quants);
    add_fifth_bit(load_u32(src + 2), out->quants);
}

static void unpack_q5_1(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    out->super[1] = load_u16(src + 2);
    split_nibbles(src + 8, out->quants);
    add_fifth_bit(load_u32(src + 4), out->quants);
}

static void unpack_q8_0(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    for (int j = 0; j < 32; j++) out->quants[j] = src[2 + j] ^ 128;
}

/* d, and the number that minimums are multiples of. */
static void load_supers(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src);
    out->super[1] = load_u16(src + 2) ^ F16_SIGN;
}

static void unpack_q2_k(const uint8_t *src, struct unpacked *out) {
    load_supers(src + 80, out);
    for (int g = 0; g < 16; g++) {
        out->scales[g][0] = (int8_t)(src[g] & 15);
        out->scales[g][1] = (int8_t)(src[g] >> 4);
        const uint8_t *q = src + 16 + 32 * (g / 8) + 16 * (g % 2);
        for (int j = 0; j < 16; j++) out->quants[g * 16 + j] = q[j] >> 2 * (g % 8 / 2) & 3;
    }
}

static void unpack_q3_k(const uint8_t *src, struct unpacked *out) {
    const uint8_t *high = src, *low = src + 32, *scales = src + 96;
    out->super[0] = load_u16(src + 108);
    for (int g = 0; g < 16; g++) {
        const int scale_low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
        const int scale_high = scales[8 + g % 4] >> 2 * (g / 4) & 3;
        out->scales[g][0] = (int8_t)((scale_low | scale_high << 4) - 32);
        const uint8_t *q = low + 32 * (g / 8) + 16 * (g % 2), *h = high + 16 * (g % 2);
        for (int j = 0; j < 16; j++)
            out->quants[g * 16 + j] =
                (uint8_t)((q[j] >> 2 * (g % 8 / 2) & 3) | (h[j] >> g / 2 & 1) << 2);
    }
}

/* The eight 6-bit scales and minimums of Q4_K and Q5_K. */
static void load_scales_k(const uint8_t *src, struct unpacked *out) {
    const uint8_t *s = src + 4;
    load_supers(src, out);
    for (int g = 0; g < 8; g++) {
        const int sc = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        const int mn = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
        out->scales[g][0] = (int8_t)sc;
        out->scales[g][1] = (int8_t)mn;
    }
}

static void unpack_q4_k(const uint8_t *src, struct unpacked *out) {
    load_scales_k(src, out);
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 32; j++)
            out->quants[g * 32 + j] = src[16 + 32 * (g / 2) + j] >> 4 * (g % 2) & 15;
}

static void unpack_q5_k(const uint8_t *src, struct unpacked *out) {
    load_scales_k(src, out);
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 32; j++)
            out->quants[g * 32 + j] = (uint8_t)((src[48 + 32 * (g / 2) + j] >> 4 * (g % 2) & 15) |
                                                (src[16 + j] >> g & 1) << 4);
}

static void unpack_q6_k(const uint8_t *src, struct unpacked *out) {
    out->super[0] = load_u16(src + 208);
    for (int g = 0; g < 16; g++) out->scales[g][0] = (int8_t)src[192 + g];
    for (int quarter = 0; quarter < 8; quarter++) {
        const int half = quarter / 4, k = quarter % 4;
        const uint8_t *low = src + 64 * half + 32 * (k % 2), *high = src + 128 + 32 * half;
        for (int j = 0; j < 32; j++)
            out->quants[quarter * 32 + j] =
                (uint8_t)((low[j] >> 4 * (k / 2) & 15) | (high[j] >> 2 * k & 3) << 4);
    }
}

void unpack_block(enum dtype dtype, const uint8_t *src, struct unpacked *out) {
    static void (*const unpack[RADISH_DTYPE_COUNT])(const uint8_t *src, struct unpacked *out) = {
        [RADISH_DTYPE_Q4_0] = unpack_q4_0, [RADISH_DTYPE_Q4_1] = unpack_q4_1,
        [RADISH_DTYPE_Q5_0] = unpack_q5_0, [RADISH_DTYPE_Q5_1] = unpack_q5_1,
        [RADISH_DTYPE_Q8_0] = unpack_q8_0, [RADISH_DTYPE_Q2_K] = unpack_q2_k,
        [RADISH_DTYPE_Q3_K] = unpack_q3_k, [RADISH_DTYPE_Q4_K] = unpack_q4_k,
        [RADISH_DTYPE_Q5_K] = unpack_q5_k, [RADISH_DTYPE_Q6_K] = unpack_q6_k,
    };
    RADISH_ASSERT((unsigned)dtype < RADISH_DTYPE_COUNT && unpack[dtype]);
    out->super[0] = out->super[1] = 0;
    memset(out->scales, 1, sizeof out->scales);
    unpack[dtype](src, out);
}
