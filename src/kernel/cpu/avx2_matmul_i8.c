/* avx2_matmul_i8.c - integer matrix products on AVX2: every quantised weight type, in panels of
 * bytes (I8) and of half bytes (I4); class kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a), d[n] * s[r], y[r, n])      blocks ascending
 *
 * A vector of weights is 8 output rows times 4 inputs, a panel two of them; the 4 activations are
 * broadcast. VPMADDUBSW multiplies bytes and adds pairs into 16 bits with saturation, so how many
 * groups of 4 inputs may be added up in 16 bits depends on the largest quant: |a| <= 127, two
 * products per lane and group:
 *
 *   quants up to   15   31   63   255
 *   groups          8    4    2    -         15 * 127 * 2 * 8 = 30,480 < 32,768
 *
 * Then VPMADDWD by ones widens to 32 bits. For quants up to 255 (Q8_0) a single pair would
 * overflow: they become signed again (xor 128), and |w| times sign(a, w) fits: 128 * 127 * 2 =
 * 32,512. A weight of -128 is right too, since its magnitude is an unsigned byte. (Activations are
 * never -128.) All of this is exact, so it gives the bits of the plain C kernel.
 *
 * The tile is MR tokens times one panel; the sums of blocks stay in registers or, from MR 4 on,
 * partly on the stack, touched once per block. Per block of 32 inputs and token: 16 multiplies of
 * 32 bytes and about 12 other operations.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx2_tile.h"

#include <string.h>

enum { AHEAD_BLOCKS = 4, MR_MAX = 6, GROUP_BYTES = 4 * PANEL_ROWS };

/* What is known at compile time about a weight type. */
struct i8_kind {
    int block;            /* inputs that share a scale */
    int run_groups;       /* groups added in 16 bits; 0: signed bytes, each group widened */
    bool has_offset;      /* signed weights, stored with an offset; else there is a minimum */
    bool is_nibbles;      /* I4: two quants a byte */
    bool has_half_scales; /* f16 */
};

INLINE __m256i broadcast4(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return _mm256_set1_epi32(quad);
}

/* Group g of a block: 4 inputs of 16 rows, low and high half of the panel. */
INLINE void load_group(const struct i8_kind kind, const uint8_t *w, int g, const bool is_upper,
                       __m256i *low, __m256i *high) {
    const __m256i *at = (const __m256i *)(const void *)(w + g * GROUP_BYTES);
    *low = _mm256_load_si256(at);
    *high = _mm256_load_si256(at + 1);
    if (!kind.is_nibbles) return;
    const __m256i mask = _mm256_set1_epi8(15);
    if (is_upper) {
        *low = _mm256_srli_epi16(*low, 4);
        *high = _mm256_srli_epi16(*high, 4);
    }
    *low = _mm256_and_si256(*low, mask);
    *high = _mm256_and_si256(*high, mask);
}

/* Adds groups [first, first + n) to the 16-bit sums of mr tokens; k: input of the first one. */
INLINE void add_groups(const struct i8_kind kind, const uint8_t *w, int first, const int n,
                       const bool is_upper, const int8_t *const *a, int k, const int mr,
                       __m256i *low, __m256i *high) {
    NO_UNROLL for (int g = 0; g < n; g++) {
        __m256i w_low, w_high;
        load_group(kind, w, first + g, is_upper, &w_low, &w_high);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256i quad = broadcast4(a[m] + k + g * 4);
            low[m] = _mm256_add_epi16(low[m], _mm256_maddubs_epi16(w_low, quad));
            high[m] = _mm256_add_epi16(high[m], _mm256_maddubs_epi16(w_high, quad));
            SETTLE(low[m]);
            SETTLE(high[m]);
        }
    }
}

/* The dot products of one scale block, 32-bit, for mr tokens: low and high half of the panel. */
INLINE void dot_block(const struct i8_kind kind, const uint8_t *w, const int8_t *const *a, int k,
                      const int mr, __m256i *low32, __m256i *high32) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int n_groups = kind.block / 4;
    UNROLL for (int m = 0; m < mr; m++) {
        low32[m] = high32[m] = _mm256_setzero_si256();
    }
    for (int first = 0; first < n_groups; first += kind.run_groups) {
        __m256i low[MR_MAX], high[MR_MAX];
        UNROLL for (int m = 0; m < mr; m++) {
            low[m] = high[m] = _mm256_setzero_si256();
        }
        if (kind.is_nibbles) {
            add_groups(kind, w, 0, n_groups / 2, false, a, k, mr, low, high);
            add_groups(kind, w, 0, n_groups / 2, true, a, k + kind.block / 2, mr, low, high);
        } else {
            add_groups(kind, w, first, kind.run_groups, false, a, k + first * 4, mr, low, high);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256i wide_low = _mm256_madd_epi16(low[m], ones);
            const __m256i wide_high = _mm256_madd_epi16(high[m], ones);
            low32[m] = _mm256_add_epi32(low32[m], wide_low);
            high32[m] = _mm256_add_epi32(high32[m], wide_high);
        }
    }
}

/* The same for quants up to 255: signed again, widened group by group. */
INLINE void dot_block_signed(const struct i8_kind kind, const uint8_t *w, const int8_t *const *a,
                             int k, const int mr, __m256i *low32, __m256i *high32) {
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8((char)-128);
    UNROLL for (int m = 0; m < mr; m++) {
        low32[m] = high32[m] = _mm256_setzero_si256();
    }
    NO_UNROLL for (int g = 0; g < kind.block / 4; g++) {
        const __m256i *at = (const __m256i *)(const void *)(w + g * GROUP_BYTES);
        const __m256i w_low = _mm256_xor_si256(_mm256_load_si256(at), flip);
        const __m256i w_high = _mm256_xor_si256(_mm256_load_si256(at + 1), flip);
        const __m256i size_low = _mm256_abs_epi8(w_low), size_high = _mm256_abs_epi8(w_high);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256i quad = broadcast4(a[m] + k + g * 4);
            const __m256i p_low = _mm256_maddubs_epi16(size_low, _mm256_sign_epi8(quad, w_low));
            const __m256i p_high = _mm256_maddubs_epi16(size_high, _mm256_sign_epi8(quad, w_high));
            low32[m] = _mm256_add_epi32(low32[m], _mm256_madd_epi16(p_low, ones));
            high32[m] = _mm256_add_epi32(high32[m], _mm256_madd_epi16(p_high, ones));
            SETTLE(low32[m]);
            SETTLE(high32[m]);
        }
    }
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

/* One scale block of one panel into the sums of mr tokens; act: their blocks of 32. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *w, const struct act_block *act,
                      size_t act_stride, const int part, const int mr, __m256 *low, __m256 *high) {
    __m256i low32[MR_MAX], high32[MR_MAX];
    const int8_t *a[MR_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        a[m] = act[(size_t)m * act_stride].q;
    }
    if (kind.run_groups)
        dot_block(kind, w, a, part * kind.block, mr, low32, high32);
    else
        dot_block_signed(kind, w, a, part * kind.block, mr, low32, high32);
    const uint8_t *scales = w + kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
    const __m256 d_low = load_scales(kind, scales, 0), d_high = load_scales(kind, scales, 8);
    UNROLL for (int m = 0; m < mr; m++) {
        const struct act_block *block = &act[(size_t)m * act_stride];
        const __m256 s = _mm256_broadcast_ss(&block->scale);
        if (kind.has_offset) {
            const __m256i start = _mm256_set1_epi32(block->start[part]);
            low32[m] = _mm256_add_epi32(low32[m], start);
            high32[m] = _mm256_add_epi32(high32[m], start);
        }
        low[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(low32[m]), _mm256_mul_ps(d_low, s), low[m]);
        high[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high32[m]), _mm256_mul_ps(d_high, s), high[m]);
        if (kind.has_offset || !kind.run_groups) continue;
        const __m256 sum = _mm256_broadcast_ss(&block->sum[part]);
        low[m] = _mm256_fmadd_ps(load_scales(kind, scales, 16), sum, low[m]);
        high[m] = _mm256_fmadd_ps(load_scales(kind, scales, 24), sum, high[m]);
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK;
    const uint8_t *w = p->w->data + (size_t)panel * p->w->panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_blocks;
    const size_t block_bytes = p->w->block_bytes;
    __m256 low[MR_MAX], high[MR_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        low[m] = high[m] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, act++) {
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            if (mr == 1) prefetch_block(w, block_bytes);
            add_block(kind, w, act, n_blocks, part, mr, low, high);
            w += block_bytes;
        }
    }
    UNROLL for (int m = 0; m < mr; m++) {
        avx2_store(p, row + (uint32_t)m, panel, low[m], high[m]);
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

/* One function per kind, so that each is compiled by itself. */
static void multiply_q4_0(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 8, true, true, true});
}

static void multiply_q4_1(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 8, false, true, true});
}

static void multiply_q4_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 8, false, true, false});
}

static void multiply_q5_0(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 4, true, false, true});
}

static void multiply_q5_1(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 4, false, false, false});
}

static void multiply_q8_0(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 0, false, false, true});
}

static void multiply_q2_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 4, false, false, false});
}

static void multiply_q3_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 4, true, false, false});
}

static void multiply_q6_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 2, true, false, false});
}

void i4_f32_matmul__avx2(const struct matmul_part *p) {
    if (!p->w->has_min)
        multiply_q4_0(p);
    else
        p->w->has_half_scales ? multiply_q4_1(p) : multiply_q4_k(p);
}

void i8_f32_matmul__avx2(const struct matmul_part *p) {
    const struct weight *w = p->w;
    if (w->block == 16)
        w->has_min ? multiply_q2_k(p) : w->quant_max > 31 ? multiply_q6_k(p) : multiply_q3_k(p);
    else if (w->quant_max > 31)
        multiply_q8_0(p);
    else
        w->has_min ? multiply_q5_1(p) : multiply_q5_0(p);
}
