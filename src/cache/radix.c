/* radix.c - the prefix tree: match, append, split, evict.
 *
 * The problem: what any request computed should be found by all later ones and by those running
 * now, whatever their lengths, without a search and without an allocation in the step path.
 *
 * The idea: edges are lists of pages, so that nothing is ever copied when the shape changes.
 *
 *   split of C behind its page 2              append to a leaf          trim of a leaf
 *     A --[p1 p2 p3 p4]--> C                    [.. p7] -> [.. p7 p8]     [.. p7 p8] -> [.. p7]
 *     A --[p1 p2]--> U --[p3 p4]--> C           O(1) a page               O(1) a page
 *
 *   C keeps its number, its children and the lower part; U is new and has C's pins: every ref that
 *   went through C goes through U. Refs name ends of nodes, so none of them needs to know.
 *
 * Who grows in place: a leaf that one ref pins and that nobody has hit yet, which is what a running
 * sequence made itself. Otherwise a child begins, so that hits, priority and age say something
 * about all tokens of a node.
 *
 * Why not arrays of tokens per edge: a split copies, a growing leaf reallocates, and a slab of
 * fixed segments wastes half of each; slot-indexed tokens cost 4 bytes a slot, once, and since
 * slots come in ascending runs a match compares straight memory.
 *
 * Release builds check what would give one user's KV to another: a page joins when the pool has
 * given it out and no edge has it; a ref names a node of its own length; only unpinned leaves go.
 *
 * Cost: a match is O(tokens + nodes on the way), an append O(new tokens), pinning and unpinning
 * O(depth), eviction O(pages) (radix_order.c adds O(log n) for some policies). Read next:
 * radix_order.c, radix_table.c, radix_report.c. */
#include "cache/radix_int.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN_SLOTS_MAX = 512,  /* looked at before tokens are compared: a miss is found soon */
    GIVE_SLOTS_MIN = 256, /* handed to the pool together */
    FIRST_NAMESPACE = 0,  /* keeps its root, and what the root remembers of evicted prefixes */
};

/* ---- create ---- */

/* A node has a page or a ref, or it is a root above such a node. */
static uint64_t nodes_max(uint32_t n_pages, uint32_t n_refs_max) {
    return 2 * (uint64_t)n_pages + n_refs_max + 1;
}

static uint64_t cells_max(uint64_t n_nodes) {
    uint64_t n = 64;
    while (n < n_nodes + n_nodes / 2) n *= 2;
    return n;
}

static uint32_t give_max(uint32_t page_slots) {
    return page_slots > GIVE_SLOTS_MIN ? page_slots : GIVE_SLOTS_MIN / page_slots * page_slots;
}

uint64_t radix_bytes(uint32_t n_slots, uint32_t page_slots, uint32_t n_refs_max) {
    uint32_t n_pages = n_slots / page_slots;
    uint64_t n_nodes = nodes_max(n_pages, n_refs_max) + 1;
    return sizeof(struct radix) + (uint64_t)n_slots * sizeof(int32_t) +
           (2 * (uint64_t)n_pages + RADIX_RUN_BLOCK) * sizeof(uint32_t) + n_pages / 8 + 1 +
           n_nodes * (sizeof(struct radix_node) + 2 * sizeof(uint32_t)) +
           cells_max(n_nodes) * sizeof(struct radix_cell) + give_max(page_slots) * sizeof(uint32_t);
}

enum radish_status radix_create(struct kv_pool *pool, uint32_t n_refs_max, enum radix_policy policy,
                                struct radix **radix_out, struct radish_error *err) {
    *radix_out = NULL;
    uint32_t page_slots = kv_pool_page_slots(pool), n_pages = kv_pool_n_slots(pool) / page_slots;
    uint64_t n_nodes = nodes_max(n_pages, n_refs_max), n_cells = cells_max(n_nodes + 1);
    if (n_cells > UINT32_MAX / 2 + 1u)
        return error_set_field(err, RADISH_E_LIMIT, "max-total-tokens",
                               "%u pages are too many for the prefix tree", n_pages);
    struct radix *r = calloc(1, sizeof *r);
    if (!r) return error_nomem(err);
    r->pool = pool;
    r->page_slots = page_slots;
    r->n_pages = n_pages;
    r->policy = policy;
    r->n_refs_max = n_refs_max;
    r->n_nodes_max = (uint32_t)n_nodes;
    r->n_cells = (uint32_t)n_cells;
    r->seed = rng_seed_from_system();
    r->n_give = give_max(r->page_slots);
    r->tokens = mem_zalloc(kv_pool_n_slots(pool), sizeof *r->tokens);
    r->next = mem_zalloc((size_t)r->n_pages + RADIX_RUN_BLOCK, sizeof *r->next);
    r->prev = mem_zalloc(r->n_pages, sizeof *r->prev);
    r->nodes = mem_zalloc((size_t)n_nodes + 1, sizeof *r->nodes);
    r->cells = mem_zalloc(r->n_cells, sizeof *r->cells);
    r->heap = mem_zalloc((size_t)n_nodes, sizeof *r->heap);
    r->give = mem_zalloc(r->n_give, sizeof *r->give);
    r->seen = mem_zalloc(r->n_pages / 8 + 1, 1);
    r->sums = mem_zalloc((size_t)n_nodes + 1, sizeof *r->sums);
    if (!r->tokens || !r->next || !r->prev || !r->nodes || !r->cells || !r->heap || !r->give ||
        !r->seen || !r->sums) {
        radix_destroy(r);
        return error_nomem(err);
    }
    *radix_out = r;
    return RADISH_OK;
}

enum radish_status radix_listen(struct radix *r, const struct radix_sink *sink,
                                struct radish_error *err) {
    RADISH_INVARIANT(!r->events && !r->n_tokens_pinned && !r->n_tokens_evictable,
                     "the tree has %u tokens", r->n_tokens_pinned + r->n_tokens_evictable);
    return radix_events_create(sink, r->n_pages, &r->events, err);
}

void radix_destroy(struct radix *r) {
    if (!r) return;
    radix_events_destroy(r->events);
    r->events = NULL;
    RADISH_INVARIANT(!r->n_refs, "%u refs are still alive", r->n_refs);
    if (r->sums) radix_evict(r, UINT32_MAX);
    free(r->tokens);
    free(r->next);
    free(r->prev);
    free(r->nodes);
    free(r->cells);
    free(r->heap);
    free(r->give);
    free(r->seen);
    free(r->sums);
    free(r);
}

/* ---- nodes ---- */

static uint32_t take_node(struct radix *r) {
    uint32_t id = r->node_free;
    if (id)
        r->node_free = r->nodes[id].order_next;
    else
        id = ++r->n_nodes_touched;
    RADISH_INVARIANT(id <= r->n_nodes_max, "%u nodes are in use", r->n_nodes);
    r->nodes[id] = (struct radix_node){.created = ++r->n_created, .used = r->clock};
    r->n_nodes++;
    return id;
}

static void give_node(struct radix *r, uint32_t id) {
    r->nodes[id].kind = RADIX_KIND_FREE;
    r->nodes[id].order_next = r->node_free;
    r->node_free = id;
    r->n_nodes--;
}

static uint32_t take_root(struct radix *r, uint32_t namespace_id) {
    uint32_t id = radix_table_find_root(r, namespace_id);
    if (id) return id;
    id = take_node(r);
    r->nodes[id].kind = RADIX_KIND_ROOT;
    r->nodes[id].namespace_id = namespace_id;
    radix_table_insert(r, id);
    r->n_namespaces++;
    return id;
}

/* A root that nobody needs goes, and with it what it remembers: its number may come to stand for
 * somebody else. */
static void give_root_if_idle(struct radix *r, uint32_t id) {
    const struct radix_node *root = &r->nodes[id];
    if (root->n_pins || root->n_children || root->namespace_id == FIRST_NAMESPACE) return;
    radix_table_remove(r, id);
    r->n_namespaces--;
    give_node(r, id);
}

static void pin_node(struct radix *r, uint32_t id) {
    struct radix_node *node = &r->nodes[id];
    if (node->n_pins++) return;
    r->n_tokens_evictable -= radix_node_tokens(r, node);
    r->n_tokens_pinned += radix_node_tokens(r, node);
    radix_order_remove(r, id);
}

static void raise_priority(struct radix_node *node, int32_t priority) {
    if (node->priority < priority) node->priority = priority;
}

/* The first n_pages pages of a node's edge, up to last_page, become a node above it, which the
 * caller pins: it is in no order yet. */
static uint32_t split_node(struct radix *r, uint32_t lower_id, uint32_t n_pages,
                           uint32_t last_page) {
    uint32_t upper_id = take_node(r);
    struct radix_node *lower = &r->nodes[lower_id], *upper = &r->nodes[upper_id];
    *upper = *lower;
    upper->last_page = last_page;
    upper->n_pages = n_pages;
    upper->n_tokens_path -= (lower->n_pages - n_pages) * r->page_slots;
    upper->n_children = 1;
    upper->is_ordered = false;
    upper->n_gone = 0;
    radix_table_replace(r, lower_id, upper_id);
    lower->parent = upper_id;
    lower->first_page = r->next[last_page];
    lower->n_pages -= n_pages;
    r->next[last_page] = 0;
    r->prev[lower->first_page] = RADIX_PAGE_HEAD;
    radix_table_insert(r, lower_id);
    r->n_splits++;
    return upper_id;
}

/* ---- evicted or never seen ---- */

static void remember_gone(struct radix_node *node, int32_t token) {
    if (node->n_gone < RADIX_GONE_MAX) node->n_gone++;
    memmove(node->gone + 1, node->gone, (node->n_gone - 1u) * sizeof *node->gone);
    node->gone[0] = token;
}

static bool is_gone(const struct radix_node *node, int32_t token) {
    for (uint32_t i = 0; i < node->n_gone; i++)
        if (node->gone[i] == token) return true;
    return false;
}

static void forget_gone(struct radix_node *node, int32_t token) {
    uint8_t n = 0;
    for (uint8_t i = 0; i < node->n_gone; i++)
        if (node->gone[i] != token) node->gone[n++] = node->gone[i];
    node->n_gone = n;
}

/* ---- match ---- */

/* Pages from `page` on that lie one behind the other and are linked so, up to n. */
static uint32_t run_length(const struct radix *r, uint32_t page, uint32_t n) {
    const uint32_t *next = r->next + page;
    uint32_t i = 0;
    if (n < 2 || next[0] != page + 1) return 1;
    for (; i + RADIX_RUN_BLOCK < n; i += RADIX_RUN_BLOCK) {
        uint32_t difference = 0;
        for (uint32_t j = 0; j < RADIX_RUN_BLOCK; j++)
            difference |= next[i + j] ^ (page + i + j + 1);
        if (difference) break;
    }
    while (i + 1 < n && next[i] == page + i + 1) i++;
    return i + 1;
}

/* slots_out[0..n) = first, first + 1, ... */
static void fill_run(uint32_t *slots_out, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) slots_out[i] = first + i;
}

/* How many of the node's first n_max pages hold the tokens from `position` on; the last of them.
 * Their slots go to slots_out (NULL: nowhere). */
static uint32_t match_edge(const struct radix *r, const struct radix_node *node,
                           const struct radix_tokens *tokens, uint32_t position, uint32_t n_max,
                           uint32_t *slots_out, uint32_t *last_page_out) {
    uint32_t page_slots = r->page_slots;
    uint32_t run_max = RUN_SLOTS_MAX / page_slots ? RUN_SLOTS_MAX / page_slots : 1;
    const uint32_t *next = r->next;
    uint32_t n = 0, page = node->first_page, last_page = 0;
    while (n < n_max) {
        if (page_slots == 1 && next[page] != page + 1) { /* alone: no call is worth it */
            if (r->tokens[page] != radix_token_at(tokens, position + n)) break;
            if (slots_out) slots_out[n] = page;
            n++;
            last_page = page;
            page = next[page];
            continue;
        }
        uint32_t n_run = run_length(r, page, n_max - n < run_max ? n_max - n : run_max);
        uint32_t first = page * page_slots, at = n * page_slots;
        uint32_t n_same =
            radix_tokens_same(tokens, position + at, r->tokens + first, n_run * page_slots) /
            page_slots;
        if (slots_out) fill_run(slots_out + at, first, n_same * page_slots);
        n += n_same;
        if (n_same) last_page = page + n_same - 1;
        if (n_same < n_run) break;
        page = next[last_page];
    }
    *last_page_out = last_page;
    return n;
}

uint32_t radix_peek(const struct radix *r, uint32_t namespace_id, const struct radix_tokens *tokens,
                    uint32_t n, enum radix_miss *miss_out) {
    uint32_t at = radix_table_find_root(r, namespace_id), position = 0, last_page;
    bool is_at_end = true;
    while (at && is_at_end && n - position >= r->page_slots && r->nodes[at].n_children) {
        uint32_t child = radix_table_find(r, at, tokens, position);
        if (!child) break;
        uint32_t n_max = (n - position) / r->page_slots, n_pages = r->nodes[child].n_pages;
        if (n_max > n_pages) n_max = n_pages;
        uint32_t n_same =
            match_edge(r, &r->nodes[child], tokens, position, n_max, NULL, &last_page);
        position += n_same * r->page_slots;
        is_at_end = n_same == n_pages;
        at = child;
    }
    *miss_out = RADIX_MISS_UNSEEN;
    if (n - position < r->page_slots)
        *miss_out = RADIX_MISS_NONE;
    else if (at && is_at_end && is_gone(&r->nodes[at], radix_token_at(tokens, position)))
        *miss_out = RADIX_MISS_EVICTED;
    return position;
}

static struct radix_node *get_ref_node(struct radix *r, const struct radix_ref *ref) {
    RADISH_INVARIANT(ref->node && ref->node <= r->n_nodes_touched, "ref to node %u of %u",
                     ref->node, r->n_nodes_touched);
    struct radix_node *node = &r->nodes[ref->node];
    RADISH_INVARIANT(node->kind != RADIX_KIND_FREE && node->n_pins &&
                         node->n_tokens_path == ref->n_tokens,
                     "ref to %u tokens, node %u has %u and %u pins", ref->n_tokens, ref->node,
                     node->n_tokens_path, node->n_pins);
    return node;
}

/* One node down from the ref: the child that goes on with tokens[ref->n_tokens ..n), split where
 * they part. Pins it, moves the ref, and writes slots_out[those positions] unless it is NULL.
 * false: there is none. */
static bool step_down(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                      struct radix_ref *ref, uint32_t *slots_out) {
    uint32_t position = ref->n_tokens, last_page;
    if (n < position || n - position < r->page_slots || !r->nodes[ref->node].n_children)
        return false;
    uint32_t child = radix_table_find(r, ref->node, tokens, position);
    if (!child) return false;
    uint32_t n_max = (n - position) / r->page_slots, n_pages = r->nodes[child].n_pages;
    if (n_max > n_pages) n_max = n_pages;
    uint32_t n_same = match_edge(r, &r->nodes[child], tokens, position, n_max,
                                 slots_out ? slots_out + position : NULL, &last_page);
    RADISH_INVARIANT(n_same, "node %u does not begin with its own key", child);
    if (n_same < n_pages) child = split_node(r, child, n_same, last_page);
    pin_node(r, child);
    raise_priority(&r->nodes[child], ref->priority);
    r->nodes[child].used = r->clock;
    ref->node = child;
    ref->n_tokens = position + n_same * r->page_slots;
    return true;
}

void radix_match_pin(struct radix *r, uint32_t namespace_id, const struct radix_tokens *tokens,
                     uint32_t n, int32_t priority, struct radix_ref *ref_out, uint32_t *slots_out) {
    RADISH_INVARIANT(r->n_refs < r->n_refs_max, "%u refs are alive", r->n_refs);
    r->n_refs++;
    r->clock++;
    *ref_out = (struct radix_ref){.node = take_root(r, namespace_id), .priority = priority};
    r->nodes[ref_out->node].n_pins++;
    while (step_down(r, tokens, n, ref_out, slots_out)) r->nodes[ref_out->node].n_hits++;
    r->n_matches++;
    r->n_tokens_asked += n;
    r->n_tokens_matched += ref_out->n_tokens;
}

void radix_match_more(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                      struct radix_ref *ref, uint32_t *slots_out) {
    (void)get_ref_node(r, ref);
    uint32_t n_before = ref->n_tokens;
    r->clock++;
    while (step_down(r, tokens, n, ref, slots_out)) r->nodes[ref->node].n_hits++;
    if (ref->n_tokens == n_before) return;
    /* Nodes that this ref made itself have no hits of their own: a parent has its children's. */
    for (uint32_t id = ref->node, up; (up = r->nodes[id].parent) != 0; id = up)
        if (r->nodes[up].n_hits < r->nodes[id].n_hits) r->nodes[up].n_hits = r->nodes[id].n_hits;
}

/* ---- append ---- */

/* Puts a page that the pool has given out, and that no edge has, behind the node's last one. */
static void link_page(struct radix *r, struct radix_node *node, const struct radix_tokens *tokens,
                      uint32_t position, const uint32_t *slots) {
    uint32_t page = slots[0] / r->page_slots;
    RADISH_INVARIANT(page && page < r->n_pages && !kv_pool_is_free(r->pool, slots[0]),
                     "slot %u is not taken from the pool", slots[0]);
    RADISH_INVARIANT(!radix_has_page(r, page), "slot %u is in the tree twice", slots[0]);
    for (uint32_t i = 0; i < r->page_slots; i++) {
        RADISH_INVARIANT(slots[i] == page * r->page_slots + i, "slot %u is not slot %u of page %u",
                         slots[i], i, page);
        r->tokens[slots[i]] = radix_token_at(tokens, position + i);
    }
    r->prev[page] = node->n_pages ? node->last_page : RADIX_PAGE_HEAD;
    r->next[page] = 0;
    if (node->n_pages)
        r->next[node->last_page] = page;
    else
        node->first_page = page;
    node->last_page = page;
    node->n_pages++;
    node->n_tokens_path += r->page_slots;
}

/* The node at the end of which new tokens, from `token` on, go: the ref's own, if only it knows it,
 * or a child. */
static uint32_t take_leaf(struct radix *r, const struct radix_ref *ref, int32_t token) {
    struct radix_node *at = &r->nodes[ref->node];
    if (at->kind == RADIX_KIND_EDGE && at->n_pins == 1 && !at->n_children && !at->n_hits) {
        at->n_gone = 0; /* what went began at an end that is none any more */
        return ref->node;
    }
    forget_gone(at, token);
    uint32_t id = take_node(r);
    struct radix_node *leaf = &r->nodes[id];
    leaf->kind = RADIX_KIND_EDGE;
    leaf->parent = ref->node;
    leaf->n_tokens_path = ref->n_tokens;
    leaf->namespace_id = at->namespace_id;
    leaf->priority = ref->priority;
    leaf->n_pins = 1;
    at->n_children++;
    return id;
}

/* The ref has come down over [from, ref->n_tokens), which the tree had: the caller's slots go back,
 * and slots[] names the tree's. */
static void give_duplicates(struct radix *r, uint32_t from, const struct radix_ref *ref,
                            uint32_t *slots) {
    uint32_t page_slots = r->page_slots;
    for (uint32_t i = from; i < ref->n_tokens; i += page_slots)
        RADISH_INVARIANT(!radix_has_page(r, slots[i] / page_slots), "slot %u is in the tree twice",
                         slots[i]);
    kv_pool_give(r->pool, slots + from, ref->n_tokens - from);
    uint32_t page = r->nodes[ref->node].first_page;
    for (uint32_t i = from; i < ref->n_tokens; i += page_slots, page = r->next[page])
        for (uint32_t j = 0; j < page_slots; j++) slots[i + j] = page * page_slots + j;
}

static void append_new(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                       struct radix_ref *ref, const uint32_t *slots) {
    uint32_t from = ref->n_tokens;
    uint32_t id = take_leaf(r, ref, radix_token_at(tokens, from));
    for (uint32_t i = from; i < n; i += r->page_slots)
        link_page(r, &r->nodes[id], tokens, i, slots + i);
    if (id != ref->node) radix_table_insert(r, id);
    if (r->events) radix_events_stored(r, id, slots[from] / r->page_slots);
    r->n_tokens_pinned += n - from;
    *ref = (struct radix_ref){.node = id, .n_tokens = n, .priority = ref->priority};
}

uint32_t radix_append(struct radix *r, const struct radix_tokens *tokens, uint32_t n,
                      struct radix_ref *ref, uint32_t *slots) {
    (void)get_ref_node(r, ref);
    RADISH_INVARIANT(n >= ref->n_tokens && n % r->page_slots == 0,
                     "%u tokens behind %u are no whole pages", n, ref->n_tokens);
    uint32_t n_before = ref->n_tokens, from = n_before;
    for (; step_down(r, tokens, n, ref, NULL); from = ref->n_tokens)
        give_duplicates(r, from, ref, slots);
    if (from < n) append_new(r, tokens, n, ref, slots);
    r->n_duplicates += from - n_before;
    return from - n_before;
}

/* ---- unpin, evict ---- */

void radix_unpin(struct radix *r, struct radix_ref *ref) {
    (void)get_ref_node(r, ref);
    r->clock++;
    uint32_t id = ref->node;
    for (; r->nodes[id].kind == RADIX_KIND_EDGE; id = r->nodes[id].parent) {
        struct radix_node *node = &r->nodes[id];
        RADISH_INVARIANT(node->n_pins, "node %u is unpinned once too often", id);
        node->used = r->clock;
        if (--node->n_pins) continue;
        r->n_tokens_pinned -= radix_node_tokens(r, node);
        r->n_tokens_evictable += radix_node_tokens(r, node);
        radix_order_add(r, id);
    }
    RADISH_INVARIANT(r->nodes[id].kind == RADIX_KIND_ROOT && r->nodes[id].n_pins,
                     "node %u is no pinned root", id);
    r->nodes[id].n_pins--;
    give_root_if_idle(r, id);
    r->n_refs--;
    *ref = (struct radix_ref){.node = RADIX_REF_NONE};
}

/* Takes the last n_pages pages off the edge and gives them to the pool. */
static void trim_edge(struct radix *r, struct radix_node *node, uint32_t n_pages) {
    uint32_t page_slots = r->page_slots, n_give = 0, page = node->last_page, first = page;
    for (uint32_t i = 0; i < n_pages; i++) {
        if (r->events) radix_events_removed(r, page);
        for (uint32_t j = 0; j < page_slots; j++) r->give[n_give++] = page * page_slots + j;
        if (n_give == r->n_give || i + 1 == n_pages) {
            kv_pool_give(r->pool, r->give, n_give);
            n_give = 0;
        }
        first = page;
        page = r->prev[page];
        r->prev[first] = 0;
    }
    node->n_pages -= n_pages;
    node->n_tokens_path -= n_pages * page_slots;
    node->last_page = node->n_pages ? page : 0;
    if (node->n_pages) r->next[page] = 0;
    r->n_tokens_evictable -= n_pages * page_slots;
    r->n_tokens_evicted += (uint64_t)n_pages * page_slots;
    uint32_t id = node->n_pages ? (uint32_t)(node - r->nodes) : node->parent;
    remember_gone(&r->nodes[id], r->tokens[first * page_slots]);
}

/* An unpinned leaf without pages leaves the tree; its parent may be a leaf now. */
static void remove_leaf(struct radix *r, uint32_t id) {
    uint32_t parent_id = r->nodes[id].parent;
    struct radix_node *parent = &r->nodes[parent_id];
    give_node(r, id);
    r->n_leaves_evicted++;
    parent->n_children--;
    if (parent->kind == RADIX_KIND_ROOT)
        give_root_if_idle(r, parent_id);
    else if (!parent->n_children && !parent->n_pins)
        radix_order_leaf(r, parent_id);
}

uint32_t radix_evict(struct radix *r, uint32_t n_slots) {
    uint32_t n_given = 0;
    for (uint32_t id; n_given < n_slots && (id = radix_order_first(r)) != 0;) {
        struct radix_node *leaf = &r->nodes[id];
        RADISH_INVARIANT(leaf->kind == RADIX_KIND_EDGE && !leaf->n_pins && !leaf->n_children,
                         "node %u with %u pins and %u children would be evicted", id, leaf->n_pins,
                         leaf->n_children);
        uint32_t n_pages = (n_slots - n_given - 1) / r->page_slots + 1;
        if (n_pages >= leaf->n_pages) {
            n_pages = leaf->n_pages;
            radix_order_remove(r, id);
            radix_table_remove(r, id);
        }
        trim_edge(r, leaf, n_pages);
        n_given += n_pages * r->page_slots;
        if (!leaf->n_pages) remove_leaf(r, id);
    }
    return n_given;
}

void radix_flush(struct radix *r) {
    struct radix_events *events = r->events;
    bool is_all = !r->n_tokens_pinned;
    if (is_all) r->events = NULL;
    radix_evict(r, UINT32_MAX);
    r->events = events;
    if (is_all && events) radix_events_cleared(r);
}

void radix_reset(struct radix *r) {
    uint64_t n_tokens_evicted = r->n_tokens_evicted, n_leaves_evicted = r->n_leaves_evicted;
    RADISH_INVARIANT(!r->n_refs, "%u refs are alive", r->n_refs);
    radix_flush(r);
    r->n_tokens_evicted = n_tokens_evicted;
    r->n_leaves_evicted = n_leaves_evicted;
    uint32_t root = radix_table_find_root(r, FIRST_NAMESPACE);
    if (root) {
        radix_table_remove(r, root);
        r->n_namespaces--;
        give_node(r, root);
    }
    RADISH_INVARIANT(!r->n_nodes, "%u nodes are left of an empty tree", r->n_nodes);
    r->node_free = r->n_nodes_touched = 0;
}

uint32_t radix_n_pinned(const struct radix *r) {
    return r->n_tokens_pinned;
}

uint32_t radix_n_evictable(const struct radix *r) {
    return r->n_tokens_evictable;
}

bool radix_has_namespace(const struct radix *r, uint32_t namespace_id) {
    const struct radix_node *root = &r->nodes[radix_table_find_root(r, namespace_id)];
    return root->n_pins || root->n_children;
}
