/* neonbf16_matmul.c - matrix products of bf16 weights with BFMLALB and BFMLALT, class kpair.
 *
 *   y[r, n] = sum over pairs of inputs: fma(x[2i], w[n, 2i], fma(x[2i + 1], w[n, 2i + 1], sum))
 *
 * The two instructions widen the even or the odd halves of both operands to floats and do one fused
 * multiply-add in each lane, under all settings of FPCR: what neon_matmul_bf16.c does, without
 * masks, shifts and with half the bytes of activations. A lane of the second operand is one half,
 * so eight inputs of a token lie in a register. The other two instructions of this extension,
 * BFDOT and BFMMLA, are not used: their roundings are none of our classes. */
#include "float_env.h"
#define KIND int
enum { MR_MAX = 8, NV_MAX = 16 };
#define VECS_OF_8 2
#define VECS_OF_4 4
#define VECS_OF_2 8
#define VECS_OF_1 16

#include "neon_tile.h"

/* The odd (BFMLALT) or even (BFMLALB) weights of a vector times half `half` of x, a constant. Not
 * the intrinsics: gcc 12 puts x into registers that the instruction cannot name. */
#define HALF(n, top_or_bottom)                                                                     \
    case n:                                                                                        \
        __asm__ volatile("bfmlal" top_or_bottom " %0.4s, %1.8h, %2.h[" #n "]"                      \
                         : "+w"(sum)                                                               \
                         : "w"(w), "x"(x));                                                        \
        return sum

INLINE float32x4_t fma_half(float32x4_t sum, uint16x8_t w, uint16x8_t x, const int half) {
    switch (half) {
        HALF(0, "b");
        HALF(1, "t");
        HALF(2, "b");
        HALF(3, "t");
        HALF(4, "b");
        HALF(5, "t");
        HALF(6, "b");
        HALF(7, "t");
    default: return sum;
    }
}

/* Adds pair i, which is halves 2 * at and 2 * at + 1 of x, to all sums. */
INLINE void add_pair(const uint8_t *const *w, size_t i, const uint16x8_t *x, const int at,
                     const int mr, const int nv, float32x4_t sums[MR_MAX][NV_MAX]) {
    UNROLL for (int n = 0; n < nv; n++) {
        const uint16x8_t pairs =
            vld1q_u16((const uint16_t *)(const void *)w[n] + i * 2 * PANEL_ROWS);
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][n] = fma_half(sums[m][n], pairs, x[m], 2 * at + 1);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][n] = fma_half(sums[m][n], pairs, x[m], 2 * at);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, int kind, uint32_t row, uint32_t panel,
                          uint32_t quarter, const int mr, const int nv) {
    const size_t n_pairs = panel_pairs(p->w);
    const uint16_t *x[MR_MAX];
    const uint8_t *w[NV_MAX];
    float32x4_t sums[MR_MAX][NV_MAX];
    (void)kind;
    find_vectors(p, panel, quarter, sizeof(uint16x8_t), nv, w);
    clear_sums(mr, nv, sums);
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.halves + (size_t)(row + (uint32_t)m) * p->a.x_stride;
    }
    for (size_t i = 0; i < n_pairs; i += 4) {
        uint16x8_t values[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            values[m] = vld1q_u16(x[m] + 2 * i);
        }
        UNROLL for (int at = 0; at < 4; at++) {
            add_pair(w, i + (size_t)at, values, at, mr, nv, sums);
        }
    }
    store_sums(p, row, panel, quarter, mr, nv, sums);
}

#include "neon_walk.h"

void bf16_f32_matmul__neonbf16(const struct matmul_part *p) {
    const uint64_t env = float_env_flush_denormals();
    multiply(p, 0);
    float_env_restore(env);
}
