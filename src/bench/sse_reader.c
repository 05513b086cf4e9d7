/* sse_reader.c - the event stream format of the HTML standard, as much of it as answers use.
 *
 * A stream is lines, ended by LF, CR or CR LF; an empty line ends an event; of a line "data: x" the
 * x belongs to the event, of several data lines all, with a newline between. Comments (lines that
 * begin with a colon) and other fields are passed over. An event that no empty line ends is not
 * an event.
 *
 * Pieces come as the network cuts them, inside a line, inside a CR LF, inside a character. So the
 * reader keeps the line that is begun and nothing else: bytes go to the line's buffer in runs up to
 * the next line end (memchr, not a byte at a time: a generator must be cheaper than the server it
 * measures), and a CR at the very end of a piece is remembered, so that the LF that may follow is
 * not taken for another, empty line. Splitting the whole body after it has ended would be simpler;
 * but then no time could be told for a piece.
 *
 * A server that sends one line for ever must not fill memory: line and event are bounded. */
#include "sse_reader.h"

#include <string.h>

void sse_reader_init(struct sse_reader *r, sse_event_fn on_event, void *user) {
    *r = (struct sse_reader){.on_event = on_event, .user = user};
    buf_init(&r->line, SSE_EVENT_BYTES_MAX);
    buf_init(&r->data, SSE_EVENT_BYTES_MAX);
}

void sse_reader_deinit(struct sse_reader *r) {
    buf_deinit(&r->line);
    buf_deinit(&r->data);
}

/* The event is complete. */
static bool dispatch(struct sse_reader *r) {
    bool goes_on = true;
    if (r->has_data) goes_on = r->on_event(r->user, r->data.data ? r->data.data : "", r->data.len);
    buf_clear(&r->data);
    r->has_data = false;
    return goes_on;
}

/* A whole line, without its end. */
static bool take_line(struct sse_reader *r, const char *line, size_t n) {
    if (!r->is_begun && n >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) line += 3, n -= 3;
    r->is_begun = true;
    if (!n) return dispatch(r);
    if (n < 4 || memcmp(line, "data", 4) != 0 || (n > 4 && line[4] != ':')) return true;
    size_t from = n > 4 ? 5 : 4;
    if (from < n && line[from] == ' ') from++;
    if (r->has_data) buf_append_char(&r->data, '\n');
    buf_append(&r->data, line + from, n - from);
    r->has_data = true;
    return true;
}

static size_t find_line_end(const char *bytes, size_t n) {
    const char *lf = memchr(bytes, '\n', n);
    size_t end = lf ? (size_t)(lf - bytes) : n;
    const char *cr = memchr(bytes, '\r', end);
    return cr ? (size_t)(cr - bytes) : end;
}

enum radish_status sse_reader_feed(struct sse_reader *r, const char *bytes, size_t n) {
    if (r->is_stopped) return RADISH_E_ABORTED;
    while (n) {
        if (r->skips_lf && *bytes == '\n') bytes++, n--;
        r->skips_lf = false;
        size_t len = find_line_end(bytes, n);
        bool goes_on = true;
        if (len == n || r->line.len) buf_append(&r->line, bytes, len);
        if (len < n) {
            goes_on =
                r->line.len ? take_line(r, r->line.data, r->line.len) : take_line(r, bytes, len);
            r->skips_lf = bytes[len] == '\r';
            if (!r->line.failed) buf_clear(&r->line);
            len++;
        }
        if (!goes_on || r->line.failed || r->data.failed) {
            r->is_stopped = true;
            return goes_on ? RADISH_E_LIMIT : RADISH_E_ABORTED;
        }
        bytes += len;
        n -= len;
    }
    return RADISH_OK;
}
