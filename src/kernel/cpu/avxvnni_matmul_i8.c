/* avxvnni_matmul_i8.c - integer matrix products with VNNI on 256 bits, for processors that have it
 * without AVX-512 (most laptops since 2021); avx2_i8.h has what is not said here.
 *
 * As avx512_matmul_i8.c, on half a panel at a time. There are 16 registers: the integer sums of a
 * block of 6 tokens times one panel (12), two vectors of quants and one broadcast. Per block of 32
 * inputs and token: 16 VPDPBUSD and 8 float operations, loads and stores of sums included; plain
 * AVX2 needs three instructions for each VPDPBUSD.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx2_quants.h"
#include "quant_kinds.h"

enum { MR_MAX = 6 };
#define DOTS_HAVE_BASE(form) true

INLINE void dot_block(const struct quant_form form, const uint8_t *unit, const int part,
                      const struct act_block *act, size_t act_stride, const int mr,
                      __m256i (*dots)[HALVES]) {
    const int n_groups = (int)form.block / 4;
    UNROLL for (int m = 0; m < mr; m++) {
        dots[m][0] = dots[m][1] = _mm256_set1_epi32(act[(size_t)m * act_stride].start[part]);
    }
    UNROLL_GROUPS for (int g = part * n_groups; g < (part + 1) * n_groups; g++) {
        const __m256i low = load_group(form, unit, g, 0), high = load_group(form, unit, g, 1);
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = act[(size_t)m * act_stride].q + g * 4;
            const __m256i quad = _mm256_set1_epi32(load_quad(q));
            dots[m][0] = _mm256_dpbusd_avx_epi32(dots[m][0], low, quad);
            dots[m][1] = _mm256_dpbusd_avx_epi32(dots[m][1], high, quad);
            SETTLE(dots[m][0]);
            SETTLE(dots[m][1]);
        }
    }
}

#include "avx2_i8.h"

void i8_f32_matmul__avxvnni(const struct matmul_part *p) {
    multiply_quants(p);
}
