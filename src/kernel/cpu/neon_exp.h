/* neon_exp.h - scalar_exp.h on four lanes: the same operations in the same order, so the same bits.
 *
 * Included by neon_*.c only. */
#ifndef KERNEL_CPU_NEON_EXP_H
#define KERNEL_CPU_NEON_EXP_H

#include "neon_vec.h"
#include "scalar_exp.h"

static inline float32x4_t neon_exp(float32x4_t x) {
    const uint32x4_t is_zero = vcltq_f32(x, vdupq_n_f32(EXP_LOW));
    x = vminq_f32(x, vdupq_n_f32(EXP_HIGH)); /* NaN stays */
    const float32x4_t magic = vdupq_n_f32(EXP_MAGIC);
    const float32x4_t shifted = vfmaq_f32(magic, x, vdupq_n_f32(EXP_LOG2E));
    const float32x4_t n = vsubq_f32(shifted, magic);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-EXP_LN2_HI));
    r = vfmaq_f32(r, n, vdupq_n_f32(-EXP_LN2_LO));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C1), p, r);
    p = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
    const uint32x4_t power =
        vshlq_n_u32(vaddq_u32(vreinterpretq_u32_f32(shifted), vdupq_n_u32(127)), 23);
    const uint32x4_t product = vreinterpretq_u32_f32(vmulq_f32(p, vreinterpretq_f32_u32(power)));
    return vreinterpretq_f32_u32(vbicq_u32(product, is_zero));
}

static inline float32x4_t neon_tanh(float32x4_t x) {
    const float32x4_t one = vdupq_n_f32(1.0f), z = vmulq_f32(x, x);
    float32x4_t p = vfmaq_f32(vdupq_n_f32(TANH_C3), vdupq_n_f32(TANH_C4), z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C2), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C1), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C0), p, z);
    const float32x4_t small = vfmaq_f32(x, vmulq_f32(p, z), x);
    const float32x4_t e = neon_exp(vaddq_f32(x, x));
    const float32x4_t large = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2.0f), vaddq_f32(e, one)));
    return vbslq_f32(vcltq_f32(vabsq_f32(x), vdupq_n_f32(TANH_SMALL)), small, large);
}

#endif
