/* tool_stream.h - a model's text, as it comes, taken apart into content and tool calls.
 *
 * Owns: what it holds back: an unfinished marker, white space, a call whose name is not known yet.
 * What is told depends on the bytes alone, never on how they were cut into pieces. Threads: one at
 * a time. Failure (memory) sticks and is asked for at the end. */
#ifndef SERVER_TOOL_STREAM_H
#define SERVER_TOOL_STREAM_H

#include "base/buf.h"
#include "json_scan.h"
#include "tool_format.h"

enum { TOOL_NAME_MAX = 256, TOOL_CALLS_MAX = 128 };

/* What the text turns out to be, in order. */
struct tool_sink {
    void (*on_content)(void *user, const char *bytes, size_t n);
    void (*on_call)(void *user, uint32_t call_idx, const char *name); /* then its arguments */
    void (*on_arguments)(void *user, uint32_t call_idx, const char *bytes, size_t n);
    void *user;
};

enum tool_stream_state {
    TOOL_STREAM_TEXT,
    TOOL_STREAM_MARKER, /* behind a marker: a call, a list or a name begins */
    TOOL_STREAM_NAME,   /* mistral: a name without quotes */
    TOOL_STREAM_CALL,   /* in the object of a call, or in bare arguments */
    TOOL_STREAM_AFTER   /* behind a call */
};

struct tool_stream {
    enum tool_format format;
    enum tool_stream_state state;
    struct tool_sink sink;
    uint32_t n_calls;
    bool has_text;       /* more than white space came: a llama3 call needs a marker now */
    bool is_behind_call; /* nothing but white space came since the last call */
    size_t n_match;      /* bytes of a marker that are matched, and so held */
    struct buf space;    /* white space that may turn out to stand beside a call */
    struct buf raw;      /* from the marker on: content, should it be no call */
    bool is_list;        /* mistral: in [ ... ] */
    /* The call under way. */
    struct json_scan scan;
    bool is_bare;                        /* the object is the arguments themselves */
    bool is_told;                        /* its name is told: there is no way back */
    bool has_key;                        /* a key was read */
    uint32_t key;                        /* of the member under way */
    bool has_name;                       /* it is in `name` */
    bool in_arguments, has_arguments;    /* being read; read */
    size_t arguments_from, arguments_to; /* in raw, when they came before the name */
    char word[TOOL_NAME_MAX + 1];        /* the key or the name being read */
    size_t n_word;                       /* counts on past what fits */
    char name[TOOL_NAME_MAX + 1];
    bool failed; /* out of memory */
};

void tool_stream_init(struct tool_stream *stream, enum tool_format format,
                      const struct tool_sink *sink);
void tool_stream_deinit(struct tool_stream *stream);

void tool_stream_push(struct tool_stream *stream, const char *bytes, size_t n);

/* The text has ended: what is held is told. A call that was cut short keeps what came of it. */
void tool_stream_finish(struct tool_stream *stream);

#endif
