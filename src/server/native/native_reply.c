/* native_reply.c - results of /generate.
 *
 * A result is the same object in a stream and in a whole reply:
 *
 *   {"text": ..., "output_ids": [...], "meta_info": {"id", "finish_reason", counts, logprobs}}
 *
 * and says everything from the beginning: text and lists of a stream are cumulative, so that a
 * client needs only the last chunk. That makes a stream of n tokens O(n * n) bytes, which is this
 * protocol's price; what came so far is kept as JSON and copied, and a client that lags gets fewer
 * chunks, not a longer queue. What is kept is bounded like a reply that is not streamed: past that
 * the requests are aborted and the client is told.
 *
 * Chunks of a batch carry "index", choice j of prompt p being p * n + j, which is also the order of
 * the list. */
#include "native_reply.h"

#include "base/log.h"
#include "exchange.h"
#include "generation_log.h"
#include "json_out.h"

#include <inttypes.h>
#include <string.h>

/* Adds what one record says to what is kept of its choice. */
static void keep_record(const struct radish_model *model, const struct call *call,
                        struct choice *choice, const struct event_view *view) {
    buf_append(&choice->text, view->text, (size_t)view->record->n_text_bytes);
    for (uint32_t i = 0; i < view->record->n_tokens; i++)
        buf_printf(&choice->ids, choice->ids.len ? ",%d" : "%d", view->tokens[i].id);
    if (call->asked.logprobs) native_logprobs_add(&choice->said, model, view, call->has_token_text);
}

static size_t kept_bytes(const struct choice *choice) {
    return choice->text.len + choice->ids.len + choice->said.tokens.len + choice->said.tops.len +
           choice->said.named.len;
}

/* Takes over the choice's news; returns whether a client would see any. */
static bool keep_news(struct generation *g, struct choice *choice, struct call *call) {
    const struct radish_model *model = g->ex->server->model;
    size_t n_bytes = kept_bytes(choice);
    bool has_news = false;
    if (call->prompt_log.len && !call->prompt_said.tokens.len) {
        struct event_view prompt = event_log_view(&call->prompt_log, 0);
        native_logprobs_add(&call->prompt_said, model, &prompt, call->has_token_text);
        g->said_bytes += call->prompt_said.tokens.len + call->prompt_said.tops.len;
    }
    for (size_t at = choice->first_offset; at != GENERATION_NO_RECORD;) {
        struct event_view view = event_log_view(&g->log, at);
        keep_record(model, call, choice, &view);
        has_news =
            has_news || view.record->n_tokens || view.record->n_text_bytes || view.record->finish;
        at = generation_log_next(&view);
    }
    choice->first_offset = GENERATION_NO_RECORD;
    g->said_bytes += kept_bytes(choice) - n_bytes;
    return has_news;
}

static void write_finish(const struct event_view *last, uint32_t output_tokens, struct buf *out) {
    const struct event_record *record = last->record;
    buf_append_str(out, ",\"finish_reason\":");
    switch (record->finish) {
    case RADISH_FINISH_NONE: buf_append_str(out, "null"); break;
    case RADISH_FINISH_STOP:
        buf_append_str(out, "{\"type\":\"stop\",\"matched\":");
        if (record->has_stop)
            json_out_string(out, last->stop, record->n_stop_bytes);
        else
            buf_printf(out, "%d", record->matched_token);
        buf_append_char(out, '}');
        break;
    case RADISH_FINISH_LENGTH:
        buf_printf(out, "{\"type\":\"length\",\"length\":%u}", output_tokens);
        break;
    case RADISH_FINISH_ABORT:
    case RADISH_FINISH_ERROR:
        buf_append_str(out, "{\"type\":\"abort\",\"message\":");
        json_out_string(out, radish_status_sentence(record->status),
                        strlen(radish_status_sentence(record->status)));
        buf_printf(out, ",\"status_code\":%d,\"err_type\":\"%s\"}",
                   radish_status_http(record->status), radish_status_name(record->status));
        break;
    }
}

static void write_counts(const struct generation *g, const struct call *call,
                         const struct event_record *record, struct buf *out) {
    buf_printf(out,
               ",\"prompt_tokens\":%zu,\"weight_version\":\"default\",\"total_retractions\":%u,"
               "\"completion_tokens\":%u,\"cached_tokens\":%u",
               call->n_ids, record->usage.retractions, record->usage.output_tokens,
               record->usage.cached_tokens);
    if (!record->finish) return;
    uint64_t e2e_us = record->ended_ns > g->begun_ns ? (record->ended_ns - g->begun_ns) / 1000 : 0;
    buf_printf(out, ",\"e2e_latency\":%" PRIu64 ".%06" PRIu64, e2e_us / 1000000, e2e_us % 1000000);
}

/* The result so far of a choice whose newest record is `last`. */
static void write_result(const struct generation *g, uint32_t choice_idx,
                         const struct event_view *last, struct buf *out) {
    const struct choice *choice = &g->choices[choice_idx];
    const struct call *call = &g->calls[choice_idx / g->n];
    const char *id = call->id ? call->id : g->id;
    buf_append_str(out, "{\"text\":");
    json_out_string(out, choice->text.len ? choice->text.data : "", choice->text.len);
    buf_append_str(out, ",\"output_ids\":[");
    buf_append(out, choice->ids.data, choice->ids.len);
    buf_append_str(out, "],\"meta_info\":{\"id\":");
    json_out_string(out, id, strlen(id));
    write_finish(last, choice->output_tokens, out);
    write_counts(g, call, last->record, out);
    if (call->asked.logprobs) {
        native_logprobs_write(&call->prompt_said, "input", &call->asked, out);
        native_logprobs_write(&choice->said, "output", &call->asked, out);
    }
    buf_append_char(out, '}');
    if (g->is_streamed && g->is_list) buf_printf(out, ",\"index\":%u", choice_idx);
    buf_append_char(out, '}');
    if (choice->text.failed || choice->ids.failed) out->failed = true;
}

/* Ends a stream of which more would have to be kept than a whole reply may have. */
static void check_size(struct generation *g) {
    uint64_t bytes_max = g->ex->server->options.reply_bytes_max;
    if (g->said_bytes <= bytes_max) return;
    log_warn("server",
             "%s: %zu bytes of output so far, more than %" PRIu64 ": the request is aborted",
             g->ex->path, g->said_bytes, bytes_max);
    g->is_too_large = true;
    pthread_mutex_lock(&g->ex->lock);
    if (!g->failure) g->failure = RADISH_E_LIMIT;
    pthread_mutex_unlock(&g->ex->lock);
    generation_abort(g);
}

static void write_chunks(struct generation *g) {
    struct buf list;
    buf_init(&list, 0);
    generation_log_link(g, &list);
    for (size_t at = 0; at < list.len; at += sizeof(uint32_t)) {
        uint32_t choice_idx = generation_log_choice(&list, at);
        struct choice *choice = &g->choices[choice_idx];
        if (!keep_news(g, choice, &g->calls[choice_idx / g->n])) continue;
        struct event_view last = event_log_view(&g->log, choice->last_offset);
        buf_append_str(&g->out, "data: ");
        write_result(g, choice_idx, &last, &g->out);
        buf_append_str(&g->out, "\n\n");
    }
    buf_deinit(&list);
    buf_clear(&g->log);
    check_size(g);
}

static void write_body(struct generation *g, struct buf *out) {
    struct buf list;
    buf_init(&list, 0);
    generation_log_link(g, &list);
    buf_deinit(&list);
    if (g->is_list) buf_append_char(out, '[');
    for (uint32_t i = 0; i < g->n_choices; i++) {
        struct choice *choice = &g->choices[i];
        if (i) buf_append_char(out, ',');
        keep_news(g, choice, &g->calls[i / g->n]);
        struct event_view last = event_log_view(&g->log, choice->last_offset);
        write_result(g, i, &last, out);
    }
    if (g->is_list) buf_append_char(out, ']');
    if (g->out.failed) out->failed = true;
}

const struct reply_format native_reply_format = {write_chunks, generation_log_end, write_body};
