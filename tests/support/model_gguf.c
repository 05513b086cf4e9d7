/* model_gguf.c - version 3, alignment 32; the machine is taken to be little-endian, as radish does
 * elsewhere. */
#include "model_gguf.h"

#include "test.h"

enum { TYPE_U32 = 4, TYPE_F32 = 6, TYPE_STR = 8, TYPE_ARRAY = 9, TYPE_TENSOR_F32 = 0, ALIGN = 32 };

static void put_u32(struct buf *b, uint32_t v) {
    buf_append(b, &v, sizeof v);
}

static void put_u64(struct buf *b, uint64_t v) {
    buf_append(b, &v, sizeof v);
}

static void put_str(struct buf *b, const char *s) {
    put_u64(b, strlen(s));
    buf_append_str(b, s);
}

static void pad(struct buf *b) {
    while (b->len % ALIGN) buf_append_char(b, '\0');
}

void gguf_build_init(struct gguf_build *b) {
    memset(b, 0, sizeof *b);
    buf_init(&b->values, 0);
    buf_init(&b->infos, 0);
    buf_init(&b->data, 0);
}

void gguf_build_deinit(struct gguf_build *b) {
    buf_deinit(&b->values);
    buf_deinit(&b->infos);
    buf_deinit(&b->data);
}

static void begin_value(struct gguf_build *b, const char *key, uint32_t type) {
    put_str(&b->values, key);
    put_u32(&b->values, type);
    b->n_values++;
}

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t value) {
    begin_value(b, key, TYPE_U32);
    put_u32(&b->values, value);
}

void gguf_build_f32(struct gguf_build *b, const char *key, float value) {
    begin_value(b, key, TYPE_F32);
    buf_append(&b->values, &value, sizeof value);
}

void gguf_build_str(struct gguf_build *b, const char *key, const char *value) {
    begin_value(b, key, TYPE_STR);
    put_str(&b->values, value);
}

void gguf_build_u32s(struct gguf_build *b, const char *key, const uint32_t *values, uint64_t n) {
    begin_value(b, key, TYPE_ARRAY);
    put_u32(&b->values, TYPE_U32);
    put_u64(&b->values, n);
    buf_append(&b->values, values, n * sizeof *values);
}

void gguf_build_strs(struct gguf_build *b, const char *key, uint64_t n) {
    begin_value(b, key, TYPE_ARRAY);
    put_u32(&b->values, TYPE_STR);
    put_u64(&b->values, n);
    for (uint64_t i = 0; i < n; i++) put_str(&b->values, "t");
}

void gguf_build_typed_tensor(struct gguf_build *b, const char *name, uint32_t type, uint64_t rows,
                             uint64_t n, size_t n_bytes) {
    pad(&b->data);
    put_str(&b->infos, name);
    put_u32(&b->infos, rows ? 2 : 1);
    put_u64(&b->infos, n);
    if (rows) put_u64(&b->infos, rows);
    put_u32(&b->infos, type);
    put_u64(&b->infos, b->data.len);
    for (size_t i = 0; i < n_bytes; i++) buf_append_char(&b->data, '\0');
    b->n_tensors++;
}

void gguf_build_tensor(struct gguf_build *b, const char *name, uint64_t rows, uint64_t n,
                       const float *values) {
    size_t n_bytes = (size_t)(n * (rows ? rows : 1)) * sizeof *values;
    gguf_build_typed_tensor(b, name, TYPE_TENSOR_F32, rows, n, n_bytes);
    if (values) memcpy(b->data.data + b->data.len - n_bytes, values, n_bytes);
}

uint8_t *gguf_build_take(struct gguf_build *b, size_t *n_out) {
    struct buf file;
    buf_init(&file, 0);
    buf_append(&file, "GGUF", 4);
    put_u32(&file, 3);
    put_u64(&file, b->n_tensors);
    put_u64(&file, b->n_values);
    buf_append(&file, b->values.data, b->values.len);
    buf_append(&file, b->infos.data, b->infos.len);
    pad(&file);
    buf_append(&file, b->data.data, b->data.len);
    pad(&file);
    uint8_t *bytes = (uint8_t *)buf_take(&file, n_out);
    assert_non_null(bytes);
    return bytes;
}
