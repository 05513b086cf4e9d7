/* bench_onednn.h - matrix products by oneDNN, to hold ours against, where radish is built with it
 * (cmake -DRADISH_ONEDNN=ON, package libdnnl-dev).
 *
 * Owns: its weights, activations and primitives. The device's threads compute. Threads: main thread
 * only. */
#ifndef CLI_BENCH_ONEDNN_H
#define CLI_BENCH_ONEDNN_H

#include "radish.h"

#include "kernel/kernel.h"

struct onednn_product;

/* Version and instruction set that oneDNN uses: "2.6.3 avx512_core_bf16"; NULL: not built in.
 * Static. */
const char *onednn_describe(void);

/* Up to rows_max rows times [n_out, n_in] in bf16, f32 or (any quantised type) int8, with enough
 * matrices in turn to fill weight_bytes. NULL: not built in, no memory, or oneDNN has no such
 * product on this processor. */
struct onednn_product *onednn_product_create(struct device *device, enum dtype dtype,
                                             uint32_t n_out, uint32_t n_in, uint32_t rows_max,
                                             uint64_t weight_bytes);
void onednn_product_destroy(struct onednn_product *product);

/* Prepares for n_rows rows and multiplies once; false: cannot, or the product is wrong. */
bool onednn_product_set_rows(struct onednn_product *product, uint32_t n_rows);
void onednn_product_run(void *product); /* one call; of struct timed */

#endif
