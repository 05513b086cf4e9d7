/* sampling_fields.c - how tokens are chosen and where an answer ends, as any API of this server
 * says it.
 *
 * OpenAI's endpoints and SGLang's /generate ask for the same things. Most have one name; the few
 * that differ (max_tokens and max_new_tokens, seed and sampling_seed) come in as a struct of words,
 * so that limits, types and messages exist once and a field means the same wherever it is sent.
 *
 * The engine checks a request again and has the last word, but it speaks its own language. So every
 * limit is checked here first, and the message and "param" of the 400 name the field that the
 * client wrote. null means absent everywhere, since many clients serialise optional fields so.
 * Integers may be written as 4.0; booleans are not numbers and strings are not either. */
#include "sampling_fields.h"

#include "base/status.h"
#include "openai_types.h"

#include <float.h>
#include <string.h>

/* OpenAI's range, which clients rely on to ban (-100) or to force (100) a token. */
#define BIAS_MAX 100.0

static enum radish_status read_float(yyjson_val *root, const char *key, double min, double max,
                                     float *out, struct radish_error *err) {
    double wide = (double)*out;
    RADISH_TRY(json_get_double(root, key, min, max, &wide, err));
    *out = (float)wide;
    return RADISH_OK;
}

/* (0, max]: zero is out, also what becomes zero as a float. */
static enum radish_status read_positive(yyjson_val *root, const char *key, double max, float *out,
                                        struct radish_error *err) {
    RADISH_TRY(read_float(root, key, 0, max, out, err));
    if (*out > 0) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, key, "%s must be above 0 and at most %g", key,
                           max);
}

static enum radish_status read_numbers(yyjson_val *root, struct radish_sampling *s,
                                       struct radish_error *err) {
    RADISH_TRY(read_float(root, "temperature", 0, (double)FLT_MAX, &s->temperature, err));
    RADISH_TRY(read_positive(root, "top_p", 1, &s->top_p, err));
    RADISH_TRY(read_float(root, "min_p", 0, 1, &s->min_p, err));
    RADISH_TRY(read_positive(root, "repetition_penalty", 2, &s->repetition_penalty, err));
    RADISH_TRY(read_float(root, "presence_penalty", -2, 2, &s->presence_penalty, err));
    RADISH_TRY(read_float(root, "frequency_penalty", -2, 2, &s->frequency_penalty, err));

    int64_t top_k = s->top_k;
    RADISH_TRY(json_get_i64(root, "top_k", -1, INT32_MAX, &top_k, err));
    s->top_k = top_k ? (int32_t)top_k : -1; /* 0 is what vLLM's and llama.cpp's clients send. */
    return RADISH_OK;
}

static enum radish_status read_seed(yyjson_val *root, const char *name, struct radish_sampling *s,
                                    struct radish_error *err) {
    yyjson_val *seed = json_get(root, name);
    if (yyjson_is_uint(seed)) {
        s->seed = yyjson_get_uint(seed);
        s->has_seed = true;
    } else if (json_is_given(seed)) {
        int64_t value = 0;
        RADISH_TRY(json_read_i64(seed, name, INT64_MIN, INT64_MAX, &value, err));
        s->seed = (uint64_t)value;
        s->has_seed = value != -1; /* By which vLLM's and llama.cpp's clients mean none. */
    }
    return RADISH_OK;
}

/* A token id as an object's key: plain decimal. */
static bool parse_id(const char *s, size_t len, int32_t *id_out) {
    int64_t value = 0;
    if (!len || len > 10) return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        value = value * 10 + (s[i] - '0');
    }
    *id_out = (int32_t)value;
    return value <= INT32_MAX;
}

static enum radish_status read_logit_bias(yyjson_val *root, struct arena *arena,
                                          struct radish_sampling *s, struct radish_error *err) {
    static const char name[] = "logit_bias";
    yyjson_val *val = json_get(root, name), *key, *bias;
    size_t idx, max;
    if (!json_is_given(val)) return RADISH_OK;
    if (!yyjson_is_obj(val))
        return error_set_field(err, RADISH_E_INVALID, name,
                               "logit_bias must be an object from token ids to numbers, not %s",
                               json_type_name(val));
    if (yyjson_obj_size(val) > RADISH_LOGIT_BIAS_MAX)
        return error_set_field(err, RADISH_E_LIMIT, name, "logit_bias may name at most %d tokens",
                               RADISH_LOGIT_BIAS_MAX);
    struct radish_logit_bias *list = arena_zalloc(arena, yyjson_obj_size(val), sizeof *list);
    if (!list) return error_nomem(err);
    uint32_t n = 0;
    yyjson_obj_foreach(val, idx, max, key, bias) {
        double value = yyjson_get_num(bias);
        if (!parse_id(yyjson_get_str(key), yyjson_get_len(key), &list[n].id))
            return error_set_field(err, RADISH_E_INVALID, name,
                                   "logit_bias: \"%.32s\" is not a token id", yyjson_get_str(key));
        if (!yyjson_is_num(bias) || !(value >= -BIAS_MAX && value <= BIAS_MAX))
            return error_set_field(err, RADISH_E_INVALID, name,
                                   "logit_bias of token %d must be a number from -100 to 100",
                                   list[n].id);
        list[n++].bias = (float)value;
    }
    s->logit_bias = list;
    s->n_logit_bias = n;
    return RADISH_OK;
}

static enum radish_status read_stop_string(yyjson_val *val, const char **out,
                                           struct radish_error *err) {
    static const char name[] = "stop";
    if (!yyjson_is_str(val))
        return error_set_field(err, RADISH_E_INVALID, name,
                               "stop must be a string or a list of strings, not %s",
                               json_type_name(val));
    size_t len = yyjson_get_len(val);
    if (!len || len > RADISH_STOP_BYTES_MAX)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "a stop string must have 1 to %d bytes, not %zu",
                               RADISH_STOP_BYTES_MAX, len);
    *out = yyjson_get_str(val);
    if (strlen(*out) != len)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "a stop string must not hold NUL bytes");
    return RADISH_OK;
}

static enum radish_status read_stop(yyjson_val *root, struct arena *arena, struct radish_request *r,
                                    struct radish_error *err) {
    yyjson_val *val = json_get(root, "stop"), *item;
    size_t idx, max, n = yyjson_is_arr(val) ? yyjson_arr_size(val) : 1;
    if (!json_is_given(val) || !n) return RADISH_OK;
    if (n > RADISH_STOP_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "stop", "stop may hold at most %d strings",
                               RADISH_STOP_MAX);
    const char **list = arena_zalloc(arena, n, sizeof *list);
    if (!list) return error_nomem(err);
    if (yyjson_is_arr(val)) {
        yyjson_arr_foreach(val, idx, max, item) {
            RADISH_TRY(read_stop_string(item, &list[idx], err));
        }
    } else {
        RADISH_TRY(read_stop_string(val, &list[0], err));
    }
    r->stop = list;
    r->n_stop = (uint32_t)n;
    return RADISH_OK;
}

static enum radish_status read_stop_ids(yyjson_val *root, struct arena *arena,
                                        struct radish_request *r, struct radish_error *err) {
    size_t n = 0;
    yyjson_val *val = json_get(root, "stop_token_ids");
    if (!json_is_given(val)) return RADISH_OK;
    RADISH_TRY(
        openai_ids_read(val, "stop_token_ids", RADISH_STOP_IDS_MAX, arena, &r->stop_ids, &n, err));
    r->n_stop_ids = (uint32_t)n;
    return RADISH_OK;
}

static enum radish_status read_lengths(yyjson_val *root, const struct sampling_words *words,
                                       struct radish_request *r, struct radish_error *err) {
    uint32_t max = 0, new_max = 0;
    bool has_max = json_is_given(json_get(root, words->max));
    bool has_new = words->max_new && json_is_given(json_get(root, words->max_new));
    if (has_max) RADISH_TRY(json_get_u32(root, words->max, 0, INT32_MAX, &max, err));
    if (has_new) RADISH_TRY(json_get_u32(root, words->max_new, 0, INT32_MAX, &new_max, err));
    if (has_max && has_new && max != new_max)
        return error_set_field(err, RADISH_E_INVALID, words->max_new,
                               "%s (%u) and %s (%u) disagree: send one", words->max_new, new_max,
                               words->max, max);
    r->has_max_new_tokens = has_max || has_new || words->max_default;
    r->max_new_tokens = has_new ? new_max : has_max ? max : words->max_default;

    RADISH_TRY(json_get_u32(root, words->min, 0, INT32_MAX, &r->min_new_tokens, err));
    if (r->has_max_new_tokens && r->min_new_tokens > r->max_new_tokens)
        return error_set_field(err, RADISH_E_INVALID, words->min,
                               "%s (%u) is more than the most tokens allowed (%u)", words->min,
                               r->min_new_tokens, r->max_new_tokens);
    return RADISH_OK;
}

static enum radish_status read_switches(yyjson_val *root, struct radish_request *r,
                                        struct radish_error *err) {
    bool skip_special = !r->keep_special_tokens;
    RADISH_TRY(json_get_bool(root, "ignore_eos", &r->ignore_eos, err));
    RADISH_TRY(json_get_bool(root, "no_stop_trim", &r->include_stop, err));
    RADISH_TRY(json_get_bool(root, "skip_special_tokens", &skip_special, err));
    r->keep_special_tokens = !skip_special;
    return RADISH_OK;
}

enum radish_status sampling_fields_read(yyjson_val *root, const struct sampling_words *words,
                                        struct arena *arena, struct radish_request *request,
                                        struct radish_error *err) {
    RADISH_TRY(read_numbers(root, &request->sampling, err));
    RADISH_TRY(read_seed(root, words->seed, &request->sampling, err));
    RADISH_TRY(read_logit_bias(root, arena, &request->sampling, err));
    request->n = 1;
    RADISH_TRY(json_get_u32(root, "n", 1, RADISH_CHOICES_MAX, &request->n, err));
    RADISH_TRY(read_lengths(root, words, request, err));
    RADISH_TRY(read_stop(root, arena, request, err));
    RADISH_TRY(read_stop_ids(root, arena, request, err));
    return read_switches(root, request, err);
}
