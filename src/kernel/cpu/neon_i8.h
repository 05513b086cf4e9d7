/* neon_i8.h - integer matrix products on NEON: what the variants for plain NEON, dot product and
 * int8 matrix instructions share. Every quantised weight type, class kseq_i8. A variant defines,
 * before it includes this, what neon_walk.h asks for but KIND and multiply_tile, and
 *
 *   MR_MAX, NV_MAX               most token rows and vectors of a tile
 *   DOTS_ARE_SIGNED              its dot products want the quants of Q8_0 signed
 *   dot_block(kind, w, a, mr, nv, dots)
 *                                dots[m][n] += integer dot products of one scale block: w[n] is the
 *                                vector's first quants, a[m] the activations
 *
 * after including neon_quants.h, and calls multiply_i4() and multiply_i8().
 *
 *   dot  = sum over a scale block of (w[n, k] - offset) * a[r, k]      exact, in any order
 *   y[r, n] = fma(float(dot), d[n] * s[r], y[r, n])      blocks ascending; then the minimum
 *
 * A vector of weights is four output rows times four inputs. The sum starts from what the offset
 * adds up to (struct act_block), or from zero where the quants were made signed again. The float
 * sums of a tile are touched once per block: where they do not fit beside the integers they wait on
 * the stack. Included by neon*.c only. */
#ifndef KERNEL_CPU_NEON_I8_H
#define KERNEL_CPU_NEON_I8_H

#include "neon_quants.h"

/* One scale block into the float sums; w: of the tile's vectors, act: the tokens' blocks of 32. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *const *w, const uint8_t *const *s,
                      const struct act_block *act, size_t act_stride, const int part, const int mr,
                      const int nv, float32x4_t sums[MR_MAX][NV_MAX]) {
    int32x4_t dots[MR_MAX][NV_MAX];
    const int8_t *a[MR_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        const struct act_block *block = &act[(size_t)m * act_stride];
        a[m] = block->q + part * kind.block;
        UNROLL for (int n = 0; n < nv; n++) {
            dots[m][n] = vdupq_n_s32(DOTS_ARE_SIGNED && kind.is_byte ? 0 : block->start[part]);
        }
    }
    dot_block(kind, w, a, mr, nv, dots);
    UNROLL for (int n = 0; n < nv; n++) {
        const float32x4_t d = load_scales(kind, s[n], 0);
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const float32x4_t scale = vmulq_f32(d, vdupq_n_f32(block->scale));
            sums[m][n] = vfmaq_f32(sums[m][n], vcvtq_f32_s32(dots[m][n]), scale);
            if (!kind.has_min) continue;
            const float32x4_t sum = vdupq_n_f32(block->sum[part]);
            sums[m][n] = vfmaq_f32(sums[m][n], load_scales(kind, s[n], 1), sum);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, uint32_t quarter, const int mr, const int nv) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, block_bytes = p->w->block_bytes;
    const size_t scales_at = panel_scales_at(p->w), scale_bytes = kind.has_half_scales ? 8 : 16;
    const struct act_block *act = p->a.blocks + row * n_blocks;
    const uint8_t *w[NV_MAX], *s[NV_MAX];
    float32x4_t sums[MR_MAX][NV_MAX];
    find_vectors(p, panel, quarter, sizeof(uint8x16_t), nv, w);
    find_vectors(p, panel, quarter, scale_bytes, nv, s);
    clear_sums(mr, nv, sums);
    UNROLL for (int n = 0; n < nv; n++) {
        s[n] += scales_at;
    }
    for (size_t b = 0; b < n_blocks; b++, act++) {
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            add_block(kind, w, s, act, n_blocks, part, mr, nv, sums);
            UNROLL for (int n = 0; n < nv; n++) {
                w[n] += block_bytes;
                s[n] += block_bytes;
            }
        }
    }
    store_sums(p, row, panel, quarter, mr, nv, sums);
}

#define KIND struct i8_kind
#include "neon_walk.h"

/* One function per kind, so that each is compiled by itself. */
#define KIND_BODY(name, ...)                                                                       \
    static void name(const struct matmul_part *p) {                                                \
        multiply(p, (struct i8_kind){__VA_ARGS__});                                                \
    }
/*                       block, groups of a run, minimum, half bytes, f16 scales, bytes */
KIND_BODY(multiply_q4_0, 32, 8, false, true, true, false)
KIND_BODY(multiply_q4_1, 32, 8, true, true, true, false)
KIND_BODY(multiply_q4_k, 32, 8, true, true, false, false)
KIND_BODY(multiply_q5_0, 32, 8, false, false, true, false)
KIND_BODY(multiply_q5_1, 32, 8, true, false, false, false)
KIND_BODY(multiply_q8_0, 32, 2, false, false, true, true)
KIND_BODY(multiply_16, 16, 4, false, false, false, false)
KIND_BODY(multiply_16_min, 16, 4, true, false, false, false)

static void multiply_i4(const struct matmul_part *p) {
    if (!p->w->has_min)
        multiply_q4_0(p);
    else
        p->w->has_half_scales ? multiply_q4_1(p) : multiply_q4_k(p);
}

static void multiply_i8(const struct matmul_part *p) {
    if (p->w->block == 16)
        p->w->has_min ? multiply_16_min(p) : multiply_16(p);
    else if (p->w->quant_max > 63)
        multiply_q8_0(p);
    else
        p->w->has_min ? multiply_q5_1(p) : multiply_q5_0(p);
}

#endif
