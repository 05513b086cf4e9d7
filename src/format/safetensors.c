/* safetensors.c - parsing of safetensors, the format of Hugging Face's models.
 *
 * The head is JSON, so that yyjson does the parsing and this file the distrust. The rules are those
 * of the reference implementation (Rust), which refuses what it would not have written: the header
 * is at most 100 MB; every byte behind it belongs to exactly one tensor; a tensor's bytes are the
 * product of its shape and type. Sorted by offset, "exactly one" means that each tensor begins
 * where the one before it ends, the first at 0, the last at the end of the file: one pass finds
 * holes, overlaps and truncation alike.
 *
 * JSON allows a key twice, and yyjson keeps both; since the tensors are sorted by name anyway, a
 * duplicate is a neighbour. Names are borrowed from the parsed document, which lives as long as the
 * file is open: about 16 bytes a value, a few hundred kilobytes for the largest models. */
#include "safetensors.h"

#include "base/file_map.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "name_index.h"
#include "path.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_DEPTH_MAX = 8 };

struct safetensors {
    struct file_map map; /* all zero over memory */
    const uint8_t *data; /* [n] */
    size_t n;
    size_t data_offset; /* where tensor data begins */
    yyjson_doc *doc;
    yyjson_val *metadata; /* object of strings, or NULL */
    size_t n_tensors;
    struct safetensors_tensor *tensors; /* [n_tensors] sorted by name */
};

static enum radish_status fail(struct radish_error *err, const char *field, uint64_t at,
                               const char *fmt, ...) RADISH_PRINTF(4, 5);
static enum radish_status fail(struct radish_error *err, const char *field, uint64_t at,
                               const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_set_field(err, RADISH_E_FORMAT, field, "%s", text);
    if (err) err->offset = at;
    return RADISH_E_FORMAT;
}

/* Finds the header's JSON and parses it. */
static enum radish_status read_header(struct safetensors *f, struct radish_error *err) {
    uint64_t len = 0;
    if (f->n < LENGTH_BYTES)
        return fail(err, "", 0, "not a safetensors file: %zu bytes are too few", f->n);
    for (int i = 0; i < LENGTH_BYTES; i++) len |= (uint64_t)f->data[i] << 8 * i;
    if (len > SAFETENSORS_HEADER_BYTES_MAX)
        return fail(err, "", 0, "a header of %llu bytes is claimed; the limit is %u",
                    (unsigned long long)len, SAFETENSORS_HEADER_BYTES_MAX);
    if (len > f->n - LENGTH_BYTES)
        return fail(
            err, "", 0,
            "the header claims %llu bytes, but only %zu remain: truncated, or not safetensors",
            (unsigned long long)len, f->n - LENGTH_BYTES);
    f->data_offset = LENGTH_BYTES + (size_t)len;
    enum radish_status status = json_parse((const char *)f->data + LENGTH_BYTES, (size_t)len,
                                           HEADER_DEPTH_MAX, &f->doc, err);
    if (status == RADISH_E_NOMEM) return status;
    if (status != RADISH_OK) {
        if (err) err->status = RADISH_E_FORMAT;
        if (err) err->offset += LENGTH_BYTES;
        error_prefix(err, "header");
        return RADISH_E_FORMAT;
    }
    if (!yyjson_is_obj(yyjson_doc_get_root(f->doc)))
        return fail(err, "", LENGTH_BYTES, "the header is no JSON object");
    return RADISH_OK;
}

/* A string without NUL inside, or NULL. */
static const char *plain_str(yyjson_val *val) {
    const char *s = yyjson_get_str(val);
    return s && strlen(s) == yyjson_get_len(val) ? s : NULL;
}

static enum radish_status read_metadata(struct safetensors *f, yyjson_val *obj,
                                        struct radish_error *err) {
    size_t idx, max;
    yyjson_val *key, *val;
    if (f->metadata) return fail(err, "__metadata__", LENGTH_BYTES, "__metadata__ occurs twice");
    if (!yyjson_is_obj(obj))
        return fail(err, "__metadata__", LENGTH_BYTES, "__metadata__ is no object but %s",
                    json_type_name(obj));
    yyjson_obj_foreach(obj, idx, max, key, val) {
        if (!plain_str(key) || !plain_str(val))
            return fail(err, "__metadata__", LENGTH_BYTES,
                        "__metadata__: key '%.80s' or its value is no plain string (%s)",
                        yyjson_get_str(key), json_type_name(val));
    }
    f->metadata = obj;
    return RADISH_OK;
}

static enum radish_status read_shape(yyjson_val *shape, struct safetensors_tensor *t,
                                     struct radish_error *err) {
    size_t idx, max;
    yyjson_val *dim;
    uint64_t elems = 1;
    if (!yyjson_is_arr(shape) || yyjson_arr_size(shape) > SAFETENSORS_DIMS_MAX)
        return fail(err, t->name, LENGTH_BYTES,
                    "tensor '%.80s': shape is no array of at most %d dimensions", t->name,
                    SAFETENSORS_DIMS_MAX);
    yyjson_arr_foreach(shape, idx, max, dim) {
        if (!yyjson_is_uint(dim) || !mem_mul_u64(elems, yyjson_get_uint(dim), &elems) ||
            elems > INT64_MAX)
            return fail(err, t->name, LENGTH_BYTES,
                        "tensor '%.80s': dimension %zu is no size, or the product is too large",
                        t->name, idx);
        t->shape[idx] = yyjson_get_uint(dim);
    }
    t->n_dims = (uint32_t)max;
    if (!dtype_row_bytes(t->dtype, elems, &t->n_bytes))
        return fail(err, t->name, LENGTH_BYTES, "tensor '%.80s': %llu elements of %s are no size",
                    t->name, (unsigned long long)elems, dtype_name(t->dtype));
    return RADISH_OK;
}

static enum radish_status read_offsets(const struct safetensors *f, yyjson_val *offsets,
                                       struct safetensors_tensor *t, struct radish_error *err) {
    yyjson_val *begin_val = yyjson_arr_get(offsets, 0), *end_val = yyjson_arr_get(offsets, 1);
    if (yyjson_arr_size(offsets) != 2 || !yyjson_is_uint(begin_val) || !yyjson_is_uint(end_val))
        return fail(err, t->name, LENGTH_BYTES,
                    "tensor '%.80s': data_offsets is no array of two offsets", t->name);
    const uint64_t begin = yyjson_get_uint(begin_val), end = yyjson_get_uint(end_val);
    const uint64_t room = f->n - f->data_offset;
    if (begin > end || end > room)
        return fail(err, t->name, f->data_offset,
                    "tensor '%.80s': data_offsets [%llu, %llu] are not inside the file's %llu "
                    "bytes of data",
                    t->name, (unsigned long long)begin, (unsigned long long)end,
                    (unsigned long long)room);
    if (end - begin != t->n_bytes)
        return fail(err, t->name, f->data_offset + begin,
                    "tensor '%.80s': shape and type %s need %llu bytes, but data_offsets span %llu",
                    t->name, dtype_name(t->dtype), (unsigned long long)t->n_bytes,
                    (unsigned long long)(end - begin));
    t->offset = f->data_offset + begin;
    t->data = f->data + t->offset;
    return RADISH_OK;
}

static enum radish_status read_tensor(const struct safetensors *f, yyjson_val *key, yyjson_val *val,
                                      struct safetensors_tensor *t, struct radish_error *err) {
    t->name = plain_str(key);
    if (!t->name || !*t->name)
        return fail(err, "", LENGTH_BYTES, "a tensor's name is empty or holds a NUL");
    if (!yyjson_is_obj(val))
        return fail(err, t->name, LENGTH_BYTES, "tensor '%.80s' is no object but %s", t->name,
                    json_type_name(val));
    const char *dtype = plain_str(json_get(val, "dtype"));
    if (!dtype)
        return fail(err, t->name, LENGTH_BYTES, "tensor '%.80s': dtype is missing or no string",
                    t->name);
    if (!dtype_from_safetensors(dtype, &t->dtype))
        return error_set_field(err, RADISH_E_UNSUPPORTED, t->name,
                               "tensor '%.80s': element type '%.20s' is not supported; supported "
                               "are F32, F16, BF16",
                               t->name, dtype);
    RADISH_TRY(read_shape(json_get(val, "shape"), t, err));
    return read_offsets(f, json_get(val, "data_offsets"), t, err);
}

static int compare_offsets(const void *a_void, const void *b_void) {
    const struct safetensors_tensor *a = a_void, *b = b_void;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes); /* empty ones first */
}

/* Every byte of data belongs to exactly one tensor. Sorts by offset. */
static enum radish_status check_layout(struct safetensors *f, struct radish_error *err) {
    uint64_t end = f->data_offset;
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, compare_offsets);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct safetensors_tensor *t = &f->tensors[i];
        if (t->offset != end)
            return fail(err, t->name, t->offset, "tensor '%.80s' begins at byte %llu, %s byte %llu",
                        t->name, (unsigned long long)t->offset,
                        t->offset < end ? "inside the tensor that ends at"
                                        : "leaving a hole behind",
                        (unsigned long long)end);
        end += t->n_bytes;
    }
    if (end != f->n)
        return fail(err, "", end, "%llu bytes behind the last tensor belong to none",
                    (unsigned long long)(f->n - end));
    return RADISH_OK;
}

static int compare_names(const void *a_void, const void *b_void) {
    const struct safetensors_tensor *a = a_void, *b = b_void;
    return strcmp(a->name, b->name);
}

static enum radish_status parse(struct safetensors *f, struct radish_error *err) {
    size_t idx, max, n = 0;
    yyjson_val *key, *val;
    RADISH_TRY(read_header(f, err));
    yyjson_val *root = yyjson_doc_get_root(f->doc);
    f->tensors = mem_zalloc(yyjson_obj_size(root), sizeof *f->tensors);
    if (!f->tensors) return error_nomem(err);
    yyjson_obj_foreach(root, idx, max, key, val) {
        if (yyjson_equals_str(key, "__metadata__"))
            RADISH_TRY(read_metadata(f, val, err));
        else
            RADISH_TRY(read_tensor(f, key, val, &f->tensors[n++], err));
    }
    f->n_tensors = n;
    RADISH_TRY(check_layout(f, err));
    qsort(f->tensors, n, sizeof *f->tensors, compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
            return fail(err, f->tensors[i].name, f->tensors[i].offset,
                        "tensor '%.80s' occurs twice", f->tensors[i].name);
    return RADISH_OK;
}

enum radish_status safetensors_open_memory(const uint8_t *data, size_t n,
                                           struct safetensors **file_out,
                                           struct radish_error *err) {
    *file_out = NULL;
    struct safetensors *f = mem_zalloc(1, sizeof *f);
    if (!f) return error_nomem(err);
    f->data = data;
    f->n = n;
    enum radish_status status = parse(f, err);
    if (status == RADISH_OK)
        *file_out = f;
    else
        safetensors_close(f);
    return status;
}

enum radish_status safetensors_open(const char *path, struct safetensors **file_out,
                                    struct radish_error *err) {
    struct file_map map;
    *file_out = NULL;
    RADISH_TRY(file_map_open(path, &map, err));
    enum radish_status status = safetensors_open_memory(map.data, map.size, file_out, err);
    if (status == RADISH_OK) {
        (*file_out)->map = map;
    } else {
        file_map_close(&map);
        path_prefix_error(err, path);
    }
    return status;
}

void safetensors_close(struct safetensors *file) {
    if (!file) return;
    file_map_close(&file->map);
    yyjson_doc_free(file->doc);
    free(file->tensors);
    free(file);
}

size_t safetensors_n_tensors(const struct safetensors *file) {
    return file->n_tensors;
}

const struct safetensors_tensor *safetensors_tensor(const struct safetensors *file, size_t idx) {
    return &file->tensors[idx];
}

static int compare_name_to_tensor(const void *name, const void *tensor) {
    return strcmp(name, ((const struct safetensors_tensor *)tensor)->name);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file,
                                                  const char *name) {
    return bsearch(name, file->tensors, file->n_tensors, sizeof *file->tensors,
                   compare_name_to_tensor);
}

const char *safetensors_metadata(const struct safetensors *file, const char *key) {
    return yyjson_get_str(json_get(file->metadata, key));
}

void safetensors_release(const struct safetensors *file, uint64_t offset, uint64_t n_bytes) {
    if (file->map.size) file_map_release(&file->map, (size_t)offset, (size_t)n_bytes);
}

const uint8_t *safetensors_mapping(const struct safetensors *file, size_t *n_out) {
    *n_out = file->map.size;
    return file->map.size ? file->map.data : NULL;
}
