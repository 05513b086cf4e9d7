/* byte_level.h - GPT-2's alphabet: every byte as one visible character, so that a vocabulary of
 * bytes can be written as text. Visible Latin-1 stands for itself, the 68 others for U+0100 and
 * up. Threads: any. */
#ifndef TEXT_BYTE_LEVEL_H
#define TEXT_BYTE_LEVEL_H

#include "radish.h"

#include "base/buf.h"

uint32_t byte_level_char(uint8_t byte);
int byte_level_byte(uint32_t c); /* -1: not in the alphabet */

/* Appends the bytes s[0..n) written in the alphabet. */
void byte_level_append_chars(const char *s, size_t n, struct buf *out);

/* Appends the bytes that valid UTF-8 s[0..n) stands for; false, and nothing appended, when one of
 * its characters is not in the alphabet. */
bool byte_level_append_bytes(const char *s, size_t n, struct buf *out);

#endif
