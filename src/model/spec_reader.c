/* spec_reader.c - the few questions that every part of tokenizer.json is asked, with answers that
 * name the field at fault: a reader of a part says only which fields it has.
 *
 * All parts share one shape, an object with a "type" that may be "Sequence" of others, and one way
 * to fail: the status, and a line that says which field is what instead of what. So the files that
 * know the parts hold no loops over Sequences and no messages of their own but for their own rules.
 */
#include "spec_reader.h"

#include "base/json.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

struct spec_str spec_reader_str_of(yyjson_val *val) {
    return (struct spec_str){yyjson_get_str(val), yyjson_get_len(val)};
}

enum radish_status spec_reader_wrong(struct spec_reader *r, const char *field, const char *wanted,
                                     yyjson_val *val) {
    return error_set_field(r->err, RADISH_E_FORMAT, field, "tokenizer.json: %s must be %s, not %s",
                           field, wanted, json_type_name(val));
}

/* A member that must be a string. */
enum radish_status spec_reader_str(struct spec_reader *r, yyjson_val *part, const char *key,
                                   struct spec_str *out) {
    yyjson_val *val = json_get(part, key);
    if (!yyjson_is_str(val)) return spec_reader_wrong(r, key, "a string", val);
    *out = spec_reader_str_of(val);
    return RADISH_OK;
}

/* Index of a name in names[0..n), or E_UNSUPPORTED with the names that would do. */
enum radish_status spec_reader_find_name(struct spec_reader *r, const char *stage, yyjson_val *val,
                                         const char *const *names, int n, int *idx_out) {
    char supported[200] = "";
    *idx_out = 0;
    if (!yyjson_is_str(val)) return spec_reader_wrong(r, stage, "described by a string", val);
    for (int i = 0; i < n; i++) {
        if (yyjson_equals_str(val, names[i])) {
            *idx_out = i;
            return RADISH_OK;
        }
        size_t len = strlen(supported);
        snprintf(supported + len, sizeof supported - len, "%s%s", i ? ", " : "", names[i]);
    }
    return error_set_field(r->err, RADISH_E_UNSUPPORTED, stage,
                           "tokenizer.json: %s \"%.40s\" is not supported (supported: %s)", stage,
                           yyjson_get_str(val), supported);
}

/* Runs `read` on a part, or on each of its parts when it is a Sequence. null: nothing. */
enum radish_status spec_reader_parts(struct spec_reader *r, const char *stage, yyjson_val *part,
                                     const char *parts_key, spec_reader_fn read, unsigned depth) {
    yyjson_val *parts, *inner;
    yyjson_arr_iter iter;
    if (!part || yyjson_is_null(part)) return RADISH_OK;
    if (!yyjson_is_obj(part)) return spec_reader_wrong(r, stage, "an object", part);
    if (!yyjson_equals_str(json_get(part, "type"), "Sequence")) return read(r, part);
    parts = json_get(part, parts_key);
    if (!yyjson_is_arr(parts)) return spec_reader_wrong(r, parts_key, "a list", parts);
    if (depth == SPEC_STEPS_MAX)
        return error_set_field(r->err, RADISH_E_LIMIT, stage, "tokenizer.json: %s nests too deeply",
                               stage);
    yyjson_arr_iter_init(parts, &iter);
    while ((inner = yyjson_arr_iter_next(&iter)))
        RADISH_TRY(spec_reader_parts(r, stage, inner, parts_key, read, depth + 1));
    return RADISH_OK;
}

enum radish_status spec_reader_id(struct spec_reader *r, yyjson_val *val, int32_t *id_out) {
    *id_out = -1;
    if (!yyjson_is_uint(val) || yyjson_get_uint(val) >= SPEC_TOKENS_MAX)
        return spec_reader_wrong(r, "id", "a token id", val);
    *id_out = (int32_t)yyjson_get_uint(val);
    return RADISH_OK;
}

enum radish_status spec_reader_optional_str(struct spec_reader *r, yyjson_val *part,
                                            const char *key, struct spec_str *out) {
    yyjson_val *val = json_get(part, key);
    return !val || yyjson_is_null(val) ? RADISH_OK : spec_reader_str(r, part, key, out);
}
