/* namespace.c - a hash table of names with reference counts, and a sweep instead of a collector.
 *
 * The problem: names come from clients, any number of them, while the tree wants small numbers, and
 * only the tree knows when the last token of a namespace is gone. The idea: a request counts while
 * it lives; what remains is looked at SWEEP_N names a step, round and round, and the tree is asked.
 * So no call takes longer because there are many names, and the tree needs no way back to here.
 *
 *   buckets --> entry 7 "a\x01..." --> entry 3 "b..."      number = place in entries + 1
 *
 * Handing out a hash of the name as its number would need no table and would let two clients with
 * equal hashes read each other's KV.
 *
 * Cost: take is O(length); memory is the names in use, at most NAMESPACES_BYTES_MAX. */
#include "engine/namespace.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { SWEEP_N = 16, BUCKETS_MIN = 64 };

struct namespace_entry {
    uint64_t hash;
    uint32_t n_requests;
    uint32_t next; /* number of the next in the bucket; 0 = none */
    size_t len;
    unsigned char key[];
};

static uint64_t hash_key(uint64_t seed, const unsigned char *key, size_t len) {
    uint64_t hash = rng_mix(seed + len);
    while (len) {
        uint64_t word = 0;
        size_t n = len < sizeof word ? len : sizeof word;
        memcpy(&word, key, n);
        hash = rng_mix(hash ^ word) + seed;
        key += n;
        len -= n;
    }
    return rng_mix(hash);
}

void namespaces_init(struct namespaces *names, uint64_t seed) {
    *names = (struct namespaces){.seed = seed, .n_bytes_max = NAMESPACES_BYTES_MAX};
}

void namespaces_deinit(struct namespaces *names) {
    for (uint32_t i = 0; i < names->n_entries_max; i++) free(names->entries[i]);
    free(names->entries);
    free(names->numbers_free);
    free(names->buckets);
    *names = (struct namespaces){0};
}

/* All arrays twice as long; nothing changes when memory is exhausted. */
static bool grow(struct namespaces *names) {
    uint32_t n = names->n_entries_max ? 2 * names->n_entries_max : BUCKETS_MIN;
    if (n > UINT32_MAX / 4) return false;
    struct namespace_entry **entries = mem_zalloc(n, sizeof *entries);
    uint32_t *numbers_free = mem_zalloc(n, sizeof *numbers_free);
    uint32_t *buckets = mem_zalloc(n, sizeof *buckets);
    if (!entries || !numbers_free || !buckets) {
        free(entries);
        free(numbers_free);
        free(buckets);
        return false;
    }
    uint32_t n_free = 0;
    for (uint32_t number = n; number; number--) {
        struct namespace_entry *entry =
            number <= names->n_entries_max ? names->entries[number - 1] : NULL;
        entries[number - 1] = entry;
        if (entry) {
            uint32_t *bucket = &buckets[entry->hash & (n - 1)];
            entry->next = *bucket;
            *bucket = number;
        } else {
            numbers_free[n_free++] = number;
        }
    }
    free(names->entries);
    free(names->numbers_free);
    free(names->buckets);
    names->entries = entries;
    names->numbers_free = numbers_free;
    names->buckets = buckets;
    names->n_entries_max = names->n_buckets = n;
    names->n_free = n_free;
    return true;
}

static struct namespace_entry *entry_of(const struct namespaces *names, uint32_t number) {
    RADISH_INVARIANT(number && number <= names->n_entries_max && names->entries[number - 1],
                     "there is no namespace %u", number);
    return names->entries[number - 1];
}

static uint32_t find(const struct namespaces *names, uint64_t hash, const void *key, size_t len) {
    if (!names->n_buckets) return 0;
    uint32_t number = names->buckets[hash & (names->n_buckets - 1)];
    while (number) {
        const struct namespace_entry *entry = entry_of(names, number);
        if (entry->hash == hash && entry->len == len && memcmp(entry->key, key, len) == 0) break;
        number = entry->next;
    }
    return number;
}

static uint32_t add(struct namespaces *names, uint64_t hash, const void *key, size_t len) {
    size_t bytes = sizeof(struct namespace_entry) + len;
    if (bytes < len || bytes > names->n_bytes_max - names->n_bytes) return 0;
    if (!names->n_free && !grow(names)) return 0;
    struct namespace_entry *entry = malloc(bytes);
    if (!entry) return 0;
    uint32_t number = names->numbers_free[--names->n_free];
    uint32_t *bucket = &names->buckets[hash & (names->n_buckets - 1)];
    *entry = (struct namespace_entry){.hash = hash, .next = *bucket, .len = len};
    memcpy(entry->key, key, len);
    *bucket = number;
    names->entries[number - 1] = entry;
    names->n_entries++;
    names->n_bytes += bytes;
    return number;
}

bool namespaces_take(struct namespaces *names, const void *key, size_t len, uint32_t *number_out) {
    *number_out = 0;
    if (!len) return true;
    uint64_t hash = hash_key(names->seed, key, len);
    uint32_t number = find(names, hash, key, len);
    if (!number) number = add(names, hash, key, len);
    if (!number) return false;
    entry_of(names, number)->n_requests++;
    *number_out = number;
    return true;
}

void namespaces_give(struct namespaces *names, uint32_t number) {
    if (!number) return;
    struct namespace_entry *entry = entry_of(names, number);
    RADISH_INVARIANT(entry->n_requests, "namespace %u is given back twice", number);
    entry->n_requests--;
}

size_t namespaces_copy(const struct namespaces *names, uint32_t number,
                       char name_out[RADISH_NAMESPACE_MAX]) {
    if (!number) return 0;
    const struct namespace_entry *entry = entry_of(names, number);
    RADISH_INVARIANT(entry->len <= RADISH_NAMESPACE_MAX, "a name of %zu bytes", entry->len);
    memcpy(name_out, entry->key, entry->len);
    return entry->len;
}

static void forget(struct namespaces *names, uint32_t number) {
    struct namespace_entry *entry = entry_of(names, number);
    uint32_t *link = &names->buckets[entry->hash & (names->n_buckets - 1)];
    while (*link != number) link = &entry_of(names, *link)->next;
    *link = entry->next;
    names->n_bytes -= sizeof *entry + entry->len;
    names->n_entries--;
    names->entries[number - 1] = NULL;
    names->numbers_free[names->n_free++] = number;
    free(entry);
}

void namespaces_sweep(struct namespaces *names, const struct radix *radix) {
    for (uint32_t i = 0; i < SWEEP_N && names->n_entries; i++) {
        names->cursor = names->cursor < names->n_entries_max ? names->cursor + 1 : 1;
        const struct namespace_entry *entry = names->entries[names->cursor - 1];
        if (!entry || entry->n_requests) continue;
        if (!radix || !radix_has_namespace(radix, names->cursor)) forget(names, names->cursor);
    }
}
