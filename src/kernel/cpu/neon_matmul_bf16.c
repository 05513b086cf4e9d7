/* neon_matmul_bf16.c - matrix products of bf16 weights on four lanes, class kpair.
 *
 *   y[r, n] = sum over pairs of inputs: fma(x[2i], w[n, 2i], fma(x[2i + 1], w[n, 2i + 1], sum))
 *
 * Lanes run along output rows. A panel's vector holds a pair of bf16 weights of four rows: the odd
 * one is a float once the other is masked away, the even one after a shift. Tiles and chains as in
 * neon_matmul.c, in the order that VDPBF16PS of x86 has, and without denormals, as it: all machines
 * give the same bits but where a product is within a rounding of the smallest normal number, which
 * Arm flushes before it rounds.
 *
 * BFDOT and BFMMLA are not used: they round products and their sum on the way (and otherwise where
 * FPCR.EBF is set), which is none of our classes. BFMLALB and BFMLALT are (neonbf16_matmul.c). */
#include "float_env.h"
#define KIND int
enum { MR_MAX = 8, NV_MAX = 16 };
#define VECS_OF_8 2
#define VECS_OF_4 4
#define VECS_OF_2 8
#define VECS_OF_1 16

#include "neon_tile.h"

/* Adds pair i, which is lanes `lane` and lane + 1 of x, to all sums. */
INLINE void add_pair(const uint8_t *const *w, size_t i, const float32x4_t *x, const int lane,
                     const int mr, const int nv, float32x4_t sums[MR_MAX][NV_MAX]) {
    UNROLL for (int n = 0; n < nv; n++) {
        const uint32x4_t pairs = vld1q_u32((const uint32_t *)(const void *)w[n] + i * PANEL_ROWS);
        const float32x4_t even = vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
        const float32x4_t odd = vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xffff0000u)));
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][n] = neon_fma_lane(sums[m][n], odd, x[m], lane + 1);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][n] = neon_fma_lane(sums[m][n], even, x[m], lane);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, int kind, uint32_t row, uint32_t panel,
                          uint32_t quarter, const int mr, const int nv) {
    const size_t n_pairs = panel_pairs(p->w);
    const float *x[MR_MAX];
    const uint8_t *w[NV_MAX];
    float32x4_t sums[MR_MAX][NV_MAX];
    (void)kind;
    find_vectors(p, panel, quarter, sizeof(uint32x4_t), nv, w);
    clear_sums(mr, nv, sums);
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
    }
    for (size_t i = 0; i < n_pairs; i += 2) {
        float32x4_t values[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            values[m] = vld1q_f32(x[m] + 2 * i);
        }
        add_pair(w, i, values, 0, mr, nv, sums);
        add_pair(w, i + 1, values, 2, mr, nv, sums);
    }
    store_sums(p, row, panel, quarter, mr, nv, sums);
}

#include "neon_walk.h"

void bf16_f32_matmul__neon(const struct matmul_part *p) {
    const uint64_t env = float_env_flush_denormals();
    multiply(p, 0);
    float_env_restore(env);
}
