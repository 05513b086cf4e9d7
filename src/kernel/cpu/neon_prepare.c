/* neon_prepare.c - rows as matrix products read them, on 4 lanes: int8 blocks and bf16; the bits of
 * ref_prepare.c.
 *
 * A block of 32 activations is eight vectors. The maximum is taken by comparison and selection, as
 * in plain C, so that what is no number is left out in the same way; rounding is the addition of
 * 1.5 * 2^23, whose low bytes two narrowings take. A widening sum over lanes adds the integers. */
#include "cpu_activations.h"
#include "tile_loops.h"

#include <arm_neon.h>

enum { VECTORS = ACT_BLOCK / 4 };

INLINE float find_max(const float32x4_t x[VECTORS]) {
    float32x4_t amax = vdupq_n_f32(0);
    UNROLL for (int i = 0; i < VECTORS; i++) {
        const float32x4_t a = vabsq_f32(x[i]);
        amax = vbslq_f32(vcgtq_f32(a, amax), a, amax);
    }
    return vmaxvq_f32(amax);
}

/* Sixteen numbers as integers. */
INLINE int8x16_t round_half(const float32x4_t x[VECTORS / 2], float32x4_t inverse) {
    uint16x4_t q[VECTORS / 2];
    UNROLL for (int i = 0; i < VECTORS / 2; i++) {
        const float32x4_t shifted = vaddq_f32(vmulq_f32(x[i], inverse), vdupq_n_f32(INT_BASE));
        q[i] = vmovn_u32(vreinterpretq_u32_f32(shifted));
    }
    const uint8x8_t low = vmovn_u16(vcombine_u16(q[0], q[1]));
    const uint8x8_t high = vmovn_u16(vcombine_u16(q[2], q[3]));
    return vreinterpretq_s8_u8(vcombine_u8(low, high));
}

void i8_prepare__neon(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_blocks = rows->w->n_in / ACT_BLOCK;
    struct act_block *block = rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++, block++, x += ACT_BLOCK) {
        float32x4_t v[VECTORS];
        UNROLL for (int i = 0; i < VECTORS; i++) {
            v[i] = vld1q_f32(x + 4 * i);
        }
        const float amax = act_amax(find_max(v));
        const float32x4_t inverse = vdupq_n_f32(act_inverse(amax));
        const int8x16_t low = round_half(v, inverse), high = round_half(v + VECTORS / 2, inverse);
        const int32_t sums[2] = {vaddlvq_s8(low), vaddlvq_s8(high)};
        vst1q_s8(block->q, low);
        vst1q_s8(block->q + 16, high);
        act_finish_block(rows->w, amax, sums, block);
    }
}

/* Four floats as bf16 in the low halves. */
INLINE uint32x4_t round_bits(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t raised = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrq_n_u32(vbslq_u32(vceqq_f32(x, x), raised, quiet), 16);
}

void bf16_prepare__neon(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_in = rows->w->n_in, width = rows->width;
    float *rounded = rows->rounded + (size_t)row * width;
    uint16_t *halves = rows->halves + (size_t)row * width;
    uint32_t k = 0;
    for (; n_in - k >= 4; k += 4) {
        const uint32x4_t half = round_bits(vld1q_f32(x + k));
        vst1q_f32(rounded + k, vreinterpretq_f32_u32(vshlq_n_u32(half, 16)));
        vst1_u16(halves + k, vmovn_u32(half));
    }
    for (; k < width; k++) act_round(k < n_in ? x[k] : 0.0f, &rounded[k], &halves[k]);
}
