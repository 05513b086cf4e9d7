/* kv_cache.h - pool, slot table and tree as one: which slots a sequence reads and writes.
 *
 *   positions of a sequence:   |  shared: the tree's, pinned  | private: written, not a whole page,
 *                              0                           n_shared      or ahead           n_held
 *
 * A sequence is opened on its tokens: the longest computed prefix is its own at once. It takes
 * slots for what it is going to compute, and commits what has been: whole pages join the tree the
 * moment their KV is written, so others share them while this one still runs. Closing gives back
 * the private slots; the rest stays in the tree until it is evicted.
 *
 * Owns: pool, table and tree. Caller keeps: struct kv_seq, from open to close. Threads: the
 * engine's thread. Nothing is allocated after create.
 *
 * Invariants, recomputed by kv_cache_check():
 *  (1) free + evictable + pinned + private == usable; every slot is owned once.
 *  (2) A row's cells [0, n_shared) are slots of tree nodes on the path of its ref.
 *  (3) Slots return to the pool from the tree's eviction, its duplicates, and
 *      slot_table_give_row(). */
#ifndef CACHE_KV_CACHE_H
#define CACHE_KV_CACHE_H

#include "radish.h"

#include "cache/radix.h"

struct kv_cache;

struct kv_cache_options {
    uint32_t n_slots, page_slots; /* of the pool; n_slots counts the padding page */
    uint32_t n_rows;              /* sequences open at once */
    uint32_t context_tokens;      /* positions of a sequence */
    bool is_tree_off;             /* nothing is shared: every sequence computes all of its tokens */
    enum radix_policy policy;
    bool is_announced;      /* the sink is told what joins and leaves the tree */
    struct radix_sink sink; /* with is_announced; what it points to outlives the cache */
};

struct kv_seq {
    uint32_t row;
    struct radix_ref ref; /* NONE: this sequence does not share */
    uint32_t n_shared;    /* == ref.n_tokens */
};

enum radish_status kv_cache_create(const struct kv_cache_options *options,
                                   struct kv_cache **cache_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void kv_cache_destroy(struct kv_cache *cache);                   /* every sequence must be closed */
uint64_t kv_cache_bytes(const struct kv_cache_options *options); /* memory besides the KV itself */

/* Tokens of tokens[0..n) that a sequence would share. */
uint32_t kv_cache_peek(const struct kv_cache *cache, uint32_t namespace_id,
                       const struct radix_tokens *tokens, uint32_t n, enum radix_miss *miss_out);

/* Takes a row and pins the longest prefix of tokens[0..n_max): n_max is at most all but the last,
 * which is always computed. shares false: the sequence neither uses nor feeds the tree. AGAIN: no
 * row is free. */
enum radish_status kv_cache_open(struct kv_cache *cache, uint32_t namespace_id, bool shares,
                                 const struct radix_tokens *tokens, uint32_t n_max,
                                 int32_t priority, struct kv_seq *seq_out) RADISH_CHECK_RESULT;

/* Looks again: what others have computed of tokens[0..n_max) by now becomes the sequence's. Only
 * when it holds no private slot. */
void kv_cache_follow(struct kv_cache *cache, struct kv_seq *seq, const struct radix_tokens *tokens,
                     uint32_t n_max);

/* Slots for positions [0, n_tokens), up to n_tokens_ahead where the pool has free ones; evicts as
 * much as is missing. AGAIN: not even all that can be evicted is enough; nothing has changed. */
enum radish_status kv_cache_extend(struct kv_cache *cache, struct kv_seq *seq, uint32_t n_tokens,
                                   uint32_t n_tokens_ahead) RADISH_CHECK_RESULT;

/* The KV of positions [0, n_written) is written (or will be, before anyone else reads): whole pages
 * join the tree. Cells may change to equal slots that the tree had. */
void kv_cache_commit(struct kv_cache *cache, struct kv_seq *seq, const struct radix_tokens *tokens,
                     uint32_t n_written);

/* Slots of positions [0, n_held), borrowed until close; the address is stable. */
const uint32_t *kv_cache_slots(const struct kv_cache *cache, const struct kv_seq *seq);
uint32_t kv_cache_n_held(const struct kv_cache *cache, const struct kv_seq *seq);

void kv_cache_close(struct kv_cache *cache, struct kv_seq *seq);

/* Gives back everything that nobody pins. */
void kv_cache_flush(struct kv_cache *cache);
/* Everything is as created, but for what was counted. Every sequence must be closed. */
void kv_cache_reset(struct kv_cache *cache);

uint32_t kv_cache_n_usable(const struct kv_cache *cache);
uint32_t kv_cache_n_free(const struct kv_cache *cache);
uint32_t kv_cache_n_evictable(const struct kv_cache *cache);
const struct radix *kv_cache_radix(const struct kv_cache *cache); /* NULL when off */
bool kv_cache_check(const struct kv_cache *cache);

#endif
