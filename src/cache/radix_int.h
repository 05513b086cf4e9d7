/* radix_int.h - the inside of the tree, for radix*.c, kv_cache.c and their tests, which break it to
 * see the checks notice.
 *
 *   node A   first_page 5, last_page 9, n_pages 3        next  5 -> 6 -> 9 -> 0
 *            parent, n_tokens_path 12, ...               prev  5 <- 6 <- 9, and HEAD at 5
 *   tokens   | page 5: 5 8 2 9 | page 6: 1 1 4 0 | page 9: ...        tokens[slot], page_slots 4
 *
 * 0 is no node and no page, so that zeroed memory is an empty tree, and memory that was never
 * needed is never touched. radix.c changes the tree; radix_table.c finds children; radix_order.c
 * knows who goes first; radix_report.c looks and checks. */
#ifndef CACHE_RADIX_INT_H
#define CACHE_RADIX_INT_H

#include "cache/radix.h"
#include "cache/radix_events.h"

enum {
    RADIX_GONE_MAX = 4,  /* first tokens of evicted continuations that a node remembers */
    RADIX_RUN_BLOCK = 8, /* links looked at together; next[] is longer by so many */
};

#define RADIX_PAGE_HEAD UINT32_MAX /* prev[] of an edge's first page; 0: not in the tree */

enum radix_kind { RADIX_KIND_FREE, RADIX_KIND_ROOT, RADIX_KIND_EDGE };

struct radix_node {
    uint32_t parent;                         /* 0: a root */
    uint32_t first_page, last_page, n_pages; /* of the edge that leads here; a root has none */
    uint32_t n_tokens_path;                  /* from the root to the end of the edge */
    uint32_t n_children, n_pins;
    uint32_t namespace_id;
    int32_t priority;
    uint32_t order_prev, order_next; /* in a list of the order; in a heap, order_prev is the index;
                                        of a free node, order_next is the next free one */
    uint8_t kind;                    /* enum radix_kind */
    uint8_t list;                    /* of the order, while is_ordered */
    uint8_t is_ordered;
    uint8_t n_gone;
    int32_t gone[RADIX_GONE_MAX]; /* newest first: continuations behind the end, evicted */
    uint64_t n_hits, used, created;
};

struct radix_cell {
    uint32_t hash, node; /* node 0: empty */
};

struct radix_list {
    uint32_t head, tail; /* head goes first */
};

struct radix {
    struct kv_pool *pool; /* borrowed */
    uint32_t page_slots, n_pages;
    enum radix_policy policy;
    uint32_t n_refs, n_refs_max;
    struct radix_events *events; /* NULL: nobody listens */

    int32_t *tokens;       /* [n_pages * page_slots] by slot */
    uint32_t *next, *prev; /* [n_pages] pages; next is longer by RADIX_RUN_BLOCK */

    struct radix_node *nodes; /* [n_nodes_max + 1], [0] unused */
    uint32_t n_nodes_max, n_nodes_touched, n_nodes, n_namespaces;
    uint32_t node_free; /* a stack through order_next */

    struct radix_cell *cells; /* [n_cells], a power of two */
    uint32_t n_cells;
    uint64_t seed; /* of the hash */

    struct radix_list lists[2]; /* of the order */
    uint32_t *heap;             /* [n_nodes_max], where the order is a heap */
    uint32_t n_ordered;

    uint64_t clock;     /* uses so far */
    uint64_t n_created; /* nodes so far */
    uint32_t n_tokens_pinned, n_tokens_evictable;
    uint64_t n_matches, n_tokens_matched, n_tokens_asked;
    uint64_t n_tokens_evicted, n_leaves_evicted, n_splits, n_duplicates;

    uint32_t *give; /* [n_give] slots on their way to the pool */
    uint32_t n_give;
    uint8_t *seen;  /* [n_pages / 8 + 1] for checks */
    uint32_t *sums; /* [n_nodes_max + 1] for checks */
};

/* ---- radix_table.c: nodes by (parent, tokens of the first page), roots by namespace ---- */

/* The child of `parent` whose edge begins with the page of tokens at `position`, or 0. */
uint32_t radix_table_find(const struct radix *r, uint32_t parent, const struct radix_tokens *tokens,
                          uint32_t position);
uint32_t radix_table_find_root(const struct radix *r, uint32_t namespace_id); /* or 0 */
void radix_table_insert(struct radix *r, uint32_t node);
void radix_table_remove(struct radix *r, uint32_t node);
/* `node`'s cell becomes that of `other`, which has the same key. */
void radix_table_replace(struct radix *r, uint32_t node, uint32_t other);
bool radix_table_check(const struct radix *r);

/* How many of the tokens from `position` on and of a[0..n) agree, from the first on. */
uint32_t radix_tokens_same(const struct radix_tokens *tokens, uint32_t position, const int32_t *a,
                           uint32_t n);

/* ---- radix_order.c: which unpinned leaf goes first ---- */

void radix_order_add(struct radix *r, uint32_t node);    /* it has no pins any more; just used */
void radix_order_leaf(struct radix *r, uint32_t node);   /* unpinned, it has lost its last child */
void radix_order_remove(struct radix *r, uint32_t node); /* if it is there */
uint32_t radix_order_first(const struct radix *r);       /* a leaf, or 0 */
bool radix_order_check(const struct radix *r);           /* overwrites sums */

/* Is the page part of an edge? */
static inline bool radix_has_page(const struct radix *r, uint32_t page) {
    return page < r->n_pages && r->prev[page] != 0;
}

static inline uint32_t radix_node_tokens(const struct radix *r, const struct radix_node *node) {
    return node->n_pages * r->page_slots;
}

#endif
