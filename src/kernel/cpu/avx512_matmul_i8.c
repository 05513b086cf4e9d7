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
 * A tile is MR tokens times NP panels. From twelve tokens on it is 12 x 2: the integers of a block
 * are 24 chains (4-5 cycles of latency), and unpacking half bytes is shared by twelve tokens; for
 * that the float sums stay in memory, read and written once a block. Smaller tiles, 6 x 2 and
 * less, keep them in registers. While the tokens pass by a pair of panels, the next pair is asked
 * for, a few lines a block: read when it is needed it would cost a quarter of 96 tokens' time.
 *
 * One token reads one panel after another, in one stream, and asks for blocks at two distances:
 * a few ahead for the nearest cache, and a kilobyte to twenty ahead for the second. That reads
 * faster than plain loads do.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx512_tile.h"
#include "vnni_kinds.h"

enum {
    MR_MAX = 6,
    WIDE_ROWS = 12,
    NP_MAX = 2,
    TILE_PANELS = 4, /* of a row of sums: what avx512_store_tile() is given */
    GROUP_BYTES = 4 * PANEL_ROWS,
    LINE_BYTES = 64,
    NEAR_BLOCKS = 4, /* asked for by one token: for the first-level cache, and for the second */
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

/* One token waits for memory. What lies behind the part's end is another thread's. */
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

/* One scale block of np panels into the sums of mr tokens; act: their blocks of 32. */
INLINE void add_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                      const struct act_block *act, size_t act_stride, const int part, const int mr,
                      const int np, __m512 sums[MR_MAX][TILE_PANELS]) {
    __m512i dots[MR_MAX][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            dots[m][n] = _mm512_set1_epi32(act[(size_t)m * act_stride].start[part]);
        }
    }
    UNROLL for (int g = 0; g < kind.block / 4; g++) {
        __m512i quants[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            quants[n] = load_group(kind, w + (size_t)n * panel_bytes, g);
        }
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = act[(size_t)m * act_stride].q + part * kind.block + g * 4;
            UNROLL for (int n = 0; n < np; n++) {
                dots[m][n] =
                    _mm512_dpbusd_epi32(dots[m][n], quants[n], _mm512_set1_epi32(load_quad(q)));
            }
        }
    }
    UNROLL for (int n = 0; n < np; n++) {
        const int scales_at = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
        const uint8_t *scales = w + (size_t)n * panel_bytes + scales_at;
        const __m512 d = load_scales(kind, scales, 0);
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = &act[(size_t)m * act_stride];
            const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block->scale));
            sums[m][n] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m][n]), scale, sums[m][n]);
            if (!kind.has_min) continue;
            const __m512 minimum = load_scales(kind, scales, 1);
            sums[m][n] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(block->sum[part]), sums[m][n]);
        }
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr, const int np) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, panel_bytes = p->w->panel_bytes;
    const size_t block_bytes = p->w->block_bytes;
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const uint8_t *end = p->w->data + (p->panel_first + p->n_panels) * panel_bytes;
    const struct act_block *act = p->a.blocks + row * n_blocks;
    __m512 sums[MR_MAX][TILE_PANELS];
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (size_t b = 0; b < n_blocks; b++, act++) {
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            if (mr == 1) prefetch_block(kind, w, end);
            add_block(kind, w, panel_bytes, act, n_blocks, part, mr, np, sums);
            w += block_bytes;
        }
    }
    avx512_store_tile(p, row, panel, mr, np, sums);
}

/* ---- wide tiles ---- */

/* Twelve rows of activations: few registers reach them all. */
struct wide_rows {
    const uint8_t *base[WIDE_ROWS / 4];
    size_t one, three; /* bytes of so many rows */
};

/* What is asked for beside the products: so many lines a block. */
struct read_ahead {
    const uint8_t *next;
    size_t n_lines;
};

INLINE const struct act_block *find_row(const struct wide_rows *rows, const int m) {
    const size_t at = m % 4 == 3 ? rows->three : (size_t)(m % 4) * rows->one;
    return (const struct act_block *)(const void *)(rows->base[m / 4] + at);
}

/* Makes the compiler address rows by base and index from here on. Sums of them, kept for all
 * twelve, would need more registers than there are. */
INLINE void forget_addresses(struct wide_rows *rows) {
    __asm__("" : "+r"(rows->one), "+r"(rows->three));
}

/* The integers of one scale block. */
INLINE void multiply_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                           struct wide_rows *rows, const int part, __m512i (*dots)[NP_MAX]) {
    UNROLL for (int m = 0; m < WIDE_ROWS; m++) {
        dots[m][0] = dots[m][1] = _mm512_set1_epi32(find_row(rows, m)->start[part]);
    }
    UNROLL for (int g = 0; g < kind.block / 4; g++) {
        const __m512i first = load_group(kind, w, g), second = load_group(kind, w + panel_bytes, g);
        forget_addresses(rows);
        UNROLL for (int m = 0; m < WIDE_ROWS; m++) {
            const int8_t *q = find_row(rows, m)->q + part * kind.block + g * 4;
            const __m512i quad = _mm512_set1_epi32(load_quad(q));
            dots[m][0] = _mm512_dpbusd_epi32(dots[m][0], first, quad);
            dots[m][1] = _mm512_dpbusd_epi32(dots[m][1], second, quad);
            SETTLE(dots[m][0]);
            SETTLE(dots[m][1]);
        }
    }
    forget_addresses(rows);
}

/* One scale block of two panels into the sums of twelve tokens. */
INLINE void add_wide_block(const struct i8_kind kind, const uint8_t *w, size_t panel_bytes,
                           struct wide_rows *rows, const int part, __m512 (*sums)[TILE_PANELS]) {
    __m512i dots[WIDE_ROWS][NP_MAX];
    multiply_block(kind, w, panel_bytes, rows, part, dots);
    UNROLL for (int n = 0; n < NP_MAX; n++) {
        const int scales_at = kind.block * PANEL_ROWS / (kind.is_nibbles ? 2 : 1);
        const uint8_t *scales = w + (size_t)n * panel_bytes + scales_at;
        const __m512 d = load_scales(kind, scales, 0);
        const __m512 minimum = kind.has_min ? load_scales(kind, scales, 1) : d;
        UNROLL for (int m = 0; m < WIDE_ROWS; m++) {
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
                                                 uint32_t panel, __m512 (*sums)[TILE_PANELS]) {
    avx512_store_tile(p, row, panel, WIDE_ROWS, NP_MAX, sums);
}

INLINE void multiply_wide(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, struct read_ahead *ahead) {
    const size_t n_blocks = p->w->n_in / ACT_BLOCK, panel_bytes = p->w->panel_bytes;
    const size_t row_bytes = n_blocks * sizeof(struct act_block);
    const uint8_t *w = p->w->data + panel * panel_bytes;
    struct wide_rows rows = {.one = row_bytes, .three = 3 * row_bytes};
    __m512 array[WIDE_ROWS][TILE_PANELS], (*sums)[TILE_PANELS] = array;
    UNROLL for (int i = 0; i < WIDE_ROWS / 4; i++) {
        rows.base[i] = (const uint8_t *)(p->a.blocks + (row + 4 * (uint32_t)i) * n_blocks);
    }
    UNROLL for (int m = 0; m < WIDE_ROWS; m++) {
        sums[m][0] = sums[m][1] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++) {
        for (size_t i = 0; i < ahead->n_lines; i++, ahead->next += LINE_BYTES)
            _mm_prefetch((const char *)ahead->next, _MM_HINT_T1);
        UNROLL for (int part = 0; part < ACT_BLOCK / kind.block; part++) {
            __asm__ volatile("" : "+r"(sums) : : "memory"); /* sums stay in memory */
            add_wide_block(kind, w, panel_bytes, &rows, part, sums);
            w += p->w->block_bytes;
        }
        UNROLL for (int i = 0; i < WIDE_ROWS / 4; i++) {
            rows.base[i] += sizeof(struct act_block);
        }
    }
    store_wide(p, row, panel, sums);
}

/* The next two panels of the part, spread over all blocks of the wide tiles. */
static struct read_ahead plan_ahead(const struct matmul_part *p, uint32_t panel) {
    const size_t n_blocks = (size_t)p->n_rows / WIDE_ROWS * (p->w->n_in / ACT_BLOCK);
    const size_t n_lines = (NP_MAX * p->w->panel_bytes + LINE_BYTES - 1) / LINE_BYTES;
    const bool has_next = p->panel_first + p->n_panels - panel >= 2 * NP_MAX;
    return (struct read_ahead){.next = p->w->data + (panel + NP_MAX) * p->w->panel_bytes,
                               .n_lines =
                                   has_next && n_blocks ? (n_lines + n_blocks - 1) / n_blocks : 0};
}

/* ---- parts ---- */

INLINE void multiply_panels(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                            uint32_t panel, const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    for (; end - row >= 6; row += 6) multiply_tile(p, kind, row, panel, 6, np);
    for (; end - row >= 4; row += 4) multiply_tile(p, kind, row, panel, 4, np);
    for (; end - row >= 2; row += 2) multiply_tile(p, kind, row, panel, 2, np);
    if (end > row) multiply_tile(p, kind, row, panel, 1, np);
}

INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind) {
    const uint32_t end = p->panel_first + p->n_panels, row_end = p->row_first + p->n_rows;
    uint32_t panel = p->panel_first;
    for (; p->n_rows > 1 && end - panel >= NP_MAX; panel += NP_MAX) {
        struct read_ahead ahead = plan_ahead(p, panel);
        uint32_t row = p->row_first;
        for (; row_end - row >= WIDE_ROWS; row += WIDE_ROWS)
            multiply_wide(p, kind, row, panel, &ahead);
        multiply_panels(p, kind, row, panel, NP_MAX);
    }
    for (; panel < end; panel++) multiply_panels(p, kind, p->row_first, panel, 1);
}

void i4_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i4(p);
}

void i8_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_i8(p);
}
