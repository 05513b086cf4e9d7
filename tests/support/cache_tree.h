/* cache_tree.h - a prefix tree with its pool, and the few moves that tests are written in. */
#ifndef SUPPORT_CACHE_TREE_H
#define SUPPORT_CACHE_TREE_H

#include "cache/radix.h"

/* Two arguments: an array of tokens and its length. */
#define TOKENS(...)                                                                                \
    (const int32_t[]){__VA_ARGS__}, (uint32_t)(sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t))

struct tree {
    struct kv_pool *pool;
    struct radix *radix;
    uint32_t slots[8192]; /* of the last put or match, by position */
};

void tree_open(struct tree *t, uint32_t n_slots, uint32_t page_slots, enum radix_policy policy);
void tree_close(struct tree *t);

/* Pins what is there, and no more. */
struct radix_ref tree_match(struct tree *t, uint32_t namespace_id, const int32_t *tokens,
                            uint32_t n);
/* The ref goes on to tokens[0..n), with slots from the pool. Returns the number of duplicates. */
uint32_t tree_grow(struct tree *t, struct radix_ref *ref, const int32_t *tokens, uint32_t n);
/* A whole request: matches, computes the rest, and stays pinned. */
struct radix_ref tree_put(struct tree *t, uint32_t namespace_id, int32_t priority,
                          const int32_t *tokens, uint32_t n);
/* The same, and leaves. */
void tree_add(struct tree *t, uint32_t namespace_id, const int32_t *tokens, uint32_t n);
void tree_leave(struct tree *t, struct radix_ref *ref);

uint32_t tree_peek(const struct tree *t, uint32_t namespace_id, const int32_t *tokens, uint32_t n);
enum radix_miss tree_miss(const struct tree *t, uint32_t namespace_id, const int32_t *tokens,
                          uint32_t n);
uint32_t tree_n_nodes(const struct tree *t);

#endif
