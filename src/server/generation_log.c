/* generation_log.c - what all replies do with a log of events before they word it.
 *
 * The engine tells events in its own order, the choices of all prompts mixed. A reply needs them by
 * choice. So the records are linked: each holds the offset of the same choice's next one, and a
 * choice that of its first. That costs one pass, copies nothing, and lets events that came together
 * become one chunk: a client that keeps up gets a chunk per token, one that lags gets fewer and
 * larger ones, and a reply that is not streamed is the case in which all came together. */
#include "generation_log.h"

#include "exchange.h"

#include <string.h>

void generation_log_link(struct generation *g, struct buf *list) {
    struct event_view view;
    for (size_t at = 0; at < g->log.len; at += (size_t)view.record->n_bytes) {
        view = event_log_view(&g->log, at);
        uint32_t choice_idx = view.record->choice_idx;
        struct call *call = &g->calls[choice_idx / g->n];
        struct choice *choice = &g->choices[choice_idx];
        call->usage = view.record->usage;
        if (view.record->is_prompt) {
            buf_clear(&call->prompt_log);
            buf_append(&call->prompt_log, view.record, (size_t)view.record->n_bytes);
            if (call->prompt_log.failed) g->out.failed = true;
            continue;
        }
        choice->output_tokens = view.record->usage.output_tokens;
        if (choice->first_offset == GENERATION_NO_RECORD) {
            choice->first_offset = at;
            buf_append(list, &choice_idx, sizeof choice_idx);
        } else {
            event_log_view(&g->log, choice->last_offset).record->next_offset = at;
        }
        choice->last_offset = at;
    }
    if (list->failed) g->out.failed = true;
}

size_t generation_log_next(const struct event_view *view) {
    return view->record->next_offset ? (size_t)view->record->next_offset : GENERATION_NO_RECORD;
}

uint32_t generation_log_choice(const struct buf *list, size_t at) {
    uint32_t choice_idx;
    memcpy(&choice_idx, list->data + at, sizeof choice_idx);
    return choice_idx;
}

void generation_log_end(struct generation *g) {
    if (g->failure) {
        const char *message = NULL;
        int http = generation_failure(g, &message);
        buf_append_str(&g->out, "data: ");
        reply_write_error(&g->out, http, NULL, NULL, message);
        buf_append_str(&g->out, "\n\n");
    }
    buf_append_str(&g->out, "data: [DONE]\n\n");
}
