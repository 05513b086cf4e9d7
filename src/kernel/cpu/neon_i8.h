/* neon_i8.h - integer matrix products on NEON: what the variants for plain NEON, dot product and
 * int8 matrix instructions share. Every quantised weight type, class kseq_i8. A variant defines,
 * before it includes this, what neon_walk.h asks for but KIND and multiply_tile, and
 *
 *   MR_MAX, NV_MAX               most token rows and vectors of a tile
 *   DOTS_ARE_SIGNED              its dot products want the quants of Q8_0 signed
 *   dot_block(form, w, begin, a, mr, nv, dots)
 *                                dots[m][n] += integer dot products of the scale block that begins
 *                                with group `begin`: w[n] is the vector's first quants of the unit,
 *                                a[m] the activations of the unit
 *
 * after including neon_quants.h, and calls multiply_quants().
 *
 *   dot  = sum over a scale block of (w[n, k] - offset) * a[r, k]      exact, in any order
 *   y[r, n] = fma(float(dot) * d[n], s[r], y[r, n])      blocks ascending; first the minimum
 *
 * A vector of weights is four output rows times four inputs. The sum starts from what the offset
 * adds up to (struct act_block), or from INT_BASE alone where the quants were made signed again.
 * The float sums of a tile are touched once per block: where they do not fit beside the integers
 * they wait on the stack. Included by neon*.c only. */
#ifndef KERNEL_CPU_NEON_I8_H
#define KERNEL_CPU_NEON_I8_H

#include "neon_quants.h"
#include "quant_kinds.h"

/* One scale block into the float sums; chunks: of the tile's panels, act: the tokens' blocks of 32
 * that belong to the unit. */
INLINE void add_block(const struct quant_form form, const uint8_t *const *chunks, size_t unit,
                      uint32_t quarter, const struct act_block *act, size_t act_stride,
                      const int part, const int mr, const int nv,
                      float32x4_t sums[MR_MAX][NV_MAX]) {
    const bool is_signed = DOTS_ARE_SIGNED && form.low_bits == 8;
    int32x4_t dots[MR_MAX][NV_MAX];
    struct quant_block at[NV_MAX];
    const uint8_t *w[NV_MAX];
    const int8_t *a[MR_MAX];
    UNROLL for (int n = 0; n < nv; n++) {
        at[n] = quant_find_block(form, chunks[n / QUARTERS], unit, (uint32_t)part);
        w[n] = at[n].unit + (quarter + (uint32_t)n % QUARTERS) * sizeof(uint8x16_t);
    }
    UNROLL for (int m = 0; m < mr; m++) {
        const struct act_block *block = &act[(size_t)m * act_stride];
        a[m] = block->q;
        UNROLL for (int n = 0; n < nv; n++) {
            dots[m][n] = vdupq_n_s32(is_signed ? INT_BASE_BITS : block->start[part]);
        }
    }
    dot_block(form, w, part * (int)form.block / 4, a, mr, nv, dots);
    UNROLL for (int n = 0; n < nv; n++) {
        const uint32_t rows = quarter + (uint32_t)n % QUARTERS;
        const float32x4_t d = load_scales(form, &at[n], 0, rows);
        const float32x4_t base = vmulq_n_f32(d, -INT_BASE);
        const float32x4_t minimum = form.has_min ? load_scales(form, &at[n], 1, rows) : d;
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const float32x4_t scaled = vfmaq_f32(base, vreinterpretq_f32_s32(dots[m][n]), d);
            if (form.has_min)
                sums[m][n] = vfmaq_f32(sums[m][n], minimum, vdupq_n_f32(block->sum[part]));
            sums[m][n] = vfmaq_f32(sums[m][n], scaled, vdupq_n_f32(block->scale));
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct quant_form form, uint32_t row,
                          uint32_t panel, uint32_t quarter, const int mr, const int nv) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, in_chunk = quant_chunk_units(form);
    const struct act_block *act = p->a.blocks + row * n_units;
    const uint8_t *chunks[(NV_MAX + QUARTERS - 1) / QUARTERS];
    float32x4_t sums[MR_MAX][NV_MAX];
    clear_sums(mr, nv, sums);
    UNROLL for (int i = 0; i < (nv + QUARTERS - 1) / QUARTERS; i++) {
        chunks[i] = p->w->data + (panel + (uint32_t)i) * p->w->panel_bytes;
    }
    for (size_t first = 0; first < n_units; first += in_chunk) {
        const size_t n = n_units - first < in_chunk ? n_units - first : in_chunk;
        for (size_t unit = 0; unit < n; unit++, act++) {
            UNROLL for (int part = 0; part < ACT_BLOCK / (int)form.block; part++) {
                add_block(form, chunks, unit, quarter, act, n_units, part, mr, nv, sums);
            }
        }
        UNROLL for (int i = 0; i < (nv + QUARTERS - 1) / QUARTERS; i++) {
            chunks[i] += quant_chunk_bytes(form);
        }
    }
    store_sums(p, row, panel, quarter, mr, nv, sums);
}

#define KIND struct quant_form
#include "neon_walk.h"

#endif
