/* event_log.h - copies of engine events in one buf, on their way from the engine's thread to the
 * thread that formats the reply.
 *
 * An event's pointers die when its callback returns. event_log_append() copies what matters: one
 * record for the prompt's logprobs, if there, and one for the output. Records are 8-aligned:
 *
 *   record | tokens[n_tokens] | logprobs[n_logprobs] | text[n_text_bytes] | stop[n_stop_bytes] |
 *   padding
 *
 * Threads: one at a time. Failure (memory) sticks in the buf; a record is whole or absent. */
#ifndef SERVER_EVENT_LOG_H
#define SERVER_EVENT_LOG_H

#include "base/buf.h"

struct event_token {
    int32_t id;
    float logprob;
    uint32_t n_top, n_named;
    uint32_t has_logprob;
};

struct event_record {
    uint64_t n_bytes;     /* of the whole record: the next one begins here */
    uint64_t next_offset; /* of the same choice's next record; for event_log readers, 0 at first */
    uint32_t choice_idx;
    uint32_t is_prompt; /* tokens are the prompt's; everything else is empty */
    uint32_t n_tokens;
    uint32_t n_logprobs;
    uint64_t n_text_bytes;
    uint64_t ended_ns; /* clock_ns() of a final event, else 0 */
    uint32_t n_stop_bytes;
    uint32_t has_stop;
    enum radish_finish finish;
    enum radish_status status;
    int32_t matched_token;
    struct radish_usage usage;
};

struct event_view {
    struct event_record *record;
    const struct event_token *tokens;      /* [n_tokens] */
    const struct radish_logprob *logprobs; /* [n_logprobs] of all tokens, one after the other: its
                                              n_top best ones, then the n_named that were named */
    const char *text;                      /* [n_text_bytes] */
    const char *stop;                      /* [n_stop_bytes] */
};

/* choice_idx: the caller's number for this choice, in place of the event's own. */
void event_log_append(struct buf *log, uint32_t choice_idx, const struct radish_event *event);

/* The record at offset; offset < log->len. Borrowed until the log changes. */
struct event_view event_log_view(const struct buf *log, size_t offset);

#endif
