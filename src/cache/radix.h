/* radix.h - a prefix tree from token ids to KV slots: what was computed once is found by everyone.
 *
 * Owns: its nodes, and the slots that they name; slot memory is the device's. Caller keeps: token
 * arrays. Threads: the engine's thread, no locks. Nothing is allocated after create: every node
 * holds at least one page, so nodes for all pages are there from the start, and split and append
 * cannot fail.
 *
 *   namespace 0 --[5 8 2 9]--> A --[1 1 1 1]--> B     page_slots 4: edges are whole pages, and
 *                              A --[1 1 4 0]--> C     splits fall on page borders. In namespace 0,
 *   namespace 7 --[5 8 2 9]--> D                      "5 8 2 9 1 1 1 1 6" hits A and B: 8 tokens.
 *
 * Tokens and order live per page, not per node: tokens[slot], and the pages of an edge are a doubly
 * linked list through next[page] and prev[page]. So an edge grows by a page in O(1), a split cuts a
 * list, and a leaf gives up only as many pages as are wanted, from its end.
 *
 * A ref names a node, always up to its end, and is pinned: what a sequence reads stays. On a split
 * the old node keeps the lower part, so that refs stay right; the upper part becomes a new node
 * that copies pins, hits and recency. The leaf of one running sequence grows in place; a leaf that
 * others pin too, that has been hit, or that has children, gets a child instead.
 *
 * Tokens are compared, never hashes. Namespaces are numbers here: what they stand for is the
 * engine's (extra key, salt, adapter, API key), and equal numbers mean equal namespaces.
 *
 * Invariants, recomputed by radix_check():
 *  (1) Every page is in at most one node; a node has at least one page, a root none.
 *  (2) n_tokens_pinned + n_tokens_evictable == sum of the nodes' tokens, by pins > 0.
 *  (3) pins(parent) >= sum of pins(children): an unpinned node has no pinned descendant.
 *  (4) The policy's order holds unpinned nodes only, all unpinned leaves among them; a leaf goes
 *      first.
 *  (5) Children of a node differ in their first page, and are found by it.
 *  (6) hits and priority of a parent are at least its child's, and so is recency while it is
 *      unpinned: a match or an unpinning counts for the whole way. */
#ifndef CACHE_RADIX_H
#define CACHE_RADIX_H

#include "radish.h"

#include "cache/kv_pool.h"
#include "cache/radix_events.h"

/* X(suffix, name on the command line): which unpinned leaf goes first. */
#define RADIX_POLICY_TABLE(X)                                                                      \
    X(LRU, "lru")           /* not used for longest */                                             \
    X(LFU, "lfu")           /* fewest hits, then lru */                                            \
    X(FIFO, "fifo")         /* made first */                                                       \
    X(MRU, "mru")           /* used last */                                                        \
    X(FILO, "filo")         /* made last */                                                        \
    X(SLRU, "slru")         /* hit less than twice, then lru */                                    \
    X(PRIORITY, "priority") /* lowest priority of the requests that used it, then lru */

enum radix_policy {
#define RADIX_ENUM(suffix, name) RADIX_POLICY_##suffix,
    RADIX_POLICY_TABLE(RADIX_ENUM)
#undef RADIX_ENUM
        RADIX_POLICY_COUNT
};

struct radix;

/* Tokens of a sequence, in two pieces that lie where their owners keep them. */
struct radix_tokens {
    const int32_t *head; /* [n_head] */
    uint32_t n_head;
    const int32_t *tail; /* positions from n_head on */
};

static inline int32_t radix_token_at(const struct radix_tokens *t, uint32_t position) {
    return position < t->n_head ? t->head[position] : t->tail[position - t->n_head];
}

/* A pinned place in the tree: the end of a node. */
struct radix_ref {
    uint32_t node;     /* RADIX_REF_NONE: nothing is pinned */
    uint32_t n_tokens; /* from the root to the node's end */
    int32_t priority;  /* of the request, for what it appends */
};
#define RADIX_REF_NONE UINT32_MAX

/* Why a match ended where it did. A node remembers the first tokens of the last four continuations
 * that were evicted behind its end, so this is a hint; a namespace that ends forgets. */
enum radix_miss {
    RADIX_MISS_NONE,    /* all of it matched */
    RADIX_MISS_UNSEEN,  /* nothing was ever computed there, as far as is remembered */
    RADIX_MISS_EVICTED, /* it was there, and was evicted */
};

/* Slots are taken from and given back to `pool` (borrowed; it must outlive the tree), whose page
 * size is the tree's. n_refs_max: refs alive at once, roots included. E_NOMEM. */
enum radish_status radix_create(struct kv_pool *pool, uint32_t n_refs_max, enum radix_policy policy,
                                struct radix **radix_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
void radix_destroy(struct radix *r); /* gives back every slot; no ref may be alive */
uint64_t radix_bytes(uint32_t n_slots, uint32_t page_slots, uint32_t n_refs_max); /* its memory */

/* Tells sink what joins and leaves from now on; the tree is empty still. E_NOMEM. */
enum radish_status radix_listen(struct radix *r, const struct radix_sink *sink,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* How many of tokens[0..n) are there, in whole pages: a look, nothing is touched. */
uint32_t radix_peek(const struct radix *r, uint32_t namespace_id, const struct radix_tokens *tokens,
                    uint32_t n, enum radix_miss *miss_out);

/* Pins the longest prefix of tokens[0..n) there is, in whole pages, and writes its slots to
 * slots_out [n]. A hit: recency, hits and priority of all its nodes change. Cannot fail: without a
 * hit the ref names the namespace's root. ref_out->n_tokens is how many matched. */
void radix_match_pin(struct radix *r, uint32_t namespace_id, const struct radix_tokens *tokens,
                     uint32_t n, int32_t priority, struct radix_ref *ref_out, uint32_t *slots_out);

/* The same, going on from a ref: tokens[0..ref->n_tokens) are the ref's own. The ref moves down to
 * what is there of tokens[0..n) by now, and what it passes counts as hit; slots_out [n] gets
 * positions [old, new ref->n_tokens). */
void radix_match_more(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                      struct radix_ref *ref, uint32_t *slots_out);

/* Positions [ref->n_tokens, n) of tokens have their KV in slots[those positions], whole pages as
 * taken from the pool; n is a multiple of page_slots. The tree takes them over and the ref moves to
 * n. Where the tree had the tokens already, the caller's slots are duplicates: they go back to the
 * pool, and slots[] names the tree's. Returns the number of duplicates. O(1) for one page. */
uint32_t radix_append(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                      struct radix_ref *ref, uint32_t *slots);

/* What the ref pinned stays until it is evicted. Unpinning counts as use. *ref becomes NONE. */
void radix_unpin(struct radix *r, struct radix_ref *ref);

/* Gives back at least n_slots slots (whole pages) of unpinned leaves, tails first, or all there
 * are. Returns how many. */
uint32_t radix_evict(struct radix *r, uint32_t n_slots);

/* An empty tree, as created: all slots go back, and nothing is remembered of what was there. That
 * is no eviction, and is not counted as one. No ref may be alive. */
void radix_reset(struct radix *r);

/* Gives back all that nobody pins. Where that is all there is, one change tells it. */
void radix_flush(struct radix *r);

uint32_t radix_n_pinned(const struct radix *r);                         /* tokens */
uint32_t radix_n_evictable(const struct radix *r);                      /* tokens */
bool radix_has_namespace(const struct radix *r, uint32_t namespace_id); /* has tokens, or a ref */

/* A summary of one node, for reports. Nodes are visited in no order; return false to stop. */
struct radix_node_info {
    uint32_t namespace_id;
    uint32_t n_tokens;      /* of the edge */
    uint32_t n_tokens_path; /* from the root */
    uint32_t n_children, n_pins;
    uint64_t n_hits;
    uint64_t age; /* uses of the tree since it was used */
};
struct radix_summary {
    uint32_t n_nodes, n_namespaces;
    uint32_t n_tokens_pinned, n_tokens_evictable;
    uint64_t n_matches, n_tokens_matched, n_tokens_asked; /* by radix_match_pin() */
    uint64_t n_tokens_evicted, n_leaves_evicted, n_splits, n_duplicates;
};
void radix_summary(const struct radix *r, struct radix_summary *summary_out);
void radix_visit(const struct radix *r,
                 bool (*visit)(void *user, uint32_t node, const struct radix_node_info *info),
                 void *user);
/* The first n_max tokens on the way from the root to a node's end; returns how many. */
uint32_t radix_path(const struct radix *r, uint32_t node, int32_t *tokens_out, uint32_t n_max);

/* Names a node as long as it lives; what is made later has another key. */
struct radix_node_key {
    uint32_t id;
    uint64_t created;
};
/* A node, to rebuild the tree elsewhere. It is a child of its namespace's root where n_tokens ==
 * n_tokens_path. */
struct radix_node_copy {
    struct radix_node_key key;
    uint32_t parent_id, namespace_id;
    uint32_t n_tokens, n_tokens_path; /* as in struct radix_node_info */
    uint32_t n_pins;
    uint64_t n_hits, age;
};
uint32_t radix_n_cells(const struct radix *r); /* of the slab of nodes that were ever used */
/* Copies the nodes among the n_max cells of the slab from *next_id (at first 1) on; returns how
 * many. *next_id becomes where to go on, or 0: that was all. Between two calls the tree may change:
 * then the parts may not fit together. */
uint32_t radix_copy_nodes(const struct radix *r, uint32_t *next_id,
                          struct radix_node_copy *copies_out, uint32_t n_max);
/* The first n_max tokens of a node's edge; returns how many: 0 if the node is no more. */
uint32_t radix_edge(const struct radix *r, const struct radix_node_key *key, int32_t *tokens_out,
                    uint32_t n_max);

bool radix_check(const struct radix *r);

#endif
