/* neon_matmul_i8.c - integer matrix products on plain NEON, for processors without dot product
 * instructions; neon_i8.h has what is not said here.
 *
 * Four activations are broadcast, SMULL multiplies eight bytes and adds the products to 16 bits;
 * SADALP then adds neighbours to 32. How many groups of four inputs may be added in 16 bits depends
 * on the largest quant, |a| <= 127, one product per lane and group:
 *
 *   quants up to   15   31   63   128 (Q8_0, signed again)
 *   groups          8    8    4    2         63 * 127 * 4 = 32,004, 128 * 127 * 2 = 32,512 < 32,768
 *
 * Neighbouring lanes of the 32-bit sums belong to one row; the last step adds them. A tile is four
 * (token, vector) pairs, each of two 16-bit and two 32-bit sums.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#define DOTS_ARE_SIGNED true
enum { MR_MAX = 4, NV_MAX = 4 };
#define VECS_OF_8 0
#define VECS_OF_4 1
#define VECS_OF_2 2
#define VECS_OF_1 4

#include "neon_quants.h"

INLINE int8x16_t broadcast4(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return vreinterpretq_s8_s32(vdupq_n_s32(quad));
}

/* Groups of 4 inputs whose sums 16 bits hold. */
INLINE int count_run_groups(const struct quant_form form) {
    const int largest = form.low_bits == 8 ? 128 : (int)quant_max(form);
    const int in_block = (int)form.block / 4, most = 32767 / (127 * largest);
    return most >= in_block ? in_block : most >= 4 ? 4 : 2;
}

/* n_groups groups of a unit, from group `first` on, into 16-bit sums of rows 0, 1 and of rows
 * 2, 3. */
INLINE void add_groups(const struct quant_form form, const uint8_t *const *w,
                       const int8_t *const *a, int first, int n_groups, const int mr, const int nv,
                       int16x8_t low[MR_MAX][NV_MAX], int16x8_t high[MR_MAX][NV_MAX]) {
    UNROLL for (int g = first; g < first + n_groups; g++) {
        int8x16_t quads[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            quads[m] = broadcast4(a[m] + g * 4);
        }
        UNROLL for (int n = 0; n < nv; n++) {
            const int8x16_t quants = load_signed(form, w[n], g);
            UNROLL for (int m = 0; m < mr; m++) {
                low[m][n] = vmlal_s8(low[m][n], vget_low_s8(quants), vget_low_s8(quads[m]));
                high[m][n] = vmlal_high_s8(high[m][n], quants, quads[m]);
            }
        }
    }
}

INLINE void dot_block(const struct quant_form form, const uint8_t *const *w, const int begin,
                      const int8_t *const *a, const int mr, const int nv,
                      int32x4_t dots[MR_MAX][NV_MAX]) {
    const int end = begin + (int)form.block / 4, run = count_run_groups(form);
    int32x4_t wide_low[MR_MAX][NV_MAX], wide_high[MR_MAX][NV_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            wide_low[m][n] = wide_high[m][n] = vdupq_n_s32(0);
        }
    }
    UNROLL for (int first = begin; first < end; first += run) {
        int16x8_t low[MR_MAX][NV_MAX], high[MR_MAX][NV_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            UNROLL for (int n = 0; n < nv; n++) {
                low[m][n] = high[m][n] = vdupq_n_s16(0);
            }
        }
        add_groups(form, w, a, first, run, mr, nv, low, high);
        UNROLL for (int m = 0; m < mr; m++) {
            UNROLL for (int n = 0; n < nv; n++) {
                wide_low[m][n] = vpadalq_s16(wide_low[m][n], low[m][n]);
                wide_high[m][n] = vpadalq_s16(wide_high[m][n], high[m][n]);
            }
        }
    }
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            dots[m][n] = vaddq_s32(dots[m][n], vpaddq_s32(wide_low[m][n], wide_high[m][n]));
        }
    }
}

#include "neon_i8.h"

void i8_f32_matmul__neon(const struct matmul_part *p) {
    multiply_quants(p);
}
