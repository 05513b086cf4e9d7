/* bf16.h - the BF16 and AMX instructions that the kernels use, on a processor that has AVX2 only:
 * for tests of kernel/cpu/avx512bf16_*.c and amx_*.c.
 *
 * How they round is what ref_matmul.c says and machines that have them were seen to do, so these
 * rows are held against plain C for all that is around the arithmetic: which rows and panels a tile
 * takes, how tiles are configured for the last tokens, where sums go. The state of the tiles is the
 * thread's, as in the processor; what would fault there ends the test: tiles without a
 * configuration, or whose sizes do not fit together. Included by avx512.h. */
#ifndef TESTS_EMULATED_BF16_H
#define TESTS_EMULATED_BF16_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline float emulated_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* VDPBF16PS: the odd input of a pair first. */
static inline __m512 emulated_dpbf16_ps(__m512 sums, __m512i a, __m512i b) {
    union emulated out = {.ps = sums}, va = {.i = a}, vb = {.i = b};
    for (int i = 0; i < 16; i++)
        for (int odd = 1; odd >= 0; odd--)
            out.f[i] = fmaf(emulated_bf16(va.u16[2 * i + odd]), emulated_bf16(vb.u16[2 * i + odd]),
                            out.f[i]);
    return out.ps;
}

enum { EMULATED_TILES = 8, EMULATED_TILE_ROWS = 16, EMULATED_TILE_BYTES = 64 };

struct emulated_tiles {
    bool is_configured;
    uint16_t row_bytes[EMULATED_TILES];
    uint8_t n_rows[EMULATED_TILES];
    union {
        uint8_t bytes[EMULATED_TILE_BYTES];
        int8_t ints[EMULATED_TILE_BYTES];
        uint16_t halves[EMULATED_TILE_BYTES / 2];
        int32_t words[EMULATED_TILE_BYTES / 4];
        float floats[EMULATED_TILE_BYTES / 4];
    } rows[EMULATED_TILES][EMULATED_TILE_ROWS];
};

static _Thread_local struct emulated_tiles emulated_tiles;

static inline void emulated_demand(bool is_so, const char *what) {
    if (is_so) return;
    fprintf(stderr, "emulated AMX: %s\n", what);
    abort();
}

/* Palette, start row, 14 bytes reserved, bytes a row [16] of 2 bytes, rows [16] of one. */
static inline void emulated_tile_loadconfig(const void *at) {
    const uint8_t *config = at;
    struct emulated_tiles *t = &emulated_tiles;
    memset(t, 0, sizeof *t);
    emulated_demand(config[0] == 1, "palette");
    memcpy(t->row_bytes, config + 16, sizeof t->row_bytes);
    memcpy(t->n_rows, config + 48, sizeof t->n_rows);
    for (int i = 0; i < EMULATED_TILES; i++)
        emulated_demand(t->n_rows[i] <= EMULATED_TILE_ROWS &&
                            t->row_bytes[i] <= EMULATED_TILE_BYTES,
                        "a tile larger than there are");
    t->is_configured = true;
}

static inline void emulated_tile_release(void) {
    memset(&emulated_tiles, 0, sizeof emulated_tiles);
}

static inline void emulated_check_tile(int tile) {
    emulated_demand(emulated_tiles.is_configured && emulated_tiles.n_rows[tile] > 0,
                    "a tile that is not configured");
}

static inline void emulated_tile_zero(int tile) {
    emulated_check_tile(tile);
    memset(emulated_tiles.rows[tile], 0, sizeof emulated_tiles.rows[tile]);
}

static inline void emulated_tile_loadd(int tile, const void *base, size_t stride) {
    struct emulated_tiles *t = &emulated_tiles;
    emulated_tile_zero(tile);
    for (int row = 0; row < t->n_rows[tile]; row++)
        memcpy(t->rows[tile][row].bytes, (const uint8_t *)base + (size_t)row * stride,
               t->row_bytes[tile]);
}

static inline void emulated_tile_stored(int tile, void *base, size_t stride) {
    const struct emulated_tiles *t = &emulated_tiles;
    emulated_check_tile(tile);
    for (int row = 0; row < t->n_rows[tile]; row++)
        memcpy((uint8_t *)base + (size_t)row * stride, t->rows[tile][row].bytes,
               t->row_bytes[tile]);
}

/* What both products ask of their tiles. */
static inline void emulated_check_product(int sums, int left, int right) {
    const struct emulated_tiles *t = &emulated_tiles;
    emulated_check_tile(sums);
    emulated_check_tile(left);
    emulated_check_tile(right);
    emulated_demand(t->n_rows[sums] == t->n_rows[left] &&
                        t->n_rows[right] == t->row_bytes[left] / 4 &&
                        t->row_bytes[sums] == t->row_bytes[right],
                    "tiles that do not fit together");
}

/* TDPBSSD: int8 times int8, four inputs side by side. */
static inline void emulated_tile_dpbssd(int sums, int left, int right) {
    struct emulated_tiles *t = &emulated_tiles;
    emulated_check_product(sums, left, right);
    for (int m = 0; m < t->n_rows[sums]; m++)
        for (int n = 0; n < t->row_bytes[sums] / 4; n++)
            for (int k = 0; k < t->row_bytes[left]; k++)
                t->rows[sums][m].words[n] +=
                    t->rows[left][m].ints[k] * t->rows[right][k / 4].ints[4 * n + k % 4];
}

/* TDPBF16PS: a chain over the even inputs and one over the odd ones, whose sum is added. */
static inline void emulated_tile_dpbf16ps(int sums, int left, int right) {
    struct emulated_tiles *t = &emulated_tiles;
    const int n_pairs = t->row_bytes[left] / 4;
    emulated_check_product(sums, left, right);
    for (int m = 0; m < t->n_rows[sums]; m++) {
        for (int n = 0; n < t->row_bytes[sums] / 4; n++) {
            float chains[2] = {0};
            for (int k = 0; k < 2 * n_pairs; k++)
                chains[k % 2] =
                    fmaf(emulated_bf16(t->rows[left][m].halves[k]),
                         emulated_bf16(t->rows[right][k / 2].halves[2 * n + k % 2]), chains[k % 2]);
            t->rows[sums][m].floats[n] += chains[0] + chains[1];
        }
    }
}

#undef _mm512_dpbf16_ps
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define __m512bh         __m512i
#define _mm512_dpbf16_ps emulated_dpbf16_ps
#define _tile_loadconfig emulated_tile_loadconfig
#define _tile_release    emulated_tile_release
#define _tile_zero       emulated_tile_zero
#define _tile_loadd      emulated_tile_loadd
#define _tile_stored     emulated_tile_stored
#define _tile_dpbf16ps   emulated_tile_dpbf16ps
#define _tile_dpbssd     emulated_tile_dpbssd

#endif
