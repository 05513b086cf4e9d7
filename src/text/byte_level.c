/* byte_level.c - the alphabet is three runs of bytes that are not visible (0x00-0x20, 0x7F-0xA0,
 * 0xAD), numbered upward from U+0100 in byte order; so both directions are arithmetic and need no
 * table. */
#include "byte_level.h"

#include "base/utf8.h"

enum { BASE = 0x100, SECOND = BASE + 0x21, THIRD = SECOND + 0x22 };

uint32_t byte_level_char(uint8_t byte) {
    if (byte <= 0x20) return BASE + (uint32_t)byte;
    if (byte >= 0x7F && byte <= 0xA0) return SECOND + (uint32_t)byte - 0x7F;
    return byte == 0xAD ? THIRD : byte;
}

int byte_level_byte(uint32_t c) {
    if (c < BASE) return byte_level_char((uint8_t)c) == c ? (int)c : -1;
    if (c < SECOND) return (int)(c - BASE);
    if (c < THIRD) return (int)(c - SECOND + 0x7F);
    return c == THIRD ? 0xAD : -1;
}

void byte_level_append_chars(const char *s, size_t n, struct buf *out) {
    for (size_t i = 0; i < n; i++) buf_append_utf8(out, byte_level_char((uint8_t)s[i]));
}

bool byte_level_append_bytes(const char *s, size_t n, struct buf *out) {
    size_t len_before = out->len;
    for (size_t at = 0; at < n;) {
        uint32_t c;
        at += utf8_decode(s + at, n - at, &c);
        int byte = byte_level_byte(c);
        if (byte < 0) {
            out->len = len_before;
            if (out->data) out->data[len_before] = '\0';
            return false;
        }
        buf_append_char(out, (char)byte);
    }
    return true;
}
