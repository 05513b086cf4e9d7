/* quantise.c - the table of quantisers, and the five simple block types.
 *
 * A model in bf16 reads twice the bytes of one in Q8_0 for each token; who has only the bf16 file
 * gets the smaller one while it is loaded. So that this gives the same model as a file made by the
 * usual tools, the simple types follow ggml's reference quantisers to the bit: the scale from the
 * largest magnitude (or from the range), its inverse computed in float before it is rounded to f16,
 * quants from the unrounded one, each product and sum rounded by itself.
 *
 *   Q8_0   d = max |x| / 127        q = x / d to the nearest, halves away from zero
 *   Q4_0   d = m / -8               q = floor(x / d + 8.5), at most 15; m: the x of largest |x|
 *   Q5_0   d = m / -16              q = floor(x / d + 16.5), at most 31
 *   Q4_1   d = (max - min) / 15     q = floor((x - min) / d + 0.5)
 *   Q5_1   d = (max - min) / 31     likewise
 *
 * The odd sign of Q4_0 gives the largest weight, which matters most, the quant -8 that has no
 * positive twin. Rounding quants against the f16 scale that readers will use would be a little more
 * exact, but then no two tools would agree; the K types (quantise_k.c) do it, nobody promises bits
 * for them.
 *
 * Cost: a pass for the range and one for the quants, in loops that compilers vectorise; loading is
 * bound by memory and packing. Layouts are drawn in quant_*.c. Numbers that are not finite are
 * refused: a scale of infinity would turn a whole block into NaNs. */
#include "quantise.h"

#include "base/invariant.h"
#include "quantise_int.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { ELEMS = 32 };

bool quantise_store_f16(float f, uint8_t *dst) {
    const uint16_t h = dtype_f32_to_f16(f);
    dst[0] = (uint8_t)h;
    dst[1] = (uint8_t)(h >> 8);
    return (h & 0x7C00) != 0x7C00;
}

/* 1 / d, or 0 where there is none: then all of the block is too small for f16 anyway. */
static float invert(float d) {
    const float inverse = d == 0 ? 0 : 1 / d;
    return isfinite(inverse) ? inverse : 0;
}

/* The number of largest magnitude, the first of several. Bits of magnitudes are ordered as the
 * magnitudes are, and unlike those may be compared in any order by vectors. */
static float find_extreme(const float *src) {
    int32_t magnitudes[ELEMS], largest = 0;
    int first = 0;
    memcpy(magnitudes, src, sizeof magnitudes);
    for (int j = 0; j < ELEMS; j++) {
        magnitudes[j] &= INT32_MAX;
        largest = magnitudes[j] > largest ? magnitudes[j] : largest;
    }
    while (magnitudes[first] != largest) first++;
    return src[first];
}

static void find_range(const float *src, float *min_out, float *max_out) {
    enum { LANES = 8 };
    float min[LANES], max[LANES];
    memcpy(min, src, sizeof min);
    memcpy(max, src, sizeof max);
    for (int j = LANES; j < ELEMS; j += LANES)
        for (int i = 0; i < LANES; i++) {
            min[i] = src[j + i] < min[i] ? src[j + i] : min[i];
            max[i] = src[j + i] > max[i] ? src[j + i] : max[i];
        }
    *min_out = min[0];
    *max_out = max[0];
    for (int i = 1; i < LANES; i++) {
        *min_out = min[i] < *min_out ? min[i] : *min_out;
        *max_out = max[i] > *max_out ? max[i] : *max_out;
    }
}

/* q[j] = (src[j] - min) * inverse + half, towards zero, at most q_max; never below 0 as callers
 * choose `half`. */
static void scale_down(const float *src, float min, float inverse, float half, int q_max,
                       uint8_t *q) {
    for (int j = 0; j < ELEMS; j++) {
        const int scaled = (int)((src[j] - min) * inverse + half);
        q[j] = (uint8_t)(scaled < q_max ? scaled : q_max);
    }
}

static void store_nibbles(const uint8_t *q, uint8_t *dst) {
    for (int j = 0; j < ELEMS / 2; j++)
        dst[j] = (uint8_t)((q[j] & 15) | (q[j + ELEMS / 2] & 15) << 4);
}

static void store_fifth_bits(const uint8_t *q, uint8_t *dst) {
    memset(dst, 0, 4);
    for (int j = 0; j < ELEMS; j++) dst[j / 8] |= (uint8_t)((q[j] >> 4 & 1) << j % 8);
}

static bool make_q8_0(const float *src, uint8_t *dst) {
    const float d = fabsf(find_extreme(src)) / 127, inverse = invert(d);
    for (int j = 0; j < ELEMS; j++) {
        const float scaled = src[j] * inverse;
        const int whole = (int)scaled;
        const float rest = scaled - (float)whole;
        dst[2 + j] = (uint8_t)(whole + (rest >= 0.5f) - (rest <= -0.5f));
    }
    return quantise_store_f16(d, dst);
}

static bool make_q4_0(const float *src, uint8_t *dst) {
    uint8_t q[ELEMS];
    const float d = find_extreme(src) / -8;
    scale_down(src, 0, invert(d), 8.5f, 15, q);
    store_nibbles(q, dst + 2);
    return quantise_store_f16(d, dst);
}

static bool make_q5_0(const float *src, uint8_t *dst) {
    uint8_t q[ELEMS];
    const float d = find_extreme(src) / -16;
    scale_down(src, 0, invert(d), 16.5f, 31, q);
    store_fifth_bits(q, dst + 2);
    store_nibbles(q, dst + 6);
    return quantise_store_f16(d, dst);
}

/* The types with a minimum: d, m and the quants. */
static bool make_ranged(const float *src, int q_max, uint8_t *q, uint8_t *dst) {
    float min, max;
    find_range(src, &min, &max);
    const float d = (max - min) / (float)q_max;
    if (!isfinite(d)) return false;
    scale_down(src, min, invert(d), 0.5f, q_max, q);
    return quantise_store_f16(d, dst) && quantise_store_f16(min, dst + 2);
}

static bool make_q4_1(const float *src, uint8_t *dst) {
    uint8_t q[ELEMS] = {0};
    const bool is_made = make_ranged(src, 15, q, dst);
    store_nibbles(q, dst + 4);
    return is_made;
}

static bool make_q5_1(const float *src, uint8_t *dst) {
    uint8_t q[ELEMS] = {0};
    const bool is_made = make_ranged(src, 31, q, dst);
    store_fifth_bits(q, dst + 4);
    store_nibbles(q, dst + 8);
    return is_made;
}

/* ---- the table ---- */

/* fallback: what rows get that are no whole number of blocks, as llama.cpp's tool has it. */
static const struct {
    enum dtype dtype;
    const char *name;
    bool (*make_block)(const float *src, uint8_t *dst);
    bool has_fallback;
    enum dtype fallback;
} types[] = {
    {RADISH_DTYPE_Q8_0, "q8_0", make_q8_0, false, RADISH_DTYPE_F32},
    {RADISH_DTYPE_Q6_K, "q6_k", quantise_q6_k_block, true, RADISH_DTYPE_Q8_0},
    {RADISH_DTYPE_Q5_K, "q5_k", quantise_q5_k_block, true, RADISH_DTYPE_Q5_1},
    {RADISH_DTYPE_Q5_1, "q5_1", make_q5_1, false, RADISH_DTYPE_F32},
    {RADISH_DTYPE_Q5_0, "q5_0", make_q5_0, false, RADISH_DTYPE_F32},
    {RADISH_DTYPE_Q4_K, "q4_k", quantise_q4_k_block, true, RADISH_DTYPE_Q5_0},
    {RADISH_DTYPE_Q4_1, "q4_1", make_q4_1, false, RADISH_DTYPE_F32},
    {RADISH_DTYPE_Q4_0, "q4_0", make_q4_0, false, RADISH_DTYPE_F32},
};

enum { N_TYPES = sizeof types / sizeof *types };

/* N_TYPES: not one of them. */
static size_t find_type(enum dtype dtype) {
    size_t i = 0;
    while (i < N_TYPES && types[i].dtype != dtype) i++;
    return i;
}

bool quantise_type_find(const char *name, enum dtype *dtype_out) {
    *dtype_out = RADISH_DTYPE_F32;
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcasecmp(types[i].name, name) != 0) continue;
        *dtype_out = types[i].dtype;
        return true;
    }
    return false;
}

const char *quantise_type_name(enum dtype dtype) {
    const size_t i = find_type(dtype);
    return i < N_TYPES ? types[i].name : NULL;
}

const char *quantise_type_names(void) {
    return "q8_0, q6_k, q5_k, q5_1, q5_0, q4_k, q4_1, q4_0";
}

bool quantise_type_for(enum dtype wanted, uint32_t n_in, enum dtype *dtype_out) {
    size_t i = find_type(wanted);
    *dtype_out = wanted;
    if (i == N_TYPES) return false;
    if (n_in % dtype_block_elems(wanted) && types[i].has_fallback) *dtype_out = types[i].fallback;
    return n_in % dtype_block_elems(*dtype_out) == 0;
}

static bool are_finite(const float *src, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, src + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7F800000;
}

bool quantise_row(enum dtype dtype, const float *src, size_t n, uint8_t *dst) {
    const size_t type = find_type(dtype);
    const uint32_t elems = dtype_block_elems(dtype), bytes = dtype_block_bytes(dtype);
    RADISH_INVARIANT(type < N_TYPES && n % elems == 0, "%zu elements cannot become %s", n,
                     dtype_name(dtype));
    if (!are_finite(src, n)) return false;
    for (size_t i = 0; i < n; i += elems, src += elems, dst += bytes)
        if (!types[type].make_block(src, dst)) return false;
    return true;
}
