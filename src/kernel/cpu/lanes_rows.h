/* lanes_rows.h - rmsnorm, layernorm, silu_mul, activate and soft_cap on vectors of any width, with
 * the bits of ref_rows.c and ref_act.c. Included by avx2_rows.c and avx512_rows.c, which define
 *
 *   LANES, vec                    floats in a vector (a divisor of 16), and its type
 *   vec_set1, vec_load, vec_store, vec_add, vec_sub, vec_mul, vec_div, vec_exp, vec_tanh
 *   vec_fma(x, y, z), vec_max(x, y)       x * y + z; y where one of the two is no number
 *   vec_abs(x), vec_neg(x), vec_where_negative(x, y, z)   y in the lanes where x < 0, else z
 *   vec_load_n(p, n), vec_store_n(p, n, x)
 *                                 the first n lanes, all of them where n is more; the others are
 *                                 zero, or left alone
 *   vec_keep_n(x, n)              zeros in the lanes from n on
 *   vec_sum16(sums)               scalar_sum16() of 16 / LANES vectors
 *
 * Norms: the 16 partial sums of a row are 16 / LANES vectors, each a chain of one FMA or addition
 * per 16 elements: a row alone waits for its chain, 64 times 4 cycles at 1,024 elements, and no
 * order of additions that keeps the bits makes that shorter. So four rows are summed side by side,
 * where there are four. Tails use the same vector code under a mask, never a scalar loop: a missing
 * lane adds zero to a sum that began as +0, which changes nothing.
 *
 * Element-wise operations: exp is 14 operations a vector, and a division more; the row is a stream
 * of independent vectors. All of these run from the caches, where a model finds its activations. */
#ifndef KERNEL_CPU_LANES_ROWS_H
#define KERNEL_CPU_LANES_ROWS_H

#include "cpu_kernel.h"
#include "scalar_gelu.h"
#include "tile_loops.h"

enum { PARTS = 16 / LANES, ROWS_AT_ONCE = 4 };

/* ---- norms ---- */

/* The vector at x, of which the first n lanes count (is_tail), less the mean where there is one. */
INLINE vec load_term(const float *x, uint32_t n, const bool is_tail, const vec *mean) {
    vec v = is_tail ? vec_load_n(x, n) : vec_load(x);
    if (!mean) return v;
    v = vec_sub(v, *mean);
    return is_tail ? vec_keep_n(v, n) : v;
}

/* Per row the sum of the squares of x, or of x - mean where there are means. */
INLINE void sum_squares(const float *const *x, const int n_rows, uint32_t width, const vec *means,
                        float *sums_out) {
    vec sums[ROWS_AT_ONCE][PARTS];
    uint32_t i = 0;
    UNROLL for (int r = 0; r < n_rows; r++) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            sums[r][p] = vec_set1(0.0f);
        }
    }
    for (; width - i >= 16; i += 16) {
        UNROLL for (int r = 0; r < n_rows; r++) {
            UNROLL for (int p = 0; p < PARTS; p++) {
                const vec v = load_term(x[r] + i + p * LANES, 0, false, means ? means + r : NULL);
                sums[r][p] = vec_fma(v, v, sums[r][p]);
            }
        }
    }
    UNROLL for (int p = 0; p < PARTS; p++, i += LANES) {
        UNROLL for (int r = 0; r < n_rows && i < width; r++) {
            const vec v = load_term(x[r] + i, width - i, true, means ? means + r : NULL);
            sums[r][p] = vec_fma(v, v, sums[r][p]);
        }
    }
    UNROLL for (int r = 0; r < n_rows; r++) {
        sums_out[r] = vec_sum16(sums[r]);
    }
}

/* Per row the sum of x. */
INLINE void sum_elements(const float *const *x, const int n_rows, uint32_t width, float *sums_out) {
    vec sums[ROWS_AT_ONCE][PARTS];
    uint32_t i = 0;
    UNROLL for (int r = 0; r < n_rows; r++) {
        UNROLL for (int p = 0; p < PARTS; p++) {
            sums[r][p] = vec_set1(0.0f);
        }
    }
    for (; width - i >= 16; i += 16) {
        UNROLL for (int r = 0; r < n_rows; r++) {
            UNROLL for (int p = 0; p < PARTS; p++) {
                sums[r][p] = vec_add(sums[r][p], vec_load(x[r] + i + p * LANES));
            }
        }
    }
    UNROLL for (int p = 0; p < PARTS; p++, i += LANES) {
        UNROLL for (int r = 0; r < n_rows && i < width; r++) {
            sums[r][p] = vec_add(sums[r][p], vec_load_n(x[r] + i, width - i));
        }
    }
    UNROLL for (int r = 0; r < n_rows; r++) {
        sums_out[r] = vec_sum16(sums[r]);
    }
}

INLINE vec norm_root(vec x, vec inverse, vec w) {
    return vec_mul(vec_mul(x, inverse), w);
}

INLINE void finish_rmsnorm(const struct rmsnorm_args *a, uint32_t row, float sum) {
    const float *x = a->x + (size_t)row * a->x_stride;
    float *y = a->y + (size_t)row * a->y_stride;
    const vec inverse = vec_set1(1.0f / sqrtf(sum / (float)a->width + a->eps));
    uint32_t i = 0;
    for (; a->width - i >= LANES; i += LANES) {
        const vec normed = norm_root(vec_load(x + i), inverse, vec_load(a->w + i));
        vec_store(y + i, a->accumulate ? vec_add(vec_load(y + i), normed) : normed);
    }
    if (i == a->width) return;
    const uint32_t n = a->width - i;
    const vec normed = norm_root(vec_load_n(x + i, n), inverse, vec_load_n(a->w + i, n));
    vec_store_n(y + i, n, a->accumulate ? vec_add(vec_load_n(y + i, n), normed) : normed);
}

INLINE void run_rmsnorm(const struct rmsnorm_args *a, uint32_t row, const int n_rows) {
    const float *x[ROWS_AT_ONCE];
    float sums[ROWS_AT_ONCE];
    for (int r = 0; r < n_rows; r++) x[r] = a->x + (size_t)(row + (uint32_t)r) * a->x_stride;
    sum_squares(x, n_rows, a->width, NULL, sums);
    for (int r = 0; r < n_rows; r++) finish_rmsnorm(a, row + (uint32_t)r, sums[r]);
}

INLINE void run_rmsnorms(const struct rmsnorm_args *a, uint32_t first, uint32_t end) {
    for (; end - first >= ROWS_AT_ONCE; first += ROWS_AT_ONCE) run_rmsnorm(a, first, ROWS_AT_ONCE);
    for (; first < end; first++) run_rmsnorm(a, first, 1);
}

INLINE vec norm_centred(vec x, vec mean, vec inverse, vec w) {
    return vec_mul(vec_mul(vec_sub(x, mean), inverse), w);
}

INLINE void finish_layernorm(const struct layernorm_args *a, uint32_t row, vec mean, float sum) {
    const float *x = a->x + (size_t)row * a->x_stride;
    float *y = a->y + (size_t)row * a->y_stride;
    const vec inverse = vec_set1(1.0f / sqrtf(sum / (float)a->width + a->eps));
    uint32_t i = 0;
    for (; a->width - i >= LANES; i += LANES) {
        const vec normed = norm_centred(vec_load(x + i), mean, inverse, vec_load(a->w + i));
        vec_store(y + i, a->bias ? vec_add(normed, vec_load(a->bias + i)) : normed);
    }
    if (i == a->width) return;
    const uint32_t n = a->width - i;
    const vec normed = norm_centred(vec_load_n(x + i, n), mean, inverse, vec_load_n(a->w + i, n));
    vec_store_n(y + i, n, a->bias ? vec_add(normed, vec_load_n(a->bias + i, n)) : normed);
}

INLINE void run_layernorm(const struct layernorm_args *a, uint32_t row, const int n_rows) {
    const float *x[ROWS_AT_ONCE];
    float sums[ROWS_AT_ONCE];
    vec means[ROWS_AT_ONCE];
    for (int r = 0; r < n_rows; r++) x[r] = a->x + (size_t)(row + (uint32_t)r) * a->x_stride;
    sum_elements(x, n_rows, a->width, sums);
    UNROLL for (int r = 0; r < n_rows; r++) {
        means[r] = vec_set1(sums[r] / (float)a->width);
    }
    sum_squares(x, n_rows, a->width, means, sums);
    UNROLL for (int r = 0; r < n_rows; r++) {
        finish_layernorm(a, row + (uint32_t)r, means[r], sums[r]);
    }
}

INLINE void run_layernorms(const struct layernorm_args *a, uint32_t first, uint32_t end) {
    for (; end - first >= ROWS_AT_ONCE; first += ROWS_AT_ONCE)
        run_layernorm(a, first, ROWS_AT_ONCE);
    for (; first < end; first++) run_layernorm(a, first, 1);
}

/* ---- activations ---- */

INLINE vec silu(vec x) {
    return vec_div(x, vec_add(vec_set1(1.0f), vec_exp(vec_neg(x))));
}

/* scalar_gelu() and scalar_gelu_tanh(), operation by operation. */
INLINE vec gelu(vec x) {
    const vec one = vec_set1(1.0f);
    const vec z = vec_mul(vec_abs(x), vec_set1(GELU_SQRT_HALF));
    const vec u = vec_div(one, vec_fma(z, vec_set1(GELU_U), one));
    vec p = vec_fma(vec_set1(GELU_C8), u, vec_set1(GELU_C7));
    p = vec_fma(p, u, vec_set1(GELU_C6));
    p = vec_fma(p, u, vec_set1(GELU_C5));
    p = vec_fma(p, u, vec_set1(GELU_C4));
    p = vec_fma(p, u, vec_set1(GELU_C3));
    p = vec_fma(p, u, vec_set1(GELU_C2));
    p = vec_fma(p, u, vec_set1(GELU_C1));
    p = vec_fma(p, u, vec_set1(GELU_C0));
    const vec tail = vec_mul(vec_mul(p, u), vec_exp(vec_neg(vec_mul(z, z))));
    const vec part = vec_where_negative(x, tail, vec_sub(vec_set1(2.0f), tail));
    return vec_mul(vec_mul(vec_set1(0.5f), x), part);
}

INLINE vec gelu_tanh(vec x) {
    const vec slope = vec_fma(vec_set1(GELU_TANH_B), vec_mul(x, x), vec_set1(GELU_TANH_A));
    return vec_div(x, vec_add(vec_set1(1.0f), vec_exp(vec_mul(x, slope))));
}

INLINE vec relu2(vec x) {
    x = vec_max(vec_set1(0.0f), x);
    return vec_mul(x, x);
}

/* out = act(x) * up, or act(x) without up. */
INLINE void run_row(const float *x, const float *up, float *out, uint32_t width, vec (*act)(vec)) {
    uint32_t i = 0;
    for (; width - i >= LANES; i += LANES) {
        const vec y = act(vec_load(x + i));
        vec_store(out + i, up ? vec_mul(y, vec_load(up + i)) : y);
    }
    if (i == width) return;
    const uint32_t n = width - i;
    const vec y = act(vec_load_n(x + i, n));
    vec_store_n(out + i, n, up ? vec_mul(y, vec_load_n(up + i, n)) : y);
}

INLINE void run_silu_mul(const struct silu_mul_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++)
        run_row(a->gate + (size_t)r * a->in_stride, a->up + (size_t)r * a->in_stride,
                a->out + (size_t)r * a->out_stride, a->width, silu);
}

INLINE void run_activate(const struct activate_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->in_stride;
        const float *up = a->up ? a->up + (size_t)r * a->in_stride : NULL;
        float *out = a->out + (size_t)r * a->out_stride;
        switch (a->kind) {
        case ACTIVATION_GELU: run_row(x, up, out, a->width, gelu); break;
        case ACTIVATION_GELU_TANH: run_row(x, up, out, a->width, gelu_tanh); break;
        case ACTIVATION_RELU2: run_row(x, up, out, a->width, relu2); break;
        default: run_row(x, up, out, a->width, silu); break;
        }
    }
}

INLINE void run_soft_cap(const struct soft_cap_args *a, uint32_t first, uint32_t end) {
    const vec cap = vec_set1(a->cap);
    for (uint32_t r = first; r < end; r++) {
        float *x = a->x + (size_t)r * a->stride;
        uint32_t i = 0;
        for (; a->width - i >= LANES; i += LANES)
            vec_store(x + i, vec_mul(cap, vec_tanh(vec_div(vec_load(x + i), cap))));
        if (i == a->width) continue;
        const uint32_t n = a->width - i;
        vec_store_n(x + i, n, vec_mul(cap, vec_tanh(vec_div(vec_load_n(x + i, n), cap))));
    }
}

#endif
