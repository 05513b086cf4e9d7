/* gguf.c - parsing of GGUF, the single-file format of llama.cpp.
 *
 *   "GGUF" | u32 version | u64 n_tensors | u64 n_values
 *   n_values  x  string key | u32 type | value           string = u64 length | bytes
 *   n_tensors x  string name | u32 n_dims | u64 dims[n_dims] | u32 type | u64 offset
 *   padding to general.alignment (default 32) | tensor data, each tensor aligned in the same way
 *
 * The file is a stranger's. One reader walks it from front to back; every length and count is
 * compared with the bytes that remain before anything is done with it, so that a false one ends in
 * a message with its offset, and no allocation is larger than a small multiple of the file: each
 * entry takes a least number of bytes, so n entries cannot be claimed by a file too short for them.
 * Duplicate names and overlapping tensors are found by sorting, in n log n.
 *
 * Strings and packed arrays are used where they lie in the mapping; only keys and names are copied,
 * to end them with NUL. Tensors are not read here: opening a file of any size touches its head
 * only.
 *
 * Not accepted: version 1 (lengths of 32 bits, gone since 2023), big-endian files, arrays of
 * arrays (no known key uses them, and they would need recursion). */
#include "gguf_int.h"

#include "base/mem.h"
#include "base/status.h"
#include "path.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_BYTES_MIN = 8 + 4 + 1,          /* key length, type, one byte of value */
    TENSOR_BYTES_MIN = 8 + 4 + 8 + 4 + 8, /* name length, n_dims, one dim, type, offset */
    NAME_BYTES_MAX = 65535,
    DIMS_MAX = 4,
    ALIGNMENT_DEFAULT = 32
};

struct reader {
    const uint8_t *data; /* [n] */
    size_t n, pos;       /* pos <= n */
    struct radish_error *err;
};

/* E_FORMAT at the byte `at`, naming the key or tensor at fault where one is known. */
static enum radish_status fail(const struct reader *r, const char *field, uint64_t at,
                               const char *fmt, ...) RADISH_PRINTF(4, 5);
static enum radish_status fail(const struct reader *r, const char *field, uint64_t at,
                               const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error_set_field(r->err, RADISH_E_FORMAT, field, "%s (byte %llu)", text, (unsigned long long)at);
    if (r->err) r->err->offset = at;
    return RADISH_E_FORMAT;
}

/* Adds the key to a failure that was found without knowing it. */
static void blame_key(const struct reader *r, const char *key) {
    if (!r->err) return;
    const struct radish_error inner = *r->err;
    error_set_field(r->err, inner.status, key, "key '%.80s': %.200s", key, inner.msg);
    r->err->offset = inner.offset;
}

static enum radish_status read_uint(struct reader *r, unsigned n_bytes, const char *what,
                                    uint64_t *out) {
    *out = 0;
    if (r->n - r->pos < n_bytes)
        return fail(r, "", r->pos, "the file ends inside %s: %zu bytes in all", what, r->n);
    for (unsigned i = 0; i < n_bytes; i++) *out |= (uint64_t)r->data[r->pos + i] << 8 * i;
    r->pos += n_bytes;
    return RADISH_OK;
}

static enum radish_status read_str(struct reader *r, const char *what, struct gguf_str *out) {
    const size_t at = r->pos;
    *out = (struct gguf_str){0};
    RADISH_TRY(read_uint(r, 8, what, &out->len));
    if (out->len > r->n - r->pos)
        return fail(r, "", at, "%s claims %llu bytes, but only %zu remain", what,
                    (unsigned long long)out->len, r->n - r->pos);
    out->data = (const char *)r->data + r->pos;
    r->pos += (size_t)out->len;
    return RADISH_OK;
}

/* A key or a tensor's name, copied and ended with NUL. */
static enum radish_status read_name(struct gguf *g, struct reader *r, const char *what,
                                    struct gguf_str *out) {
    const size_t at = r->pos;
    RADISH_TRY(read_str(r, what, out));
    if (!out->len || out->len > NAME_BYTES_MAX || memchr(out->data, 0, (size_t)out->len))
        return fail(r, "", at, "%s of %llu bytes is empty, too long or holds a NUL", what,
                    (unsigned long long)out->len);
    out->data = arena_strndup(&g->arena, out->data, (size_t)out->len);
    return out->data ? RADISH_OK : error_nomem(r->err);
}

static enum radish_status read_header(struct gguf *g, struct reader *r) {
    uint64_t version, n_tensors, n_values;
    if (r->n < 4 || memcmp(r->data, "GGUF", 4) != 0)
        return fail(r, "", 0, "not a GGUF file: it does not begin with the letters GGUF");
    r->pos = 4;
    RADISH_TRY(read_uint(r, 4, "the header", &version));
    if (version && !(version & 0xFFFF))
        return fail(r, "", 4, "a big-endian GGUF file; radish reads little-endian ones only");
    if (version != 2 && version != 3)
        return fail(r, "", 4, "GGUF version %llu; radish reads versions 2 and 3",
                    (unsigned long long)version);
    RADISH_TRY(read_uint(r, 8, "the header", &n_tensors));
    RADISH_TRY(read_uint(r, 8, "the header", &n_values));
    if (n_tensors > (r->n - r->pos) / TENSOR_BYTES_MIN)
        return fail(r, "", 8, "%llu tensors claimed, more than a file of %zu bytes can hold",
                    (unsigned long long)n_tensors, r->n);
    if (n_values > (r->n - r->pos) / VALUE_BYTES_MIN)
        return fail(r, "", 16, "%llu metadata keys claimed, more than a file of %zu bytes can hold",
                    (unsigned long long)n_values, r->n);
    g->version = (uint32_t)version;
    g->n_tensors = (size_t)n_tensors;
    g->n_values = (size_t)n_values;
    return RADISH_OK;
}

static enum radish_status read_type(struct reader *r, const char *key, enum gguf_type *out) {
    const size_t at = r->pos;
    uint64_t type;
    *out = GGUF_U8;
    RADISH_TRY(read_uint(r, 4, "a metadata type", &type));
    if (type > GGUF_F64)
        return fail(r, key, at, "key '%.80s': unknown metadata type %llu", key,
                    (unsigned long long)type);
    *out = (enum gguf_type)type;
    return RADISH_OK;
}

static enum radish_status read_str_array(struct gguf *g, struct reader *r, const char *key,
                                         struct gguf_value *value) {
    const size_t at = r->pos;
    if (value->array.n > (r->n - r->pos) / 8)
        return fail(r, key, at, "key '%.80s': %llu strings claimed, but only %zu bytes remain", key,
                    (unsigned long long)value->array.n, r->n - r->pos);
    struct gguf_str *strs =
        arena_zalloc(&g->arena, (size_t)value->array.n, sizeof(struct gguf_str));
    if (!strs) return error_nomem(r->err);
    for (uint64_t i = 0; i < value->array.n; i++) {
        enum radish_status status = read_str(r, "a string", &strs[i]);
        if (status != RADISH_OK) {
            error_prefix(r->err, "element %llu", (unsigned long long)i);
            blame_key(r, key);
            return status;
        }
    }
    value->array.strs = strs;
    return RADISH_OK;
}

static enum radish_status check_bools(const struct reader *r, const char *key, const uint8_t *p,
                                      uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1)
            return fail(r, key, (uint64_t)(p + i - r->data),
                        "key '%.80s': a bool is %u, not 0 or 1", key, p[i]);
    return RADISH_OK;
}

static enum radish_status read_array(struct gguf *g, struct reader *r, const char *key,
                                     struct gguf_value *value) {
    const size_t at = r->pos;
    uint64_t n_bytes;
    RADISH_TRY(read_type(r, key, &value->array.elem_type));
    RADISH_TRY(read_uint(r, 8, "an array", &value->array.n));
    const enum gguf_type type = value->array.elem_type;
    if (type == GGUF_ARRAY)
        return fail(r, key, at, "key '%.80s': an array of arrays is not supported", key);
    if (type == GGUF_STR) return read_str_array(g, r, key, value);
    if (!mem_mul_u64(value->array.n, gguf_type_bytes(type), &n_bytes) || n_bytes > r->n - r->pos)
        return fail(r, key, at,
                    "key '%.80s': %llu elements of %s claimed, but only %zu bytes remain", key,
                    (unsigned long long)value->array.n, gguf_type_name(type), r->n - r->pos);
    value->array.data = r->data + r->pos;
    r->pos += (size_t)n_bytes;
    return type == GGUF_BOOL ? check_bools(r, key, value->array.data, value->array.n) : RADISH_OK;
}

static enum radish_status read_value(struct gguf *g, struct reader *r, const char *key,
                                     struct gguf_value *value) {
    RADISH_TRY(read_type(r, key, &value->type));
    const size_t at = r->pos, n_bytes = gguf_type_bytes(value->type);
    if (value->type == GGUF_ARRAY) return read_array(g, r, key, value);
    if (value->type == GGUF_STR) {
        enum radish_status status = read_str(r, "the string", &value->s);
        if (status != RADISH_OK) blame_key(r, key);
        return status;
    }
    if (r->n - r->pos < n_bytes)
        return fail(r, key, at, "key '%.80s': the file ends inside its value", key);
    gguf_load(value->type, r->data + r->pos, value);
    r->pos += n_bytes;
    return value->type == GGUF_BOOL ? check_bools(r, key, r->data + at, 1) : RADISH_OK;
}

static enum radish_status read_metadata(struct gguf *g, struct reader *r) {
    struct name_entry twice;
    g->keys = arena_zalloc(&g->arena, g->n_values, sizeof *g->keys);
    g->values = arena_zalloc(&g->arena, g->n_values, sizeof *g->values);
    if (!g->keys || !g->values || !name_index_init(&g->key_index, g->n_values))
        return error_nomem(r->err);
    for (size_t i = 0; i < g->n_values; i++) {
        struct gguf_str key;
        RADISH_TRY(read_name(g, r, "a metadata key", &key));
        g->keys[i] = key.data;
        g->key_index.entries[i] = (struct name_entry){key.data, i};
        RADISH_TRY(read_value(g, r, key.data, &g->values[i]));
    }
    if (!name_index_build(&g->key_index, &twice))
        return fail(r, twice.name, r->pos, "key '%.80s' occurs twice", twice.name);
    return RADISH_OK;
}

/* Element type, shape and their product in bytes. */
static enum radish_status read_shape(struct reader *r, struct gguf_tensor *t) {
    const size_t at = r->pos;
    uint64_t n_dims, type, bytes, elems = 1;
    RADISH_TRY(read_uint(r, 4, "a tensor's shape", &n_dims));
    if (n_dims < 1 || n_dims > DIMS_MAX)
        return fail(r, t->name.data, at, "tensor '%.80s' has %llu dimensions, not 1 to %d",
                    t->name.data, (unsigned long long)n_dims, DIMS_MAX);
    t->n_dims = (uint32_t)n_dims;
    for (uint32_t i = 0; i < DIMS_MAX; i++) t->dims[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        RADISH_TRY(read_uint(r, 8, "a tensor's shape", &t->dims[i]));
        if (!t->dims[i] || !mem_mul_u64(elems, t->dims[i], &elems) || elems > INT64_MAX)
            return fail(r, t->name.data, at,
                        "tensor '%.80s': dimension %u is %llu: zero or too large", t->name.data, i,
                        (unsigned long long)t->dims[i]);
    }
    const size_t type_at = r->pos;
    RADISH_TRY(read_uint(r, 4, "a tensor's type", &type));
    if (!dtype_from_gguf((uint32_t)type, &t->dtype)) {
        const char *name = dtype_gguf_name((uint32_t)type);
        fail(r, t->name.data, type_at,
             "tensor '%.80s': element type %llu%s%s is not supported; supported are %s",
             t->name.data, (unsigned long long)type, name ? " " : "", name ? name : "",
             dtype_readable_names());
        if (r->err) r->err->status = RADISH_E_UNSUPPORTED;
        return RADISH_E_UNSUPPORTED;
    }
    if (!dtype_row_bytes(t->dtype, t->dims[0], &bytes) ||
        !mem_mul_u64(bytes, elems / t->dims[0], &t->n_bytes))
        return fail(r, t->name.data, at,
                    "tensor '%.80s': rows of %llu elements are no whole blocks of %s (%u elements)",
                    t->name.data, (unsigned long long)t->dims[0], dtype_name(t->dtype),
                    dtype_block_elems(t->dtype));
    return RADISH_OK;
}

static enum radish_status read_tensor_table(struct gguf *g, struct reader *r) {
    g->tensors = arena_zalloc(&g->arena, g->n_tensors, sizeof *g->tensors);
    if (!g->tensors) return error_nomem(r->err);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        RADISH_TRY(read_name(g, r, "a tensor's name", &t->name));
        RADISH_TRY(read_shape(r, t));
        RADISH_TRY(read_uint(r, 8, "a tensor's offset", &t->offset));
    }
    return RADISH_OK;
}

/* Offsets in the table count from here; afterwards they count from the start of the file. */
static enum radish_status place_data(struct gguf *g, struct reader *r) {
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    uint32_t alignment = ALIGNMENT_DEFAULT;
    RADISH_TRY(gguf_get_u32(g, "general.alignment", &alignment, r->err));
    if (v && (!alignment || (alignment & (alignment - 1))))
        return fail(r, "general.alignment", r->pos, "general.alignment is %u, no power of two",
                    alignment);
    g->alignment = alignment;
    g->data_offset = ((uint64_t)r->pos + alignment - 1) / alignment * alignment;
    if (g->n_tensors && g->data_offset > g->n)
        return fail(r, "", r->pos, "the file ends before its tensor data: %zu bytes in all", g->n);
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        const uint64_t room = g->n - g->data_offset;
        if (t->offset % alignment)
            return fail(r, t->name.data, t->offset,
                        "tensor '%.80s': offset %llu is not aligned to %u", t->name.data,
                        (unsigned long long)t->offset, alignment);
        if (t->offset > room || t->n_bytes > room - t->offset)
            return fail(
                r, t->name.data, t->offset,
                "tensor '%.80s': %llu bytes at offset %llu run past the end (%llu bytes of data)",
                t->name.data, (unsigned long long)t->n_bytes, (unsigned long long)t->offset,
                (unsigned long long)room);
        t->offset += g->data_offset;
        t->data = g->data + t->offset;
    }
    return RADISH_OK;
}

static int compare_offsets(const void *a_void, const void *b_void) {
    const struct gguf_tensor *a = *(const struct gguf_tensor *const *)a_void;
    const struct gguf_tensor *b = *(const struct gguf_tensor *const *)b_void;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static enum radish_status check_overlaps(const struct gguf *g, const struct reader *r) {
    const struct gguf_tensor **by_offset = mem_zalloc(g->n_tensors, sizeof *by_offset);
    enum radish_status status = RADISH_OK;
    if (!by_offset) return error_nomem(r->err);
    for (size_t i = 0; i < g->n_tensors; i++) by_offset[i] = &g->tensors[i];
    qsort(by_offset, g->n_tensors, sizeof *by_offset, compare_offsets);
    for (size_t i = 1; i < g->n_tensors && status == RADISH_OK; i++) {
        const struct gguf_tensor *a = by_offset[i - 1], *b = by_offset[i];
        if (a->offset + a->n_bytes > b->offset)
            status = fail(r, b->name.data, b->offset, "tensors '%.80s' and '%.80s' overlap",
                          a->name.data, b->name.data);
    }
    free(by_offset);
    return status;
}

static enum radish_status check_tensor_names(const struct gguf *g, const struct reader *r) {
    struct name_index index;
    struct name_entry twice;
    enum radish_status status = RADISH_OK;
    if (!name_index_init(&index, g->n_tensors)) return error_nomem(r->err);
    for (size_t i = 0; i < g->n_tensors; i++)
        index.entries[i] = (struct name_entry){g->tensors[i].name.data, i};
    if (!name_index_build(&index, &twice))
        status = fail(r, twice.name, g->tensors[twice.idx].offset, "tensor '%.80s' occurs twice",
                      twice.name);
    name_index_deinit(&index);
    return status;
}

static enum radish_status parse(struct gguf *g, struct radish_error *err) {
    struct reader r = {.data = g->data, .n = g->n, .err = err};
    RADISH_TRY(read_header(g, &r));
    RADISH_TRY(read_metadata(g, &r));
    RADISH_TRY(read_tensor_table(g, &r));
    RADISH_TRY(check_tensor_names(g, &r));
    RADISH_TRY(place_data(g, &r));
    return check_overlaps(g, &r);
}

enum radish_status gguf_open_memory(const uint8_t *data, size_t n, struct gguf **gguf_out,
                                    struct radish_error *err) {
    *gguf_out = NULL;
    struct gguf *g = mem_zalloc(1, sizeof *g);
    if (!g) return error_nomem(err);
    g->data = data;
    g->n = n;
    arena_init(&g->arena, 0);
    enum radish_status status = parse(g, err);
    if (status == RADISH_OK)
        *gguf_out = g;
    else
        gguf_close(g);
    return status;
}

enum radish_status gguf_open(const char *path, struct gguf **gguf_out, struct radish_error *err) {
    struct file_map map;
    *gguf_out = NULL;
    RADISH_TRY(file_map_open(path, &map, err));
    enum radish_status status = gguf_open_memory(map.data, map.size, gguf_out, err);
    if (status == RADISH_OK) {
        (*gguf_out)->map = map;
    } else {
        file_map_close(&map);
        path_prefix_error(err, path);
    }
    return status;
}

void gguf_close(struct gguf *gguf) {
    if (!gguf) return;
    file_map_close(&gguf->map);
    name_index_deinit(&gguf->key_index);
    arena_deinit(&gguf->arena);
    free(gguf);
}
