/* jinja_text.c - Python's str on UTF-8.
 *
 * White space, case and classes are Unicode's, from utf8proc; lines end where str.splitlines() says
 * they do. Case mapping is by character (utf8proc's simple mapping) with the common mappings to
 * several characters on top: sharp s, ligatures, dotted I, and the final sigma. Searching is memmem
 * for the first occurrence: UTF-8 never matches inside a character. */
#include "jinja_text.h"

#include "base/utf8.h"

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
    static const char *const ligatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
    static const char *const titles[] = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
    if (cp == 0xDF)
        buf_append_str(out, is_title ? "Ss" : "SS");
    else if (cp == 0x149)
        buf_append_str(out, "\xCA\xBCN");
    else if (cp == 0x1F0)
        buf_append_str(out, "J\xCC\x8C");
    else if (cp >= 0xFB00 && cp <= 0xFB06)
        buf_append_str(out, is_title ? titles[cp - 0xFB00] : ligatures[cp - 0xFB00]);
    else if (is_title)
        buf_append_utf8(out, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
    else
        buf_append_utf8(out, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
}

static bool is_cased(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* Whether the sigma at s[at..at+2) ends a word: a letter before it, none behind. */
static bool is_final_sigma(const char *s, size_t len, size_t at) {
    uint32_t cp;
    if (!at) return false;
    size_t before = jinja_text_before(s, at);
    utf8_decode(s + before, len - before, &cp);
    if (!is_cased(cp)) return false;
    if (at + 2 >= len) return true;
    utf8_decode(s + at + 2, len - at - 2, &cp);
    return !is_cased(cp);
}

static void append_lower(const char *s, size_t len, size_t at, uint32_t cp, struct buf *out) {
    if (cp == 0x130)
        buf_append_str(out, "i\xCC\x87");
    else if (cp == 0x3A3)
        buf_append_utf8(out, is_final_sigma(s, len, at) ? 0x3C2 : 0x3C3);
    else
        buf_append_utf8(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

void jinja_text_case(const char *s, size_t len, enum jinja_case how, struct buf *out) {
    bool is_start = true;
    for (size_t i = 0, n; i < len && !out->failed; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        bool is_upper = how == JINJA_CASE_UPPER, is_title = false;
        if (how == JINJA_CASE_SWAP) is_upper = category(cp) == UTF8PROC_CATEGORY_LL;
        if (how == JINJA_CASE_CAPITALIZE || how == JINJA_CASE_TITLE) is_title = is_start;
        if (is_ascii_lower(cp) && (is_upper || is_title))
            buf_append_char(out, (char)(cp - 32));
        else if (is_ascii_upper(cp) && !is_upper && !is_title)
            buf_append_char(out, (char)(cp + 32));
        else if (cp < 0x80)
            buf_append_char(out, (char)cp);
        else if (is_upper || is_title)
            append_upper(cp, is_title, out);
        else
            append_lower(s, len, i, cp, out);
        is_start = how == JINJA_CASE_TITLE && !is_cased(cp);
    }
}

/* ---- classes */

static bool is_of_class(uint32_t cp, enum jinja_class which, bool is_first) {
    switch (which) {
    case JINJA_CLASS_SPACE: return jinja_text_is_space(cp);
    case JINJA_CLASS_ALPHA: return is_alpha(cp);
    case JINJA_CLASS_DECIMAL: return category(cp) == UTF8PROC_CATEGORY_ND;
    case JINJA_CLASS_DIGIT:
        return category(cp) == UTF8PROC_CATEGORY_ND || cp == 0xB2 || cp == 0xB3 || cp == 0xB9 ||
               cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089);
    case JINJA_CLASS_NUMERIC: return is_numeric(cp);
    case JINJA_CLASS_ALNUM: return is_alpha(cp) || is_numeric(cp);
    case JINJA_CLASS_ASCII: return cp < 0x80;
    case JINJA_CLASS_PRINTABLE: return jinja_text_is_printable(cp);
    case JINJA_CLASS_IDENTIFIER:
        if (cp == '_' || is_alpha(cp) || category(cp) == UTF8PROC_CATEGORY_NL) return true;
        if (is_first) return false;
        return cp == 0xB7 || category(cp) == UTF8PROC_CATEGORY_ND ||
               category(cp) == UTF8PROC_CATEGORY_MN || category(cp) == UTF8PROC_CATEGORY_MC ||
               category(cp) == UTF8PROC_CATEGORY_PC;
    default: return false;
    }
}

/* islower, isupper and istitle ask about cased characters only, and want at least one. */
static bool is_in_case(const char *s, size_t len, enum jinja_class which) {
    bool has_cased = false, was_cased = false;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = utf8_decode(s + i, len - i, &cp);
        bool is_lower = category(cp) == UTF8PROC_CATEGORY_LL;
        if (is_cased(cp)) {
            if (which == JINJA_CLASS_LOWER && !is_lower) return false;
            if (which == JINJA_CLASS_UPPER && is_lower) return false;
            if (which == JINJA_CLASS_TITLE && is_lower != was_cased) return false;
            has_cased = true;
        }
        was_cased = is_cased(cp);
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
