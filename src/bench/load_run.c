/* load_run.c - sends a workload: who may start, who has to wait, and the clock at each chunk.
 *
 *   roots, by time  ----+                    +--> stream: body, SSE reader, answer
 *                       +-- the earlier due --+       | ends
 *   children, by when --+   while fewer than          v
 *   their parent ended      n_concurrent_max      record; its children become due
 *
 * Latencies count from when a request is handed to curl, as users of a server with a bounded client
 * see it; how late that was after it was due is reported beside it, because a generator that falls
 * behind its own schedule measures something else than was asked.
 *
 * Time to first token is the first chunk with text: servers send an empty one first (a role, a
 * begin), and counting that would measure their HTTP, not their prefill. Gaps are between chunks
 * with text; load_report.c turns them into time per token where chunks carry several.
 *
 * How much of each prompt an infinite cache would have had is asked of a byte tree when the prompt
 * is sent: all that was sent before counts, answered or not, and the answers whose conversations go
 * on. A conversation is kept until its last child has been sent. */
#include "load_run.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "byte_tree.h"
#include "load_dialog.h"
#include "sse_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SENDS_MAX = 64 }; /* before the streams that run are looked after again */

/* A request under way, or answered with children still to come. */
struct stream {
    struct driver_state *state;
    uint32_t item;
    struct load_dialog dialog;
    struct buf body;
    struct sse_reader reader;
    struct load_answer answer;
    uint32_t n_children_left;
};

struct driver_state {
    struct load_target *target;
    const struct workload *workload;
    const struct load_options *options;
    struct load_run *run;
    struct stream **streams; /* [n_items] NULL: not begun, or all done */
    struct byte_tree *tree;
    struct buf url;
    uint32_t root_next; /* the first item without a parent that was not sent */
    uint32_t *children; /* [n_items] queue of items whose parent has ended */
    uint32_t children_head, children_tail;
    uint32_t *first_child; /* [n_items + 1] children of item i: child_items[first_child[i]..) */
    uint32_t *child_items; /* [n_items] */
    uint32_t n_done;
    uint64_t begin_ns;
    bool is_out_of_memory;
};

const char *load_failure_name(enum load_failure failure) {
    static const char *const names[LOAD_FAILURE_COUNT] = {"fine",   "status", "connect", "timeout",
                                                          "broken", "answer", "not sent"};
    return names[failure];
}

/* ---- chunks ---- */

static uint64_t now_ns(const struct driver_state *state) {
    return clock_ns() - state->begin_ns;
}

static void note_chunk(struct stream *stream, struct load_record *record) {
    uint64_t now = now_ns(stream->state);
    if (!record->n_chunks) {
        record->first_ns = now;
    } else {
        if (record->n_chunks > record->gaps_capacity) {
            uint32_t capacity = record->gaps_capacity ? record->gaps_capacity * 2 : 64;
            float *gaps = realloc(record->gaps_ms, capacity * sizeof *gaps);
            if (!gaps) {
                stream->state->is_out_of_memory = true;
                return;
            }
            record->gaps_ms = gaps;
            record->gaps_capacity = capacity;
        }
        record->gaps_ms[record->n_chunks - 1] = (float)((double)(now - record->last_ns) / 1e6);
    }
    record->n_chunks++;
    record->last_ns = now;
}

static bool take_event(void *user, const char *data, size_t len) {
    struct stream *stream = user;
    bool has_text;
    if (!load_answer_event(&stream->answer, data, len, &has_text)) return false;
    if (has_text) note_chunk(stream, &stream->state->run->records[stream->item]);
    return true;
}

static bool take_bytes(void *user, const char *bytes, size_t n) {
    struct stream *stream = user;
    enum radish_status status = sse_reader_feed(&stream->reader, bytes, n);
    if (status == RADISH_E_LIMIT)
        snprintf(stream->answer.error, sizeof stream->answer.error, "an event is too long");
    return status == RADISH_OK;
}

/* ---- ends ---- */

static void close_stream(struct stream *stream) {
    stream->state->streams[stream->item] = NULL;
    load_dialog_deinit(&stream->dialog);
    buf_deinit(&stream->body);
    sse_reader_deinit(&stream->reader);
    load_answer_deinit(&stream->answer);
    free(stream);
}

/* The conversation is not needed by one child any more. */
static void release_child(struct stream *stream) {
    if (!--stream->n_children_left) close_stream(stream);
}

static void set_failure(struct load_record *record, const struct stream *stream,
                        const struct http_result *result) {
    static const enum load_failure failures[] = {
        [HTTP_DONE] = LOAD_FINE,
        [HTTP_FAILED_STATUS] = LOAD_FAILED_STATUS,
        [HTTP_FAILED_CONNECT] = LOAD_FAILED_CONNECT,
        [HTTP_FAILED_TIMEOUT] = LOAD_FAILED_TIMEOUT,
        [HTTP_FAILED_BROKEN] = LOAD_FAILED_BROKEN,
        [HTTP_FAILED_STOPPED] = LOAD_FAILED_ANSWER,
    };
    const struct load_answer *answer = &stream->answer;
    record->failure = failures[result->failure];
    record->status = (int)result->status;
    if (answer->error[0]) {
        record->failure = LOAD_FAILED_ANSWER;
        snprintf(record->why, sizeof record->why, "%s", answer->error);
    } else if (record->failure != LOAD_FINE) {
        load_answer_explain(result->why, result->n_why, record->why);
    } else if (!answer->is_finished && !answer->is_done) {
        record->failure = LOAD_FAILED_BROKEN;
        snprintf(record->why, sizeof record->why, "the stream ended without its end");
    }
}

/* An item and all that would have continued it. */
static void mark_not_sent(struct driver_state *state, uint32_t item) {
    for (uint32_t i = state->first_child[item]; i < state->first_child[item + 1]; i++) {
        struct load_record *record = &state->run->records[state->child_items[i]];
        record->failure = LOAD_FAILED_NOT_SENT;
        snprintf(record->why, sizeof record->why, "the request before it failed");
        state->n_done++;
        mark_not_sent(state, state->child_items[i]);
    }
}

/* The answer becomes part of the conversation, and of what has been seen. */
static bool go_on(struct driver_state *state, struct stream *stream) {
    struct load_dialog *dialog = &stream->dialog;
    size_t n_shared;
    buf_append(&dialog->text, stream->answer.text.data, stream->answer.text.len);
    if (load_dialog_end_part(dialog) != RADISH_OK ||
        byte_tree_add(state->tree, dialog->text.data, dialog->text.len, &n_shared) != RADISH_OK)
        return false;
    buf_deinit(&stream->body);
    for (uint32_t i = state->first_child[stream->item]; i < state->first_child[stream->item + 1];
         i++) {
        state->run->records[state->child_items[i]].due_ns = now_ns(state);
        state->children[state->children_tail++] = state->child_items[i];
    }
    return true;
}

static void take_end(void *user, const struct http_result *result) {
    struct stream *stream = user;
    struct driver_state *state = stream->state;
    const struct load_answer *answer = &stream->answer;
    struct load_record *record = &state->run->records[stream->item];
    record->ended_ns = now_ns(state);
    set_failure(record, stream, result);
    record->has_prompt_tokens = answer->has_prompt_tokens;
    record->has_output_tokens = answer->has_output_tokens;
    record->has_cached_tokens = answer->has_cached_tokens;
    record->prompt_tokens = answer->prompt_tokens;
    record->output_tokens = answer->has_output_tokens ? answer->output_tokens : record->n_chunks;
    record->cached_tokens = answer->cached_tokens;
    state->n_done++;
    if (stream->n_children_left && record->failure == LOAD_FINE) {
        if (go_on(state, stream)) return;
        state->is_out_of_memory = true;
    } else if (stream->n_children_left) {
        mark_not_sent(state, stream->item);
    }
    close_stream(stream);
}

/* ---- begins ---- */

static struct stream *open_stream(struct driver_state *state, uint32_t item) {
    const struct workload_item *it = &state->workload->items[item];
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->state = state;
    stream->item = item;
    stream->n_children_left = it->n_children;
    load_dialog_init(&stream->dialog);
    buf_init(&stream->body, 0);
    sse_reader_init(&stream->reader, take_event, stream);
    load_answer_init(&stream->answer, state->target->endpoint);
    state->streams[item] = stream;
    return stream;
}

/* The text of the conversation up to here, and how much of it is known. */
static enum radish_status fill_dialog(struct driver_state *state, struct stream *stream,
                                      struct load_record *record) {
    const struct workload_item *it = &state->workload->items[stream->item];
    struct load_dialog *dialog = &stream->dialog;
    if (it->parent != WORKLOAD_NO_PARENT) {
        RADISH_TRY(load_dialog_copy(dialog, &state->streams[it->parent]->dialog));
        record->prompt_words = state->run->records[it->parent].prompt_words;
        release_child(state->streams[it->parent]);
    }
    workload_append_text(state->workload, stream->item, &dialog->text);
    RADISH_TRY(load_dialog_end_part(dialog));
    for (uint32_t i = 0; i < it->n_segments; i++)
        record->prompt_words += state->workload->segments[it->segment_first + i].n_words;
    size_t n_shared = 0;
    RADISH_TRY(byte_tree_add(state->tree, dialog->text.data, dialog->text.len, &n_shared));
    record->prompt_bytes = dialog->text.len;
    record->shared_bytes = n_shared;
    return RADISH_OK;
}

static enum radish_status send_item(struct driver_state *state, uint32_t item,
                                    struct radish_error *err) {
    const struct workload_item *it = &state->workload->items[item];
    struct load_record *record = &state->run->records[item];
    struct stream *stream = open_stream(state, item);
    if (!stream) return error_nomem(err);
    struct load_body body = {.endpoint = state->target->endpoint,
                             .model = state->target->model,
                             .output_tokens = it->output_tokens,
                             .ignores_eos = state->options->ignores_eos,
                             .streams = true,
                             .extra = state->target->extra};
    record->output_tokens_wanted = it->output_tokens;
    enum radish_status status = fill_dialog(state, stream, record);
    if (status == RADISH_OK) status = load_body_write(&body, &stream->dialog, &stream->body);
    if (status != RADISH_OK) return error_nomem(err);
    if (!stream->n_children_left) load_dialog_deinit(&stream->dialog);
    struct http_request request = {.url = state->url.data,
                                   .body = stream->body.data,
                                   .n_body = stream->body.len,
                                   .timeout_seconds = state->target->timeout_seconds,
                                   .on_bytes = take_bytes,
                                   .on_done = take_end,
                                   .user = stream};
    record->sent_ns = now_ns(state);
    return http_driver_send(state->target->driver, &request, err);
}

/* The next item that may start, and when it is due. False: none waits. */
static bool peek(struct driver_state *state, uint32_t *item_out, uint64_t *due_out) {
    const struct workload *workload = state->workload;
    while (state->root_next < workload->n_items &&
           workload->items[state->root_next].parent != WORKLOAD_NO_PARENT)
        state->root_next++;
    bool has_root = state->root_next < workload->n_items;
    bool has_child = state->children_head < state->children_tail;
    if (!has_root && !has_child) return false;
    uint32_t child = has_child ? state->children[state->children_head] : 0;
    uint64_t child_due = has_child ? state->run->records[child].due_ns : UINT64_MAX;
    uint64_t root_due = has_root ? workload->items[state->root_next].at_ns : UINT64_MAX;
    bool is_root = has_root && root_due <= child_due;
    *item_out = is_root ? state->root_next : child;
    *due_out = is_root ? root_due : child_due;
    return true;
}

/* Sends what is due. *until_out: when there may be more to send. */
static enum radish_status send_due(struct driver_state *state, uint64_t *until_out,
                                   struct radish_error *err) {
    uint32_t item, n_sent = 0;
    uint64_t due;
    *until_out = UINT64_MAX;
    while (peek(state, &item, &due)) {
        uint32_t n_max = state->options->n_concurrent_max;
        if (n_max && http_driver_n_active(state->target->driver) >= n_max) return RADISH_OK;
        if (due > now_ns(state) || n_sent++ == SENDS_MAX) {
            *until_out = state->begin_ns + due;
            return RADISH_OK;
        }
        if (state->children_head < state->children_tail &&
            state->children[state->children_head] == item)
            state->children_head++;
        else
            state->root_next++;
        state->run->records[item].due_ns = due;
        RADISH_TRY(send_item(state, item, err));
    }
    return RADISH_OK;
}

/* ---- the run ---- */

static bool index_children(struct driver_state *state) {
    const struct workload *workload = state->workload;
    uint32_t n = workload->n_items, sum = 0;
    state->first_child = mem_zalloc((size_t)n + 1, sizeof *state->first_child);
    state->child_items = mem_zalloc(n, sizeof *state->child_items);
    state->children = mem_zalloc(n, sizeof *state->children);
    uint32_t *n_found = mem_zalloc(n, sizeof *n_found);
    bool ok = state->first_child && state->child_items && state->children && n_found;
    for (uint32_t i = 0; ok && i < n; i++) {
        state->first_child[i] = sum;
        sum += workload->items[i].n_children;
    }
    if (ok) state->first_child[n] = sum;
    for (uint32_t i = 0; ok && i < n; i++) {
        uint32_t parent = workload->items[i].parent;
        if (parent != WORKLOAD_NO_PARENT)
            state->child_items[state->first_child[parent] + n_found[parent]++] = i;
    }
    free(n_found);
    return ok;
}

static bool init_state(struct driver_state *state) {
    state->streams = mem_zalloc(state->workload->n_items, sizeof *state->streams);
    state->tree = byte_tree_create();
    state->run->records = mem_zalloc(state->workload->n_items, sizeof *state->run->records);
    buf_init(&state->url, 0);
    buf_printf(&state->url, "%s%s", state->target->url,
               load_endpoint_path(state->target->endpoint));
    if (!state->streams || !state->tree || !state->run->records || state->url.failed) return false;
    state->run->n_records = state->workload->n_items;
    return index_children(state);
}

static void deinit_state(struct driver_state *state) {
    for (uint32_t i = 0; state->streams && i < state->workload->n_items; i++)
        if (state->streams[i]) close_stream(state->streams[i]);
    free(state->streams);
    free(state->first_child);
    free(state->child_items);
    free(state->children);
    byte_tree_destroy(state->tree);
    buf_deinit(&state->url);
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum radish_status drive(struct driver_state *state, struct radish_error *err) {
    struct http_driver *driver = state->target->driver;
    const struct load_options *options = state->options;
    uint32_t n_shown = 0;
    while (state->n_done < state->workload->n_items) {
        uint64_t until;
        RADISH_TRY(send_due(state, &until, err));
        if (state->n_done == state->workload->n_items) break;
        http_driver_wait(driver, until);
        if (state->is_out_of_memory) return error_nomem(err);
        if (options->on_progress && state->n_done != n_shown)
            options->on_progress(options->progress_user, state->n_done, state->workload->n_items);
        n_shown = state->n_done;
    }
    return RADISH_OK;
}

enum radish_status load_run_make(struct load_target *target, const struct workload *workload,
                                 const struct load_options *options, struct load_run *run_out,
                                 struct radish_error *err) {
    struct driver_state state = {
        .target = target, .workload = workload, .options = options, .run = run_out};
    *run_out = (struct load_run){0};
    enum radish_status status = init_state(&state) ? RADISH_OK : error_nomem(err);
    uint64_t cpu_before = cpu_ns(), first = UINT64_MAX, last = 0;
    (void)http_driver_take_turn_ns_max(target->driver);
    state.begin_ns = clock_ns();
    if (status == RADISH_OK) status = drive(&state, err);
    run_out->cpu_ns = cpu_ns() - cpu_before;
    run_out->turn_ns_max = http_driver_take_turn_ns_max(target->driver);
    for (uint32_t i = 0; i < run_out->n_records; i++) {
        const struct load_record *record = &run_out->records[i];
        if (!record->ended_ns) continue;
        if (record->sent_ns < first) first = record->sent_ns;
        if (record->ended_ns > last) last = record->ended_ns;
    }
    run_out->duration_ns = last > first ? last - first : 0;
    if (status != RADISH_OK) http_driver_stop(target->driver);
    deinit_state(&state);
    return status;
}

void load_run_deinit(struct load_run *run) {
    for (uint32_t i = 0; i < run->n_records; i++) free(run->records[i].gaps_ms);
    free(run->records);
    *run = (struct load_run){0};
}
