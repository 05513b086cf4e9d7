/* model_vocab.c - version 3, no tensors; the machine is taken to be little-endian, as radish does.
 */
#include "model_vocab.h"

#include "test.h"

#include "base/arena.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

static void put(struct vocab_file *f, const void *bytes, size_t n) {
    buf_append(&f->values, bytes, n);
}

static void put_u64(struct vocab_file *f, uint64_t v) {
    put(f, &v, sizeof v);
}

static void put_u32(struct vocab_file *f, uint32_t v) {
    put(f, &v, sizeof v);
}

static void put_str(struct vocab_file *f, const char *s) {
    put_u64(f, strlen(s));
    put(f, s, strlen(s));
}

static void put_key(struct vocab_file *f, const char *key, uint32_t type) {
    char full[64];
    snprintf(full, sizeof full, "tokenizer.%s", key);
    put_str(f, full);
    put_u32(f, type);
    f->n_values++;
}

void vocab_file_add_str(struct vocab_file *f, const char *key, const char *value) {
    put_key(f, key, 8);
    put_str(f, value);
}

void vocab_file_add_u32(struct vocab_file *f, const char *key, uint32_t value) {
    put_key(f, key, 4);
    put_u32(f, value);
}

void vocab_file_add_bool(struct vocab_file *f, const char *key, bool value) {
    put_key(f, key, 7);
    put(f, &value, 1);
}

static void begin_array(struct vocab_file *f, const char *key, uint32_t type, size_t n) {
    put_key(f, key, 9);
    put_u32(f, type);
    put_u64(f, n);
}

void vocab_file_add_strs(struct vocab_file *f, const char *key, const char *const *strs, size_t n) {
    begin_array(f, key, 8, n);
    for (size_t i = 0; i < n; i++) put_str(f, strs[i]);
}

void vocab_file_add_i32s(struct vocab_file *f, const char *key, const int32_t *values, size_t n) {
    begin_array(f, key, 5, n);
    put(f, values, n * sizeof *values);
}

void vocab_file_add_bytes(struct vocab_file *f, const char *key, const void *bytes, size_t n) {
    begin_array(f, key, 0, n);
    put(f, bytes, n);
}

void vocab_file_add_f32s(struct vocab_file *f, const char *key, const float *values, size_t n) {
    begin_array(f, key, 6, n);
    put(f, values, n * sizeof *values);
}

struct vocab_file vocab_file_bytes(const char *pre) {
    static char bytes[256][8];
    const char *tokens[N_IDS];
    int32_t types[N_IDS];
    static const char *const merges[] = {"a b", "1 2"};
    struct vocab_file f = {0};
    for (int i = 0; i < N_IDS; i++) types[i] = 1;
    for (int i = 0; i < 256; i++) {
        struct buf b = {0};
        char byte = (char)i;
        byte_level_append_chars(&byte, 1, &b);
        snprintf(bytes[i], sizeof bytes[i], "%s", b.data);
        buf_deinit(&b);
        tokens[i] = bytes[i];
    }
    tokens[ID_AB] = "ab";
    tokens[ID_12] = "12";
    tokens[ID_CONTROL] = "<ctl>";
    tokens[ID_USER] = "<usr>";
    tokens[ID_UNUSED] = "<old>";
    types[ID_CONTROL] = 3;
    types[ID_USER] = 4;
    types[ID_UNUSED] = 5;
    vocab_file_add_str(&f, "ggml.model", "gpt2");
    if (pre) vocab_file_add_str(&f, "ggml.pre", pre);
    vocab_file_add_strs(&f, "ggml.tokens", tokens, N_IDS);
    vocab_file_add_i32s(&f, "ggml.token_type", types, N_IDS);
    vocab_file_add_strs(&f, "ggml.merges", merges, 2);
    return f;
}

void vocab_file_take(struct vocab_file *f, struct buf *out) {
    struct vocab_file whole = {0};
    put(&whole, "GGUF", 4);
    put_u32(&whole, 3);
    put_u64(&whole, 0);
    put_u64(&whole, f->n_values);
    put(&whole, f->values.data, f->values.len);
    *out = whole.values;
    buf_deinit(&f->values);
    *f = (struct vocab_file){0};
}

struct tokenizer *vocab_file_open(struct vocab_file *f, struct radish_error *err) {
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct buf bytes;
    struct gguf *gguf;
    struct arena arena;
    vocab_file_take(f, &bytes);
    memset(err, 0, sizeof *err);
    if (gguf_open_memory((const uint8_t *)bytes.data, bytes.len, &gguf, err) != RADISH_OK)
        fail_msg("%s", err->msg);
    arena_init(&arena, 0);
    enum radish_status status = tokenizer_gguf_spec(gguf, &arena, &spec, err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &tokenizer, err);
    assert_int_equal(err->status, status);
    arena_deinit(&arena);
    gguf_close(gguf);
    buf_deinit(&bytes);
    return tokenizer;
}
