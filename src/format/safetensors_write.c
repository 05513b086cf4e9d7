/* safetensors_write.c - the header cannot be written before everything is declared, and the data of
 * `radish logits` should not be held twice: so declarations are collected first, and the data then
 * streams behind the finished header.
 *
 * The JSON is built by yyjson, which knows how to escape. It is padded with spaces to a multiple of
 * 8 bytes, as the format asks, so that the data of a file whose widest elements come first is
 * aligned in a mapping. A file that was not finished (an error, a full disk) is removed: a
 * half-written file must not look like a result.
 *
 * The first failure is kept in the writer; every later call does nothing and reports it again. */
#include "safetensors_write.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "path.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_ALIGN = 8 };

struct safetensors_writer {
    char *path;
    FILE *file;
    yyjson_mut_doc *doc;
    yyjson_mut_val *metadata; /* in the root once it has a member */
    bool is_header_written;
    uint64_t bytes_declared, bytes_written;
    struct radish_error failure; /* status RADISH_OK while all is well */
};

static void fail(struct safetensors_writer *w, enum radish_status status, const char *fmt, ...)
    RADISH_PRINTF(3, 4);
static void fail(struct safetensors_writer *w, enum radish_status status, const char *fmt, ...) {
    char text[192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_set(&w->failure, status, "%s", text);
    path_prefix_error(&w->failure, w->path);
}

static enum radish_status report(const struct safetensors_writer *w, struct radish_error *err) {
    if (w->failure.status != RADISH_OK && err) *err = w->failure;
    return w->failure.status;
}

enum radish_status safetensors_writer_create(const char *path,
                                             struct safetensors_writer **writer_out,
                                             struct radish_error *err) {
    enum radish_status status = RADISH_E_NOMEM;
    *writer_out = NULL;
    struct safetensors_writer *w = mem_zalloc(1, sizeof *w);
    if (!w) return error_nomem(err);
    w->path = mem_strndup(path, strlen(path));
    w->doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = w->doc ? yyjson_mut_obj(w->doc) : NULL;
    w->metadata = w->doc ? yyjson_mut_obj(w->doc) : NULL;
    if (!w->path || !root || !w->metadata) {
        error_nomem(err);
        goto fail;
    }
    yyjson_mut_doc_set_root(w->doc, root);
    w->file = fopen(path, "wb");
    if (!w->file) {
        status = error_set(err, RADISH_E_IO, "%s", strerror(errno));
        path_prefix_error(err, path);
        goto fail;
    }
    *writer_out = w;
    return RADISH_OK;
fail:
    safetensors_writer_destroy(w);
    return status;
}

/* Copies of the caller's strings, in the document. */
static yyjson_mut_val *copy_str(struct safetensors_writer *w, const char *s) {
    return yyjson_mut_strcpy(w->doc, s);
}

static void add_metadata(struct safetensors_writer *w, const char *key, const char *value) {
    yyjson_mut_val *root = yyjson_mut_doc_get_root(w->doc);
    if (w->is_header_written) {
        fail(w, RADISH_E_INVALID, "metadata '%.80s' comes after the first data", key);
        return;
    }
    if (yyjson_mut_obj_get(w->metadata, key)) {
        fail(w, RADISH_E_INVALID, "metadata '%.80s' is given twice", key);
        return;
    }
    if (!yyjson_mut_obj_size(w->metadata) &&
        !yyjson_mut_obj_insert(root, copy_str(w, "__metadata__"), w->metadata, 0))
        fail(w, RADISH_E_NOMEM, "out of memory");
    else if (!yyjson_mut_obj_add(w->metadata, copy_str(w, key), copy_str(w, value)))
        fail(w, RADISH_E_NOMEM, "out of memory");
}

enum radish_status safetensors_writer_metadata(struct safetensors_writer *writer, const char *key,
                                               const char *value, struct radish_error *err) {
    if (writer->failure.status == RADISH_OK) add_metadata(writer, key, value);
    return report(writer, err);
}

static bool add_tensor_json(struct safetensors_writer *w, const char *name, const char *dtype,
                            uint32_t n_dims, const uint64_t *shape, uint64_t end) {
    yyjson_mut_val *tensor = yyjson_mut_obj(w->doc), *dims = yyjson_mut_arr(w->doc);
    yyjson_mut_val *offsets = yyjson_mut_arr(w->doc);
    if (!tensor || !dims || !offsets) return false;
    for (uint32_t i = 0; i < n_dims; i++)
        if (!yyjson_mut_arr_add_uint(w->doc, dims, shape[i])) return false;
    return yyjson_mut_arr_add_uint(w->doc, offsets, w->bytes_declared) &&
           yyjson_mut_arr_add_uint(w->doc, offsets, end) &&
           yyjson_mut_obj_add_str(w->doc, tensor, "dtype", dtype) &&
           yyjson_mut_obj_add_val(w->doc, tensor, "shape", dims) &&
           yyjson_mut_obj_add_val(w->doc, tensor, "data_offsets", offsets) &&
           yyjson_mut_obj_add(yyjson_mut_doc_get_root(w->doc), copy_str(w, name), tensor);
}

static void add_tensor(struct safetensors_writer *w, const char *name, enum dtype dtype,
                       uint32_t n_dims, const uint64_t *shape) {
    const char *dtype_text = dtype_safetensors_name(dtype);
    uint64_t elems = 1, bytes = 0, end = 0;
    bool is_size = true;
    for (uint32_t i = 0; i < n_dims; i++) is_size = is_size && mem_mul_u64(elems, shape[i], &elems);
    if (w->is_header_written)
        fail(w, RADISH_E_INVALID, "tensor '%.80s' comes after the first data", name);
    else if (!dtype_text)
        fail(w, RADISH_E_UNSUPPORTED, "tensor '%.80s': safetensors has no element type %s", name,
             dtype_name(dtype));
    else if (!is_size || !dtype_row_bytes(dtype, elems, &bytes) ||
             !mem_add_u64(w->bytes_declared, bytes, &end))
        fail(w, RADISH_E_INVALID, "tensor '%.80s' is too large", name);
    else if (!*name || strcmp(name, "__metadata__") == 0 ||
             yyjson_mut_obj_get(yyjson_mut_doc_get_root(w->doc), name))
        fail(w, RADISH_E_INVALID, "tensor name '%.80s' is not free", name);
    else if (!add_tensor_json(w, name, dtype_text, n_dims, shape, end))
        fail(w, RADISH_E_NOMEM, "out of memory");
    else
        w->bytes_declared = end;
}

enum radish_status safetensors_writer_tensor(struct safetensors_writer *writer, const char *name,
                                             enum dtype dtype, uint32_t n_dims,
                                             const uint64_t *shape, struct radish_error *err) {
    if (writer->failure.status == RADISH_OK) add_tensor(writer, name, dtype, n_dims, shape);
    return report(writer, err);
}

static void write_bytes(struct safetensors_writer *w, const void *bytes, size_t n) {
    if (w->failure.status == RADISH_OK && n && fwrite(bytes, 1, n, w->file) != n)
        fail(w, RADISH_E_IO, "%s", strerror(errno));
}

static void write_header(struct safetensors_writer *w) {
    static const char spaces[] = "       ";
    _Static_assert(sizeof spaces == HEADER_ALIGN, "one less than the alignment");
    yyjson_write_err write_err = {0};
    size_t len = 0;
    char *json = yyjson_mut_write_opts(w->doc, 0, NULL, &len, &write_err);
    w->is_header_written = true;
    if (!json) {
        if (write_err.code == YYJSON_WRITE_ERROR_MEMORY_ALLOCATION)
            fail(w, RADISH_E_NOMEM, "out of memory");
        else
            fail(w, RADISH_E_INVALID, "header: %s", write_err.msg);
        return;
    }
    const size_t padding = (HEADER_ALIGN - len % HEADER_ALIGN) % HEADER_ALIGN;
    uint8_t length_bytes[8];
    for (int i = 0; i < 8; i++) length_bytes[i] = (uint8_t)((uint64_t)(len + padding) >> 8 * i);
    write_bytes(w, length_bytes, sizeof length_bytes);
    write_bytes(w, json, len);
    write_bytes(w, spaces, padding);
    free(json);
}

enum radish_status safetensors_writer_data(struct safetensors_writer *writer, const void *bytes,
                                           size_t n, struct radish_error *err) {
    if (writer->failure.status == RADISH_OK && !writer->is_header_written) write_header(writer);
    if (writer->failure.status == RADISH_OK && n > writer->bytes_declared - writer->bytes_written)
        fail(writer, RADISH_E_INVALID, "more data than the %llu bytes declared",
             (unsigned long long)writer->bytes_declared);
    write_bytes(writer, bytes, n);
    if (writer->failure.status == RADISH_OK) writer->bytes_written += n;
    return report(writer, err);
}

enum radish_status safetensors_writer_finish(struct safetensors_writer *writer,
                                             struct radish_error *err) {
    if (writer->failure.status == RADISH_OK && !writer->is_header_written) write_header(writer);
    if (writer->failure.status == RADISH_OK && writer->bytes_written != writer->bytes_declared)
        fail(writer, RADISH_E_INVALID, "%llu bytes of data were declared, but %llu written",
             (unsigned long long)writer->bytes_declared, (unsigned long long)writer->bytes_written);
    if (writer->failure.status == RADISH_OK) {
        FILE *file = writer->file;
        writer->file = NULL;
        if (fclose(file) != 0) {
            fail(writer, RADISH_E_IO, "%s", strerror(errno));
            unlink(writer->path);
        }
    }
    enum radish_status status = report(writer, err);
    safetensors_writer_destroy(writer);
    return status;
}

void safetensors_writer_destroy(struct safetensors_writer *writer) {
    struct stat st;
    if (!writer) return;
    if (writer->file) { /* not finished */
        if (fstat(fileno(writer->file), &st) == 0 && S_ISREG(st.st_mode)) unlink(writer->path);
        fclose(writer->file);
    }
    yyjson_mut_doc_free(writer->doc);
    free(writer->path);
    free(writer);
}
