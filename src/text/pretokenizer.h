/* pretokenizer.h - cuts text into the pieces that the model encodes one by one: no token crosses a
 * cut.
 *
 * Owns: its steps. Threads: immutable after create; the scratch belongs to one call. */
#ifndef TEXT_PRETOKENIZER_H
#define TEXT_PRETOKENIZER_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

struct pretokenizer;

struct piece {
    size_t start, len; /* in the text of the list */
};

struct piece_list {
    const char *text;     /* what the pieces are cut from: the input, or one of the buffers */
    struct piece *pieces; /* [n_pieces] in order; none is empty */
    size_t n_pieces, capacity;
};

/* Zero-initialise. What pretokenizer_run() works with, kept between calls for its memory. */
struct pretokenizer_scratch {
    struct piece_list lists[2];
    struct buf texts[2];
};
void pretokenizer_scratch_deinit(struct pretokenizer_scratch *scratch);

/* n may be 0: the text is one piece. */
enum radish_status pretokenizer_create(const struct spec_pretokenizer *steps, uint32_t n,
                                       struct pretokenizer **pretokenizer_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void pretokenizer_destroy(struct pretokenizer *pretokenizer);

/* True when the last step maps bytes to the byte-level alphabet. That mapping is left to the
 * model, which then takes pieces as raw bytes: the text is not doubled in size. */
bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer);

/* Cuts text[0..len), valid UTF-8. is_first: the text starts where the whole input started.
 * *pieces_out is borrowed from scratch (and text) until the next run. */
enum radish_status pretokenizer_run(const struct pretokenizer *pretokenizer, const char *text,
                                    size_t len, bool is_first, struct pretokenizer_scratch *scratch,
                                    const struct piece_list **pieces_out,
                                    struct radish_error *err) RADISH_CHECK_RESULT;

#endif
