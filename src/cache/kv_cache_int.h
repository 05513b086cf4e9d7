/* kv_cache_int.h - the inside of the cache, for kv_cache.c and its test, which breaks it to see
 * kv_cache_check() notice. */
#ifndef CACHE_KV_CACHE_INT_H
#define CACHE_KV_CACHE_INT_H

#include "cache/kv_cache.h"
#include "cache/slot_table.h"

struct kv_cache {
    struct kv_pool *pool;
    struct slot_table *table;
    struct radix *tree; /* NULL: nothing is shared */
    uint32_t n_rows;
    struct radix_ref *refs; /* [n_rows] what the row's sequence must hold; NONE while it is free */
};

#endif
