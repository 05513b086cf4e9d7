/* kv_pool.h - which slots of the KV pool are free: ids only, the memory is the device's.
 *
 * A slot holds one token's K and V. Slots are handed out as whole pages of page_slots aligned,
 * consecutive slots (1 by default); page 0 is padding and never handed out.
 *
 *   page_slots 4:   | 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | ...       n_slots = usable + page_slots
 *                     padding   page 1    page 2
 *
 * Owns: a bitmap of pages. Caller keeps: every slot between take and give. Threads: the engine's
 * thread. Nothing is allocated after create.
 * Invariants, checked wherever slots change hands, in release builds too:
 *  (1) A page is free or taken; giving a free page, page 0 or a foreign slot aborts.
 *  (2) What take returns is whole pages; one ascending run where the pool is not fragmented.
 *  (3) n_free == page_slots * free pages; a summary bit is set iff its word has a free page
 *      (recomputed by kv_pool_check()). */
#ifndef CACHE_KV_POOL_H
#define CACHE_KV_POOL_H

#include "radish.h"

#define KV_POOL_USABLE_MIN 256 /* fewer usable slots: refused at start */

struct kv_pool;

/* n_slots counts the padding page and is rounded down to whole pages. E_LIMIT: fewer than
 * KV_POOL_USABLE_MIN usable slots, or page_slots 0. E_NOMEM. */
enum radish_status kv_pool_create(uint32_t n_slots, uint32_t page_slots, struct kv_pool **pool_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void kv_pool_destroy(struct kv_pool *pool);

uint32_t kv_pool_n_slots(
    const struct kv_pool *pool); /* padding page included: rows of the device's memory */
uint32_t kv_pool_n_usable(const struct kv_pool *pool); /* slots */
uint32_t kv_pool_n_free(const struct kv_pool *pool);   /* slots */
uint32_t kv_pool_page_slots(const struct kv_pool *pool);
uint64_t kv_pool_bytes(uint32_t n_slots, uint32_t page_slots); /* memory besides the KV itself */

/* Takes n_slots slots (a multiple of page_slots). If the page that starts at slot `near` is free,
 * the run starts there: the caller goes on where its last page ended; 0 = anywhere. AGAIN: not
 * enough are free; nothing is taken then. O(words of the bitmap). */
enum radish_status kv_pool_take(struct kv_pool *pool, uint32_t n_slots, uint32_t near,
                                uint32_t *slots_out) RADISH_CHECK_RESULT;

/* Gives back whole pages, in any order of pages; slots within a page are consecutive, as taken. */
void kv_pool_give(struct kv_pool *pool, const uint32_t *slots, uint32_t n_slots);

bool kv_pool_is_free(const struct kv_pool *pool, uint32_t slot); /* false for the padding page */

/* Recomputes what is counted and summed up. */
bool kv_pool_check(const struct kv_pool *pool);

#endif
