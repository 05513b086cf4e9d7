/* decoder.h - from the contents of tokens back to text, one token at a time.
 *
 * Decoding a whole list and streaming are the same code: a state is started, tokens are pushed,
 * and what they complete is appended. Owns: its steps. Threads: the decoder is immutable after
 * create; a state belongs to one. */
#ifndef TEXT_DECODER_H
#define TEXT_DECODER_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

struct decoder;

/* n may be 0: contents are joined by spaces. E_UNSUPPORTED: an order of steps that would need the
 * whole text at once. */
enum radish_status decoder_create(const struct spec_decoder *steps, uint32_t n,
                                  struct decoder **decoder_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void decoder_destroy(struct decoder *decoder);

/* True when a token's text does not depend on its neighbours but for characters that are cut
 * between tokens: then decoder_push() needs only the last few tokens before. */
bool decoder_is_byte_level(const struct decoder *decoder);

/* Appends the bytes that a token stands for in the middle of a text. */
void decoder_append_bytes(const struct decoder *decoder, const char *content, size_t len,
                          struct buf *out);

/* A step needs two at most: its text, and a second one to rewrite it. */
#define DECODER_SCRATCH_MAX (2 * SPEC_STEPS_MAX)

struct decoder_step_state {
    uint32_t n_tokens; /* pushed so far, up to 1: "is this the first?" */
    uint32_t n_cut;    /* Strip: characters taken off the start */
    uint32_t n_held;   /* Strip: characters at the end that may have to go */
    bool is_inside;    /* Strip: the start is over */
};

struct decoder_state {
    struct decoder_step_state steps[SPEC_STEPS_MAX];
    char partial[4]; /* [n_partial] the start of a character */
    size_t n_partial;
    struct buf run;  /* byte tokens in a row: whether they are text is known at their end */
    size_t n_whole;  /* of run: bytes of whole characters */
    bool is_run_bad; /* the run is no text: its bytes have become U+FFFD, and so will the rest */
    struct buf word; /* BPEDecoder: the last token, or what of it waits for a next one */
    struct buf last; /* CTC: the last token */
    struct buf scratch[DECODER_SCRATCH_MAX]; /* lent to steps, one behind the other */
    uint32_t n_lent;
    struct buf *out; /* during push and finish */
};

void decoder_start(struct decoder_state *state);
void decoder_state_deinit(struct decoder_state *state);

/* Reserves what pushing tokens of up to token_bytes needs, so that pushing allocates nothing (but
 * for a decoder that lengthens texts many times over, or replaces by a regular expression). False:
 * out of memory. */
bool decoder_state_reserve(const struct decoder *decoder, struct decoder_state *state,
                           size_t token_bytes) RADISH_CHECK_RESULT;

/* A second state that goes on from where the first is. False: out of memory; deinit in any case. */
bool decoder_state_copy(const struct decoder_state *from,
                        struct decoder_state *to_out) RADISH_CHECK_RESULT;

/* Appends the text that the token completes to out: whole characters. bytes: what
 * decoder_append_bytes() gave for it. Out of memory sets out->failed. */
void decoder_push(const struct decoder *decoder, struct decoder_state *state,
                  const struct spec_str *content, const struct spec_str *bytes, struct buf *out);

/* The end: appends what is held, ill-formed bytes as U+FFFD, and starts anew. */
void decoder_finish(const struct decoder *decoder, struct decoder_state *state, struct buf *out);

#endif
