/* avx512_rows.c - the operations that work row by row, on 16 lanes: the algorithms are in
 * lanes_rows.h, this file says what a vector is.
 *
 * The 16 partial sums of a norm are one vector, tails are masks. */
#include "avx512_vec.h"

#define vec_abs _mm512_abs_ps

INLINE vec vec_neg(vec x) {
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

INLINE vec vec_where_negative(vec x, vec y, vec z) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), z, y);
}

INLINE vec vec_load_n(const float *p, uint32_t n) {
    return _mm512_maskz_loadu_ps(avx512_mask(n), p);
}

INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    _mm512_mask_storeu_ps(p, avx512_mask(n), x);
}

INLINE vec vec_keep_n(vec x, uint32_t n) {
    return _mm512_maskz_mov_ps(avx512_mask(n), x);
}

INLINE float vec_sum16(const vec *sums) {
    return avx512_sum16(sums[0]);
}

#include "lanes_rows.h"

void f32_rmsnorm__avx512(const struct rmsnorm_args *args, uint32_t first, uint32_t end) {
    run_rmsnorms(args, first, end);
}

void f32_layernorm__avx512(const struct layernorm_args *args, uint32_t first, uint32_t end) {
    run_layernorms(args, first, end);
}

void f32_silu_mul__avx512(const struct silu_mul_args *args, uint32_t first, uint32_t end) {
    run_silu_mul(args, first, end);
}

void f32_activate__avx512(const struct activate_args *args, uint32_t first, uint32_t end) {
    run_activate(args, first, end);
}

void f32_soft_cap__avx512(const struct soft_cap_args *args, uint32_t first, uint32_t end) {
    run_soft_cap(args, first, end);
}
