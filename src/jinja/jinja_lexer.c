/* jinja_lexer.c - Jinja's lexer with trim_blocks and lstrip_blocks on.
 *
 * What a template prints hangs on white space around tags, so the rules are Jinja's regular
 * expressions, one by one:
 *   - text before a tag that starts with '-' loses all white space at its end; before a block or
 *     comment tag (not a variable) without '+' it loses the blanks that stand alone on their line;
 *   - a block or comment that ends with '-' eats all white space behind it, one that ends plainly
 *     eats one line end, one that ends with '+' eats nothing; a variable only knows '-';
 *   - inside raw nothing is a tag but endraw, and the raw tag itself does not eat the line end.
 * Brackets are balanced while lexing: a '}}' inside open brackets is two brackets.
 * All tokens are made first, into one array: the parser looks ahead freely. */
#include "jinja_lexer.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"
#include "jinja_text.h"

#include <string.h>

enum { BRACKETS_MAX = 512, TOKENS_FIRST = 256 };

struct lexer {
    struct arena *arena;
    const char *s;
    size_t len, pos;
    uint32_t line;
    struct jinja_token *tokens;
    size_t n, capacity;
    char brackets[BRACKETS_MAX];
    size_t n_brackets;
    struct radish_error *err;
};

const char *jinja_token_name(enum jinja_token_type type) {
    static const char *const names[] = {"end of template",
                                        "template data / text",
                                        "begin of statement block",
                                        "end of statement block",
                                        "begin of print statement",
                                        "end of print statement",
                                        "name",
                                        "string",
                                        "integer",
                                        "float",
                                        "+",
                                        "-",
                                        "*",
                                        "/",
                                        "//",
                                        "%",
                                        "**",
                                        "~",
                                        "==",
                                        "!=",
                                        ">",
                                        ">=",
                                        "<",
                                        "<=",
                                        "=",
                                        ".",
                                        ":",
                                        "|",
                                        ",",
                                        ";",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}"};
    return names[type];
}

const char *jinja_normalize(struct arena *arena, const char *source, size_t len, size_t *len_out) {
    char *copy = arena_alloc(arena, len + 1);
    size_t n = 0;
    *len_out = 0;
    if (!copy) return NULL;
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r') {
            copy[n++] = '\n';
            if (i + 1 < len && source[i + 1] == '\n') i++;
        } else {
            copy[n++] = source[i];
        }
    }
    if (n && copy[n - 1] == '\n') n--;
    copy[n] = '\0';
    *len_out = n;
    return copy;
}

static enum radish_status push(struct lexer *lx, enum jinja_token_type type, const char *s,
                               size_t len) {
    if (lx->n == lx->capacity) {
        size_t capacity = lx->capacity ? lx->capacity * 2 : TOKENS_FIRST;
        struct jinja_token *tokens = arena_zalloc(lx->arena, capacity, sizeof(*tokens));
        if (!tokens)
            return error_set(lx->err, RADISH_E_LIMIT, "the template is too large to compile");
        if (lx->n) memcpy(tokens, lx->tokens, lx->n * sizeof(*tokens));
        lx->tokens = tokens;
        lx->capacity = capacity;
    }
    lx->tokens[lx->n++] = (struct jinja_token){(uint8_t)type, lx->line, (uint32_t)len, s};
    return RADISH_OK;
}

/* Goes on to `pos`, counting lines. */
static void advance(struct lexer *lx, size_t pos) {
    for (size_t i = lx->pos; i < pos; i++) lx->line += lx->s[i] == '\n';
    lx->pos = pos;
}

static bool has(const struct lexer *lx, size_t at, const char *text) {
    size_t n = strlen(text);
    return at <= lx->len && lx->len - at >= n && !memcmp(lx->s + at, text, n);
}

static size_t skip_spaces(const struct lexer *lx, size_t at) {
    size_t begin, end;
    jinja_text_strip(lx->s + at, lx->len - at, NULL, 0, JINJA_STRIP_LEFT, &begin, &end);
    return at + begin;
}

static size_t match_sign(const struct lexer *lx, size_t at) {
    return at < lx->len && (lx->s[at] == '-' || lx->s[at] == '+') ? 1 : 0;
}

/* Where a raw or endraw tag at `at` ends, or 0 when there is none. Gives its left sign. */
static size_t match_raw_tag(const struct lexer *lx, size_t at, const char *word, char *sign_out) {
    bool is_end = word[0] == 'e';
    if (!has(lx, at, "{%")) return 0;
    size_t sign = match_sign(lx, at + 2), p = skip_spaces(lx, at + 2 + sign);
    *sign_out = sign ? lx->s[at + 2] : ' ';
    if (!has(lx, p, word)) return 0;
    p = skip_spaces(lx, p + strlen(word));
    if (has(lx, p, "-%}")) return skip_spaces(lx, p + 3);
    if (is_end && has(lx, p, "+%}")) return p + 3;
    if (!has(lx, p, "%}")) return 0;
    p += 2;
    return is_end && p < lx->len && lx->s[p] == '\n' ? p + 1 : p;
}

/* Text [from, to) before a tag: what the tag's sign and lstrip_blocks leave of it. */
static enum radish_status push_text(struct lexer *lx, size_t to, char sign, bool is_variable) {
    const char *text = lx->s + lx->pos;
    size_t len = to - lx->pos, begin, end = len;
    if (sign == '-') {
        jinja_text_strip(text, len, NULL, 0, JINJA_STRIP_RIGHT, &begin, &end);
    } else if (sign != '+' && !is_variable) {
        size_t line_start = len;
        while (line_start && text[line_start - 1] != '\n') line_start--;
        bool is_at_line = line_start || !lx->pos || lx->s[lx->pos - 1] == '\n';
        jinja_text_strip(text + line_start, len - line_start, NULL, 0, JINJA_STRIP_LEFT, &begin,
                         &end);
        end = is_at_line && begin == len - line_start ? line_start : len;
    }
    enum radish_status status = end ? push(lx, JINJA_T_DATA, text, end) : RADISH_OK;
    advance(lx, to);
    return status;
}

static enum radish_status lex_comment(struct lexer *lx) {
    size_t at = lx->pos, next;
    while (!has(lx, at, "#}"))
        if (++at >= lx->len)
            return error_set(lx->err, RADISH_E_TEMPLATE, "Missing end of comment tag (line %u)",
                             lx->line);
    next = at + 2;
    char sign = at > lx->pos ? lx->s[at - 1] : ' ';
    if (sign == '-')
        next = skip_spaces(lx, next);
    else if (sign != '+' && next < lx->len && lx->s[next] == '\n')
        next++;
    advance(lx, next);
    return RADISH_OK;
}

static enum radish_status lex_raw(struct lexer *lx) {
    char sign = ' ';
    size_t at = lx->pos, next = 0;
    while (at < lx->len && !(next = match_raw_tag(lx, at, "endraw", &sign))) {
        /* Only a brace can start the tag: skip to the next one. */
        const char *brace = memchr(lx->s + at + 1, '{', lx->len - at - 1);
        at = brace ? (size_t)(brace - lx->s) : lx->len;
    }
    if (!next)
        return error_set(lx->err, RADISH_E_TEMPLATE, "Missing end of raw directive (line %u)",
                         lx->line);
    RADISH_TRY(push_text(lx, at, sign, /*is_variable=*/false));
    advance(lx, next);
    return RADISH_OK;
}

/* ---- inside a tag */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between; 0 = none. */
static size_t match_digits(const struct lexer *lx, size_t at) {
    size_t n = 0;
    while (at + n < lx->len &&
           (is_digit(lx->s[at + n]) ||
            (n && lx->s[at + n] == '_' && at + n + 1 < lx->len && is_digit(lx->s[at + n + 1]))))
        n++;
    return n;
}

static size_t match_float(const struct lexer *lx, size_t at) {
    size_t n = match_digits(lx, at), fraction = 0;
    if (!n || (at && lx->s[at - 1] == '.')) return 0;
    if (at + n < lx->len && lx->s[at + n] == '.') {
        fraction = match_digits(lx, at + n + 1);
        if (fraction) n += 1 + fraction;
    }
    size_t e = at + n;
    if (e < lx->len && (lx->s[e] | 0x20) == 'e') {
        size_t sign = match_sign(lx, e + 1), digits = match_digits(lx, e + 1 + sign);
        if (digits) return n + 1 + sign + digits;
    }
    return fraction ? n : 0;
}

static size_t match_integer(const struct lexer *lx, size_t at) {
    size_t n = match_digits(lx, at);
    if (!n) return 0;
    if (lx->s[at] != '0') return n;
    char base = at + 1 < lx->len ? (char)(lx->s[at + 1] | 0x20) : ' ';
    if (base == 'x' || base == 'o' || base == 'b') {
        size_t i = at + 2;
        while (i < lx->len) {
            char c = (char)(lx->s[i] | 0x20);
            bool is_ok = base == 'b'   ? c == '0' || c == '1'
                         : base == 'o' ? c >= '0' && c <= '7'
                                       : is_digit(c) || (c >= 'a' && c <= 'f');
            if (!is_ok && !(lx->s[i] == '_' && i + 1 < lx->len && lx->s[i + 1] != '_')) break;
            i++;
        }
        while (i > at + 2 && lx->s[i - 1] == '_') i--;
        if (i > at + 2) return i - at;
    }
    n = 1;
    while (at + n < lx->len &&
           (lx->s[at + n] == '0' ||
            (lx->s[at + n] == '_' && at + n + 1 < lx->len && lx->s[at + n + 1] == '0')))
        n++;
    return n;
}

static size_t match_name(const struct lexer *lx, size_t at) {
    size_t n = 0;
    while (at + n < lx->len) {
        uint32_t cp;
        size_t len = utf8_decode(lx->s + at + n, lx->len - at - n, &cp);
        if (!jinja_text_is_word(cp) && !(cp >= 0x80 && n)) break;
        if (cp >= 0x80 && !jinja_text_is(lx->s + at + n, len, JINJA_CLASS_IDENTIFIER) &&
            !jinja_text_is_word(cp))
            break;
        n += len;
    }
    return n;
}

/* 0 = not closed. */
static size_t match_string(const struct lexer *lx, size_t at) {
    char quote = lx->s[at];
    for (size_t i = at + 1; i < lx->len; i++) {
        if (lx->s[i] == '\\')
            i++;
        else if (lx->s[i] == quote)
            return i + 1 - at;
    }
    return 0;
}

static size_t match_operator(const struct lexer *lx, size_t at, enum jinja_token_type *type_out) {
    static const enum jinja_token_type doubles[] = {JINJA_T_FLOORDIV, JINJA_T_POW, JINJA_T_EQ,
                                                    JINJA_T_NE,       JINJA_T_GE,  JINJA_T_LE};
    for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
        *type_out = doubles[i];
        if (has(lx, at, jinja_token_name(doubles[i]))) return 2;
    }
    for (int type = JINJA_T_ADD; type <= JINJA_T_RBRACE; type++) {
        const char *name = jinja_token_name((enum jinja_token_type)type);
        *type_out = (enum jinja_token_type)type;
        if (!name[1] && lx->s[at] == name[0]) return 1;
    }
    return 0;
}

static enum radish_status balance(struct lexer *lx, char c) {
    const char *open = strchr("([{", c), *close = strchr(")]}", c);
    if (open && *open) {
        if (lx->n_brackets == BRACKETS_MAX)
            return error_set(lx->err, RADISH_E_LIMIT, "brackets are nested too deep (line %u)",
                             lx->line);
        lx->brackets[lx->n_brackets++] = ")]}"[open - "([{"];
        return RADISH_OK;
    }
    if (!close || !*close) return RADISH_OK;
    if (!lx->n_brackets)
        return error_set(lx->err, RADISH_E_TEMPLATE, "unexpected '%c' (line %u)", c, lx->line);
    char want = lx->brackets[--lx->n_brackets];
    if (want != c)
        return error_set(lx->err, RADISH_E_TEMPLATE, "unexpected '%c', expected '%c' (line %u)", c,
                         want, lx->line);
    return RADISH_OK;
}

static enum radish_status lex_token(struct lexer *lx) {
    enum jinja_token_type type = JINJA_T_FLOAT;
    size_t at = lx->pos, n = match_float(lx, at);
    char c = lx->s[at];
    if (!n) type = JINJA_T_INTEGER, n = match_integer(lx, at);
    if (!n) type = JINJA_T_NAME, n = match_name(lx, at);
    if (!n && (c == '"' || c == '\'')) type = JINJA_T_STRING, n = match_string(lx, at);
    if (!n) {
        n = match_operator(lx, at, &type);
        if (n == 1) RADISH_TRY(balance(lx, c));
    }
    if (!n) {
        uint32_t cp;
        n = utf8_decode(lx->s + at, lx->len - at, &cp);
        return error_set(lx->err, RADISH_E_TEMPLATE, "unexpected char '%.*s' at %zu (line %u)",
                         (int)n, lx->s + at, at, lx->line);
    }
    if (type == JINJA_T_NAME && !jinja_text_is(lx->s + at, n, JINJA_CLASS_IDENTIFIER))
        return error_set(lx->err, RADISH_E_TEMPLATE, "Invalid character in identifier (line %u)",
                         lx->line);
    RADISH_TRY(push(lx, type, lx->s + at, n));
    advance(lx, at + n);
    return RADISH_OK;
}

/* Where the end of this tag at pos ends, or 0. */
static size_t match_tag_end(const struct lexer *lx, bool is_variable) {
    const char *end = is_variable ? "}}" : "%}";
    size_t at = lx->pos;
    if (at < lx->len && lx->s[at] == '-' && has(lx, at + 1, end)) return skip_spaces(lx, at + 3);
    if (!is_variable && has(lx, at, "+%}")) return at + 3;
    if (!has(lx, at, end)) return 0;
    return !is_variable && at + 2 < lx->len && lx->s[at + 2] == '\n' ? at + 3 : at + 2;
}

static enum radish_status lex_tag(struct lexer *lx, bool is_variable) {
    RADISH_TRY(push(lx, is_variable ? JINJA_T_VARIABLE_BEGIN : JINJA_T_BLOCK_BEGIN,
                    lx->s + lx->pos - 2, 2));
    lx->n_brackets = 0;
    for (;;) {
        size_t end = lx->n_brackets ? 0 : match_tag_end(lx, is_variable);
        if (end) {
            RADISH_TRY(push(lx, is_variable ? JINJA_T_VARIABLE_END : JINJA_T_BLOCK_END,
                            lx->s + lx->pos, 2));
            advance(lx, end);
            return RADISH_OK;
        }
        size_t next = skip_spaces(lx, lx->pos);
        if (next > lx->pos) {
            advance(lx, next);
            continue;
        }
        if (lx->pos >= lx->len) return RADISH_OK; /* the parser sees the end of the template */
        RADISH_TRY(lex_token(lx));
    }
}

/* The text up to the next tag, and the tag. */
static enum radish_status lex_root(struct lexer *lx) {
    size_t at = lx->pos, raw_end = 0;
    char sign = ' ', kind = ' ';
    for (; at < lx->len; at++) {
        const char *brace = memchr(lx->s + at, '{', lx->len - at);
        at = brace ? (size_t)(brace - lx->s) : lx->len;
        kind = at + 1 < lx->len ? lx->s[at + 1] : ' ';
        if (kind == '%' || kind == '{' || kind == '#') break;
    }
    if (at >= lx->len) {
        enum radish_status status = push(lx, JINJA_T_DATA, lx->s + lx->pos, lx->len - lx->pos);
        advance(lx, lx->len);
        return status;
    }
    raw_end = match_raw_tag(lx, at, "raw", &sign);
    size_t n_sign = match_sign(lx, at + 2);
    sign = n_sign ? lx->s[at + 2] : ' ';
    RADISH_TRY(push_text(lx, at, sign, kind == '{'));
    if (raw_end) {
        advance(lx, raw_end);
        return lex_raw(lx);
    }
    advance(lx, at + 2 + n_sign);
    return kind == '#' ? lex_comment(lx) : lex_tag(lx, kind == '{');
}

enum radish_status jinja_lex(struct arena *arena, const char *source, size_t len,
                             struct jinja_token **tokens_out, size_t *n_out,
                             struct radish_error *err) {
    struct lexer lx = {.arena = arena, .s = source, .len = len, .line = 1, .err = err};
    *tokens_out = NULL;
    *n_out = 0;
    while (lx.pos < len) RADISH_TRY(lex_root(&lx));
    RADISH_TRY(push(&lx, JINJA_T_EOF, source + len, 0));
    *tokens_out = lx.tokens;
    *n_out = lx.n;
    return RADISH_OK;
}
