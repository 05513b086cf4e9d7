/* avx2_matmul_i8.c - integer matrix products on AVX2; avx2_i8.h has what is not said here.
 *
 * VPMADDUBSW multiplies bytes and adds pairs into 16 bits with saturation, so how many groups of 4
 * inputs may be added up in 16 bits depends on the largest quant: |a| <= 127, two products per lane
 * and group:
 *
 *   quants up to   15   31   63   255
 *   groups          8    4    2    -         15 * 127 * 2 * 8 = 30,480 < 32,768
 *
 * Then VPMADDWD by ones widens to 32 bits. For quants up to 255 (Q8_0) a single pair would
 * overflow: they become signed again (xor 128), and |w| times sign(a, w) fits: 128 * 127 * 2 =
 * 32,512. A weight of -128 is right too, since its magnitude is an unsigned byte. (Activations are
 * never -128.) All of this is exact, so it gives the bits of the plain C kernel.
 *
 * Per block of 32 inputs and token: 16 multiplies of 32 bytes and about 12 other operations.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx2_quants.h"
#include "quant_kinds.h"

enum { MR_MAX = 6 };
#define DOTS_HAVE_BASE(form) ((form).offset && count_run_groups(form))

/* Groups of 4 inputs whose sums 16 bits hold; 0: not one pair of products. */
INLINE int count_run_groups(const struct quant_form form) {
    const int in_block = (int)form.block / 4, most = 32767 / (2 * 127 * (int)quant_max(form));
    return most >= in_block ? in_block : most >= 4 ? 4 : most >= 2 ? 2 : 0;
}

INLINE __m256i broadcast4(const int8_t *a) {
    return _mm256_set1_epi32(load_quad(a));
}

/* Adds groups [first, first + n) of a unit to the 16-bit sums of mr tokens. */
INLINE void add_groups(const struct quant_form form, const uint8_t *unit, int first, const int n,
                       const struct act_block *act, size_t act_stride, const int mr,
                       __m256i (*sums)[HALVES]) {
    UNROLL_GROUPS for (int g = first; g < first + n; g++) {
        const __m256i low = load_group(form, unit, g, 0), high = load_group(form, unit, g, 1);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256i quad = broadcast4(act[(size_t)m * act_stride].q + g * 4);
            sums[m][0] = _mm256_add_epi16(sums[m][0], _mm256_maddubs_epi16(low, quad));
            sums[m][1] = _mm256_add_epi16(sums[m][1], _mm256_maddubs_epi16(high, quad));
            SETTLE(sums[m][0]);
            SETTLE(sums[m][1]);
        }
    }
}

INLINE void dot_block_unsigned(const struct quant_form form, const uint8_t *unit, const int part,
                               const struct act_block *act, size_t act_stride, const int mr,
                               __m256i (*dots)[HALVES]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int n_groups = (int)form.block / 4, run = count_run_groups(form), begin = part * n_groups;
    UNROLL_GROUPS for (int first = begin; first < begin + n_groups; first += run) {
        __m256i sums[MR_MAX][HALVES];
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][0] = sums[m][1] = _mm256_setzero_si256();
        }
        add_groups(form, unit, first, run, act, act_stride, mr, sums);
        UNROLL for (int m = 0; m < mr; m++) {
            UNROLL for (int half = 0; half < HALVES; half++) {
                const __m256i wide = _mm256_madd_epi16(sums[m][half], ones);
                dots[m][half] = first == begin ? wide : _mm256_add_epi32(dots[m][half], wide);
            }
        }
    }
    if (!form.offset) return;
    UNROLL for (int m = 0; m < mr; m++) {
        const __m256i start = _mm256_set1_epi32(act[(size_t)m * act_stride].start[part]);
        dots[m][0] = _mm256_add_epi32(dots[m][0], start);
        dots[m][1] = _mm256_add_epi32(dots[m][1], start);
    }
}

/* Group g for quants up to 255: signed again, widened at once. */
INLINE void add_group_signed(const struct quant_form form, const uint8_t *unit, const int g,
                             const struct act_block *act, size_t act_stride, const int mr,
                             __m256i (*dots)[HALVES]) {
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8((char)-128);
    const __m256i w_low = _mm256_xor_si256(load_group(form, unit, g, 0), flip);
    const __m256i w_high = _mm256_xor_si256(load_group(form, unit, g, 1), flip);
    const __m256i size_low = _mm256_abs_epi8(w_low), size_high = _mm256_abs_epi8(w_high);
    UNROLL for (int m = 0; m < mr; m++) {
        const __m256i quad = broadcast4(act[(size_t)m * act_stride].q + g * 4);
        const __m256i p_low = _mm256_maddubs_epi16(size_low, _mm256_sign_epi8(quad, w_low));
        const __m256i p_high = _mm256_maddubs_epi16(size_high, _mm256_sign_epi8(quad, w_high));
        dots[m][0] = _mm256_add_epi32(dots[m][0], _mm256_madd_epi16(p_low, ones));
        dots[m][1] = _mm256_add_epi32(dots[m][1], _mm256_madd_epi16(p_high, ones));
        SETTLE(dots[m][0]);
        SETTLE(dots[m][1]);
    }
}

/* One or two tokens wait for memory, and did so longer with the loop unrolled. */
INLINE void dot_block_signed(const struct quant_form form, const uint8_t *unit,
                             const struct act_block *act, size_t act_stride, const int mr,
                             __m256i (*dots)[HALVES]) {
    const int n_groups = (int)form.block / 4;
    UNROLL for (int m = 0; m < mr; m++) {
        dots[m][0] = dots[m][1] = _mm256_setzero_si256();
    }
    if (mr <= 2) {
        NO_UNROLL for (int g = 0; g < n_groups; g++)
            add_group_signed(form, unit, g, act, act_stride, mr, dots);
    } else {
        UNROLL_GROUPS for (int g = 0; g < n_groups; g++) {
            add_group_signed(form, unit, g, act, act_stride, mr, dots);
        }
    }
}

INLINE void dot_block(const struct quant_form form, const uint8_t *unit, const int part,
                      const struct act_block *act, size_t act_stride, const int mr,
                      __m256i (*dots)[HALVES]) {
    if (count_run_groups(form))
        dot_block_unsigned(form, unit, part, act, act_stride, mr, dots);
    else
        dot_block_signed(form, unit, act, act_stride, mr, dots);
}

#include "avx2_i8.h"

void i8_f32_matmul__avx2(const struct matmul_part *p) {
    multiply_quants(p);
}
