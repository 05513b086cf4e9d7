/* ep_template.c - POST /apply-template: the text that a chat request would send to the model.
 *
 * It takes the body of a chat request, as llama.cpp's server does, so that a client can look at a
 * request that puzzles it without rewriting it: fields of the generation are known, and change
 * nothing. */
#include "base/status.h"
#include "chat_prompt.h"
#include "exchange.h"
#include "json_out.h"
#include "openai_request.h"

enum radish_status ep_template(struct exchange *ex, struct radish_error *err) {
    struct openai_request r;
    char *text = NULL;
    size_t len = 0;
    enum radish_status status = openai_request_parse(&r, ex, API_CHAT, err);
    if (!status) status = chat_prompt_make(ex, r.root, &text, &len, err);
    if (!status) {
        ex->reply.status = 200;
        buf_append_char(&ex->reply.body, '{');
        json_out_key(&ex->reply.body, "prompt");
        json_out_string(&ex->reply.body, text, len);
        buf_append_char(&ex->reply.body, '}');
    }
    radish_free(text);
    openai_request_close(&r);
    return status;
}
