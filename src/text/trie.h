/* trie.h - strings to numbers, walked byte by byte: which strings does this text start with?
 *
 * Owns: its nodes. Threads: immutable after init. */
#ifndef TEXT_TRIE_H
#define TEXT_TRIE_H

#include "radish.h"

struct trie_node {
    uint32_t base;   /* the child for byte b is node base + b, if its parent is this node */
    uint32_t parent; /* UINT32_MAX: the root, or no node at all */
    int32_t value;   /* of the string that ends here; -1 = none */
};

/* Zeroed: no strings, and nothing may be looked up (n_nodes is 0). */
struct trie {
    struct trie_node *nodes; /* [n_nodes] 256 more than any base; the root is node 0 */
    size_t n_nodes;
};

struct trie_key {
    const char *data; /* [len] */
    size_t len;
    int32_t value; /* at least 0 */
    size_t order;  /* filled by trie_init() */
};

/* Sorts the keys in place. Of equal strings the last counts; empty ones are left out. False: out
 * of memory, or more nodes than numbers for them (deinit is still right). */
bool trie_init(struct trie *trie, struct trie_key *keys, size_t n) RADISH_CHECK_RESULT;
void trie_deinit(struct trie *trie);

/* From a node to its child; 0 (the root, which is nobody's child) when there is none. */
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, uint8_t byte) {
    uint32_t child = trie->nodes[node].base + byte;
    return trie->nodes[child].parent == node ? child : 0;
}

/* The value of exactly s[0..len), -1 = absent. */
int32_t trie_find(const struct trie *trie, const char *s, size_t len);

/* The longest string that s[0..len) starts with: its length, 0 = none. */
size_t trie_longest(const struct trie *trie, const char *s, size_t len, int32_t *value_out);

#endif
