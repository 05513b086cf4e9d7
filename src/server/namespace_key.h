/* namespace_key.h - the name of the namespace in which a request shares cached prefixes: its API
 * key (where keys are isolated), its extra_key and its cache_salt, in one string of bytes. Threads:
 * any. */
#ifndef SERVER_NAMESPACE_KEY_H
#define SERVER_NAMESPACE_KEY_H

#include "openai_types.h"

#include <stddef.h>

/* A tag and a length for each field, and what it holds. */
enum { NAMESPACE_KEY_BYTES_MAX = 3 * 5 + 4 + 2 * OPENAI_NAMESPACE_BYTES_MAX };

/* key_idx: API_KEY_NONE when it does not separate; texts: NULL when absent. Returns the length; 0
 * is the common namespace. */
size_t namespace_key_write(uint32_t key_idx, const char *extra_key, const char *cache_salt,
                           char out[NAMESPACE_KEY_BYTES_MAX]);

#endif
