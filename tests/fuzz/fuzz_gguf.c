/* fuzz: format. fuzz_gguf.c - any bytes as a GGUF file: opened, listed, every value and every
 * readable tensor read.
 *
 * What must hold: no crash, no leak, no read past the end; on failure a message, on success every
 * pointer valid. */
#include "format/gguf.h"
#include "format/model_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double sink;

static void read_value(const struct gguf_value *v) {
    double sum = 0;
    if (v->type == GGUF_STR) {
        for (uint64_t i = 0; i < v->s.len; i++) sum += v->s.data[i];
    } else if (v->type == GGUF_ARRAY && v->array.elem_type == GGUF_STR) {
        for (uint64_t i = 0; i < v->array.n; i++)
            for (uint64_t j = 0; j < v->array.strs[i].len; j++) sum += v->array.strs[i].data[j];
    } else if (v->type == GGUF_ARRAY && gguf_is_int(v->array.elem_type)) {
        for (uint64_t i = 0; i < v->array.n; i++) sum += (double)gguf_array_i64(v, i);
    } else if (v->type == GGUF_ARRAY) {
        for (uint64_t i = 0; i < v->array.n; i++) sum += gguf_array_f64(v, i);
    }
    sink = sum;
}

static void read_typed(const struct gguf *g, const char *key) {
    struct radish_error err;
    uint32_t u = 0;
    double d = 0;
    bool b = false;
    struct gguf_str s = {0};
    if (gguf_get_u32(g, key, &u, &err) + gguf_get_f64(g, key, &d, &err) +
            gguf_get_bool(g, key, &b, &err) + gguf_get_str(g, key, &s, &err) ==
        RADISH_OK)
        abort(); /* no value is of all types */
}

static void read_tensor(const struct model_tensor *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= t->shape[i];
    if (!dtype_can_read(t->dtype)) return;
    float *values = malloc((size_t)n * sizeof *values);
    if (!values) return;
    dtype_to_f32(t->dtype, t->data, values, (size_t)n);
    sink = (double)values[n - 1];
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct radish_error err = {0};
    struct model_file *file;
    if (model_file_open_gguf_memory(data, size, &file, &err) != RADISH_OK) {
        if (file || !*err.msg || strchr(err.msg, '\n')) abort();
        return 0;
    }
    const struct gguf *g = model_file_gguf(file);
    for (size_t i = 0; i < gguf_n_values(g); i++) {
        if (gguf_find(g, gguf_key(g, i)) != gguf_value(g, i)) abort();
        read_value(gguf_value(g, i));
        read_typed(g, gguf_key(g, i));
    }
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct model_tensor *t = model_file_tensor(file, i);
        if (model_file_find(file, t->name) != t) abort();
        read_tensor(t);
        model_file_release(file, t);
    }
    model_file_close(file);
    return 0;
}
