/* detok_stream.h - tokens to text while they are being made: never half a character, and in sum
 * exactly decode(prompt + output) minus decode(prompt).
 *
 * "Minus": without the longest prefix, in whole characters, that the two texts share. Mostly
 * decode(prompt) is that prefix. It is not where the end of a text is decoded otherwise than its
 * middle: half a character at the end of the prompt is U+FFFD until the output completes it; then
 * the stream begins with the whole character. So too for a run of byte tokens that the output
 * turns into no text, and for what a decoder strips from the end.
 *
 * Owns: the bytes held back. Threads: one at a time. The tokenizer is borrowed for its life.
 * Bounded memory: what is held is at most one incomplete character and what the decoder needs to
 * look back on. */
#ifndef TEXT_DETOK_STREAM_H
#define TEXT_DETOK_STREAM_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer.h"

enum { DETOK_SHOWN_MAX = RADISH_SHOWN_IDS_MAX };

struct detok_stream;

/* The prompt is what came before: decoders that look back (and a character that the prompt left
 * incomplete) need it. Copied as far as needed. */
enum radish_status detok_stream_create(const struct tokenizer *tokenizer, const int32_t *prompt,
                                       size_t n_prompt, bool skip_special,
                                       struct detok_stream **stream_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
/* Special tokens whose text is part of the output although others are skipped; n <=
 * DETOK_SHOWN_MAX, copied. To be called before the first push. */
void detok_stream_show(struct detok_stream *stream, const int32_t *ids, size_t n);

void detok_stream_destroy(struct detok_stream *stream);

/* Appends the text that token `id` completes, maybe none, to out. */
void detok_stream_push(struct detok_stream *stream, int32_t id, struct buf *out);

/* The end: what is still held, ill-formed bytes as U+FFFD. */
void detok_stream_finish(struct detok_stream *stream, struct buf *out);

#endif
