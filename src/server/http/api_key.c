/* api_key.c - comparing secrets without telling how close a guess was.
 *
 * strcmp() stops at the first difference, and over many tries that time shows how long the right
 * prefix is. Here every byte of every key is compared, whatever the guess. The length of the guess
 * is the guesser's own knowledge; the lengths of the keys only decide the (constant) total. */
#include "api_key.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum radish_status api_keys_init(struct api_keys *keys, const char *const *values, size_t n,
                                 struct radish_error *err) {
    memset(keys, 0, sizeof *keys);
    if (!n) return RADISH_OK;
    keys->keys = mem_zalloc(n, sizeof *keys->keys);
    if (!keys->keys) return error_nomem(err);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(values[i]);
        if (!len || len > API_KEY_BYTES_MAX) {
            api_keys_deinit(keys);
            return error_set_field(err, RADISH_E_INVALID, "--api-key",
                                   "an API key must have 1 to %d bytes", API_KEY_BYTES_MAX);
        }
        keys->keys[keys->n] = mem_strndup(values[i], len);
        if (!keys->keys[keys->n]) {
            api_keys_deinit(keys);
            return error_nomem(err);
        }
        keys->n++;
    }
    return RADISH_OK;
}

void api_keys_deinit(struct api_keys *keys) {
    for (size_t i = 0; i < keys->n; i++) free(keys->keys[i]);
    free(keys->keys);
    memset(keys, 0, sizeof *keys);
}

static unsigned differs(const char *key, const char *guess, size_t guess_len) {
    size_t key_len = strlen(key);
    unsigned difference = key_len != guess_len;
    for (size_t i = 0; i < key_len; i++)
        difference |= (unsigned char)key[i] ^ (unsigned char)guess[i < guess_len ? i : guess_len];
    return difference;
}

bool api_keys_find_bare(const struct api_keys *keys, const char *guess, uint32_t *idx_out) {
    *idx_out = API_KEY_NONE;
    if (!keys->n) return true;
    if (!guess) return false;
    while (*guess == ' ') guess++;
    size_t guess_len = strlen(guess);
    while (guess_len && guess[guess_len - 1] == ' ') guess_len--;
    for (size_t i = keys->n; i-- > 0;)
        if (!differs(keys->keys[i], guess, guess_len)) *idx_out = (uint32_t)i;
    return *idx_out != API_KEY_NONE;
}

bool api_keys_find(const struct api_keys *keys, const char *authorization, uint32_t *idx_out) {
    static const char scheme[] = "Bearer ";
    size_t n = sizeof scheme - 1;
    bool is_bearer = authorization && !strncasecmp(authorization, scheme, n);
    return api_keys_find_bare(keys, is_bearer ? authorization + n : NULL, idx_out);
}

bool api_keys_accept(const struct api_keys *keys, const char *authorization) {
    return api_keys_find(keys, authorization, &(uint32_t){0});
}
