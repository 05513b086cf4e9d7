/* namespace_key.c - several fields in one key, so that no two different sets of fields are equal.
 *
 * The problem: who glues fields together ("a" + "bc" is "ab" + "c"), or puts different fields into
 * the same place (one user's salt is another's adapter name), lets strangers share a cache. And
 * timing tells: a prompt that starts faster has been asked before. So each field is written as
 *
 *   tag (1 byte) | length (4 bytes, little end first) | bytes
 *
 * in a fixed order, absent fields not at all. From such a string the fields can be read back, which
 * is what makes it different for different fields.
 *
 * A salt that a client chooses is a convenience, no border: who knows it shares. The border is the
 * API key, which is not in the client's hand: the server writes its index, not the secret. */
#include "namespace_key.h"

#include "api_key.h"

#include <string.h>

_Static_assert((int)NAMESPACE_KEY_BYTES_MAX <= RADISH_NAMESPACE_MAX, "the engine takes it");

enum tag { TAG_API_KEY = 'k', TAG_EXTRA_KEY = 'e', TAG_CACHE_SALT = 's' };

static size_t write_u32(uint32_t value, char *out) {
    for (unsigned i = 0; i < 4; i++) out[i] = (char)(value >> 8 * i & 0xff);
    return 4;
}

static size_t write_field(enum tag tag, const char *bytes, size_t len, char *out) {
    out[0] = (char)tag;
    write_u32((uint32_t)len, out + 1);
    memcpy(out + 5, bytes, len);
    return 5 + len;
}

size_t namespace_key_write(uint32_t key_idx, const char *extra_key, const char *cache_salt,
                           char out[NAMESPACE_KEY_BYTES_MAX]) {
    char number[4];
    size_t n = 0;
    if (key_idx != API_KEY_NONE)
        n += write_field(TAG_API_KEY, number, write_u32(key_idx, number), out + n);
    if (extra_key) n += write_field(TAG_EXTRA_KEY, extra_key, strlen(extra_key), out + n);
    if (cache_salt) n += write_field(TAG_CACHE_SALT, cache_salt, strlen(cache_salt), out + n);
    return n;
}
