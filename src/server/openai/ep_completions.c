/* ep_completions.c - POST /v1/completions: one or many prompts, as text or as ids.
 *
 * Text gets the special tokens of the model's post-processor (BOS ...), ids are taken as they are.
 * With echo the reply begins with the prompt: the text as it was sent, or the ids decoded. */
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"
#include "openai_reply.h"
#include "openai_request.h"

/* The prompt as the text that echo gives back. */
static enum radish_status take_echo(const struct exchange *ex, const struct openai_prompt *prompt,
                                    bool keeps_special, struct call *call,
                                    struct radish_error *err) {
    if (!prompt->text)
        return radish_detokenize(ex->server->model, call->ids, call->n_ids,
                                 keeps_special ? 0 : RADISH_DETOKENIZE_SKIP, &call->echo_text,
                                 &call->echo_len, err);
    call->echo_len = prompt->text_len;
    call->echo_text = mem_strndup(prompt->text, prompt->text_len);
    return call->echo_text ? RADISH_OK : error_nomem(err);
}

static enum radish_status make_prompts(struct exchange *ex, const struct openai_params *params,
                                       const struct openai_prompt *prompts, struct generation *g,
                                       struct radish_error *err) {
    unsigned flags = params->has_special ? RADISH_TOKENIZE_SPECIAL : 0;
    for (uint32_t i = 0; i < g->n_calls; i++) {
        struct call *call = &g->calls[i];
        RADISH_TRY(openai_request_take_prompt(ex, &prompts[i], flags, "prompt", call, err));
        if (params->has_echo)
            RADISH_TRY(take_echo(ex, &prompts[i], params->request.keep_special_tokens, call, err));
        RADISH_TRY(openai_request_check_room(ex, call, "prompt", "max_tokens", err));
    }
    return RADISH_OK;
}

enum radish_status ep_completions(struct exchange *ex, struct radish_error *err) {
    struct openai_request r;
    struct openai_prompts prompts;
    struct generation *g = NULL;
    enum radish_status status = openai_request_open(&r, ex, API_COMPLETIONS, err);
    if (!status)
        status = openai_prompts_read(json_get(r.root, "prompt"), "prompt", OPENAI_PROMPT_ANY,
                                     &r.arena, &prompts, err);
    if (!status) status = openai_request_check_batch(ex, prompts.n, "prompt", err);
    if (status) goto done;
    g = generation_create(ex, &openai_reply_format, API_COMPLETIONS, &r.params, prompts.n);
    status = g ? make_prompts(ex, &r.params, prompts.prompts, g, err) : error_nomem(err);
    if (status) goto done;
    status = generation_start(g, err);
    g = NULL; /* the exchange's, whatever the status */
done:
    generation_destroy(g);
    openai_request_close(&r);
    return status;
}
