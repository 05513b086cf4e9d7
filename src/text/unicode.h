/* unicode.h - questions about characters, and normal forms, over utf8proc (Unicode 15).
 *
 * The classes are those that the tokenizers library uses (Rust's char and regex classes). Threads:
 * any. */
#ifndef TEXT_UNICODE_H
#define TEXT_UNICODE_H

#include "radish.h"

#include "base/buf.h"

bool unicode_is_space(uint32_t c);           /* White_Space */
bool unicode_is_word(uint32_t c);            /* \w: letters, marks, decimal digits, connectors */
bool unicode_is_number(uint32_t c);          /* Nd, Nl, No */
bool unicode_is_punctuation(uint32_t c);     /* ASCII punctuation, or P* */
bool unicode_is_mark(uint32_t c);            /* Mn, Mc, Me */
bool unicode_is_nonspacing_mark(uint32_t c); /* Mn */
bool unicode_is_control(uint32_t c);         /* Cc, Cf, Co: BertNormalizer's control characters */

enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD };

/* Appends the normal form of s[0..n), valid UTF-8, to out. False: out of memory (out->failed, or
 * the library's). */
bool unicode_normalize(enum unicode_form form, const char *s, size_t n, struct buf *out);

/* Appends the full lower case of c ("İ" gives two characters). */
void unicode_append_lower(uint32_t c, struct buf *out);

/* True: c is a starter that NFC leaves alone and that never joins with what stands before it, so
 * that text may be cut before c. (False is always safe.) */
bool unicode_is_nfc_boundary(uint32_t c);

#endif
