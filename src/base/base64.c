/* base64.c - four characters to three bytes.
 *
 * Only the standard alphabet, no white space; a last group may lack its padding. Bits that padding
 * leaves over must be zero, so that one string of bytes has one spelling. */
#include "base64.h"

#include "buf.h"

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *s, size_t n, struct buf *out) {
    size_t len_before = out->len;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    if (n && n % 4 == 0 && s[n - 1] == '=') n -= s[n - 2] == '=' ? 2 : 1;
    bool ok = n % 4 != 1;
    for (size_t i = 0; i < n && ok; i++) {
        int value = value_of(s[i]);
        ok = value >= 0;
        bits = bits << 6 | (uint32_t)(value & 63);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        buf_append_char(out, (char)(bits >> n_bits & 0xFF));
    }
    if (ok && !(bits & ((1u << n_bits) - 1))) return true;
    out->len = len_before;
    if (out->data) out->data[len_before] = '\0';
    return false;
}
