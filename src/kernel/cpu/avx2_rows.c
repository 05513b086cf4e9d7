/* avx2_rows.c - the operations that work row by row, on 8 lanes: the algorithms are in
 * lanes_rows.h, this file says what a vector is.
 *
 * The 16 partial sums of a norm are two vectors. VMASKMOVPS loads and stores tails: it touches no
 * memory under a zero of its mask, so a row may end where a page does. */
#include "avx2_vec.h"

INLINE vec vec_abs(vec x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

INLINE vec vec_neg(vec x) {
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

INLINE vec vec_where_negative(vec x, vec y, vec z) {
    return _mm256_blendv_ps(z, y, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}

INLINE vec vec_load_n(const float *p, uint32_t n) {
    return _mm256_maskload_ps(p, avx2_mask(n));
}

INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    _mm256_maskstore_ps(p, avx2_mask(n), x);
}

INLINE vec vec_keep_n(vec x, uint32_t n) {
    return _mm256_and_ps(x, _mm256_castsi256_ps(avx2_mask(n)));
}

INLINE float vec_sum16(const vec *sums) {
    return avx2_sum16(sums[0], sums[1]);
}

#include "lanes_rows.h"

void f32_rmsnorm__avx2(const struct rmsnorm_args *args, uint32_t first, uint32_t end) {
    run_rmsnorms(args, first, end);
}

void f32_layernorm__avx2(const struct layernorm_args *args, uint32_t first, uint32_t end) {
    run_layernorms(args, first, end);
}

void f32_silu_mul__avx2(const struct silu_mul_args *args, uint32_t first, uint32_t end) {
    run_silu_mul(args, first, end);
}

void f32_activate__avx2(const struct activate_args *args, uint32_t first, uint32_t end) {
    run_activate(args, first, end);
}

void f32_soft_cap__avx2(const struct soft_cap_args *args, uint32_t first, uint32_t end) {
    run_soft_cap(args, first, end);
}
