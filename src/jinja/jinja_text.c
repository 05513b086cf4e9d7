/* jinja_text.c - Python's str on UTF-8.
 *
 * White space, case and classes are Unicode's, from utf8proc, with what general categories do not
 * say in jinja_unicode.c; lines end where str.splitlines() says they do. Searching is memmem for
 * the first occurrence: UTF-8 never matches inside a character. */
#include "jinja_text.h"

#include "base/utf8.h"
#include "jinja_unicode.h"

#include <string.h>
#include <utf8proc.h>

bool jinja_text_is_space(uint32_t cp) {
    return utf8_is_space(cp);
}

static bool is_ascii_upper(uint32_t cp) {
    return cp >= 'A' && cp <= 'Z';
}

static bool is_ascii_lower(uint32_t cp) {
    return cp >= 'a' && cp <= 'z';
}

static utf8proc_category_t category(uint32_t cp) {
    /* The usual characters without a look into the tables. */
    if (is_ascii_lower(cp)) return UTF8PROC_CATEGORY_LL;
    if (is_ascii_upper(cp)) return UTF8PROC_CATEGORY_LU;
    return utf8proc_category((utf8proc_int32_t)cp);
}

static bool is_alpha(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_numeric(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool jinja_text_is_word(uint32_t cp) {
    return cp == '_' || is_alpha(cp) || is_numeric(cp);
}

bool jinja_text_is_printable(uint32_t cp) {
    if (cp < 0x7F) return cp >= 0x20;
    utf8proc_category_t c = category(cp);
    return c != UTF8PROC_CATEGORY_CN && (c < UTF8PROC_CATEGORY_ZS);
}

size_t jinja_text_offset(const char *s, size_t len, size_t idx) {
    size_t at = 0;
    while (at < len && idx) {
        at++;
        while (at < len && ((unsigned char)s[at] & 0xC0) == 0x80) at++;
        idx--;
    }
    return at;
}

size_t jinja_text_before(const char *s, size_t end) {
    do end--;
    while (end && ((unsigned char)s[end] & 0xC0) == 0x80);
    return end;
}

static bool is_stripped(const char *at, size_t n, const char *chars, size_t chars_len) {
    uint32_t cp, other;
    utf8_decode(at, n, &cp);
    if (!chars) return jinja_text_is_space(cp);
    for (size_t i = 0; i < chars_len;) {
        i += utf8_decode(chars + i, chars_len - i, &other);
        if (other == cp) return true;
    }
    return false;
}

void jinja_text_strip(const char *s, size_t len, const char *chars, size_t chars_len,
                      unsigned sides, size_t *begin_out, size_t *end_out) {
    size_t begin = 0, end = len;
    while ((sides & JINJA_STRIP_LEFT) && begin < end &&
           is_stripped(s + begin, end - begin, chars, chars_len))
        begin += jinja_text_offset(s + begin, end - begin, 1);
    while ((sides & JINJA_STRIP_RIGHT) && end > begin) {
        size_t last = jinja_text_before(s, end);
        if (!is_stripped(s + last, end - last, chars, chars_len)) break;
        end = last;
    }
    *begin_out = begin;
    *end_out = end;
}

bool jinja_text_find(const char *s, size_t len, const char *needle, size_t needle_len,
                     size_t *at_out) {
    *at_out = 0;
    if (!needle_len) return true;
    const char *at = len ? memmem(s, len, needle, needle_len) : NULL;
    if (at) *at_out = (size_t)(at - s);
    return at != NULL;
}

bool jinja_text_rfind(const char *s, size_t len, const char *needle, size_t needle_len,
                      size_t *at_out) {
    *at_out = len;
    if (!needle_len) return true;
    for (size_t at = len >= needle_len ? len - needle_len + 1 : 0; at > 0; at--) {
        if (s[at - 1] == needle[0] && !memcmp(s + at - 1, needle, needle_len)) {
            *at_out = at - 1;
            return true;
        }
    }
    return false;
}

size_t jinja_text_count(const char *s, size_t len, const char *needle, size_t needle_len) {
    size_t n = 0, at;
    if (!needle_len) return utf8_count(s, len) + 1;
    while (jinja_text_find(s, len, needle, needle_len, &at)) {
        n++;
        s += at + needle_len;
        len -= at + needle_len;
    }
    return n;
}

/* An empty `from` stands before every character and at the end. */
static void interleave(const char *s, size_t len, const struct jinja_replacement *how,
                       struct buf *out) {
    size_t at = 0;
    int64_t count = how->count;
    while (at < len && count != 0 && !out->failed) {
        size_t n = jinja_text_offset(s + at, len - at, 1);
        buf_append(out, how->to, how->to_len);
        buf_append(out, s + at, n);
        at += n;
        if (count > 0) count--;
    }
    buf_append(out, s + at, len - at);
    if (count != 0) buf_append(out, how->to, how->to_len);
}

void jinja_text_replace(const char *s, size_t len, const struct jinja_replacement *how,
                        struct buf *out) {
    size_t at;
    int64_t count = how->count;
    if (!how->from_len) {
        interleave(s, len, how, out);
        return;
    }
    while (count != 0 && !out->failed && jinja_text_find(s, len, how->from, how->from_len, &at)) {
        buf_append(out, s, at);
        buf_append(out, how->to, how->to_len);
        s += at + how->from_len;
        len -= at + how->from_len;
        if (count > 0) count--;
    }
    buf_append(out, s, len);
}

size_t jinja_text_line(const char *s, size_t len, size_t *next_out) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        if ((cp >= 10 && cp <= 13) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 ||
            cp == 0x2029) {
            *next_out = i + n + (cp == '\r' && i + 1 < len && s[i + 1] == '\n');
            return i;
        }
    }
    *next_out = len;
    return len;
}

/* ---- case */

static void append_upper(uint32_t cp, bool is_title, struct buf *out) {
    const char *several = jinja_unicode_long_case(cp, is_title);
    if (several)
        buf_append_str(out, several);
    else if (is_title)
        buf_append_utf8(out, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
    else
        buf_append_utf8(out, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
}

static bool is_lower(uint32_t cp) {
    return category(cp) == UTF8PROC_CATEGORY_LL || jinja_unicode_is(cp, JINJA_SET_OTHER_LOWER);
}

static bool is_upper(uint32_t cp) {
    return category(cp) == UTF8PROC_CATEGORY_LU || jinja_unicode_is(cp, JINJA_SET_OTHER_UPPER);
}

static bool is_cased(uint32_t cp) {
    return category(cp) == UTF8PROC_CATEGORY_LT || is_upper(cp) || is_lower(cp);
}

/* Unicode's Case_Ignorable: looked through when a sigma asks whether it ends a word. */
static bool is_case_ignorable(uint32_t cp) {
    static const uint16_t others[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                      0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                      0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    utf8proc_category_t c = category(cp);
    if (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
        c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK)
        return true;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (others[i] == cp) return true;
    return false;
}

/* Whether the sigma at s[at..at+2) ends a word: a letter before it, none behind. What lies between
 * two sigmas is walked twice at most, so that a text of them still costs its length. */
static bool is_final_sigma(const char *s, size_t len, size_t at) {
    uint32_t cp = 0;
    size_t before = at, n;
    do {
        if (!before) return false;
        size_t end = before;
        before = jinja_text_before(s, end);
        utf8_decode(s + before, end - before, &cp);
    } while (is_case_ignorable(cp));
    if (!is_cased(cp)) return false;
    for (size_t i = at + 2; i < len; i += n) {
        n = utf8_decode(s + i, len - i, &cp);
        if (!is_case_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

static void append_lower(const char *s, size_t len, size_t at, uint32_t cp, struct buf *out) {
    if (cp == 0x130)
        buf_append_str(out, "i\xCC\x87");
    else if (cp == 0x3A3)
        buf_append_utf8(out, is_final_sigma(s, len, at) ? 0x3C2 : 0x3C3);
    else
        buf_append_utf8(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

static void append_folded(uint32_t cp, struct buf *out) {
    utf8proc_int32_t folded[16];
    int last = 0;
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 16, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < n && i < 16; i++) buf_append_utf8(out, (uint32_t)folded[i]);
}

static void append_cased(const char *s, size_t len, size_t at, bool is_start, enum jinja_case how,
                         struct buf *out) {
    uint32_t cp;
    size_t n = utf8_decode(s + at, len - at, &cp);
    if (how == JINJA_CASE_FOLD)
        append_folded(cp, out);
    else if (how == JINJA_CASE_UPPER || (how == JINJA_CASE_SWAP && is_lower(cp)))
        append_upper(cp, /*is_title=*/false, out);
    else if (how == JINJA_CASE_SWAP && !is_upper(cp))
        buf_append(out, s + at, n);
    else if (is_start && (how == JINJA_CASE_CAPITALIZE || how == JINJA_CASE_TITLE))
        append_upper(cp, /*is_title=*/true, out);
    else
        append_lower(s, len, at, cp, out);
}

static char ascii_cased(char c, bool is_start, enum jinja_case how) {
    bool is_low = is_ascii_lower((unsigned char)c), is_up = is_ascii_upper((unsigned char)c);
    bool wants_up = how == JINJA_CASE_UPPER || (how == JINJA_CASE_SWAP && is_low) ||
                    (is_start && (how == JINJA_CASE_CAPITALIZE || how == JINJA_CASE_TITLE));
    if (wants_up) return is_low ? (char)(c - 32) : c;
    return is_up ? (char)(c + 32) : c;
}

void jinja_text_case(const char *s, size_t len, enum jinja_case how, struct buf *out) {
    bool is_start = true;
    for (size_t i = 0, n; i < len && !out->failed; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        if (cp < 0x80)
            buf_append_char(out, ascii_cased(s[i], is_start, how));
        else
            append_cased(s, len, i, is_start, how, out);
        is_start = how == JINJA_CASE_TITLE && !is_cased(cp);
    }
}

/* ---- classes */

static bool is_of_identifier(uint32_t cp, bool is_first) {
    utf8proc_category_t c = category(cp);
    bool is_of = is_alpha(cp) || c == UTF8PROC_CATEGORY_NL || cp == '_';
    if (is_first) return is_of != jinja_unicode_is(cp, JINJA_SET_IDENTIFIER_START);
    is_of = is_of || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_MN ||
            c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_PC;
    return is_of != jinja_unicode_is(cp, JINJA_SET_IDENTIFIER_CONTINUE);
}

static bool is_of_class(uint32_t cp, enum jinja_class which, bool is_first) {
    switch (which) {
    case JINJA_CLASS_SPACE: return jinja_text_is_space(cp);
    case JINJA_CLASS_ALPHA: return is_alpha(cp);
    case JINJA_CLASS_DECIMAL: return category(cp) == UTF8PROC_CATEGORY_ND;
    case JINJA_CLASS_DIGIT:
        return category(cp) == UTF8PROC_CATEGORY_ND || jinja_unicode_is(cp, JINJA_SET_OTHER_DIGIT);
    case JINJA_CLASS_NUMERIC:
        return is_numeric(cp) || jinja_unicode_is(cp, JINJA_SET_OTHER_NUMERIC);
    case JINJA_CLASS_ALNUM: return is_alpha(cp) || is_numeric(cp);
    case JINJA_CLASS_ASCII: return cp < 0x80;
    case JINJA_CLASS_PRINTABLE: return jinja_text_is_printable(cp);
    case JINJA_CLASS_IDENTIFIER: return is_of_identifier(cp, is_first);
    default: return false;
    }
}

/* islower, isupper and istitle ask about cased characters only, and want at least one. */
static bool is_in_case(const char *s, size_t len, enum jinja_class which) {
    bool has_cased = false, was_cased = false;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        bool is_low = is_lower(cp), is_title = category(cp) == UTF8PROC_CATEGORY_LT;
        bool is_up = is_upper(cp);
        if (which == JINJA_CLASS_LOWER && (is_up || is_title)) return false;
        if (which == JINJA_CLASS_UPPER && (is_low || is_title)) return false;
        if (which == JINJA_CLASS_TITLE && (is_up || is_title) && was_cased) return false;
        if (which == JINJA_CLASS_TITLE && is_low && !was_cased) return false;
        was_cased = is_low || is_up || is_title;
        has_cased = has_cased || was_cased;
    }
    return has_cased;
}

bool jinja_text_is(const char *s, size_t len, enum jinja_class which) {
    if (which >= JINJA_CLASS_LOWER && which <= JINJA_CLASS_TITLE) return is_in_case(s, len, which);
    if (!len) return which == JINJA_CLASS_ASCII || which == JINJA_CLASS_PRINTABLE;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        if (!is_of_class(cp, which, i == 0)) return false;
    }
    return true;
}

void jinja_text_escape_html(const char *s, size_t len, struct buf *out) {
    for (size_t i = 0; i < len; i++) {
        switch (s[i]) {
        case '&': buf_append_str(out, "&amp;"); break;
        case '<': buf_append_str(out, "&lt;"); break;
        case '>': buf_append_str(out, "&gt;"); break;
        case '"': buf_append_str(out, "&#34;"); break;
        case '\'': buf_append_str(out, "&#39;"); break;
        default: buf_append_char(out, s[i]); break;
        }
    }
}
