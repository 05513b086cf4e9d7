/* neoni8mm_matmul.c - integer matrix products with USMMLA and USDOT; neon_i8.h has what is not said
 * here.
 *
 * USMMLA multiplies two rows of eight unsigned bytes with two columns of eight signed ones and adds
 * the four results to 32-bit lanes: twice the work of SDOT.
 *
 *   panel, groups g and g + 1     r0 r1 r2 r3 | r0 r1 r2 r3     four inputs each
 *   after two zips                r0 r0 r1 r1 | r2 r2 r3 r3     eight inputs of a row together
 *   times two tokens              r0t0 r0t1 r1t0 r1t1 | r2t0 r2t1 r3t0 r3t1
 *   unzipped, once per block      r0 r1 r2 r3 of t0 | of t1
 *
 * Eight tokens times half a panel share two zips among eight multiplies. A single token takes USDOT
 * by lane. Both read quants as they lie, unsigned up to 255, so nothing is flipped.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#define DOTS_ARE_SIGNED false
enum { MR_MAX = 8, NV_MAX = 8 };
#define VECS_OF_8 2
#define VECS_OF_4 4
#define VECS_OF_2 4
#define VECS_OF_1 8

#include "neon_quants.h"

enum { PAIRS_MAX = MR_MAX / 2 };

INLINE int32x4_t dot_lane(int32x4_t sum, uint8x16_t w, int8x16_t a, const int lane) {
    switch (lane) {
    case 0: return vusdotq_laneq_s32(sum, w, a, 0);
    case 1: return vusdotq_laneq_s32(sum, w, a, 1);
    case 2: return vusdotq_laneq_s32(sum, w, a, 2);
    default: return vusdotq_laneq_s32(sum, w, a, 3);
    }
}

/* One token. */
INLINE void dot_block_alone(const struct quant_form form, const uint8_t *const *w, const int begin,
                            const int8_t *a, const int nv, int32x4_t *dots) {
    UNROLL for (int half = 0; half < count_halves(form); half++) {
        const int first = begin + half * HALF_GROUPS;
        const int8x16_t values = vld1q_s8(a + first * 4);
        UNROLL for (int g = 0; g < HALF_GROUPS; g++) {
            UNROLL for (int n = 0; n < nv; n++) {
                dots[n] = dot_lane(dots[n], load_group(form, w[n], first + g), values, g);
                SETTLE(dots[n]);
            }
        }
    }
}

/* Groups g and g + 1; a: the tokens. */
INLINE void add_groups(const struct quant_form form, const uint8_t *const *w,
                       const int8_t *const *a, const int g, const int mr, const int nv,
                       int32x4_t low[PAIRS_MAX][NV_MAX], int32x4_t high[PAIRS_MAX][NV_MAX]) {
    int8x16_t values[PAIRS_MAX];
    UNROLL for (int m = 0; m < mr / 2; m++) {
        values[m] = vcombine_s8(vld1_s8(a[2 * m] + 4 * g), vld1_s8(a[2 * m + 1] + 4 * g));
    }
    UNROLL for (int n = 0; n < nv; n++) {
        const uint32x4_t first = vreinterpretq_u32_u8(load_group(form, w[n], g));
        const uint32x4_t second = vreinterpretq_u32_u8(load_group(form, w[n], g + 1));
        const uint8x16_t rows01 = vreinterpretq_u8_u32(vzip1q_u32(first, second));
        const uint8x16_t rows23 = vreinterpretq_u8_u32(vzip2q_u32(first, second));
        UNROLL for (int m = 0; m < mr / 2; m++) {
            low[m][n] = vusmmlaq_s32(low[m][n], rows01, values[m]);
            high[m][n] = vusmmlaq_s32(high[m][n], rows23, values[m]);
            SETTLE(low[m][n]);
            SETTLE(high[m][n]);
        }
    }
}

INLINE void dot_block(const struct quant_form form, const uint8_t *const *w, const int begin,
                      const int8_t *const *a, const int mr, const int nv,
                      int32x4_t dots[MR_MAX][NV_MAX]) {
    int32x4_t low[PAIRS_MAX][NV_MAX], high[PAIRS_MAX][NV_MAX];
    if (mr == 1) {
        dot_block_alone(form, w, begin, a[0], nv, dots[0]);
        return;
    }
    UNROLL for (int m = 0; m < mr / 2; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            low[m][n] = high[m][n] = vdupq_n_s32(0);
        }
    }
    UNROLL for (int g = begin; g < begin + (int)form.block / 4; g += 2) {
        add_groups(form, w, a, g, mr, nv, low, high);
    }
    UNROLL for (int m = 0; m < mr / 2; m++) {
        UNROLL for (int n = 0; n < nv; n++) {
            int32x4_t *first = &dots[2 * m][n], *second = &dots[2 * m + 1][n];
            *first = vaddq_s32(*first, vuzp1q_s32(low[m][n], high[m][n]));
            *second = vaddq_s32(*second, vuzp2q_s32(low[m][n], high[m][n]));
        }
    }
}

#include "neon_i8.h"

void i8_f32_matmul__neoni8mm(const struct matmul_part *p) {
    multiply_quants(p);
}
