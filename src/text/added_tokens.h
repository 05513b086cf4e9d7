/* added_tokens.h - finds the tokens that are cut out of text before the model sees it.
 *
 * Owns: its tokens. Threads: immutable after create. */
#ifndef TEXT_ADDED_TOKENS_H
#define TEXT_ADDED_TOKENS_H

#include "radish.h"

#include "text/normalizer.h"
#include "text/tokenizer_spec.h"

struct added_tokens;

/* Those of added[0..n) whose is_normalized equals `normalized`; with it, contents go through the
 * normalizer first, as the text will. */
enum radish_status added_tokens_create(const struct spec_added *added, uint32_t n, bool normalized,
                                       const struct normalizer *normalizer,
                                       struct added_tokens **tokens_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void added_tokens_destroy(struct added_tokens *tokens);

struct added_cut {
    size_t start, end; /* in the text */
    int32_t id;        /* -1: ordinary text */
};

/* A walk over text[0..len): ordinary text and added tokens, left to right; at each place the
 * longest token wins. */
struct added_cursor {
    const struct added_tokens *tokens;
    const char *text; /* [len] */
    size_t len;
    size_t at;             /* where the search goes on */
    size_t start;          /* of what has not been given out */
    struct added_cut next; /* a token found while text before it was given out; id -1 = none */
    size_t spaces_end;     /* a run of white space, in which strips_right ended before, ends here */
    uint64_t n_operations; /* inner steps so far */
};

void added_cursor_start(struct added_cursor *cursor, const struct added_tokens *tokens,
                        const char *text, size_t len);
bool added_cursor_next(struct added_cursor *cursor, struct added_cut *cut_out); /* false: the end */

#endif
