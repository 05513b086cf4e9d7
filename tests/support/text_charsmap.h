/* text_charsmap.h - SentencePiece's precompiled charsmap, made of a few rules; for tests. */
#ifndef SUPPORT_TEXT_CHARSMAP_H
#define SUPPORT_TEXT_CHARSMAP_H

#include "base/buf.h"

struct charsmap_rule {
    const char *from, *to; /* from: not empty; each one once, any order */
};

/* Appends the blob: trie size, double array, texts. */
void charsmap_write(const struct charsmap_rule *rules, size_t n, struct buf *out);

#endif
