/* chat_prompt.c - messages -> variables (openai_messages.c) -> the model's chat template -> text.
 *
 * One way for whoever needs a conversation's text: chats, /apply-template, and /tokenize of
 * messages, so that the last two show exactly what the first computes.
 *
 * A model without a template, or with one that does not compile, still completes plain text, and
 * nothing else is taken for its template: a conversation in a format that a model was not trained
 * with gets worse answers without a word. It is a 400, although the client did nothing wrong: every
 * server of this model would answer the same, and routers send a 5xx again. So it is with what a
 * template raises, and with its limits: what makes a template fail is a conversation. */
#include "chat_prompt.h"

#include "base/status.h"
#include "exchange.h"
#include "openai_messages.h"

#include <stdlib.h>

static enum radish_status check_template(struct exchange *ex, struct radish_error *err) {
    const struct radish_model_info *info = radish_model_info(ex->server->model);
    bool is_broken = info->chat_template_error && *info->chat_template_error;
    if (info->has_chat_template) return RADISH_OK;
    ex->error_code = "no_chat_template";
    return error_set(err, RADISH_E_UNSUPPORTED,
                     "this model has no chat template%s%.160s%s: use /v1/completions, or start the "
                     "server with --chat-template",
                     is_broken ? " that works (" : "", is_broken ? info->chat_template_error : "",
                     is_broken ? ")" : "");
}

enum radish_status chat_prompt_make(struct exchange *ex, yyjson_val *root, char **text_out,
                                    size_t *len_out, struct radish_error *err) {
    struct openai_conversation conversation = {0};
    *text_out = NULL;
    *len_out = 0;
    RADISH_TRY(check_template(ex, err));
    RADISH_TRY(openai_conversation_read(root, &conversation, err));
    enum radish_status status =
        radish_render(ex->server->model, conversation.json, conversation.len, /*adapt=*/true, NULL,
                      text_out, len_out, err);
    if (!status && *conversation.marker)
        status = openai_marker_cut(conversation.marker, *text_out, len_out, err);
    if (status == RADISH_E_TEMPLATE || status == RADISH_E_LIMIT)
        ex->error_code = "chat_template_error";
    if (status) {
        radish_free(*text_out);
        *text_out = NULL;
        *len_out = 0;
    }
    free(conversation.json);
    return status;
}
