/* quantise_k.c - Q4_K, Q5_K and Q6_K: choosing scales for groups of 32 or 16 elements, and the
 * scale of the scales.
 *
 * The format leaves the quantiser free to choose scales, and the obvious choice (the range of a
 * group over the number of steps) is not the best one: a scale a little smaller clips one outlier
 * and serves the other 31 better. So a few scales around the obvious one are tried. For each, the
 * quants are what rounding gives, and for those quants the least-squares line
 *     x ~ scale * q - minimum        (Q6_K: x ~ scale * q)
 * is known in closed form from four sums; the candidate of the smallest squared error wins. Then
 * the group scales are rounded to 6 (8) bits of the block's f16, and the quants are taken once more
 * with the scales that a reader will see.
 *
 * The error is plain: every weight counts the same. ggml weighs larger weights more; what matters
 * is the error of products with activations that the quantiser does not know, and for those that
 * have no favourite inputs this is the plain one. On random normal rows the squared error is that
 * of llama.cpp's tool within a few per cent (tests/unit/tensor/test_quantise.c holds the bounds).
 *
 * Quants and their sums are integers, sums of products go into eight lanes in a fixed order: the
 * result is the same on every machine, and compilers vectorise it. Cost: about N_TRIES passes over
 * the block, some 20 ns a weight; loading in a K type takes several times as long as in Q8_0.
 *
 * Layouts are drawn in quant_q4_k.c and quant_q6_k.c. */
#include "quantise_int.h"

#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

enum { ELEMS = 256, LANES = 8, N_TRIES = 9, MIN_GROUP = 32, SIGNED_GROUP = 16 };

/* How many steps more or fewer than the obvious number the range is cut into, at most. */
#define STEPS_LESS 0.8f
#define STEPS_MORE 0.8f

static float try_steps(float obvious, int i) {
    return obvious - STEPS_LESS + (STEPS_LESS + STEPS_MORE) * (float)i / (N_TRIES - 1);
}

/* ---- groups with a minimum: Q4_K, Q5_K ---- */

/* q = x * inverse + shift, to the nearest of 0 .. q_max. */
static void round_group(const float *x, float inverse, float shift, float q_max, int32_t *q) {
    for (int j = 0; j < MIN_GROUP; j++) {
        float scaled = x[j] * inverse + shift;
        scaled = scaled > 0 ? scaled : 0;
        scaled = scaled < q_max ? scaled : q_max;
        q[j] = (int32_t)(scaled + 0.5f);
    }
}

static double sum_products(const float *x, const int32_t *q, int n) {
    float lanes[LANES] = {0};
    for (int j = 0; j < n; j += LANES)
        for (int i = 0; i < LANES; i++) lanes[i] += x[j + i] * (float)q[j + i];
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += (double)lanes[i];
    return sum;
}

/* The line for given quants, and its squared error without the constant sum of x * x. A minimum is
 * never negative: a line that would need it goes through zero. */
static double fit_line(const float *x, const int32_t *q, double sum_x, double *scale_out,
                       double *minimum_out) {
    const double n = MIN_GROUP;
    int32_t sum_q = 0, sum_qq = 0;
    for (int j = 0; j < MIN_GROUP; j++) {
        sum_q += q[j];
        sum_qq += q[j] * q[j];
    }
    const double q1 = sum_q, q2 = sum_qq, xq = sum_products(x, q, MIN_GROUP);
    const double det = n * q2 - q1 * q1;
    double scale = 0, minimum = -sum_x / n;
    if (det > 0) {
        scale = (n * xq - q1 * sum_x) / det;
        minimum = (q1 * xq - q2 * sum_x) / det;
    }
    if (minimum < 0) {
        minimum = 0;
        scale = sum_qq ? xq / q2 : 0;
    }
    *scale_out = scale;
    *minimum_out = minimum;
    return scale * (scale * q2 - 2 * xq - 2 * minimum * q1) + minimum * (n * minimum + 2 * sum_x);
}

/* What a group gets that has no scale, or one too small for its block: one number for all. */
static float flat_minimum(const float *x) {
    float sum = 0;
    for (int j = 0; j < MIN_GROUP; j++) sum += x[j];
    return sum < 0 ? -sum / (float)MIN_GROUP : 0;
}

static void choose_line(const float *x, int q_max, float *scale_out, float *minimum_out) {
    float min = 0, max = x[0]; /* a minimum above zero cannot be said */
    double sum_x = 0, best = INFINITY;
    for (int j = 0; j < MIN_GROUP; j++) {
        min = x[j] < min ? x[j] : min;
        max = x[j] > max ? x[j] : max;
        sum_x += (double)x[j];
    }
    const float range = max - min;
    *scale_out = 0;
    *minimum_out = flat_minimum(x);
    for (int i = 0; i < N_TRIES; i++) {
        int32_t q[MIN_GROUP];
        double scale, minimum;
        const float inverse = try_steps((float)q_max, i) / range;
        if (!isfinite(inverse)) return;
        round_group(x, inverse, -min * inverse, (float)q_max, q);
        const double error = fit_line(x, q, sum_x, &scale, &minimum);
        if (!(scale >= 0) || error >= best) continue;
        best = error;
        *scale_out = (float)scale;
        *minimum_out = (float)minimum;
    }
}

static float find_largest(const float *values, int n) {
    float largest = 0;
    for (int i = 0; i < n; i++) largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* The f16 that readers will multiply with; 0 bytes and 0 where the scale is too small for one. */
static bool store_unit(float unit, uint8_t *dst, float *unit_out) {
    const bool is_stored = quantise_store_f16(unit, dst);
    *unit_out = dtype_f16_to_f32((uint16_t)(dst[0] | dst[1] << 8));
    return is_stored;
}

static uint32_t round_ratio(float value, float unit, uint32_t max) {
    const float ratio = unit > 0 ? value / unit : 0;
    return ratio < (float)max ? (uint32_t)(ratio + 0.5f) : max;
}

static void store_scales(const uint32_t *scales, const uint32_t *minimums, uint8_t *dst) {
    for (int g = 0; g < 4; g++) {
        dst[g] = (uint8_t)(scales[g] | scales[g + 4] >> 4 << 6);
        dst[g + 4] = (uint8_t)(minimums[g] | minimums[g + 4] >> 4 << 6);
        dst[g + 8] = (uint8_t)((scales[g + 4] & 15) | (minimums[g + 4] & 15) << 4);
    }
}

/* The first 16 bytes of the block, and the quants. */
static bool make_lines(const float *src, int q_max, uint8_t *dst, int32_t *q) {
    enum { N_GROUPS = ELEMS / MIN_GROUP, SCALE_MAX = 63 };
    float scales[N_GROUPS], minimums[N_GROUPS], d, dmin;
    uint32_t scale_bits[N_GROUPS], minimum_bits[N_GROUPS];
    for (int g = 0; g < N_GROUPS; g++)
        choose_line(src + g * MIN_GROUP, q_max, &scales[g], &minimums[g]);
    if (!store_unit(find_largest(scales, N_GROUPS) / (float)SCALE_MAX, dst, &d)) return false;
    if (!store_unit(find_largest(minimums, N_GROUPS) / (float)SCALE_MAX, dst + 2, &dmin))
        return false;
    for (int g = 0; g < N_GROUPS; g++) {
        scale_bits[g] = round_ratio(scales[g], d, SCALE_MAX);
        if (!scale_bits[g]) minimums[g] = flat_minimum(src + g * MIN_GROUP);
        minimum_bits[g] = round_ratio(minimums[g], dmin, SCALE_MAX);
        const float scale = d * (float)scale_bits[g], minimum = dmin * (float)minimum_bits[g];
        const float inverse = scale > 0 && isfinite(1 / scale) ? 1 / scale : 0;
        round_group(src + g * MIN_GROUP, inverse, minimum * inverse, (float)q_max,
                    q + g * MIN_GROUP);
    }
    store_scales(scale_bits, minimum_bits, dst + 4);
    return true;
}

/* Groups 2p and 2p + 1 share 32 bytes. */
static void store_group_pairs(const int32_t *q, uint8_t *dst) {
    for (int p = 0; p < ELEMS / 64; p++, q += 64)
        for (int j = 0; j < 32; j++)
            dst[32 * p + j] = (uint8_t)((q[j] & 15) | (q[j + 32] & 15) << 4);
}

bool quantise_q4_k_block(const float *src, uint8_t *dst) {
    int32_t q[ELEMS];
    if (!make_lines(src, 15, dst, q)) return false;
    store_group_pairs(q, dst + 16);
    return true;
}

bool quantise_q5_k_block(const float *src, uint8_t *dst) {
    int32_t q[ELEMS];
    if (!make_lines(src, 31, dst, q)) return false;
    memset(dst + 16, 0, 32);
    for (int i = 0; i < ELEMS; i++) dst[16 + i % 32] |= (uint8_t)((q[i] >> 4) << i / 32);
    store_group_pairs(q, dst + 48);
    return true;
}

/* ---- groups without: Q6_K ---- */

/* q = x * inverse, to the nearest of -32 .. 31. */
static void round_signed(const float *x, float inverse, int32_t *q) {
    for (int j = 0; j < SIGNED_GROUP; j++) {
        float scaled = x[j] * inverse + 32;
        scaled = scaled > 0 ? scaled : 0;
        scaled = scaled < 63 ? scaled : 63;
        q[j] = (int32_t)(scaled + 0.5f) - 32;
    }
}

/* The largest magnitude gets the quant -32, which has no positive twin, so a scale may be negative.
 * The error of the best scale for given quants is sum xx - (sum xq)^2 / sum qq. */
static float choose_scale(const float *x) {
    float extreme = 0, best_scale = 0;
    double best_gain = 0;
    for (int j = 0; j < SIGNED_GROUP; j++)
        if (fabsf(x[j]) > fabsf(extreme)) extreme = x[j];
    for (int i = 0; i < N_TRIES; i++) {
        int32_t q[SIGNED_GROUP], sum_qq = 0;
        const float inverse = -try_steps(32, i) / extreme;
        if (!isfinite(inverse)) return 0;
        round_signed(x, inverse, q);
        for (int j = 0; j < SIGNED_GROUP; j++) sum_qq += q[j] * q[j];
        const double xq = sum_products(x, q, SIGNED_GROUP), qq = sum_qq;
        if (!sum_qq || xq * xq <= best_gain * qq) continue;
        best_gain = xq * xq / qq;
        best_scale = (float)(xq / qq);
    }
    return best_scale;
}

bool quantise_q6_k_block(const float *src, uint8_t *dst) {
    enum { N_GROUPS = ELEMS / SIGNED_GROUP };
    float scales[N_GROUPS], extreme = 0, d;
    int32_t q[ELEMS];
    for (int g = 0; g < N_GROUPS; g++) {
        scales[g] = choose_scale(src + g * SIGNED_GROUP);
        if (fabsf(scales[g]) > fabsf(extreme)) extreme = scales[g];
    }
    if (!store_unit(extreme / -128, dst + 208, &d)) return false;
    for (int g = 0; g < N_GROUPS; g++) {
        const float ratio = d != 0 ? scales[g] / d : 0;
        const int bits = (int)floorf((ratio < 127 ? ratio > -128 ? ratio : -128 : 127) + 0.5f);
        const float scale = d * (float)bits;
        const float inverse = scale != 0 && isfinite(1 / scale) ? 1 / scale : 0;
        dst[192 + g] = (uint8_t)bits;
        round_signed(src + g * SIGNED_GROUP, inverse, q + g * SIGNED_GROUP);
    }
    memset(dst, 0, 192);
    for (int i = 0; i < ELEMS; i++) {
        const int half = i / 128, k = i % 128 / 32, j = i % 32;
        const uint32_t bits = (uint32_t)(q[i] + 32);
        dst[64 * half + 32 * (k % 2) + j] |= (uint8_t)((bits & 15) << 4 * (k / 2));
        dst[128 + 32 * half + j] |= (uint8_t)(bits >> 4 << 2 * k);
    }
    return true;
}
