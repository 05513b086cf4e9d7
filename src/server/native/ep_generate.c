/* ep_generate.c - POST or PUT /generate: SGLang's own endpoint.
 *
 * native_request.c has read the body; here prompts become ids, what depends on their length is
 * settled (where prompt logprobs begin, the default of max_new_tokens), and everything is started
 * at once. A batch is one HTTP request and one engine request per prompt, so that the prompts of a
 * batch are scheduled, cached and aborted like any others.
 *
 * Ids: results are called by the client's rid. One rid for a batch gives "rid_0", "rid_1" ...; it
 * still names the whole. Choices of one prompt share its id. */
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "native_reply.h"
#include "native_request.h"
#include "openai_request.h"

#include <stdio.h>
#include <string.h>

/* What the prompt's length decides. */
static enum radish_status settle(struct exchange *ex, const struct native_call *from,
                                 struct call *call, struct radish_error *err) {
    struct radish_request *asked = &call->asked;
    size_t context_tokens = ex->server->context_tokens;
    if (!from->has_max && call->n_ids < context_tokens &&
        asked->max_new_tokens > context_tokens - call->n_ids)
        asked->max_new_tokens = (uint32_t)(context_tokens - call->n_ids);
    if (from->logprobs_from < 0) return RADISH_OK;
    if ((uint64_t)from->logprobs_from > call->n_ids)
        return error_set_field(err, RADISH_E_INVALID, "logprob_start_len",
                               "logprob_start_len is %lld, but the prompt has %zu tokens",
                               (long long)from->logprobs_from, call->n_ids);
    asked->prompt_logprobs = true;
    asked->prompt_logprobs_from = (uint32_t)from->logprobs_from;
    return RADISH_OK;
}

static enum radish_status name_call(struct generation *g, const struct native_request *r,
                                    size_t idx, struct radish_error *err) {
    char numbered[OPENAI_RID_BYTES_MAX + 32];
    const char *id = r->calls[idx].rid;
    if (!id && !r->prompts.is_list) return RADISH_OK;
    if (!id) {
        snprintf(numbered, sizeof numbered, "%.*s_%zu", OPENAI_RID_BYTES_MAX, g->id, idx);
        id = numbered;
    }
    g->calls[idx].id = mem_strndup(id, strlen(id));
    return g->calls[idx].id ? RADISH_OK : error_nomem(err);
}

static enum radish_status fill_calls(struct exchange *ex, struct openai_request *body,
                                     const struct native_request *r, struct generation *g,
                                     struct radish_error *err) {
    for (size_t i = 0; i < r->prompts.n; i++) {
        const struct native_call *from = &r->calls[i];
        struct call *call = &g->calls[i];
        call->asked = from->asked;
        call->has_token_text = from->has_token_text;
        RADISH_TRY(name_call(g, r, i, err));
        RADISH_TRY(openai_request_place(ex, from->extra_key, from->cache_salt, &body->arena,
                                        &call->asked, err));
        RADISH_TRY(openai_request_take_prompt(ex, &r->prompts.prompts[i], RADISH_TOKENIZE_SPECIAL,
                                              r->prompts_field, call, err));
        RADISH_TRY(settle(ex, from, call, err));
        RADISH_TRY(openai_request_check_room(ex, call, r->prompts_field, "max_new_tokens", err));
        RADISH_TRY(openai_request_check_ids(ex, call->asked.logprob_ids, call->asked.n_logprob_ids,
                                            "token_ids_logprob", err));
    }
    return RADISH_OK;
}

enum radish_status ep_generate(struct exchange *ex, struct radish_error *err) {
    struct openai_request body;
    struct native_request r;
    struct generation *g = NULL;
    struct radish_sampling defaults;
    radish_model_sampling(ex->server->model, &defaults);
    enum radish_status status = openai_request_begin(&body, ex, err);
    if (!status)
        status = native_request_read(body.root, &defaults, &body.arena, openai_warn_unknown, ex, &r,
                                     err);
    if (!status) status = openai_request_check_model(&body, ex, err);
    if (!status) status = openai_request_check_batch(ex, r.prompts.n, r.prompts_field, err);
    if (status) goto done;
    body.params.request = r.calls[0].asked;
    body.params.is_streamed = r.is_streamed;
    body.params.rid = r.rid;
    g = generation_create(ex, &native_reply_format, API_GENERATE, &body.params, r.prompts.n);
    status = g ? fill_calls(ex, &body, &r, g, err) : error_nomem(err);
    if (status) goto done;
    g->is_list = r.prompts.is_list || g->n > 1;
    status = generation_start(g, err);
    g = NULL; /* the exchange's, whatever the status */
done:
    generation_destroy(g);
    openai_request_close(&body);
    return status;
}
