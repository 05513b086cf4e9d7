/* radix_order.c - which unpinned leaf goes first, without ever searching the tree.
 *
 * The problem: eviction wants the least useful leaf. A leaf is a leaf only until it goes: then its
 * parent is one, and has to be in the right place already. Sorting the leaves when memory is short
 * (the obvious way, and that of the system we follow) costs the whole tree each time.
 *
 * LRU, SLRU: a list of all unpinned nodes, in order of use, children before their parents.
 *
 *   head                                             tail          unpin of root-A-C appends C, A
 *   B (used 3)  D (used 5)  C (used 8)  A (used 8)                 B, D are older children of A
 *
 *   A node leaves the list when it is pinned; its ancestors are pinned with it. Unpinning appends
 *   the path, leaf first. So a parent always comes behind all of its children, and the head has
 *   none: the head is the least recently used leaf, found in O(1), and its parent is in place. A
 *   split changes nothing here: the lower part keeps its place, and the upper one is pinned at
 * once. SLRU has two such lists, for hits below 2 and the rest: a parent has at least its child's
 * hits, so it never is in the list that goes first while its child is in the other. MRU: a list of
 * unpinned leaves, in order of use. The newest goes; its parent, when that becomes a leaf, was used
 * no earlier than it, and is appended: O(1). LFU, FIFO, FILO, PRIORITY: a binary heap of unpinned
 * leaves. A leaf that is unpinned comes back to a place in the middle, which no list finds in O(1).
 * O(log n) for each leaf that is pinned, unpinned or evicted; nodes know their index.
 *
 * Keys are exact: no two leaves share `used` or `created`, since one use touches one path, and a
 * split copies both along a path. */
#include "cache/radix_int.h"

#include "base/invariant.h"

#include <string.h>

enum { SLRU_HITS = 2 };

static bool has_heap(const struct radix *r) {
    return r->policy == RADIX_POLICY_LFU || r->policy == RADIX_POLICY_FIFO ||
           r->policy == RADIX_POLICY_FILO || r->policy == RADIX_POLICY_PRIORITY;
}

static bool has_leaves_only(const struct radix *r) {
    return r->policy == RADIX_POLICY_MRU || has_heap(r);
}

/* ---- the heap ---- */

static bool goes_before(const struct radix *r, uint32_t a_id, uint32_t b_id) {
    const struct radix_node *a = &r->nodes[a_id], *b = &r->nodes[b_id];
    if (r->policy == RADIX_POLICY_FIFO) return a->created < b->created;
    if (r->policy == RADIX_POLICY_FILO) return a->created > b->created;
    if (r->policy == RADIX_POLICY_LFU && a->n_hits != b->n_hits) return a->n_hits < b->n_hits;
    if (r->policy == RADIX_POLICY_PRIORITY && a->priority != b->priority)
        return a->priority < b->priority;
    return a->used < b->used;
}

static void put_at(struct radix *r, uint32_t i, uint32_t id) {
    r->heap[i] = id;
    r->nodes[id].order_prev = i;
}

static void sift_up(struct radix *r, uint32_t i, uint32_t id) {
    while (i && goes_before(r, id, r->heap[(i - 1) / 2])) {
        put_at(r, i, r->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put_at(r, i, id);
}

static void sift_down(struct radix *r, uint32_t i, uint32_t id) {
    for (uint32_t child; (child = 2 * i + 1) < r->n_ordered; i = child) {
        if (child + 1 < r->n_ordered && goes_before(r, r->heap[child + 1], r->heap[child])) child++;
        if (!goes_before(r, r->heap[child], id)) break;
        put_at(r, i, r->heap[child]);
    }
    put_at(r, i, id);
}

static void remove_from_heap(struct radix *r, uint32_t id) {
    uint32_t i = r->nodes[id].order_prev, last = r->heap[r->n_ordered]; /* counted down already */
    if (last == id) return;
    if (i && goes_before(r, last, r->heap[(i - 1) / 2]))
        sift_up(r, i, last);
    else
        sift_down(r, i, last);
}

/* ---- the lists ---- */

static void append_node(struct radix *r, struct radix_list *list, uint32_t id) {
    r->nodes[id].order_prev = list->tail;
    r->nodes[id].order_next = 0;
    *(list->tail ? &r->nodes[list->tail].order_next : &list->head) = id;
    list->tail = id;
}

static void unlink_node(struct radix *r, struct radix_list *list, uint32_t id) {
    uint32_t before = r->nodes[id].order_prev, after = r->nodes[id].order_next;
    *(before ? &r->nodes[before].order_next : &list->head) = after;
    *(after ? &r->nodes[after].order_prev : &list->tail) = before;
}

/* ---- for radix.c ---- */

static uint8_t list_of(const struct radix *r, const struct radix_node *node) {
    return r->policy == RADIX_POLICY_SLRU && node->n_hits >= SLRU_HITS;
}

void radix_order_add(struct radix *r, uint32_t id) {
    struct radix_node *node = &r->nodes[id];
    RADISH_INVARIANT(!node->n_pins && !node->is_ordered && node->kind == RADIX_KIND_EDGE,
                     "node %u with %u pins cannot be evicted", id, node->n_pins);
    if (has_leaves_only(r) && node->n_children) return;
    node->is_ordered = true;
    r->n_ordered++;
    if (has_heap(r)) {
        sift_up(r, r->n_ordered - 1, id);
        return;
    }
    node->list = list_of(r, node);
    append_node(r, &r->lists[node->list], id);
}

void radix_order_leaf(struct radix *r, uint32_t id) {
    if (has_leaves_only(r)) radix_order_add(r, id);
}

void radix_order_remove(struct radix *r, uint32_t id) {
    struct radix_node *node = &r->nodes[id];
    if (!node->is_ordered) return;
    node->is_ordered = false;
    r->n_ordered--;
    if (has_heap(r))
        remove_from_heap(r, id);
    else
        unlink_node(r, &r->lists[node->list], id);
}

uint32_t radix_order_first(const struct radix *r) {
    if (!r->n_ordered) return 0;
    if (has_heap(r)) return r->heap[0];
    if (r->policy == RADIX_POLICY_MRU) return r->lists[0].tail;
    return r->lists[0].head ? r->lists[0].head : r->lists[1].head;
}

/* ---- check ---- */

static bool check_heap(const struct radix *r) {
    for (uint32_t i = 0; i < r->n_ordered; i++) {
        uint32_t id = r->heap[i];
        if (!id || id > r->n_nodes_touched || r->nodes[id].order_prev != i) return false;
        if (!r->nodes[id].is_ordered) return false;
        if (i && goes_before(r, id, r->heap[(i - 1) / 2])) return false;
    }
    return true;
}

/* Links agree, uses ascend, and a parent comes behind its children: sums[] holds places. */
static bool check_list(const struct radix *r, uint8_t list, uint32_t *place) {
    uint32_t before = 0;
    for (uint32_t id = r->lists[list].head; id; id = r->nodes[id].order_next) {
        if (id > r->n_nodes_touched || *place >= r->n_ordered) return false;
        const struct radix_node *node = &r->nodes[id];
        if (!node->is_ordered || node->list != list || list != list_of(r, node)) return false;
        if (node->order_prev != before || r->nodes[before].used > node->used) return false;
        if (r->sums[node->parent]) return false;
        r->sums[id] = ++*place;
        before = id;
    }
    return r->lists[list].tail == before;
}

bool radix_order_check(const struct radix *r) {
    uint32_t n_wanted = 0, place = 0;
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        bool is_wanted = node->kind == RADIX_KIND_EDGE && !node->n_pins &&
                         (!has_leaves_only(r) || !node->n_children);
        if (is_wanted != (node->is_ordered != 0)) return false;
        n_wanted += is_wanted;
    }
    if (n_wanted != r->n_ordered) return false;
    uint32_t first = radix_order_first(r);
    if (first && (first > r->n_nodes_touched || r->nodes[first].n_children)) return false;
    if (has_heap(r)) return check_heap(r);
    memset(r->sums, 0, (r->n_nodes_touched + 1) * sizeof *r->sums);
    return check_list(r, 0, &place) && check_list(r, 1, &place) && place == r->n_ordered;
}
