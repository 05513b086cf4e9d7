/* openai_logprobs.h - tokens with their logprobs, in the two shapes of OpenAI's API. Threads: any.
 */
#ifndef SERVER_OPENAI_LOGPROBS_H
#define SERVER_OPENAI_LOGPROBS_H

#include "base/buf.h"
#include "event_log.h"

/* Where in a text of whole characters the next token stands. Zeroed: at its beginning. */
struct openai_cursor {
    size_t n_chars, n_bytes; /* of the text so far */
    char partial[4];         /* [n_partial] bytes of a character that is not whole yet */
    size_t n_partial;
};

/* Comma-separated items of chat's logprobs.content: {"token", "logprob", "bytes",
 * "top_logprobs"}. needs_comma: items stand before them. */
void openai_logprobs_write_chat(const struct radish_model *model, const struct event_view *view,
                                bool needs_comma, struct buf *out);

/* The four parallel lists of completions' logprobs, gathered over any number of records. */
struct openai_logprobs {
    struct buf tokens, logprobs, tops, offsets; /* comma-separated items */
    bool has_tops;                              /* any top_logprobs were asked for */
};

void openai_logprobs_init(struct openai_logprobs *lists);
void openai_logprobs_deinit(struct openai_logprobs *lists);

/* The output's tokens. The cursor moves by what each token adds to the text, which is nothing for
 * special tokens unless has_specials. */
void openai_logprobs_add(struct openai_logprobs *lists, const struct radish_model *model,
                         const struct event_view *view, bool has_specials,
                         struct openai_cursor *cursor);

/* The prompt's tokens, placed in its own text. */
void openai_logprobs_add_prompt(struct openai_logprobs *lists, const struct radish_model *model,
                                const struct event_view *view, const char *text, size_t text_len);

/* {"tokens": [...], "token_logprobs": ..., "top_logprobs": ..., "text_offset": ...} */
void openai_logprobs_write(const struct openai_logprobs *lists, struct buf *out);

#endif
