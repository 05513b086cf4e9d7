/* piece_cache.h - what pieces became, within one call: a word that was merged once is copied the
 * next time.
 *
 * Owns: its entries. An entry names a place in the list of ids that the call makes: one cache, one
 * list, which only grows. Threads: one at a time. */
#ifndef TEXT_PIECE_CACHE_H
#define TEXT_PIECE_CACHE_H

#include "radish.h"

enum { PIECE_CACHE_BYTES_MAX = 57 }; /* longer pieces hardly come twice; an entry has 64 bytes */

struct piece_cache_entry {
    uint32_t ids_start; /* in the list */
    uint16_t n_ids;
    uint8_t len; /* 0 = free */
    char piece[PIECE_CACHE_BYTES_MAX];
};

struct piece_cache {
    struct piece_cache_entry *entries; /* [n_entries] by hash; NULL = nothing is kept */
    size_t n_entries;                  /* a power of two */
};

/* For a text of text_len bytes. Without memory there is no cache, which is no error. */
void piece_cache_init(struct piece_cache *cache, size_t text_len);
void piece_cache_deinit(struct piece_cache *cache);

/* hash: of piece[0..len), 0 < len <= PIECE_CACHE_BYTES_MAX. NULL when it is not there. */
const struct piece_cache_entry *piece_cache_find(const struct piece_cache *cache, uint64_t hash,
                                                 const char *piece, size_t len);
void piece_cache_put(struct piece_cache *cache, uint64_t hash, const char *piece, size_t len,
                     size_t ids_start, size_t n_ids);

#endif
