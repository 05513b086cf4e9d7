/* neon_quants.h - quants and scales out of quantised panels, a vector of four output rows at a
 * time: a quarter of a panel.
 *
 * Included by neon*.c only, before what they define for neon_i8.h. */
#ifndef KERNEL_CPU_NEON_QUANTS_H
#define KERNEL_CPU_NEON_QUANTS_H

#include "neon_tile.h"

enum { HALF_GROUPS = 4 /* groups of 4 in half a unit */ };

/* Halves of a unit in a scale block. */
INLINE int count_halves(const struct quant_form form) {
    return (int)form.block / (4 * HALF_GROUPS);
}

/* Moves bits of bytes `by` places down, or up. */
INLINE uint8x16_t shift_bits(uint8x16_t x, const int by) {
    switch (by) { /* the instruction has its distance in itself */
    case -4: return vshlq_n_u8(x, 4);
    case -3: return vshlq_n_u8(x, 3);
    case -2: return vshlq_n_u8(x, 2);
    case -1: return vshlq_n_u8(x, 1);
    case 1: return vshrq_n_u8(x, 1);
    case 2: return vshrq_n_u8(x, 2);
    case 3: return vshrq_n_u8(x, 3);
    case 4: return vshrq_n_u8(x, 4);
    case 5: return vshrq_n_u8(x, 5);
    case 6: return vshrq_n_u8(x, 6);
    default: return x;
    }
}

/* Group g of a unit: four inputs of four rows, unsigned, the offset included. */
INLINE uint8x16_t load_group(const struct quant_form form, const uint8_t *unit, const int g) {
    const uint32_t group = (uint32_t)g, low_shift = quant_low_shift(form, group);
    uint8x16_t low = vld1q_u8(unit + quant_low_vector(form, group) * VECTOR_BYTES);
    if (form.low_bits == 8) return low;
    low = shift_bits(low, (int)low_shift);
    if (form.low_bits + low_shift < 8)
        low = vandq_u8(low, vdupq_n_u8((uint8_t)((1u << form.low_bits) - 1)));
    if (!form.high_bits) return low;
    uint8x16_t high = vld1q_u8(unit + quant_high_vector(form, group) * VECTOR_BYTES);
    high = shift_bits(high, (int)quant_high_shift(form, group) - (int)form.low_bits);
    const uint32_t mask = ((1u << form.high_bits) - 1) << form.low_bits;
    return vorrq_u8(low, vandq_u8(high, vdupq_n_u8((uint8_t)mask)));
}

/* The same as signed bytes: as they are up to 63, without their offset where they are bytes. */
INLINE int8x16_t load_signed(const struct quant_form form, const uint8_t *unit, const int g) {
    const uint8x16_t quants = load_group(form, unit, g);
    return vreinterpretq_s8_u8(form.low_bits == 8 ? veorq_u8(quants, vdupq_n_u8(128)) : quants);
}

/* Four f16 numbers as floats. */
INLINE float32x4_t load_halves(const uint8_t *at) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)at)));
}

/* Scales (which = 0) or minimums (which = 1) of rows [4 * quarter, 4 * quarter + 4) of a block. */
INLINE float32x4_t load_scales(const struct quant_form form, const struct quant_block *at,
                               const int which, uint32_t quarter) {
    const uint32_t number = (uint32_t)which * PANEL_ROWS + quarter * 4;
    if (form.scales == SCALES_HALVES) return load_halves(at->scales + 2 * number);
    const uint8_t *bytes = at->scales + (form.scales == SCALES_BYTES ? number : quarter * 4);
    uint32_t four;
    memcpy(&four, bytes, sizeof four);
    uint8x8_t small = vreinterpret_u8_u32(vdup_n_u32(four));
    if (form.scales == SCALES_NIBBLES)
        small = which ? vshr_n_u8(small, 4) : vand_u8(small, vdup_n_u8(15));
    const int16x4_t wide = vget_low_s16(vmovl_s8(vreinterpret_s8_u8(small)));
    return vmulq_f32(load_halves(at->supers + 2 * number), vcvtq_f32_s32(vmovl_s16(wide)));
}

#endif
