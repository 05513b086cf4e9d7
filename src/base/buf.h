/* buf.h - a growing byte buffer. Failure sticks: once an append fails (out of memory, or past
 * `bytes_max`), further appends do nothing and `failed` stays set, so a writer checks once at the
 * end. Always NUL-terminated behind `len` when data is not NULL. Threads: one at a time. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "radish.h"

struct buf {
    char *data; /* [len] and a NUL, or NULL while empty */
    size_t len;
    size_t capacity;
    size_t bytes_max; /* 0 = no limit */
    bool failed;
};

void buf_init(struct buf *b, size_t bytes_max);
void buf_deinit(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, memory stays, failed is reset */

bool buf_reserve(struct buf *b, size_t extra); /* room for `extra` more bytes without allocation */
void buf_append(struct buf *b, const void *bytes, size_t n);
void buf_append_str(struct buf *b, const char *s);
void buf_append_char(struct buf *b, char c);
void buf_append_utf8(struct buf *b, uint32_t code_point);
void buf_printf(struct buf *b, const char *fmt, ...) RADISH_PRINTF(2, 3);
void buf_remove_front(struct buf *b, size_t n); /* drops the first n <= len bytes */

/* Hands the memory over (caller frees with free()) and leaves the buffer empty. Never NULL, unless
 * failed: then NULL. len_out may be NULL. */
char *buf_take(struct buf *b, size_t *len_out);

#endif
