/* model_gguf.h - builds a GGUF file in memory, key by key and tensor by tensor. For tests. */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include "base/buf.h"

#include "tensor/dtype.h"

struct gguf_build {
    struct buf values, infos, data;
    uint64_t n_values, n_tensors;
};

void gguf_build_init(struct gguf_build *b);
void gguf_build_deinit(struct gguf_build *b);

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t value);
void gguf_build_f32(struct gguf_build *b, const char *key, float value);
void gguf_build_str(struct gguf_build *b, const char *key, const char *value);
void gguf_build_u32s(struct gguf_build *b, const char *key, const uint32_t *values, uint64_t n);
void gguf_build_strs(struct gguf_build *b, const char *key, uint64_t n); /* n strings "t" */

/* F32 tensor of n elements, or of [rows, n] when rows is not 0; values NULL: zeros. */
void gguf_build_tensor(struct gguf_build *b, const char *name, uint64_t rows, uint64_t n,
                       const float *values);

/* A tensor of zeros of another type: its GGUF number, and the bytes it takes. */
void gguf_build_typed_tensor(struct gguf_build *b, const char *name, uint32_t type, uint64_t rows,
                             uint64_t n, size_t n_bytes);

/* The file. Caller frees with free(). */
uint8_t *gguf_build_take(struct gguf_build *b, size_t *n_out);

#endif
