/* tool_reply.c - calls in the words of OpenAI's API.
 *
 * A stream tells a call in chunks that name its index: the first has id, type and name and no
 * arguments, the others have arguments and nothing else, which is the one form that every client
 * reads. A message has them whole. Both are made from the same pieces.
 *
 * Ids only have to be unlike each other; clients send them back with the tool's answer. Mistral's
 * templates refuse all but nine letters and digits, so theirs are such. */
#include "tool_reply.h"

#include "base/rng.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_id(const struct tool_reply *reply, char id[TOOL_ID_MAX]) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t random = rng_seed_from_system();
    if (reply->stream.format != TOOL_FORMAT_MISTRAL) {
        snprintf(id, TOOL_ID_MAX, "call_%016" PRIx64 "%08" PRIx64, random,
                 rng_seed_from_system() >> 32);
        return;
    }
    for (int i = 0; i < 9; i++, random /= sizeof digits - 1)
        id[i] = digits[random % (sizeof digits - 1)];
    id[9] = '\0';
}

static struct tool_piece *piece_of(struct tool_reply *reply, uint32_t call_idx) {
    if (reply->n_pieces && reply->pieces[reply->n_pieces - 1].call_idx == call_idx)
        return &reply->pieces[reply->n_pieces - 1];
    if (reply->n_pieces == reply->capacity) {
        const size_t capacity = reply->capacity ? 2 * reply->capacity : 2;
        struct tool_piece *pieces = realloc(reply->pieces, capacity * sizeof *pieces);
        if (!pieces) {
            reply->failed = true;
            return NULL;
        }
        reply->pieces = pieces;
        reply->capacity = capacity;
    }
    struct tool_piece *piece = &reply->pieces[reply->n_pieces++];
    *piece = (struct tool_piece){.call_idx = call_idx};
    buf_init(&piece->arguments, 0);
    return piece;
}

static void on_content(void *user, const char *bytes, size_t n) {
    struct tool_reply *reply = user;
    buf_append(&reply->content, bytes, n);
    reply->failed |= reply->content.failed;
}

static void on_call(void *user, uint32_t call_idx, const char *name) {
    struct tool_piece *piece = piece_of(user, call_idx);
    if (!piece) return;
    piece->is_new = true;
    make_id(user, piece->id);
    snprintf(piece->name, sizeof piece->name, "%s", name);
}

static void on_arguments(void *user, uint32_t call_idx, const char *bytes, size_t n) {
    struct tool_reply *reply = user;
    struct tool_piece *piece = piece_of(reply, call_idx);
    if (!piece) return;
    buf_append(&piece->arguments, bytes, n);
    reply->failed |= piece->arguments.failed;
}

void tool_reply_init(struct tool_reply *reply, enum tool_format format) {
    *reply = (struct tool_reply){0};
    const struct tool_sink sink = {on_content, on_call, on_arguments, reply};
    buf_init(&reply->content, 0);
    tool_stream_init(&reply->stream, format, &sink);
}

void tool_reply_clear(struct tool_reply *reply) {
    for (size_t i = 0; i < reply->n_pieces; i++) buf_deinit(&reply->pieces[i].arguments);
    reply->n_pieces = 0;
    buf_clear(&reply->content);
}

void tool_reply_deinit(struct tool_reply *reply) {
    tool_reply_clear(reply);
    free(reply->pieces);
    buf_deinit(&reply->content);
    tool_stream_deinit(&reply->stream);
}

void tool_reply_push(struct tool_reply *reply, const char *text, size_t n) {
    tool_stream_push(&reply->stream, text, n);
    reply->failed |= reply->stream.failed;
}

void tool_reply_finish(struct tool_reply *reply) {
    tool_stream_finish(&reply->stream);
    reply->failed |= reply->stream.failed;
}

bool tool_reply_has_calls(const struct tool_reply *reply) {
    return reply->stream.n_calls > 0;
}

static void write_arguments_text(const struct tool_piece *piece, struct buf *out) {
    json_out_string(out, piece->arguments.data ? piece->arguments.data : "", piece->arguments.len);
}

static void write_head(const struct tool_piece *piece, struct buf *out) {
    buf_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", piece->id);
    json_out_string(out, piece->name, strlen(piece->name));
    buf_append_str(out, ",\"arguments\":");
}

void tool_reply_write_begin(const struct tool_piece *piece, struct buf *out) {
    buf_printf(out, "{\"index\":%u,", piece->call_idx);
    write_head(piece, out);
    buf_append_str(out, "\"\"}}");
}

void tool_reply_write_arguments(const struct tool_piece *piece, struct buf *out) {
    buf_printf(out, "{\"index\":%u,\"function\":{\"arguments\":", piece->call_idx);
    write_arguments_text(piece, out);
    buf_append_str(out, "}}");
}

void tool_reply_write_calls(const struct tool_reply *reply, struct buf *out) {
    buf_append_char(out, '[');
    for (size_t i = 0; i < reply->n_pieces; i++) {
        buf_append_str(out, i ? ",{" : "{");
        write_head(&reply->pieces[i], out);
        write_arguments_text(&reply->pieces[i], out);
        buf_append_str(out, "}}");
    }
    buf_append_char(out, ']');
}
