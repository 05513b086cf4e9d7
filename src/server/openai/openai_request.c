/* openai_request.c - from an exchange's body to parameters, with the warnings that go back.
 *
 * Nothing is dropped silently: a field nobody knows is named in the X-Radish-Warning header of this
 * reply, and once in the log; so is a model name that is not the one served, since the answer then
 * comes from another model than the client thinks. Nothing is cut silently either: a prompt that
 * does not fit is refused with the numbers. */
#include "openai_request.h"

#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "namespace_key.h"

#include <stdio.h>
#include <string.h>

/* Lists beside the document: ids, stop strings, logit_bias. A body bounds them already; this is
 * against surprises. */
#define ARENA_BYTES_MAX ((size_t)1 << 30)

void openai_warn_unknown(void *user, const char *name) {
    char key[80];
    snprintf(key, sizeof key, "field %.48s", name);
    exchange_warn(user, key, "unknown field ignored: %.48s", name);
}

enum radish_status openai_request_check_model(const struct openai_request *r, struct exchange *ex,
                                              struct radish_error *err) {
    char key[80];
    const char *model = NULL, *served = ex->server->served_name;
    RADISH_TRY(json_get_str(r->root, "model", &model, err));
    if (!model || !strcmp(model, served)) return RADISH_OK;
    snprintf(key, sizeof key, "model %.48s", model);
    exchange_warn(ex, key, "model %.48s is not served here, %.48s answers", model, served);
    return RADISH_OK;
}

enum radish_status openai_request_begin(struct openai_request *r, struct exchange *ex,
                                        struct radish_error *err) {
    memset(r, 0, sizeof *r);
    arena_init(&r->arena, ARENA_BYTES_MAX);
    RADISH_TRY(openai_parse_body(ex->body.data, ex->body.len, &r->doc, err));
    r->root = yyjson_doc_get_root(r->doc);
    return RADISH_OK;
}

enum radish_status openai_request_parse(struct openai_request *r, struct exchange *ex,
                                        unsigned shapes, struct radish_error *err) {
    RADISH_TRY(openai_request_begin(r, ex, err));
    if (shapes == API_TOKENIZE && json_get(r->root, "messages")) shapes |= API_CHAT;
    RADISH_TRY(field_table_check(&openai_fields, r->root, shapes, openai_warn_unknown, ex, err));
    if (shapes & (API_CHAT | API_COMPLETIONS))
        RADISH_TRY(field_table_check(&openai_fields, json_get(r->root, "stream_options"),
                                     API_STREAM, openai_warn_unknown, ex, err));
    return openai_request_check_model(r, ex, err);
}

enum radish_status openai_request_place(struct exchange *ex, const char *extra_key,
                                        const char *cache_salt, struct arena *arena,
                                        struct radish_request *request, struct radish_error *err) {
    uint32_t key_idx = ex->server->isolates_keys ? ex->key_idx : API_KEY_NONE;
    char *key = arena_alloc(arena, NAMESPACE_KEY_BYTES_MAX);
    if (!key) return error_nomem(err);
    request->namespace_len = namespace_key_write(key_idx, extra_key, cache_salt, key);
    request->namespace_key = key;
    if (request->priority && !ex->server->has_priorities)
        exchange_warn(ex, "priority",
                      "priority has no effect without --enable-priority-scheduling");
    return RADISH_OK;
}

enum radish_status openai_request_open(struct openai_request *r, struct exchange *ex,
                                       enum api_shape shape, struct radish_error *err) {
    struct radish_sampling defaults;
    radish_model_sampling(ex->server->model, &defaults);
    RADISH_TRY(openai_request_parse(r, ex, shape, err));
    RADISH_TRY(openai_params_read(r->root, shape, &defaults, &r->arena, &r->params, err));
    return openai_request_place(ex, r->params.extra_key, r->params.cache_salt, &r->arena,
                                &r->params.request, err);
}

void openai_request_close(struct openai_request *r) {
    yyjson_doc_free(r->doc);
    arena_deinit(&r->arena);
}

/* Normalisation can shorten a text before it is cut into tokens: canonical composition by three at
 * the most. */
enum { NORMALIZER_SHRINK_MAX = 4 };

enum radish_status openai_request_check_text(struct exchange *ex, size_t len, const char *field,
                                             struct radish_error *err) {
    size_t token_bytes = radish_model_info(ex->server->model)->token_bytes_max;
    token_bytes *= NORMALIZER_SHRINK_MAX;
    if (!token_bytes || len / token_bytes < ex->server->context_tokens) return RADISH_OK;
    ex->error_code = "context_length_exceeded";
    return error_set_field(err, RADISH_E_LIMIT, field,
                           "the prompt has %zu bytes, which is more than %zu tokens, but must have "
                           "fewer than %u: that is what fits into the context",
                           len, len / token_bytes, ex->server->context_tokens);
}

enum radish_status openai_request_check_ids(const struct exchange *ex, const int32_t *ids, size_t n,
                                            const char *field, struct radish_error *err) {
    const struct radish_model *model = ex->server->model;
    uint32_t n_known = radish_model_info(model)->n_tokens;
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] >= n_known || !radish_token_bytes(model, ids[i], &len))
            return error_set_field(err, RADISH_E_INVALID, field,
                                   "%s: %d is not a token id of this model (0 to %u)", field,
                                   ids[i], n_known ? n_known - 1 : 0);
    return RADISH_OK;
}

enum radish_status openai_request_take_prompt(struct exchange *ex,
                                              const struct openai_prompt *prompt, unsigned flags,
                                              const char *field, struct call *call,
                                              struct radish_error *err) {
    if (prompt->text) {
        RADISH_TRY(openai_request_check_text(ex, prompt->text_len, field, err));
        RADISH_TRY(radish_tokenize(ex->server->model, prompt->text, prompt->text_len, flags,
                                   &call->ids, &call->n_ids, err));
        if (call->n_ids) return RADISH_OK;
        return error_set_field(err, RADISH_E_INVALID, field, "a prompt must not be empty");
    }
    RADISH_TRY(openai_request_check_ids(ex, prompt->ids, prompt->n_ids, field, err));
    call->ids = mem_alloc(prompt->n_ids, sizeof *call->ids);
    if (!call->ids) return error_nomem(err);
    memcpy(call->ids, prompt->ids, prompt->n_ids * sizeof *call->ids);
    call->n_ids = prompt->n_ids;
    return RADISH_OK;
}

enum radish_status openai_request_check_batch(struct exchange *ex, size_t n, const char *field,
                                              struct radish_error *err) {
    struct radish_engine_info info;
    if (n <= 1) return RADISH_OK;
    radish_engine_info(ex->server->engine, &info);
    uint64_t n_max = (uint64_t)info.requests_running_max + info.requests_queued_max;
    if (n <= n_max) return RADISH_OK;
    return error_set_field(err, RADISH_E_LIMIT, field,
                           "%s holds %zu prompts, more than can run (%u) and wait (%u) here", field,
                           n, info.requests_running_max, info.requests_queued_max);
}

enum radish_status openai_request_check_room(struct exchange *ex, const struct call *call,
                                             const char *field, const char *max_field,
                                             struct radish_error *err) {
    const struct radish_request *request = &call->asked;
    uint32_t context_tokens = ex->server->context_tokens;
    ex->error_code = "context_length_exceeded";
    if (call->n_ids >= context_tokens)
        return error_set_field(err, RADISH_E_LIMIT, field,
                               "the prompt has %zu tokens, but must have fewer than %u: that is "
                               "what fits into the context",
                               call->n_ids, context_tokens);
    if (request->has_max_new_tokens && request->max_new_tokens > context_tokens - call->n_ids)
        return error_set_field(err, RADISH_E_LIMIT, max_field,
                               "the prompt has %zu tokens and %u more are asked for, together more "
                               "than the %u that fit into the context",
                               call->n_ids, request->max_new_tokens, context_tokens);
    ex->error_code = NULL;
    return RADISH_OK;
}
