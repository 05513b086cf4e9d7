/* amx_tile.h - the configuration of AMX tiles.
 *
 * Included by amx_*.c only. */
#ifndef KERNEL_CPU_AMX_TILE_H
#define KERNEL_CPU_AMX_TILE_H

#include <immintrin.h>
#include <stdint.h>

enum { AMX_TILES = 8, AMX_TILE_ROWS = 16 };

struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

static inline void amx_configure(const struct amx_config *config) {
    /* The intrinsic tells the compiler of eight bytes only: without this the others may be left
     * out. */
    __asm__ volatile("" : : "r"(config) : "memory");
    _tile_loadconfig(config);
}

#endif
