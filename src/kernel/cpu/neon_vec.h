/* neon_vec.h - what the NEON kernels share: tails of rows, the order of 16 partial sums, and
 * products by a lane.
 *
 * NEON has no masked loads: a tail of 1 to 3 elements goes through four floats on the stack, so
 * that it takes the same vector code as the rest. Included by neon*.c only. */
#ifndef KERNEL_CPU_NEON_VEC_H
#define KERNEL_CPU_NEON_VEC_H

#include "tile_loops.h"

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

/* The first n <= 4 lanes; the others are zero, or left alone. */
INLINE float32x4_t neon_load_n(const float *x, uint32_t n) {
    float lanes[4] = {0};
    memcpy(lanes, x, (n < 4 ? n : 4) * sizeof *lanes);
    return vld1q_f32(lanes);
}

INLINE void neon_store_n(float *y, uint32_t n, float32x4_t x) {
    float lanes[4];
    vst1q_f32(lanes, x);
    memcpy(y, lanes, (n < 4 ? n : 4) * sizeof *lanes);
}

INLINE uint32x4_t neon_lane_numbers(void) {
    static const uint32_t numbers[4] = {0, 1, 2, 3};
    return vld1q_u32(numbers);
}

/* scalar_sum16 of four vectors. */
INLINE float neon_sum16(const float32x4_t *sums) {
    const float32x4_t s4 = vaddq_f32(vaddq_f32(sums[0], sums[2]), vaddq_f32(sums[1], sums[3]));
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

/* sum + w * x[lane]. The instruction holds the lane: a constant where it is inlined. Not the
 * intrinsic: gcc makes a vector of the lane of its own for the second use of it, which takes a
 * register and an operation each and leaves none for the sums of a tile. */
#define NEON_LANE(n)                                                                               \
    case n:                                                                                        \
        __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #n "]" : "+w"(sum) : "w"(w), "w"(x));          \
        return sum

INLINE float32x4_t neon_fma_lane(float32x4_t sum, float32x4_t w, float32x4_t x, const int lane) {
    switch (lane) {
        NEON_LANE(0);
        NEON_LANE(1);
        NEON_LANE(2);
        NEON_LANE(3);
    default: return sum;
    }
}

#endif
