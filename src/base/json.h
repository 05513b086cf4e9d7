/* json.h - reading JSON that strangers wrote, over yyjson: strict, with a depth limit, and getters
 * that name the field at fault.
 *
 * yyjson keeps objects as lists and keeps duplicate keys; json_get() takes the last one, as Python
 * does, in O(n): iterate large objects instead. Threads: a document is immutable; any number may
 * read it. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "radish.h"

#include <yyjson.h>

#define JSON_DEPTH_MAX 128

/* Parses text[0..len). The document owns copies; caller frees with yyjson_doc_free(). E_INVALID
 * with offset and reason; also for nesting deeper than depth_max. */
enum radish_status json_parse(const char *text, size_t len, unsigned depth_max,
                              yyjson_doc **doc_out, struct radish_error *err) RADISH_CHECK_RESULT;

/* The value of the last member called `key`, or NULL: absent, or obj is no object. JSON null is a
 * value, not NULL. */
yyjson_val *json_get(yyjson_val *obj, const char *key);

bool json_is_given(yyjson_val *val); /* neither NULL nor JSON null */

/* Typed members of obj. Absent or null: *out stays as it is and the result is OK. A wrong type or
 * range: E_INVALID that names the field and says what is wanted. Integers may be written as floats
 * with no fraction (4.0), since configs do that. */
enum radish_status json_get_bool(yyjson_val *obj, const char *key, bool *out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_get_i64(yyjson_val *obj, const char *key, int64_t min, int64_t max,
                                int64_t *out, struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_get_u32(yyjson_val *obj, const char *key, uint32_t min, uint32_t max,
                                uint32_t *out, struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_get_double(yyjson_val *obj, const char *key, double min, double max,
                                   double *out, struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_get_str(yyjson_val *obj, const char *key, const char **out,
                                struct radish_error *err)
    RADISH_CHECK_RESULT; /* borrowed from the document; no NUL inside */

/* The same for a value at hand (an item of a list); key names it in messages. */
enum radish_status json_read_bool(yyjson_val *val, const char *key, bool *out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_read_i64(yyjson_val *val, const char *key, int64_t min, int64_t max,
                                 int64_t *out, struct radish_error *err) RADISH_CHECK_RESULT;
enum radish_status json_read_str(yyjson_val *val, const char *key, const char **out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;

const char *json_type_name(
    yyjson_val *val); /* "string", "integer", "number", ...; "nothing" for NULL */

#endif
