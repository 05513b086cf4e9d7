/* amx_matmul_i8.c - integer matrix products with AMX tiles, for quantised weights that have a scale
 * for 32 inputs: class kseq_i8.
 *
 *   dot  = sum over a scale block of (w[n, k] - offset) * a[r, k]      int8 times int8, exact
 *   y[r, n] = fma(float(dot) * d[n], s[r], y[r, n])                    blocks ascending
 *
 * TDPBSSD gives the dot products of a block for 16 tokens times the 16 rows of a panel in 16
 * cycles, where VNNI takes 64. Then they leave through memory, since nothing else reads a tile, and
 * get their scales as vectors: 48 float operations, which take as long as the product and its loads
 * and stores together, and overlap with nothing of these on the machines seen. So a block costs
 * 0.75 to 0.95 of what it costs with VNNI (docs/SPEED.md). The product of the next block is begun
 * before the scales of this one: what waits for a tile would otherwise fill the processor's window.
 *
 * Weights are opened as for VNNI (avx512_matmul_i8.c), as many inputs at a time, once for up to
 * OPEN_ROWS tokens; their offset is taken off then, so that a product needs no correction. A tile
 * of tokens meets three panels one after another, for two of which its activations are in the
 * nearest cache. These lie in tiles of 16 rows already (cpu_activations.c). The last tokens, if
 * they fill no tile, are left to VNNI while the panels are near; so are few tokens, which wait for
 * memory, and types with a scale for 16 inputs: two products for one would gain nothing. */
#include "amx_tile.h"
#include "avx512_quants.h"
#include "avx512_tile.h"

#include <string.h>

enum {
    NP_MAX = AVX512_I8_PANELS,
    OPEN_ROWS = 192, /* sums of so many tokens times three panels stay in the second-level cache */
    DOTS = AMX_TILE_ROWS * PANEL_ROWS
};

/* Numbers of the tiles: they are parts of the instructions. Two of each, in turns. */
#define SUM0    0
#define SUM1    1
#define ACT0    4
#define ACT1    5
#define WEIGHT0 6
#define WEIGHT1 7

static void configure(void) {
    struct amx_config config = {.palette = 1};
    for (int tile = 0; tile < AMX_TILES; tile++) {
        config.row_bytes[tile] = 64;
        config.n_rows[tile] = AMX_TILE_ROWS;
    }
    config.row_bytes[ACT0] = config.row_bytes[ACT1] = ACT_BLOCK;
    config.n_rows[WEIGHT0] = config.n_rows[WEIGHT1] = ACT_BLOCK / 4;
    amx_configure(&config);
}

/* Units of np panels, opened and signed. */
struct signed_units {
    const uint8_t *opened; /* of the first panel */
    size_t first, n;       /* of the panel's units */
    size_t panel_bytes;    /* from panel to panel in opened */
    bool has_min;
};

static void open_signed(const struct weight *w, const uint8_t *chunk, size_t n_units,
                        uint8_t *opened) {
    avx512_open(w->dtype, chunk, n_units, opened);
    if (!w->form->offset) return;
    const __m512i offset = _mm512_set1_epi8((char)w->form->offset);
    uint8_t *quants = opened + quant_units_at(quant_opened(*w->form));
    for (size_t i = 0; i < n_units * ACT_BLOCK / 4; i++, quants += VECTOR_BYTES)
        _mm512_store_si512(quants, _mm512_sub_epi8(_mm512_load_si512(quants), offset));
}

/* Where a tile of tokens times a panel is: at a unit. */
struct tile_at {
    const struct act_tile *rows;
    const uint8_t *quants;
    const float *scales;
};

/* The dot products of a block of 32 inputs. */
#define MULTIPLY_UNIT(sum, act, weight, at, dots)                                                  \
    do {                                                                                           \
        _tile_zero(sum);                                                                           \
        _tile_loadd(act, (at)->rows->q, ACT_BLOCK);                                                \
        _tile_loadd(weight, (at)->quants, VECTOR_BYTES);                                           \
        _tile_dpbssd(sum, act, weight);                                                            \
        _tile_stored(sum, dots, VECTOR_BYTES);                                                     \
    } while (0)

INLINE void step(struct tile_at *at, const bool has_min) {
    at->rows++;
    at->quants += ACT_BLOCK * PANEL_ROWS;
    at->scales += has_min ? 2 * PANEL_ROWS : PANEL_ROWS;
}

INLINE void add_unit(const struct tile_at *at, const int32_t *dots, const bool has_min,
                     __m512 sums[AMX_TILE_ROWS]) {
    const __m512 d = _mm512_load_ps(at->scales);
    const __m512 minimum = has_min ? _mm512_load_ps(at->scales + PANEL_ROWS) : d;
    UNROLL for (int m = 0; m < AMX_TILE_ROWS; m++) {
        const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots + m * PANEL_ROWS));
        __m512 sum = sums[m];
        if (has_min) sum = _mm512_fmadd_ps(minimum, _mm512_set1_ps(at->rows->sum[m]), sum);
        const __m512 scaled = _mm512_mul_ps(dot, d);
        sums[m] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(at->rows->scale[m]), sum);
        SETTLE(sums[m]);
    }
}

/* Some units of a panel times 16 tokens. */
INLINE void multiply_tile(struct tile_at at, size_t n_units, const bool has_min,
                          __m512 (*sums)[NP_MAX], struct read_ahead *ahead) {
    _Alignas(64) int32_t dots[2][DOTS];
    struct tile_at next = at;
    __m512 local[AMX_TILE_ROWS];
    UNROLL for (int m = 0; m < AMX_TILE_ROWS; m++) {
        local[m] = sums[m][0];
    }
    MULTIPLY_UNIT(SUM0, ACT0, WEIGHT0, &next, dots[0]);
    for (size_t u = 0; u < n_units; u += 2) {
        avx512_ask_panels(ahead);
        step(&next, has_min);
        if (u + 1 < n_units) MULTIPLY_UNIT(SUM1, ACT1, WEIGHT1, &next, dots[1]);
        add_unit(&at, dots[0], has_min, local);
        if (u + 1 == n_units) break;
        step(&at, has_min);
        step(&next, has_min);
        if (u + 2 < n_units) MULTIPLY_UNIT(SUM0, ACT0, WEIGHT0, &next, dots[0]);
        add_unit(&at, dots[1], has_min, local);
        step(&at, has_min);
    }
    UNROLL for (int m = 0; m < AMX_TILE_ROWS; m++) {
        sums[m][0] = local[m];
    }
}

static void multiply_plain(struct tile_at at, size_t n_units, __m512 (*sums)[NP_MAX],
                           struct read_ahead *ahead) {
    multiply_tile(at, n_units, false, sums, ahead);
}

static void multiply_min(struct tile_at at, size_t n_units, __m512 (*sums)[NP_MAX],
                         struct read_ahead *ahead) {
    multiply_tile(at, n_units, true, sums, ahead);
}

/* n_rows rows from `row` on times the units. */
static void multiply_tiles(const struct matmul_part *p, const struct signed_units *units,
                           uint32_t row, uint32_t n_rows, uint32_t panel, uint32_t np,
                           __m512 (*sums)[NP_MAX], struct read_ahead *ahead) {
    const size_t n_units = p->w->n_in / ACT_BLOCK;
    const size_t quants_at = quant_units_at(quant_opened(*p->w->form));
    const bool is_last = units->first + units->n == n_units;
    for (uint32_t m = 0; m < n_rows; m += AMX_TILE_ROWS) {
        const struct act_tile *rows =
            p->a.tiles + (row + m) / AMX_TILE_ROWS * n_units + units->first;
        for (uint32_t i = 0; is_last && i < AMX_TILE_ROWS; i++)
            avx512_ask_row(p, row + m + i, panel, (int)np);
        for (uint32_t n = 0; n < np; n++) {
            const uint8_t *opened = units->opened + n * units->panel_bytes;
            const struct tile_at at = {rows, opened + quants_at, (const void *)opened};
            __m512(*of_panel)[NP_MAX] = (void *)&sums[m][n];
            (units->has_min ? multiply_min : multiply_plain)(at, units->n, of_panel, ahead);
        }
    }
}

/* n_rows rows from `row` on, up to OPEN_ROWS, times np panels. */
static void multiply_rows(const struct matmul_part *p, uint32_t panel, uint32_t row,
                          uint32_t n_rows, uint32_t np, struct read_ahead *ahead) {
    const struct quant_form packed = *p->w->form, form = quant_opened(packed);
    const size_t n_units = p->w->n_in / ACT_BLOCK;
    const size_t bytes = OPEN_UNITS / quant_chunk_units(packed) * quant_chunk_bytes(packed);
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes;
    _Alignas(64) uint8_t opened[NP_MAX * OPEN_BYTES];
    _Alignas(64) __m512 sums[OPEN_ROWS][NP_MAX];
    struct signed_units units = {
        .opened = opened, .panel_bytes = quant_chunk_bytes(form), .has_min = form.has_min};
    memset(sums, 0, n_rows * sizeof *sums);
    for (; units.first < n_units; units.first += OPEN_UNITS, w += bytes) {
        const size_t left = n_units - units.first;
        units.n = left < OPEN_UNITS ? left : OPEN_UNITS;
        for (uint32_t n = 0; n < np; n++)
            open_signed(p->w, w + n * p->w->panel_bytes, units.n, opened + n * units.panel_bytes);
        multiply_tiles(p, &units, row, n_rows, panel, np, sums, ahead);
    }
    avx512_store_rows(p, row, n_rows, panel, (int)np, (const __m512(*)[NP_MAX])sums);
}

/* Rows that are in tiles, from the part's first on, and the rest: three panels at a time, while
 * these are in a near cache. */
static void multiply_tiled(const struct matmul_part *p, uint32_t n_rows) {
    const uint32_t end = p->panel_first + p->n_panels, row_end = p->row_first + n_rows;
    const size_t n_pairs = (p->w->n_in / ACT_BLOCK + 1) / 2;
    struct matmul_part rest = *p;
    rest.row_first += n_rows;
    rest.n_rows -= n_rows;
    rest.next = NULL; /* asked for already */
    rest.next_bytes = 0;
    configure();
    for (uint32_t panel = p->panel_first, np; panel < end; panel += np) {
        np = end - panel < NP_MAX ? end - panel : NP_MAX;
        const size_t n_steps = n_rows / AMX_TILE_ROWS * np * n_pairs;
        struct read_ahead ahead = avx512_plan_ahead(p, panel + np, NP_MAX, n_steps);
        for (uint32_t row = p->row_first, n; row < row_end; row += n) {
            n = row_end - row < OPEN_ROWS ? row_end - row : OPEN_ROWS;
            multiply_rows(p, panel, row, n, np, &ahead);
        }
        rest.panel_first = panel;
        rest.n_panels = np;
        if (rest.n_rows) i8_f32_matmul__avx512vnni(&rest);
    }
    _tile_release();
}

void i8_f32_matmul__amx(const struct matmul_part *p) {
    const uint32_t in_tiles = p->a.n_tiled > p->row_first ? p->a.n_tiled - p->row_first : 0;
    const uint32_t n_tiled = in_tiles < p->n_rows ? in_tiles : p->n_rows;
    if (n_tiled)
        multiply_tiled(p, n_tiled);
    else
        i8_f32_matmul__avx512vnni(p);
}
