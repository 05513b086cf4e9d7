/* vectors.c - golden vectors on disk.
 *
 * One safetensors file rather than a format of our own: every tool can look into it, and the reader
 * that checks models checks this, too. Sizes are text in the metadata, by name, so that an
 * operation may get another one without a new version of the file; arrays of blocks (quantised
 * weights) travel as bytes, and the sizes say what they are. The file is small (a few hundred
 * kilobytes) and read whole. */
#include "vectors.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/status.h"
#include "format/safetensors.h"
#include "format/safetensors_write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECTED ".expected"

void vectors_deinit(struct vectors *vectors) {
    for (uint32_t i = 0; i < vectors->n_cases; i++)
        for (uint32_t k = 0; k < vectors->cases[i].n_arrays; k++) {
            free(vectors->cases[i].arrays[k].data);
            free(vectors->cases[i].arrays[k].expected);
        }
    vectors->n_cases = 0;
}

static const char *find_size(const struct vector_case *c, const char *name) {
    for (uint32_t i = 0; i < c->n_sizes; i++)
        if (!strcmp(c->sizes[i].name, name)) return c->sizes[i].value;
    return NULL;
}

double vector_number(const struct vector_case *c, const char *name) {
    const char *value = find_size(c, name);
    return value ? strtod(value, NULL) : 0;
}

uint32_t vector_u32(const struct vector_case *c, const char *name) {
    const double value = vector_number(c, name);
    return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

enum dtype vector_dtype(const struct vector_case *c, const char *name) {
    const char *value = find_size(c, name);
    for (int dtype = 0; value && dtype < RADISH_DTYPE_COUNT; dtype++)
        if (!strcmp(dtype_name((enum dtype)dtype), value)) return (enum dtype)dtype;
    return RADISH_DTYPE_F32;
}

const struct vector_array *vector_find(const struct vector_case *c, const char *name) {
    for (uint32_t i = 0; i < c->n_arrays; i++)
        if (!strcmp(c->arrays[i].name, name)) return &c->arrays[i];
    return NULL;
}

void vector_set(struct vector_case *c, const char *name, const char *format, ...) {
    struct vector_size *size = &c->sizes[c->n_sizes++];
    snprintf(size->name, sizeof size->name, "%s", name);
    va_list args;
    va_start(args, format);
    vsnprintf(size->value, sizeof size->value, format, args);
    va_end(args);
}

void *vector_add(struct vector_case *c, const char *name, enum dtype dtype, size_t n_bytes,
                 bool is_out) {
    struct vector_array *a = &c->arrays[c->n_arrays];
    *a = (struct vector_array){.dtype = dtype, .n_bytes = n_bytes, .is_out = is_out};
    snprintf(a->name, sizeof a->name, "%s", name);
    a->data = mem_zalloc(n_bytes, 1);
    if (is_out) a->expected = mem_zalloc(n_bytes, 1);
    if (!a->data || (is_out && !a->expected)) {
        free(a->data);
        free(a->expected);
        return NULL;
    }
    c->n_arrays++;
    return a->data;
}

/* ---- reading ---- */

/* "op=embed n_rows=5 ..." */
static enum radish_status read_sizes(struct vector_case *c, const char *text,
                                     struct radish_error *err) {
    char name[20], value[20];
    int n_read = 0;
    for (; sscanf(text, " %19[^= ]=%19[^ ]%n", name, value, &n_read) == 2; text += n_read) {
        if (c->n_sizes == VECTOR_SIZES_MAX) break;
        vector_set(c, name, "%s", value);
    }
    if (*text) return error_set(err, RADISH_E_FORMAT, "case %s: sizes '%s'", c->name, text);
    const char *op = find_size(c, "op");
    for (int i = 0; op && i < KERNEL_OP_COUNT; i++)
        if (!strcmp(kernel_op_name((enum kernel_op)i), op)) {
            c->op = (enum kernel_op)i;
            return RADISH_OK;
        }
    return error_set(err, RADISH_E_FORMAT, "case %s: operation '%s'", c->name, op ? op : "");
}

static enum radish_status read_array(const struct safetensors *file, struct vector_case *c,
                                     const struct safetensors_tensor *tensor, const char *name,
                                     struct radish_error *err) {
    char twin_name[80];
    snprintf(twin_name, sizeof twin_name, "%s" EXPECTED, tensor->name);
    const struct safetensors_tensor *twin = safetensors_find(file, twin_name);
    if (c->n_arrays == VECTOR_ARRAYS_MAX || strlen(name) >= sizeof c->arrays->name ||
        (twin && twin->n_bytes != tensor->n_bytes))
        return error_set(err, RADISH_E_FORMAT, "unexpected array %s", tensor->name);
    void *data = vector_add(c, name, tensor->dtype, tensor->n_bytes, twin != NULL);
    if (!data) return error_nomem(err);
    memcpy(data, tensor->data, tensor->n_bytes);
    if (twin) memcpy(c->arrays[c->n_arrays - 1].expected, twin->data, twin->n_bytes);
    return RADISH_OK;
}

static enum radish_status read_case(const struct safetensors *file, const char *name,
                                    struct vectors *vectors, struct radish_error *err) {
    if (vectors->n_cases == VECTOR_CASES_MAX)
        return error_set(err, RADISH_E_FORMAT, "more than %d cases", VECTOR_CASES_MAX);
    struct vector_case *c = &vectors->cases[vectors->n_cases++];
    *c = (struct vector_case){0};
    snprintf(c->name, sizeof c->name, "%s", name);
    const char *sizes = safetensors_metadata(file, name);
    if (!sizes) return error_set(err, RADISH_E_FORMAT, "no sizes of case %s", name);
    RADISH_TRY(read_sizes(c, sizes, err));
    const size_t len = strlen(name);
    for (size_t i = 0; i < safetensors_n_tensors(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_tensor(file, i);
        if (strncmp(tensor->name, name, len) || tensor->name[len] != '/') continue;
        if (strstr(tensor->name, EXPECTED)) continue;
        RADISH_TRY(read_array(file, c, tensor, tensor->name + len + 1, err));
    }
    return RADISH_OK;
}

enum radish_status vectors_read(const char *path, struct vectors *vectors_out,
                                struct radish_error *err) {
    struct safetensors *file = NULL;
    vectors_out->n_cases = 0;
    RADISH_TRY(safetensors_open(path, &file, err));
    const char *names = safetensors_metadata(file, "cases");
    enum radish_status status =
        names ? RADISH_OK : error_set(err, RADISH_E_FORMAT, "%s has no golden vectors", path);
    char name[sizeof vectors_out->cases->name];
    int n_read = 0;
    for (; status == RADISH_OK && sscanf(names, " %39[^ ]%n", name, &n_read) == 1; names += n_read)
        status = read_case(file, name, vectors_out, err);
    safetensors_close(file);
    if (status != RADISH_OK) vectors_deinit(vectors_out);
    return status;
}

/* ---- writing ---- */

static enum radish_status write_names(struct safetensors_writer *writer,
                                      const struct vectors *vectors, struct radish_error *err) {
    struct buf text;
    enum radish_status status = RADISH_OK;
    buf_init(&text, 0);
    for (uint32_t i = 0; i < vectors->n_cases; i++)
        buf_printf(&text, "%s%s", i ? " " : "", vectors->cases[i].name);
    status = text.failed ? error_nomem(err)
                         : safetensors_writer_metadata(writer, "cases", text.data, err);
    for (uint32_t i = 0; i < vectors->n_cases && status == RADISH_OK; i++) {
        const struct vector_case *c = &vectors->cases[i];
        buf_clear(&text);
        for (uint32_t k = 0; k < c->n_sizes; k++)
            buf_printf(&text, "%s%s=%s", k ? " " : "", c->sizes[k].name, c->sizes[k].value);
        status = text.failed ? error_nomem(err)
                             : safetensors_writer_metadata(writer, c->name, text.data, err);
    }
    buf_deinit(&text);
    return status;
}

/* Declares an array, or writes its data. */
static enum radish_status write_array(struct safetensors_writer *writer,
                                      const struct vector_case *c, const struct vector_array *a,
                                      bool is_data, struct radish_error *err) {
    const char *const suffixes[2] = {"", EXPECTED};
    const uint8_t *const contents[2] = {a->data, a->expected};
    const uint64_t shape = a->n_bytes / dtype_block_bytes(a->dtype);
    for (int i = 0; i < (a->is_out ? 2 : 1); i++) {
        if (is_data) {
            RADISH_TRY(safetensors_writer_data(writer, contents[i], a->n_bytes, err));
            continue;
        }
        char name[80];
        snprintf(name, sizeof name, "%s/%s%s", c->name, a->name, suffixes[i]);
        RADISH_TRY(safetensors_writer_tensor(writer, name, a->dtype, 1, &shape, err));
    }
    return RADISH_OK;
}

enum radish_status vectors_write(const char *path, const struct vectors *vectors,
                                 struct radish_error *err) {
    struct safetensors_writer *writer = NULL;
    RADISH_TRY(safetensors_writer_create(path, &writer, err));
    enum radish_status status = write_names(writer, vectors, err);
    for (int is_data = 0; is_data < 2; is_data++)
        for (uint32_t i = 0; i < vectors->n_cases; i++) {
            const struct vector_case *c = &vectors->cases[i];
            for (uint32_t k = 0; k < c->n_arrays && status == RADISH_OK; k++)
                status = write_array(writer, c, &c->arrays[k], is_data, err);
        }
    if (status != RADISH_OK) {
        safetensors_writer_destroy(writer);
        return status;
    }
    return safetensors_writer_finish(writer, err);
}
