/* detok_stream.c - a decoder's state that outlives the call.
 *
 * Others decode a window of ids twice, before and after the new one, and hope that the texts share
 * a prefix. Here decoding is a stream to begin with (decoder.c), so a new token is one push. The
 * prompt is pushed through first, its text dropped: what it leaves in the state (half a character,
 * a run of byte tokens, "not at the start") is what the output continues.
 *
 *   decode(prompt):            settled | tail          tail: what the end of the prompt would give
 *   decode(prompt + output):   settled | rest          rest: what the pushes give
 *
 * Of the rest, what it shares with the tail has been shown with the prompt: it is dropped, a
 * character at a time, as the pushes give it. The tail is short: it comes from what a decoder
 * holds. Where rest and tail part ways (the prompt ended in half a character, U+FFFD in the tail,
 * which the output completes) the rest is given whole from there.
 *
 * Byte-level decoders remember nothing older than one character, so for them the last few tokens
 * of the prompt are enough. */
#include "detok_stream.h"

#include "base/status.h"
#include "base/utf8.h"
#include "tokenizer_int.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT_BYTES = 4 }; /* the longest character */

struct detok_stream {
    const struct tokenizer *tokenizer;
    struct decoder_state state;
    bool skip_special;
    int32_t shown_ids[DETOK_SHOWN_MAX]; /* [n_shown] special ones that are not skipped */
    size_t n_shown;
    struct buf tail;  /* what the end of the prompt would give */
    size_t n_tail;    /* of it, how much the output has repeated so far */
    struct buf piece; /* what a push gives, while the tail is not done with */
};

static bool has_tail(const struct detok_stream *s) {
    return s->n_tail < s->tail.len;
}

static bool is_shown(const struct detok_stream *s, int32_t id) {
    if (!tokenizer_has_id(s->tokenizer, id)) return false;
    if (!s->skip_special || !tokenizer_is_special(s->tokenizer, id)) return true;
    for (size_t i = 0; i < s->n_shown; i++)
        if (s->shown_ids[i] == id) return true;
    return false;
}

/* Where in the prompt to start: whatever lies before does not change the state. */
static size_t context_start(const struct detok_stream *s, const int32_t *prompt, size_t n) {
    size_t n_bytes = 0, len;
    if (!decoder_is_byte_level(s->tokenizer->decoder)) return 0;
    while (n && n_bytes < CONTEXT_BYTES) {
        n--;
        if (is_shown(s, prompt[n]) && tokenizer_token_bytes(s->tokenizer, prompt[n], &len))
            n_bytes += len;
    }
    return n;
}

/* Pushes the prompt, drops its text, and finds out what its end would give. */
static bool push_prompt(struct detok_stream *s, const int32_t *prompt, size_t n) {
    struct buf dropped = {0};
    struct decoder_state at_end;
    bool is_ok = true;
    for (size_t i = context_start(s, prompt, n); i < n; i++) {
        if (is_shown(s, prompt[i]))
            tokenizer_push_token(s->tokenizer, &s->state, prompt[i], &dropped);
        is_ok &= !dropped.failed;
        buf_clear(&dropped);
    }
    buf_deinit(&dropped);
    is_ok &= decoder_state_copy(&s->state, &at_end);
    decoder_finish(s->tokenizer->decoder, &at_end, &s->tail);
    decoder_state_deinit(&at_end);
    return is_ok && !s->tail.failed;
}

enum radish_status detok_stream_create(const struct tokenizer *tokenizer, const int32_t *prompt,
                                       size_t n_prompt, bool skip_special,
                                       struct detok_stream **stream_out, struct radish_error *err) {
    *stream_out = NULL;
    struct detok_stream *s = calloc(1, sizeof *s);
    if (!s) return error_nomem(err);
    s->tokenizer = tokenizer;
    s->skip_special = skip_special;
    decoder_start(&s->state);
    size_t token_bytes = tokenizer_token_bytes_max(tokenizer);
    if (!decoder_state_reserve(tokenizer->decoder, &s->state, token_bytes) ||
        !push_prompt(s, prompt, n_prompt) ||
        (has_tail(s) && !buf_reserve(&s->piece, s->tail.len + 2 * token_bytes))) {
        detok_stream_destroy(s);
        return error_nomem(err);
    }
    *stream_out = s;
    return RADISH_OK;
}

void detok_stream_show(struct detok_stream *s, const int32_t *ids, size_t n) {
    memcpy(s->shown_ids, ids, n * sizeof *ids);
    s->n_shown = n;
}

void detok_stream_destroy(struct detok_stream *s) {
    if (!s) return;
    decoder_state_deinit(&s->state);
    buf_deinit(&s->tail);
    buf_deinit(&s->piece);
    free(s);
}

/* Appends s->piece but for what it shares with the tail. */
static void give_piece(struct detok_stream *s, struct buf *out) {
    const struct buf *piece = &s->piece;
    size_t at = 0, len;
    uint32_t c;
    for (; at < piece->len && has_tail(s); at += len, s->n_tail += len) {
        len = utf8_decode(piece->data + at, piece->len - at, &c);
        if (len > s->tail.len - s->n_tail ||
            memcmp(piece->data + at, s->tail.data + s->n_tail, len) != 0) {
            s->n_tail = s->tail.len;
            break;
        }
    }
    if (piece->failed) out->failed = true;
    if (at < piece->len) buf_append(out, piece->data + at, piece->len - at);
    buf_clear(&s->piece);
}

void detok_stream_push(struct detok_stream *s, int32_t id, struct buf *out) {
    if (!is_shown(s, id)) return;
    bool is_compared = has_tail(s);
    tokenizer_push_token(s->tokenizer, &s->state, id, is_compared ? &s->piece : out);
    if (is_compared) give_piece(s, out);
}

void detok_stream_finish(struct detok_stream *s, struct buf *out) {
    bool is_compared = has_tail(s);
    decoder_finish(s->tokenizer->decoder, &s->state, is_compared ? &s->piece : out);
    if (is_compared) give_piece(s, out);
    s->n_tail = s->tail.len;
}
