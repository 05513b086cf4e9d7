/* pattern.c - literals by memmem(), expressions by PCRE2.
 *
 * Tokenizers are made with Oniguruma; PCRE2's JIT is four times as fast and cuts the patterns in
 * use at the same places, once the dialects are reconciled (translate()): PCRE2 takes \p{Han} as
 * script extensions where Oniguruma means the script; it has no set operations in classes
 * ([A&&[^B]] becomes a look-ahead); \h is a hexadecimal digit in Oniguruma, \w has marks; ^ and $
 * stand at every line. The whole goes into (?:...), so that no (*VERB) at its start is obeyed.
 *
 * Callers have checked their UTF-8 once: PCRE2 would otherwise check the rest of the text at every
 * match, 6 seconds per megabyte. Where the system refuses executable memory, and where a match
 * needs more than the JIT's stack, the interpreter does the work with the same result. Its effort
 * and memory per match are limited; a pattern that explodes is an error, not a hang. */
#include "pattern.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLASS_DEPTH_MAX = 8,
    MATCH_LIMIT = 10 * 1000 * 1000, /* PCRE2's default; stated, since a build may differ */
    HEAP_LIMIT_KIB = 256 * 1024,
};

struct pattern {
    struct spec_str literal; /* or code */
    pcre2_code *code;
    pcre2_match_context *context;
    bool has_jit;
};

/* ---- from Oniguruma's dialect to PCRE2's */

struct translation {
    const char *s; /* [n] */
    size_t n, at;
    const char *unsupported; /* static reason, or NULL */
};

/* Oniguruma's \w, the inside of a class: PCRE2's lacks marks, connectors and circled letters. And
 * the same when it stands alone: then some numbers of Latin-1 are in it as well. */
#define WORD_SET                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}"                    \
    "\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"
#define WORD WORD_SET "\\xB2\\xB3\\xB9\\xBC-\\xBE"

static bool looks_at(const struct translation *t, const char *token) {
    size_t len = strlen(token);
    return t->n - t->at >= len && memcmp(t->s + t->at, token, len) == 0;
}

/* Categories by their long names, which PCRE2 lacks. Names of one or two letters are the same in
 * both; all others are scripts. */
static const char *category_of(const char *name, size_t len) {
    static const char *const names[][2] = {
        {"Letter", "L"},
        {"Mark", "M"},
        {"Number", "N"},
        {"Punctuation", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Lowercase_Letter", "Ll"},
        {"Uppercase_Letter", "Lu"},
        {"Titlecase_Letter", "Lt"},
        {"Modifier_Letter", "Lm"},
        {"Other_Letter", "Lo"},
        {"Decimal_Number", "Nd"},
        {"Nonspacing_Mark", "Mn"},
        {"Any", "Any"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i][0]) == len && memcmp(names[i][0], name, len) == 0) return names[i][1];
    return NULL;
}

static void translate_property(struct translation *t, struct buf *out) {
    const char *name = t->s + t->at + 3; /* behind \p{ */
    const char *end = memchr(name, '}', t->n - t->at - 3);
    if (!end) {
        t->unsupported = "a property without its closing brace";
        return;
    }
    buf_append(out, t->s + t->at, 3);
    t->at = (size_t)(end - t->s) + 1;
    if (*name == '^') buf_append_char(out, *name++);
    size_t len = (size_t)(end - name);
    const char *category = category_of(name, len);
    if (category)
        buf_append_str(out, category);
    else {
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
        if (len > 2 && !memchr(name, ':', len)) buf_append_str(out, "sc:");
#endif
        buf_append(out, name, len);
    }
    buf_append_char(out, '}');
}

static void translate_escape(struct translation *t, bool in_class, struct buf *out) {
    const char *s = t->s + t->at;
    size_t left = t->n - t->at;
    if (left < 2) {
        t->unsupported = "a backslash at the end";
    } else if ((s[1] == 'p' || s[1] == 'P') && left > 3 && s[2] == '{') {
        translate_property(t, out);
    } else if (s[1] == 'u' && left >= 6) {
        buf_append_str(out, "\\x{");
        buf_append(out, s + 2, 4);
        buf_append_char(out, '}');
        t->at += 6;
    } else if (s[1] == 'w') {
        buf_append_str(out, in_class ? WORD_SET : "[" WORD "]");
        t->at += 2;
    } else if (s[1] == 'W' && !in_class) {
        buf_append_str(out, "[^" WORD "]");
        t->at += 2;
    } else if (s[1] == 'b' && !in_class) {
        buf_append_str(out, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
        t->at += 2;
    } else if (s[1] == 'B' && !in_class) {
        buf_append_str(out, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
        t->at += 2;
    } else if (s[1] == 'h') {
        buf_append_str(out, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
        t->at += 2;
    } else if (s[1] == 'H' && in_class) {
        t->unsupported = "\\H in a class";
    } else if (s[1] == 'H') {
        buf_append_str(out, "[^0-9a-fA-F]");
        t->at += 2;
    } else {
        uint32_t c;
        size_t len = 1 + utf8_decode(s + 1, left - 1, &c);
        buf_append(out, s, len);
        t->at += len;
    }
}

/* One operand of &&: characters and nested classes, joined. */
struct operand {
    struct buf plain;  /* what stood between the brackets, without nested classes */
    struct buf nested; /* nested classes as expressions, separated by | */
    size_t n_nested;
};

static void write_operand(struct operand *o, struct buf *out) {
    bool is_group = o->n_nested + (o->plain.len != 0) != 1;
    if (is_group) buf_append_str(out, "(?:");
    if (o->plain.len) {
        buf_append_char(out, '[');
        buf_append(out, o->plain.data, o->plain.len);
        buf_append_char(out, ']');
        if (o->n_nested) buf_append_char(out, '|');
    }
    buf_append(out, o->nested.data, o->nested.len);
    if (is_group) buf_append_char(out, ')');
    buf_clear(&o->plain);
    buf_clear(&o->nested);
    o->n_nested = 0;
}

static void translate_class(struct translation *t, unsigned depth, struct buf *out);

/* One item of a class into o: a POSIX class, a nested class, an escape or a character. */
static void translate_class_item(struct translation *t, unsigned depth, struct operand *o) {
    const char *posix_end;
    if (looks_at(t, "[:") && (posix_end = memchr(t->s + t->at, ']', t->n - t->at)) &&
        posix_end[-1] == ':') {
        size_t len = (size_t)(posix_end - t->s) + 1 - t->at;
        buf_append(&o->plain, t->s + t->at, len);
        t->at += len;
    } else if (t->s[t->at] == '[') {
        if (o->n_nested++) buf_append_char(&o->nested, '|');
        translate_class(t, depth + 1, &o->nested);
    } else if (looks_at(t, "\\W")) {
        if (o->n_nested++) buf_append_char(&o->nested, '|');
        buf_append_str(&o->nested, "[^" WORD_SET "]");
        t->at += 2;
    } else if (t->s[t->at] == '\\') {
        translate_escape(t, /*in_class=*/true, &o->plain);
    } else {
        buf_append_char(&o->plain, t->s[t->at++]);
    }
}

/* [A&&B&&C] becomes (?:(?=B)(?=C)A), [^A&&B] becomes (?:(?!that)(?s:.)); a plain class stays. */
static void translate_class(struct translation *t, unsigned depth, struct buf *out) {
    struct operand o = {0};
    struct buf first = {0}, conditions = {0};
    bool is_negated = false, is_closed = false, is_plain = true;
    size_t n_operands = 0;
    if (depth > CLASS_DEPTH_MAX) {
        t->unsupported = "classes nested too deeply";
        return;
    }
    t->at++;
    if (looks_at(t, "^")) {
        is_negated = true;
        t->at++;
    }
    if (looks_at(t, "]")) translate_class_item(t, depth, &o);
    while (t->at < t->n && !is_closed && !t->unsupported) {
        is_closed = looks_at(t, "]");
        if (!is_closed && !looks_at(t, "&&")) {
            translate_class_item(t, depth, &o);
            continue;
        }
        t->at += is_closed ? 1 : 2;
        is_plain = is_plain && is_closed && !o.n_nested;
        if (is_plain) break;
        if (n_operands) buf_append_str(&conditions, "(?=");
        write_operand(&o, n_operands ? &conditions : &first);
        if (n_operands++) buf_append_char(&conditions, ')');
    }
    if (!is_closed && !t->unsupported) t->unsupported = "a class without its closing bracket";
    if (is_plain) {
        buf_append_str(out, is_negated ? "[^" : "[");
        buf_append(out, o.plain.data, o.plain.len);
        buf_append_char(out, ']');
    } else {
        buf_append_str(out, is_negated ? "(?:(?!" : "(?:");
        buf_append(out, conditions.data, conditions.len);
        buf_append(out, first.data, first.len);
        buf_append_str(out, is_negated ? ")(?s:.))" : ")");
    }
    if (o.plain.failed || o.nested.failed || first.failed || conditions.failed) out->failed = true;
    buf_deinit(&o.plain);
    buf_deinit(&o.nested);
    buf_deinit(&first);
    buf_deinit(&conditions);
}

static const char *translate(const struct spec_str *source, struct buf *out) {
    struct translation t = {.s = source->data, .n = source->len};
    buf_append_str(out, "(?:");
    while (t.at < t.n && !t.unsupported) {
        if (t.s[t.at] == '\\')
            translate_escape(&t, /*in_class=*/false, out);
        else if (t.s[t.at] == '[')
            translate_class(&t, 0, out);
        else
            buf_append_char(out, t.s[t.at++]);
    }
    buf_append_char(out, ')');
    return t.unsupported;
}

/* ---- create, destroy */

static enum radish_status refuse(const struct spec_pattern *spec, const char *reason,
                                 struct radish_error *err) {
    int shown = spec->text.len > 80 ? 80 : (int)spec->text.len;
    return error_set(err, RADISH_E_UNSUPPORTED, "regular expression \"%.*s\": %s", shown,
                     spec->text.data, reason);
}

static enum radish_status compile(struct pattern *p, const struct spec_pattern *spec,
                                  struct radish_error *err) {
    struct buf source = {0};
    const char *unsupported = translate(&spec->text, &source);
    enum radish_status status = RADISH_OK;
    int code;
    PCRE2_SIZE offset;
    if (unsupported) {
        status = refuse(spec, unsupported, err);
        goto done;
    }
    if (source.failed || !(p->context = pcre2_match_context_create(NULL))) {
        status = error_nomem(err);
        goto done;
    }
    pcre2_set_match_limit(p->context, MATCH_LIMIT);
    pcre2_set_heap_limit(p->context, HEAP_LIMIT_KIB);
    p->code = pcre2_compile((PCRE2_SPTR)source.data, source.len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &offset, NULL);
    if (!p->code && code == PCRE2_ERROR_HEAP_FAILED) {
        status = error_nomem(err);
        goto done;
    }
    if (!p->code) {
        PCRE2_UCHAR reason[128] = "";
        pcre2_get_error_message(code, reason, sizeof reason);
        status = refuse(spec, (const char *)reason, err);
        goto done;
    }
    p->has_jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    if (!p->has_jit) log_info("text", "PCRE2's JIT is not available: splitting text runs slower");
done:
    buf_deinit(&source);
    return status;
}

enum radish_status pattern_create(const struct spec_pattern *spec, struct pattern **pattern_out,
                                  struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    *pattern_out = NULL;
    if (!spec->text.data) return error_set(err, RADISH_E_FORMAT, "a pattern is missing");
    if (spec->text.len > PATTERN_BYTES_MAX)
        return error_set(err, RADISH_E_LIMIT, "a pattern of %zu bytes; the limit is %d",
                         spec->text.len, PATTERN_BYTES_MAX);
    struct pattern *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    if (spec->is_regex || !spec->text.len) { /* nothing is found everywhere */
        status = compile(p, spec, err);
    } else {
        char *copy = malloc(spec->text.len);
        if (copy) memcpy(copy, spec->text.data, spec->text.len);
        p->literal = (struct spec_str){copy, spec->text.len};
        if (!copy) status = error_nomem(err);
    }
    if (status != RADISH_OK) {
        pattern_destroy(p);
        return status;
    }
    *pattern_out = p;
    return RADISH_OK;
}

void pattern_destroy(struct pattern *p) {
    if (!p) return;
    free((char *)p->literal.data);
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->context);
    free(p);
}

/* ---- matching */

enum radish_status pattern_cursor_init(struct pattern_cursor *cursor, const struct pattern *pattern,
                                       struct radish_error *err) {
    *cursor = (struct pattern_cursor){.pattern = pattern};
    if (!pattern->code) return RADISH_OK;
    cursor->match = pcre2_match_data_create(1, NULL);
    return cursor->match ? RADISH_OK : error_nomem(err);
}

void pattern_cursor_deinit(struct pattern_cursor *cursor) {
    pcre2_match_data_free(cursor->match);
    cursor->match = NULL;
}

void pattern_cursor_start(struct pattern_cursor *cursor, const char *text, size_t len) {
    cursor->text = text;
    cursor->len = len;
    cursor->at = 0;
    cursor->last_end = SIZE_MAX;
}

/* PCRE2's code: a positive number for a match, PCRE2_ERROR_NOMATCH, or an error. */
static int search(const struct pattern_cursor *c) {
    const struct pattern *p = c->pattern;
    PCRE2_SPTR text = (PCRE2_SPTR)c->text;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (p->has_jit) rc = pcre2_jit_match(p->code, text, c->len, c->at, 0, c->match, p->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, text, c->len, c->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match,
                         p->context);
    return rc == 0 ? 1 : rc; /* 0: a match with more groups than we keep */
}

static enum radish_status next_literal(struct pattern_cursor *c, bool *found_out, size_t *start_out,
                                       size_t *end_out) {
    const struct spec_str *literal = &c->pattern->literal;
    const char *hit = memmem(c->text + c->at, c->len - c->at, literal->data, literal->len);
    if (!hit) return RADISH_OK;
    *found_out = true;
    *start_out = (size_t)(hit - c->text);
    c->at = *end_out = *start_out + literal->len;
    return RADISH_OK;
}

enum radish_status pattern_cursor_next(struct pattern_cursor *c, bool *found_out, size_t *start_out,
                                       size_t *end_out, struct radish_error *err) {
    *found_out = false;
    if (!c->pattern->code) return next_literal(c, found_out, start_out, end_out);
    while (c->at <= c->len) {
        int rc = search(c);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_NOMEMORY) return error_nomem(err);
        if (rc < 0)
            return error_set_at(
                err, RADISH_E_LIMIT, c->at,
                "the pre-tokenizer's pattern gives up on this text (PCRE2 error %d)", rc);
        const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(c->match);
        size_t start = bounds[0], end = bounds[1];
        if (start > end || start < c->at) break; /* \K games: no more matches */
        if (start == end && end == c->last_end) {
            uint32_t ignored;
            c->at += c->at < c->len ? utf8_decode(c->text + c->at, c->len - c->at, &ignored) : 1;
            continue;
        }
        c->at = c->last_end = end;
        *found_out = true;
        *start_out = start;
        *end_out = end;
        return RADISH_OK;
    }
    c->at = c->len + 1;
    return RADISH_OK;
}
