/* json.c - the distance between yyjson and what a server needs.
 *
 * yyjson parses without recursion and takes any depth; whoever walks the tree recurses. So depth is
 * checked once, here, on the text's tree, and walkers may then recurse freely. The check itself
 * recurses at most depth_max deep.
 *
 * The getters exist for their messages: a client that sends "top_k": "5" must be told the field,
 * what is wanted and what came, and forty hand-written checks would say it in forty ways. They are
 * searches in a list, which is faster than a table for the few dozen members that requests and
 * configs have. */
#include "json.h"

#include "status.h"

#include <math.h>
#include <string.h>

/* Whether something below val, which is `depth` containers deep, is deeper than depth_max. */
static bool is_deeper(yyjson_val *val, unsigned depth, unsigned depth_max) {
    if (!yyjson_is_ctn(val)) return false;
    if (depth >= depth_max) return true;
    size_t idx, max;
    yyjson_val *key, *child;
    if (yyjson_is_arr(val)) {
        yyjson_arr_foreach(val, idx, max,
                           child) if (is_deeper(child, depth + 1, depth_max)) return true;
    } else {
        yyjson_obj_foreach(val, idx, max, key,
                           child) if (is_deeper(child, depth + 1, depth_max)) return true;
    }
    return false;
}

enum radish_status json_parse(const char *text, size_t len, unsigned depth_max,
                              yyjson_doc **doc_out, struct radish_error *err) {
    yyjson_read_err read_err = {0};
    *doc_out = NULL;
    if (!len) return error_set(err, RADISH_E_INVALID, "not JSON: the text is empty");
    /* yyjson takes a non-const pointer but writes only with the in-situ flag. */
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, 0, NULL, &read_err);
    if (!doc) {
        if (read_err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return error_nomem(err);
        return error_set_at(err, RADISH_E_INVALID, read_err.pos, "not JSON: %s at byte %zu",
                            read_err.msg, read_err.pos);
    }
    if (is_deeper(yyjson_doc_get_root(doc), 0, depth_max)) {
        yyjson_doc_free(doc);
        return error_set(err, RADISH_E_INVALID, "JSON is nested deeper than %u levels", depth_max);
    }
    *doc_out = doc;
    return RADISH_OK;
}

yyjson_val *json_get(yyjson_val *obj, const char *key) {
    yyjson_val *found = NULL, *k, *v;
    size_t idx, max, key_len = strlen(key);
    if (!yyjson_is_obj(obj)) return NULL;
    yyjson_obj_foreach(obj, idx, max, k, v) if (yyjson_equals_strn(k, key, key_len)) found = v;
    return found;
}

const char *json_type_name(yyjson_val *val) {
    if (!val) return "nothing";
    if (yyjson_is_null(val)) return "null";
    if (yyjson_is_bool(val)) return "boolean";
    if (yyjson_is_int(val)) return "integer";
    if (yyjson_is_num(val)) return "number";
    if (yyjson_is_str(val)) return "string";
    return yyjson_is_arr(val) ? "array" : "object";
}

static bool is_absent(yyjson_val *val) {
    return !val || yyjson_is_null(val);
}

bool json_is_given(yyjson_val *val) {
    return !is_absent(val);
}

enum radish_status json_read_bool(yyjson_val *val, const char *key, bool *out,
                                  struct radish_error *err) {
    if (is_absent(val)) return RADISH_OK;
    if (!yyjson_is_bool(val))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be true or false, not %s", key,
                               json_type_name(val));
    *out = yyjson_get_bool(val);
    return RADISH_OK;
}

enum radish_status json_read_i64(yyjson_val *val, const char *key, int64_t min, int64_t max,
                                 int64_t *out, struct radish_error *err) {
    if (is_absent(val)) return RADISH_OK;
    int64_t got = 0;
    bool is_ok = false;
    if (yyjson_is_uint(val)) {
        is_ok = yyjson_get_uint(val) <= INT64_MAX;
        got = (int64_t)yyjson_get_uint(val);
    } else if (yyjson_is_sint(val)) {
        is_ok = true;
        got = yyjson_get_sint(val);
    } else if (yyjson_is_real(val)) {
        double d = yyjson_get_real(val);
        is_ok = fabs(d) < 0x1p53 && d == trunc(d);
        got = is_ok ? (int64_t)d : 0;
    } else {
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be an integer, not %s", key,
                               json_type_name(val));
    }
    if (!is_ok || got < min || got > max)
        return error_set_field(err, RADISH_E_INVALID, key,
                               "%s must be an integer from %lld to %lld", key, (long long)min,
                               (long long)max);
    *out = got;
    return RADISH_OK;
}

enum radish_status json_get_bool(yyjson_val *obj, const char *key, bool *out,
                                 struct radish_error *err) {
    return json_read_bool(json_get(obj, key), key, out, err);
}

enum radish_status json_get_i64(yyjson_val *obj, const char *key, int64_t min, int64_t max,
                                int64_t *out, struct radish_error *err) {
    return json_read_i64(json_get(obj, key), key, min, max, out, err);
}

enum radish_status json_get_u32(yyjson_val *obj, const char *key, uint32_t min, uint32_t max,
                                uint32_t *out, struct radish_error *err) {
    int64_t wide = *out;
    RADISH_TRY(json_get_i64(obj, key, is_absent(json_get(obj, key)) ? 0 : min, max, &wide, err));
    *out = (uint32_t)wide;
    return RADISH_OK;
}

enum radish_status json_get_double(yyjson_val *obj, const char *key, double min, double max,
                                   double *out, struct radish_error *err) {
    yyjson_val *val = json_get(obj, key);
    if (is_absent(val)) return RADISH_OK;
    if (!yyjson_is_num(val))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be a number, not %s", key,
                               json_type_name(val));
    double got = yyjson_get_num(val);
    if (!(got >= min && got <= max))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be a number from %g to %g", key,
                               min, max);
    *out = got;
    return RADISH_OK;
}

enum radish_status json_read_str(yyjson_val *val, const char *key, const char **out,
                                 struct radish_error *err) {
    if (is_absent(val)) return RADISH_OK;
    if (!yyjson_is_str(val))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must be a string, not %s", key,
                               json_type_name(val));
    if (strlen(yyjson_get_str(val)) != yyjson_get_len(val))
        return error_set_field(err, RADISH_E_INVALID, key, "%s must not hold NUL bytes", key);
    *out = yyjson_get_str(val);
    return RADISH_OK;
}

enum radish_status json_get_str(yyjson_val *obj, const char *key, const char **out,
                                struct radish_error *err) {
    return json_read_str(json_get(obj, key), key, out, err);
}
