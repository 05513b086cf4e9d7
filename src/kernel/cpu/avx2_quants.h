/* avx2_quants.h - quants and scales out of quantised panels, 8 output rows at a time: half a panel.
 *
 * Included by avx2*.c and avxvnni*.c only. */
#ifndef KERNEL_CPU_AVX2_QUANTS_H
#define KERNEL_CPU_AVX2_QUANTS_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <immintrin.h>

enum { HALF_BYTES = VECTOR_BYTES / 2, HALVES = 2 };

/* Moves bits of bytes `by` places down, or up; those of neighbours come in. */
INLINE __m256i shift_bits(__m256i x, const int by) {
    return by == 0 ? x : by > 0 ? _mm256_srli_epi16(x, by) : _mm256_slli_epi16(x, -by);
}

/* Group g of a unit: 4 inputs of 8 rows, unsigned, the offset included. */
INLINE __m256i load_group(const struct quant_form form, const uint8_t *unit, const int g,
                          const int half) {
    const uint8_t *at = unit + half * HALF_BYTES;
    const uint8_t *low_at = at + quant_low_vector(form, (uint32_t)g) * VECTOR_BYTES;
    const uint8_t *high_at = at + quant_high_vector(form, (uint32_t)g) * VECTOR_BYTES;
    __m256i low = _mm256_load_si256((const __m256i *)(const void *)low_at);
    if (form.low_bits == 8) return low;
    low = shift_bits(low, (int)quant_low_shift(form, (uint32_t)g));
    low = _mm256_and_si256(low, _mm256_set1_epi8((char)((1 << form.low_bits) - 1)));
    if (!form.high_bits) return low;
    __m256i high = _mm256_load_si256((const __m256i *)(const void *)high_at);
    high = shift_bits(high, (int)quant_high_shift(form, (uint32_t)g) - (int)form.low_bits);
    const int mask = ((1 << form.high_bits) - 1) << form.low_bits;
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8((char)mask)));
}

/* Scales (which = 0) or minimums (which = 1) of 8 rows of a block. */
INLINE __m256 load_scales(const struct quant_form form, const struct quant_block *at,
                          const int which, const int half) {
    const int number = which * PANEL_ROWS + half * 8;
    if (form.scales == SCALES_FLOATS)
        return _mm256_load_ps((const float *)(const void *)at->scales + number);
    const uint8_t *halves = (form.scales == SCALES_HALVES ? at->scales : at->supers) + 2 * number;
    const __m256 d = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)halves));
    if (form.scales == SCALES_HALVES) return d;
    const uint8_t *bytes = at->scales + (form.scales == SCALES_BYTES ? number : half * 8);
    const __m128i small = _mm_loadl_epi64((const __m128i *)(const void *)bytes);
    __m256i whole = _mm256_cvtepi8_epi32(small);
    if (form.scales == SCALES_NIBBLES) {
        whole = _mm256_cvtepu8_epi32(small);
        whole =
            which ? _mm256_srli_epi32(whole, 4) : _mm256_and_si256(whole, _mm256_set1_epi32(15));
    }
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(whole));
}

/* Scales (which = 0) or minimums (which = 1) of a block as floats; returns where they end. */
INLINE float *open_scales(const struct quant_form form, const struct quant_block *at,
                          const int which, float *scales) {
    _mm256_store_ps(scales, load_scales(form, at, which, 0));
    _mm256_store_ps(scales + 8, load_scales(form, at, which, 1));
    return scales + PANEL_ROWS;
}

/* Units [0, n_units) of a panel, whose first chunk is `chunk`, as a chunk of quant_opened(). */
INLINE void open_units(const struct quant_form form, const uint8_t *chunk, size_t n_units,
                       uint8_t *opened) {
    const size_t in_chunk = quant_chunk_units(form), n_parts = ACT_BLOCK / form.block;
    __m256i *quants = (__m256i *)(void *)(opened + quant_units_at(quant_opened(form)));
    float *scales = (float *)(void *)opened;
    for (size_t unit = 0; unit < n_units; unit++) {
        const uint8_t *from = chunk + unit / in_chunk * quant_chunk_bytes(form);
        struct quant_block at;
        for (uint32_t part = 0; part < n_parts; part++) {
            at = quant_find_block(form, from, unit % in_chunk, part);
            scales = open_scales(form, &at, 0, scales);
            if (form.has_min) scales = open_scales(form, &at, 1, scales);
        }
        UNROLL_GROUPS for (int g = 0; g < ACT_BLOCK / 4; g++) {
            _mm256_store_si256(quants++, load_group(form, at.unit, g, 0));
            _mm256_store_si256(quants++, load_group(form, at.unit, g, 1));
        }
    }
}

#endif
