/* tokenizer_int.h - what a tokenizer consists of; for tokenizer.c and detok_stream.c only. */
#ifndef TEXT_TOKENIZER_INT_H
#define TEXT_TOKENIZER_INT_H

#include "added_tokens.h"
#include "decoder.h"
#include "normalizer.h"
#include "pretokenizer.h"
#include "text/tokenizer.h"
#include "token_model.h"
#include "vocab.h"

struct tokenizer {
    struct added_tokens *added_raw, *added_normalized;
    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    const struct token_model_ops *model_ops;
    struct token_model *model;
    struct decoder *decoder;
    int32_t *prefix_ids; /* [n_prefix_ids] */
    int32_t *suffix_ids; /* [n_suffix_ids] */
    uint32_t n_prefix_ids, n_suffix_ids;
    struct vocab contents;  /* of all ids; an added token's replaces the model's */
    struct vocab shown;     /* what decoding takes instead, where that differs */
    struct vocab bytes;     /* of all ids, as in the middle of a text */
    size_t token_bytes_max; /* longest of these */
    bool *is_special;       /* [contents.n_ids] */
};

/* tokenizer_encode(); *n_operations_out: inner steps of the model and of the search for added
 * tokens, bytes of normal forms. Patterns count in PCRE2 (test_pattern.c). For tests of cost. */
enum radish_status tokenizer_encode_counted(const struct tokenizer *t, const char *text, size_t len,
                                            bool add_special, int32_t **ids_out, size_t *n_out,
                                            uint64_t *n_operations_out,
                                            struct radish_error *err) RADISH_CHECK_RESULT;

/* Pushes a known token through the decoder. */
void tokenizer_push_token(const struct tokenizer *tokenizer, struct decoder_state *state,
                          int32_t id, struct buf *out);

#endif
