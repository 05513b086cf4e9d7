/* kv_pool_int.h - the inside of the pool, for kv_pool.c and its test, which breaks it to see
 * kv_pool_check() notice. */
#ifndef CACHE_KV_POOL_INT_H
#define CACHE_KV_POOL_INT_H

#include "cache/kv_pool.h"

struct kv_pool {
    uint32_t n_pages, page_slots; /* n_pages counts the padding page */
    uint32_t n_pages_free;
    uint32_t n_words, n_summary_words;
    uint32_t cursor;   /* page: the next search starts here */
    uint64_t *free;    /* [n_words] */
    uint64_t *summary; /* [n_summary_words] */
};

#endif
