/* kv_events.h - what joins and leaves the prefix cache, gathered for the caller of the engine, a
 * batch a step.
 *
 * Owns: the batch. Caller keeps: the lock and the namespaces, for as long as this lives. Threads:
 * the engine's. Nothing is allocated after init. */
#ifndef ENGINE_KV_EVENTS_H
#define ENGINE_KV_EVENTS_H

#include "radish_report.h"

#include "cache/radix_events.h"
#include "engine/namespace.h"

#include <pthread.h>

struct kv_events {
    void (*on_events)(void *user, const struct radish_kv_event *events, size_t n); /* NULL: off */
    void *user;
    pthread_mutex_t *lock; /* borrowed: guards names */
    const struct namespaces *names;
    struct radish_kv_event *events; /* [KV_EVENTS_MAX], n_events of them wait */
    int64_t *hashes;                /* [KV_EVENTS_MAX] */
    int32_t *tokens;                /* [n_tokens_max] */
    uint32_t n_events, n_hashes, n_tokens, n_tokens_max;
    bool has_news; /* more than CLEARED of the start, which waits for it */
};

#define KV_EVENTS_MAX 4096 /* hashes in a batch: more are told in several */

/* options->on_kv_events NULL: everything below does nothing. The first batch begins with CLEARED.
 * E_NOMEM. */
enum radish_status kv_events_init(struct kv_events *e, const struct radish_engine_options *options,
                                  pthread_mutex_t *lock, const struct namespaces *names,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void kv_events_deinit(struct kv_events *e);
uint64_t kv_events_bytes(const struct radish_engine_options *options); /* its memory */

/* For the cache. */
struct radix_sink kv_events_sink(struct kv_events *e);

/* Hands over what has come together, at the end of a step. */
void kv_events_send(struct kv_events *e);

#endif
