/* event_log.c - flat copies of events.
 *
 * The engine's thread must do as little as possible for a socket: it copies a few dozen bytes per
 * token and goes on; JSON is made by the thread that sends it. A linked list of events would cost
 * an allocation per token; the log is two bufs that swap, so after warm-up nothing is allocated. */
#include "event_log.h"

#include "base/clock.h"

#include <string.h>

static size_t padding(size_t n) {
    return (8 - n % 8) % 8;
}

static uint64_t count_logprobs(const struct radish_token *tokens, uint32_t n_tokens) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_tokens; i++) n += tokens[i].n_top + tokens[i].n_named;
    return n;
}

static void append_record(struct buf *log, struct event_record *record,
                          const struct radish_token *tokens, const char *text, const char *stop) {
    static const char zeros[8];
    uint64_t n_logprobs = count_logprobs(tokens, record->n_tokens);
    size_t n = sizeof *record + record->n_tokens * sizeof(struct event_token) +
               (size_t)n_logprobs * sizeof(struct radish_logprob) + (size_t)record->n_text_bytes +
               record->n_stop_bytes;
    record->n_logprobs = (uint32_t)n_logprobs;
    record->n_bytes = n + padding(n);
    if (!buf_reserve(log, (size_t)record->n_bytes)) {
        log->failed = true;
        return;
    }
    buf_append(log, record, sizeof *record);
    for (uint32_t i = 0; i < record->n_tokens; i++) {
        struct event_token token = {.id = tokens[i].id,
                                    .logprob = tokens[i].logprob,
                                    .n_top = tokens[i].n_top,
                                    .n_named = tokens[i].n_named,
                                    .has_logprob = tokens[i].has_logprob};
        buf_append(log, &token, sizeof token);
    }
    for (uint32_t i = 0; i < record->n_tokens; i++) {
        buf_append(log, tokens[i].top, tokens[i].n_top * sizeof(struct radish_logprob));
        buf_append(log, tokens[i].named, tokens[i].n_named * sizeof(struct radish_logprob));
    }
    buf_append(log, text, (size_t)record->n_text_bytes);
    buf_append(log, stop, record->n_stop_bytes);
    buf_append(log, zeros, padding(n));
}

void event_log_append(struct buf *log, uint32_t choice_idx, const struct radish_event *event) {
    if (event->n_prompt_tokens) {
        struct event_record prompt = {.choice_idx = choice_idx,
                                      .is_prompt = 1,
                                      .n_tokens = event->n_prompt_tokens,
                                      .matched_token = -1,
                                      .usage = event->usage};
        append_record(log, &prompt, event->prompt_tokens, "", "");
    }
    struct event_record record = {
        .choice_idx = choice_idx,
        .n_tokens = event->n_tokens,
        .n_text_bytes = event->text_len,
        .ended_ns = event->finish ? clock_ns() : 0,
        .has_stop = event->matched_stop != NULL,
        .n_stop_bytes = event->matched_stop ? (uint32_t)strlen(event->matched_stop) : 0,
        .finish = event->finish,
        .status = event->status,
        .matched_token = event->matched_token,
        .usage = event->usage};
    append_record(log, &record, event->tokens, event->text ? event->text : "",
                  event->matched_stop ? event->matched_stop : "");
}

struct event_view event_log_view(const struct buf *log, size_t offset) {
    struct event_view view;
    char *at = log->data + offset;
    view.record = (struct event_record *)(void *)at;
    at += sizeof *view.record;
    view.tokens = (const struct event_token *)(const void *)at;
    at += view.record->n_tokens * sizeof *view.tokens;
    view.logprobs = (const struct radish_logprob *)(const void *)at;
    at += view.record->n_logprobs * sizeof *view.logprobs;
    view.text = at;
    view.stop = at + view.record->n_text_bytes;
    return view;
}
