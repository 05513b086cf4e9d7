/* token_model.h - the algorithm of a tokenizer: one piece of text to token ids.
 *
 * BPE, Unigram, WordPiece and WordLevel are each a file and a row of token_model_of_kind(); the
 * tokenizer knows them only through this table of functions. A piece is what the pre-tokenizer
 * cut out: no token crosses its ends. Owns: a model copies what it keeps of the spec. Threads: a
 * model is immutable after create; the scratch belongs to one call. */
#ifndef TEXT_TOKEN_MODEL_H
#define TEXT_TOKEN_MODEL_H

#include "radish.h"

#include "text/id_list.h"
#include "text/tokenizer_spec.h"

struct token_model; /* each kind has its own content behind it */

struct piece_cache;

/* Zero-initialise; free `memory` with free(). Kept between the pieces of a call for its memory. */
struct token_scratch {
    void *memory;
    size_t capacity_bytes;
    struct piece_cache *cache; /* borrowed, NULL = none; then all pieces go into one list of ids */
    uint64_t n_operations; /* inner steps so far: look-ups, heap moves; what tests of cost count */
};

struct token_model_ops {
    /* is_byte_level: pieces are raw bytes, and the contents of the spec are read through the
     * byte-level alphabet. E_FORMAT: merges or ids that the vocabulary lacks; E_UNSUPPORTED: a
     * combination that no published tokenizer has. */
    enum radish_status (*create)(const struct tokenizer_spec *spec, bool is_byte_level,
                                 struct token_model **model_out, struct radish_error *err);
    void (*destroy)(struct token_model *model); /* NULL is fine */
    /* Appends the ids of one piece (valid UTF-8, or any bytes when byte-level) to out. False: out
     * of memory. */
    bool (*encode)(const struct token_model *model, const char *piece, size_t len,
                   struct token_scratch *scratch, struct id_list *out);
};

/* Static. */
const struct token_model_ops *token_model_of_kind(enum spec_model_kind kind);

#endif
