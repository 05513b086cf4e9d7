/* pretokenizer.h - cuts text into the pieces that the model encodes one by one: no token crosses a
 * cut.
 *
 * Owns: its steps. Threads: immutable after create; the scratch belongs to one call. */
#ifndef TEXT_PRETOKENIZER_H
#define TEXT_PRETOKENIZER_H

#include "radish.h"

#include "base/buf.h"
#include "text/pattern.h"
#include "text/tokenizer_spec.h"

struct pretokenizer;

/* Gets the pieces one by one; none is empty. `piece` is borrowed for the call. Any status but OK
 * ends the run, which returns it. */
typedef enum radish_status (*pretokenizer_sink_fn)(void *user, const char *piece, size_t len,
                                                   struct radish_error *err);

struct pretokenizer_stage {
    struct pattern_cursor cursor;
    struct buf text; /* what became of one piece */
};

/* Zero-initialise. What pretokenizer_run() works with, kept between runs of one pretokenizer for
 * its memory. */
struct pretokenizer_scratch {
    struct pretokenizer_stage
        *stages; /* [n_stages], one per operation; NULL before the first run */
    uint32_t n_stages;
};
void pretokenizer_scratch_deinit(struct pretokenizer_scratch *scratch);

/* n may be 0: the text is one piece. leaves_bytes: if the last step maps bytes to the byte-level
 * alphabet, that is left to the model, which then takes pieces as raw bytes: the text is not
 * doubled in size. */
enum radish_status pretokenizer_create(const struct spec_pretokenizer *steps, uint32_t n,
                                       bool leaves_bytes, struct pretokenizer **pretokenizer_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void pretokenizer_destroy(struct pretokenizer *pretokenizer);

/* True when a mapping is left to the model. */
bool pretokenizer_is_byte_level(const struct pretokenizer *pretokenizer);

/* True when pretokenizer_run() looks at first_len. */
bool pretokenizer_asks_first(const struct pretokenizer *pretokenizer);

/* Cuts text[0..len), valid UTF-8, and gives the pieces to sink in order. first_len: so many bytes
 * at its start come from the first character of the whole input (0: it starts elsewhere). */
enum radish_status pretokenizer_run(const struct pretokenizer *pretokenizer, const char *text,
                                    size_t len, size_t first_len,
                                    struct pretokenizer_scratch *scratch, pretokenizer_sink_fn sink,
                                    void *user, struct radish_error *err) RADISH_CHECK_RESULT;

#endif
