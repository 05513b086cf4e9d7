/* native_logprobs.c - triples of logprob, id and text.
 *
 * SGLang words a token's probability as [logprob, id, text]; text is null unless the request asks
 * for it (return_text_in_logprobs). Three lists run side by side, an item per token: the token
 * itself, its best alternatives, the ids that were asked about. A token that no row tells of, the
 * first of those wanted of a prompt, has null for all three; clients count on the lists being
 * aligned.
 *
 * In a stream every chunk repeats the lists from their beginning. So items are written once, when
 * their tokens come, and kept as text: a chunk costs a copy, not a formatting of all that came
 * before. */
#include "native_logprobs.h"

#include "json_out.h"

void native_logprobs_deinit(struct native_logprobs *lists) {
    buf_deinit(&lists->tokens);
    buf_deinit(&lists->tops);
    buf_deinit(&lists->named);
}

static void write_tail(const struct radish_model *model, int32_t id, bool has_text,
                       struct buf *out) {
    size_t len = 0;
    const char *bytes = has_text ? radish_token_bytes(model, id, &len) : NULL;
    buf_printf(out, ",%d,", id);
    if (bytes)
        json_out_string(out, bytes, len);
    else
        buf_append_str(out, "null");
    buf_append_char(out, ']');
}

static void write_list(const struct radish_model *model, const struct radish_logprob *list,
                       uint32_t n, bool has_text, struct buf *out) {
    if (out->len) buf_append_char(out, ',');
    if (!n) {
        buf_append_str(out, "null");
        return;
    }
    buf_append_char(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        buf_append_str(out, i ? ",[" : "[");
        json_out_logprob(out, list[i].logprob);
        write_tail(model, list[i].id, has_text, out);
    }
    buf_append_char(out, ']');
}

void native_logprobs_add(struct native_logprobs *lists, const struct radish_model *model,
                         const struct event_view *view, bool has_text) {
    const struct radish_logprob *list = view->logprobs;
    for (uint32_t i = 0; i < view->record->n_tokens; i++) {
        const struct event_token *token = &view->tokens[i];
        buf_append_str(&lists->tokens, lists->tokens.len ? ",[" : "[");
        if (token->has_logprob)
            json_out_logprob(&lists->tokens, token->logprob);
        else
            buf_append_str(&lists->tokens, "null");
        write_tail(model, token->id, has_text, &lists->tokens);
        write_list(model, list, token->n_top, has_text, &lists->tops);
        list += token->n_top;
        write_list(model, list, token->n_named, has_text, &lists->named);
        list += token->n_named;
    }
}

static void write_items(const char *side, const char *what, const struct buf *items,
                        struct buf *out) {
    buf_printf(out, ",\"%s_%s\":[", side, what);
    buf_append(out, items->data, items->len);
    buf_append_char(out, ']');
    if (items->failed) out->failed = true;
}

void native_logprobs_write(const struct native_logprobs *lists, const char *side,
                           const struct radish_request *asked, struct buf *out) {
    write_items(side, "token_logprobs", &lists->tokens, out);
    if (asked->n_top_logprobs) write_items(side, "top_logprobs", &lists->tops, out);
    if (asked->n_logprob_ids) write_items(side, "token_ids_logprobs", &lists->named, out);
}
