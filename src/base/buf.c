/* buf.c - text that is put together piece by piece.
 *
 * Growth by half again plus a floor: appends cost O(1) amortised, small texts allocate once, and at
 * most a third of a large buffer is slack. Doubling would copy less often and waste more where a
 * response of megabytes is built. The failure flag is what keeps the callers short: a writer of
 * forty appends checks once, and after a failure the content is what it was before the append that
 * failed. */
#include "buf.h"

#include "mem.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_FIRST = 64 };

void buf_init(struct buf *b, size_t bytes_max) {
    *b = (struct buf){.bytes_max = bytes_max};
}

void buf_deinit(struct buf *b) {
    if (!b) return;
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t extra) {
    size_t need;
    if (b->failed) return false;
    if (!mem_add(b->len, extra, &need) || (b->bytes_max && need > b->bytes_max) ||
        !mem_add(need, 1, &need))
        goto fail;
    if (need <= b->capacity) return true;
    size_t capacity = b->capacity + b->capacity / 2;
    if (capacity < need) capacity = need;
    if (capacity < BYTES_FIRST) capacity = BYTES_FIRST;
    char *data = realloc(b->data, capacity);
    if (!data) goto fail;
    b->data = data;
    b->capacity = capacity;
    b->data[b->len] = '\0';
    return true;
fail:
    b->failed = true;
    return false;
}

void buf_append(struct buf *b, const void *bytes, size_t n) {
    if (!n || !buf_reserve(b, n)) return;
    memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_append_str(struct buf *b, const char *s) {
    buf_append(b, s, strlen(s));
}

void buf_append_char(struct buf *b, char c) {
    buf_append(b, &c, 1);
}

void buf_append_utf8(struct buf *b, uint32_t code_point) {
    char bytes[4];
    buf_append(b, bytes, utf8_encode(code_point, bytes));
}

void buf_printf(struct buf *b, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n > 0 && buf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else if (n < 0) {
        b->failed = true;
    }
    va_end(again);
}

void buf_remove_front(struct buf *b, size_t n) {
    if (!n) return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

char *buf_take(struct buf *b, size_t *len_out) {
    if (!b->failed && !b->data) buf_reserve(b, 0);
    char *data = b->failed ? NULL : b->data;
    if (b->failed) free(b->data);
    if (len_out) *len_out = data ? b->len : 0;
    buf_init(b, b->bytes_max);
    return data;
}
