/* msl_token.c - cuts preprocessed Metal source into tokens.
 *
 * The preprocessor has taken out comments, spliced lines and macros; what is left is white space,
 * names, numbers, strings, punctuation and lines that begin with #. Only the punctuation that the
 * pre-pass must not confuse is longer than a byte: [[ begins attributes, :: and -> stand where a
 * name is not a function of the file, == is not the = of an initialiser, << and >> are not the
 * brackets of a template. ]] stays two tokens, since it also ends a[b[i]].
 *
 * One pass over the bytes, an array that doubles; nothing is copied. */
#include "msl_token.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_FIRST = 1024 };

struct scan {
    const char *p, *end;
    const char *file;
    uint32_t n_file, line;
    bool is_line_start;
    struct msl_tokens *tokens;
    size_t capacity;
};

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool msl_token_is(const struct msl_token *token, const char *text) {
    size_t len = strlen(text);
    return token->kind != MSL_TOKEN_STRING && token->kind != MSL_TOKEN_END && token->len == len &&
           memcmp(token->text, text, len) == 0;
}

bool msl_token_is_one_of(const struct msl_token *token, const char *const *texts) {
    for (; *texts; texts++)
        if (msl_token_is(token, *texts)) return true;
    return false;
}

bool msl_token_same(const struct msl_token *a, const struct msl_token *b) {
    return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* The length of a string or character literal at p, or 0 when it does not end on its line. */
static size_t quoted_bytes(const char *p, const char *end) {
    char quote = *p;
    for (const char *at = p + 1; at < end && *at != '\n'; at++) {
        if (*at == quote) return (size_t)(at - p) + 1;
        if (*at == '\\' && at + 1 < end) at++;
    }
    return 0;
}

static size_t number_bytes(const char *p, const char *end) {
    const char *at = p;
    bool is_hex = end - p > 1 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    while (at < end && (is_name_start(*at) || is_digit(*at) || *at == '.' || *at == '\'')) {
        bool is_exponent = is_hex ? *at == 'p' || *at == 'P' : *at == 'e' || *at == 'E';
        at++;
        if (is_exponent && at < end && (*at == '+' || *at == '-')) at++;
    }
    return (size_t)(at - p);
}

static size_t punct_bytes(const char *p, const char *end) {
    static const char *const longer[] = {"<<=", ">>=", "...", "[[", "::", "->", "<<", ">>",
                                         "<=",  ">=",  "==",  "!=", "&&", "||", "++", "--",
                                         "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^="};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        size_t len = strlen(longer[i]);
        if ((size_t)(end - p) >= len && memcmp(p, longer[i], len) == 0) return len;
    }
    return *p > ' ' && *p < 0x7f && *p != '`' && *p != '@' && *p != '\\' ? 1 : 0;
}

/* # 12 "file": says where what follows comes from. Any other line is only passed on. */
static enum msl_token_kind read_directive(struct scan *s, size_t len) {
    const char *at = s->p + 1, *end = s->p + len;
    uint32_t line = 0;
    while (at < end && is_space(*at)) at++;
    if (at == end || !is_digit(*at)) return MSL_TOKEN_PRAGMA;
    while (at < end && is_digit(*at) && line < 100000000)
        line = line * 10 + (uint32_t)(*at++ - '0');
    while (at < end && *at == ' ') at++;
    if (at < end && *at == '"') {
        size_t quoted = quoted_bytes(at, end);
        if (quoted >= 2) {
            s->file = at + 1;
            s->n_file = (uint32_t)(quoted - 2);
        }
    }
    s->line = line ? line - 1 : 0; /* of this line; the next one has the number */
    return MSL_TOKEN_MARKER;
}

static size_t line_bytes(const char *p, const char *end) {
    const char *at = memchr(p, '\n', (size_t)(end - p));
    return (size_t)((at ? at : end) - p);
}

static enum msl_token_kind read_token(struct scan *s, size_t *len_out) {
    char c = *s->p;
    if (c == '#' && s->is_line_start) {
        *len_out = line_bytes(s->p, s->end);
        return read_directive(s, *len_out);
    }
    if (is_name_start(c)) {
        const char *at = s->p;
        while (at < s->end && (is_name_start(*at) || is_digit(*at))) at++;
        *len_out = (size_t)(at - s->p);
        return MSL_TOKEN_NAME;
    }
    if (is_digit(c) || (c == '.' && s->end - s->p > 1 && is_digit(s->p[1]))) {
        *len_out = number_bytes(s->p, s->end);
        return MSL_TOKEN_NUMBER;
    }
    if (c == '"' || c == '\'') {
        *len_out = quoted_bytes(s->p, s->end);
        return c == '"' ? MSL_TOKEN_STRING : MSL_TOKEN_CHAR;
    }
    *len_out = punct_bytes(s->p, s->end);
    return MSL_TOKEN_PUNCT;
}

static enum radish_status push(struct scan *s, const struct msl_token *token,
                               struct radish_error *err) {
    if (s->tokens->n == MSL_TOKENS_MAX)
        return error_set(err, RADISH_E_LIMIT, "more than %u tokens", MSL_TOKENS_MAX);
    if (s->tokens->n + 1 >= s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : TOKENS_FIRST;
        struct msl_token *at = realloc(s->tokens->at, capacity * sizeof *at);
        if (!at) return error_nomem(err);
        s->tokens->at = at;
        s->capacity = capacity;
    }
    s->tokens->at[s->tokens->n] = *token;
    return RADISH_OK;
}

static uint32_t skip_gap(struct scan *s) {
    const char *from = s->p;
    for (; s->p < s->end && is_space(*s->p); s->p++)
        if (*s->p == '\n') {
            s->line++;
            s->is_line_start = true;
        }
    return (uint32_t)(s->p - from);
}

static enum radish_status scan_all(struct scan *s, struct radish_error *err) {
    for (;;) {
        struct msl_token token = {.kind = MSL_TOKEN_END, .n_gap = skip_gap(s)};
        size_t len = 0;
        token.text = s->p;
        if (s->p < s->end) {
            token.kind = read_token(s, &len);
            if (!len)
                return error_set(err, RADISH_E_FORMAT, "%.*s:%u: no token begins with byte 0x%02x",
                                 (int)(s->n_file > 80 ? 80 : s->n_file), s->file, s->line,
                                 (unsigned)(unsigned char)*s->p);
        }
        token.len = (uint32_t)len;
        token.line = s->line;
        token.file = s->file;
        token.n_file = s->n_file;
        RADISH_TRY(push(s, &token, err));
        if (token.kind == MSL_TOKEN_END) return RADISH_OK;
        s->tokens->n++;
        s->p += len;
        s->is_line_start = false;
    }
}

enum radish_status msl_tokens_init(struct msl_tokens *tokens, const char *source, size_t len,
                                   struct radish_error *err) {
    *tokens = (struct msl_tokens){0};
    if (len > MSL_SOURCE_MAX)
        return error_set(err, RADISH_E_LIMIT, "the source is longer than %u bytes", MSL_SOURCE_MAX);
    struct scan s = {.p = source,
                     .end = source + len,
                     .file = "source",
                     .n_file = 6,
                     .line = 1,
                     .is_line_start = true,
                     .tokens = tokens};
    enum radish_status status = scan_all(&s, err);
    if (status != RADISH_OK) msl_tokens_deinit(tokens);
    return status;
}

void msl_tokens_deinit(struct msl_tokens *tokens) {
    free(tokens->at);
    *tokens = (struct msl_tokens){0};
}
