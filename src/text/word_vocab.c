/* word_vocab.c - contents to ids, and the unknown token.
 *
 * The tokenizers library notices that the unknown token is missing when a text first needs it. Here
 * that is refused at once: a server cannot promise to serve texts it might not be able to encode.
 */
#include "word_vocab.h"

#include "base/status.h"

enum radish_status word_vocab_init(struct word_vocab *w, const struct tokenizer_spec *spec,
                                   struct radish_error *err) {
    const struct spec_str *unk = &spec->unk;
    uint32_t n_ids = 0;
    *w = (struct word_vocab){.unk_id = -1};
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
    if (!vocab_init(&w->vocab, n_ids, spec->n_tokens)) return error_nomem(err);
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        if (token->is_hidden) continue;
        if (!vocab_put(&w->vocab, token->id, token->content.data, token->content.len, true))
            return error_nomem(err);
        if (token->content.len > w->key_len_max) w->key_len_max = token->content.len;
    }
    if (unk->data) w->unk_id = vocab_find(&w->vocab, unk->data, unk->len);
    if (w->unk_id >= 0) return RADISH_OK;
    return error_set_field(err, RADISH_E_FORMAT, "unk_token",
                           "the unknown token \"%.*s\" is not in the vocabulary",
                           unk->len > 60 ? 60 : (int)unk->len, unk->data ? unk->data : "");
}

void word_vocab_deinit(struct word_vocab *w) {
    vocab_deinit(&w->vocab);
}
