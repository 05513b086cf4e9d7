/* openai_types.c - reading numbers, lists and prompts that strangers sent.
 *
 * The engine checks a request again and has the last word, but it speaks of max_new_tokens where
 * the client said max_completion_tokens. So every limit is checked here first, in the API's own
 * words: the message and "param" of the 400 name the field the client wrote. null means absent
 * everywhere, since many clients serialise their optional fields so.
 *
 * Integers may be written as 4.0; booleans are not numbers and strings are not either. */
#include "openai_types.h"

#include "base/mem.h"
#include "base/status.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenAI's range, which clients rely on to ban (-100) or to force (100) a token. */
#define BIAS_MAX 100.0

static bool is_given(yyjson_val *val) {
    return val && !yyjson_is_null(val);
}

enum radish_status openai_parse_body(const char *body, size_t len, yyjson_doc **doc_out,
                                     struct radish_error *err) {
    RADISH_TRY(json_parse(body, len, JSON_DEPTH_MAX, doc_out, err));
    if (yyjson_is_obj(yyjson_doc_get_root(*doc_out))) return RADISH_OK;
    enum radish_status status =
        error_set(err, RADISH_E_INVALID, "the body must be a JSON object, not %s",
                  json_type_name(yyjson_doc_get_root(*doc_out)));
    yyjson_doc_free(*doc_out);
    *doc_out = NULL;
    return status;
}

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

static enum radish_status read_sampling(yyjson_val *root, struct radish_sampling *s,
                                        struct radish_error *err) {
    RADISH_TRY(read_float(root, "temperature", 0, (double)FLT_MAX, &s->temperature, err));
    RADISH_TRY(read_positive(root, "top_p", 1, &s->top_p, err));
    RADISH_TRY(read_float(root, "min_p", 0, 1, &s->min_p, err));
    RADISH_TRY(read_positive(root, "repetition_penalty", 2, &s->repetition_penalty, err));
    RADISH_TRY(read_float(root, "presence_penalty", -2, 2, &s->presence_penalty, err));
    RADISH_TRY(read_float(root, "frequency_penalty", -2, 2, &s->frequency_penalty, err));

    int64_t top_k = s->top_k;
    RADISH_TRY(json_get_i64(root, "top_k", -1, INT32_MAX, &top_k, err));
    if (!top_k)
        return error_set_field(err, RADISH_E_INVALID, "top_k",
                               "top_k must be -1 (all) or at least 1");
    s->top_k = (int32_t)top_k;

    yyjson_val *seed = json_get(root, "seed");
    if (yyjson_is_uint(seed)) {
        s->seed = yyjson_get_uint(seed);
        s->has_seed = true;
    } else if (is_given(seed)) {
        int64_t value = 0;
        RADISH_TRY(json_get_i64(root, "seed", INT64_MIN, INT64_MAX, &value, err));
        s->seed = (uint64_t)value;
        s->has_seed = true;
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
    if (!is_given(val)) return RADISH_OK;
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
    if (!is_given(val) || !n) return RADISH_OK;
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

enum radish_status openai_ids_read(yyjson_val *list, const char *field, size_t n_max,
                                   struct arena *arena, const int32_t **ids_out, size_t *n_out,
                                   struct radish_error *err) {
    yyjson_val *item;
    size_t idx, max, n = yyjson_arr_size(list);
    if (!yyjson_is_arr(list))
        return error_set_field(err, RADISH_E_INVALID, field,
                               "%s must be a list of token ids, not %s", field,
                               json_type_name(list));
    if (n > n_max)
        return error_set_field(err, RADISH_E_LIMIT, field, "%s may hold at most %zu token ids",
                               field, n_max);
    int32_t *ids = arena_zalloc(arena, n, sizeof *ids);
    if (!ids) return error_nomem(err);
    yyjson_arr_foreach(list, idx, max, item) {
        if (!yyjson_is_uint(item) || yyjson_get_uint(item) > INT32_MAX)
            return error_set_field(err, RADISH_E_INVALID, field,
                                   "%s: item %zu is not a token id (a non-negative integer)", field,
                                   idx);
        ids[idx] = (int32_t)yyjson_get_uint(item);
    }
    *ids_out = n ? ids : NULL;
    *n_out = n;
    return RADISH_OK;
}

static enum radish_status read_stop_ids(yyjson_val *root, struct arena *arena,
                                        struct radish_request *r, struct radish_error *err) {
    size_t n = 0;
    yyjson_val *val = json_get(root, "stop_token_ids");
    if (!is_given(val)) return RADISH_OK;
    RADISH_TRY(
        openai_ids_read(val, "stop_token_ids", RADISH_STOP_IDS_MAX, arena, &r->stop_ids, &n, err));
    r->n_stop_ids = (uint32_t)n;
    return RADISH_OK;
}

static enum radish_status read_lengths(yyjson_val *root, enum api_shape shape,
                                       struct radish_request *r, struct radish_error *err) {
    static const char old_name[] = "max_tokens", new_name[] = "max_completion_tokens";
    uint32_t old_max = 0, new_max = 0;
    bool has_old = is_given(json_get(root, old_name));
    bool has_new = shape == API_CHAT && is_given(json_get(root, new_name));
    if (has_old) RADISH_TRY(json_get_u32(root, old_name, 0, INT32_MAX, &old_max, err));
    if (has_new) RADISH_TRY(json_get_u32(root, new_name, 0, INT32_MAX, &new_max, err));
    if (has_old && has_new && old_max != new_max)
        return error_set_field(err, RADISH_E_INVALID, new_name,
                               "max_completion_tokens (%u) and max_tokens (%u) disagree: send one",
                               new_max, old_max);
    r->has_max_new_tokens = has_old || has_new;
    r->max_new_tokens = has_new ? new_max : old_max;

    RADISH_TRY(json_get_u32(root, "min_tokens", 0, INT32_MAX, &r->min_new_tokens, err));
    if (r->has_max_new_tokens && r->min_new_tokens > r->max_new_tokens)
        return error_set_field(err, RADISH_E_INVALID, "min_tokens",
                               "min_tokens (%u) is more than the most tokens allowed (%u)",
                               r->min_new_tokens, r->max_new_tokens);
    return RADISH_OK;
}

static enum radish_status read_choices(yyjson_val *root, struct radish_request *r,
                                       struct radish_error *err) {
    r->n = 1;
    RADISH_TRY(json_get_u32(root, "n", 1, RADISH_CHOICES_MAX, &r->n, err));
    uint32_t best_of = r->n;
    RADISH_TRY(json_get_u32(root, "best_of", 1, RADISH_CHOICES_MAX, &best_of, err));
    if (best_of != r->n)
        return error_set_field(err, RADISH_E_UNSUPPORTED, "best_of",
                               "best_of other than n is not supported: ask for n choices");
    return RADISH_OK;
}

/* Chat has a boolean and a count, completions have a count that is also the switch. */
static enum radish_status read_logprobs(yyjson_val *root, enum api_shape shape,
                                        struct openai_params *p, struct radish_error *err) {
    struct radish_request *r = &p->request;
    const char *count_name = shape == API_CHAT ? "top_logprobs" : "logprobs";
    bool has_count = is_given(json_get(root, count_name));
    if (shape == API_CHAT) RADISH_TRY(json_get_bool(root, "logprobs", &r->logprobs, err));
    if (has_count)
        RADISH_TRY(
            json_get_u32(root, count_name, 0, RADISH_TOP_LOGPROBS_MAX, &r->n_top_logprobs, err));
    if (shape == API_CHAT && r->n_top_logprobs && !r->logprobs)
        return error_set_field(err, RADISH_E_INVALID, count_name,
                               "top_logprobs needs \"logprobs\": true");
    if (shape == API_COMPLETIONS) r->logprobs = has_count;
    return RADISH_OK;
}

static enum radish_status read_stream(yyjson_val *root, struct openai_params *p,
                                      struct radish_error *err) {
    static const char name[] = "stream_options";
    RADISH_TRY(json_get_bool(root, "stream", &p->is_streamed, err));
    yyjson_val *options = json_get(root, name);
    if (!is_given(options)) return RADISH_OK;
    if (!yyjson_is_obj(options))
        return error_set_field(err, RADISH_E_INVALID, name, "stream_options must be an object");
    if (!p->is_streamed)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "stream_options needs \"stream\": true");
    RADISH_TRY(json_get_bool(options, "include_usage", &p->has_usage_chunk, err));
    return json_get_bool(options, "continuous_usage_stats", &p->has_usage_in_chunks, err);
}

static enum radish_status read_switches(yyjson_val *root, struct openai_params *p,
                                        struct radish_error *err) {
    struct radish_request *r = &p->request;
    bool skip_special = true;
    RADISH_TRY(json_get_bool(root, "ignore_eos", &r->ignore_eos, err));
    RADISH_TRY(json_get_bool(root, "include_stop_str_in_output", &r->include_stop, err));
    RADISH_TRY(json_get_bool(root, "no_stop_trim", &r->include_stop, err));
    RADISH_TRY(json_get_bool(root, "skip_special_tokens", &skip_special, err));
    r->keep_special_tokens = !skip_special;
    return RADISH_OK;
}

/* One of the strings that name a namespace; "" is none. */
static enum radish_status read_namespace(yyjson_val *root, const char *name, const char **out,
                                         struct radish_error *err) {
    yyjson_val *val = json_get(root, name);
    RADISH_TRY(json_get_str(root, name, out, err));
    if (is_given(val) && yyjson_get_len(val) > OPENAI_NAMESPACE_BYTES_MAX)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "%s must have at most %d bytes, not %zu", name,
                               OPENAI_NAMESPACE_BYTES_MAX, yyjson_get_len(val));
    if (*out && !**out) *out = NULL;
    return RADISH_OK;
}

static enum radish_status read_names(yyjson_val *root, struct openai_params *p,
                                     struct radish_error *err) {
    RADISH_TRY(json_get_str(root, "model", &p->model, err));
    RADISH_TRY(json_get_str(root, "rid", &p->rid, err));
    if (p->rid && (!*p->rid || strlen(p->rid) > OPENAI_RID_BYTES_MAX))
        return error_set_field(err, RADISH_E_INVALID, "rid", "rid must have 1 to %d bytes",
                               OPENAI_RID_BYTES_MAX);
    RADISH_TRY(read_namespace(root, "extra_key", &p->extra_key, err));
    RADISH_TRY(read_namespace(root, "cache_salt", &p->cache_salt, err));
    int64_t priority = 0;
    RADISH_TRY(
        json_get_i64(root, "priority", -OPENAI_PRIORITY_MAX, OPENAI_PRIORITY_MAX, &priority, err));
    p->request.priority = (int32_t)priority;
    return RADISH_OK;
}

enum radish_status openai_params_read(yyjson_val *root, enum api_shape shape,
                                      const struct radish_sampling *defaults, struct arena *arena,
                                      struct openai_params *params_out, struct radish_error *err) {
    struct openai_params *p = params_out;
    *p = (struct openai_params){.request.sampling = *defaults, .has_special = true};
    RADISH_TRY(read_names(root, p, err));
    RADISH_TRY(read_stream(root, p, err));
    RADISH_TRY(read_sampling(root, &p->request.sampling, err));
    RADISH_TRY(read_logit_bias(root, arena, &p->request.sampling, err));
    RADISH_TRY(read_choices(root, &p->request, err));
    RADISH_TRY(read_lengths(root, shape, &p->request, err));
    RADISH_TRY(read_stop(root, arena, &p->request, err));
    RADISH_TRY(read_stop_ids(root, arena, &p->request, err));
    RADISH_TRY(read_switches(root, p, err));
    RADISH_TRY(read_logprobs(root, shape, p, err));
    if (shape == API_CHAT) return RADISH_OK;
    RADISH_TRY(json_get_bool(root, "echo", &p->has_echo, err));
    p->request.prompt_logprobs = p->has_echo && p->request.logprobs;
    return json_get_bool(root, "add_special_tokens", &p->has_special, err);
}

static enum radish_status read_prompt(yyjson_val *val, struct arena *arena,
                                      struct openai_prompt *out, struct radish_error *err) {
    static const char name[] = "prompt";
    if (yyjson_is_str(val)) {
        out->text = yyjson_get_str(val);
        out->text_len = yyjson_get_len(val);
        return RADISH_OK;
    }
    RADISH_TRY(openai_ids_read(val, name, SIZE_MAX, arena, &out->ids, &out->n_ids, err));
    if (!out->n_ids)
        return error_set_field(err, RADISH_E_INVALID, name, "a prompt must not be empty");
    return RADISH_OK;
}

enum radish_status openai_prompts_read(yyjson_val *root, struct arena *arena,
                                       struct openai_prompt **prompts_out, size_t *n_out,
                                       struct radish_error *err) {
    static const char name[] = "prompt";
    yyjson_val *val = json_get(root, name), *first = yyjson_arr_get_first(val), *item;
    size_t idx, max;
    *prompts_out = NULL;
    *n_out = 0;
    if (!is_given(val)) return error_set_field(err, RADISH_E_INVALID, name, "prompt is missing");
    if (yyjson_is_arr(val) && !first)
        return error_set_field(err, RADISH_E_INVALID, name, "prompt must not be an empty list");
    bool is_list = yyjson_is_str(first) || yyjson_is_arr(first);
    size_t n = is_list ? yyjson_arr_size(val) : 1;
    if (n > OPENAI_PROMPTS_MAX)
        return error_set_field(err, RADISH_E_LIMIT, name,
                               "prompt may hold at most %d prompts, not %zu", OPENAI_PROMPTS_MAX,
                               n);
    struct openai_prompt *prompts = arena_zalloc(arena, n, sizeof *prompts);
    if (!prompts) return error_nomem(err);
    if (is_list) {
        yyjson_arr_foreach(val, idx, max, item) {
            if (yyjson_is_str(item) != yyjson_is_str(first))
                return error_set_field(err, RADISH_E_INVALID, name,
                                       "prompt must not mix strings and token ids");
            RADISH_TRY(read_prompt(item, arena, &prompts[idx], err));
        }
    } else if (yyjson_is_str(val) || yyjson_is_arr(val)) {
        RADISH_TRY(read_prompt(val, arena, &prompts[0], err));
    } else {
        return error_set_field(err, RADISH_E_INVALID, name,
                               "prompt must be a string, a list of strings, a list of token ids "
                               "or a list of such lists, not %s",
                               json_type_name(val));
    }
    *prompts_out = prompts;
    *n_out = n;
    return RADISH_OK;
}
