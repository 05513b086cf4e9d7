/* tool_reply.h - one choice's content and tool calls, gathered for a chunk or for the whole
 * message.
 *
 * Owns: what was gathered. Threads: one at a time. Failure (memory) sticks in `failed`. */
#ifndef SERVER_TOOL_REPLY_H
#define SERVER_TOOL_REPLY_H

#include "tool_stream.h"

enum { TOOL_ID_MAX = 40 };

/* What came of one call since the last tool_reply_clear(). */
struct tool_piece {
    uint32_t call_idx;
    bool is_new; /* its name has just come: id and name are set */
    char id[TOOL_ID_MAX];
    char name[TOOL_NAME_MAX + 1];
    struct buf arguments; /* the JSON text, or a piece of it */
};

struct tool_reply {
    struct tool_stream stream;
    struct buf content;
    struct tool_piece *pieces; /* [n_pieces] by call_idx */
    size_t n_pieces, capacity;
    bool failed;
};

void tool_reply_init(struct tool_reply *reply, enum tool_format format);
void tool_reply_deinit(struct tool_reply *reply);

void tool_reply_push(struct tool_reply *reply, const char *text, size_t n);
void tool_reply_finish(struct tool_reply *reply);

/* Forgets content and pieces; calls go on. */
void tool_reply_clear(struct tool_reply *reply);

/* Whether there has been any call. */
bool tool_reply_has_calls(const struct tool_reply *reply);

/* {"index":0,"id":...,"type":"function","function":{"name":...,"arguments":""}}, as a stream begins
 * a call, and {"index":0,"function":{"arguments":...}}, as it goes on. */
void tool_reply_write_begin(const struct tool_piece *piece, struct buf *out);
void tool_reply_write_arguments(const struct tool_piece *piece, struct buf *out);

/* [{"id":...,"type":"function","function":{"name":...,"arguments":...}}, ...] of a message. */
void tool_reply_write_calls(const struct tool_reply *reply, struct buf *out);

#endif
