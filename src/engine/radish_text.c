/* radish_text.c - the public text functions over an opened model.
 *
 * Thin, since text/ does the work: they turn flags into arguments and a growing buffer into memory
 * that the caller frees. What they add is the contract of radish.h: outputs are NULL and 0 whenever
 * the result is not OK, and never NULL when it is, also for an empty text. */
#include "engine/model_int.h"

#include "base/buf.h"
#include "base/status.h"

#include <stdlib.h>

enum radish_status radish_tokenize(const struct radish_model *model, const char *text, size_t len,
                                   unsigned flags, int32_t **ids_out, size_t *n_out,
                                   struct radish_error *err) {
    *ids_out = NULL;
    *n_out = 0;
    return tokenizer_encode(model->text->tokenizer, text, len, flags & RADISH_TOKENIZE_SPECIAL,
                            ids_out, n_out, err);
}

enum radish_status radish_detokenize(const struct radish_model *model, const int32_t *ids, size_t n,
                                     unsigned flags, char **text_out, size_t *len_out,
                                     struct radish_error *err) {
    *text_out = NULL;
    *len_out = 0;
    struct buf text;
    buf_init(&text, 0);
    enum radish_status status = tokenizer_decode(model->text->tokenizer, ids, n,
                                                 flags & RADISH_DETOKENIZE_SKIP, &text, err);
    if (status == RADISH_OK && !(*text_out = buf_take(&text, len_out))) status = error_nomem(err);
    buf_deinit(&text);
    return status;
}

const char *radish_token_bytes(const struct radish_model *model, int32_t id, size_t *len_out) {
    *len_out = 0;
    return tokenizer_token_bytes(model->text->tokenizer, id, len_out);
}

const char *radish_token_name(const struct radish_model *model, int32_t id, size_t *len_out) {
    *len_out = 0;
    return tokenizer_content(model->text->tokenizer, id, len_out);
}
