/* avxvnni_matmul_i8.c - integer matrix products with VNNI on 256 bits, for processors that have it
 * without AVX-512 (most laptops since 2021): every quantised weight type, class kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a), d[n] * s[r], y[r, n])      blocks ascending
 *
 * As avx512_matmul_i8.c, on half a panel at a time: a vector is 8 output rows times 4 inputs. There
 * are 16 registers: the integer sums of a block of 6 tokens times one panel (12), two vectors of
 * quants and one broadcast. The float sums of the tile stay in memory, touched once per block. Per
 * block of 32 inputs and token: 16 VPDPBUSD and 8 float operations, loads and stores of sums
 * included; plain AVX2 needs three instructions for each VPDPBUSD.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx2_tile.h"
#include "vnni_kinds.h"

enum { AHEAD_BLOCKS = 4, MR_MAX = 6, GROUP_BYTES = 4 * PANEL_ROWS, HALVES = 2, HALF_BYTES = 32 };

/* Group g of a block: 4 inputs of 8 rows, the low or the high half of the panel. */
INLINE __m256i load_group(const struct i8_kind kind, const uint8_t *w, int g, int half) {
    const int group = kind.is_nibbles ? g % 4 : g;
    const uint8_t *at = w + group * GROUP_BYTES + half * HALF_BYTES;
    const __m256i both = _mm256_load_si256((const __m256i *)(const void *)at);
    if (!kind.is_nibbles) return both;
    const __m256i moved = g < 4 ? both : _mm256_srli_epi16(both, 4);
    return _mm256_and_si256(moved, _mm256_set1_epi8(15));
}

/* Eight scales or minimums of a block, from number i on. */
INLINE __m256 load_scales(const struct i8_kind kind, const uint8_t *scales, int i) {
    if (!kind.has_half_scales) return _mm256_load_ps((const float *)(const void *)scales + i);
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(scales + 2 * i)));
}

/* One token waits for memory: blocks ahead are asked for. */
INLINE void prefetch_block(const uint8_t *w, size_t block_bytes) {
    for (size_t at = 0; at < block_bytes; at += 64)
        _mm_prefetch((const char *)w + AHEAD_BLOCKS * block_bytes + at, _MM_HINT_T0);
}

/* One scale block of a panel into the sums of mr tokens; act: their blocks of 32. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *w, const struct act_block *act,
                      size_t act_stride, const int part, const int mr,
                      __m256 sums[MR_MAX][HALVES]) {
    __m256i dots[MR_MAX][HALVES];
    UNROLL for (int m = 0; m < mr; m++) {
        dots[m][0] = dots[m][1] = _mm256_set1_epi32(act[(size_t)m * act_stride].start[part]);
    }
    UNROLL for (int g = 0; g < kind.block / 4; g++) {
        const __m256i low = load_group(kind, w, g, 0), high = load_group(kind, w, g, 1);
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = act[(size_t)m * act_stride].q + part * kind.block + g * 4;
            const __m256i quad = _mm256_set1_epi32(load_quad(q));
            dots[m][0] = _mm256_dpbusd_avx_epi32(dots[m][0], low, quad);
            dots[m][1] = _mm256_dpbusd_avx_epi32(dots[m][1], high, quad);
            SETTLE(dots[m][0]);
            SETTLE(dots[m][1]);
        }
    }
    const uint8_t *scales = w + kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
    UNROLL for (int half = 0; half < HALVES; half++) {
        const __m256 d = load_scales(kind, scales, 8 * half);
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const __m256 scale = _mm256_mul_ps(d, _mm256_broadcast_ss(&block->scale));
            __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[m][half]), scale, sums[m][half]);
            if (kind.has_min) {
                const __m256 minimum = load_scales(kind, scales, PANEL_ROWS + 8 * half);
                sum = _mm256_fmadd_ps(minimum, _mm256_broadcast_ss(&block->sum[part]), sum);
            }
            sums[m][half] = sum;
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, block_bytes = p->w->block_bytes;
    const uint8_t *w = p->w->data + (size_t)panel * p->w->panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_blocks;
    __m256 sums[MR_MAX][HALVES];
    UNROLL for (int m = 0; m < mr; m++) {
        sums[m][0] = sums[m][1] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, act++) {
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            if (mr == 1) prefetch_block(w, block_bytes);
            add_block(kind, w, act, n_blocks, part, mr, sums);
            w += block_bytes;
        }
    }
    UNROLL for (int m = 0; m < mr; m++) {
        avx2_store(p, row + (uint32_t)m, panel, sums[m][0], sums[m][1]);
    }
}

INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind) {
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        const uint32_t end = p->row_first + p->n_rows;
        uint32_t row = p->row_first;
        for (; end - row >= 6; row += 6) multiply_tile(p, kind, row, panel, 6);
        for (; end - row >= 4; row += 4) multiply_tile(p, kind, row, panel, 4);
        for (; end - row >= 2; row += 2) multiply_tile(p, kind, row, panel, 2);
        if (end > row) multiply_tile(p, kind, row, panel, 1);
    }
}

void i4_f32_matmul__avxvnni(const struct matmul_part *p) {
    multiply_i4(p);
}

void i8_f32_matmul__avxvnni(const struct matmul_part *p) {
    multiply_i8(p);
}
