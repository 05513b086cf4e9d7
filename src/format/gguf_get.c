/* gguf_get.c - reading what gguf.c has parsed: values by key, with the type the caller wants.
 *
 * Writers of GGUF files are not strict about widths: a count may be uint32 in one file, int32 or
 * uint64 in the next, so integers of any width are accepted where the value fits. What is not
 * accepted is another kind: a string where a number is due is a broken file, and the message names
 * the key. */
#include "gguf_int.h"

#include "base/status.h"

#include <string.h>

const char *gguf_type_name(enum gguf_type type) {
    static const char *const names[] = {
        [GGUF_U8] = "uint8",   [GGUF_I8] = "int8",     [GGUF_U16] = "uint16",  [GGUF_I16] = "int16",
        [GGUF_U32] = "uint32", [GGUF_I32] = "int32",   [GGUF_F32] = "float32", [GGUF_BOOL] = "bool",
        [GGUF_STR] = "string", [GGUF_ARRAY] = "array", [GGUF_U64] = "uint64",  [GGUF_I64] = "int64",
        [GGUF_F64] = "float64"};
    return names[type];
}

size_t gguf_type_bytes(enum gguf_type type) {
    static const uint8_t bytes[] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,  [GGUF_I16] = 2, [GGUF_U32] = 4,
        [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STR] = 0, [GGUF_ARRAY] = 0,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return bytes[type];
}

void gguf_load(enum gguf_type type, const uint8_t *p, struct gguf_value *value_out) {
    const size_t n = gguf_type_bytes(type);
    uint64_t bits = 0;
    for (size_t i = 0; i < n; i++) bits |= (uint64_t)p[i] << 8 * i;
    value_out->type = type;
    if (type == GGUF_F32) {
        const uint32_t bits32 = (uint32_t)bits;
        float f;
        memcpy(&f, &bits32, sizeof f);
        value_out->f = (double)f;
    } else if (type == GGUF_F64) {
        memcpy(&value_out->f, &bits, sizeof bits);
    } else if (type == GGUF_I8) {
        value_out->i = (int8_t)bits;
    } else if (type == GGUF_I16) {
        value_out->i = (int16_t)bits;
    } else if (type == GGUF_I32) {
        value_out->i = (int32_t)bits;
    } else { /* unsigned types, BOOL, and I64, whose bits are the same in .i */
        value_out->u = bits;
    }
}

static bool is_signed(enum gguf_type type) {
    return type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
}

bool gguf_is_int(enum gguf_type type) {
    return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_STR && type != GGUF_ARRAY;
}

uint32_t gguf_version(const struct gguf *gguf) {
    return gguf->version;
}

size_t gguf_n_values(const struct gguf *gguf) {
    return gguf->n_values;
}

const char *gguf_key(const struct gguf *gguf, size_t idx) {
    return gguf->keys[idx];
}

const struct gguf_value *gguf_value(const struct gguf *gguf, size_t idx) {
    return &gguf->values[idx];
}

const struct gguf_value *gguf_find(const struct gguf *gguf, const char *key) {
    const size_t idx = name_index_find(&gguf->key_index, key);
    return idx == NAME_INDEX_NONE ? NULL : &gguf->values[idx];
}

size_t gguf_n_tensors(const struct gguf *gguf) {
    return gguf->n_tensors;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *gguf, size_t idx) {
    return &gguf->tensors[idx];
}

void gguf_release(const struct gguf *gguf, uint64_t offset, uint64_t n_bytes) {
    if (gguf->map.size) file_map_release(&gguf->map, (size_t)offset, (size_t)n_bytes);
}

const uint8_t *gguf_mapping(const struct gguf *gguf, size_t *n_out) {
    *n_out = gguf->map.size;
    return gguf->map.size ? gguf->map.data : NULL;
}

static enum radish_status fail_type(const struct gguf_value *value, const char *key,
                                    const char *wanted, struct radish_error *err) {
    return error_set_field(err, RADISH_E_FORMAT, key, "key '%.80s' is of type %s, but must be %s",
                           key, gguf_type_name(value->type), wanted);
}

enum radish_status gguf_get_u32(const struct gguf *gguf, const char *key, uint32_t *out,
                                struct radish_error *err) {
    const struct gguf_value *value = gguf_find(gguf, key);
    if (!value) return RADISH_OK;
    if (!gguf_is_int(value->type) || value->type == GGUF_BOOL)
        return fail_type(value, key, "an integer", err);
    if (is_signed(value->type) && value->i < 0)
        return error_set_field(err, RADISH_E_FORMAT, key,
                               "key '%.80s' is %lld, but must be from 0 to %u", key,
                               (long long)value->i, UINT32_MAX);
    if (value->u > UINT32_MAX)
        return error_set_field(err, RADISH_E_FORMAT, key,
                               "key '%.80s' is %llu, but must be from 0 to %u", key,
                               (unsigned long long)value->u, UINT32_MAX);
    *out = (uint32_t)value->u;
    return RADISH_OK;
}

enum radish_status gguf_get_f64(const struct gguf *gguf, const char *key, double *out,
                                struct radish_error *err) {
    const struct gguf_value *value = gguf_find(gguf, key);
    if (!value) return RADISH_OK;
    if (value->type == GGUF_F32 || value->type == GGUF_F64)
        *out = value->f;
    else if (!gguf_is_int(value->type) || value->type == GGUF_BOOL)
        return fail_type(value, key, "a number", err);
    else
        *out = is_signed(value->type) ? (double)value->i : (double)value->u;
    return RADISH_OK;
}

enum radish_status gguf_get_bool(const struct gguf *gguf, const char *key, bool *out,
                                 struct radish_error *err) {
    const struct gguf_value *value = gguf_find(gguf, key);
    if (!value) return RADISH_OK;
    if (value->type != GGUF_BOOL) return fail_type(value, key, "bool", err);
    *out = value->u != 0;
    return RADISH_OK;
}

enum radish_status gguf_get_str(const struct gguf *gguf, const char *key, struct gguf_str *out,
                                struct radish_error *err) {
    const struct gguf_value *value = gguf_find(gguf, key);
    if (!value) return RADISH_OK;
    if (value->type != GGUF_STR) return fail_type(value, key, "a string", err);
    *out = value->s;
    return RADISH_OK;
}

static struct gguf_value element(const struct gguf_value *value, uint64_t idx) {
    struct gguf_value v = {0};
    const enum gguf_type type = value->array.elem_type;
    gguf_load(type, value->array.data + idx * gguf_type_bytes(type), &v);
    return v;
}

int64_t gguf_array_i64(const struct gguf_value *value, uint64_t idx) {
    const struct gguf_value v = element(value, idx);
    return is_signed(v.type) || v.u <= INT64_MAX ? v.i : INT64_MAX;
}

double gguf_array_f64(const struct gguf_value *value, uint64_t idx) {
    return element(value, idx).f;
}
