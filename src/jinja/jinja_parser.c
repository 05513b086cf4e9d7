/* jinja_parser.c - what expressions and statements share: nodes, tokens, names, literals, failure.
 *
 * Two bounds keep every later walk of the tree safe. Brackets and tags nest at most
 * JINJA_PARSE_DEPTH_MAX deep, which bounds this parser's recursion; and no tree is higher than
 * JINJA_HEIGHT_MAX, which also bounds chains such as a+b+c+... that grow without nesting.
 *
 * Names are interned: one struct per distinct name, so that later steps compare pointers and the
 * render looks variables up by number. While a body is parsed, mentions of `loop`, `caller`,
 * `kwargs`, `varargs` and `self` are noted: they decide what a loop, macro or block has to provide,
 * and searching the finished tree for them would cost a walk per level of nesting. */
#include "jinja_parser.h"

#include "base/status.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failure, nodes, tokens */

void *parser_fail(struct jinja_parser *p, uint32_t line, const char *fmt, ...) {
    char msg[JINJA_MSG_BYTES];
    va_list args;
    if (p->status != RADISH_OK) return NULL;
    va_start(args, fmt);
    vsnprintf(msg, sizeof(msg), fmt, args);
    va_end(args);
    msg[utf8_valid_prefix(msg, strlen(msg))] = '\0';
    p->status = error_set(p->err, RADISH_E_TEMPLATE, "%s (line %u)", msg, line);
    return NULL;
}

void *parser_fail_limit(struct jinja_parser *p, const char *what) {
    if (p->status == RADISH_OK)
        p->status =
            error_set(p->err, RADISH_E_LIMIT, "the template %s (line %u)", what, p->at->line);
    return NULL;
}

void *parser_alloc(struct jinja_parser *p, size_t n, size_t size) {
    void *mem = arena_zalloc(&p->t->arena, n, size);
    return mem ? mem : parser_fail_limit(p, "is too large to compile");
}

struct jinja_node *parser_node(struct jinja_parser *p, enum jinja_node_type type, uint32_t line) {
    struct jinja_node *node = parser_alloc(p, 1, sizeof(*node));
    if (!node) return NULL;
    node->type = (uint8_t)type;
    node->line = line;
    node->height = 1;
    return node;
}

struct jinja_node *parser_adopt(struct jinja_parser *p, struct jinja_node *node,
                                const struct jinja_node *child) {
    if (!node || !child) return NULL;
    if (child->height >= JINJA_HEIGHT_MAX) return parser_fail_limit(p, "is nested too deep");
    if (node->height <= child->height) node->height = (uint16_t)(child->height + 1);
    return node;
}

/* The capacity of a list is the power of two from 4 that holds it. */
bool parser_push(struct jinja_parser *p, struct jinja_list_node *list, struct jinja_node *item) {
    if (!item) return false;
    if (list->n == 0 || (list->n >= 4 && (list->n & (list->n - 1)) == 0)) {
        size_t capacity = list->n ? (size_t)list->n * 2 : 4;
        struct jinja_node **items = parser_alloc(p, capacity, sizeof(struct jinja_node *));
        if (!items) return false;
        for (uint32_t i = 0; i < list->n; i++) items[i] = list->items[i];
        list->items = items;
    }
    list->items[list->n++] = item;
    return true;
}

bool parser_is_word(const struct jinja_parser *p, const char *word) {
    return p->at->type == JINJA_T_NAME && p->at->len == strlen(word) &&
           !memcmp(p->at->s, word, p->at->len);
}

bool parser_skip_word(struct jinja_parser *p, const char *word) {
    bool is_it = parser_is_word(p, word);
    if (is_it) parser_next(p);
    return is_it;
}

bool parser_skip(struct jinja_parser *p, enum jinja_token_type type) {
    bool is_it = parser_is(p, type);
    if (is_it) parser_next(p);
    return is_it;
}

static void *fail_unexpected(struct jinja_parser *p, const char *wanted) {
    const struct jinja_token *token = p->at;
    if (token->type == JINJA_T_EOF)
        return parser_fail(p, token->line, "unexpected end of template, expected '%s'.", wanted);
    if (token->type == JINJA_T_NAME)
        return parser_fail(p, token->line, "expected token '%s', got '%.*s'", wanted,
                           token->len > 80 ? 80 : (int)token->len, token->s);
    return parser_fail(p, token->line, "expected token '%s', got '%s'", wanted,
                       jinja_token_name((enum jinja_token_type)token->type));
}

bool parser_expect(struct jinja_parser *p, enum jinja_token_type type) {
    if (parser_skip(p, type)) return true;
    fail_unexpected(p, jinja_token_name(type));
    return false;
}

bool parser_enter(struct jinja_parser *p) {
    if (++p->depth <= JINJA_PARSE_DEPTH_MAX) return true;
    p->depth--;
    parser_fail_limit(p, "is nested too deep");
    return false;
}

/* ---- names */

struct jinja_name *parser_intern(struct jinja_parser *p, const struct jinja_token *token) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < token->len; i++)
        hash = (hash ^ (unsigned char)token->s[i]) * 16777619u;
    struct jinja_name **bucket = &p->buckets[hash % JINJA_NAME_BUCKETS];
    for (struct jinja_name *name = *bucket; name; name = name->next_in_bucket)
        if (jinja_is_str(&name->text, token->s, token->len)) return name;
    struct jinja_template *t = p->t;
    if (t->n_names == p->names_capacity) {
        size_t capacity = p->names_capacity ? p->names_capacity * 2 : 64;
        struct jinja_name **names = parser_alloc(p, capacity, sizeof(struct jinja_name *));
        if (!names) return NULL;
        for (size_t i = 0; i < t->n_names; i++) names[i] = t->names[i];
        t->names = names;
        p->names_capacity = capacity;
    }
    struct jinja_name *name = parser_alloc(p, 1, sizeof(*name));
    if (!name) return NULL;
    name->text = jinja_str(token->s, token->len);
    name->id = (uint32_t)t->n_names;
    name->next_in_bucket = *bucket;
    *bucket = name;
    t->names[t->n_names++] = name;
    return name;
}

void parser_mention(struct jinja_parser *p, const struct jinja_token *token,
                    enum jinja_name_ctx ctx) {
    static const char *const specials[] = {"loop", "caller", "kwargs", "varargs", "self"};
    int which = 0;
    while (which < JINJA_N_SPECIALS && (strlen(specials[which]) != token->len ||
                                        memcmp(specials[which], token->s, token->len) != 0))
        which++;
    if (which == JINJA_N_SPECIALS) return;
    for (struct jinja_body_mentions *m = p->mentions; m; m = m->outer) {
        if (ctx != JINJA_LOAD)
            m->is_set[which] = true;
        else if (!m->is_set[which])
            m->is_used[which] = true;
    }
}

struct jinja_node *parser_name(struct jinja_parser *p, const struct jinja_token *token,
                               enum jinja_name_ctx ctx) {
    struct jinja_node *node = parser_node(p, JINJA_N_NAME, token->line);
    struct jinja_name *name = parser_intern(p, token);
    if (!node || !name) return NULL;
    parser_mention(p, token, ctx);
    node->as.name.name = name;
    node->as.name.ctx = (uint8_t)ctx;
    return node;
}

/* ---- literals */

static bool hex_digits(const char *s, size_t n, uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            *out = *out << 4 | (uint32_t)(low - 'a' + 10);
        else
            return false;
    }
    return true;
}

/* The escape at s[0] = '\\', s[1..n): appends what it stands for; returns its length, 0 = broken.
 */
static size_t unescape(const char *s, size_t n, struct buf *out) {
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    uint32_t cp = 0;
    for (const char *e = plain; *e; e += 2)
        if (n > 1 && s[1] == e[0]) {
            buf_append_char(out, e[1]);
            return 2;
        }
    if (n > 1 && s[1] == '\n') return 2;
    if (n > 1 && s[1] >= '0' && s[1] <= '7') {
        size_t i = 1;
        for (; i < n && i < 4 && s[i] >= '0' && s[i] <= '7'; i++)
            cp = cp * 8 + (uint32_t)(s[i] - '0');
        buf_append_utf8(out, cp);
        return i;
    }
    size_t digits = n > 1 && s[1] == 'x'   ? 2
                    : n > 1 && s[1] == 'u' ? 4
                    : n > 1 && s[1] == 'U' ? 8
                                           : 0;
    if (digits) {
        if (n < 2 + digits || !hex_digits(s + 2, digits, &cp) || cp > 0x10FFFF) return 0;
        buf_append_utf8(out, cp);
        return 2 + digits;
    }
    if (n > 1 && s[1] == 'N') return 0; /* names of characters */
    buf_append_char(out, '\\');
    return 1;
}

static bool append_string(struct jinja_parser *p, const struct jinja_token *token,
                          struct buf *out) {
    const char *s = token->s + 1;
    size_t len = token->len - 2u;
    for (size_t i = 0; i < len;) {
        const char *slash = memchr(s + i, '\\', len - i);
        size_t n = slash ? (size_t)(slash - s) - i : len - i;
        buf_append(out, s + i, n);
        i += n;
        if (i == len) break;
        n = unescape(s + i, len - i, out);
        if (!n) return parser_fail(p, token->line, "broken escape in a string") != NULL;
        i += n;
    }
    return true;
}

struct jinja_node *parser_string(struct jinja_parser *p) {
    struct jinja_node *node = parser_node(p, JINJA_N_CONST, p->at->line);
    const struct jinja_token *token = p->at;
    if (!node) return NULL;
    parser_next(p);
    if (!parser_is(p, JINJA_T_STRING) && !memchr(token->s, '\\', token->len)) {
        node->as.value = jinja_str(token->s + 1, token->len - 2u);
        return node;
    }
    struct buf b;
    buf_init(&b, 0);
    bool is_ok = append_string(p, token, &b);
    for (; is_ok && parser_is(p, JINJA_T_STRING); parser_next(p))
        is_ok = append_string(p, p->at, &b);
    char *copy = is_ok ? parser_alloc(p, b.len + 1, 1) : NULL;
    if (copy && b.len) memcpy(copy, b.data, b.len);
    if (copy) node->as.value = jinja_str(copy, b.len);
    if (is_ok && b.failed) copy = parser_fail_limit(p, "is too large to compile");
    buf_deinit(&b);
    return copy ? node : NULL;
}

struct jinja_node *parser_number(struct jinja_parser *p) {
    const struct jinja_token *token = p->at;
    struct jinja_node *node = parser_node(p, JINJA_N_CONST, token->line);
    if (!node) return NULL;
    parser_next(p);
    if (token->type == JINJA_T_FLOAT) {
        double d;
        if (!jinja_parse_double(token->s, token->len, &d))
            return parser_fail(p, token->line, "this number cannot be read");
        node->as.value = jinja_float(d);
        return node;
    }
    jinja_wide wide;
    if (!jinja_parse_wide(token->s, token->len, 0, &wide))
        return parser_fail(p, token->line, "this integer is too large");
    node->as.value = jinja_int((int64_t)wide);
    if (wide > INT64_MAX) {
        jinja_wide *big = parser_alloc(p, 1, sizeof(*big));
        if (!big) return NULL;
        *big = wide;
        node->as.value = (struct jinja_value){.kind = JINJA_BIG, .as.big = big};
    }
    return node;
}

enum radish_status jinja_parse(struct jinja_template *t, const char *source, size_t len,
                               struct radish_error *err) {
    struct jinja_token *tokens;
    size_t n_tokens;
    struct jinja_parser *p = arena_zalloc(&t->arena, 1, sizeof(*p));
    t->source = jinja_normalize(&t->arena, source, len, &t->source_len);
    if (!p || !t->source) return error_nomem(err);
    RADISH_TRY(jinja_lex(&t->arena, t->source, t->source_len, &tokens, &n_tokens, err));
    struct jinja_body_mentions mentions = {.outer = NULL};
    p->t = t;
    p->at = tokens;
    p->err = err;
    p->mentions = &mentions;
    parser_template(p, &t->body);
    t->has_self = mentions.is_used[JINJA_SPECIAL_SELF];
    return p->status;
}
