/* pack.h - matrices from the file's form into the panels that matmul kernels read (cpu_kernel.h
 * draws them), and rows back out of them.
 *
 * Owns: nothing; the weight's memory is the device's. Threads: any; panels are independent. */
#ifndef KERNEL_CPU_PACK_H
#define KERNEL_CPU_PACK_H

#include "radish.h"

#include "cpu_kernel.h"
#include "kernel/kernel.h"

/* The format a matrix of this dtype gets for matmul; RAW when it cannot be multiplied. */
enum pack_format pack_format_for(enum dtype dtype, enum radish_precision precision);

/* Fills everything of *w but data and matmul: sizes, strides, block layout. False: a row is no
 * whole number of blocks, or a size overflows. */
bool pack_layout(enum dtype dtype, enum pack_format format, uint32_t n_out, uint32_t n_in,
                 struct weight *w);

/* The matrix as the file has it. Where its dtype is not the weight's it is F32, F16 or BF16, and
 * becomes blocks of the weight's dtype on the way, block by block: nothing is held twice. */
struct pack_source {
    const void *data; /* [n_out, n_in] row-major */
    enum dtype dtype;
};

/* Packs panel `panel` from the file's rows. For RAW, "panels" are groups of 16 rows in the file's
 * form. False: a number is not finite or too large for the weight's dtype (quantise.h). */
bool pack_panel(struct weight *w, const struct pack_source *source, uint32_t panel);

/* out[0, n_in) = row `row`, bit for bit what dtype_to_f32() gives for it. */
void pack_row_to_f32(const struct weight *w, uint32_t row, float *out);

#endif
