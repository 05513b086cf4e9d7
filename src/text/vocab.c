/* vocab.c - one blob of all strings, an array of places by id, and an open-addressing table from
 * string to id.
 *
 * Most tokens are short, and a look-up per word is what encoding costs. So a slot holds the string
 * itself where that has at most 15 bytes: comparing is two words, and one cache line answers. Of a
 * longer string the slot holds a hash, which only says where to look: the strings are compared, so
 * nothing is decided by a hash. 24 bytes a slot, two thirds full at most: 9 MB for a vocabulary of
 * 262,144 tokens. (Slots that held ids alone took three dependent cache misses a look-up.)
 * Strings are added once and never removed; a string added again points to its new id. */
#include "vocab.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "keys are made by overlapping loads");

static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = n * 0x9E3779B97F4A7C15u, word;
    while (n >= 8) {
        memcpy(&word, s, 8);
        h = (h ^ word) * 0xBF58476D1CE4E5B9u;
        h ^= h >> 32;
        s += 8;
        n -= 8;
    }
    word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)(unsigned char)s[i] << (8 * i);
    return rng_mix(h ^ word);
}

static uint64_t load_4(const char *s) {
    uint32_t word;
    memcpy(&word, s, 4);
    return word;
}

struct vocab_key vocab_key_of(const char *s, size_t len) {
    struct vocab_key key = {0, (uint64_t)len << 56};
    if (len > VOCAB_KEY_BYTES) {
        key.low = hash_bytes(s, len);
        key.high = UINT64_MAX << 56 | len;
    } else if (len > 8) {
        uint64_t tail;
        memcpy(&key.low, s, 8);
        memcpy(&tail, s + len - 8, 8);
        key.high |= tail >> 8 * (16 - len);
    } else if (len >= 4) {
        key.low = load_4(s) | load_4(s + len - 4) << 8 * (len - 4);
    } else if (len) {
        key.low = (uint64_t)(unsigned char)s[0] |
                  (uint64_t)(unsigned char)s[len / 2] << 8 * (len / 2) |
                  (uint64_t)(unsigned char)s[len - 1] << 8 * (len - 1);
    }
    return key;
}

bool vocab_init(struct vocab *v, uint32_t n_ids, uint32_t n_strings) {
    size_t n_slots = 16 + (size_t)n_strings + n_strings / 2;
    *v = (struct vocab){0};
    v->entries = mem_zalloc(n_ids, sizeof *v->entries);
    v->slots = mem_alloc(n_slots, sizeof *v->slots);
    if (!v->entries || !v->slots) {
        vocab_deinit(v);
        return false;
    }
    memset(v->slots, 0xFF, n_slots * sizeof *v->slots);
    v->n_ids = n_ids;
    v->n_slots = n_slots;
    return true;
}

void vocab_deinit(struct vocab *v) {
    free(v->entries);
    free(v->slots);
    buf_deinit(&v->blob);
    *v = (struct vocab){0};
}

static bool is_string(const struct vocab *v, const struct vocab_slot *slot,
                      const struct vocab_key *key, const char *s, size_t len) {
    if (slot->key.low != key->low || slot->key.high != key->high) return false;
    if (len <= VOCAB_KEY_BYTES) return true;
    const struct vocab_entry *e = &v->entries[slot->id];
    return e->len == len && memcmp(v->blob.data + e->offset, s, len) == 0;
}

static size_t next_slot(const struct vocab *v, size_t at) {
    return at + 1 == v->n_slots ? 0 : at + 1;
}

/* The slot that holds s, or the free one where it would go: the table is never full. */
static size_t find_slot(const struct vocab *v, const struct vocab_key *key, const char *s,
                        size_t len) {
    /* The hash as a fraction of 2^64, times the number of slots. */
    size_t at = (size_t)((unsigned __int128)vocab_key_hash(key) * v->n_slots >> 64);
    while (v->slots[at].id >= 0 && !is_string(v, &v->slots[at], key, s, len)) at = next_slot(v, at);
    return at;
}

/* An id that gets another string must lose its old slot, or the probe for the old string would
 * give it. Rare, so the cluster is simply rebuilt. */
static void forget(struct vocab *v, int32_t id) {
    const struct vocab_entry *e = &v->entries[id];
    const char *s = v->blob.data + e->offset;
    struct vocab_key key = vocab_key_of(s, e->len);
    size_t at = find_slot(v, &key, s, e->len);
    if (v->slots[at].id != id) return;
    v->slots[at].id = -1;
    for (at = next_slot(v, at); v->slots[at].id >= 0; at = next_slot(v, at)) {
        struct vocab_slot moved = v->slots[at];
        v->slots[at].id = -1;
        e = &v->entries[moved.id];
        v->slots[find_slot(v, &moved.key, v->blob.data + e->offset, e->len)] = moved;
    }
}

bool vocab_put(struct vocab *v, int32_t id, const char *s, size_t len, bool is_found) {
    RADISH_INVARIANT(id >= 0 && (uint32_t)id < v->n_ids, "id %d of %u", id, v->n_ids);
    struct vocab_entry *e = &v->entries[id];
    if (len > UINT32_MAX) return false;
    if (e->is_present) forget(v, id);
    *e = (struct vocab_entry){.offset = v->blob.len, .len = (uint32_t)len, .is_present = true};
    buf_append(&v->blob, s, len);
    buf_append_char(&v->blob, '\0');
    if (v->blob.failed) {
        *e = (struct vocab_entry){0};
        return false;
    }
    if (!is_found) return true;
    struct vocab_key key = vocab_key_of(s, len);
    v->slots[find_slot(v, &key, s, len)] = (struct vocab_slot){key, id};
    if (len > v->len_max) v->len_max = len;
    return true;
}

int32_t vocab_find_key(const struct vocab *v, const struct vocab_key *key, const char *s,
                       size_t len) {
    return v->n_slots ? v->slots[find_slot(v, key, s, len)].id : -1;
}

int32_t vocab_find(const struct vocab *v, const char *s, size_t len) {
    struct vocab_key key = vocab_key_of(s, len);
    return vocab_find_key(v, &key, s, len);
}

const char *vocab_get(const struct vocab *v, int32_t id, size_t *len_out) {
    *len_out = 0;
    if (id < 0 || (uint32_t)id >= v->n_ids || !v->entries[id].is_present) return NULL;
    *len_out = v->entries[id].len;
    return v->blob.data + v->entries[id].offset;
}
