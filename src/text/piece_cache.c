/* piece_cache.c - direct-mapped: a piece has one place, and the last one there stays.
 *
 * Most pieces are tokens and never come here (see bpe.c). What comes are names, compounds and words
 * of languages that the vocabulary knows little of, and these repeat within a text. A cache of the
 * call needs no lock, no eviction and no bound but the text's length; one that outlives calls would
 * let texts of one user be timed by another. Zeroed memory of a large table costs nothing until it
 * is touched. */
#include "piece_cache.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MIN = 64, ENTRIES_MAX = 16384, TEXT_BYTES_PER_ENTRY = 16 };

void piece_cache_init(struct piece_cache *cache, size_t text_len) {
    cache->n_entries = ENTRIES_MIN;
    while (cache->n_entries < ENTRIES_MAX && cache->n_entries * TEXT_BYTES_PER_ENTRY < text_len)
        cache->n_entries *= 2;
    cache->entries = mem_zalloc(cache->n_entries, sizeof *cache->entries);
}

void piece_cache_deinit(struct piece_cache *cache) {
    free(cache->entries);
    *cache = (struct piece_cache){0};
}

const struct piece_cache_entry *piece_cache_find(const struct piece_cache *cache, uint64_t hash,
                                                 const char *piece, size_t len) {
    if (!cache->entries) return NULL;
    const struct piece_cache_entry *e = &cache->entries[hash & (cache->n_entries - 1)];
    return e->len == len && memcmp(e->piece, piece, len) == 0 ? e : NULL;
}

void piece_cache_put(struct piece_cache *cache, uint64_t hash, const char *piece, size_t len,
                     size_t ids_start, size_t n_ids) {
    if (!cache->entries || ids_start > UINT32_MAX) return;
    struct piece_cache_entry *e = &cache->entries[hash & (cache->n_entries - 1)];
    e->ids_start = (uint32_t)ids_start;
    e->n_ids = (uint16_t)n_ids;
    e->len = (uint8_t)len;
    memcpy(e->piece, piece, len);
}
