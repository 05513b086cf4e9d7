/* dtype.h - element types of tensors: one table (dtype.def), block sizes, and the exact way back to
 * float32.
 *
 * A block type packs `block_elems` neighbouring elements of a row into `block_bytes`; a row is a
 * whole number of blocks. Threads: any; everything here is constant. */
#ifndef TENSOR_DTYPE_H
#define TENSOR_DTYPE_H

#include "radish.h"

enum dtype {
#define X(name, text, gguf_id, safetensors_name, block_elems, block_bytes) RADISH_DTYPE_##name,
#include "dtype.def"
#undef X
    RADISH_DTYPE_COUNT
};

const char *dtype_name(enum dtype dtype); /* "Q4_K"; static */
uint32_t dtype_block_elems(enum dtype dtype);
uint32_t dtype_block_bytes(enum dtype dtype);
bool dtype_is_quantised(enum dtype dtype); /* a block type */
bool dtype_can_read(enum dtype dtype);  /* dtype_to_f32() works on it; the others are only listed */
const char *dtype_readable_names(void); /* "F32, F16, ...", for messages; static */

/* False: not a type whose size we know. What is found is not necessarily readable. */
bool dtype_from_gguf(uint32_t gguf_id, enum dtype *dtype_out);
bool dtype_from_safetensors(const char *name, enum dtype *dtype_out);
const char *dtype_safetensors_name(
    enum dtype dtype); /* NULL: that format has no such type; static */

/* Also of types that were withdrawn from the format ("Q4_0_4_4"); "type N" style names are the
 * caller's; NULL = unknown id; static. */
const char *dtype_gguf_name(uint32_t gguf_id);

/* Bytes of n elements in a row; false when n is no whole number of blocks or the size overflows. */
bool dtype_row_bytes(enum dtype dtype, uint64_t n, uint64_t *bytes_out);

/* dst[0..n) = the elements of src, n a multiple of block_elems, dtype_can_read(). Exactly what
 * ggml's reference dequantisation gives; src needs no alignment. */
void dtype_to_f32(enum dtype dtype, const void *src, float *dst, size_t n);

float dtype_f16_to_f32(uint16_t h);
uint16_t dtype_f32_to_f16(float f); /* round to nearest even */
static inline float dtype_bf16_to_f32(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
uint16_t dtype_f32_to_bf16(float f); /* round to nearest even; NaN stays NaN */

#endif
