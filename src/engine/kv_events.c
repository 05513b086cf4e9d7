/* kv_events.c - changes of the tree, one by one, become batches of events.
 *
 * The problem: the tree tells of every page in the middle of its own work, on the path of a step
 * that allocates nothing; who listens wants few calls, at moments when the step's streams have been
 * served. The idea: three arrays of fixed size, filled from the front, and one call at the end of
 * the step:
 *
 *   events  | CLEARED | STORED 1 | STORED 1 | REMOVED 3 |         pointers into what follows
 *   hashes            | h        | h        | h h h     |
 *   tokens            | a page   | a page   |
 *
 * Pages that are stored stay apart, one event each, which is how SGLang tells it; pages that are
 * removed one after the other share an event. When an array is full the batch goes early, so
 * nothing is lost and nothing grows; a batch is never empty.
 *
 * The first batch begins with CLEARED: whoever has followed an earlier process at the same address
 * forgets what that one had. Seeds of namespaces are made from their names, which are the engine's:
 * the tree knows numbers, and asks here once for each prompt that begins in a namespace anew. */
#include "engine/kv_events.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 1 << 16 }; /* of a batch, or of sixteen pages */

static uint32_t tokens_max(const struct radish_engine_options *options) {
    return options->page_tokens > TOKENS_MAX / 16 ? options->page_tokens * 16 : TOKENS_MAX;
}

uint64_t kv_events_bytes(const struct radish_engine_options *options) {
    if (!options->on_kv_events) return 0;
    return KV_EVENTS_MAX * (sizeof(struct radish_kv_event) + sizeof(int64_t)) +
           tokens_max(options) * sizeof(int32_t);
}

/* The next event of the batch, whose n_hashes hashes and tokens come next. */
static struct radish_kv_event *add_event(struct kv_events *e, enum radish_kv_event_kind kind) {
    struct radish_kv_event *event = &e->events[e->n_events++];
    *event = (struct radish_kv_event){.kind = kind, .hashes = e->hashes + e->n_hashes};
    return event;
}

static void add_change(void *user, const struct radix_change *change) {
    struct kv_events *e = user;
    RADISH_INVARIANT(change->n_tokens <= e->n_tokens_max, "a page of %u tokens", change->n_tokens);
    if (e->n_events == KV_EVENTS_MAX || e->n_hashes == KV_EVENTS_MAX ||
        e->n_tokens + change->n_tokens > e->n_tokens_max)
        kv_events_send(e);
    e->has_news = true;
    struct radish_kv_event *last = e->n_events ? &e->events[e->n_events - 1] : NULL;
    switch (change->kind) {
    case RADIX_CHANGE_STORED:
        last = add_event(e, RADISH_KV_STORED);
        last->has_parent = change->has_parent;
        last->parent = change->parent;
        last->tokens = e->tokens + e->n_tokens;
        last->n_tokens = last->block_tokens = change->n_tokens;
        memcpy(e->tokens + e->n_tokens, change->tokens, change->n_tokens * sizeof *e->tokens);
        e->n_tokens += change->n_tokens;
        break;
    case RADIX_CHANGE_REMOVED:
        if (!last || last->kind != RADISH_KV_REMOVED) last = add_event(e, RADISH_KV_REMOVED);
        break;
    case RADIX_CHANGE_CLEARED: add_event(e, RADISH_KV_CLEARED); return;
    }
    e->hashes[e->n_hashes++] = change->hash;
    last->n_hashes++;
}

static size_t copy_name(void *user, uint32_t namespace_id, char name_out[RADISH_NAMESPACE_MAX]) {
    struct kv_events *e = user;
    pthread_mutex_lock(e->lock);
    size_t len = namespaces_copy(e->names, namespace_id, name_out);
    pthread_mutex_unlock(e->lock);
    return len;
}

enum radish_status kv_events_init(struct kv_events *e, const struct radish_engine_options *options,
                                  pthread_mutex_t *lock, const struct namespaces *names,
                                  struct radish_error *err) {
    *e = (struct kv_events){0};
    if (!options->on_kv_events) return RADISH_OK;
    e->lock = lock;
    e->names = names;
    e->user = options->kv_events_user;
    e->n_tokens_max = tokens_max(options);
    e->events = mem_zalloc(KV_EVENTS_MAX, sizeof *e->events);
    e->hashes = mem_zalloc(KV_EVENTS_MAX, sizeof *e->hashes);
    e->tokens = mem_zalloc(e->n_tokens_max, sizeof *e->tokens);
    if (!e->events || !e->hashes || !e->tokens) return error_nomem(err);
    e->on_events = options->on_kv_events;
    add_event(e, RADISH_KV_CLEARED);
    return RADISH_OK;
}

void kv_events_deinit(struct kv_events *e) {
    free(e->events);
    free(e->hashes);
    free(e->tokens);
    *e = (struct kv_events){0};
}

struct radix_sink kv_events_sink(struct kv_events *e) {
    return (struct radix_sink){.on_change = add_change, .copy_name = copy_name, .user = e};
}

void kv_events_send(struct kv_events *e) {
    if (!e->has_news) return;
    e->on_events(e->user, e->events, e->n_events);
    e->n_events = e->n_hashes = e->n_tokens = 0;
    e->has_news = false;
}
