/* formulas.h - exp, tanh, SiLU and GELU in MSL by the formulas of the CPU's kernels
 * (cpu/scalar_exp.h and cpu/scalar_gelu.h say where the polynomials come from and how far they are
 * off).
 *
 * Metal promises 4 units in the last place for exp, 5 for tanh, and has no erf. With a few fma of
 * our own an element-wise operation has the CPU's error and nearly its bits, on every GPU; such
 * kernels wait for memory anyway. Where the CPU rounds x / ln 2 by adding and taking off 3 * 2^22,
 * rint does it here: a compiler that may re-associate would take that sum for nothing. */
#ifndef KERNEL_METAL_FORMULAS_H
#define KERNEL_METAL_FORMULAS_H

#include "act_args.h"

#include <metal_stdlib>

/* x below -87.25 gives 0, above 88.25 exp(88.25), NaN gives NaN. */
static float formula_exp(float x) {
    if (x < -87.25f) return 0.0f;
    if (x > 88.25f) x = 88.25f;
    const float n = metal::rint(x * 1.44269504089f);
    float r = metal::fma(n, -0.693359375f, x);
    r = metal::fma(n, 2.12194440e-4f, r);
    float p = metal::fma(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = metal::fma(p, r, 8.3334519073e-3f);
    p = metal::fma(p, r, 4.1665795894e-2f);
    p = metal::fma(p, r, 1.6666665459e-1f);
    p = metal::fma(p, r, 5.0000001201e-1f);
    p = metal::fma(p, r * r, r) + 1.0f;
    return p * as_type<float>((int(n) + 127) << 23);
}

static float formula_tanh(float x) {
    if (metal::fabs(x) < 0.625f) {
        const float z = x * x;
        float p = metal::fma(-5.70498872745e-3f, z, 2.06390887954e-2f);
        p = metal::fma(p, z, -5.37397155531e-2f);
        p = metal::fma(p, z, 1.33314422036e-1f);
        p = metal::fma(p, z, -3.33332819422e-1f);
        return metal::fma(p * z, x, x);
    }
    return 1.0f - 2.0f / (formula_exp(x + x) + 1.0f);
}

static float formula_silu(float x) {
    return x / (1.0f + formula_exp(-x));
}

static float formula_gelu(float x) {
    const float z = metal::fabs(x) * 0.70710678119f;
    const float u = 1.0f / metal::fma(z, 0.3f, 1.0f);
    float p = metal::fma(-1.29457861e-1f, u, 4.85221475e-1f);
    p = metal::fma(p, u, -5.11508524e-1f);
    p = metal::fma(p, u, 5.46750903e-1f);
    p = metal::fma(p, u, -9.39054266e-2f);
    p = metal::fma(p, u, 2.14568198e-1f);
    p = metal::fma(p, u, 1.48443788e-1f);
    p = metal::fma(p, u, 1.70698240e-1f);
    p = metal::fma(p, u, 1.69189185e-1f);
    const float tail = p * u * formula_exp(-(z * z));
    return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
}

static float formula_gelu_tanh(float x) {
    return x / (1.0f + formula_exp(x * metal::fma(-0.07135481283f, x * x, -1.59576912161f)));
}

/* By enum activation of kernel_args.h. */
static float formula_activation(uint kind, float x) {
    switch (kind) {
    case ACT_GELU: return formula_gelu(x);
    case ACT_GELU_TANH: return formula_gelu_tanh(x);
    case ACT_RELU2: return x < 0.0f ? 0.0f : x * x;
    default: return formula_silu(x);
    }
}

#endif
