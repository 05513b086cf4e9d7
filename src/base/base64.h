/* base64.h - bytes written in 64 characters (RFC 4648, with or without padding). Threads: any. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "radish.h"

#include "base/buf.h"

/* Appends the bytes of s[0..n); false, and out is as it was, where s is not base64. Out of memory
 * sets out->failed. */
bool base64_decode(const char *s, size_t n, struct buf *out) RADISH_CHECK_RESULT;

#endif
