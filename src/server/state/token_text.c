/* token_text.c - the text of tokens as the reports of the cache show it.
 *
 * Their bytes are taken as they are, since they stand in the middle of a text, where a detokenizer
 * would begin a new one: it would drop a space, or what is left of a character. Bytes that make no
 * whole character become U+FFFD. */
#include "token_text.h"

#include "json_out.h"

void token_text_write(const struct radish_model *model, const char *key, const int32_t *tokens,
                      uint32_t n, struct buf *out) {
    struct buf text;
    buf_init(&text, 0);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *bytes = radish_token_bytes(model, tokens[i], &len);
        if (bytes) buf_append(&text, bytes, len);
    }
    buf_append_char(out, ',');
    json_out_key(out, key);
    json_out_string(out, text.data ? text.data : "", text.len);
    out->failed |= text.failed;
    buf_deinit(&text);
}
