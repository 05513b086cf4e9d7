/* avx512.h - the intrinsics of AVX-512 and AVX-VNNI that the kernels use, on a processor that has
 * AVX2 only: for tests of kernel/cpu/avx512*.c, avxvnni_*.c and amx_*.c where there is no such
 * machine.
 *
 * Included before everything else (-include). SIMDe's functions take the names of most intrinsics;
 * the macros below are those it lacks. Every lane is computed as the instruction does it, FMA
 * included, so bits are those of the hardware; speed is not. */
#ifndef TESTS_EMULATED_AVX512_H
#define TESTS_EMULATED_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* For tile_loops.h: nothing is unrolled, no vector sits in one register, and what is inlined there
 * for each shape of a tile is one function here: a tenth of the compiling. */
#define INLINE static
#define UNROLL
#define NO_UNROLL
#define SETTLE(x) ((void)0)

union emulated {
    __m512 ps;
    __m512i i;
    __m256 half[2];
    __m256i half_i[2];
    __m128i quarter[4];
    float f[16];
    int32_t i32[16];
    uint16_t u16[32];
    uint8_t u8[64];
};

static inline __m512 emulated_maskz_loadu_ps(__mmask16 mask, const void *at) {
    union emulated v;
    for (int i = 0; i < 16; i++) {
        v.f[i] = 0;
        if (mask >> i & 1) memcpy(&v.f[i], (const char *)at + 4 * i, 4);
    }
    return v.ps;
}

static inline void emulated_mask_storeu_ps(void *at, __mmask16 mask, __m512 x) {
    const union emulated v = {.ps = x};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)at + 4 * i, &v.f[i], 4);
}

static inline void emulated_mask_storeu_epi16(void *at, __mmask16 mask, __m256i x) {
    const union emulated v = {.half_i = {x, x}};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) memcpy((char *)at + 2 * i, &v.u16[i], 2);
}

static inline __m512 emulated_cvtph_ps(__m256i x) {
    union emulated v;
    v.half[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
    v.half[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
    return v.ps;
}

static inline __m256i emulated_cvtps_ph(__m512 x) {
    const union emulated v = {.ps = x};
    return _mm256_set_m128i(_mm256_cvtps_ph(v.half[1], 0), _mm256_cvtps_ph(v.half[0], 0));
}

static inline float emulated_reduce_max_ps(__m512 x) {
    const union emulated v = {.ps = x};
    float max = v.f[0];
    for (int i = 1; i < 16; i++) max = v.f[i] > max ? v.f[i] : max;
    return max;
}

static inline __m256i emulated_cvtepi32_epi16(__m512i x) {
    const union emulated v = {.i = x};
    union emulated out;
    for (int i = 0; i < 16; i++) out.u16[i] = (uint16_t)v.i32[i];
    return out.half_i[0];
}

static inline __m128i emulated_cvtepi32_epi8(__m512i x) {
    const union emulated v = {.i = x};
    union emulated out;
    for (int i = 0; i < 16; i++) out.u8[i] = (uint8_t)v.i32[i];
    return out.quarter[0];
}

static inline __m512i emulated_cvtepu16_epi32(__m256i x) {
    union emulated out;
    out.half_i[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
    out.half_i[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
    return out.i;
}

static inline __m512i emulated_cvtepi8_epi32(__m128i x) {
    union emulated v;
    v.half_i[0] = _mm256_cvtepi8_epi32(x);
    v.half_i[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8));
    return v.i;
}

static inline __m512i emulated_cvtepu8_epi32(__m128i x) {
    union emulated v;
    v.half_i[0] = _mm256_cvtepu8_epi32(x);
    v.half_i[1] = _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8));
    return v.i;
}

static inline __m512 emulated_cvtepi32_ps(__m512i x) {
    const union emulated v = {.i = x};
    union emulated out;
    for (int i = 0; i < 2; i++) out.half[i] = _mm256_cvtepi32_ps(v.half_i[i]);
    return out.ps;
}

static inline __m256 emulated_extractf32x8_ps(__m512 x, int which) {
    const union emulated v = {.ps = x};
    return v.half[which];
}

static inline __m512 emulated_permute_ps(__m512 x, int order) {
    const union emulated v = {.ps = x};
    union emulated out;
    for (int i = 0; i < 16; i++) out.f[i] = v.f[i / 4 * 4 + (order >> 2 * (i % 4) & 3)];
    return out.ps;
}

/* Later SIMDe has some of them. */
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm256_mask_storeu_epi16
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_reduce_max_ps
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_extractf32x8_ps
#undef _mm512_permute_ps
#define _mm512_maskz_loadu_ps    emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps    emulated_mask_storeu_ps
#define _mm256_mask_storeu_epi16 emulated_mask_storeu_epi16
#define _mm512_cvtph_ps          emulated_cvtph_ps
#define _mm512_cvtps_ph(x, mode) emulated_cvtps_ph(x)
#define _mm512_reduce_max_ps     emulated_reduce_max_ps
#define _mm512_cvtepi32_epi16    emulated_cvtepi32_epi16
#define _mm512_cvtepi32_epi8     emulated_cvtepi32_epi8
#define _mm512_cvtepu16_epi32    emulated_cvtepu16_epi32
#define _mm512_cvtepi8_epi32     emulated_cvtepi8_epi32
#define _mm512_cvtepu8_epi32     emulated_cvtepu8_epi32
#define _mm512_cvtepi32_ps       emulated_cvtepi32_ps
#define _mm512_extractf32x8_ps   emulated_extractf32x8_ps
#define _mm512_permute_ps        emulated_permute_ps
#define _mm256_dpbusd_avx_epi32  _mm256_dpbusd_epi32

#include "bf16.h"

#endif
