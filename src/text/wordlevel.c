/* wordlevel.c - one look-up per piece: the vocabulary has the whole piece, or the piece is the
 * unknown token. All of the model's intelligence is in its pre-tokenizer.
 *
 * It is a file of its own, and not WordPiece with tokens that nothing continues, since the rules
 * differ: a piece has no greatest length here. */
#include "wordlevel.h"

#include "base/invariant.h"
#include "base/status.h"
#include "word_vocab.h"

#include <stdlib.h>

struct wordlevel {
    struct word_vocab words;
};

static void destroy_wordlevel(struct token_model *model) {
    struct wordlevel *w = (struct wordlevel *)model;
    if (!w) return;
    word_vocab_deinit(&w->words);
    free(w);
}

static enum radish_status create_wordlevel(const struct tokenizer_spec *spec, bool is_byte_level,
                                           struct token_model **model_out,
                                           struct radish_error *err) {
    *model_out = NULL;
    RADISH_INVARIANT(!is_byte_level, "pieces come as text");
    struct wordlevel *w = calloc(1, sizeof *w);
    if (!w) return error_nomem(err);
    enum radish_status status = word_vocab_init(&w->words, spec, err);
    if (status != RADISH_OK) {
        destroy_wordlevel((struct token_model *)w);
        return status;
    }
    *model_out = (struct token_model *)w;
    return RADISH_OK;
}

static bool encode_piece(const struct token_model *model, const char *piece, size_t len,
                         struct token_scratch *scratch, struct id_list *out) {
    const struct wordlevel *w = (const struct wordlevel *)model;
    if (!len) return true;
    scratch->n_operations++;
    int32_t id = vocab_find(&w->words.vocab, piece, len);
    id_list_push(out, id < 0 ? w->words.unk_id : id);
    return !out->failed;
}

const struct token_model_ops wordlevel_ops = {create_wordlevel, destroy_wordlevel, encode_piece};
