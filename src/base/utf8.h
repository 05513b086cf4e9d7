/* utf8.h - strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
 * Threads: any. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "radish.h"

#define UTF8_REPLACEMENT 0xFFFDu

/* Bytes of the valid prefix of s[0..n): n if all is valid. */
size_t utf8_valid_prefix(const char *s, size_t n);

/* Decodes the character at s (n >= 1 bytes left) and returns its length, 1..4. Where the bytes are
 * not valid it returns the length of the maximal ill-formed part (Unicode 3.9, as Python's
 * errors="replace") and sets *code_point_out to UTF8_REPLACEMENT. */
size_t utf8_decode(const char *s, size_t n, uint32_t *code_point_out);

/* Like utf8_decode(), but 0 when s[0..n) is a proper start of a valid character whose rest is
 * missing. */
size_t utf8_decode_partial(const char *s, size_t n, uint32_t *code_point_out);

/* Writes 1..4 bytes; surrogates and values past U+10FFFF become U+FFFD. */
size_t utf8_encode(uint32_t code_point, char bytes_out[4]);

/* White space as Python's str.isspace() and str.strip() see it. */
bool utf8_is_space(uint32_t code_point);

/* Length of valid UTF-8 without the white space at its end. */
size_t utf8_trim_end(const char *s, size_t n);

/* Number of characters in valid UTF-8. */
size_t utf8_count(const char *s, size_t n);

#endif
