/* ref_act.c - the row operations of families beyond llama's, in plain C: layernorm, activate and
 * soft_cap. The specification of their bits; where a vector variant exists it must equal them.
 *
 *   layernorm  y[r, i] = (x[r, i] - m) / sqrt(mean_i((x[r, i] - m)^2) + eps) * w[i] + bias[i]
 *   activate   out[r, i] = act(x[r, i]) * up[r, i]
 *   soft_cap   x[r, i] = cap * tanh(x[r, i] / cap)
 *
 * Both means of layernorm use 16 partial sums, as rmsnorm does. The variance is summed from the
 * differences, in a second pass over a row that lies in the cache: the one-pass formula
 * mean(x^2) - m^2 loses what the mean is larger than the spread by, and some families have such
 * rows. The cost is one more read of a few kilobytes. */
#include "cpu_kernel.h"
#include "scalar_gelu.h"

void f32_layernorm__ref(const struct layernorm_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->x_stride;
        float *y = a->y + (size_t)r * a->y_stride;
        float sums[16] = {0}, squares[16] = {0};
        for (uint32_t i = 0; i < a->width; i++) sums[i % 16] += x[i];
        const float mean = scalar_sum16(sums) / (float)a->width;
        for (uint32_t i = 0; i < a->width; i++) {
            const float d = x[i] - mean;
            squares[i % 16] = fmaf(d, d, squares[i % 16]);
        }
        const float inverse = 1.0f / sqrtf(scalar_sum16(squares) / (float)a->width + a->eps);
        for (uint32_t i = 0; i < a->width; i++) {
            const float normed = (x[i] - mean) * inverse * a->w[i];
            y[i] = a->bias ? normed + a->bias[i] : normed;
        }
    }
}

static float apply(int32_t kind, float x) {
    switch (kind) {
    case ACTIVATION_GELU: return scalar_gelu(x);
    case ACTIVATION_GELU_TANH: return scalar_gelu_tanh(x);
    case ACTIVATION_RELU2: return x < 0 ? 0 : x * x;
    default: return scalar_silu(x);
    }
}

void f32_activate__ref(const struct activate_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->in_stride;
        const float *up = a->up ? a->up + (size_t)r * a->in_stride : NULL;
        float *out = a->out + (size_t)r * a->out_stride;
        for (uint32_t i = 0; i < a->width; i++) {
            const float y = apply(a->kind, x[i]);
            out[i] = up ? y * up[i] : y;
        }
    }
}

void f32_soft_cap__ref(const struct soft_cap_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        float *x = a->x + (size_t)r * a->stride;
        for (uint32_t i = 0; i < a->width; i++) x[i] = a->cap * scalar_tanh(x[i] / a->cap);
    }
}
