/* openai_types.c - reading what a body of OpenAI's API says besides sampling: names, streams,
 * logprobs, and prompts in their four forms. What says how tokens are chosen is
 * sampling_fields.c's, which SGLang's /generate shares; so are the small readers of prompts, ids,
 * rid and namespaces here.
 *
 * Every failure is a 400 whose message and "param" name the field as the client wrote it. null
 * means absent everywhere, since many clients serialise their optional fields so. */
#include "openai_types.h"

#include "base/status.h"
#include "sampling_fields.h"

#include <string.h>

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

static enum radish_status check_best_of(yyjson_val *root, uint32_t n, struct radish_error *err) {
    uint32_t best_of = n;
    RADISH_TRY(json_get_u32(root, "best_of", 1, RADISH_CHOICES_MAX, &best_of, err));
    if (best_of == n) return RADISH_OK;
    return error_set_field(err, RADISH_E_UNSUPPORTED, "best_of",
                           "best_of other than n is not supported: ask for n choices");
}

/* Chat has a boolean and a count, completions have a count that is also the switch. */
static enum radish_status read_logprobs(yyjson_val *root, enum api_shape shape,
                                        struct openai_params *p, struct radish_error *err) {
    struct radish_request *r = &p->request;
    const char *count_name = shape == API_CHAT ? "top_logprobs" : "logprobs";
    bool has_count = json_is_given(json_get(root, count_name));
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
    if (!json_is_given(options)) return RADISH_OK;
    if (!yyjson_is_obj(options))
        return error_set_field(err, RADISH_E_INVALID, name, "stream_options must be an object");
    if (!p->is_streamed)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "stream_options needs \"stream\": true");
    RADISH_TRY(json_get_bool(options, "include_usage", &p->has_usage_chunk, err));
    return json_get_bool(options, "continuous_usage_stats", &p->has_usage_in_chunks, err);
}

enum radish_status openai_namespace_read(yyjson_val *val, const char *name, const char **out,
                                         struct radish_error *err) {
    RADISH_TRY(json_read_str(val, name, out, err));
    if (json_is_given(val) && yyjson_get_len(val) > OPENAI_NAMESPACE_BYTES_MAX)
        return error_set_field(err, RADISH_E_INVALID, name,
                               "%s must have at most %d bytes, not %zu", name,
                               OPENAI_NAMESPACE_BYTES_MAX, yyjson_get_len(val));
    if (*out && !**out) *out = NULL;
    return RADISH_OK;
}

enum radish_status openai_rid_read(yyjson_val *val, const char **out, struct radish_error *err) {
    RADISH_TRY(json_read_str(val, "rid", out, err));
    if (!*out || (**out && strlen(*out) <= OPENAI_RID_BYTES_MAX)) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, "rid", "rid must have 1 to %d bytes",
                           OPENAI_RID_BYTES_MAX);
}

enum radish_status openai_priority_read(yyjson_val *root, int32_t *out, struct radish_error *err) {
    int64_t priority = 0;
    RADISH_TRY(
        json_get_i64(root, "priority", -OPENAI_PRIORITY_MAX, OPENAI_PRIORITY_MAX, &priority, err));
    *out = (int32_t)priority;
    return RADISH_OK;
}

static enum radish_status read_names(yyjson_val *root, struct openai_params *p,
                                     struct radish_error *err) {
    RADISH_TRY(json_get_str(root, "model", &p->model, err));
    RADISH_TRY(openai_rid_read(json_get(root, "rid"), &p->rid, err));
    yyjson_val *extra_key = json_get(root, "extra_key"), *salt = json_get(root, "cache_salt");
    RADISH_TRY(openai_namespace_read(extra_key, "extra_key", &p->extra_key, err));
    RADISH_TRY(openai_namespace_read(salt, "cache_salt", &p->cache_salt, err));
    return openai_priority_read(root, &p->request.priority, err);
}

enum radish_status openai_params_read(yyjson_val *root, enum api_shape shape,
                                      const struct radish_sampling *defaults, struct arena *arena,
                                      struct openai_params *params_out, struct radish_error *err) {
    static const struct sampling_words chat_words = {.max = "max_tokens",
                                                     .max_new = "max_completion_tokens",
                                                     .min = "min_tokens",
                                                     .seed = "seed"};
    static const struct sampling_words words = {
        .max = "max_tokens", .min = "min_tokens", .seed = "seed"};
    struct openai_params *p = params_out;
    *p = (struct openai_params){.request.sampling = *defaults, .has_special = true};
    RADISH_TRY(read_names(root, p, err));
    RADISH_TRY(read_stream(root, p, err));
    RADISH_TRY(sampling_fields_read(root, shape == API_CHAT ? &chat_words : &words, arena,
                                    &p->request, err));
    RADISH_TRY(check_best_of(root, p->request.n, err));
    RADISH_TRY(json_get_bool(root, "include_stop_str_in_output", &p->request.include_stop, err));
    RADISH_TRY(read_logprobs(root, shape, p, err));
    if (shape == API_CHAT) return RADISH_OK;
    RADISH_TRY(json_get_bool(root, "echo", &p->has_echo, err));
    p->request.prompt_logprobs = p->has_echo && p->request.logprobs;
    return json_get_bool(root, "add_special_tokens", &p->has_special, err);
}

static enum radish_status read_prompt(yyjson_val *val, const char *name, struct arena *arena,
                                      struct openai_prompt *out, struct radish_error *err) {
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

static enum radish_status refuse_prompts(yyjson_val *val, const char *name, unsigned kinds,
                                         struct radish_error *err) {
    const char *wanted = "a string or a list of strings";
    if (kinds == OPENAI_PROMPT_IDS) wanted = "a list of token ids or a list of such lists";
    if (kinds == OPENAI_PROMPT_ANY)
        wanted = "a string, a list of strings, a list of token ids or a list of such lists";
    return error_set_field(err, RADISH_E_INVALID, name, "%s must be %s, not %s", name, wanted,
                           json_type_name(val));
}

enum radish_status openai_prompts_read(yyjson_val *val, const char *name, unsigned kinds,
                                       struct arena *arena, struct openai_prompts *prompts_out,
                                       struct radish_error *err) {
    yyjson_val *first = yyjson_arr_get_first(val), *item;
    size_t idx, max;
    *prompts_out = (struct openai_prompts){0};
    if (!json_is_given(val))
        return error_set_field(err, RADISH_E_INVALID, name, "%s is missing", name);
    if (yyjson_is_arr(val) && !first)
        return error_set_field(err, RADISH_E_INVALID, name, "%s must not be an empty list", name);
    bool is_list = yyjson_is_str(first) || yyjson_is_arr(first);
    bool is_text = yyjson_is_str(is_list ? first : val);
    if (!(is_text ? kinds & OPENAI_PROMPT_TEXT : yyjson_is_arr(val) && kinds & OPENAI_PROMPT_IDS))
        return refuse_prompts(is_list ? first : val, name, kinds, err);
    size_t n = is_list ? yyjson_arr_size(val) : 1;
    if (n > OPENAI_PROMPTS_MAX)
        return error_set_field(err, RADISH_E_LIMIT, name, "%s may hold at most %d prompts, not %zu",
                               name, OPENAI_PROMPTS_MAX, n);
    struct openai_prompt *prompts = arena_zalloc(arena, n, sizeof *prompts);
    if (!prompts) return error_nomem(err);
    if (!is_list) RADISH_TRY(read_prompt(val, name, arena, &prompts[0], err));
    if (is_list) {
        yyjson_arr_foreach(val, idx, max, item) {
            if (yyjson_is_str(item) != is_text)
                return error_set_field(err, RADISH_E_INVALID, name,
                                       "%s must not mix strings and token ids", name);
            RADISH_TRY(read_prompt(item, name, arena, &prompts[idx], err));
        }
    }
    *prompts_out = (struct openai_prompts){.prompts = prompts, .n = n, .is_list = is_list};
    return RADISH_OK;
}
