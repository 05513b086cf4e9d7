/* unicode.c - classes of characters and normal forms.
 *
 * utf8proc gives the category of a character and does the normalisation; both are slow beside
 * what most text needs. ASCII is answered by comparisons. NFC, which every Qwen prompt goes
 * through, copies runs of characters that are known to be left alone and hands only the rest to
 * the library: a segment starts at the last boundary character before the first doubtful one (the
 * doubtful one may combine with it) and ends before the next boundary character. The boundary set
 * need not be complete, only correct: it holds the blocks most text is written in, and
 * test_unicode.c compares it with the library for every code point.
 *
 * The normal forms are those of Unicode 9, since that is what the tokenizers package knows, and so
 * what the models were trained with: what later versions say about characters that came later is
 * not applied. Text is cut at these characters, which then stay as they are. The classes follow the
 * package's tables, too (unicode_edition.c). */
#include "unicode.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "unicode_edition.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

bool unicode_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_ascii_alnum(uint32_t c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_newest_word(uint32_t c) {
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

bool unicode_is_word(uint32_t c) {
    if (c < 0x80) return is_ascii_alnum(c) || c == '_';
    return unicode_edition_has(UNICODE_CLASS_WORD, is_newest_word(c), c);
}

bool unicode_is_number(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return unicode_edition_has(UNICODE_CLASS_NUMBER,
                               category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO,
                               c);
}

bool unicode_is_punctuation(uint32_t c) {
    if (c < 0x80) return c > ' ' && c < 0x7F && !is_ascii_alnum(c);
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return unicode_edition_has(UNICODE_CLASS_PUNCTUATION,
                               category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO,
                               c);
}

bool unicode_is_mark(uint32_t c) {
    if (c < 0x300) return false;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return unicode_edition_has(UNICODE_CLASS_MARK,
                               category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME,
                               c);
}

bool unicode_is_nonspacing_mark(uint32_t c) {
    if (c < 0x300) return false;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return unicode_edition_has(UNICODE_CLASS_NONSPACING_MARK, category == UTF8PROC_CATEGORY_MN, c);
}

bool unicode_is_control(uint32_t c) {
    if (c < 0x7F) return c < ' ';
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return unicode_edition_has(UNICODE_CLASS_CONTROL,
                               category == UTF8PROC_CATEGORY_CC ||
                                   category == UTF8PROC_CATEGORY_CF ||
                                   category == UTF8PROC_CATEGORY_CO,
                               c);
}

void unicode_append_lower(uint32_t c, struct buf *out) {
    if (c == 0x130) { /* The one character whose lower case is two. */
        buf_append_str(out, "i\xCC\x87");
        return;
    }
    uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    buf_append_utf8(out, lower == c ? unicode_edition_lower(c) : lower);
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

/* Characters newer than Unicode 9 that a later version reorders, composes or decomposes, up to
 * Unicode 18 (found by comparing tokenizers 0.23 with unicodedata2 18.0, character by character).
 */
static const uint32_t newer[][2] = {
    {0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},
    {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1AF0},
    {0x1DF6, 0x1DFA},   {0x209D, 0x209F},   {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9}, {0x105D2, 0x105D2},
    {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BF}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
    {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385},
    {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113B8, 0x113B8},
    {0x113BB, 0x113BB}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113C9},
    {0x113CE, 0x113D0}, {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930},
    {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x1611E, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63}, {0x16D67, 0x16D6A},
    {0x16FF0, 0x16FF1}, {0x1B123, 0x1B126}, {0x1CCD6, 0x1CCF9}, {0x1D127, 0x1D128},
    {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281},
    {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1DF95}, {0x1DFCD, 0x1DFFF}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6},
    {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

static bool is_newer(uint32_t c) {
    size_t low = 0, high = sizeof newer / sizeof *newer;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (c > newer[mid][1])
            low = mid + 1;
        else
            high = mid;
    }
    return low < sizeof newer / sizeof *newer && c >= newer[low][0];
}

static size_t combining_class(utf8proc_int32_t c) {
    return (size_t)utf8proc_get_property(c)->combining_class;
}

/* Sorts chars[0..n), all of them combining, by their class; equals keep their order. By insertion
 * when they are few; a run of a megabyte is counted per class. False: out of memory. */
static bool order_marks(utf8proc_int32_t *chars, size_t n) {
    enum { FEW = 32 };
    size_t starts[257] = {0};
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            utf8proc_int32_t c = chars[i];
            size_t at = i;
            for (; at && combining_class(chars[at - 1]) > combining_class(c); at--)
                chars[at] = chars[at - 1];
            chars[at] = c;
        }
        return true;
    }
    utf8proc_int32_t *sorted = mem_alloc(n, sizeof *sorted);
    if (!sorted) return false;
    for (size_t i = 0; i < n; i++) starts[combining_class(chars[i]) + 1]++;
    for (size_t i = 0; i < 256; i++) starts[i + 1] += starts[i];
    for (size_t i = 0; i < n; i++) sorted[starts[combining_class(chars[i])]++] = chars[i];
    memcpy(chars, sorted, n * sizeof *chars);
    free(sorted);
    return true;
}

/* The characters that s[0..n) decomposes to; caller frees. NULL: out of memory. */
static utf8proc_int32_t *decompose(const char *s, size_t n, utf8proc_option_t options,
                                   size_t *n_out) {
    size_t capacity = n + 32, len = 0;
    utf8proc_int32_t *chars = mem_alloc(capacity, sizeof *chars);
    for (size_t at = 0; chars && at < n;) {
        uint32_t c;
        at += utf8_decode(s + at, n - at, &c);
        if (capacity - len < 32) { /* no character decomposes to more than 18 */
            utf8proc_int32_t *more = realloc(chars, (capacity *= 2) * sizeof *chars);
            if (!more) free(chars);
            chars = more;
            if (!chars) break;
        }
        utf8proc_ssize_t added = utf8proc_decompose_char(
            (utf8proc_int32_t)c, chars + len, (utf8proc_ssize_t)(capacity - len), options, NULL);
        if (added > 0) len += (size_t)added;
    }
    *n_out = len;
    return chars;
}

/* utf8proc_map() would sort combining marks by exchanging neighbours: hours for a megabyte. */
static bool append_mapped(enum unicode_form form, const char *s, size_t n, struct buf *out) {
    static const int options[] = {
        [UNICODE_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [UNICODE_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [UNICODE_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [UNICODE_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    const utf8proc_option_t option = (utf8proc_option_t)options[form];
    size_t len;
    utf8proc_int32_t *chars = decompose(s, n, option, &len);
    bool ok = chars != NULL;
    for (size_t at = 0, end; ok && at < len; at = end) {
        end = at + 1;
        if (!combining_class(chars[at])) continue;
        while (end < len && combining_class(chars[end])) end++;
        ok = order_marks(chars + at, end - at);
    }
    utf8proc_ssize_t kept =
        ok ? utf8proc_normalize_utf32(chars, (utf8proc_ssize_t)len, option) : -1;
    for (utf8proc_ssize_t i = 0; i < kept; i++) buf_append_utf8(out, (uint32_t)chars[i]);
    free(chars);
    return kept >= 0 && !out->failed;
}

static bool append_form(enum unicode_form form, const char *s, size_t n, struct buf *out) {
    size_t done = 0;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t c;
        len = utf8_decode(s + at, n - at, &c);
        if (!is_newer(c)) continue;
        if (at > done && !append_mapped(form, s + done, at - done, out)) return false;
        buf_append(out, s + at, len);
        done = at + len;
    }
    if (n > done && !append_mapped(form, s + done, n - done, out)) return false;
    return !out->failed;
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
