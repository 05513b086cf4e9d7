/* native_request.c - reading what SGLang's clients send to /generate.
 *
 * A body has one prompt or a batch of them, and most fields may be one value for all or a list with
 * one for each:
 *
 *   {"text": ["a", "b"], "sampling_params": {...} or [{...}, {...}], "return_logprob": true,
 *    "logprob_start_len": [-1, 0], "rid": ["x", "y"], "stream": false}
 *
 * So each field is read through pick(), which gives the value that a prompt is to have. The
 * sampling parameters are those of every endpoint, under SGLang's words (sampling_fields.c).
 *
 * Where SGLang takes a field and does nothing with it (top_logprobs_num without return_logprob),
 * this is refused: nothing is ignored silently. The table below holds what else its clients, its
 * router and its benchmarks send. */
#include "native_request.h"

#include "base/status.h"
#include "sampling_fields.h"

enum { TOP = 1, SAMPLING = 2 }; /* shapes: the body, its sampling_params */

enum { NEW_TOKENS_DEFAULT = 128 };

static const char constrained[] = "output is not constrained here";
static const char text_only[] = "text only";
static const char is_sampling[] = "it belongs into sampling_params";

static const struct field_row rows[] = {
    {"text", TOP, FIELD_READ, ""},
    {"input_ids", TOP, FIELD_READ, ""},
    {"sampling_params", TOP, FIELD_READ, ""},
    {"rid", TOP, FIELD_READ, ""},
    {"stream", TOP, FIELD_READ, ""},
    {"return_logprob", TOP, FIELD_READ, ""},
    {"logprob_start_len", TOP, FIELD_READ, ""},
    {"top_logprobs_num", TOP, FIELD_READ, ""},
    {"token_ids_logprob", TOP, FIELD_READ, ""},
    {"return_text_in_logprobs", TOP, FIELD_READ, ""},
    {"priority", TOP, FIELD_READ, ""},
    {"extra_key", TOP, FIELD_READ, ""},
    {"cache_salt", TOP, FIELD_READ, ""},
    {"model", TOP, FIELD_READ, ""},

    {"log_metrics", TOP, FIELD_INERT, ""},
    {"no_logs", TOP, FIELD_INERT, ""},
    {"custom_labels", TOP, FIELD_INERT, ""},
    {"external_trace_header", TOP, FIELD_INERT, ""},
    {"received_time", TOP, FIELD_INERT, ""},
    {"validation_time", TOP, FIELD_INERT, ""},
    {"routing_key", TOP, FIELD_INERT, ""},
    {"conversation_id", TOP, FIELD_INERT, ""},
    {"user", TOP, FIELD_INERT, ""},

    {"input_embeds", TOP, "", "send text or input_ids"},
    {"image_data", TOP, "[]", text_only},
    {"video_data", TOP, "[]", text_only},
    {"audio_data", TOP, "[]", text_only},
    {"modalities", TOP, "[]\n[\"text\"]", text_only},
    {"lora_path", TOP, "", ""},
    {"lora_id", TOP, "", ""},
    {"session_params", TOP, "", ""},
    {"custom_logit_processor", TOP, "", ""},
    {"return_hidden_states", TOP, "false", ""},
    {"return_routed_experts", TOP, "false", ""},
    {"return_entropy", TOP, "false", ""},
    {"return_bytes", TOP, "false", ""},
    {"return_prompt_token_ids", TOP, "false", ""},
    {"background", TOP, "false", ""},
    {"require_reasoning", TOP, "false", ""},
    {"bootstrap_host", TOP, "", ""},
    {"bootstrap_port", TOP, "", ""},
    {"bootstrap_room", TOP, "", ""},
    {"bootstrap_pair_key", TOP, "", ""},
    {"data_parallel_rank", TOP, "0", "there is one rank"},
    {"routed_dp_rank", TOP, "0", "there is one rank"},
    {"disagg_prefill_dp_rank", TOP, "0", "there is one rank"},

    /* What would be ignored without a word where it stands. */
    {"prompt", TOP, "", "use text or input_ids"},
    {"messages", TOP, "", "use /v1/chat/completions"},
    {"max_new_tokens", TOP, "", is_sampling},
    {"max_tokens", TOP, "", "use max_new_tokens in sampling_params"},
    {"temperature", TOP, "", is_sampling},
    {"top_p", TOP, "", is_sampling},
    {"top_k", TOP, "", is_sampling},
    {"min_p", TOP, "", is_sampling},
    {"n", TOP, "", is_sampling},
    {"stop", TOP, "", is_sampling},
    {"stop_token_ids", TOP, "", is_sampling},
    {"ignore_eos", TOP, "", is_sampling},
    {"sampling_seed", TOP, "", is_sampling},
    {"seed", TOP, "", "use sampling_seed in sampling_params"},
    {"logprobs", TOP, "", "use return_logprob and top_logprobs_num"},

    {"max_new_tokens", SAMPLING, FIELD_READ, ""},
    {"min_new_tokens", SAMPLING, FIELD_READ, ""},
    {"temperature", SAMPLING, FIELD_READ, ""},
    {"top_p", SAMPLING, FIELD_READ, ""},
    {"top_k", SAMPLING, FIELD_READ, ""},
    {"min_p", SAMPLING, FIELD_READ, ""},
    {"repetition_penalty", SAMPLING, FIELD_READ, ""},
    {"presence_penalty", SAMPLING, FIELD_READ, ""},
    {"frequency_penalty", SAMPLING, FIELD_READ, ""},
    {"sampling_seed", SAMPLING, FIELD_READ, ""},
    {"n", SAMPLING, FIELD_READ, ""},
    {"stop", SAMPLING, FIELD_READ, ""},
    {"stop_token_ids", SAMPLING, FIELD_READ, ""},
    {"ignore_eos", SAMPLING, FIELD_READ, ""},
    {"no_stop_trim", SAMPLING, FIELD_READ, ""},
    {"skip_special_tokens", SAMPLING, FIELD_READ, ""},
    {"logit_bias", SAMPLING, FIELD_READ, ""},

    {"json_schema", SAMPLING, "", constrained},
    {"regex", SAMPLING, "", constrained},
    {"ebnf", SAMPLING, "", constrained},
    {"structural_tag", SAMPLING, "", constrained},
    {"stop_regex", SAMPLING, "[]", "use stop"},
    {"spaces_between_special_tokens", SAMPLING, "true", ""},
    {"stream_interval", SAMPLING, "", "start the server with --stream-interval"},
    {"custom_params", SAMPLING, "", ""},
    {"max_tokens", SAMPLING, "", "use max_new_tokens"},
    {"min_tokens", SAMPLING, "", "use min_new_tokens"},
    {"seed", SAMPLING, "", "use sampling_seed"},
};

static const struct field_table fields = {rows, sizeof rows / sizeof *rows};

static const struct sampling_words words = {.max = "max_new_tokens",
                                            .max_default = NEW_TOKENS_DEFAULT,
                                            .min = "min_new_tokens",
                                            .seed = "sampling_seed"};

/* What one prompt's fields are read from. */
struct reader {
    yyjson_val *root;
    struct arena *arena;
    const struct native_request *request;
    size_t idx; /* of the prompt */
    struct radish_error *err;
};

/* The value of a field for the reader's prompt: the field's own, or its item. A list must have an
 * item for each prompt of a batch. */
static enum radish_status pick(const struct reader *reader, const char *name,
                               yyjson_val **val_out) {
    const struct openai_prompts *prompts = &reader->request->prompts;
    yyjson_val *val = *val_out = json_get(reader->root, name);
    if (!yyjson_is_arr(val)) return RADISH_OK;
    if (!prompts->is_list)
        return error_set_field(reader->err, RADISH_E_INVALID, name,
                               "%s is a list, but there is one prompt, not a list of them", name);
    if (yyjson_arr_size(val) != prompts->n)
        return error_set_field(reader->err, RADISH_E_INVALID, name,
                               "%s has %zu items for %zu prompts", name, yyjson_arr_size(val),
                               prompts->n);
    *val_out = yyjson_arr_get(val, reader->idx);
    return RADISH_OK;
}

static enum radish_status pick_bool(const struct reader *reader, const char *name, bool *out) {
    yyjson_val *val;
    RADISH_TRY(pick(reader, name, &val));
    return json_read_bool(val, name, out, reader->err);
}

static enum radish_status pick_i64(const struct reader *reader, const char *name, int64_t min,
                                   int64_t max, int64_t *out) {
    yyjson_val *val;
    RADISH_TRY(pick(reader, name, &val));
    return json_read_i64(val, name, min, max, out, reader->err);
}

/* token_ids_logprob is a list of ids for every prompt, or a list of such lists (or nulls). */
static enum radish_status read_named(const struct reader *reader, struct radish_request *r) {
    static const char name[] = "token_ids_logprob";
    yyjson_val *val = json_get(reader->root, name), *first = yyjson_arr_get_first(val);
    size_t n = 0;
    if (yyjson_is_arr(first) || yyjson_is_null(first)) RADISH_TRY(pick(reader, name, &val));
    if (!json_is_given(val)) return RADISH_OK;
    RADISH_TRY(openai_ids_read(val, name, RADISH_LOGPROB_IDS_MAX, reader->arena, &r->logprob_ids,
                               &n, reader->err));
    r->n_logprob_ids = (uint32_t)n;
    return RADISH_OK;
}

/* What needs return_logprob is refused without it. */
static enum radish_status check_logprobs(const struct native_call *call, struct radish_error *err) {
    const char *name = NULL;
    if (call->asked.logprobs) return RADISH_OK;
    if (call->asked.n_logprob_ids) name = "token_ids_logprob";
    if (call->asked.n_top_logprobs) name = "top_logprobs_num";
    if (call->logprobs_from >= 0) name = "logprob_start_len";
    if (!name) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, name, "%s needs \"return_logprob\": true", name);
}

static enum radish_status read_logprobs(const struct reader *reader, struct native_call *call) {
    int64_t n_top = 0;
    call->logprobs_from = -1;
    RADISH_TRY(pick_bool(reader, "return_logprob", &call->asked.logprobs));
    RADISH_TRY(pick_i64(reader, "logprob_start_len", -1, INT32_MAX, &call->logprobs_from));
    RADISH_TRY(pick_i64(reader, "top_logprobs_num", 0, RADISH_TOP_LOGPROBS_MAX, &n_top));
    call->asked.n_top_logprobs = (uint32_t)n_top;
    RADISH_TRY(pick_bool(reader, "return_text_in_logprobs", &call->has_token_text));
    RADISH_TRY(read_named(reader, &call->asked));
    return check_logprobs(call, reader->err);
}

static enum radish_status read_names(const struct reader *reader, struct native_call *call) {
    yyjson_val *val;
    RADISH_TRY(pick(reader, "extra_key", &val));
    RADISH_TRY(openai_namespace_read(val, "extra_key", &call->extra_key, reader->err));
    RADISH_TRY(pick(reader, "cache_salt", &val));
    RADISH_TRY(openai_namespace_read(val, "cache_salt", &call->cache_salt, reader->err));
    if (!yyjson_is_arr(json_get(reader->root, "rid"))) return RADISH_OK;
    RADISH_TRY(pick(reader, "rid", &val));
    return openai_rid_read(val, &call->rid, reader->err);
}

/* The sampling parameters of the reader's prompt; first: what they made of the first prompt, which
 * stands for all when there is one object, and has the n of all. */
static enum radish_status read_sampling(const struct reader *reader, field_unknown_fn on_unknown,
                                        void *user, const struct native_call *first,
                                        struct native_call *call) {
    static const char name[] = "sampling_params";
    yyjson_val *val;
    RADISH_TRY(pick(reader, name, &val));
    if (json_is_given(val) && !yyjson_is_obj(val))
        return error_set_field(reader->err, RADISH_E_INVALID, name,
                               "sampling_params must be an object or a list of them, not %s",
                               json_type_name(val));
    if (reader->idx && !yyjson_is_arr(json_get(reader->root, name))) {
        *call = *first;
        return RADISH_OK;
    }
    RADISH_TRY(field_table_check(&fields, val, SAMPLING, on_unknown, user, reader->err));
    RADISH_TRY(sampling_fields_read(val, &words, reader->arena, &call->asked, reader->err));
    call->has_max = json_is_given(json_get(val, words.max));
    if (!reader->idx || call->asked.n == first->asked.n) return RADISH_OK;
    return error_set_field(reader->err, RADISH_E_INVALID, "n",
                           "n must be the same for all prompts, not %u and %u", first->asked.n,
                           call->asked.n);
}

static enum radish_status read_prompts(yyjson_val *root, struct arena *arena,
                                       struct native_request *r, struct radish_error *err) {
    yyjson_val *text = json_get(root, "text"), *ids = json_get(root, "input_ids");
    bool has_text = json_is_given(text), has_ids = json_is_given(ids);
    if (has_text && has_ids)
        return error_set_field(err, RADISH_E_INVALID, "input_ids",
                               "text and input_ids exclude each other: send one");
    if (!has_text && !has_ids)
        return error_set_field(err, RADISH_E_INVALID, "text", "text or input_ids is missing");
    r->prompts_field = has_text ? "text" : "input_ids";
    return openai_prompts_read(has_text ? text : ids, r->prompts_field,
                               has_text ? OPENAI_PROMPT_TEXT : OPENAI_PROMPT_IDS, arena,
                               &r->prompts, err);
}

enum radish_status native_request_read(yyjson_val *root, const struct radish_sampling *defaults,
                                       struct arena *arena, field_unknown_fn on_unknown, void *user,
                                       struct native_request *request_out,
                                       struct radish_error *err) {
    struct native_request *r = request_out;
    struct native_call first = {0};
    int32_t priority = 0;
    *r = (struct native_request){0};
    RADISH_TRY(field_table_check(&fields, root, TOP, on_unknown, user, err));
    RADISH_TRY(read_prompts(root, arena, r, err));
    RADISH_TRY(json_get_bool(root, "stream", &r->is_streamed, err));
    RADISH_TRY(openai_priority_read(root, &priority, err));
    if (!yyjson_is_arr(json_get(root, "rid")))
        RADISH_TRY(openai_rid_read(json_get(root, "rid"), &r->rid, err));
    r->calls = arena_zalloc(arena, r->prompts.n, sizeof *r->calls);
    if (!r->calls) return error_nomem(err);
    for (size_t i = 0; i < r->prompts.n; i++) {
        struct native_call *call = &r->calls[i];
        struct reader reader = {.root = root, .arena = arena, .request = r, .idx = i, .err = err};
        call->asked.sampling = *defaults;
        RADISH_TRY(read_sampling(&reader, on_unknown, user, &first, call));
        if (!i) first = *call;
        RADISH_TRY(read_logprobs(&reader, call));
        RADISH_TRY(read_names(&reader, call));
        call->asked.priority = priority;
    }
    return RADISH_OK;
}
