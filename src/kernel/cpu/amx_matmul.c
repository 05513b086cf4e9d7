/* amx_matmul.c - matrix products of bf16 weights with AMX tiles, class kpair32.
 *
 *   y[r, n] = sum over blocks of 32 inputs: even chain + odd chain, both from 0 (ref_matmul.c)
 *
 * That is what TDPBF16PS computes for each of 16 x 16 outputs. A panel lies as the instruction
 * wants its right operand (16 pairs of inputs times 16 rows are 1 KiB in a row), the activations as
 * it wants the left one, so tiles are loaded straight from both. Eight tiles: for more than 16
 * tokens 2 x 2 tiles of sums with two of each operand, so that a load serves two products. Up to 16
 * tokens wait for memory alone: they read one panel after another, in one stream, and ask for
 * blocks at two distances, which is faster than four panels side by side. More tokens ask for the
 * next panels, and for the lines of the result, while they pass by.
 *
 * A tile row is a token by itself: how many there are changes no bit. Tokens past the last one are
 * left out by the tiles' configuration, which is per part. Sums leave through memory. The state of
 * the tiles is released at the end of a part: a thread that has none is switched for less. */
#include "amx_tile.h"
#include "avx512_tile.h"
#include "float_env.h"

#include <string.h>

enum { TILE_ROWS = AMX_TILE_ROWS, NEAR_BYTES = 2048, FAR_BYTES = 16384 };

/* Numbers of the tiles: they are parts of the instructions. */
#define SUM0    0
#define SUM1    1
#define SUM2    2
#define SUM3    3
#define ACT0    4
#define ACT1    5
#define WEIGHT0 6
#define WEIGHT1 7

/* Tiles for n0 tokens, and n1 more for the odd tiles of sums where these are used as 2 x 2. */
static void configure(uint32_t n0, uint32_t n1) {
    struct amx_config config = {.palette = 1};
    for (int tile = 0; tile < AMX_TILES; tile++) {
        config.row_bytes[tile] = 64;
        config.n_rows[tile] = (uint8_t)n0;
    }
    if (n1) config.n_rows[SUM2] = config.n_rows[SUM3] = config.n_rows[ACT1] = (uint8_t)n1;
    config.n_rows[WEIGHT0] = config.n_rows[WEIGHT1] = TILE_ROWS;
    amx_configure(&config);
}

static void store_sums(const struct matmul_part *p, uint32_t row, uint32_t n_rows, uint32_t panel,
                       const float *sums) {
    for (uint32_t i = 0; i < n_rows; i++)
        avx512_store(p, row + i, panel, _mm512_load_ps(sums + i * PANEL_ROWS));
}

/* 17 to 32 tokens times two panels. */
static void multiply_2x2(const struct matmul_part *p, uint32_t row, uint32_t n1, uint32_t panel,
                         struct read_ahead *ahead, float *sums) {
    const size_t n_blocks = panel_pairs(p->w) / PAIRS_BLOCK, stride = 2 * (size_t)p->a.x_stride;
    const uint16_t *x = p->a.halves + (size_t)row * p->a.x_stride;
    const uint16_t *x1 = x + TILE_ROWS * (size_t)p->a.x_stride;
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes, *w1 = w + p->w->panel_bytes;
    _tile_zero(SUM0);
    _tile_zero(SUM1);
    _tile_zero(SUM2);
    _tile_zero(SUM3);
    for (size_t b = 0; b < n_blocks; b++, x += 32, x1 += 32, w += 1024, w1 += 1024) {
        avx512_ask_panels(ahead);
        if (b < TILE_ROWS + n1) avx512_ask_row(p, row + (uint32_t)b, panel, 2);
        _tile_loadd(WEIGHT0, w, 64);
        _tile_loadd(ACT0, x, stride);
        _tile_dpbf16ps(SUM0, ACT0, WEIGHT0);
        _tile_loadd(WEIGHT1, w1, 64);
        _tile_dpbf16ps(SUM1, ACT0, WEIGHT1);
        _tile_loadd(ACT1, x1, stride);
        _tile_dpbf16ps(SUM2, ACT1, WEIGHT0);
        _tile_dpbf16ps(SUM3, ACT1, WEIGHT1);
    }
    _tile_stored(SUM0, sums, 64);
    store_sums(p, row, TILE_ROWS, panel, sums);
    _tile_stored(SUM1, sums, 64);
    store_sums(p, row, TILE_ROWS, panel + 1, sums);
    _tile_stored(SUM2, sums, 64);
    store_sums(p, row + TILE_ROWS, n1, panel, sums);
    _tile_stored(SUM3, sums, 64);
    store_sums(p, row + TILE_ROWS, n1, panel + 1, sums);
}

/* A kilobyte of a panel, for the nearest cache and for the second; what lies behind the part's end
 * is another thread's. */
static void ask_blocks(const uint8_t *w, const uint8_t *end) {
    UNROLL for (int at = 0; at < 1024; at += 64) {
        _mm_prefetch((const char *)w + NEAR_BYTES + at, _MM_HINT_T0);
    }
    if (end - w <= FAR_BYTES) return;
    UNROLL for (int at = 0; at < 1024; at += 64) {
        _mm_prefetch((const char *)w + FAR_BYTES + at, _MM_HINT_T1);
    }
}

/* Up to 16 tokens times one panel. */
static void multiply_1x1(const struct matmul_part *p, uint32_t row, uint32_t n_rows, uint32_t panel,
                         float *sums) {
    const size_t n_blocks = panel_pairs(p->w) / PAIRS_BLOCK, stride = 2 * (size_t)p->a.x_stride;
    const uint16_t *x = p->a.halves + (size_t)row * p->a.x_stride;
    const uint8_t *w = p->w->data + panel * p->w->panel_bytes;
    const uint8_t *end = p->w->data + (p->panel_first + p->n_panels) * p->w->panel_bytes;
    _tile_zero(SUM0);
    for (size_t b = 0; b < n_blocks; b++, x += 32, w += 1024) {
        ask_blocks(w, end);
        _tile_loadd(ACT0, x, stride);
        _tile_loadd(WEIGHT0, w, 64);
        _tile_dpbf16ps(SUM0, ACT0, WEIGHT0);
    }
    _tile_stored(SUM0, sums, 64);
    store_sums(p, row, n_rows, panel, sums);
}

/* Blocks of 32 tokens times all panels: a pair of panels stays in the nearest caches while the
 * tokens pass by. */
static void multiply_blocks(const struct matmul_part *p, uint32_t row, uint32_t n_blocks,
                            float *sums) {
    const uint32_t end = p->panel_first + p->n_panels;
    uint32_t panel = p->panel_first;
    const size_t n_steps = n_blocks * (panel_pairs(p->w) / PAIRS_BLOCK);
    configure(TILE_ROWS, TILE_ROWS);
    for (; end - panel >= 2; panel += 2) {
        struct read_ahead ahead = avx512_plan_ahead(p, panel + 2, 2, n_steps);
        for (uint32_t i = 0; i < n_blocks; i++)
            multiply_2x2(p, row + i * 2 * TILE_ROWS, TILE_ROWS, panel, &ahead, sums);
    }
    for (uint32_t i = 0; panel < end && i < 2 * n_blocks; i++)
        multiply_1x1(p, row + i * TILE_ROWS, TILE_ROWS, panel, sums);
}

/* The last 1 to 31 tokens times all panels. */
static void multiply_rest(const struct matmul_part *p, uint32_t row, uint32_t n_rows, float *sums) {
    const uint32_t end = p->panel_first + p->n_panels;
    const uint32_t n0 = n_rows < TILE_ROWS ? n_rows : TILE_ROWS, n1 = n_rows - n0;
    uint32_t panel = p->panel_first;
    configure(n0, n1);
    for (; n1 && end - panel >= 2; panel += 2) {
        struct read_ahead ahead =
            avx512_plan_ahead(p, panel + 2, 2, panel_pairs(p->w) / PAIRS_BLOCK);
        multiply_2x2(p, row, n1, panel, &ahead, sums);
    }
    for (uint32_t i = panel; i < end; i++) multiply_1x1(p, row, n0, i, sums);
    if (!n1 || panel == end) return;
    configure(n1, 0);
    for (; panel < end; panel++) multiply_1x1(p, row + TILE_ROWS, n1, panel, sums);
}

void bf16_f32_matmul__amx(const struct matmul_part *p) {
    _Alignas(64) float sums[TILE_ROWS * PANEL_ROWS];
    const uint64_t env = float_env_flush_denormals();
    const uint32_t n_blocks = p->n_rows / (2 * TILE_ROWS), n_rest = p->n_rows % (2 * TILE_ROWS);
    if (n_blocks) multiply_blocks(p, p->row_first, n_blocks, sums);
    if (n_rest) multiply_rest(p, p->row_first + n_blocks * 2 * TILE_ROWS, n_rest, sums);
    _tile_release();
    float_env_restore(env);
}
