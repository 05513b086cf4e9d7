/* kv_log.c - a queue and its own history in one ring.
 *
 * The problem: batches wait for the publisher's thread, and afterwards are kept for subscribers who
 * missed some; their sizes differ a thousandfold, and the thread that makes them must neither wait
 * nor allocate. The idea: a batch is written once, into a ring of bytes, and never moves; being
 * published only moves a border.
 *
 *   bytes  | 7 | 8 |  9  |..free..| 4 |   5   | 6 |gap|     a batch lies in one piece: where the
 *                       end ^     ^ first                   rest of the ring is too short it begins
 *                                                           at 0 again
 *
 * Sequence numbers are given when a batch is written, not when it is sent: so whoever lags sees a
 * gap, and knows what to ask for.
 *
 * Cost: O(1) a batch, and for each that it pushes out. */
#include "events/kv_log.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum radish_status kv_log_init(struct kv_log *log, size_t n_bytes, uint32_t n_kept_max,
                               uint32_t n_waiting_max, struct radish_error *err) {
    *log = (struct kv_log){.n_bytes = n_bytes,
                           .n_entries = (uint64_t)n_kept_max + n_waiting_max + 1,
                           .n_kept_max = n_kept_max,
                           .n_waiting_max = n_waiting_max};
    log->bytes = mem_alloc(n_bytes, 1);
    log->entries = mem_zalloc((size_t)log->n_entries, sizeof *log->entries);
    if (log->bytes && log->entries) return RADISH_OK;
    kv_log_deinit(log);
    return error_nomem(err);
}

void kv_log_deinit(struct kv_log *log) {
    free(log->bytes);
    free(log->entries);
    *log = (struct kv_log){0};
}

static struct kv_log_entry *entry_of(const struct kv_log *log, uint64_t seq) {
    return &log->entries[seq % log->n_entries];
}

static void drop_waiting(struct kv_log *log) {
    log->unsent++;
    log->n_dropped++;
}

static void drop_first(struct kv_log *log) {
    if (log->first == log->unsent) drop_waiting(log);
    log->first++;
}

static void trim_history(struct kv_log *log) {
    while (log->unsent - log->first > log->n_kept_max) log->first++;
}

/* Where n_bytes fit now, or SIZE_MAX. */
static size_t find_room(const struct kv_log *log, size_t n_bytes) {
    if (log->first == log->end) return 0;
    const struct kv_log_entry *last = entry_of(log, log->end - 1);
    size_t begin = entry_of(log, log->first)->at, end = last->at + last->n_bytes;
    if (end <= begin) return begin - end >= n_bytes ? end : SIZE_MAX; /* it goes around */
    if (log->n_bytes - end >= n_bytes) return end;
    return begin >= n_bytes ? 0 : SIZE_MAX;
}

unsigned char *kv_log_begin(struct kv_log *log, size_t n_bytes) {
    RADISH_INVARIANT(n_bytes && n_bytes <= log->n_bytes / 2,
                     "a batch of %zu bytes in a ring of %zu", n_bytes, log->n_bytes);
    if (log->end - log->unsent == log->n_waiting_max) drop_waiting(log);
    trim_history(log);
    while ((log->at = find_room(log, n_bytes)) == SIZE_MAX) drop_first(log);
    return log->bytes + log->at;
}

void kv_log_end(struct kv_log *log, size_t n_bytes) {
    RADISH_INVARIANT(n_bytes && n_bytes <= log->n_bytes - log->at, "a batch of %zu bytes", n_bytes);
    *entry_of(log, log->end) = (struct kv_log_entry){.at = log->at, .n_bytes = n_bytes};
    log->end++;
}

const unsigned char *kv_log_get(const struct kv_log *log, uint64_t seq, size_t *n_bytes_out) {
    RADISH_INVARIANT(seq >= log->first && seq < log->end, "batch %llu is not in [%llu, %llu)",
                     (unsigned long long)seq, (unsigned long long)log->first,
                     (unsigned long long)log->end);
    const struct kv_log_entry *entry = entry_of(log, seq);
    *n_bytes_out = entry->n_bytes;
    return log->bytes + entry->at;
}

void kv_log_sent(struct kv_log *log) {
    RADISH_INVARIANT(log->unsent < log->end, "nothing waits");
    log->unsent++;
    trim_history(log);
}
