/* neon_attention.c - one segment of attention on four lanes: the algorithm is in lanes_attention.h,
 * this file says what a vector is.
 *
 * Scores: 6 queries times 4 vectors of keys are 24 chains of FMAs and 29 of 32 registers; outputs
 * likewise. A transpose reads 16 bytes of 4 keys; halves are brought together by three zips and
 * widened when they lie as they should. */
#include "cpu_kernel.h"
#include "neon_exp.h"

enum { LANES = 4, WIDE_VECS = 4 };
typedef float32x4_t vec;

#define vec_set1     vdupq_n_f32
#define vec_load     vld1q_f32
#define vec_store    vst1q_f32
#define vec_add      vaddq_f32
#define vec_sub      vsubq_f32
#define vec_mul      vmulq_f32
#define vec_div      vdivq_f32
#define vec_max      vmaxnmq_f32
#define vec_exp      neon_exp
#define vec_tanh     neon_tanh
#define vec_max_lane vmaxnmvq_f32
#define vec_sum16    neon_sum16

INLINE vec vec_fma(vec x, vec y, vec sum) {
    return vfmaq_f32(sum, x, y);
}

INLINE vec widen(uint16x4_t h, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}

INLINE vec vec_load_as(const char *row, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F32) return vld1q_f32((const float *)(const void *)row);
    return widen(vld1_u16((const uint16_t *)(const void *)row), dtype);
}

INLINE void transpose_floats(const char *const *rows, size_t at, vec *out) {
    float32x4_t r[4], t[4];
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = vld1q_f32((const float *)(const void *)(rows[i] + at));
    }
    t[0] = vzip1q_f32(r[0], r[2]);
    t[1] = vzip2q_f32(r[0], r[2]);
    t[2] = vzip1q_f32(r[1], r[3]);
    t[3] = vzip2q_f32(r[1], r[3]);
    out[0] = vzip1q_f32(t[0], t[2]);
    out[1] = vzip2q_f32(t[0], t[2]);
    out[2] = vzip1q_f32(t[1], t[3]);
    out[3] = vzip2q_f32(t[1], t[3]);
}

INLINE void vec_transpose(const char *const *rows, size_t at, enum dtype dtype, vec *out) {
    uint16x8_t r[4], t[4], u[4];
    if (dtype == RADISH_DTYPE_F32) {
        transpose_floats(rows, at, out);
        return;
    }
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = vld1q_u16((const uint16_t *)(const void *)(rows[i] + at));
    }
    t[0] = vzip1q_u16(r[0], r[2]);
    t[1] = vzip2q_u16(r[0], r[2]);
    t[2] = vzip1q_u16(r[1], r[3]);
    t[3] = vzip2q_u16(r[1], r[3]);
    u[0] = vzip1q_u16(t[0], t[2]);
    u[1] = vzip2q_u16(t[0], t[2]);
    u[2] = vzip1q_u16(t[1], t[3]);
    u[3] = vzip2q_u16(t[1], t[3]);
    UNROLL for (int i = 0; i < 4; i++) {
        out[2 * i] = widen(vget_low_u16(u[i]), dtype);
        out[2 * i + 1] = widen(vget_high_u16(u[i]), dtype);
    }
}

INLINE vec vec_keep(vec x, uint32_t key, uint32_t first, uint32_t end, vec other) {
    const uint32x4_t lanes = vaddq_u32(vdupq_n_u32(key), neon_lane_numbers());
    const uint32x4_t is_inside =
        vandq_u32(vcgeq_u32(lanes, vdupq_n_u32(first)), vcltq_u32(lanes, vdupq_n_u32(end)));
    return vbslq_f32(is_inside, x, other);
}

#include "lanes_attention.h"

void f32_f32_attention__neon(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F32);
}

void f16_f32_attention__neon(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_F16);
}

void bf16_f32_attention__neon(const struct attention_part *part) {
    compute_segment(part, RADISH_DTYPE_BF16);
}
