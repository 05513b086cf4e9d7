/* ep_chat.c - POST /v1/chat/completions: a conversation becomes a prompt.
 *
 * messages -> text (chat_prompt.c) -> ids. The text is encoded without the special tokens that the
 * post-processor would add: templates write their own. Everything here runs on a preparing thread
 * and ends with a running generation or an error; whatever is held on the way is released in one
 * place. */
#include "base/status.h"
#include "chat_prompt.h"
#include "exchange.h"
#include "openai_reply.h"
#include "openai_request.h"

/* The conversation as prompt ids. */
static enum radish_status make_prompt(struct exchange *ex, yyjson_val *root, struct call *call,
                                      struct radish_error *err) {
    char *text = NULL;
    size_t len = 0;
    RADISH_TRY(chat_prompt_make(ex, root, &text, &len, err));
    enum radish_status status = openai_request_check_text(ex, len, "messages", err);
    if (!status)
        status = radish_tokenize(ex->server->model, text, len, 0, &call->ids, &call->n_ids, err);
    if (!status && !call->n_ids)
        status = error_set_field(err, RADISH_E_TEMPLATE, "messages",
                                 "the chat template made an empty prompt of these messages");
    radish_free(text);
    return status;
}

enum radish_status ep_chat(struct exchange *ex, struct radish_error *err) {
    struct openai_request r;
    struct generation *g = NULL;
    enum radish_status status = openai_request_open(&r, ex, API_CHAT, err);
    if (status) goto done;
    g = generation_create(ex, &openai_reply_format, API_CHAT, &r.params, 1);
    status = g ? make_prompt(ex, r.root, &g->calls[0], err) : error_nomem(err);
    if (!status && openai_has_tools(r.root) && !generation_read_tools(g)) status = error_nomem(err);
    if (!status)
        status = openai_request_check_room(ex, &g->calls[0], "messages", "max_tokens", err);
    if (status) goto done;
    status = generation_start(g, err);
    g = NULL; /* the exchange's, whatever the status */
done:
    generation_destroy(g);
    openai_request_close(&r);
    return status;
}
