/* dtype.c - the table of element types, and the conversions between float32 and the 16-bit floats.
 *
 * dtype.def says what a type is called and how large it is; this file adds which function reads it.
 * A type without one is known (its tensors can be listed and their bytes checked) but not readable.
 *
 * The 16-bit conversions work on bits, in integers: they are exact whatever the rounding mode, and
 * give what the processor's own instructions (F16C, NEON) give, NaNs included, so that a kernel may
 * use either. A table of 65,536 floats would be no faster where it matters (256 KiB of cache) and
 * needs an initialisation.
 *
 *   f16   s eeeee mmmmmmmmmm              bias 15:  value = (-1)^s 2^(e-15) 1.m,  e = 0: 2^-24 m
 *   bf16  s eeeeeeee mmmmmmm              the upper half of a float
 *   f32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm        bias 127 */
#include "dtype.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "quant.h"

#include <string.h>

static const struct {
    const char *name, *safetensors_name;
    uint32_t gguf_id, block_elems, block_bytes;
} dtypes[RADISH_DTYPE_COUNT] = {
#define X(name, text, gguf_id, safetensors_name, block_elems, block_bytes)                         \
    [RADISH_DTYPE_##name] = {text, safetensors_name, gguf_id, block_elems, block_bytes},
#include "dtype.def"
#undef X
};

static void read_f32(const uint8_t *src, float *dst, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = quant_load_u32(src + 4 * i);
        memcpy(dst + i, &bits, sizeof bits);
    }
}

static void read_f16(const uint8_t *src, float *dst, size_t n) {
    for (size_t i = 0; i < n; i++) dst[i] = quant_load_f16(src + 2 * i);
}

static void read_bf16(const uint8_t *src, float *dst, size_t n) {
    for (size_t i = 0; i < n; i++) dst[i] = dtype_bf16_to_f32(quant_load_u16(src + 2 * i));
}

typedef void (*read_fn)(const uint8_t *src, float *dst, size_t n_blocks);
static const read_fn readers[RADISH_DTYPE_COUNT] = {
    [RADISH_DTYPE_F32] = read_f32,           [RADISH_DTYPE_F16] = read_f16,
    [RADISH_DTYPE_BF16] = read_bf16,         [RADISH_DTYPE_Q4_0] = quant_q4_0_to_f32,
    [RADISH_DTYPE_Q4_1] = quant_q4_1_to_f32, [RADISH_DTYPE_Q5_0] = quant_q5_0_to_f32,
    [RADISH_DTYPE_Q5_1] = quant_q5_1_to_f32, [RADISH_DTYPE_Q8_0] = quant_q8_0_to_f32,
    [RADISH_DTYPE_Q2_K] = quant_q2_k_to_f32, [RADISH_DTYPE_Q3_K] = quant_q3_k_to_f32,
    [RADISH_DTYPE_Q4_K] = quant_q4_k_to_f32, [RADISH_DTYPE_Q5_K] = quant_q5_k_to_f32,
    [RADISH_DTYPE_Q6_K] = quant_q6_k_to_f32,
};

const char *dtype_name(enum dtype dtype) {
    return dtypes[dtype].name;
}

uint32_t dtype_block_elems(enum dtype dtype) {
    return dtypes[dtype].block_elems;
}

uint32_t dtype_block_bytes(enum dtype dtype) {
    return dtypes[dtype].block_bytes;
}

bool dtype_is_quantised(enum dtype dtype) {
    return dtypes[dtype].block_elems > 1;
}

bool dtype_can_read(enum dtype dtype) {
    return readers[dtype] != NULL;
}

const char *dtype_readable_names(void) {
    return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";
}

bool dtype_from_gguf(uint32_t gguf_id, enum dtype *dtype_out) {
    *dtype_out = RADISH_DTYPE_F32;
    if (gguf_id == UINT32_MAX) return false;
    for (int i = 0; i < RADISH_DTYPE_COUNT; i++) {
        if (dtypes[i].gguf_id != gguf_id) continue;
        *dtype_out = (enum dtype)i;
        return true;
    }
    return false;
}

bool dtype_from_safetensors(const char *name, enum dtype *dtype_out) {
    *dtype_out = RADISH_DTYPE_F32;
    if (!*name) return false;
    for (int i = 0; i < RADISH_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].safetensors_name, name) != 0) continue;
        *dtype_out = (enum dtype)i;
        return true;
    }
    return false;
}

const char *dtype_safetensors_name(enum dtype dtype) {
    return *dtypes[dtype].safetensors_name ? dtypes[dtype].safetensors_name : NULL;
}

const char *dtype_gguf_name(uint32_t gguf_id) {
    static const struct {
        uint32_t gguf_id;
        const char *name;
    } withdrawn[] = {{4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
                     {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};
    enum dtype dtype;
    if (dtype_from_gguf(gguf_id, &dtype)) return dtypes[dtype].name;
    for (size_t i = 0; i < sizeof withdrawn / sizeof *withdrawn; i++)
        if (withdrawn[i].gguf_id == gguf_id) return withdrawn[i].name;
    return NULL;
}

bool dtype_row_bytes(enum dtype dtype, uint64_t n, uint64_t *bytes_out) {
    *bytes_out = 0;
    if (n % dtypes[dtype].block_elems) return false;
    return mem_mul_u64(n / dtypes[dtype].block_elems, dtypes[dtype].block_bytes, bytes_out);
}

void dtype_to_f32(enum dtype dtype, const void *src, float *dst, size_t n) {
    RADISH_INVARIANT(readers[dtype] && n % dtypes[dtype].block_elems == 0,
                     "%zu elements of %s cannot be read", n, dtypes[dtype].name);
    readers[dtype](src, dst, n / dtypes[dtype].block_elems);
}

float dtype_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    union {
        uint32_t u;
        float f;
    } v;
    if (exponent == 31) { /* infinity; NaNs keep their payload and become quiet */
        v.u = sign | 0x7F800000u | mantissa << 13 | (mantissa ? 0x400000u : 0);
    } else if (exponent) {
        v.u = sign | (exponent + 127 - 15) << 23 | mantissa << 13;
    } else { /* zero and subnormals: all are normal floats */
        v.f = (float)mantissa * 0x1p-24f;
        v.u |= sign;
    }
    return v.f;
}

/* value / 2^shift, to the nearest integer, ties to the even one; 1 <= shift <= 31. */
static uint32_t shift_nearest_even(uint32_t value, uint32_t shift) {
    const uint32_t half = UINT32_C(1) << (shift - 1), rest = value & (2 * half - 1);
    const uint32_t quotient = value >> shift;
    return quotient + (rest > half || (rest == half && (quotient & 1)));
}

uint16_t dtype_f32_to_f16(float f) {
    uint32_t bits, magnitude;
    memcpy(&bits, &f, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t exponent = bits >> 23 & 255, mantissa = bits & 0x7FFFFF;
    if (exponent == 255 && mantissa) {
        magnitude = 0x7E00 | mantissa >> 13; /* NaN: quiet, upper payload kept */
    } else if (exponent >= 127 + 16) {
        magnitude = 0x7C00; /* infinity, or too large */
    } else if (exponent > 127 - 15) {
        /* Rounding may carry into the exponent, up to infinity: that is the right result. */
        magnitude = shift_nearest_even((exponent - (127 - 15)) << 23 | mantissa, 13);
    } else if (exponent >= 127 - 25) {
        /* A multiple of 2^-24, or the tie below the smallest one; may round up to normal. */
        magnitude = shift_nearest_even(mantissa | 0x800000, 126 - exponent);
    } else {
        magnitude = 0;
    }
    return (uint16_t)(sign | magnitude);
}

uint16_t dtype_f32_to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)shift_nearest_even(bits, 16);
}
