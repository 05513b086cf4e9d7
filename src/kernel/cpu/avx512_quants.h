/* avx512_quants.h - quants and scales out of quantised panels, 16 output rows at a time.
 *
 * Included by avx512*.c and amx_*.c only. */
#ifndef KERNEL_CPU_AVX512_QUANTS_H
#define KERNEL_CPU_AVX512_QUANTS_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <immintrin.h>

/* Moves bits of bytes `by` places down, or up; those of neighbours come in. */
INLINE __m512i shift_bits(__m512i x, const int by) {
    switch (by) { /* the instruction has its distance in itself */
    case -4: return _mm512_slli_epi16(x, 4);
    case -3: return _mm512_slli_epi16(x, 3);
    case -2: return _mm512_slli_epi16(x, 2);
    case -1: return _mm512_slli_epi16(x, 1);
    case 1: return _mm512_srli_epi16(x, 1);
    case 2: return _mm512_srli_epi16(x, 2);
    case 3: return _mm512_srli_epi16(x, 3);
    case 4: return _mm512_srli_epi16(x, 4);
    case 5: return _mm512_srli_epi16(x, 5);
    case 6: return _mm512_srli_epi16(x, 6);
    default: return x;
    }
}

/* Group g of a unit: 4 inputs of 16 rows, unsigned, the offset included. */
INLINE __m512i load_group(const struct quant_form form, const uint8_t *unit, const int g) {
    __m512i low = _mm512_loadu_si512(unit + quant_low_vector(form, (uint32_t)g) * VECTOR_BYTES);
    if (form.low_bits == 8) return low;
    low = shift_bits(low, (int)quant_low_shift(form, (uint32_t)g));
    low = _mm512_and_si512(low, _mm512_set1_epi8((char)((1 << form.low_bits) - 1)));
    if (!form.high_bits) return low;
    __m512i high = _mm512_loadu_si512(unit + quant_high_vector(form, (uint32_t)g) * VECTOR_BYTES);
    high = shift_bits(high, (int)quant_high_shift(form, (uint32_t)g) - (int)form.low_bits);
    const int mask = ((1 << form.high_bits) - 1) << form.low_bits;
    /* low | (high & mask) */
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8((char)mask), 0xF8);
}

/* Scales (which = 0) or minimums (which = 1) of a block. */
INLINE __m512 load_scales(const struct quant_form form, const struct quant_block *at,
                          const int which) {
    const int number = which * PANEL_ROWS;
    if (form.scales == SCALES_FLOATS)
        return _mm512_load_ps((const float *)(const void *)at->scales + number);
    const uint8_t *halves = (form.scales == SCALES_HALVES ? at->scales : at->supers) + 2 * number;
    const __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
    if (form.scales == SCALES_HALVES) return d;
    const uint8_t *bytes = at->scales + (form.scales == SCALES_BYTES ? number : 0);
    const __m128i small = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    __m512i whole = _mm512_cvtepi8_epi32(small);
    if (form.scales == SCALES_NIBBLES) {
        whole = _mm512_cvtepu8_epi32(small);
        whole =
            which ? _mm512_srli_epi32(whole, 4) : _mm512_and_si512(whole, _mm512_set1_epi32(15));
    }
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(whole));
}

/* Units [0, n_units) of a panel, whose first chunk is `chunk`, as a chunk of quant_opened(). */
INLINE void open_units(const struct quant_form form, const uint8_t *chunk, size_t n_units,
                       uint8_t *opened) {
    const size_t in_chunk = quant_chunk_units(form), n_parts = ACT_BLOCK / form.block;
    uint8_t *quants = opened + quant_units_at(quant_opened(form));
    float *scales = (float *)(void *)opened;
    for (size_t unit = 0; unit < n_units; unit++) {
        const uint8_t *from = chunk + unit / in_chunk * quant_chunk_bytes(form);
        for (size_t part = 0; part < n_parts; part++) {
            const struct quant_block at =
                quant_find_block(form, from, unit % in_chunk, (uint32_t)part);
            _mm512_store_ps(scales, load_scales(form, &at, 0));
            scales += PANEL_ROWS;
            if (!form.has_min) continue;
            _mm512_store_ps(scales, load_scales(form, &at, 1));
            scales += PANEL_ROWS;
        }
        const struct quant_block at = quant_find_block(form, from, unit % in_chunk, 0);
        UNROLL_GROUPS for (int g = 0; g < ACT_BLOCK / 4; g++, quants += VECTOR_BYTES) {
            _mm512_store_si512(quants, load_group(form, at.unit, g));
        }
    }
}

/* open_units() by the type of the weight (avx512_matmul_i8.c). */
void avx512_open(enum dtype dtype, const uint8_t *chunk, size_t n_units, uint8_t *opened);

#endif
