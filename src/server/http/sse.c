/* sse.c - pulling a stream instead of pushing it.
 *
 * libmicrohttpd asks for bytes whenever the socket takes some. If there are events, they are taken
 * over in one swap, formatted, and handed out as fast as the client reads; if there are none, the
 * connection is suspended and costs nothing until the engine's thread wakes it. So a thousand
 * streams need no thousand threads, a slow reader keeps only its own events waiting, and the
 * engine's thread never formats JSON. */
#include "sse.h"

#include "exchange.h"
#include "generation.h"

#include <string.h>

/* What libmicrohttpd may take at once. */
enum { BLOCK_BYTES = 16 * 1024 };

enum take { TAKE_EVENTS, TAKE_END, TAKE_NOTHING, TAKE_GONE };

/* Moves the pending events to g->log, or says what else there is to do. */
static enum take take_events(struct exchange *ex) {
    struct generation *g = ex->generation;
    enum take take = TAKE_NOTHING;
    pthread_mutex_lock(&ex->lock);
    if (ex->is_gone || atomic_load(&ex->server->is_closing)) {
        take = TAKE_GONE;
    } else if (g->pending.len && (g->is_due || !g->n_choices_left || g->failure)) {
        g->is_due = false;
        struct buf taken = g->pending;
        g->pending = g->log;
        g->log = taken;
        take = TAKE_EVENTS;
    } else if (!g->n_choices_left || g->failure) {
        take = TAKE_END;
    } else {
        ex->is_suspended = true;
        MHD_suspend_connection(ex->connection);
    }
    pthread_mutex_unlock(&ex->lock);
    return take;
}

static ssize_t send_waiting(struct generation *g, char *to, size_t bytes_max) {
    size_t n = g->out.len - g->out_sent;
    if (n > bytes_max) n = bytes_max;
    memcpy(to, g->out.data + g->out_sent, n);
    g->out_sent += n;
    if (g->out_sent == g->out.len) {
        buf_clear(&g->out);
        g->out_sent = 0;
    }
    return (ssize_t)n;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t bytes_max) {
    struct exchange *ex = cls;
    struct generation *g = ex->generation;
    (void)pos;
    for (;;) {
        if (g->out.failed) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (g->out.len) return send_waiting(g, to, bytes_max);
        if (g->is_ended) return MHD_CONTENT_READER_END_OF_STREAM;
        switch (take_events(ex)) {
        case TAKE_EVENTS: g->format->write_chunks(g); break;
        case TAKE_END:
            g->format->write_end(g);
            g->is_ended = true;
            break;
        case TAKE_NOTHING: return 0;
        case TAKE_GONE: return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
}

struct MHD_Response *sse_response_create(struct exchange *ex) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, ex, NULL);
    if (!response) return NULL;
    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* nginx: pass chunks at once */
    return response;
}
