/* detok_stream.c - a decoder's state that outlives the call.
 *
 * Others decode a window of ids twice, before and after the new one, and hope that the texts share
 * a prefix. Here decoding is a stream to begin with (decoder.c), so a new token is one push. The
 * prompt is pushed through first, its text dropped: what it leaves in the state (half a character,
 * "not at the start") is what the output continues. Byte-level decoders remember nothing older than
 * one character, so for them the last few tokens of the prompt are enough. */
#include "detok_stream.h"

#include "base/status.h"
#include "tokenizer_int.h"

#include <stdlib.h>

enum { CONTEXT_BYTES = 4 }; /* the longest character */

struct detok_stream {
    const struct tokenizer *tokenizer;
    struct decoder_state state;
    bool skip_special;
};

static bool is_shown(const struct detok_stream *s, int32_t id) {
    return tokenizer_has_id(s->tokenizer, id) &&
           !(s->skip_special && tokenizer_is_special(s->tokenizer, id));
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

enum radish_status detok_stream_create(const struct tokenizer *tokenizer, const int32_t *prompt,
                                       size_t n_prompt, bool skip_special,
                                       struct detok_stream **stream_out, struct radish_error *err) {
    struct buf dropped = {0};
    bool failed = false;
    *stream_out = NULL;
    struct detok_stream *s = calloc(1, sizeof *s);
    if (!s) return error_nomem(err);
    s->tokenizer = tokenizer;
    s->skip_special = skip_special;
    decoder_start(&s->state);
    for (size_t i = context_start(s, prompt, n_prompt); i < n_prompt; i++) {
        if (is_shown(s, prompt[i])) tokenizer_push_token(tokenizer, &s->state, prompt[i], &dropped);
        failed |= dropped.failed;
        buf_clear(&dropped);
    }
    buf_deinit(&dropped);
    if (failed) {
        detok_stream_destroy(s);
        return error_nomem(err);
    }
    *stream_out = s;
    return RADISH_OK;
}

void detok_stream_destroy(struct detok_stream *s) {
    if (!s) return;
    decoder_state_deinit(&s->state);
    free(s);
}

void detok_stream_push(struct detok_stream *s, int32_t id, struct buf *out) {
    if (is_shown(s, id)) tokenizer_push_token(s->tokenizer, &s->state, id, out);
}

void detok_stream_finish(struct detok_stream *s, struct buf *out) {
    decoder_finish(s->tokenizer->decoder, &s->state, out);
}
