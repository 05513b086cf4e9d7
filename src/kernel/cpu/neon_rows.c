/* neon_rows.c - the operations that work row by row, on four lanes: the algorithms are in
 * lanes_rows.h, this file says what a vector is.
 *
 * The 16 partial sums of a norm are four vectors. There are no masked loads: a tail goes through
 * four floats on the stack and then takes the same vector code (neon_vec.h). */
#include "neon_exp.h"

enum { LANES = 4 };
typedef float32x4_t vec;

#define vec_set1    vdupq_n_f32
#define vec_load    vld1q_f32
#define vec_store   vst1q_f32
#define vec_add     vaddq_f32
#define vec_sub     vsubq_f32
#define vec_mul     vmulq_f32
#define vec_div     vdivq_f32
#define vec_max     vmaxq_f32 /* no number where one of the two is none */
#define vec_exp     neon_exp
#define vec_tanh    neon_tanh
#define vec_abs     vabsq_f32
#define vec_neg     vnegq_f32
#define vec_load_n  neon_load_n
#define vec_store_n neon_store_n
#define vec_sum16   neon_sum16

INLINE vec vec_fma(vec x, vec y, vec sum) {
    return vfmaq_f32(sum, x, y);
}

INLINE vec vec_where_negative(vec x, vec y, vec z) {
    return vbslq_f32(vcltzq_f32(x), y, z);
}

INLINE vec vec_keep_n(vec x, uint32_t n) {
    const uint32x4_t is_inside = vcltq_u32(neon_lane_numbers(), vdupq_n_u32(n));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), is_inside));
}

#include "lanes_rows.h"

void f32_rmsnorm__neon(const struct rmsnorm_args *args, uint32_t first, uint32_t end) {
    run_rmsnorms(args, first, end);
}

void f32_layernorm__neon(const struct layernorm_args *args, uint32_t first, uint32_t end) {
    run_layernorms(args, first, end);
}

void f32_silu_mul__neon(const struct silu_mul_args *args, uint32_t first, uint32_t end) {
    run_silu_mul(args, first, end);
}

void f32_activate__neon(const struct activate_args *args, uint32_t first, uint32_t end) {
    run_activate(args, first, end);
}

void f32_soft_cap__neon(const struct soft_cap_args *args, uint32_t first, uint32_t end) {
    run_soft_cap(args, first, end);
}
