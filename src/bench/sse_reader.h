/* sse_reader.h - server-sent events out of a stream of bytes that comes in pieces of any size.
 *
 * Owns: the event that is being read, at most SSE_EVENT_BYTES_MAX. Fails for good with E_LIMIT when
 * an event is longer or memory is exhausted, with E_ABORTED when the callback says stop. Threads:
 * one at a time. */
#ifndef BENCH_SSE_READER_H
#define BENCH_SSE_READER_H

#include "radish.h"

#include "base/buf.h"

#define SSE_EVENT_BYTES_MAX (16u << 20)

/* One event: its data lines, joined by newlines, NUL-terminated behind len. Borrowed until it
 * returns; false ends the reading. */
typedef bool (*sse_event_fn)(void *user, const char *data, size_t len);

struct sse_reader {
    struct buf line; /* begun, not ended */
    struct buf data; /* of the event so far */
    bool has_data;   /* a data line came, maybe an empty one */
    bool skips_lf;   /* the last byte was a carriage return that ended a line */
    bool is_begun;   /* the first line has been read: no byte order mark any more */
    bool is_stopped; /* by the callback, or by a failure */
    sse_event_fn on_event;
    void *user;
};

void sse_reader_init(struct sse_reader *r, sse_event_fn on_event, void *user);
void sse_reader_deinit(struct sse_reader *r);

/* The next bytes of the stream. After any other result than OK it stays that way: E_ABORTED when
 * the callback stopped it. */
enum radish_status sse_reader_feed(struct sse_reader *r, const char *bytes,
                                   size_t n) RADISH_CHECK_RESULT;

#endif
