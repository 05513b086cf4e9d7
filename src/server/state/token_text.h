/* token_text.h - tokens out of the middle of a text, as a member of a JSON object. Owns: nothing.
 * Threads: any. */
#ifndef SERVER_TOKEN_TEXT_H
#define SERVER_TOKEN_TEXT_H

#include "base/buf.h"

/* ,"key":"text of tokens[0..n)" */
void token_text_write(const struct radish_model *model, const char *key, const int32_t *tokens,
                      uint32_t n, struct buf *out);

#endif
