/* api_key.h - the keys that open the API. Owns copies. Threads: any; the set is constant after
 * init. */
#ifndef SERVER_API_KEY_H
#define SERVER_API_KEY_H

#include "radish.h"

enum { API_KEY_BYTES_MAX = 1024 };

struct api_keys {
    char **keys; /* [n] NUL-terminated */
    size_t n;
};

/* E_INVALID for an empty or overlong key. */
enum radish_status api_keys_init(struct api_keys *keys, const char *const *values, size_t n,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void api_keys_deinit(struct api_keys *keys);

/* Whether this Authorization header ("Bearer KEY"; NULL: none came) opens. Without keys everything
 * does. The time taken depends on the length of the header and on the keys, not on how many bytes
 * of a key were guessed. */
bool api_keys_accept(const struct api_keys *keys, const char *authorization);

/* The same, and which key it was: *idx_out is its index, or API_KEY_NONE. */
#define API_KEY_NONE UINT32_MAX
bool api_keys_find(const struct api_keys *keys, const char *authorization, uint32_t *idx_out);

/* The same for a header that holds the key alone (X-Api-Key; NULL: none came). */
bool api_keys_find_bare(const struct api_keys *keys, const char *guess, uint32_t *idx_out);

#endif
