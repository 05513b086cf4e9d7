/* namespace.h - numbers for the names of namespaces: requests share prefixes with their like only.
 *
 * A name is any bytes (extra key, salt, adapter, API key: the server tags and joins them); the tree
 * knows numbers. Names are compared in full: a number never stands for two of them at a time. The
 * empty name is number 0 and always there.
 *
 * Owns: copies of the names. Threads: under the engine's lock; namespaces_sweep() on the engine's
 * thread, too, because it asks the tree. Fails: take, when memory is exhausted or the names in use
 * fill NAMESPACES_BYTES_MAX.
 *
 * A name is forgotten, and its number used again, when no live request has it and the tree holds
 * nothing of it. */
#ifndef ENGINE_NAMESPACE_H
#define ENGINE_NAMESPACE_H

#include "radish.h"

#include "cache/radix.h"

#define NAMESPACES_BYTES_MAX ((size_t)64 << 20)

struct namespace_entry;

struct namespaces {
    struct namespace_entry **entries; /* [n_entries_max] by number - 1; NULL = free */
    uint32_t n_entries, n_entries_max;
    uint32_t *numbers_free; /* [n_free] a stack, as long as entries */
    uint32_t n_free;
    uint32_t *buckets; /* [n_buckets] number of the first entry, 0 = none; a power of two */
    uint32_t n_buckets;
    size_t n_bytes, n_bytes_max;
    uint64_t seed;
    uint32_t cursor; /* of the sweep */
};

void namespaces_init(struct namespaces *names, uint64_t seed);
void namespaces_deinit(struct namespaces *names);

/* The number of key[0..len), for one more request. False: none can be had. */
bool namespaces_take(struct namespaces *names, const void *key, size_t len, uint32_t *number_out);
/* One request less. */
void namespaces_give(struct namespaces *names, uint32_t number);

/* The name that `number` stands for; returns its length. */
size_t namespaces_copy(const struct namespaces *names, uint32_t number,
                       char name_out[RADISH_NAMESPACE_MAX]);

/* Looks at a few names, and forgets those that nobody needs. radix may be NULL. */
void namespaces_sweep(struct namespaces *names, const struct radix *radix);

#endif
