/* neon_quants.h - quants and scales out of I8 and I4 panels, a vector of four output rows at a
 * time.
 *
 * Included by neon*.c only, before what they define for neon_i8.h. */
#ifndef KERNEL_CPU_NEON_QUANTS_H
#define KERNEL_CPU_NEON_QUANTS_H

#include "neon_tile.h"

enum { GROUP_BYTES = 4 * PANEL_ROWS, HALF_GROUPS = 4 /* groups of 4 in half a block of 32 */ };

/* What is known at compile time about a weight type. */
struct i8_kind {
    int block;      /* inputs that share a scale: 32 or 16 */
    int run_groups; /* products of so many groups of inputs may be added in 16 bits */
    bool has_min;
    bool is_nibbles;      /* I4: two quants a byte */
    bool has_half_scales; /* f16 */
    bool is_byte;         /* quants up to 255, offset 128; else they are no more than 63 */
};

/* Halves of 16 inputs in a scale block. */
INLINE int count_halves(const struct i8_kind kind) {
    return kind.block / (4 * HALF_GROUPS);
}

/* Group g of a half: four inputs of four rows, unsigned, the offset included. */
INLINE uint8x16_t load_group(const struct i8_kind kind, const uint8_t *w, int half, int g) {
    if (!kind.is_nibbles) return vld1q_u8(w + (half * HALF_GROUPS + g) * GROUP_BYTES);
    const uint8x16_t both = vld1q_u8(w + g * GROUP_BYTES);
    return half ? vshrq_n_u8(both, 4) : vandq_u8(both, vdupq_n_u8(15));
}

/* The same as signed bytes: as they are up to 63, without their offset where they are bytes. */
INLINE int8x16_t load_signed(const struct i8_kind kind, const uint8_t *w, int half, int g) {
    const uint8x16_t quants = load_group(kind, w, half, g);
    return vreinterpretq_s8_u8(kind.is_byte ? veorq_u8(quants, vdupq_n_u8(128)) : quants);
}

/* Scales (which = 0) or minimums (which = 1) of four rows. */
INLINE float32x4_t load_scales(const struct i8_kind kind, const uint8_t *scales, int which) {
    if (!kind.has_half_scales)
        return vld1q_f32((const float *)(const void *)scales + which * PANEL_ROWS);
    const uint16_t *at = (const uint16_t *)(const void *)scales + which * PANEL_ROWS;
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

#endif
