/* word_vocab.h - the vocabulary of the models that look words up: what WordPiece and WordLevel
 * share.
 *
 * Owns: copies of the contents. Filled once, then immutable: any number of threads may read. */
#ifndef TEXT_WORD_VOCAB_H
#define TEXT_WORD_VOCAB_H

#include "radish.h"

#include "text/tokenizer_spec.h"
#include "vocab.h"

struct word_vocab {
    struct vocab vocab; /* hidden tokens are absent */
    int32_t unk_id;
    size_t key_len_max; /* of the longest key */
};

/* E_FORMAT when the unknown token is not in the vocabulary. Deinit is right after any result. */
enum radish_status word_vocab_init(struct word_vocab *w, const struct tokenizer_spec *spec,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void word_vocab_deinit(struct word_vocab *w);

#endif
