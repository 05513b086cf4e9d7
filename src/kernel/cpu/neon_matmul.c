/* neon_matmul.c - float matrix products on four lanes: f32 and f16 weights, class kseq.
 *
 *   y[r, n] = sum over k of x[r, k] * w[n, k]
 *
 * Lanes run along output rows: a panel of 16 is four vectors. Every (token, output) pair is one
 * chain of FMAs over k, ascending, whatever the tile. Tiles are 16 sums (neon_walk.h): 8 tokens
 * times half a panel, which converts a weight once for 8 tokens, down to one token times four
 * panels, which reads four streams of weights side by side. Four inputs of a token lie in a
 * register and are multiplied by lane; broadcasting loads would cost an operation each. f16 becomes
 * float by FCVTL.
 *
 * Bound by bandwidth for few tokens, by the FMA units from 4 on; not measured (docs/SPEED.md).
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#define KIND enum pack_format
enum { MR_MAX = 8, NV_MAX = 16 };
#define VECS_OF_8 2
#define VECS_OF_4 4
#define VECS_OF_2 8
#define VECS_OF_1 16

#include "neon_tile.h"

/* Weights of input k for a vector of rows; w: the vector in the panel's first input. */
INLINE float32x4_t load_weights(enum pack_format format, const uint8_t *w, size_t k) {
    if (format == PACK_F32) return vld1q_f32((const float *)(const void *)w + k * PANEL_ROWS);
    const uint16x4_t h = vld1_u16((const uint16_t *)(const void *)w + k * PANEL_ROWS);
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

/* Adds input k, which is lane `lane` of x, to all sums. */
INLINE void add_input(enum pack_format format, const uint8_t *const *w, size_t k,
                      const float32x4_t *x, const int lane, const int mr, const int nv,
                      float32x4_t sums[MR_MAX][NV_MAX]) {
    UNROLL for (int n = 0; n < nv; n++) {
        const float32x4_t weights = load_weights(format, w[n], k);
        UNROLL for (int m = 0; m < mr; m++) {
            sums[m][n] = neon_fma_lane(sums[m][n], weights, x[m], lane);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, enum pack_format format, uint32_t row,
                          uint32_t panel, uint32_t quarter, const int mr, const int nv) {
    const size_t n_in = p->w->n_in, vec_bytes = format == PACK_F32 ? 16 : 8;
    const float *x[MR_MAX];
    const uint8_t *w[NV_MAX];
    float32x4_t sums[MR_MAX][NV_MAX];
    find_vectors(p, panel, quarter, vec_bytes, nv, w);
    clear_sums(mr, nv, sums);
    UNROLL for (int m = 0; m < mr; m++) {
        x[m] = p->a.x + (size_t)(row + (uint32_t)m) * p->a.x_stride;
    }
    size_t k = 0;
    for (; n_in - k >= 4; k += 4) {
        float32x4_t values[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            values[m] = vld1q_f32(x[m] + k);
        }
        UNROLL for (int lane = 0; lane < 4; lane++) {
            add_input(format, w, k + (size_t)lane, values, lane, mr, nv, sums);
        }
    }
    for (; k < n_in; k++) {
        float32x4_t values[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            values[m] = vld1q_dup_f32(x[m] + k);
        }
        add_input(format, w, k, values, 0, mr, nv, sums);
    }
    store_sums(p, row, panel, quarter, mr, nv, sums);
}

#include "neon_walk.h"

void f32_f32_matmul__neon(const struct matmul_part *part) {
    multiply(part, PACK_F32);
}

void f16_f32_matmul__neon(const struct matmul_part *part) {
    multiply(part, PACK_F16);
}
