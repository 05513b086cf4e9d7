/* scalar_gelu.h - GELU in both forms as every CPU kernel computes it: one sequence of fma, the same
 * in scalar and vector form, never libm.
 *
 * GELU: x / 2 * (1 + erf(x / sqrt 2)) = x / 2 * erfc(-x / sqrt 2). For z = |x| / sqrt 2 we use
 * erfc(z) = exp(-z^2) * u * P(u), u = 1 / (1 + 0.3 z), P of degree 8, fitted (minimax of the
 * relative error on z in [0, 9.6], by reweighted least squares in double): 2e-8. So negative x need
 * no difference of nearly equal numbers, and nothing branches.
 *
 * Its tanh form: x / 2 * (1 + tanh(y)) = x / (1 + exp(-2 y)), y = sqrt(2 / pi) (x + 0.044715 x^3).
 * lanes_rows.h repeats both lane by lane. */
#ifndef KERNEL_CPU_SCALAR_GELU_H
#define KERNEL_CPU_SCALAR_GELU_H

#include "scalar_exp.h"

#define GELU_SQRT_HALF 0.70710678119f
#define GELU_U         0.3f
#define GELU_C8        (-1.29457861e-1f)
#define GELU_C7        4.85221475e-1f
#define GELU_C6        (-5.11508524e-1f)
#define GELU_C5        5.46750903e-1f
#define GELU_C4        (-9.39054266e-2f)
#define GELU_C3        2.14568198e-1f
#define GELU_C2        1.48443788e-1f
#define GELU_C1        1.70698240e-1f
#define GELU_C0        1.69189185e-1f
#define GELU_TANH_A    (-1.59576912161f) /* -2 sqrt(2 / pi) */
#define GELU_TANH_B    (-0.07135481283f) /* that times 0.044715 */

static inline float scalar_gelu(float x) {
    const float z = fabsf(x) * GELU_SQRT_HALF;
    const float u = 1.0f / fmaf(z, GELU_U, 1.0f);
    float p = fmaf(GELU_C8, u, GELU_C7);
    p = fmaf(p, u, GELU_C6);
    p = fmaf(p, u, GELU_C5);
    p = fmaf(p, u, GELU_C4);
    p = fmaf(p, u, GELU_C3);
    p = fmaf(p, u, GELU_C2);
    p = fmaf(p, u, GELU_C1);
    p = fmaf(p, u, GELU_C0);
    const float tail = p * u * scalar_exp(-(z * z));
    return 0.5f * x * (x < 0 ? tail : 2.0f - tail);
}

static inline float scalar_gelu_tanh(float x) {
    return x / (1.0f + scalar_exp(x * fmaf(GELU_TANH_B, x * x, GELU_TANH_A)));
}

#endif
