/* jinja_filter_html.c - filters for web pages: striptags, xmlattr, urlize.
 *
 * Chat templates have no use for them, but transformers' Jinja has them, and a template that names
 * one in a branch no chat takes must still render. They follow markupsafe and jinja2.utils step by
 * step. What a link is decides a regular expression there and here (PCRE2, with a bound on its
 * work); it is compiled per call, since a table kept for a filter that nobody uses would be state
 * to guard. */
#include "jinja_builtin.h"

#include "base/utf8.h"
#include "jinja_entities.h"
#include "jinja_markup.h"
#include "jinja_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { MATCH_STEPS_MAX = 200000, MATCH_HEAP_KB_MAX = 16384, ENTITY_CHARS_MAX = 32 };

static bool is_given(const struct jinja_value *v) {
    return v->kind != JINJA_MISSING && v->kind != JINJA_NONE;
}

/* ---- striptags */

static uint32_t replace_windows_code(uint32_t number) {
    static const uint16_t codes[32] = {
        0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
        0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
    return codes[number - 0x80];
}

static bool is_no_character(uint32_t number) {
    return (number >= 1 && number <= 8) || number == 0xB || (number >= 0xE && number <= 0x1F) ||
           (number >= 0x7F && number <= 0x9F) || (number >= 0xFDD0 && number <= 0xFDEF) ||
           (number & 0xFFFE) == 0xFFFE;
}

static int digit_of(char c, unsigned base) {
    char low = (char)(c | 0x20);
    if (c >= '0' && c <= '9') return c - '0';
    return base == 16 && low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* "#65;" and the like at s; the bytes taken, 0 = none. */
static size_t unescape_number(const char *s, size_t len, struct buf *out) {
    unsigned base = len > 1 && (s[1] | 0x20) == 'x' ? 16 : 10;
    size_t at = base == 16 ? 2 : 1, first = at;
    uint32_t number = 0;
    for (; at < len && digit_of(s[at], base) >= 0; at++)
        if (number <= 0x10FFFF) number = number * base + (uint32_t)digit_of(s[at], base);
    if (at == first) return 0;
    if (at < len && s[at] == ';') at++;
    if (number >= 0x80 && number <= 0x9F)
        buf_append_utf8(out, replace_windows_code(number));
    else if (number == 0 || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF))
        buf_append_utf8(out, 0xFFFD);
    else if (!is_no_character(number))
        buf_append_utf8(out, number);
    return at;
}

/* "amp;" and the like at s, with the longest old name that fits where the whole is none. */
static size_t unescape_name(const char *s, size_t len, struct buf *out) {
    const char *text;
    size_t at = 0, n_chars = 0, n;
    bool is_old;
    for (; at < len && n_chars < ENTITY_CHARS_MAX && !strchr("\t\n\f <&#;", s[at]); n_chars++)
        at += jinja_text_offset(s + at, len - at, 1);
    if (!at) return 0;
    bool has_end = at < len && s[at] == ';';
    if (jinja_entity_find(s, at, &text, &n, &is_old) && (has_end || is_old)) {
        buf_append(out, text, n);
        return at + has_end;
    }
    for (size_t part = has_end ? at : at - 1; part > 1; part--)
        if (jinja_entity_find(s, part, &text, &n, &is_old) && is_old) {
            buf_append(out, text, n);
            return part;
        }
    return 0;
}

/* html.unescape() */
static void unescape(const char *s, size_t len, struct buf *out) {
    for (size_t at = 0; at < len && !out->failed;) {
        const char *sign = memchr(s + at, '&', len - at);
        size_t to = sign ? (size_t)(sign - s) : len, taken = 0;
        buf_append(out, s + at, to - at);
        at = to + 1;
        if (at < len)
            taken = (s[at] == '#' ? unescape_number : unescape_name)(s + at, len - at, out);
        if (to < len && !taken) buf_append_char(out, '&');
        at += taken;
    }
}

/* The text outside of <tags> and <!-- comments -->. */
static void drop_tags(const char *s, size_t len, struct buf *out) {
    size_t at = 0, end;
    for (;;) {
        const char *open = memchr(s + at, '<', len - at);
        if (!open) break;
        size_t start = (size_t)(open - s);
        bool is_comment = len - start >= 4 && !memcmp(open, "<!--", 4);
        size_t from = is_comment ? start + 4 : start;
        if (!jinja_text_find(s + from, len - from, is_comment ? "-->" : ">", is_comment ? 3 : 1,
                             &end))
            break;
        buf_append(out, s + at, start - at);
        at = from + end + (is_comment ? 3 : 1);
    }
    buf_append(out, s + at, len - at);
}

/* Runs of white space as one space, none at the ends. */
static void collapse_spaces(const char *s, size_t len, struct buf *out) {
    bool is_space = false;
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t cp;
        n = utf8_decode(s + at, len - at, &cp);
        bool was_space = is_space;
        is_space = jinja_text_is_space(cp);
        if (is_space) continue;
        if (was_space && out->len) buf_append_char(out, ' ');
        buf_append(out, s + at, n);
    }
}

bool jinja_filter_striptags(struct jinja_run *run, const struct jinja_call *call,
                            struct jinja_value *out) {
    struct jinja_value s;
    struct buf bare, spaced, b;
    if (!jinja_to_str(run, &call->a[0], &s)) return false;
    jinja_buf_init(run, &bare);
    jinja_buf_init(run, &spaced);
    jinja_buf_init(run, &b);
    drop_tags(s.as.s, s.len, &bare);
    if (bare.len) collapse_spaces(bare.data, bare.len, &spaced);
    if (spaced.len) unescape(spaced.data, spaced.len, &b);
    b.failed = b.failed || bare.failed || spaced.failed;
    buf_deinit(&bare);
    buf_deinit(&spaced);
    return jinja_str_take(run, &b, out);
}

/* ---- xmlattr */

static bool append_escaped(struct jinja_run *run, const struct jinja_value *v, struct buf *out) {
    struct jinja_value s;
    if (!jinja_escape(run, v, &s)) return false;
    buf_append(out, s.as.s, s.len);
    return true;
}

static bool append_attribute(struct jinja_run *run, const struct jinja_entry *entry,
                             struct buf *out) {
    if (!jinja_arg_str(run, &entry->key, "an attribute's name")) return false;
    for (uint32_t i = 0; i < entry->key.len; i++) {
        char c = entry->key.as.s[i];
        if (c == ' ' || (c >= '\t' && c <= '\r') || c == '/' || c == '>' || c == '=')
            return jinja_fail(run, "Invalid character in attribute name: '%.*s'",
                              entry->key.len > 80 ? 80 : (int)entry->key.len, entry->key.as.s);
    }
    if (out->len) buf_append_char(out, ' ');
    if (!append_escaped(run, &entry->key, out)) return false;
    buf_append_str(out, "=\"");
    if (!append_escaped(run, &entry->value, out)) return false;
    buf_append_char(out, '"');
    return true;
}

bool jinja_filter_xmlattr(struct jinja_run *run, const struct jinja_call *call,
                          struct jinja_value *out) {
    const struct jinja_value *v = &call->a[0];
    struct jinja_value text;
    struct buf b;
    bool is_ok = true;
    if (v->kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, v);
    if (v->kind != JINJA_DICT)
        return jinja_fail(run, "'%s' object has no attribute 'items'", jinja_type_name(v->kind));
    jinja_buf_init(run, &b);
    for (uint32_t i = 0; is_ok && i < v->as.dict->n && !b.failed; i++) {
        const struct jinja_entry *entry = &v->as.dict->entries[i];
        if (entry->value.kind == JINJA_NONE || entry->value.kind == JINJA_UNDEFINED) continue;
        is_ok = append_attribute(run, entry, &b);
    }
    if (!is_ok) buf_deinit(&b);
    if (!is_ok || !jinja_str_take(run, &b, &text)) return false;
    struct jinja_value space = jinja_str(" ", 1);
    bool has_space = call->a[1].kind == JINJA_MISSING || jinja_truth(&call->a[1]);
    *out = text;
    return !has_space || !text.len || jinja_concat(run, &space, &text, out);
}

/* ---- urlize */

struct urlize {
    struct jinja_run *run;
    pcre2_code *http, *email, *scheme;
    pcre2_match_data *match;
    pcre2_match_context *context;
    struct jinja_list schemes;
    bool has_limit;
    int64_t limit;
    struct buf attributes; /* rel="..." target="..." */
    struct buf out;
};

/* White space never stands in what is matched, so '.' is their \S. */
static const char http_pattern[] =
    "^((https?://|www\\.)(([\\w%-]+\\.)+)?([a-z]{2,63}|xn--[\\w%]{2,59})|"
    "([\\w%-]{2,63}\\.)+(com|net|int|edu|gov|org|info|mil)|"
    "(https?://)((([\\d]{1,3})(\\.[\\d]{1,3}){3})|"
    "(\\[([\\da-f]{0,4}:){2}([\\da-f]{0,4}:?){1,6}\\])))(?::[\\d]{1,5})?(?:[/?#].*)?\\z";
static const char email_pattern[] = "^.+@\\w[\\w.-]*\\.\\w+\\z";
static const char scheme_pattern[] = "^([\\w.+-]{2,}:(/){0,2})\\z";

static pcre2_code *compile(const char *pattern, uint32_t more) {
    int code;
    PCRE2_SIZE at;
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL | PCRE2_NO_UTF_CHECK | more, &code,
                         &at, NULL);
}

static bool urlize_init(struct urlize *u, struct jinja_run *run) {
    *u = (struct urlize){.run = run};
    jinja_buf_init(run, &u->attributes);
    jinja_buf_init(run, &u->out);
    u->http = compile(http_pattern, PCRE2_CASELESS);
    u->email = compile(email_pattern, 0);
    u->scheme = compile(scheme_pattern, 0);
    u->match = pcre2_match_data_create(1, NULL);
    u->context = pcre2_match_context_create(NULL);
    if (!u->http || !u->email || !u->scheme || !u->match || !u->context)
        return jinja_fail_limit(run, "memory");
    pcre2_set_match_limit(u->context, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(u->context, MATCH_HEAP_KB_MAX);
    return true;
}

static void urlize_deinit(struct urlize *u) {
    pcre2_code_free(u->http);
    pcre2_code_free(u->email);
    pcre2_code_free(u->scheme);
    pcre2_match_data_free(u->match);
    pcre2_match_context_free(u->context);
    buf_deinit(&u->attributes);
    buf_deinit(&u->out);
}

static bool matches(struct urlize *u, const pcre2_code *code, const char *s, size_t len) {
    if (!jinja_charge(u->run, len + 1)) return false;
    int n = pcre2_match(code, (PCRE2_SPTR)s, len, 0, PCRE2_NO_UTF_CHECK, u->match, u->context);
    if (n < 0 && n != PCRE2_ERROR_NOMATCH) jinja_fail_limit(u->run, "steps");
    return n >= 0;
}

static bool starts(const char *s, size_t len, const char *with) {
    return len >= strlen(with) && !memcmp(s, with, strlen(with));
}

static bool ends(const char *s, size_t len, const char *with) {
    return len >= strlen(with) && !memcmp(s + len - strlen(with), with, strlen(with));
}

static void put_link(struct urlize *u, const char *scheme, const char *s, size_t len) {
    buf_append_str(&u->out, "<a href=\"");
    buf_append_str(&u->out, scheme);
    buf_append(&u->out, s, len);
    buf_append_char(&u->out, '"');
}

static void put_shown(struct urlize *u, const char *s, size_t len, bool is_trimmed) {
    int64_t n = is_trimmed && u->has_limit ? (int64_t)utf8_count(s, len) : 0;
    bool is_long = is_trimmed && u->has_limit && n > u->limit;
    int64_t keep = u->limit < 0 ? n + u->limit : u->limit;
    buf_append_char(&u->out, '>');
    buf_append(&u->out, s, is_long ? jinja_text_offset(s, len, keep < 0 ? 0 : (size_t)keep) : len);
    buf_append_str(&u->out, is_long ? "...</a>" : "</a>");
}

static void put_attributes(struct urlize *u) {
    buf_append(&u->out, u->attributes.data ? u->attributes.data : "", u->attributes.len);
}

/* A word that starts with a scheme of the template's own. Each match wraps what the one before
 * left, as there; a text that was wrapped starts with none of them any more. */
static void put_with_scheme(struct urlize *u, const char *s, size_t len) {
    for (size_t i = 0; i < u->schemes.n; i++) {
        const struct jinja_value *scheme = &u->schemes.items[i];
        if (len <= scheme->len || memcmp(s, scheme->as.s, scheme->len) != 0) continue;
        put_link(u, "", s, len);
        put_attributes(u);
        put_shown(u, s, len, /*is_trimmed=*/false);
        return;
    }
    buf_append(&u->out, s, len);
}

static void put_middle(struct urlize *u, const char *s, size_t len) {
    if (matches(u, u->http, s, len)) {
        bool has_scheme = starts(s, len, "https://") || starts(s, len, "http://");
        put_link(u, has_scheme ? "" : "https://", s, len);
        put_attributes(u);
        put_shown(u, s, len, /*is_trimmed=*/true);
    } else if (starts(s, len, "mailto:") && matches(u, u->email, s + 7, len - 7)) {
        put_link(u, "", s, len);
        put_shown(u, s + 7, len - 7, /*is_trimmed=*/false);
    } else if (memchr(s, '@', len) && !starts(s, len, "www.") && s[0] != '@' &&
               !memchr(s, ':', len) && matches(u, u->email, s, len)) {
        put_link(u, "mailto:", s, len);
        put_shown(u, s, len, /*is_trimmed=*/false);
    } else {
        put_with_scheme(u, s, len);
    }
}

/* Moves *end right, over closing brackets that balance opening ones in s[begin..*end). */
static void balance(const char *s, size_t len, size_t begin, size_t *end) {
    static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    for (size_t i = 0; i < 3; i++) {
        const char *open = pairs[i][0], *close = pairs[i][1];
        size_t n_open = jinja_text_count(s + begin, *end - begin, open, strlen(open)), at;
        if (n_open <= jinja_text_count(s + begin, *end - begin, close, strlen(close))) continue;
        for (; n_open && jinja_text_find(s + *end, len - *end, close, strlen(close), &at); n_open--)
            *end += at + strlen(close);
    }
}

/* Brackets before a word, and brackets and points behind it, are no part of a link. */
static void put_word(struct urlize *u, const char *s, size_t len) {
    static const char *const heads[] = {"(", "<", "&lt;"};
    static const char *const tails[] = {")", ">", ".", ",", "&gt;"};
    size_t begin = 0, end = len, before;
    do {
        before = begin;
        for (size_t i = 0; i < 3; i++)
            if (starts(s + begin, len - begin, heads[i])) begin += strlen(heads[i]);
    } while (begin != before);
    do {
        before = end;
        for (size_t i = 0; i < 5; i++)
            if (ends(s + begin, end - begin, tails[i])) end -= strlen(tails[i]);
    } while (end != before);
    balance(s, len, begin, &end);
    buf_append(&u->out, s, begin);
    if (end > begin) put_middle(u, s + begin, end - begin);
    buf_append(&u->out, s + end, len - end);
}

static void put_words(struct urlize *u, const char *s, size_t len) {
    for (size_t at = 0, from = 0; from < len && !u->out.failed && !u->run->status; from = at) {
        uint32_t cp;
        bool is_space = false;
        for (size_t n; at < len; at += n) {
            n = utf8_decode(s + at, len - at, &cp);
            if (at == from) is_space = jinja_text_is_space(cp);
            if (jinja_text_is_space(cp) != is_space) break;
        }
        if (is_space)
            buf_append(&u->out, s + from, at - from);
        else
            put_word(u, s + from, at - from);
    }
}

static bool is_before(const struct jinja_value *a, const struct jinja_value *b) {
    size_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->as.s, b->as.s, len);
    return order < 0 || (!order && a->len < b->len);
}

/* rel: the template's words, "nofollow" if asked for and "noopener", sorted, each once. */
static bool make_rel(struct urlize *u, const struct jinja_value *rel, bool is_nofollow) {
    struct jinja_vec words = {0};
    struct jinja_list given = {0};
    struct jinja_value v, noopener = jinja_str("noopener", 8), nofollow = jinja_str("nofollow", 8);
    if (jinja_truth(rel)) {
        if (!jinja_arg_str(u->run, rel, "rel")) return false;
        struct jinja_args args = {rel, 1, NULL, 0};
        if (!jinja_invoke(u->run, jinja_method_find(JINJA_STR, "split", 5), &args, &v) ||
            !jinja_items(u->run, &v, &given))
            return false;
    }
    for (size_t i = 0; i < given.n; i++)
        if (!jinja_vec_push(u->run, &words, &given.items[i])) return false;
    if ((is_nofollow && !jinja_vec_push(u->run, &words, &nofollow)) ||
        !jinja_vec_push(u->run, &words, &noopener))
        return false;
    const struct jinja_value *last = NULL;
    buf_append_str(&u->attributes, " rel=\"");
    for (;;) {
        const struct jinja_value *next = NULL;
        if (!jinja_charge(u->run, words.n)) return false;
        for (size_t i = 0; i < words.n; i++)
            if ((!last || is_before(last, &words.items[i])) &&
                (!next || is_before(&words.items[i], next)))
                next = &words.items[i];
        if (!next) break;
        if (last) buf_append_char(&u->attributes, ' ');
        jinja_text_escape_html(next->as.s, next->len, &u->attributes);
        last = next;
    }
    buf_append_char(&u->attributes, '"');
    return true;
}

static bool read_options(struct urlize *u, const struct jinja_call *call) {
    const struct jinja_value *target = &call->a[3];
    u->has_limit = is_given(&call->a[1]);
    if (u->has_limit && !jinja_arg_int(u->run, &call->a[1], &u->limit)) return false;
    if (!make_rel(u, &call->a[4], jinja_truth(&call->a[2]))) return false;
    if (jinja_truth(target)) {
        buf_append_str(&u->attributes, " target=\"");
        if (!append_escaped(u->run, target, &u->attributes)) return false;
        buf_append_char(&u->attributes, '"');
    }
    if (!is_given(&call->a[5])) return true;
    if (!jinja_items(u->run, &call->a[5], &u->schemes)) return false;
    for (size_t i = 0; i < u->schemes.n; i++) {
        const struct jinja_value *scheme = &u->schemes.items[i];
        if (!jinja_arg_str(u->run, scheme, "a URI scheme")) return false;
        if (!matches(u, u->scheme, scheme->as.s, scheme->len))
            return jinja_fail(u->run, "'%.*s' is not a valid URI scheme prefix.",
                              scheme->len > 80 ? 80 : (int)scheme->len, scheme->as.s);
    }
    return true;
}

bool jinja_filter_urlize(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out) {
    struct urlize u;
    struct buf text;
    jinja_buf_init(run, &text);
    bool is_ok =
        urlize_init(&u, run) && read_options(&u, call) && append_escaped(run, &call->a[0], &text);
    if (is_ok && text.len) put_words(&u, text.data, text.len);
    u.out.failed = u.out.failed || text.failed || u.attributes.failed;
    is_ok = is_ok && run->status == RADISH_OK && jinja_str_take(run, &u.out, out);
    buf_deinit(&text);
    urlize_deinit(&u);
    return is_ok;
}
