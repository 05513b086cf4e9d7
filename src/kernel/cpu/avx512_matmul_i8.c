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
 * Up to four tokens read one panel after another, in one stream, and ask for units at two
 * distances: a few ahead for the nearest cache, and a kilobyte to twenty ahead for the second. That
 * reads faster than plain loads do. They take quants as they lie, up to four operations a vector.
 *
 * More tokens read three panels at a time. Some hundred inputs of these are opened first, once for
 * up to OPEN_ROWS tokens, as whole bytes and scales in f32; the float sums of all these tokens wait
 * in memory for the next inputs. Q8_0 has nothing to open and goes through all inputs at once.
 *
 * A tile is MR tokens times NP panels. From eight tokens on it is 8 x 3: the integers of a block
 * are 24 chains (4-5 cycles of latency), and a load serves 2.2 VPDPBUSD; for that the float sums
 * stay in memory, read and written once a block. Tiles of 4, 2 and 1 tokens keep them in registers.
 * What would come late is asked for while tokens pass by: the next three panels, a few lines a
 * block (read when they are needed they would cost a quarter of 96 tokens' time), and the lines of
 * the result, which the stores of a tile would otherwise wait for one after another, and all stores
 * of sums behind them.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx512_quants.h"
#include "avx512_tile.h"
#include "quant_kinds.h"

enum {
    WIDE_ROWS = 8,
    ALONE_MAX = 4, /* tokens that read one panel at a time */
    NP_MAX = 3,
    TILE_PANELS = 4, /* of a row of sums: what avx512_store_tile() is given */
    OPEN_ROWS = 96,  /* a few more, so that what is left is none or a tile at least */
    LINE_BYTES = 64,
    NEAR_UNITS = 4, /* asked for by few tokens: for the first-level cache, and for the second */
    FAR_UNITS = 32
};

/* Few tokens wait for memory. What lies behind the part's end is another thread's. */
INLINE void prefetch_unit(const struct quant_form form, const uint8_t *chunk, size_t unit,
                          const uint8_t *end) {
    const int bytes = (int)(quant_chunk_bytes(form) / quant_chunk_units(form));
    const uint8_t *share = chunk + unit * (size_t)bytes; /* of the chunk */
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)share + NEAR_UNITS * bytes + at, _MM_HINT_T0);
    }
    if (end - share <= FAR_UNITS * bytes) return;
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)share + FAR_UNITS * bytes + at, _MM_HINT_T1);
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
INLINE void multiply_block(const struct quant_form form, const uint8_t *unit, size_t panel_bytes,
                           struct tile_rows *rows, const int part, const int mr, const int np,
                           __m512i (*dots)[NP_MAX]) {
    const int n_groups = (int)form.block / 4, begin = part * n_groups;
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            dots[m][n] = _mm512_set1_epi32(find_row(rows, m)->start[part]);
        }
    }
    UNROLL_GROUPS for (int g = begin; g < begin + n_groups; g++) {
        __m512i quants[NP_MAX];
        UNROLL for (int n = 0; n < np; n++) {
            quants[n] = load_group(form, unit + (size_t)n * panel_bytes, g);
        }
        forget_addresses(rows);
        UNROLL for (int m = 0; m < mr; m++) {
            const int8_t *q = find_row(rows, m)->q + g * 4;
            const __m512i quad = _mm512_set1_epi32(load_quad(q));
            UNROLL for (int n = 0; n < np; n++) {
                dots[m][n] = _mm512_dpbusd_epi32(dots[m][n], quants[n], quad);
                SETTLE(dots[m][n]);
            }
        }
    }
    forget_addresses(rows);
}

/* One scale block of np panels, panel_bytes apart, into the sums of mr tokens. */
INLINE void add_block(const struct quant_form form, const struct quant_block *at,
                      size_t panel_bytes, struct tile_rows *rows, const int part, const int mr,
                      const int np, __m512 (*sums)[TILE_PANELS]) {
    __m512i dots[WIDE_ROWS][NP_MAX];
    multiply_block(form, at->unit, panel_bytes, rows, part, mr, np, dots);
    UNROLL for (int n = 0; n < np; n++) {
        const size_t to_panel = (size_t)n * panel_bytes;
        const struct quant_block block_at = {NULL, at->scales + to_panel, at->supers + to_panel};
        const __m512 d = load_scales(form, &block_at, 0);
        const __m512 minimum = form.has_min ? load_scales(form, &block_at, 1) : d;
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = find_row(rows, m);
            const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block->scale));
            __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m][n]), scale, sums[m][n]);
            if (form.has_min) sum = _mm512_fmadd_ps(minimum, _mm512_set1_ps(block->sum[part]), sum);
            sums[m][n] = sum;
        }
    }
}

/* Units [0, n_units) of np panels, panel_bytes apart, into the sums of mr tokens, of which wide
 * tiles have theirs in memory; rows: theirs at the first unit. */
INLINE void add_units(const struct quant_form form, const uint8_t *first, size_t panel_bytes,
                      size_t n_units, struct tile_rows *rows, const int mr, const int np,
                      __m512 (*sums)[TILE_PANELS], struct read_ahead *ahead, const uint8_t *end) {
    const size_t in_chunk = quant_chunk_units(form);
    for (size_t u = 0; u < n_units; u++) { /* flat: a chunk may be as short as two units */
        const uint8_t *chunk = first + u / in_chunk * quant_chunk_bytes(form);
        const size_t unit = u % in_chunk;
        if (mr == WIDE_ROWS) avx512_ask_panels(ahead);
        if (mr <= ALONE_MAX && end) prefetch_unit(form, chunk, unit, end);
        UNROLL for (int part = 0; part < ACT_BLOCK / (int)form.block; part++) {
            const struct quant_block at = quant_find_block(form, chunk, unit, (uint32_t)part);
            if (mr == WIDE_ROWS) __asm__ volatile("" : "+r"(sums) : : "memory"); /* stay there */
            add_block(form, &at, panel_bytes, rows, part, mr, np, sums);
        }
        UNROLL for (int i = 0; i < (mr + 3) / 4; i++) {
            rows->base[i] += sizeof(struct act_block);
        }
    }
}

INLINE struct tile_rows place_rows(const struct matmul_part *p, size_t row, size_t unit,
                                   const int mr) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, row_bytes = n_units * sizeof(struct act_block);
    struct tile_rows rows = {.one = row_bytes, .three = 3 * row_bytes};
    UNROLL for (int i = 0; i < (mr + 3) / 4; i++) {
        rows.base[i] = (const uint8_t *)(p->a.blocks + (row + 4 * (size_t)i) * n_units + unit);
    }
    return rows;
}

/* Not inlined: once is enough for all kinds. */
__attribute__((noinline)) static void store_wide(const struct matmul_part *p, uint32_t row,
                                                 uint32_t panel, const int np,
                                                 __m512 (*sums)[TILE_PANELS]) {
    avx512_store_tile(p, row, panel, WIDE_ROWS, np, sums);
}

/* ---- tiles that read quants as they lie ---- */

INLINE void multiply_tile(const struct matmul_part *p, const struct quant_form form, uint32_t row,
                          uint32_t panel, const int mr, const int np, struct read_ahead *ahead) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, panel_bytes = p->w->panel_bytes;
    const uint8_t *w = p->w->data + panel * panel_bytes;
    const uint8_t *end = p->w->data + (p->panel_first + p->n_panels) * panel_bytes;
    struct tile_rows rows = place_rows(p, row, 0, mr);
    __m512 array[WIDE_ROWS][TILE_PANELS], (*sums)[TILE_PANELS] = array;
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    if (mr == WIDE_ROWS)
        for (uint32_t m = 0; m < WIDE_ROWS; m++) avx512_ask_row(p, row + m, panel, np);
    add_units(form, w, panel_bytes, n_units, &rows, mr, np, sums, ahead, np == 1 ? end : NULL);
    if (mr == WIDE_ROWS)
        store_wide(p, row, panel, np, sums);
    else
        avx512_store_tile(p, row, panel, mr, np, sums);
}

/* All rows of the part times np panels. */
INLINE void multiply_panels(const struct matmul_part *p, const struct quant_form form,
                            uint32_t panel, const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    const size_t n_steps = (size_t)p->n_rows / WIDE_ROWS * (p->w->n_in / ACT_BLOCK);
    struct read_ahead ahead = avx512_plan_ahead(p, panel + (uint32_t)np, NP_MAX, n_steps);
    uint32_t row = p->row_first;
    if (form.low_bits == 8) /* all tokens; else no more than ALONE_MAX */
        for (; end - row >= WIDE_ROWS; row += WIDE_ROWS)
            multiply_tile(p, form, row, panel, WIDE_ROWS, np, &ahead);
    for (; end - row >= 4; row += 4) multiply_tile(p, form, row, panel, 4, np, NULL);
    for (; end - row >= 2; row += 2) multiply_tile(p, form, row, panel, 2, np, NULL);
    if (end > row) multiply_tile(p, form, row, panel, 1, np, NULL);
}

/* ---- tiles that read opened ones ---- */

struct opened_at {
    const uint8_t *opened;
    size_t first_unit, n_units;
    uint32_t panel; /* the first of the tile */
    bool is_last;
};

#define X(name, ...)                                                                               \
    static void open_##name(const uint8_t *chunk, size_t n_units, uint8_t *opened) {               \
        open_units((struct quant_form){__VA_ARGS__}, chunk, n_units, opened);                      \
    }
QUANT_FORMS(X)
#undef X

#define X(name, ...) [RADISH_DTYPE_##name] = open_##name,
static void (*const openers[RADISH_DTYPE_COUNT])(const uint8_t *chunk, size_t n_units,
                                                 uint8_t *opened) = {QUANT_FORMS(X)};
#undef X

/* Opened units of np panels times rows; where they are the last, the result's lines are asked for.
 */
INLINE void add_opened(const struct matmul_part *p, const struct quant_form form,
                       const struct opened_at *at, uint32_t row, const int mr, const int np,
                       __m512 (*sums)[TILE_PANELS], struct read_ahead *ahead) {
    struct tile_rows rows = place_rows(p, row, at->first_unit, mr);
    if (mr == WIDE_ROWS && at->is_last)
        for (uint32_t m = 0; m < WIDE_ROWS; m++) avx512_ask_row(p, row + m, at->panel, np);
    add_units(form, at->opened, quant_chunk_bytes(form), at->n_units, &rows, mr, np, sums, ahead,
              NULL);
}

/* n_rows rows from `row` on, up to OPEN_ROWS and a tile, times np panels. */
INLINE void multiply_opened(const struct matmul_part *p, const struct quant_form form,
                            uint32_t panel, uint32_t row, uint32_t n_rows, const int np,
                            struct read_ahead *ahead) {
    const struct quant_form packed = *p->w->form;
    const size_t n_units = p->w->n_in / ACT_BLOCK, chunk_bytes = quant_chunk_bytes(packed);
    const size_t bytes = OPEN_UNITS / quant_chunk_units(packed) * chunk_bytes;
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes;
    _Alignas(64) uint8_t opened[NP_MAX * OPEN_BYTES];
    struct opened_at at = {.opened = opened, .panel = panel};
    __m512 sums[OPEN_ROWS + WIDE_ROWS][TILE_PANELS];
    for (uint32_t m = 0; m < n_rows; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (; at.first_unit < n_units; at.first_unit += OPEN_UNITS, w += bytes) {
        const size_t left = n_units - at.first_unit;
        uint32_t m = 0;
        at.n_units = left < OPEN_UNITS ? left : OPEN_UNITS;
        at.is_last = left <= OPEN_UNITS;
        for (int n = 0; n < np; n++)
            openers[p->w->dtype](w + (size_t)n * p->w->panel_bytes, at.n_units,
                                 opened + (size_t)n * quant_chunk_bytes(form));
        for (; n_rows - m >= WIDE_ROWS; m += WIDE_ROWS)
            add_opened(p, form, &at, row + m, WIDE_ROWS, np, sums + m, ahead);
        for (; n_rows - m >= 4; m += 4) add_opened(p, form, &at, row + m, 4, np, sums + m, NULL);
        for (; n_rows - m >= 2; m += 2) add_opened(p, form, &at, row + m, 2, np, sums + m, NULL);
        if (n_rows > m) add_opened(p, form, &at, row + m, 1, np, sums + m, NULL);
    }
    for (uint32_t m = 0; m < n_rows; m++) avx512_store_tile(p, row + m, panel, 1, np, sums + m);
}

/* All rows of the part times np panels. */
INLINE void multiply_opened_panels(const struct matmul_part *p, const struct quant_form form,
                                   uint32_t panel, const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    const size_t n_steps = (size_t)p->n_rows / WIDE_ROWS * (p->w->n_in / ACT_BLOCK);
    struct read_ahead ahead = avx512_plan_ahead(p, panel + (uint32_t)np, NP_MAX, n_steps);
    for (uint32_t row = p->row_first, n; row < end; row += n) {
        n = end - row < OPEN_ROWS + WIDE_ROWS ? end - row : OPEN_ROWS;
        multiply_opened(p, form, panel, row, n, np, &ahead);
    }
}

INLINE void multiply_many(const struct matmul_part *p, uint32_t block, bool has_min) {
    const struct quant_form form =
        quant_opened((struct quant_form){.block = block, .has_min = has_min});
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    for (; end - panel >= 3; panel += 3) multiply_opened_panels(p, form, panel, 3);
    if (end - panel >= 2) multiply_opened_panels(p, form, panel, 2), panel += 2;
    if (end > panel) multiply_opened_panels(p, form, panel, 1);
}

/* Opened, types differ in this only. */
static void multiply_many_32(const struct matmul_part *p) {
    multiply_many(p, 32, false);
}

static void multiply_many_32_min(const struct matmul_part *p) {
    multiply_many(p, 32, true);
}

static void multiply_many_16(const struct matmul_part *p) {
    multiply_many(p, 16, false);
}

static void multiply_many_16_min(const struct matmul_part *p) {
    multiply_many(p, 16, true);
}

/* ---- parts ---- */

INLINE void multiply(const struct matmul_part *p, const struct quant_form form) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    if (p->n_rows > ALONE_MAX && form.low_bits < 8) {
        if (form.block == 32)
            form.has_min ? multiply_many_32_min(p) : multiply_many_32(p);
        else
            form.has_min ? multiply_many_16_min(p) : multiply_many_16(p);
        return;
    }
    if (p->n_rows > ALONE_MAX) {
        for (; end - panel >= 3; panel += 3) multiply_panels(p, form, panel, 3);
        for (; end - panel >= 2; panel += 2) multiply_panels(p, form, panel, 2);
    }
    for (; panel < end; panel++) multiply_panels(p, form, panel, 1);
}

void i8_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_quants(p);
}
