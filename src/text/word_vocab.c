/* word_vocab.c - contents to ids, and the unknown token.
 *
 * As in bpe.c, a byte-level vocabulary is read back into bytes, so that pieces are looked up as
 * they stand; contents outside of the byte-level alphabet are left out, since no text gives them.
 *
 * The tokenizers library notices a missing unknown token when a text first needs it. Here that is
 * refused at once: a server cannot promise to serve texts it might not be able to encode. */
#include "word_vocab.h"

#include "base/status.h"
#include "byte_level.h"

#include <string.h>

bool word_vocab_key(const struct spec_str *content, bool is_byte_level, struct buf *key_out) {
    buf_clear(key_out);
    if (is_byte_level) return byte_level_append_bytes(content->data, content->len, key_out);
    buf_append(key_out, content->data, content->len);
    return true;
}

static enum radish_status fill(struct word_vocab *w, const struct tokenizer_spec *spec,
                               bool is_byte_level, struct buf *key, struct radish_error *err) {
    const struct spec_str *unk = &spec->unk;
    for (uint32_t i = 0; i < spec->n_tokens; i++) {
        const struct spec_token *token = &spec->tokens[i];
        if (token->is_hidden || !word_vocab_key(&token->content, is_byte_level, key)) continue;
        if (key->failed ||
            !vocab_put(&w->vocab, token->id, key->data ? key->data : "", key->len, true))
            return error_nomem(err);
        if (key->len > w->key_len_max) w->key_len_max = key->len;
    }
    /* The unknown token need not look like text. */
    for (uint32_t i = 0; unk->data && i < spec->n_tokens; i++)
        if (spec->tokens[i].content.len == unk->len &&
            memcmp(spec->tokens[i].content.data, unk->data, unk->len) == 0)
            w->unk_id = spec->tokens[i].id;
    if (w->unk_id >= 0) return RADISH_OK;
    return error_set_field(err, RADISH_E_FORMAT, "unk_token",
                           "the unknown token \"%.*s\" is not in the vocabulary",
                           unk->len > 60 ? 60 : (int)unk->len, unk->data ? unk->data : "");
}

enum radish_status word_vocab_init(struct word_vocab *w, const struct tokenizer_spec *spec,
                                   bool is_byte_level, struct radish_error *err) {
    struct buf key = {0};
    uint32_t n_ids = 0;
    *w = (struct word_vocab){.unk_id = -1};
    for (uint32_t i = 0; i < spec->n_tokens; i++)
        if ((uint32_t)spec->tokens[i].id >= n_ids) n_ids = (uint32_t)spec->tokens[i].id + 1;
    if (!vocab_init(&w->vocab, n_ids, spec->n_tokens)) return error_nomem(err);
    enum radish_status status = fill(w, spec, is_byte_level, &key, err);
    buf_deinit(&key);
    return status;
}

void word_vocab_deinit(struct word_vocab *w) {
    vocab_deinit(&w->vocab);
}
