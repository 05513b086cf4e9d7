/* avx512_matmul_i8.c - integer matrix products with VNNI: every quantised weight type, class
 * kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a), d[n] * s[r], y[r, n])      blocks ascending
 *
 * VPDPBUSD multiplies 4 unsigned with 4 signed bytes per lane and adds them to 32 bits without
 * saturation: just what the pack holds (quants with an offset, 16 output rows times 4 inputs a
 * vector), for quants up to 255. The correction for the offset is what the sum starts from. Per
 * block of 32 inputs, token and panel: 8 VPDPBUSD and 3 or 4 float operations.
 *
 * A tile is MR tokens times NP panels. From eight tokens on it is 8 x 3: the integers of a block
 * are 24 chains (4-5 cycles of latency), and a load serves 2.2 VPDPBUSD; for that the float sums
 * stay in memory, read and written once a block. Tiles of 4, 2 and 1 tokens keep them in registers.
 * What would come late is asked for while tokens pass by: the next three panels, a few lines a
 * block (read when they are needed they would cost a quarter of 96 tokens' time), and the lines of
 * the result, which the stores of a tile would otherwise wait for one after another, and all stores
 * of sums behind them.
 *
 * Up to four tokens read one panel after another, in one stream, and asks for blocks at two
 * distances: a few ahead for the nearest cache, and a kilobyte to twenty ahead for the second. That
 * reads faster than plain loads do.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx512_tile.h"
#include "vnni_kinds.h"

enum {
    WIDE_ROWS = 8,
    ALONE_MAX = 4, /* tokens that read one panel at a time */
    NP_MAX = 3,
    TILE_PANELS = 4, /* of a row of sums: what avx512_store_tile() is given */
    GROUP_BYTES = 4 * PANEL_ROWS,
    LINE_BYTES = 64,
    NEAR_BLOCKS = 4, /* asked for by few tokens: for the first-level cache, and for the second */
    FAR_BLOCKS = 32
};

/* Group g of a block: 4 inputs of 16 rows. */
INLINE __m512i load_group(const struct i8_kind kind, const uint8_t *w, int g) {
    if (!kind.is_nibbles) return _mm512_loadu_si512(w + g * GROUP_BYTES);
    const __m512i both = _mm512_loadu_si512(w + g % 4 * GROUP_BYTES);
    const __m512i moved = g < 4 ? both : _mm512_srli_epi16(both, 4);
    return _mm512_and_si512(moved, _mm512_set1_epi8(15));
}

/* Scales (which = 0) or minimums (which = 1) of a block. */
INLINE __m512 load_scales(const struct i8_kind kind, const uint8_t *scales, int which) {
    if (!kind.has_half_scales)
        return _mm512_loadu_ps((const float *)(const void *)scales + which * PANEL_ROWS);
    const uint8_t *at = scales + which * 2 * PANEL_ROWS;
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

/* Few tokens wait for memory. What lies behind the part's end is another thread's. */
INLINE void prefetch_block(const struct i8_kind kind, const uint8_t *w, const uint8_t *end) {
    const int scale_bytes = PANEL_ROWS * (kind.has_half_scales ? 2 : 4) * (kind.has_min ? 2 : 1);
    const int bytes = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1) + scale_bytes;
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)w + NEAR_BLOCKS * bytes + at, _MM_HINT_T0);
    }
    if (end - w <= FAR_BLOCKS * bytes) return;
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)w + FAR_BLOCKS * bytes + at, _MM_HINT_T1);
    }
}

/* The rows of activations of a tile, at one block: few registers reach all of them. */
struct tile_rows {
    const uint8_t *base[WIDE_ROWS / 4];
    size_t one, three; /* bytes of so many rows */
};

INLINE const struct act_block *find_row(const struct tile_rows *rows, const int m) {
    const size_t at = m % 4 == 3 ? rows->three : (size_t)(m % 4) * rows->one;
    return (const struct act_block *)(const void *)(rows->base[m / 4] + at);
}

/* Makes the compiler address rows by base and index from here on. Sums of them, kept for all
 * eight, would need more registers than there are. */
INLINE void forget_addresses(struct tile_rows *rows) {
    __asm__("" : "+r"(rows->one), "+r"(rows->three));
}

/* The integers of one scale block. */
INLINE void multiply_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                           struct tile_rows *rows, const int part, const int mr, const int np,
                           __m512i (*dots)[NP_MAX]) {
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            dots[m][n] = _mm512_set1_epi32(find_row(rows, m)->start[part]);
        }
    }
    UNROLL for (int g = 0; g < kind.block / 4; g++) {
        __m512i quants[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            quants[n] = load_group(kind, w + (size_t)n * panel_bytes, g);
        }
        forget_addresses(rows);
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = find_row(rows, m)->q + part * kind.block + g * 4;
            const __m512i quad = _mm512_set1_epi32(load_quad(q));
            UNROLL for (int n = 0; n < np; n++) {
                dots[m][n] = _mm512_dpbusd_epi32(dots[m][n], quants[n], quad);
                SETTLE(dots[m][n]);
            }
        }
    }
    forget_addresses(rows);
}

/* One scale block of np panels into the sums of mr tokens. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                      struct tile_rows *rows, const int part, const int mr, const int np,
                      __m512 (*sums)[TILE_PANELS]) {
    __m512i dots[WIDE_ROWS][NP_MAX];
    multiply_block(kind, w, panel_bytes, rows, part, mr, np, dots);
    UNROLL for (int n = 0; n < np; n++) {
        const int scales_at = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
        const uint8_t *scales = w + (size_t)n * panel_bytes + scales_at;
        const __m512 d = load_scales(kind, scales, 0);
        const __m512 minimum = kind.has_min ? load_scales(kind, scales, 1) : d;
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = find_row(rows, m);
            const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block->scale));
            __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m][n]), scale, sums[m][n]);
            if (kind.has_min) sum = _mm512_fmadd_ps(minimum, _mm512_set1_ps(block->sum[part]), sum);
            sums[m][n] = sum;
        }
    }
}

/* Not inlined: once is enough for all kinds. */
__attribute__((noinline)) static void store_wide(const struct matmul_part *p, uint32_t row,
                                                 uint32_t panel, const int np,
                                                 __m512 (*sums)[TILE_PANELS]) {
    avx512_store_tile(p, row, panel, WIDE_ROWS, np, sums);
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr, const int np, struct read_ahead *ahead) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, panel_bytes = p->w->panel_bytes;
    const size_t row_bytes = n_blocks * sizeof(struct act_block);
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const uint8_t *end = p->w->data + (p->panel_first + p->n_panels) * panel_bytes;
    struct tile_rows rows = {.one = row_bytes, .three = 3 * row_bytes};
    __m512 array[WIDE_ROWS][TILE_PANELS], (*sums)[TILE_PANELS] = array;
    UNROLL for (int i = 0; i < (mr + 3) / 4; i++) {
        rows.base[i] = (const uint8_t *)(p->a.blocks + (row + 4 * (uint32_t)i) * n_blocks);
    }
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t b = 0; b < n_blocks; b++) {
        if (mr == WIDE_ROWS) avx512_ask_panels(ahead);
        if (mr == WIDE_ROWS && b < WIDE_ROWS) avx512_ask_row(p, row + (uint32_t)b, panel, np);
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            if (mr <= ALONE_MAX && np == 1) prefetch_block(kind, w, end);
            if (mr == WIDE_ROWS) __asm__ volatile("" : "+r"(sums) : : "memory"); /* stay there */
            add_block(kind, w, panel_bytes, &rows, part, mr, np, sums);
            w += p->w->block_bytes;
        }
        UNROLL for (int i = 0; i < (mr + 3) / 4; i++) {
            rows.base[i] += sizeof(struct act_block);
        }
    }
    if (mr == WIDE_ROWS)
        store_wide(p, row, panel, np, sums);
    else
        avx512_store_tile(p, row, panel, mr, np, sums);
}

/* ---- parts ---- */

/* All rows of the part times np panels. */
INLINE void multiply_panels(const struct matmul_part *p, const struct i8_kind kind, uint32_t panel,
                            const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    const size_t n_steps = (size_t)p->n_rows / WIDE_ROWS * (p->w->n_in / ACT_BLOCK);
    struct read_ahead ahead = avx512_plan_ahead(p, panel + (uint32_t)np, NP_MAX, n_steps);
    uint32_t row = p->row_first;
    for (; end - row >= WIDE_ROWS; row += WIDE_ROWS)
        multiply_tile(p, kind, row, panel, WIDE_ROWS, np, &ahead);
    for (; end - row >= 4; row += 4) multiply_tile(p, kind, row, panel, 4, np, NULL);
    for (; end - row >= 2; row += 2) multiply_tile(p, kind, row, panel, 2, np, NULL);
    if (end > row) multiply_tile(p, kind, row, panel, 1, np, NULL);
}

INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    const bool is_many = p->n_rows > ALONE_MAX;
    for (; is_many && end - panel >= 3; panel += 3) multiply_panels(p, kind, panel, 3);
    for (; is_many && end - panel >= 2; panel += 2) multiply_panels(p, kind, panel, 2);
    for (; panel < end; panel++) multiply_panels(p, kind, panel, 1);
}

void i4_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i4(p);
}

void i8_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i8(p);
}
