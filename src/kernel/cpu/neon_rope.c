/* neon_rope.c - rope_kv_store on four lanes: the algorithm is in lanes_rope.h, this file says what
 * a vector is and how it is rounded to the pool's dtype.
 *
 * f16 by FCVTN, whose result is dtype_f32_to_f16() for every float. bf16 by integers, as
 * dtype_f32_to_bf16(): add half of the last place, and one more where that place is odd; NaNs get
 * their quiet bit by a select, which costs less than asking whether there are any. */
#include "cpu_kernel.h"
#include "neon_vec.h"

enum { LANES = 4 };
typedef float32x4_t vec;

#define vec_load    vld1q_f32
#define vec_store   vst1q_f32
#define vec_mul     vmulq_f32
#define vec_add     vaddq_f32
#define vec_sub     vsubq_f32
#define vec_load_n  neon_load_n
#define vec_store_n neon_store_n
#define vec_swap    vrev64q_f32

INLINE uint16x4_t to_bf16(vec x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
}

INLINE uint16x4_t to_half(vec x, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F16) return vreinterpret_u16_f16(vcvt_f16_f32(x));
    return to_bf16(x);
}

INLINE void store_one(void *pool, size_t at, enum dtype dtype, vec x) {
    if (dtype == RADISH_DTYPE_F32)
        vst1q_f32((float *)pool + at, x);
    else
        vst1_u16((uint16_t *)pool + at, to_half(x, dtype));
}

INLINE void store_two(void *pool, size_t at, enum dtype dtype, vec x, vec y) {
    if (dtype == RADISH_DTYPE_F32) {
        vst1q_f32((float *)pool + at, x);
        vst1q_f32((float *)pool + at + LANES, y);
    } else {
        vst1q_u16((uint16_t *)pool + at, vcombine_u16(to_half(x, dtype), to_half(y, dtype)));
    }
}

INLINE void store_n(void *pool, size_t at, enum dtype dtype, vec x, uint32_t n) {
    if (dtype == RADISH_DTYPE_F32) {
        vec_store_n((float *)pool + at, n, x);
        return;
    }
    uint16_t halves[LANES];
    vst1_u16(halves, to_half(x, dtype));
    memcpy((uint16_t *)pool + at, halves, n * sizeof *halves);
}

#include "lanes_rope.h"

void kv_f32_rope_kv_store__neon(const struct rope_kv_store_args *a, uint32_t first, uint32_t end) {
    find_body(a)(a, first, end);
}

/* The same loops, called for one thing at a time (cpu_rope.c). */
void kv_f32_rope_kv_store__neon_unfused(const struct rope_kv_store_args *a, uint32_t first,
                                        uint32_t end) {
    find_body(a)(a, first, end);
}
