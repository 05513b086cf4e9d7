/* vocab.h - strings by id, and ids by string.
 *
 * Owns: copies of the strings. Filled once, then immutable: any number of threads may read. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "radish.h"

#include "base/buf.h"
#include "base/rng.h"

struct vocab_entry {
    size_t offset; /* of the string in blob */
    uint32_t len;
    bool is_present;
};

/* A string as two words: up to VOCAB_KEY_BYTES bytes are in it, with their number in the highest
 * byte; of a longer one it is a hash, and equal keys may belong to different strings. */
struct vocab_key {
    uint64_t low, high;
};
enum { VOCAB_KEY_BYTES = 15 };

struct vocab_slot {
    struct vocab_key key;
    int32_t id; /* -1 = free */
};

struct vocab {
    struct vocab_entry *entries; /* [n_ids], by id; holes have is_present false */
    uint32_t n_ids;
    struct buf blob;
    struct vocab_slot *slots; /* [n_slots] open addressing by hash of the key */
    size_t n_slots;
    size_t len_max; /* of the strings that vocab_find() knows */
};

/* Room for ids below n_ids, and for n_strings that vocab_find() is to know. False: out of memory
 * (deinit is still right). */
bool vocab_init(struct vocab *v, uint32_t n_ids, uint32_t n_strings) RADISH_CHECK_RESULT;
void vocab_deinit(struct vocab *v);

/* id < n_ids. A later string of the same id replaces the earlier. With is_found vocab_find() will
 * give this id for the string (the last such call for a string counts). */
bool vocab_put(struct vocab *v, int32_t id, const char *s, size_t len,
               bool is_found) RADISH_CHECK_RESULT;

int32_t vocab_find(const struct vocab *v, const char *s, size_t len); /* -1 = absent */

/* For callers that use the key again; key is that of s[0..len). */
struct vocab_key vocab_key_of(const char *s, size_t len);
int32_t vocab_find_key(const struct vocab *v, const struct vocab_key *key, const char *s,
                       size_t len);

static inline uint64_t vocab_key_hash(const struct vocab_key *key) {
    return rng_mix(key->low ^ key->high * 0x9E3779B97F4A7C15u);
}

/* NULL for an id that is out of range or a hole. Borrowed from v; a NUL follows. */
const char *vocab_get(const struct vocab *v, int32_t id, size_t *len_out);

#endif
