/* generation.c - the bridge between an exchange and the engine.
 *
 * The engine calls back on its own thread and must never wait for a socket. So a callback copies
 * the event into a buf under the exchange's lock, wakes the connection if it sleeps, and returns;
 * a client that reads slowly only makes its own buf longer. How long is bounded: a client that is
 * megabytes behind is not reading, and its requests are aborted, so that it holds no KV slots.
 *
 * Lifetime: every submitted call holds a reference to the exchange until its last choice has
 * finished; the engine promises that end for every request. Submitting several calls can fail
 * half-way; then the submitted ones are aborted and their events go nowhere. */
#include "generation.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "exchange.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *make_id(const char *prefix, const char *rid) {
    struct buf id;
    buf_init(&id, 0);
    if (rid)
        buf_append_str(&id, rid);
    else
        buf_printf(&id, "%s-%016" PRIx64 "%08" PRIx64, prefix, rng_seed_from_system(),
                   rng_seed_from_system() >> 32);
    return buf_take(&id, &(size_t){0});
}

static char *make_head(struct exchange *ex, enum api_shape shape, const char *id,
                       bool is_streamed) {
    struct buf head;
    if (!id) return NULL;
    buf_init(&head, 0);
    json_out_key(&head, "id");
    json_out_string(&head, id, strlen(id));
    const char *object = shape == API_COMPLETIONS ? "text_completion"
                         : is_streamed            ? "chat.completion.chunk"
                                                  : "chat.completion";
    buf_printf(&head, ",\"object\":\"%s\",\"created\":%lld,\"model\":", object,
               (long long)time(NULL));
    json_out_string(&head, ex->server->served_name, strlen(ex->server->served_name));
    buf_append_char(&head, ',');
    return buf_take(&head, &(size_t){0});
}

struct generation *generation_create(struct exchange *ex, const struct reply_format *format,
                                     enum api_shape shape, const struct openai_params *params,
                                     size_t n_calls) {
    static const char *const prefixes[] = {
        [API_CHAT] = "chatcmpl", [API_COMPLETIONS] = "cmpl", [API_GENERATE] = "gen"};
    struct generation *g = mem_zalloc(1, sizeof *g);
    if (!g) return NULL;
    g->ex = ex;
    g->format = format;
    g->shape = shape;
    g->begun_ns = clock_ns();
    g->is_streamed = params->is_streamed;
    g->has_usage_chunk = params->has_usage_chunk;
    g->has_usage_in_chunks = params->has_usage_in_chunks;
    g->has_logprobs = params->request.logprobs;
    g->has_specials = params->request.keep_special_tokens;
    g->n = params->request.n;
    g->n_calls = (uint32_t)n_calls;
    g->n_choices = g->n * g->n_calls;
    g->n_choices_left = g->n_choices;
    g->calls = mem_zalloc(n_calls, sizeof *g->calls);
    g->choices = mem_zalloc(g->n_choices, sizeof *g->choices);
    g->id = make_id(prefixes[shape], params->rid);
    bool has_head = shape != API_GENERATE;
    if (has_head) g->head = make_head(ex, shape, g->id, params->is_streamed);
    if (!g->calls || !g->choices || !g->id || (has_head && !g->head)) {
        generation_destroy(g);
        return NULL;
    }
    for (uint32_t i = 0; i < g->n_calls; i++) {
        g->calls[i].generation = g;
        g->calls[i].asked = params->request;
        g->calls[i].first_choice_idx = i * g->n;
        g->calls[i].n_choices_left = g->n;
    }
    for (uint32_t i = 0; i < g->n_choices; i++) g->choices[i].first_offset = GENERATION_NO_RECORD;
    return g;
}

void generation_destroy(struct generation *g) {
    if (!g) return;
    for (uint32_t i = 0; g->calls && i < g->n_calls; i++) {
        radish_free(g->calls[i].ids);
        radish_free(g->calls[i].echo_text);
        free(g->calls[i].id);
        buf_deinit(&g->calls[i].prompt_log);
        native_logprobs_deinit(&g->calls[i].prompt_said);
    }
    for (uint32_t i = 0; g->choices && i < g->n_choices; i++) {
        buf_deinit(&g->choices[i].text);
        buf_deinit(&g->choices[i].ids);
        native_logprobs_deinit(&g->choices[i].said);
    }
    for (uint32_t i = 0; g->tool_replies && i < g->n_choices; i++)
        tool_reply_deinit(&g->tool_replies[i]);
    free(g->tool_replies);
    free(g->calls);
    free(g->choices);
    free(g->id);
    free(g->head);
    buf_deinit(&g->pending);
    buf_deinit(&g->log);
    buf_deinit(&g->out);
    free(g);
}

bool generation_read_tools(struct generation *g) {
    const struct server *server = g->ex->server;
    if (!server->tool_format) return true;
    g->tool_replies = mem_zalloc(g->n_choices, sizeof *g->tool_replies);
    if (!g->tool_replies) return false;
    for (uint32_t i = 0; i < g->n_choices; i++)
        tool_reply_init(&g->tool_replies[i], server->tool_format);
    for (uint32_t i = 0; i < g->n_calls; i++) {
        g->calls[i].asked.shown_ids = server->tool_marker_ids;
        g->calls[i].asked.n_shown_ids = server->n_tool_markers;
    }
    return true;
}

static void abort_call(struct call *call) {
    struct exchange *ex = call->generation->ex;
    pthread_mutex_lock(&ex->lock);
    bool runs = call->is_submitted && call->n_choices_left;
    uint64_t request = call->request;
    pthread_mutex_unlock(&ex->lock);
    if (runs) radish_engine_abort(ex->server->engine, request);
}

void generation_abort(struct generation *g) {
    pthread_mutex_lock(&g->ex->lock);
    g->is_abort_wanted = true;
    pthread_mutex_unlock(&g->ex->lock);
    for (uint32_t i = 0; i < g->n_calls; i++) abort_call(&g->calls[i]);
}

/* id NULL: whatever it is called. */
static bool abort_named(struct generation *g, const char *id) {
    bool is_all = !id || !strcmp(id, g->id), has_any = false;
    pthread_mutex_lock(&g->ex->lock);
    if (is_all) g->is_abort_wanted = true;
    pthread_mutex_unlock(&g->ex->lock);
    for (uint32_t i = 0; i < g->n_calls; i++) {
        struct call *call = &g->calls[i];
        if (!is_all && (!call->id || strcmp(id, call->id) != 0)) continue;
        pthread_mutex_lock(&g->ex->lock);
        bool runs = call->n_choices_left;
        call->is_abort_asked = call->is_abort_asked || runs;
        pthread_mutex_unlock(&g->ex->lock);
        if (runs) abort_call(call);
        has_any = has_any || runs;
    }
    return has_any;
}

bool generation_abort_id(struct generation *g, const char *id) {
    return abort_named(g, id);
}

bool generation_abort_all(struct generation *g) {
    return abort_named(g, NULL);
}

/* Keeps the event, or says why not. With the exchange's lock held. */
static enum radish_status keep_event(struct generation *g, uint32_t choice_idx,
                                     const struct radish_event *event) {
    const struct server_options *options = &g->ex->server->options;
    uint64_t bytes_max = g->is_streamed ? options->stream_bytes_max : options->reply_bytes_max;
    if (g->pending.len > bytes_max) {
        log_warn("server",
                 "%s: %zu bytes of output wait for the client, more than %" PRIu64
                 ": the request is aborted",
                 g->ex->path, g->pending.len, bytes_max);
        return RADISH_E_LIMIT;
    }
    event_log_append(&g->pending, choice_idx, event);
    return g->pending.failed ? RADISH_E_NOMEM : RADISH_OK;
}

/* What this event says about the whole reply, besides its tokens. With the lock held. */
static enum radish_status find_failure(struct generation *g, const struct call *call,
                                       const struct radish_event *event) {
    if (event->n_tokens || event->text_len || event->n_prompt_tokens) g->has_tokens = true;
    if (event->finish == RADISH_FINISH_ERROR)
        return event->status ? event->status : RADISH_E_INTERNAL;
    /* Aborted before it gave anything, in the queue for instance: there is no answer to end. */
    if (event->finish == RADISH_FINISH_ABORT && !g->has_tokens && !call->is_abort_asked)
        return event->status ? event->status : RADISH_E_ABORTED;
    return RADISH_OK;
}

/* Whether the connection has something to do now. With the lock held. */
static bool is_time_to_wake(struct generation *g, const struct radish_event *event, bool is_first) {
    if (!g->is_streamed) return !g->n_choices_left || g->failure;
    g->n_tokens_unsent += event->n_tokens;
    return is_first || event->finish || g->failure || event->n_prompt_tokens ||
           g->n_tokens_unsent >= g->ex->server->options.stream_interval;
}

static void on_event(void *user, const struct radish_event *event) {
    struct call *call = user;
    struct generation *g = call->generation;
    struct exchange *ex = g->ex;
    bool must_abort = false, is_last = false;
    pthread_mutex_lock(&ex->lock);
    bool is_first = !g->has_event;
    g->has_event = true;
    if (!ex->is_gone && !g->failure) {
        enum radish_status failure = find_failure(g, call, event);
        if (!failure) failure = keep_event(g, call->first_choice_idx + event->choice_idx, event);
        g->failure = failure;
        must_abort = failure != RADISH_OK;
    }
    if (event->finish) {
        g->n_choices_left--;
        is_last = !--call->n_choices_left;
    }
    if (is_time_to_wake(g, event, is_first)) {
        g->n_tokens_unsent = 0;
        g->is_due = true;
        ex->is_output_ready = true;
        exchange_wake(ex);
    }
    pthread_mutex_unlock(&ex->lock);
    if (must_abort) {
        generation_abort(g);
        if (!is_last) radish_engine_abort(ex->server->engine, event->request);
    }
    if (is_last) exchange_unref(ex);
}

/* Submits one call; afterwards its abort works from any thread. */
static enum radish_status submit(struct call *call, struct radish_error *err) {
    struct radish_request *request = &call->asked;
    struct generation *g = call->generation;
    struct exchange *ex = g->ex;
    uint64_t id = 0;
    request->prompt = call->ids;
    request->n_prompt = call->n_ids;
    request->on_event = on_event;
    request->user = call;
    request->is_streamed = g->is_streamed;
    exchange_ref(ex);
    enum radish_status status = radish_engine_submit(ex->server->engine, request, &id, err);
    radish_free(call->ids);
    call->ids = NULL;
    if (status) {
        exchange_unref(ex);
        return status;
    }
    pthread_mutex_lock(&ex->lock);
    call->request = id;
    call->is_submitted = true;
    bool must_abort =
        (g->is_abort_wanted || call->is_abort_asked || ex->is_gone) && call->n_choices_left;
    pthread_mutex_unlock(&ex->lock);
    if (must_abort) radish_engine_abort(ex->server->engine, id);
    return RADISH_OK;
}

enum radish_status generation_start(struct generation *g, struct radish_error *err) {
    struct exchange *ex = g->ex;
    enum radish_status status = RADISH_OK;
    pthread_mutex_lock(&ex->lock);
    ex->generation = g;
    pthread_mutex_unlock(&ex->lock);
    for (uint32_t i = 0; i < g->n_calls && !status; i++) status = submit(&g->calls[i], err);
    if (!status) return RADISH_OK;
    pthread_mutex_lock(&ex->lock);
    if (!g->failure) g->failure = status;
    pthread_mutex_unlock(&ex->lock);
    generation_abort(g);
    return status;
}

int generation_failure(const struct generation *g, const char **message_out) {
    int http = radish_status_http(g->failure);
    *message_out = radish_status_sentence(g->failure);
    if (g->failure == RADISH_E_LIMIT)
        *message_out = g->is_streamed && !g->is_too_large
                           ? "the client reads too slowly: too much output is waiting for it"
                           : "the reply is too large to be gathered: stream it, or ask for less";
    if (g->failure == RADISH_E_INTERNAL)
        *message_out = "computing this request failed: the server's log says more";
    if (g->failure == RADISH_E_ABORTED) {
        http = 503;
        *message_out = "the server is stopping";
    }
    return http;
}
