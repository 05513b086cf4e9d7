/* scalar_exp.h - exp and tanh as every CPU kernel computes them: one sequence of fma, the same in
 * scalar and vector form, never libm (whose last bit differs from version to version).
 *
 * exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in two pieces, exp(r) by a polynomial
 * of degree 6 on [-ln2/2, ln2/2]; error below 2 units in the last place. x < EXP_LOW gives 0, x >
 * EXP_HIGH gives exp(EXP_HIGH), NaN gives NaN. avx2_exp.h and avx512_exp.h repeat it lane by lane.
 */
#ifndef KERNEL_CPU_SCALAR_EXP_H
#define KERNEL_CPU_SCALAR_EXP_H

#include <math.h>
#include <stdint.h>

#define EXP_LOW    (-87.25f)
#define EXP_HIGH   88.25f
#define EXP_LOG2E  1.44269504089f
#define EXP_MAGIC  12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
#define EXP_LN2_HI 0.693359375f
#define EXP_LN2_LO (-2.12194440e-4f)
#define EXP_C6     1.9875691500e-4f
#define EXP_C5     1.3981999507e-3f
#define EXP_C4     8.3334519073e-3f
#define EXP_C3     4.1665795894e-2f
#define EXP_C2     1.6666665459e-1f
#define EXP_C1     5.0000001201e-1f

#define TANH_SMALL 0.625f
#define TANH_C4    (-5.70498872745e-3f)
#define TANH_C3    2.06390887954e-2f
#define TANH_C2    (-5.37397155531e-2f)
#define TANH_C1    1.33314422036e-1f
#define TANH_C0    (-3.33332819422e-1f)

static inline float scalar_exp(float x) {
    if (x < EXP_LOW) return 0.0f;
    if (x > EXP_HIGH) x = EXP_HIGH;
    union {
        float f;
        uint32_t u;
    } shifted, power;
    shifted.f = fmaf(x, EXP_LOG2E, EXP_MAGIC);
    const float n = shifted.f - EXP_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = fmaf(EXP_C6, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, EXP_C1);
    p = fmaf(p, r * r, r) + 1.0f;
    power.u = (shifted.u + 127) << 23;
    return p * power.f;
}

/* x + x^3 P(x^2) where |x| < TANH_SMALL, which keeps small arguments to their last bits; else
 * 1 - 2 / (exp(2x) + 1). Error below 3 units in the last place; NaN gives NaN. */
static inline float scalar_tanh(float x) {
    if (fabsf(x) < TANH_SMALL) {
        const float z = x * x;
        float p = fmaf(TANH_C4, z, TANH_C3);
        p = fmaf(p, z, TANH_C2);
        p = fmaf(p, z, TANH_C1);
        p = fmaf(p, z, TANH_C0);
        return fmaf(p * z, x, x);
    }
    return 1.0f - 2.0f / (scalar_exp(x + x) + 1.0f);
}

static inline float scalar_silu(float x) {
    return x / (1.0f + scalar_exp(-x));
}

/* Adds 16 partial sums: halves first, in the order that halving a vector gives. */
static inline float scalar_sum16(float s[16]) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}

#endif
