/* utf8.c - the state of a multi-byte character is small: how many bytes follow, and which range the
 * second one may have (table 3-7 of the Unicode standard). An ill-formed sequence is replaced by
 * one U+FFFD per maximal subpart, as Python and the WHATWG decoder do, so that our text equals the
 * reference's byte for byte. */
#include "utf8.h"

/* Length of the character that starts with `first` (0: none can), and the range of its second byte.
 */
static size_t lead(unsigned char first, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) {
        if (first == 0xE0) *low = 0xA0;
        if (first == 0xED) *high = 0x9F;
        return 3;
    }
    if (first > 0xF4) return 0;
    if (first == 0xF0) *low = 0x90;
    if (first == 0xF4) *high = 0x8F;
    return 4;
}

size_t utf8_decode_partial(const char *text, size_t n, uint32_t *code_point_out) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low, high;
    size_t len = lead(s[0], &low, &high);
    *code_point_out = UTF8_REPLACEMENT;
    if (len == 1) *code_point_out = s[0];
    if (len <= 1) return 1;
    uint32_t cp = s[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if (i == n) return 0;
        if (s[i] < low || s[i] > high) return i;
        cp = cp << 6 | (s[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *code_point_out = cp;
    return len;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *code_point_out) {
    size_t len = utf8_decode_partial(s, n, code_point_out);
    return len ? len : n; /* a cut character: all that is there is one ill-formed part */
}

size_t utf8_valid_prefix(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        uint32_t cp;
        if ((unsigned char)s[i] < 0x80) {
            i++;
            continue;
        }
        size_t len = utf8_decode_partial(s + i, n - i, &cp);
        /* U+FFFD itself is three valid bytes: EF BF BD. */
        bool is_replacement = len == 3 && (unsigned char)s[i] == 0xEF &&
                              (unsigned char)s[i + 1] == 0xBF && (unsigned char)s[i + 2] == 0xBD;
        if (!len || (cp == UTF8_REPLACEMENT && !is_replacement)) return i;
        i += len;
    }
    return i;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) cp = UTF8_REPLACEMENT;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool utf8_is_space(uint32_t cp) {
    if (cp < 0x80) return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

size_t utf8_trim_end(const char *s, size_t n) {
    while (n) {
        size_t begin = n - 1;
        uint32_t cp = 0;
        while (begin && ((unsigned char)s[begin] & 0xC0) == 0x80) begin--;
        utf8_decode(s + begin, n - begin, &cp);
        if (!utf8_is_space(cp)) break;
        n = begin;
    }
    return n;
}

size_t utf8_count(const char *s, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}
