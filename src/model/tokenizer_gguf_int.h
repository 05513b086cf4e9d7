/* tokenizer_gguf_int.h - what the readers of the kinds of GGUF vocabularies share: tokenizer_gguf.c
 * (byte-level BPE) and tokenizer_gguf_spm.c (SentencePiece) only. */
#ifndef MODEL_TOKENIZER_GGUF_INT_H
#define MODEL_TOKENIZER_GGUF_INT_H

#include "radish.h"

#include "base/arena.h"
#include "format/gguf.h"
#include "text/tokenizer_spec.h"

enum gguf_token_type {
    GGUF_TOKEN_NORMAL = 1,
    GGUF_TOKEN_UNKNOWN,
    GGUF_TOKEN_CONTROL,
    GGUF_TOKEN_USER_DEFINED,
    GGUF_TOKEN_UNUSED,
    GGUF_TOKEN_BYTE
};

struct gguf_reader {
    const struct gguf *gguf;
    struct arena *arena;
    struct radish_error *err;
    struct tokenizer_spec *spec;
    const struct gguf_value *types;      /* NULL = all normal */
    struct spec_token *tokens;           /* [spec->n_tokens] */
    struct spec_added *added;            /* room for spec->n_tokens */
    struct spec_normalizer *normalizers; /* [SPEC_STEPS_MAX] each */
    struct spec_pretokenizer *pretokenizers;
    struct spec_decoder *decoders;
};

/* E_FORMAT: the key must be `wanted`. */
enum radish_status gguf_reader_wrong(const struct gguf_reader *r, const char *key,
                                     const char *wanted);

/* An array of n elements (any number with n NULL); *out NULL when absent. */
enum radish_status gguf_reader_array(const struct gguf_reader *r, const char *key, bool is_str,
                                     const uint32_t *n,
                                     const struct gguf_value **out) RADISH_CHECK_RESULT;

/* Fills the tokens (contents and ids) and finds their types. */
enum radish_status gguf_reader_tokens(struct gguf_reader *r) RADISH_CHECK_RESULT;
enum gguf_token_type gguf_reader_type(const struct gguf_reader *r, uint32_t id);

/* The token is found in the text before the model sees any of it, and only there. */
void gguf_reader_add(struct gguf_reader *r, uint32_t id, bool is_special);

/* What stands before and behind every text; the two say whether that is usual. */
enum radish_status gguf_reader_template(struct gguf_reader *r, bool adds_bos,
                                        bool adds_eos) RADISH_CHECK_RESULT;

/* tokenizer.ggml.model "llama" and "t5". */
enum radish_status gguf_read_spm_bpe(struct gguf_reader *r) RADISH_CHECK_RESULT;
enum radish_status gguf_read_unigram(struct gguf_reader *r) RADISH_CHECK_RESULT;

#endif
