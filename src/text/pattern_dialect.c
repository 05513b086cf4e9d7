/* pattern_dialect.c - reads Oniguruma's syntax and writes PCRE2's, construct by construct.
 *
 * The two dialects look alike, and that is the danger: \h is a hexadecimal digit in one and a
 * space in the other, (?m) lets the dot match newlines here and ^ there, {n}+ repeats or possesses,
 * \p{Han} is a script or its extensions, \s has U+180E or not, \w differs by 3,400 characters. A
 * pattern that is passed through compiles and cuts differently, which nobody sees. So nothing is
 * passed through: what is read here is written in a form with one meaning, and what this file does
 * not know is refused by name. tests/oracle/test_patterns.py compares every construct, for every
 * code point, with the library.
 *
 * Classes of characters are written as ranges and properties. PCRE2 has no set operations:
 *   [A&&B&&C]  (?:(?=B)(?=C)A)        [^A&&B]  (?:(?!that)(?s:.))        [ab[^c]]  (?:[ab]|[^c])
 * Captures have no use (what refers to them is refused), so all groups are (?:...). An option in
 * the middle of a group, a(?i)b|c, holds to the group's end, alternatives included: a(?i:b|c).
 * Ignoring case is where the dialects differ most: Oniguruma lets "ss" match "ß". It is taken for
 * ASCII letters that are in no such pair, which is what published patterns use it for.
 *
 * What remains is the version of Unicode behind \p{...}, which is each library's own: characters
 * newer than PCRE2's tables count as unassigned. It is logged (pattern.c). */
#include "pattern_dialect.h"

#include "base/status.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 64, REPEAT_MAX = 65535 };

/* White_Space, and all else. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define NO_SPACES                                                                                  \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}"                   \
    "\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}"                 \
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
#define HEX     "0-9A-Fa-f"
#define NO_HEX  "\\x{0}-\\x{2F}\\x{3A}-\\x{40}\\x{47}-\\x{60}\\x{67}-\\x{10FFFF}"
#define LETTERS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD                                                                                       \
    LETTERS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}" /* \w outside of a class has these six */

struct translation {
    const char *s; /* [n] */
    size_t n, at;
    unsigned depth;
    bool ignores_case;
    bool is_anchor;   /* the atom just read has no width */
    char last_letter; /* lower case, of the literal just before; 0 = something else */
    struct radish_error *err;
};

static enum radish_status refuse(struct translation *t, const char *what) {
    return error_set_at(t->err, RADISH_E_UNSUPPORTED, t->at, "%s (at byte %zu)", what, t->at);
}

static enum radish_status refuse_name(struct translation *t, const char *what, const char *name,
                                      size_t len) {
    return error_set_at(t->err, RADISH_E_UNSUPPORTED, t->at, "%s \"%.*s\" (at byte %zu)", what,
                        len > 40 ? 40 : (int)len, name, t->at);
}

static bool looks_at(const struct translation *t, const char *token) {
    size_t len = strlen(token);
    return t->n - t->at >= len && memcmp(t->s + t->at, token, len) == 0;
}

static bool skip(struct translation *t, const char *token) {
    if (!looks_at(t, token)) return false;
    t->at += strlen(token);
    return true;
}

static void append_char(uint32_t c, struct buf *out) {
    bool is_plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (is_plain)
        buf_append_char(out, (char)c);
    else
        buf_printf(out, "\\x{%X}", (unsigned)c);
}

/* ---- sets of characters by name */

/* What stands between the brackets of a class. */
struct named_set {
    const char *name, *inside, *outside; /* outside: its complement, or NULL */
};

static const struct named_set POSIX[] = {
    {"alnum", "\\p{Alphabetic}\\p{Nd}", NULL},
    {"alpha", "\\p{Alphabetic}", "\\P{Alphabetic}"},
    {"ascii", "\\x{0}-\\x{7F}", "\\x{80}-\\x{10FFFF}"},
    {"blank", "\\x{9}\\p{Zs}", NULL},
    {"cntrl", "\\p{Cc}", "\\P{Cc}"},
    {"digit", "\\p{Nd}", "\\P{Nd}"},
    {"lower", "\\p{Lowercase}", "\\P{Lowercase}"},
    {"punct", "\\p{P}\\p{S}", NULL},
    {"space", SPACES, NO_SPACES},
    {"upper", "\\p{Uppercase}", "\\P{Uppercase}"},
    {"word", LETTERS, NULL},
    {"xdigit", HEX, NO_HEX},
};

/* Names of \p{...} that are neither categories nor scripts, or not PCRE2's. */
static const struct named_set PROPERTIES[] = {
    {"alnum", "\\p{Alphabetic}\\p{Nd}", NULL},
    {"alpha", "\\p{Alphabetic}", "\\P{Alphabetic}"},
    {"alphabetic", "\\p{Alphabetic}", "\\P{Alphabetic}"},
    {"any", "\\x{0}-\\x{10FFFF}", NULL},
    {"ascii", "\\x{0}-\\x{7F}", "\\x{80}-\\x{10FFFF}"},
    {"blank", "\\x{9}\\p{Zs}", NULL},
    {"cntrl", "\\p{Cc}", "\\P{Cc}"},
    {"digit", "\\p{Nd}", "\\P{Nd}"},
    {"emoji", "\\p{Emoji}", "\\P{Emoji}"},
    {"extendedpictographic", "\\p{Extended_Pictographic}", "\\P{Extended_Pictographic}"},
    {"ideographic", "\\p{Ideographic}", "\\P{Ideographic}"},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}", NULL},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}", NULL},
    {"lower", "\\p{Lowercase}", "\\P{Lowercase}"},
    {"lowercase", "\\p{Lowercase}", "\\P{Lowercase}"},
    {"space", SPACES, NO_SPACES},
    {"whitespace", SPACES, NO_SPACES},
    {"upper", "\\p{Uppercase}", "\\P{Uppercase}"},
    {"uppercase", "\\p{Uppercase}", "\\P{Uppercase}"},
    {"word", WORD, NULL},
    {"xdigit", HEX, NO_HEX},
};

/* General categories, short and long. */
static const char *const CATEGORIES[][2] = {
    {"c", "C"},
    {"other", "C"},
    {"cc", "Cc"},
    {"control", "Cc"},
    {"cf", "Cf"},
    {"format", "Cf"},
    {"cn", "Cn"},
    {"unassigned", "Cn"},
    {"co", "Co"},
    {"privateuse", "Co"},
    {"l", "L"},
    {"letter", "L"},
    {"ll", "Ll"},
    {"lowercaseletter", "Ll"},
    {"lm", "Lm"},
    {"modifierletter", "Lm"},
    {"lo", "Lo"},
    {"otherletter", "Lo"},
    {"lt", "Lt"},
    {"titlecaseletter", "Lt"},
    {"lu", "Lu"},
    {"uppercaseletter", "Lu"},
    {"m", "M"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"mc", "Mc"},
    {"spacingmark", "Mc"},
    {"me", "Me"},
    {"enclosingmark", "Me"},
    {"mn", "Mn"},
    {"nonspacingmark", "Mn"},
    {"n", "N"},
    {"number", "N"},
    {"nd", "Nd"},
    {"decimalnumber", "Nd"},
    {"nl", "Nl"},
    {"letternumber", "Nl"},
    {"no", "No"},
    {"othernumber", "No"},
    {"p", "P"},
    {"punct", "P"},
    {"punctuation", "P"},
    {"pc", "Pc"},
    {"connectorpunctuation", "Pc"},
    {"pd", "Pd"},
    {"dashpunctuation", "Pd"},
    {"pe", "Pe"},
    {"closepunctuation", "Pe"},
    {"pf", "Pf"},
    {"finalpunctuation", "Pf"},
    {"pi", "Pi"},
    {"initialpunctuation", "Pi"},
    {"po", "Po"},
    {"otherpunctuation", "Po"},
    {"ps", "Ps"},
    {"openpunctuation", "Ps"},
    {"s", "S"},
    {"symbol", "S"},
    {"sc", "Sc"},
    {"currencysymbol", "Sc"},
    {"sk", "Sk"},
    {"modifiersymbol", "Sk"},
    {"sm", "Sm"},
    {"mathsymbol", "Sm"},
    {"so", "So"},
    {"othersymbol", "So"},
    {"z", "Z"},
    {"separator", "Z"},
    {"zl", "Zl"},
    {"lineseparator", "Zl"},
    {"zp", "Zp"},
    {"paragraphseparator", "Zp"},
    {"zs", "Zs"},
    {"spaceseparator", "Zs"},
};

/* One operand of &&: ranges and properties, and nested classes, joined. */
struct operand {
    struct buf plain;  /* what stood between the brackets, without nested classes */
    struct buf nested; /* nested classes as expressions, separated by | */
    size_t n_nested;
};

static struct buf *next_nested(struct operand *o) {
    if (o->n_nested++) buf_append_char(&o->nested, '|');
    return &o->nested;
}

static void add_set(struct operand *o, const struct named_set *set, bool is_negated) {
    if (!is_negated)
        buf_append_str(&o->plain, set->inside);
    else if (set->outside)
        buf_append_str(&o->plain, set->outside);
    else
        buf_printf(next_nested(o), "[^%s]", set->inside);
}

/* The property at \p{ or \P{. */
static enum radish_status add_property(struct translation *t, struct operand *o) {
    const char *start = t->s + t->at, *end = memchr(start, '}', t->n - t->at), *name = start + 3;
    bool is_negated = start[1] == 'P';
    char folded[48];
    size_t len = 0;
    if (!end) return refuse(t, "a property without its closing brace");
    if (*name == '^') {
        is_negated = !is_negated;
        name++;
    }
    for (const char *c = name; c < end && len + 1 < sizeof folded; c++)
        if (*c != ' ' && *c != '_' && *c != '-')
            folded[len++] = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    folded[len] = '\0';
    if (!len || strspn(folded, "abcdefghijklmnopqrstuvwxyz") != len ||
        memchr(name, ':', (size_t)(end - name)))
        return refuse_name(t, "the property", start, (size_t)(end - start) + 1);
    if (t->ignores_case) return refuse(t, "a property while case is ignored");
    t->at += (size_t)(end - start) + 1;
    for (size_t i = 0; i < sizeof PROPERTIES / sizeof *PROPERTIES; i++)
        if (strcmp(folded, PROPERTIES[i].name) == 0) {
            add_set(o, &PROPERTIES[i], is_negated);
            return RADISH_OK;
        }
    buf_append_str(&o->plain, is_negated ? "\\P{" : "\\p{");
    for (size_t i = 0; i < sizeof CATEGORIES / sizeof *CATEGORIES; i++)
        if (strcmp(folded, CATEGORIES[i][0]) == 0) {
            buf_printf(&o->plain, "%s}", CATEGORIES[i][1]);
            return RADISH_OK;
        }
        /* A script; before 10.40 a bare name means it, since then its extensions. */
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
    buf_append_str(&o->plain, "sc:");
#endif
    buf_append(&o->plain, name, (size_t)(end - name));
    buf_append_char(&o->plain, '}');
    return RADISH_OK;
}

/* ---- escapes */

/* The set that \c stands for, or NULL. */
static const struct named_set *set_of_escape(char c, bool *is_negated_out) {
    static const struct named_set digits = {"", "\\p{Nd}", "\\P{Nd}"};
    static const struct named_set spaces = {"", SPACES, NO_SPACES};
    static const struct named_set hexes = {"", HEX, NO_HEX};
    static const struct named_set words = {"", WORD, NULL};
    *is_negated_out = c < 'a';
    switch (c | 0x20) {
    case 'd': return &digits;
    case 's': return &spaces;
    case 'h': return &hexes;
    case 'w': return &words;
    default: return NULL;
    }
}

static enum radish_status read_hex(struct translation *t, size_t n_digits_max, uint32_t *c_out) {
    size_t n_digits = 0;
    *c_out = 0;
    for (; t->at < t->n && n_digits < n_digits_max; t->at++, n_digits++) {
        char c = t->s[t->at];
        unsigned lower = (unsigned char)c | 0x20;
        if (c >= '0' && c <= '9')
            *c_out = *c_out * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *c_out = *c_out * 16 + (lower - 'a' + 10);
        else
            break;
    }
    if (n_digits && *c_out <= 0x10FFFF && (*c_out < 0xD800 || *c_out > 0xDFFF)) return RADISH_OK;
    return refuse(t, "a code that is no character");
}

/* The character that the escape at t->at (a backslash) stands for. */
static enum radish_status read_escaped_char(struct translation *t, bool in_class, uint32_t *c_out) {
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1B";
    const char *letter;
    if (t->n - t->at < 2) return refuse(t, "a backslash at the end");
    char c = t->s[t->at + 1];
    if (c == 'u') {
        t->at += 2;
        size_t start = t->at;
        RADISH_TRY(read_hex(t, 4, c_out));
        return t->at == start + 4 ? RADISH_OK : refuse(t, "\\u without its four digits");
    }
    if (c == 'x' && t->n - t->at > 2 && t->s[t->at + 2] == '{') {
        t->at += 3;
        RADISH_TRY(read_hex(t, 8, c_out));
        return skip(t, "}") ? RADISH_OK : refuse(t, "\\x{ without its closing brace");
    }
    if (c == 'x') {
        t->at += 2;
        RADISH_TRY(read_hex(t, 2, c_out));
        return *c_out < 0x80 ? RADISH_OK : refuse(t, "\\x of a byte beyond ASCII");
    }
    if ((letter = strchr(letters, c)) && c) {
        *c_out = (unsigned char)codes[letter - letters];
    } else if (c == 'b' && in_class) {
        *c_out = '\b';
    } else if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
        return refuse_name(t, "the escape", t->s + t->at, 2);
    } else {
        t->at++;
        t->at += utf8_decode(t->s + t->at, t->n - t->at, c_out);
        return RADISH_OK;
    }
    t->at += 2;
    return RADISH_OK;
}

/* ---- classes */

static enum radish_status translate_class(struct translation *t, bool is_nested, struct buf *out);

static enum radish_status read_class_char(struct translation *t, uint32_t *c_out) {
    if (t->s[t->at] == '\\')
        RADISH_TRY(read_escaped_char(t, /*in_class=*/true, c_out));
    else
        t->at += utf8_decode(t->s + t->at, t->n - t->at, c_out);
    if (t->ignores_case && *c_out >= 0x80)
        return refuse(t, "a character beyond ASCII while case is ignored");
    return RADISH_OK;
}

static bool is_set_escape(const struct translation *t) {
    return t->n - t->at >= 2 && t->s[t->at] == '\\' && strchr("dDsShHwWpP", t->s[t->at + 1]) &&
           t->s[t->at + 1];
}

/* \d, \p{L} and their like; t->at is at the backslash. */
static enum radish_status add_set_escape(struct translation *t, bool in_class, struct operand *o) {
    static const struct named_set letters = {"", LETTERS, NULL};
    bool is_negated, is_property = (t->s[t->at + 1] | 0x20) == 'p';
    const struct named_set *set = set_of_escape(t->s[t->at + 1], &is_negated);
    if (is_property && (t->n - t->at < 4 || t->s[t->at + 2] != '{'))
        return refuse(t, "\\p without braces");
    if (is_property) return add_property(t, o);
    if (t->ignores_case && (t->s[t->at + 1] | 0x20) == 'w')
        return refuse(t, "\\w while case is ignored");
    if (in_class && (t->s[t->at + 1] | 0x20) == 'w') set = &letters;
    t->at += 2;
    add_set(o, set, is_negated);
    return RADISH_OK;
}

static enum radish_status add_posix(struct translation *t, const char *end, struct operand *o) {
    const char *name = t->s + t->at + 2;
    bool is_negated = *name == '^';
    if (is_negated) name++;
    size_t len = (size_t)(end - name);
    if (t->ignores_case) return refuse(t, "a POSIX class while case is ignored");
    for (size_t i = 0; i < sizeof POSIX / sizeof *POSIX; i++)
        if (strlen(POSIX[i].name) == len && memcmp(POSIX[i].name, name, len) == 0) {
            add_set(o, &POSIX[i], is_negated);
            t->at = (size_t)(end - t->s) + 2;
            return RADISH_OK;
        }
    return refuse_name(t, "the class", t->s + t->at, (size_t)(end - t->s) + 2 - t->at);
}

/* A character, or a range. */
static enum radish_status add_range(struct translation *t, struct operand *o) {
    uint32_t first, last;
    RADISH_TRY(read_class_char(t, &first));
    append_char(first, &o->plain);
    if (t->n - t->at < 2 || t->s[t->at] != '-' || t->s[t->at + 1] == ']') return RADISH_OK;
    if (first == '-') return refuse(t, "a range from \"-\"");
    t->at++;
    if (looks_at(t, "[") || looks_at(t, "&&") || is_set_escape(t))
        return refuse(t, "a range to something that is no character");
    RADISH_TRY(read_class_char(t, &last));
    if (last < first) return refuse(t, "a range that runs backwards");
    if (t->ignores_case && last - first > 25) return refuse(t, "a range while case is ignored");
    buf_append_char(&o->plain, '-');
    append_char(last, &o->plain);
    return RADISH_OK;
}

static enum radish_status add_class_item(struct translation *t, struct operand *o) {
    const char *colon;
    if (looks_at(t, "[:") && (colon = memchr(t->s + t->at + 2, ':', t->n - t->at - 2)) &&
        colon + 1 < t->s + t->n && colon[1] == ']')
        return add_posix(t, colon, o);
    if (t->s[t->at] == '[') return translate_class(t, /*is_nested=*/true, next_nested(o));
    if (!is_set_escape(t)) return add_range(t, o);
    RADISH_TRY(add_set_escape(t, /*in_class=*/true, o));
    if (looks_at(t, "-") && t->n - t->at > 1 && t->s[t->at + 1] != ']')
        return refuse(t, "a range from something that is no character");
    return RADISH_OK;
}

/* As an expression that matches one character. */
static void write_operand(struct operand *o, struct buf *out) {
    bool is_group = o->n_nested + (o->plain.len != 0) != 1;
    bool is_property = o->plain.len > 3 && (o->plain.data[1] | 0x20) == 'p' &&
                       strchr(o->plain.data, '}') == o->plain.data + o->plain.len - 1;
    if (is_group) buf_append_str(out, "(?:");
    if (o->plain.len) {
        if (!is_property) buf_append_char(out, '[');
        buf_append(out, o->plain.data, o->plain.len);
        if (!is_property) buf_append_char(out, ']');
        if (o->n_nested) buf_append_char(out, '|');
    }
    buf_append(out, o->nested.data, o->nested.len);
    if (is_group) buf_append_char(out, ')');
    buf_clear(&o->plain);
    buf_clear(&o->nested);
    o->n_nested = 0;
}

struct class {
    struct operand o; /* the one being read */
    struct buf first, conditions;
    size_t n_operands;
    bool is_plain; /* one operand without nested classes: its text is still in o.plain */
};

/* Behind the bracket and the ^, up to the closing bracket and past it. */
static enum radish_status read_operands(struct translation *t, struct class *c) {
    if (looks_at(t, "]")) RADISH_TRY(add_range(t, &c->o)); /* first it is a character */
    for (bool is_closed = false; !is_closed;) {
        if (t->at == t->n) return refuse(t, "a class without its closing bracket");
        is_closed = looks_at(t, "]");
        if (!is_closed && !looks_at(t, "&&")) {
            RADISH_TRY(add_class_item(t, &c->o));
            continue;
        }
        if (c->o.plain.failed || c->o.nested.failed) return error_nomem(t->err);
        t->at += is_closed ? 1 : 2;
        if (!is_closed && looks_at(t, "^")) return refuse(t, "&& with ^ behind it");
        if (!c->o.plain.len && !c->o.n_nested) return refuse(t, "&& without an operand");
        c->is_plain = is_closed && !c->n_operands && !c->o.n_nested;
        if (c->is_plain) break;
        if (c->n_operands) buf_append_str(&c->conditions, "(?=");
        write_operand(&c->o, c->n_operands ? &c->conditions : &c->first);
        if (c->n_operands++) buf_append_char(&c->conditions, ')');
    }
    return RADISH_OK;
}

/* Oniguruma lets a nested [^\x{0}-\x{FFF}] have all beyond ASCII; that is refused. */
static enum radish_status translate_class(struct translation *t, bool is_nested, struct buf *out) {
    struct class c = {.n_operands = 0};
    if (++t->depth > DEPTH_MAX) return refuse(t, "nested too deeply");
    t->at++;
    bool is_negated = skip(t, "^");
    enum radish_status status = read_operands(t, &c);
    unsigned covered;
    if (status == RADISH_OK && is_nested && is_negated && c.is_plain &&
        sscanf(c.o.plain.data, "\\x{0}-\\x{%x}", &covered) == 1 && covered > 0x7F)
        status = refuse(t, "a class in a class that excludes all of ASCII and more");
    if (c.is_plain) {
        buf_append_str(out, is_negated ? "[^" : "[");
        buf_append(out, c.o.plain.data, c.o.plain.len);
        buf_append_char(out, ']');
    } else {
        buf_append_str(out, is_negated ? "(?:(?!" : "(?:");
        buf_append(out, c.conditions.data, c.conditions.len);
        buf_append(out, c.first.data, c.first.len);
        buf_append_str(out, is_negated ? ")(?s:.))" : ")");
    }
    if (c.o.plain.failed || c.o.nested.failed || c.first.failed || c.conditions.failed)
        out->failed = true;
    buf_deinit(&c.o.plain);
    buf_deinit(&c.o.nested);
    buf_deinit(&c.first);
    buf_deinit(&c.conditions);
    t->depth--;
    t->last_letter = 0;
    return status;
}

/* ---- expressions */

static enum radish_status translate_group(struct translation *t, struct buf *out);

/* Escapes that are no character outside of a class; false when this is none of them. */
static bool translate_assertion(struct translation *t, struct buf *out) {
    static const char *const rows[][2] = {
        {"\\A", "\\A"},
        {"\\z", "\\z"},
        {"\\Z", "\\Z"},
        {"\\N", "[^\\x{A}]"},
        {"\\O", "(?s:.)"},
        {"\\R", "(?>\\x{D}\\x{A}|[\\x{A}-\\x{D}\\x{85}\\x{2028}\\x{2029}])"},
        {"\\b", "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"},
        {"\\B", "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (skip(t, rows[i][0])) {
            buf_append_str(out, rows[i][1]);
            t->last_letter = 0;
            t->is_anchor = !strchr("NOR", rows[i][0][1]);
            return true;
        }
    return false;
}

/* Pairs of letters that one character folds to, ignoring case: ß ﬀ ﬁ ﬂ ﬆ. */
static bool is_folded_pair(char a, char b) {
    return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

static enum radish_status translate_literal(struct translation *t, uint32_t c, struct buf *out) {
    char letter = 0;
    if (c < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z') letter = (char)(c | 0x20);
    if (t->ignores_case && c >= 0x80)
        return refuse(t, "a character beyond ASCII while case is ignored");
    if (t->ignores_case && is_folded_pair(t->last_letter, letter))
        return refuse(t, "a pair of letters that one character equals when case is ignored");
    t->last_letter = letter;
    append_char(c, out);
    return RADISH_OK;
}

static enum radish_status translate_escape(struct translation *t, struct buf *out) {
    uint32_t c;
    if (is_set_escape(t)) {
        struct operand o = {.n_nested = 0};
        enum radish_status status = add_set_escape(t, /*in_class=*/false, &o);
        if (o.plain.failed || o.nested.failed) out->failed = true;
        write_operand(&o, out);
        buf_deinit(&o.plain);
        buf_deinit(&o.nested);
        t->last_letter = 0;
        return status;
    }
    if (translate_assertion(t, out)) return RADISH_OK;
    RADISH_TRY(read_escaped_char(t, /*in_class=*/false, &c));
    return translate_literal(t, c, out);
}

static enum radish_status translate_atom(struct translation *t, struct buf *out) {
    uint32_t c;
    t->is_anchor = false;
    switch (t->s[t->at]) {
    case '\\': return translate_escape(t, out);
    case '[': return translate_class(t, /*is_nested=*/false, out);
    case '(': return translate_group(t, out);
    case '^':
    case '$':
    case '.':
        t->last_letter = 0;
        t->is_anchor = t->s[t->at] != '.';
        buf_append_char(out, t->s[t->at++]);
        return RADISH_OK;
    case '*':
    case '+':
    case '?': return refuse(t, "a repetition of nothing, or of a repetition");
    default:
        t->at += utf8_decode(t->s + t->at, t->n - t->at, &c);
        return translate_literal(t, c, out);
    }
}

static bool read_number(struct translation *t, unsigned *number_out) {
    size_t start = t->at;
    *number_out = 0;
    for (; t->at < t->n && t->s[t->at] >= '0' && t->s[t->at] <= '9' && *number_out <= REPEAT_MAX;
         t->at++)
        *number_out = *number_out * 10 + (unsigned)(t->s[t->at] - '0');
    return t->at > start;
}

/* {n}, {n,}, {,m}, {n,m} at t->at: *has_out. Anything else in braces is literal. */
static enum radish_status read_interval(struct translation *t, bool *has_out, char text_out[32]) {
    unsigned low = 0, high = 0;
    size_t start = t->at;
    *has_out = false;
    if (!skip(t, "{")) return RADISH_OK;
    bool has_low = read_number(t, &low), has_comma = skip(t, ",");
    bool has_high = has_comma && read_number(t, &high);
    *has_out = (has_low || has_high) && skip(t, "}");
    if (!*has_out) {
        t->at = start;
        return RADISH_OK;
    }
    if (low > REPEAT_MAX || (has_high && high > REPEAT_MAX))
        return refuse(t, "a repetition beyond 65535");
    if (has_high && high < low) return refuse(t, "a repetition with its bounds swapped");
    if (has_high)
        snprintf(text_out, 32, "{%u,%u}", low, high);
    else
        snprintf(text_out, 32, has_comma ? "{%u,}" : "{%u}", low);
    return RADISH_OK;
}

/* The repetitions behind the atom that is out[start..]. */
static enum radish_status translate_repetitions(struct translation *t, size_t start,
                                                struct buf *out) {
    for (unsigned n = 0;; n++) {
        char text[32] = "", inner[2] = "";
        bool has_interval;
        if (t->at == t->n) return RADISH_OK;
        RADISH_TRY(read_interval(t, &has_interval, text));
        if (!has_interval) {
            char c = t->s[t->at];
            if (c != '*' && c != '+' && c != '?') return RADISH_OK;
            text[0] = c;
            t->at++;
            if (looks_at(t, "?") || looks_at(t, "+")) inner[0] = t->s[t->at++];
        } else if (looks_at(t, "?") && strchr(text, ',')) {
            inner[0] = t->s[t->at++];
        }
        if (t->is_anchor) return refuse(t, "a repetition of what has no width");
        if (n >= 8) return refuse(t, "a repetition of a repetition");
        t->last_letter = 0;
        if (n) { /* PCRE2 repeats no repetition, and reads {n}+ as one that never gives back */
            struct buf atom = {0};
            buf_append(&atom, out->data + start, out->len - start);
            out->len = start;
            buf_append_str(out, "(?:");
            buf_append(out, atom.data, atom.len);
            buf_append_char(out, ')');
            if (atom.failed) out->failed = true;
            buf_deinit(&atom);
        }
        buf_append_str(out, text);
        buf_append_str(out, inner);
    }
}

/* Up to the end or a closing parenthesis, which stays. */
static enum radish_status translate_alternatives(struct translation *t, struct buf *out) {
    if (++t->depth > DEPTH_MAX) return refuse(t, "nested too deeply");
    t->last_letter = 0;
    while (t->at < t->n && t->s[t->at] != ')' && !out->failed) {
        size_t start = out->len;
        if (skip(t, "|")) {
            buf_append_char(out, '|');
            t->last_letter = 0;
            continue;
        }
        RADISH_TRY(translate_atom(t, out));
        RADISH_TRY(translate_repetitions(t, start, out));
    }
    t->depth--;
    return RADISH_OK;
}

static enum radish_status close_group(struct translation *t, struct buf *out) {
    RADISH_TRY(translate_alternatives(t, out));
    if (!skip(t, ")")) return refuse(t, "a group without its closing parenthesis");
    buf_append_char(out, ')');
    t->last_letter = 0;
    return RADISH_OK;
}

/* (?i), (?m-i:...) and so on; t->at is behind "(?". m is what PCRE2 calls s. */
static enum radish_status translate_options(struct translation *t, struct buf *out) {
    const bool ignored_case = t->ignores_case;
    bool is_on = true;
    buf_append_str(out, "(?");
    for (; t->at < t->n && t->s[t->at] != ')' && t->s[t->at] != ':'; t->at++) {
        char c = t->s[t->at];
        if (c == '-' ? !is_on : c != 'i' && c != 'm')
            return refuse_name(t, "the option", &t->s[t->at], 1);
        if (c == '-') is_on = false;
        if (c == 'i') t->ignores_case = is_on;
        buf_append_char(out, (char)(c == 'm' ? 's' : c));
    }
    if (t->at == t->n) return refuse(t, "options without their closing parenthesis");
    buf_append_char(out, ':');
    bool is_to_the_end = t->s[t->at++] == ')';
    RADISH_TRY(translate_alternatives(t, out));
    if (!is_to_the_end && !skip(t, ")"))
        return refuse(t, "a group without its closing parenthesis");
    buf_append_char(out, ')');
    t->ignores_case = ignored_case;
    return RADISH_OK;
}

static enum radish_status translate_group(struct translation *t, struct buf *out) {
    static const char *const same[] = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    const bool ignored_case = t->ignores_case;
    const char *name_end;
    t->last_letter = 0;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (skip(t, same[i])) {
            buf_append_str(out, same[i]);
            enum radish_status status = close_group(t, out);
            t->ignores_case = ignored_case;
            t->is_anchor = i >= 2;
            return status;
        }
    if (skip(t, "(?#")) {
        const char *end = memchr(t->s + t->at, ')', t->n - t->at);
        if (!end) return refuse(t, "a comment without its closing parenthesis");
        t->at = (size_t)(end - t->s) + 1;
        return RADISH_OK;
    }
    if (looks_at(t, "(?<") && (name_end = memchr(t->s + t->at, '>', t->n - t->at)))
        t->at = (size_t)(name_end - t->s) + 1; /* nothing refers to the name */
    else if (skip(t, "(?"))
        return translate_options(t, out);
    else if (looks_at(t, "(*"))
        return refuse(t, "a callout");
    else
        t->at++;
    buf_append_str(out, "(?:");
    enum radish_status status = close_group(t, out);
    t->ignores_case = ignored_case;
    return status;
}

enum radish_status pattern_translate(const struct spec_str *source, struct buf *out,
                                     struct radish_error *err) {
    struct translation t = {.s = source->data, .n = source->len, .err = err};
    buf_append_str(out, "(?:");
    RADISH_TRY(translate_alternatives(&t, out));
    if (t.at < t.n && !out->failed) return refuse(&t, "a parenthesis that closes nothing");
    buf_append_char(out, ')');
    return out->failed ? error_nomem(err) : RADISH_OK;
}
