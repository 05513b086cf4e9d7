/* unicode.c - classes of characters and normal forms.
 *
 * utf8proc gives the category of a character and does the normalisation; both are slow beside
 * what most text needs. ASCII is answered by comparisons. NFC, which every Qwen prompt goes
 * through, copies runs of characters that are known to be left alone and hands only the rest to
 * the library: a segment starts at the last boundary character before the first doubtful one (the
 * doubtful one may combine with it) and ends before the next boundary character. The boundary set
 * need not be complete, only correct: it holds the blocks most text is written in, and
 * test_unicode.c compares it with the library for every code point. */
#include "unicode.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

bool unicode_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_ascii_alnum(uint32_t c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

bool unicode_is_word(uint32_t c) {
    if (c < 0x80) return is_ascii_alnum(c) || c == '_';
    if (c == 0x200C || c == 0x200D) return true;
    /* Other_Alphabetic symbols: circled and squared letters. */
    if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
        (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
        return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

bool unicode_is_number(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool unicode_is_punctuation(uint32_t c) {
    if (c < 0x80) return c > ' ' && c < 0x7F && !is_ascii_alnum(c);
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool unicode_is_mark(uint32_t c) {
    if (c < 0x300) return false;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

void unicode_append_lower(uint32_t c, struct buf *out) {
    if (c == 0x130) { /* The one character whose lower case is two. */
        buf_append_str(out, "i\xCC\x87");
        return;
    }
    buf_append_utf8(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
}

bool unicode_is_nfc_boundary(uint32_t c) {
    return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48A && c <= 0x52F) ||
           (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205E) ||
           (c >= 0x2190 && c <= 0x2328) || (c >= 0x2500 && c <= 0x2ADB) ||
           (c >= 0x3000 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
           (c >= 0x30A0 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) ||
           (c >= 0xFF00 && c <= 0xFFEF) || (c >= 0x1F300 && c <= 0x1FAFF);
}

static bool append_form(enum unicode_form form, const char *s, size_t n, struct buf *out) {
    static const int options[] = {
        [UNICODE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [UNICODE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [UNICODE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [UNICODE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &mapped,
                                        (utf8proc_option_t)options[form]);
    if (len >= 0) buf_append(out, mapped, (size_t)len);
    free(mapped);
    return len >= 0 && !out->failed;
}

static size_t skip_ascii(const char *s, size_t at, size_t n) {
    while (at < n && (unsigned char)s[at] < 0x80) at++;
    return at;
}

static bool append_nfc(const char *s, size_t n, struct buf *out) {
    size_t copied = 0, boundary = 0; /* s[copied..boundary) is clean; boundary: last clean char */
    for (size_t at = 0; at < n;) {
        uint32_t c;
        size_t ascii_end = skip_ascii(s, at, n);
        if (ascii_end > at) {
            boundary = ascii_end - 1;
            at = ascii_end;
            continue;
        }
        size_t len = utf8_decode(s + at, n - at, &c);
        if (unicode_is_nfc_boundary(c)) {
            boundary = at;
            at += len;
            continue;
        }
        do {
            at += len;
            if (at >= n) break;
            len = utf8_decode(s + at, n - at, &c);
        } while (!unicode_is_nfc_boundary(c));
        buf_append(out, s + copied, boundary - copied);
        if (!append_form(UNICODE_NFC, s + boundary, at - boundary, out)) return false;
        copied = boundary = at;
    }
    buf_append(out, s + copied, n - copied);
    return !out->failed;
}

bool unicode_normalize(enum unicode_form form, const char *s, size_t n, struct buf *out) {
    if (skip_ascii(s, 0, n) == n) {
        buf_append(out, s, n);
        return !out->failed;
    }
    return form == UNICODE_NFC ? append_nfc(s, n, out) : append_form(form, s, n, out);
}
