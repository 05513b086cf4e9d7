/* format_gguf_spec.h - makes GGUF files, right and wrong ones, from a description that a test can
 * bend in one place. */
#ifndef SUPPORT_FORMAT_GGUF_SPEC_H
#define SUPPORT_FORMAT_GGUF_SPEC_H

#include "base/buf.h"

enum { SPEC_VALUES_MAX = 16, SPEC_TENSORS_MAX = 8, SPEC_PAYLOAD_MAX = 160, SPEC_DIMS_MAX = 8 };

struct gguf_spec_value {
    const char *key;
    uint64_t key_len; /* as written; the bytes are strlen(key) unless has_nul */
    bool has_nul;     /* the key's bytes are key_len, NUL included */
    uint32_t type;
    uint8_t payload[SPEC_PAYLOAD_MAX];
    size_t payload_bytes;
};

struct gguf_spec_tensor {
    const char *name;
    uint64_t name_len; /* as written */
    uint32_t n_dims;   /* as written; min(n_dims, SPEC_DIMS_MAX) dims follow */
    uint64_t dims[SPEC_DIMS_MAX];
    uint32_t type;
    uint64_t offset;
};

struct gguf_spec {
    char magic[5];
    uint32_t version;
    uint64_t n_values_claimed, n_tensors_claimed; /* added to the true numbers */
    struct gguf_spec_value values[SPEC_VALUES_MAX];
    size_t n_values;
    struct gguf_spec_tensor tensors[SPEC_TENSORS_MAX];
    size_t n_tensors;
    uint32_t alignment;
    uint64_t data_bytes; /* behind the padding; byte i is i * 7 */
};

/* A valid file: general.architecture "llama", tensors a.weight (F32 [4, 3]), b.weight (Q8_0 [64,
 * 2]) and c.bias (F16 [5]). */
void gguf_spec_init(struct gguf_spec *spec);
void gguf_spec_add(struct gguf_spec *spec, const char *key, uint32_t type, const void *payload,
                   size_t n);
void gguf_spec_add_u32(struct gguf_spec *spec, const char *key, uint32_t value);
void gguf_spec_add_str(struct gguf_spec *spec, const char *key, const char *value);

/* The file's bytes; caller frees with buf_deinit(). */
void gguf_spec_build(const struct gguf_spec *spec, struct buf *out);

void spec_put_uint(struct buf *out, uint64_t value, unsigned n_bytes); /* little-endian */
void spec_write_file(const char *path, const void *bytes,
                     size_t n); /* fails the test if it cannot */

#endif
