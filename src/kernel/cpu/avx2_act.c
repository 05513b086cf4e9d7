/* avx2_act.c - layernorm, activate and soft_cap on 8 lanes, with the bits of ref_act.c.
 *
 * layernorm: 16 partial sums are two vectors; a tail is loaded masked, and its missing lanes are
 * cleared again once the mean is subtracted, so that they add a square of zero. activate: one loop
 * per function, written once and inlined with the function fixed. Tails use the same vector code
 * under a mask, never a scalar loop. All run at the speed of the caches. */
#include "avx2_gelu.h"
#include "cpu_kernel.h"

static inline __m256 load_tail(const float *x, uint32_t n) {
    return _mm256_maskload_ps(x, avx2_mask(n));
}

static float sum_row(const float *x, uint32_t width) {
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; width - i >= 16; i += 16) {
        low = _mm256_add_ps(low, _mm256_loadu_ps(x + i));
        high = _mm256_add_ps(high, _mm256_loadu_ps(x + i + 8));
    }
    low = _mm256_add_ps(low, load_tail(x + i, width - i));
    if (width - i > 8) high = _mm256_add_ps(high, load_tail(x + i + 8, width - i - 8));
    return avx2_sum16(low, high);
}

/* Differences of the first n elements to the mean, zero in the other lanes. */
static inline __m256 centre_tail(const float *x, uint32_t n, __m256 mean) {
    const __m256i mask = avx2_mask(n);
    return _mm256_and_ps(_mm256_sub_ps(_mm256_maskload_ps(x, mask), mean),
                         _mm256_castsi256_ps(mask));
}

static float sum_squares(const float *x, uint32_t width, __m256 mean) {
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; width - i >= 16; i += 16) {
        const __m256 a = _mm256_sub_ps(_mm256_loadu_ps(x + i), mean);
        const __m256 b = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8), mean);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    const __m256 a = centre_tail(x + i, width - i, mean);
    low = _mm256_fmadd_ps(a, a, low);
    if (width - i > 8) {
        const __m256 b = centre_tail(x + i + 8, width - i - 8, mean);
        high = _mm256_fmadd_ps(b, b, high);
    }
    return avx2_sum16(low, high);
}

void f32_layernorm__avx2(const struct layernorm_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->x_stride;
        float *y = a->y + (size_t)r * a->y_stride;
        const __m256 mean = _mm256_set1_ps(sum_row(x, a->width) / (float)a->width);
        const float variance = sum_squares(x, a->width, mean) / (float)a->width;
        const __m256 inverse = _mm256_set1_ps(1.0f / sqrtf(variance + a->eps));
        uint32_t i = 0;
        for (; a->width - i >= 8; i += 8) {
            const __m256 centred = _mm256_sub_ps(_mm256_loadu_ps(x + i), mean);
            __m256 normed =
                _mm256_mul_ps(_mm256_mul_ps(centred, inverse), _mm256_loadu_ps(a->w + i));
            if (a->bias) normed = _mm256_add_ps(normed, _mm256_loadu_ps(a->bias + i));
            _mm256_storeu_ps(y + i, normed);
        }
        if (i == a->width) continue;
        const __m256i mask = avx2_mask(a->width - i);
        const __m256 centred = _mm256_sub_ps(_mm256_maskload_ps(x + i, mask), mean);
        __m256 normed =
            _mm256_mul_ps(_mm256_mul_ps(centred, inverse), _mm256_maskload_ps(a->w + i, mask));
        if (a->bias) normed = _mm256_add_ps(normed, _mm256_maskload_ps(a->bias + i, mask));
        _mm256_maskstore_ps(y + i, mask, normed);
    }
}

static inline __m256 silu(__m256 x) {
    const __m256 e = avx2_exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

static inline __m256 relu2(__m256 x) {
    x = _mm256_max_ps(_mm256_setzero_ps(), x); /* its second operand where x is no number */
    return _mm256_mul_ps(x, x);
}

static inline __attribute__((always_inline)) void run_row(const float *x, const float *up,
                                                          float *out, uint32_t width,
                                                          __m256 (*act)(__m256)) {
    uint32_t i = 0;
    for (; width - i >= 8; i += 8) {
        __m256 y = act(_mm256_loadu_ps(x + i));
        if (up) y = _mm256_mul_ps(y, _mm256_loadu_ps(up + i));
        _mm256_storeu_ps(out + i, y);
    }
    if (i == width) return;
    const __m256i mask = avx2_mask(width - i);
    __m256 y = act(_mm256_maskload_ps(x + i, mask));
    if (up) y = _mm256_mul_ps(y, _mm256_maskload_ps(up + i, mask));
    _mm256_maskstore_ps(out + i, mask, y);
}

void f32_activate__avx2(const struct activate_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->in_stride;
        const float *up = a->up ? a->up + (size_t)r * a->in_stride : NULL;
        float *out = a->out + (size_t)r * a->out_stride;
        switch (a->kind) {
        case ACTIVATION_GELU: run_row(x, up, out, a->width, avx2_gelu); break;
        case ACTIVATION_GELU_TANH: run_row(x, up, out, a->width, avx2_gelu_tanh); break;
        case ACTIVATION_RELU2: run_row(x, up, out, a->width, relu2); break;
        default: run_row(x, up, out, a->width, silu); break;
        }
    }
}

void f32_soft_cap__avx2(const struct soft_cap_args *a, uint32_t first, uint32_t end) {
    const __m256 cap = _mm256_set1_ps(a->cap);
    for (uint32_t r = first; r < end; r++) {
        float *x = a->x + (size_t)r * a->stride;
        uint32_t i = 0;
        for (; a->width - i >= 8; i += 8) {
            const __m256 scaled = _mm256_div_ps(_mm256_loadu_ps(x + i), cap);
            _mm256_storeu_ps(x + i, _mm256_mul_ps(cap, avx2_tanh(scaled)));
        }
        if (i == a->width) continue;
        const __m256i mask = avx2_mask(a->width - i);
        const __m256 scaled = _mm256_div_ps(_mm256_maskload_ps(x + i, mask), cap);
        _mm256_maskstore_ps(x + i, mask, _mm256_mul_ps(cap, avx2_tanh(scaled)));
    }
}
