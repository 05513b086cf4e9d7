/* avx2_rows.c - rmsnorm and silu_mul on 8 lanes, with the bits of ref_rows.c.
 *
 * rmsnorm: 16 partial sums are two vectors; a tail is loaded masked, its missing lanes add a square
 * of zero, which changes nothing. silu_mul: avx2_exp.h. Tails use the same vector code under a
 * mask, never a scalar loop. Both run at the speed of the caches. */
#include "avx2_exp.h"
#include "cpu_kernel.h"

static inline __m256 load_tail(const float *x, uint32_t n) {
    return _mm256_maskload_ps(x, avx2_mask(n));
}

static float sum_squares(const float *x, uint32_t width) {
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    uint32_t i = 0;
    for (; width - i >= 16; i += 16) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    const __m256 a = load_tail(x + i, width - i);
    low = _mm256_fmadd_ps(a, a, low);
    if (width - i > 8) {
        const __m256 b = load_tail(x + i + 8, width - i - 8);
        high = _mm256_fmadd_ps(b, b, high);
    }
    return avx2_sum16(low, high);
}

void f32_rmsnorm__avx2(const struct rmsnorm_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->x_stride;
        float *y = a->y + (size_t)r * a->y_stride;
        const float mean = sum_squares(x, a->width) / (float)a->width;
        const __m256 inverse = _mm256_set1_ps(1.0f / sqrtf(mean + a->eps));
        uint32_t i = 0;
        for (; a->width - i >= 8; i += 8) {
            const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), inverse);
            __m256 normed = _mm256_mul_ps(scaled, _mm256_loadu_ps(a->w + i));
            if (a->accumulate) normed = _mm256_add_ps(_mm256_loadu_ps(y + i), normed);
            _mm256_storeu_ps(y + i, normed);
        }
        if (i == a->width) continue;
        const __m256i mask = avx2_mask(a->width - i);
        const __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), inverse);
        __m256 normed = _mm256_mul_ps(scaled, _mm256_maskload_ps(a->w + i, mask));
        if (a->accumulate) normed = _mm256_add_ps(_mm256_maskload_ps(y + i, mask), normed);
        _mm256_maskstore_ps(y + i, mask, normed);
    }
}

static inline __m256 silu_mul(__m256 gate, __m256 up) {
    const __m256 e = avx2_exp(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}

void f32_silu_mul__avx2(const struct silu_mul_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *gate = a->gate + (size_t)r * a->in_stride;
        const float *up = a->up + (size_t)r * a->in_stride;
        float *out = a->out + (size_t)r * a->out_stride;
        uint32_t i = 0;
        for (; a->width - i >= 8; i += 8)
            _mm256_storeu_ps(out + i, silu_mul(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
        if (i == a->width) continue;
        const __m256i mask = avx2_mask(a->width - i);
        _mm256_maskstore_ps(
            out + i, mask,
            silu_mul(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask)));
    }
}
