/* ref_prepare.c - rows as matrix products read them, in plain C: int8 in blocks of 32, bf16.
 *
 * Quantising: s = max|x| / 127 over the block, q = x * (127 / max|x|) rounded to even. Adding
 * 1.5 * 2^23 rounds exactly that way in plain float arithmetic; the low byte of the sum's bits is
 * the integer. With each block go the sums of its integers, which correct for the offset of
 * unsigned weights and go with their minimums.
 *
 * bf16: rounded to even; a NaN stays one. Both forms are written, as floats and as halves: which
 * one is read depends on the kernel. Inputs are filled up to a multiple of 32 with zeros.
 *
 * Cost: the maximum does not vectorise in plain C (a NaN must be left out), so a number takes some
 * seven cycles, a tenth of a whole product with 1,024 outputs; hence the vector variants. */
#include "cpu_activations.h"

#include <math.h>

void i8_prepare__ref(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_blocks = rows->w->n_in / ACT_BLOCK;
    const bool is_tiled = row < rows->n_tiled;
    struct act_tile *tile = is_tiled ? act_find_tile(rows, row) : NULL;
    struct act_block local, *block = is_tiled ? &local : rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++, x += ACT_BLOCK) {
        float amax = 0;
        for (int i = 0; i < ACT_BLOCK; i++) {
            const float a = fabsf(x[i]);
            amax = a > amax ? a : amax;
        }
        amax = act_amax(amax);
        const float inverse = act_inverse(amax);
        int32_t sums[2] = {0};
        for (int i = 0; i < ACT_BLOCK; i++) {
            const float shifted = x[i] * inverse + INT_BASE;
            uint32_t bits;
            memcpy(&bits, &shifted, sizeof bits);
            block->q[i] = (int8_t)((int32_t)(bits << 24) >> 24);
            sums[i / (ACT_BLOCK / 2)] += block->q[i];
        }
        act_finish_block(rows->w, amax, sums, block);
        if (is_tiled)
            act_put_block(block, row, tile++);
        else
            block++;
    }
}

void bf16_prepare__ref(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_in = rows->w->n_in, width = rows->width;
    float *rounded = rows->rounded + (size_t)row * width;
    uint16_t *halves = rows->halves + (size_t)row * width;
    for (uint32_t k = 0; k < width; k++) act_round(k < n_in ? x[k] : 0.0f, &rounded[k], &halves[k]);
}
