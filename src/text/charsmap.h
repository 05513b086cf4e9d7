/* charsmap.h - SentencePiece's precompiled table of replacements: strings, and what they become.
 *
 * Owns: a copy of the table, which is untrusted: every access to it is bounded. Threads: immutable
 * after create. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "radish.h"

#include "base/buf.h"
#include "text/tokenizer_spec.h"

struct charsmap;

/* blob: as a SentencePiece model stores it. E_FORMAT: too short, or its texts are not UTF-8. */
enum radish_status charsmap_create(const char *blob, size_t len, struct charsmap **charsmap_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void charsmap_destroy(struct charsmap *charsmap);

/* The longest rule that s[0..n) starts with, as SentencePiece applies it: the length of what is
 * replaced, 0 = no rule. *text_out is borrowed from the table. */
size_t charsmap_longest(const struct charsmap *charsmap, const char *s, size_t n,
                        struct spec_str *text_out);

/* Appends valid UTF-8 s[0..n) as the Precompiled normalizer of the tokenizers library makes it. */
void charsmap_normalize(const struct charsmap *charsmap, const char *s, size_t n, struct buf *out);

/* How many bytes at the start of what charsmap_normalize() makes of s[0..n) the library takes to
 * come from the first `first` bytes of s, whole characters. */
size_t charsmap_first_len(const struct charsmap *charsmap, const char *s, size_t n, size_t first);

#endif
