/* kv_publisher.h - KV events to whoever subscribes, over ZeroMQ, with replay of what was missed.
 *
 *   PUB     topic | sequence number, 8 bytes, big end first | batch (kv_wire.h)
 *   ROUTER  asked  empty | first number wanted, 8 bytes
 *           says   empty | number | batch, for each that is kept, and at the end empty | -1 | empty
 *
 * Owns: two sockets, a thread, the last batches. Threads: push from one thread at a time; open and
 * close from any. push allocates nothing and waits for nobody: what cannot be published in time is
 * dropped, oldest first, and counted; numbers then jump. */
#ifndef EVENTS_KV_PUBLISHER_H
#define EVENTS_KV_PUBLISHER_H

#include "radish_report.h"

#include "events/kv_config.h"

struct kv_publisher;

struct kv_publisher_stats {
    uint64_t n_batches, n_dropped; /* pushed; and given up before they were published */
};

/* config->is_published must be set; nothing of it is kept. E_INVALID: an endpoint that is none;
 * E_IO: it cannot be bound; E_NOMEM. */
enum radish_status kv_publisher_open(const struct kv_config *config,
                                     struct kv_publisher **publisher_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

/* As on_kv_events of struct radish_engine_options wants it: `publisher` is the user pointer. */
void kv_publisher_push(void *publisher, const struct radish_kv_event *events, size_t n);

void kv_publisher_stats(struct kv_publisher *publisher, struct kv_publisher_stats *stats_out);

/* Publishes what waits, for about two seconds at most, and ends. NULL is fine. */
void kv_publisher_close(struct kv_publisher *publisher);

#endif
