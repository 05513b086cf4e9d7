/* neondotprod_matmul.c - integer matrix products with SDOT; neon_i8.h has what is not said here.
 *
 * SDOT adds to each 32-bit lane the products of four signed bytes: a vector of weights is four rows
 * of four inputs, and its other operand is one lane of 16 activations. Quants up to 63 are signed
 * bytes as they are; those of Q8_0 become so by flipping a bit. Nothing saturates. */
#define DOTS_ARE_SIGNED true
enum { MR_MAX = 4, NV_MAX = 8 };
#define VECS_OF_8 0
#define VECS_OF_4 4
#define VECS_OF_2 4
#define VECS_OF_1 8

#include "neon_quants.h"

INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t w, int8x16_t a, const int lane) {
    switch (lane) {
    case 0: return vdotq_laneq_s32(sum, w, a, 0);
    case 1: return vdotq_laneq_s32(sum, w, a, 1);
    case 2: return vdotq_laneq_s32(sum, w, a, 2);
    default: return vdotq_laneq_s32(sum, w, a, 3);
    }
}

INLINE void dot_block(const struct quant_form form, const uint8_t *const *w, const int begin,
                      const int8_t *const *a, const int mr, const int nv,
                      int32x4_t dots[MR_MAX][NV_MAX]) {
    UNROLL for (int half = 0; half < count_halves(form); half++) {
        const int first = begin + half * HALF_GROUPS;
        int8x16_t values[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            values[m] = vld1q_s8(a[m] + first * 4);
        }
        UNROLL for (int g = 0; g < HALF_GROUPS; g++) {
            UNROLL for (int n = 0; n < nv; n++) {
                const int8x16_t quants = load_signed(form, w[n], first + g);
                UNROLL for (int m = 0; m < mr; m++) {
                    dots[m][n] = dot_lane(dots[m][n], quants, values[m], g);
                    SETTLE(dots[m][n]);
                }
            }
        }
    }
}

#include "neon_i8.h"

void i8_f32_matmul__neondotprod(const struct matmul_part *p) {
    multiply_quants(p);
}
