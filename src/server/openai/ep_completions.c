/* ep_completions.c - POST /v1/completions: one or many prompts, as text or as ids.
 *
 * Text gets the special tokens of the model's post-processor (BOS ...), ids are taken as they are.
 * With echo the reply begins with the prompt: the text as it was sent, or the ids decoded. */
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "openai_request.h"

#include <stdlib.h>
#include <string.h>

static enum radish_status take_text(struct exchange *ex, const struct openai_params *params,
                                    const struct openai_prompt *prompt, struct call *call,
                                    struct radish_error *err) {
    const struct radish_model *model = ex->server->model;
    unsigned flags = params->has_special ? RADISH_TOKENIZE_SPECIAL : 0;
    RADISH_TRY(openai_request_check_text(ex, prompt->text_len, "prompt", err));
    RADISH_TRY(radish_tokenize(model, prompt->text, prompt->text_len, flags, &call->ids,
                               &call->n_ids, err));
    if (!call->n_ids)
        return error_set_field(err, RADISH_E_INVALID, "prompt", "a prompt must not be empty");
    if (!params->has_echo) return RADISH_OK;
    call->echo_len = prompt->text_len;
    call->echo_text = mem_strndup(prompt->text, prompt->text_len);
    return call->echo_text ? RADISH_OK : error_nomem(err);
}

static enum radish_status take_ids(struct exchange *ex, const struct openai_params *params,
                                   const struct openai_prompt *prompt, struct call *call,
                                   struct radish_error *err) {
    RADISH_TRY(openai_request_check_ids(ex, prompt->ids, prompt->n_ids, "prompt", err));
    call->ids = mem_alloc(prompt->n_ids, sizeof *call->ids);
    if (!call->ids) return error_nomem(err);
    memcpy(call->ids, prompt->ids, prompt->n_ids * sizeof *call->ids);
    call->n_ids = prompt->n_ids;
    if (!params->has_echo) return RADISH_OK;
    return radish_detokenize(ex->server->model, call->ids, call->n_ids,
                             params->request.keep_special_tokens ? 0 : RADISH_DETOKENIZE_SKIP,
                             &call->echo_text, &call->echo_len, err);
}

static enum radish_status make_prompts(struct exchange *ex, struct openai_request *r,
                                       const struct openai_prompt *prompts, struct generation *g,
                                       struct radish_error *err) {
    for (uint32_t i = 0; i < g->n_calls; i++) {
        if (prompts[i].text)
            RADISH_TRY(take_text(ex, &r->params, &prompts[i], &g->calls[i], err));
        else
            RADISH_TRY(take_ids(ex, &r->params, &prompts[i], &g->calls[i], err));
        RADISH_TRY(openai_request_check_room(r, ex, &g->calls[i], "prompt", err));
    }
    return RADISH_OK;
}

enum radish_status ep_completions(struct exchange *ex, struct radish_error *err) {
    struct openai_request r;
    struct openai_prompt *prompts = NULL;
    struct generation *g = NULL;
    size_t n_prompts = 0;
    enum radish_status status = openai_request_open(&r, ex, API_COMPLETIONS, err);
    if (!status) status = openai_prompts_read(r.root, &r.arena, &prompts, &n_prompts, err);
    if (status) goto done;
    g = generation_create(ex, API_COMPLETIONS, &r.params, n_prompts);
    status = g ? make_prompts(ex, &r, prompts, g, err) : error_nomem(err);
    if (status) goto done;
    status = generation_start(g, &r.params, err);
    g = NULL; /* the exchange's, whatever the status */
done:
    generation_destroy(g);
    openai_request_close(&r);
    return status;
}
