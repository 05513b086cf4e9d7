/* kv_pool.c - a bitmap of free pages with a summary level, searched next-fit for runs.
 *
 *   summary  | 1 0 1 ...              one bit per word: has it a free page?
 *   free     | 0110..1 | 0000..0 | 1111..1 | ...      64 pages a word, bit set = free
 *                  ^cursor: where the last take ended
 *
 * The problem: attention reads a sequence's slots one after another, so neighbours in position
 * should be neighbours in memory. A stack of free ids (the obvious other way) is O(1) but forgets
 * order: after an hour of traffic every sequence is scattered. A bitmap remembers it for one bit
 * per page.
 *
 * A take tries, in order: the page right behind the caller's last one (`near`); the first free run
 * behind the cursor that is long enough, looking at no more than RUNS_TRIED_MAX runs; whatever is
 * free, ascending from the cursor. Next-fit rather than first-fit: what has just been given back
 * stays alone for a while, so that holes can grow together.
 *
 * Ownership faults (a page given twice, page 0, a torn page) abort in release builds too: going on
 * would hand one user's KV to another.
 *
 * Cost: take and give are O(pages moved + words passed); the search for a run passes each word at
 * most once. 131,072 slots: 2,048 words, 16 KB. */
#include "cache/kv_pool_int.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64, RUNS_TRIED_MAX = 64 };

static void set_free(struct kv_pool *pool, uint32_t page) {
    uint32_t word = page / WORD_BITS;
    pool->free[word] |= UINT64_C(1) << page % WORD_BITS;
    pool->summary[word / WORD_BITS] |= UINT64_C(1) << word % WORD_BITS;
}

static void set_taken(struct kv_pool *pool, uint32_t page) {
    uint32_t word = page / WORD_BITS;
    pool->free[word] &= ~(UINT64_C(1) << page % WORD_BITS);
    if (!pool->free[word]) pool->summary[word / WORD_BITS] &= ~(UINT64_C(1) << word % WORD_BITS);
}

static bool is_page_free(const struct kv_pool *pool, uint32_t page) {
    return pool->free[page / WORD_BITS] >> page % WORD_BITS & 1;
}

enum radish_status kv_pool_create(uint32_t n_slots, uint32_t page_slots, struct kv_pool **pool_out,
                                  struct radish_error *err) {
    *pool_out = NULL;
    if (!page_slots)
        return error_set_field(err, RADISH_E_LIMIT, "page-size", "a page has at least one slot");
    uint32_t n_pages = n_slots / page_slots;
    uint64_t n_usable = n_pages ? (uint64_t)(n_pages - 1) * page_slots : 0;
    if (n_usable < KV_POOL_USABLE_MIN)
        return error_set_field(err, RADISH_E_LIMIT, "max-total-tokens",
                               "the KV pool has %llu usable slots, at least %d are needed",
                               (unsigned long long)n_usable, KV_POOL_USABLE_MIN);
    struct kv_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return error_nomem(err);
    pool->n_pages = n_pages;
    pool->page_slots = page_slots;
    pool->n_words = (n_pages + WORD_BITS - 1) / WORD_BITS;
    pool->n_summary_words = (pool->n_words + WORD_BITS - 1) / WORD_BITS;
    pool->cursor = 1;
    pool->free = mem_zalloc(pool->n_words, sizeof *pool->free);
    pool->summary = mem_zalloc(pool->n_summary_words, sizeof *pool->summary);
    if (!pool->free || !pool->summary) {
        kv_pool_destroy(pool);
        return error_nomem(err);
    }
    for (uint32_t page = 1; page < n_pages; page++) set_free(pool, page);
    pool->n_pages_free = n_pages - 1;
    *pool_out = pool;
    return RADISH_OK;
}

void kv_pool_destroy(struct kv_pool *pool) {
    if (!pool) return;
    free(pool->free);
    free(pool->summary);
    free(pool);
}

uint32_t kv_pool_n_slots(const struct kv_pool *pool) {
    return pool->n_pages * pool->page_slots;
}

uint32_t kv_pool_n_usable(const struct kv_pool *pool) {
    return (pool->n_pages - 1) * pool->page_slots;
}

uint32_t kv_pool_n_free(const struct kv_pool *pool) {
    return pool->n_pages_free * pool->page_slots;
}

uint32_t kv_pool_page_slots(const struct kv_pool *pool) {
    return pool->page_slots;
}

uint64_t kv_pool_bytes(uint32_t n_slots, uint32_t page_slots) {
    uint64_t n_words = n_slots / page_slots / WORD_BITS + 1;
    return sizeof(struct kv_pool) + (n_words + n_words / WORD_BITS + 1) * sizeof(uint64_t);
}

bool kv_pool_is_free(const struct kv_pool *pool, uint32_t slot) {
    uint32_t page = slot / pool->page_slots;
    return page < pool->n_pages && is_page_free(pool, page);
}

/* The first free page >= from, or n_pages. */
static uint32_t find_free(const struct kv_pool *pool, uint32_t from) {
    if (from >= pool->n_pages) return pool->n_pages;
    uint32_t word = from / WORD_BITS;
    uint64_t bits = pool->free[word] & ~UINT64_C(0) << from % WORD_BITS;
    if (bits) return word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
    if (++word >= pool->n_words) return pool->n_pages;
    uint32_t i = word / WORD_BITS;
    uint64_t words = pool->summary[i] & ~UINT64_C(0) << word % WORD_BITS;
    while (!words) {
        if (++i >= pool->n_summary_words) return pool->n_pages;
        words = pool->summary[i];
    }
    word = i * WORD_BITS + (uint32_t)__builtin_ctzll(words);
    return word * WORD_BITS + (uint32_t)__builtin_ctzll(pool->free[word]);
}

/* Free pages from `page` (which is free) on, counted up to n. */
static uint32_t run_length(const struct kv_pool *pool, uint32_t page, uint32_t n) {
    uint32_t length = 0;
    while (length < n && page + length < pool->n_pages) {
        uint32_t at = page + length, bit = at % WORD_BITS;
        uint64_t taken = ~pool->free[at / WORD_BITS] >> bit;
        if (taken) {
            length += (uint32_t)__builtin_ctzll(taken);
            break;
        }
        length += WORD_BITS - bit;
    }
    return length < n ? length : n;
}

/* The first page of a free run of n pages in [from, to), or 0. */
static uint32_t find_run(const struct kv_pool *pool, uint32_t from, uint32_t to, uint32_t n,
                         uint32_t *n_tries) {
    for (uint32_t page = find_free(pool, from); page < to && *n_tries; (*n_tries)--) {
        uint32_t length = run_length(pool, page, n);
        if (length >= n) return page;
        page = find_free(pool, page + length);
    }
    return 0;
}

static void take_page(struct kv_pool *pool, uint32_t page, uint32_t *slots_out) {
    RADISH_INVARIANT(page && page < pool->n_pages && is_page_free(pool, page),
                     "page %u of %u is not free", page, pool->n_pages);
    set_taken(pool, page);
    for (uint32_t i = 0; i < pool->page_slots; i++) slots_out[i] = page * pool->page_slots + i;
}

enum radish_status kv_pool_take(struct kv_pool *pool, uint32_t n_slots, uint32_t near,
                                uint32_t *slots_out) {
    RADISH_INVARIANT(n_slots % pool->page_slots == 0, "%u slots are no whole pages", n_slots);
    uint32_t n = n_slots / pool->page_slots;
    if (n > pool->n_pages_free) return RADISH_AGAIN;
    if (!n) return RADISH_OK;
    uint32_t page = near / pool->page_slots;
    if (!page || page >= pool->n_pages || !is_page_free(pool, page)) {
        uint32_t n_tries = RUNS_TRIED_MAX;
        page = find_run(pool, pool->cursor, pool->n_pages, n, &n_tries);
        if (!page) page = find_run(pool, 1, pool->cursor, n, &n_tries);
        if (!page) page = pool->cursor;
    }
    for (uint32_t i = 0; i < n; i++) {
        page = find_free(pool, page);
        if (page == pool->n_pages) page = find_free(pool, 1);
        take_page(pool, page, slots_out + (size_t)i * pool->page_slots);
        page++;
    }
    pool->n_pages_free -= n;
    pool->cursor = page < pool->n_pages ? page : 1;
    return RADISH_OK;
}

void kv_pool_give(struct kv_pool *pool, const uint32_t *slots, uint32_t n_slots) {
    RADISH_INVARIANT(n_slots % pool->page_slots == 0, "%u slots are no whole pages", n_slots);
    for (uint32_t i = 0; i < n_slots; i += pool->page_slots) {
        uint32_t page = slots[i] / pool->page_slots;
        RADISH_INVARIANT(page && page < pool->n_pages, "slot %u is not of this pool", slots[i]);
        RADISH_INVARIANT(!is_page_free(pool, page), "slot %u is given back twice", slots[i]);
        for (uint32_t j = 0; j < pool->page_slots; j++)
            RADISH_INVARIANT(slots[i + j] == page * pool->page_slots + j,
                             "slot %u is not slot %u of page %u", slots[i + j], j, page);
        set_free(pool, page);
        pool->n_pages_free++;
    }
}

bool kv_pool_check(const struct kv_pool *pool) {
    uint32_t n_free = 0;
    if (is_page_free(pool, 0)) return false;
    for (uint32_t word = 0; word < pool->n_words; word++) {
        n_free += (uint32_t)__builtin_popcountll(pool->free[word]);
        bool is_summed = pool->summary[word / WORD_BITS] >> word % WORD_BITS & 1;
        if (is_summed != (pool->free[word] != 0)) return false;
    }
    uint32_t n_tail = pool->n_words * WORD_BITS - pool->n_pages;
    if (n_tail && pool->free[pool->n_words - 1] >> (WORD_BITS - n_tail)) return false;
    return n_free == pool->n_pages_free && pool->cursor >= 1 && pool->cursor < pool->n_pages;
}
