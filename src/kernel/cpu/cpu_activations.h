/* cpu_activations.h - the inputs of matrix products as the matmul kernels read them.
 *
 * Weights fix what they need: rows as they are (f32, f16), rounded to bf16, or int8 in blocks. Many
 * weights may need the same; then one preparation serves them all. Owns nothing: the caller gives
 * scratch. Threads: rows may be prepared side by side. */
#ifndef KERNEL_CPU_CPU_ACTIVATIONS_H
#define KERNEL_CPU_CPU_ACTIVATIONS_H

#include "radish.h"

#include "cpu_kernel.h"

/* Prepared rows for one weight and for all that need the same. */
struct act_rows {
    const struct weight *w;
    float *rounded; /* bf16, in both forms */
    uint16_t *halves;
    struct act_block *blocks; /* i8 */
    uint32_t width;           /* elements from row to row of rounded and halves */
};

/* The most that activations_bytes() says of rows_max rows and widths up to width_max. */
size_t activations_bytes_max(uint32_t rows_max, uint32_t width_max);

/* Scratch that n_rows prepared rows take, a multiple of 64; 0: the weight reads them as they are.
 */
size_t activations_bytes(const struct weight *w, uint32_t n_rows);

/* Whether rows prepared for one weight serve the other, too. */
bool activations_serve(const struct weight *w, const struct weight *other);

/* Where n_rows prepared rows go: scratch, 64-byte aligned, [activations_bytes()]. */
void activations_place(const struct weight *w, uint32_t n_rows, uint8_t *scratch,
                       struct act_rows *rows_out);

/* Prepares row `row`, whose numbers are x[n_in]. */
void activations_prepare(const struct act_rows *rows, uint32_t row, const float *x);

/* What kernels are given; x: the rows as they are, for weights that read these. */
struct activations activations_of(const struct act_rows *rows, const float *x, uint32_t x_stride);

#endif
