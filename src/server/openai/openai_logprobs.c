/* openai_logprobs.c - what a token is called, and where in the text it stands.
 *
 * A token is bytes, and need not be valid UTF-8: half of a character is a token like any other. In
 * chat's shape the exact bytes travel beside the name, so the name may have U+FFFD. In completions'
 * shape the name is all there is, and the key of top_logprobs: there such a token is written
 * "bytes:\xe2\x82", which is what OpenAI's own API does, and which keeps different tokens
 * different.
 *
 * text_offset counts characters of "text" in front of the token: what the tokens before it add,
 * with U+FFFD where their bytes are no characters, as in the text. A token that only continues a
 * character points at that character. A special token adds nothing where the text does not show it:
 * a BOS that tokenising put before a prompt, an end token. */
#include "openai_logprobs.h"

#include "base/utf8.h"
#include "json_out.h"

#include <string.h>

static const char *find_bytes(const struct radish_model *model, int32_t id, size_t *len_out) {
    const char *bytes = radish_token_bytes(model, id, len_out);
    if (!bytes) *len_out = 0;
    return bytes ? bytes : "";
}

static void write_name_of_bytes(const char *bytes, size_t len, struct buf *out) {
    if (utf8_valid_prefix(bytes, len) == len) {
        json_out_string(out, bytes, len);
        return;
    }
    buf_append_str(out, "\"bytes:");
    for (size_t i = 0; i < len; i++)
        buf_printf(out, "\\\\x%02x", (unsigned)(unsigned char)bytes[i]);
    buf_append_char(out, '"');
}

static void write_chat_fields(const struct radish_model *model, int32_t id, float logprob,
                              struct buf *out) {
    size_t len = 0;
    const char *bytes = find_bytes(model, id, &len);
    buf_append_str(out, "\"token\":");
    json_out_string(out, bytes, len);
    buf_append_str(out, ",\"logprob\":");
    json_out_logprob(out, logprob);
    buf_append_str(out, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        buf_printf(out, i ? ",%u" : "%u", (unsigned)(unsigned char)bytes[i]);
    buf_append_char(out, ']');
}

void openai_logprobs_write_chat(const struct radish_model *model, const struct event_view *view,
                                bool needs_comma, struct buf *out) {
    const struct radish_logprob *top = view->logprobs;
    for (uint32_t i = 0; i < view->record->n_tokens; i++) {
        const struct event_token *token = &view->tokens[i];
        buf_append_str(out, i || needs_comma ? ",{" : "{");
        write_chat_fields(model, token->id, token->logprob, out);
        buf_append_str(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < token->n_top; k++, top++) {
            buf_append_str(out, k ? ",{" : "{");
            write_chat_fields(model, top->id, top->logprob, out);
            buf_append_char(out, '}');
        }
        top += token->n_named;
        buf_append_str(out, "]}");
    }
}

void openai_logprobs_init(struct openai_logprobs *lists) {
    memset(lists, 0, sizeof *lists);
}

void openai_logprobs_deinit(struct openai_logprobs *lists) {
    buf_deinit(&lists->tokens);
    buf_deinit(&lists->logprobs);
    buf_deinit(&lists->tops);
    buf_deinit(&lists->offsets);
}

static void add_comma(struct buf *out) {
    if (out->len) buf_append_char(out, ',');
}

/* {"name": logprob, ...} of the best tokens, and of the token itself where it is not among them. */
static void add_tops(struct openai_logprobs *lists, const struct radish_model *model,
                     const struct event_token *token, const struct radish_logprob *tops) {
    size_t len = 0;
    bool has_self = false;
    const char *bytes;
    add_comma(&lists->tops);
    if (!token->n_top) {
        buf_append_str(&lists->tops, "null");
        return;
    }
    lists->has_tops = true;
    buf_append_char(&lists->tops, '{');
    for (uint32_t k = 0; k < token->n_top; k++) {
        if (k) buf_append_char(&lists->tops, ',');
        bytes = find_bytes(model, tops[k].id, &len);
        write_name_of_bytes(bytes, len, &lists->tops);
        buf_append_char(&lists->tops, ':');
        json_out_logprob(&lists->tops, tops[k].logprob);
        has_self = has_self || tops[k].id == token->id;
    }
    if (!has_self) {
        buf_append_char(&lists->tops, ',');
        bytes = find_bytes(model, token->id, &len);
        write_name_of_bytes(bytes, len, &lists->tops);
        buf_append_char(&lists->tops, ':');
        json_out_logprob(&lists->tops, token->logprob);
    }
    buf_append_char(&lists->tops, '}');
}

static void add_token(struct openai_logprobs *lists, const struct radish_model *model,
                      const struct event_token *token, const struct radish_logprob *tops,
                      size_t offset) {
    size_t len = 0;
    const char *bytes = find_bytes(model, token->id, &len);
    add_comma(&lists->tokens);
    write_name_of_bytes(bytes, len, &lists->tokens);
    add_comma(&lists->logprobs);
    if (token->has_logprob)
        json_out_logprob(&lists->logprobs, token->logprob);
    else
        buf_append_str(&lists->logprobs, "null");
    add_tops(lists, model, token, tops);
    add_comma(&lists->offsets);
    buf_printf(&lists->offsets, "%zu", offset);
}

/* Takes n bytes off the front of the partial character, as one character of the text. */
static void emit_char(struct openai_cursor *cursor, size_t n, uint32_t code_point) {
    char encoded[4];
    cursor->n_chars++;
    cursor->n_bytes += utf8_encode(code_point, encoded);
    cursor->n_partial -= n;
    memmove(cursor->partial, cursor->partial + n, cursor->n_partial);
}

/* Adds one byte; bytes that can be no character become U+FFFD, as in the text itself. With
 * stops_before, the character that the byte belongs to is left for later. */
static void push_byte(struct openai_cursor *cursor, char byte, bool stops_before) {
    cursor->partial[cursor->n_partial++] = byte;
    while (cursor->n_partial) {
        uint32_t code_point = 0;
        size_t n = utf8_decode_partial(cursor->partial, cursor->n_partial, &code_point);
        if (!n || (stops_before && n == cursor->n_partial)) return;
        emit_char(cursor, n, code_point);
    }
}

/* The index of the character that the token's first byte belongs to. */
static size_t find_offset(const struct openai_cursor *cursor, const char *bytes, size_t len) {
    struct openai_cursor ahead = *cursor;
    if (len) push_byte(&ahead, bytes[0], /*stops_before=*/true);
    return ahead.n_chars;
}

static void push_bytes(struct openai_cursor *cursor, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) push_byte(cursor, bytes[i], /*stops_before=*/false);
}

static bool is_special(const struct radish_model *model, int32_t id) {
    char *text = NULL;
    size_t len = 0;
    if (radish_detokenize(model, &id, 1, RADISH_DETOKENIZE_SKIP, &text, &len, NULL)) return false;
    bool is_empty = !len;
    radish_free(text);
    if (!is_empty) return false;
    if (radish_detokenize(model, &id, 1, 0, &text, &len, NULL)) return false;
    radish_free(text);
    return len > 0;
}

void openai_logprobs_add(struct openai_logprobs *lists, const struct radish_model *model,
                         const struct event_view *view, bool has_specials,
                         struct openai_cursor *cursor) {
    const struct radish_logprob *tops = view->logprobs;
    for (uint32_t i = 0; i < view->record->n_tokens; i++) {
        const struct event_token *token = &view->tokens[i];
        size_t len = 0;
        const char *bytes = find_bytes(model, token->id, &len);
        add_token(lists, model, token, tops, find_offset(cursor, bytes, len));
        if (has_specials || !is_special(model, token->id)) push_bytes(cursor, bytes, len);
        tops += token->n_top + token->n_named;
    }
}

/* Whether the text goes on with these bytes. */
static bool is_next(const struct openai_cursor *cursor, const char *text, size_t text_len,
                    const char *bytes, size_t len) {
    return cursor->n_bytes <= text_len && len <= text_len - cursor->n_bytes &&
           !memcmp(text + cursor->n_bytes, bytes, len);
}

void openai_logprobs_add_prompt(struct openai_logprobs *lists, const struct radish_model *model,
                                const struct event_view *view, const char *text, size_t text_len) {
    const struct radish_logprob *tops = view->logprobs;
    struct openai_cursor cursor = {0};
    for (uint32_t i = 0; i < view->record->n_tokens; i++) {
        const struct event_token *token = &view->tokens[i];
        size_t len = 0;
        const char *bytes = find_bytes(model, token->id, &len);
        add_token(lists, model, token, tops, find_offset(&cursor, bytes, len));
        tops += token->n_top + token->n_named;
        /* A tokenizer may have put a space in front of the text that decoding takes away. */
        bool has_extra_space =
            !cursor.n_bytes && len && bytes[0] == ' ' && !is_next(&cursor, text, text_len, " ", 1);
        if (is_next(&cursor, text, text_len, bytes, len) || !is_special(model, token->id))
            push_bytes(&cursor, bytes + has_extra_space, len - has_extra_space);
    }
}

static void write_list(const char *key, const struct buf *items, struct buf *out) {
    json_out_key(out, key);
    buf_append_char(out, '[');
    if (items->len) buf_append(out, items->data, items->len);
    buf_append_char(out, ']');
}

void openai_logprobs_write(const struct openai_logprobs *lists, struct buf *out) {
    if (lists->tokens.failed || lists->logprobs.failed || lists->tops.failed ||
        lists->offsets.failed)
        out->failed = true;
    buf_append_char(out, '{');
    write_list("tokens", &lists->tokens, out);
    buf_append_char(out, ',');
    write_list("token_logprobs", &lists->logprobs, out);
    buf_append_char(out, ',');
    if (lists->has_tops)
        write_list("top_logprobs", &lists->tops, out);
    else
        buf_append_str(out, "\"top_logprobs\":null");
    buf_append_char(out, ',');
    write_list("text_offset", &lists->offsets, out);
    buf_append_char(out, '}');
}
