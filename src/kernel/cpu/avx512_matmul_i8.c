/* avx512_matmul_i8.c - integer matrix products with VNNI: every quantised weight type, class
 * kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a) * d[n], s[r], y[r, n])      blocks ascending
 *
 * VPDPBUSD multiplies 4 unsigned with 4 signed bytes per lane and adds them to 32 bits without
 * saturation: just what the pack holds (quants with an offset, 16 output rows times 4 inputs a
 * vector), for quants up to 255. The sum starts from a number that corrects for the offset and
 * makes its bits those of a float (struct act_block). Per block of 32 inputs, token and panel: 8
 * VPDPBUSD and 2 or 3 float operations.
 *
 * Up to four tokens read one panel after another, in one stream, and ask for units at two
 * distances: a few ahead for the nearest cache, and a kilobyte to twenty ahead for the second. That
 * reads faster than plain loads do. They take quants as they lie, up to four operations a vector.
 *
 * More tokens read three panels at a time, some hundred inputs of which are opened first, once for
 * up to OPEN_ROWS tokens: whole bytes in aligned vectors, scales in f32. They then stay in the
 * nearest cache. The float sums of all these tokens wait in memory for the next inputs. A tile is 4
 * tokens times 3 panels: the integers of a block are 12 chains (4-5 cycles of latency), a load
 * serves 1.7 VPDPBUSD, and the sums fit beside them. (Tiles of 8 x 3 load less, but touch their
 * sums in memory once a block, which costs more than it brings.)
 *
 * What would come late is asked for while tokens pass by: their own rows, a tile ahead, for the
 * nearest cache, of which they miss an eighth otherwise; the next three panels; and the lines of
 * the result, which the stores would otherwise wait for one after another, and all stores behind
 * them.
 *
 * The inlined pieces of a tile take more than seven parameters: as constants they unroll it. */
#include "avx512_quants.h"
#include "avx512_tile.h"
#include "quant_kinds.h"

enum {
    TILE_ROWS = 4,
    ALONE_MAX = 4, /* tokens that read one panel at a time */
    NP_MAX = AVX512_I8_PANELS,
    OPEN_ROWS = 128, /* a few more, so that what is left is none or a tile at least */
    LINE_BYTES = 64,
    NEAR_UNITS = 4, /* asked for by few tokens: for the first-level cache, and for the second */
    FAR_UNITS = 32
};

/* Few tokens wait for memory. What lies behind the part's end is another thread's: `next` follows.
 */
INLINE void prefetch_unit(const struct quant_form form, const uint8_t *chunk, size_t unit,
                          const uint8_t *end, const uint8_t *next) {
    const int bytes = (int)(quant_chunk_bytes(form) / quant_chunk_units(form));
    const uint8_t *share = chunk + unit * (size_t)bytes; /* of the chunk */
    const uint8_t *far = share + FAR_UNITS * bytes;
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)share + NEAR_UNITS * bytes + at, _MM_HINT_T0);
    }
    if (far >= end && !next) return;
    if (far >= end) far = next + (far - end);
    UNROLL for (int at = 0; at < bytes; at += LINE_BYTES) {
        _mm_prefetch((const char *)far + at, _MM_HINT_T1);
    }
}

/* The rows of activations of a tile, at one block: few registers reach all of them. */
struct tile_rows {
    const uint8_t *base;
    size_t one, two, three; /* bytes of so many rows */
};

INLINE const struct act_block *find_row(const struct tile_rows *rows, const int m) {
    const size_t at = m == 3 ? rows->three : m == 2 ? rows->two : m == 1 ? rows->one : 0;
    return (const struct act_block *)(const void *)(rows->base + at);
}

/* Makes the compiler address rows by base and index from here on. */
INLINE void forget_addresses(struct tile_rows *rows) {
    __asm__("" : "+r"(rows->one), "+r"(rows->two), "+r"(rows->three));
}

INLINE struct tile_rows place_rows(const struct matmul_part *p, size_t row, size_t unit) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, row_bytes = n_units * sizeof(struct act_block);
    return (struct tile_rows){.base = (const uint8_t *)(p->a.blocks + row * n_units + unit),
                              .one = row_bytes,
                              .two = 2 * row_bytes,
                              .three = 3 * row_bytes};
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
                      const int np, __m512 (*sums)[NP_MAX]) {
    __m512i dots[TILE_ROWS][NP_MAX];
    multiply_block(form, at->unit, panel_bytes, rows, part, mr, np, dots);
    UNROLL for (int n = 0; n < np; n++) {
        const size_t to_panel = (size_t)n * panel_bytes;
        const struct quant_block block_at = {NULL, at->scales + to_panel, at->supers + to_panel};
        const __m512 d = load_scales(form, &block_at, 0);
        const __m512 base = _mm512_mul_ps(d, _mm512_set1_ps(-INT_BASE));
        const __m512 minimum = form.has_min ? load_scales(form, &block_at, 1) : d;
        UNROLL for (int m = 0; m < mr; m++) {
            const struct act_block *block = find_row(rows, m);
            const __m512 scaled = _mm512_fmadd_ps(_mm512_castsi512_ps(dots[m][n]), d, base);
            __m512 sum = sums[m][n];
            if (form.has_min) sum = _mm512_fmadd_ps(minimum, _mm512_set1_ps(block->sum[part]), sum);
            sums[m][n] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(block->scale), sum);
        }
    }
}

INLINE void add_unit(const struct quant_form form, const uint8_t *chunk, size_t unit,
                     size_t panel_bytes, struct tile_rows *rows, const int mr, const int np,
                     __m512 (*sums)[NP_MAX]) {
    UNROLL for (int part = 0; part < ACT_BLOCK / (int)form.block; part++) {
        const struct quant_block at = quant_find_block(form, chunk, unit, (uint32_t)part);
        add_block(form, &at, panel_bytes, rows, part, mr, np, sums);
    }
    rows->base += sizeof(struct act_block);
}

/* ---- few tokens ---- */

INLINE void multiply_panel(const struct matmul_part *p, const struct quant_form form, uint32_t row,
                           uint32_t panel, const int mr) {
    const size_t n_units = p->w->n_in / ACT_BLOCK, in_chunk = quant_chunk_units(form);
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes;
    const uint8_t *end = p->w->data + (p->panel_first + p->n_panels) * p->w->panel_bytes;
    struct tile_rows rows = place_rows(p, row, 0);
    __m512 sums[TILE_ROWS][NP_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        sums[m][0] = _mm512_setzero_ps();
    }
    for (size_t u = 0; u < n_units; u++) { /* flat: a chunk may be as short as one unit */
        const uint8_t *chunk = w + u / in_chunk * quant_chunk_bytes(form);
        prefetch_unit(form, chunk, u % in_chunk, end, p->next);
        add_unit(form, chunk, u % in_chunk, 0, &rows, mr, 1, sums);
    }
    UNROLL for (int m = 0; m < mr; m++) {
        avx512_store(p, row + (uint32_t)m, panel, sums[m][0]);
    }
}

/* ---- many tokens ---- */

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

void avx512_open(enum dtype dtype, const uint8_t *chunk, size_t n_units, uint8_t *opened) {
    openers[dtype](chunk, n_units, opened);
}

/* What some rows are multiplied with: opened units of some panels. */
struct opened_units {
    const uint8_t *opened;
    size_t first, n; /* of the panel's units */
    uint32_t panel;  /* the first of them */
    bool is_last;
};

/* Opened units of np panels times mr rows. next: at its first unit, the row that the next tile
 * begins with. */
INLINE void multiply_tile(const struct matmul_part *p, const struct quant_form form,
                          const struct opened_units *units, uint32_t row, const int mr,
                          const int np, const struct act_block *next, __m512 (*sums)[NP_MAX],
                          struct read_ahead *ahead) {
    struct tile_rows rows = place_rows(p, row, units->first), later = rows;
    __m512 local[TILE_ROWS][NP_MAX];
    later.base = (const uint8_t *)next;
    UNROLL for (int m = 0; m < mr; m++) {
        if (units->is_last) avx512_ask_row(p, row + (uint32_t)m, units->panel, np);
        UNROLL for (int n = 0; n < np; n++) {
            local[m][n] = sums[m][n];
        }
    }
    for (size_t u = 0; u < units->n; u++, later.base += sizeof(struct act_block)) {
        if (mr == TILE_ROWS) avx512_ask_panels(ahead);
        UNROLL for (int m = 0; m < mr; m++) {
            _mm_prefetch((const char *)find_row(&later, m), _MM_HINT_T0);
        }
        add_unit(form, units->opened, u, quant_chunk_bytes(form), &rows, mr, np, local);
    }
    UNROLL for (int m = 0; m < mr; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = local[m][n];
        }
    }
}

/* n_rows rows from `row` on times opened units. */
INLINE void multiply_tiles(const struct matmul_part *p, const struct quant_form form,
                           const struct opened_units *units, uint32_t row, uint32_t n_rows,
                           const int np, __m512 (*sums)[NP_MAX], struct read_ahead *ahead) {
    const size_t n_units = p->w->n_in / ACT_BLOCK;
    const struct act_block *first = p->a.blocks + row * n_units;
    const struct act_block *again = first + (units->is_last ? 0 : units->first + units->n);
    uint32_t m = 0;
    for (; n_rows - m >= 4; m += 4) {
        const bool has_next = n_rows - m >= 2 * TILE_ROWS;
        const struct act_block *next = has_next ? first + (m + 4) * n_units + units->first : again;
        multiply_tile(p, form, units, row + m, 4, np, next, sums + m, ahead);
    }
    for (; n_rows - m >= 2; m += 2)
        multiply_tile(p, form, units, row + m, 2, np, again, sums + m, ahead);
    if (n_rows > m) multiply_tile(p, form, units, row + m, 1, np, again, sums + m, ahead);
}

/* n_rows rows from `row` on, up to OPEN_ROWS and a tile, times np panels. */
INLINE void multiply_rows(const struct matmul_part *p, const struct quant_form form, uint32_t panel,
                          uint32_t row, uint32_t n_rows, const int np, struct read_ahead *ahead) {
    const struct quant_form packed = *p->w->form;
    const size_t n_units = p->w->n_in / ACT_BLOCK, chunk_bytes = quant_chunk_bytes(packed);
    const size_t bytes = OPEN_UNITS / quant_chunk_units(packed) * chunk_bytes;
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes;
    _Alignas(64) uint8_t opened[NP_MAX * OPEN_BYTES];
    struct opened_units units = {.opened = opened, .panel = panel};
    __m512 sums[OPEN_ROWS + TILE_ROWS][NP_MAX];
    for (uint32_t m = 0; m < n_rows; m++) {
        UNROLL for (int n = 0; n < np; n++) {
            sums[m][n] = _mm512_setzero_ps();
        }
    }
    for (; units.first < n_units; units.first += OPEN_UNITS, w += bytes) {
        const size_t left = n_units - units.first;
        units.n = left < OPEN_UNITS ? left : OPEN_UNITS;
        units.is_last = left <= OPEN_UNITS;
        for (int n = 0; n < np; n++)
            avx512_open(p->w->dtype, w + (size_t)n * p->w->panel_bytes, units.n,
                        opened + (size_t)n * quant_chunk_bytes(form));
        multiply_tiles(p, form, &units, row, n_rows, np, sums, ahead);
    }
    avx512_store_rows(p, row, n_rows, panel, np, (const __m512(*)[NP_MAX])sums);
}

/* All rows of the part times np panels. */
INLINE void multiply_panels(const struct matmul_part *p, const struct quant_form form,
                            uint32_t panel, const int np) {
    const uint32_t end = p->row_first + p->n_rows;
    const size_t n_steps = (size_t)p->n_rows / TILE_ROWS * (p->w->n_in / ACT_BLOCK);
    struct read_ahead ahead = avx512_plan_ahead(p, panel + (uint32_t)np, NP_MAX, n_steps);
    for (uint32_t row = p->row_first, n; row < end; row += n) {
        n = end - row < OPEN_ROWS + TILE_ROWS ? end - row : OPEN_ROWS;
        multiply_rows(p, form, panel, row, n, np, &ahead);
    }
}

INLINE void multiply_many(const struct matmul_part *p, uint32_t block, bool has_min) {
    const struct quant_form form =
        quant_opened((struct quant_form){.block = block, .has_min = has_min});
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    for (; end - panel >= 3; panel += 3) multiply_panels(p, form, panel, 3);
    if (end - panel >= 2) multiply_panels(p, form, panel, 2), panel += 2;
    if (end > panel) multiply_panels(p, form, panel, 1);
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
    const uint32_t end = p->panel_first + p->n_panels, row = p->row_first;
    if (p->n_rows > ALONE_MAX) {
        if (form.block == 32)
            form.has_min ? multiply_many_32_min(p) : multiply_many_32(p);
        else
            form.has_min ? multiply_many_16_min(p) : multiply_many_16(p);
        return;
    }
    for (uint32_t panel = p->panel_first; panel < end; panel++) {
        if (p->n_rows == 4) multiply_panel(p, form, row, panel, 4);
        if (p->n_rows == 2 || p->n_rows == 3) multiply_panel(p, form, row, panel, 2);
        if (p->n_rows % 2) multiply_panel(p, form, row + p->n_rows - 1, panel, 1);
    }
}

void i8_f32_matmul__avx512vnni(const struct matmul_part *p) {
    multiply_quants(p);
}
