/* kv_log.h - the last batches, encoded, in sequence: those that wait to be published, and those
 * kept for replay.
 *
 *   first               unsent               end         sequence numbers, from 0 on
 *     |   published       |   waiting         |
 *
 * Owns: a ring of bytes and a ring of entries, both of fixed size: nothing is allocated after init.
 * Threads: the caller's lock.
 *
 * Invariants: (1) first <= unsent <= end. (2) unsent - first <= the batches kept for replay; end -
 * unsent <= the batches that may wait; where one would be exceeded, or bytes are short, the oldest
 * go. (3) A batch that had to stop waiting is counted as dropped; it may still be there for
 * replay. */
#ifndef EVENTS_KV_LOG_H
#define EVENTS_KV_LOG_H

#include "radish.h"

struct kv_log_entry {
    size_t at, n_bytes;
};

struct kv_log {
    unsigned char *bytes; /* [n_bytes] */
    size_t n_bytes;
    struct kv_log_entry *entries; /* [n_entries] by sequence number modulo n_entries */
    uint64_t n_entries;
    uint32_t n_kept_max, n_waiting_max;
    uint64_t first, unsent, end;
    size_t at; /* where the batch that was begun goes */
    uint64_t n_dropped;
};

/* E_NOMEM. */
enum radish_status kv_log_init(struct kv_log *log, size_t n_bytes, uint32_t n_kept_max,
                               uint32_t n_waiting_max,
                               struct radish_error *err) RADISH_CHECK_RESULT;
void kv_log_deinit(struct kv_log *log);

/* Room for a batch of up to n_bytes (at least 1, and at most half of the ring), which the caller
 * fills before kv_log_end(). */
unsigned char *kv_log_begin(struct kv_log *log, size_t n_bytes);
void kv_log_end(struct kv_log *log, size_t n_bytes); /* of it, n_bytes are used */

/* A batch in [first, end); borrowed until the next begin. */
const unsigned char *kv_log_get(const struct kv_log *log, uint64_t seq, size_t *n_bytes_out);

/* The batch at unsent is published. */
void kv_log_sent(struct kv_log *log);

#endif
