/* format_gguf_spec.c - writes what the description says, not what would be right: lengths and
 * counts are taken as given. */
#include "format_gguf_spec.h"

#include "test.h"

void spec_put_uint(struct buf *out, uint64_t value, unsigned n_bytes) {
    for (unsigned i = 0; i < n_bytes; i++) buf_append_char(out, (char)(uint8_t)(value >> 8 * i));
}

void spec_write_file(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void add_tensor(struct gguf_spec *spec, struct gguf_spec_tensor tensor) {
    tensor.name_len = strlen(tensor.name);
    spec->tensors[spec->n_tensors++] = tensor;
}

void gguf_spec_init(struct gguf_spec *spec) {
    *spec = (struct gguf_spec){.magic = "GGUF", .version = 3, .alignment = 32, .data_bytes = 234};
    gguf_spec_add_str(spec, "general.architecture", "llama");
    add_tensor(spec, (struct gguf_spec_tensor){
                         .name = "a.weight", .n_dims = 2, .dims = {4, 3}, .type = 0, .offset = 0});
    add_tensor(spec,
               (struct gguf_spec_tensor){
                   .name = "b.weight", .n_dims = 2, .dims = {64, 2}, .type = 8, .offset = 64});
    add_tensor(spec, (struct gguf_spec_tensor){
                         .name = "c.bias", .n_dims = 1, .dims = {5}, .type = 1, .offset = 224});
    /* a: 48 bytes at 0; b: 136 bytes at 64, to 200; c: 10 bytes at 224. */
}

void gguf_spec_add(struct gguf_spec *spec, const char *key, uint32_t type, const void *payload,
                   size_t n) {
    assert_true(spec->n_values < SPEC_VALUES_MAX && n <= SPEC_PAYLOAD_MAX);
    struct gguf_spec_value *v = &spec->values[spec->n_values++];
    *v = (struct gguf_spec_value){
        .key = key, .key_len = strlen(key), .type = type, .payload_bytes = n};
    if (n) memcpy(v->payload, payload, n);
}

void gguf_spec_add_u32(struct gguf_spec *spec, const char *key, uint32_t value) {
    struct buf b;
    buf_init(&b, 0);
    spec_put_uint(&b, value, 4);
    gguf_spec_add(spec, key, 4, b.data, b.len);
    buf_deinit(&b);
}

void gguf_spec_add_str(struct gguf_spec *spec, const char *key, const char *value) {
    struct buf b;
    buf_init(&b, 0);
    spec_put_uint(&b, strlen(value), 8);
    buf_append_str(&b, value);
    gguf_spec_add(spec, key, 8, b.data, b.len);
    buf_deinit(&b);
}

void gguf_spec_build(const struct gguf_spec *spec, struct buf *out) {
    buf_init(out, 0);
    buf_append_str(out, spec->magic);
    spec_put_uint(out, spec->version, 4);
    spec_put_uint(out, spec->n_tensors + spec->n_tensors_claimed, 8);
    spec_put_uint(out, spec->n_values + spec->n_values_claimed, 8);
    for (size_t i = 0; i < spec->n_values; i++) {
        const struct gguf_spec_value *v = &spec->values[i];
        spec_put_uint(out, v->key_len, 8);
        buf_append(out, v->key, v->has_nul ? (size_t)v->key_len : strlen(v->key));
        spec_put_uint(out, v->type, 4);
        buf_append(out, v->payload, v->payload_bytes);
    }
    for (size_t i = 0; i < spec->n_tensors; i++) {
        const struct gguf_spec_tensor *t = &spec->tensors[i];
        spec_put_uint(out, t->name_len, 8);
        buf_append_str(out, t->name);
        spec_put_uint(out, t->n_dims, 4);
        for (uint32_t j = 0; j < t->n_dims && j < SPEC_DIMS_MAX; j++)
            spec_put_uint(out, t->dims[j], 8);
        spec_put_uint(out, t->type, 4);
        spec_put_uint(out, t->offset, 8);
    }
    while (spec->alignment && out->len % spec->alignment) buf_append_char(out, 0);
    for (uint64_t i = 0; i < spec->data_bytes; i++) buf_append_char(out, (char)(uint8_t)(i * 7));
    assert_false(out->failed);
}
