/* radix_table.c - children of all nodes in one open-addressing hash table.
 *
 * The problem: a node may have one child or ten thousand (a system prompt that every request goes
 * on from), and a child is looked up once per node of a match. A table per node would have to grow,
 * which may fail; a list per node is slow just where sharing is best. One table for all nodes has a
 * size known at start.
 *
 *   key (parent node, tokens of the edge's first page)  -> cell {hash, node} -> compare, walk on
 *   key (0, namespace)                                  -> a root
 *
 * The hash only finds the cell: the parent and the tokens themselves are compared, so that no
 * collision can hand one prefix's KV to another. It is seeded from the system, so that nobody can
 * choose prompts that collide. Linear probing, and removal shifts cells back, so there are no
 * tombstones to clean up.
 *
 * Cost: at most two thirds full, so about two probes a lookup, whatever the number of nodes; the
 * hash kept in the cell spares a visit to the node when it differs. */
#include "cache/radix_int.h"

#include "base/invariant.h"
#include "base/rng.h"

/* How many of a[0..n) and b[0..n) agree, from the first on. */
static uint32_t count_same(const int32_t *a, const int32_t *b, uint32_t n) {
    enum { BLOCK = 16 };
    uint32_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        uint32_t difference = 0;
        for (uint32_t j = 0; j < BLOCK; j++) difference |= (uint32_t)(a[i + j] ^ b[i + j]);
        if (difference) break;
    }
    while (i < n && a[i] == b[i]) i++;
    return i;
}

uint32_t radix_tokens_same(const struct radix_tokens *tokens, uint32_t position, const int32_t *a,
                           uint32_t n) {
    uint32_t n_head = position < tokens->n_head ? tokens->n_head - position : 0;
    if (n_head > n) n_head = n;
    uint32_t n_same = n_head ? count_same(tokens->head + position, a, n_head) : 0;
    if (n_same < n_head || n_head == n) return n_same;
    const int32_t *tail = tokens->tail + (position + n_head - tokens->n_head);
    return n_head + count_same(tail, a + n_head, n - n_head);
}

static uint32_t mix_key(const struct radix *r, uint32_t parent, uint32_t word) {
    return (uint32_t)(rng_mix(((uint64_t)parent << 32 | word) + r->seed) >> 32);
}

static uint32_t hash_tokens(const struct radix *r, uint32_t parent,
                            const struct radix_tokens *tokens, uint32_t position) {
    uint32_t hash = parent;
    for (uint32_t i = 0; i < r->page_slots; i++)
        hash = mix_key(r, hash, (uint32_t)radix_token_at(tokens, position + i));
    return hash;
}

static uint32_t hash_node(const struct radix *r, const struct radix_node *node) {
    if (node->kind == RADIX_KIND_ROOT) return mix_key(r, 0, node->namespace_id);
    struct radix_tokens page = {.head = r->tokens + (size_t)node->first_page * r->page_slots,
                                .n_head = r->page_slots};
    return hash_tokens(r, node->parent, &page, 0);
}

uint32_t radix_table_find(const struct radix *r, uint32_t parent, const struct radix_tokens *tokens,
                          uint32_t position) {
    uint32_t hash = hash_tokens(r, parent, tokens, position), mask = r->n_cells - 1;
    for (uint32_t i = hash & mask; r->cells[i].node; i = (i + 1) & mask) {
        if (r->cells[i].hash != hash) continue;
        const struct radix_node *node = &r->nodes[r->cells[i].node];
        if (node->kind != RADIX_KIND_EDGE || node->parent != parent) continue;
        const int32_t *page = r->tokens + (size_t)node->first_page * r->page_slots;
        if (radix_tokens_same(tokens, position, page, r->page_slots) == r->page_slots)
            return r->cells[i].node;
    }
    return 0;
}

uint32_t radix_table_find_root(const struct radix *r, uint32_t namespace_id) {
    uint32_t hash = mix_key(r, 0, namespace_id), mask = r->n_cells - 1;
    for (uint32_t i = hash & mask; r->cells[i].node; i = (i + 1) & mask) {
        const struct radix_node *node = &r->nodes[r->cells[i].node];
        if (r->cells[i].hash == hash && node->kind == RADIX_KIND_ROOT &&
            node->namespace_id == namespace_id)
            return r->cells[i].node;
    }
    return 0;
}

void radix_table_insert(struct radix *r, uint32_t node) {
    uint32_t hash = hash_node(r, &r->nodes[node]), mask = r->n_cells - 1, i = hash & mask;
    while (r->cells[i].node) i = (i + 1) & mask;
    r->cells[i] = (struct radix_cell){.hash = hash, .node = node};
}

/* The cell that holds the node itself. */
static uint32_t get_cell(const struct radix *r, uint32_t node) {
    uint32_t mask = r->n_cells - 1, i = hash_node(r, &r->nodes[node]) & mask;
    while (r->cells[i].node != node) {
        RADISH_INVARIANT(r->cells[i].node, "node %u is not in the table of children", node);
        i = (i + 1) & mask;
    }
    return i;
}

void radix_table_replace(struct radix *r, uint32_t node, uint32_t other) {
    r->cells[get_cell(r, node)].node = other;
}

void radix_table_remove(struct radix *r, uint32_t node) {
    uint32_t mask = r->n_cells - 1, hole = get_cell(r, node);
    /* Whoever would not be found any more across the hole moves into it, and leaves the next. */
    for (uint32_t i = (hole + 1) & mask; r->cells[i].node; i = (i + 1) & mask) {
        uint32_t home = r->cells[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask)) continue;
        r->cells[hole] = r->cells[i];
        hole = i;
    }
    r->cells[hole] = (struct radix_cell){0};
}

/* Every node is found from its key's home without a gap, and no cell names anything else. */
bool radix_table_check(const struct radix *r) {
    uint32_t mask = r->n_cells - 1, n_used = 0;
    for (uint32_t i = 0; i < r->n_cells; i++) {
        uint32_t id = r->cells[i].node;
        if (!id) continue;
        n_used++;
        if (id > r->n_nodes_touched || r->nodes[id].kind == RADIX_KIND_FREE) return false;
        const struct radix_node *node = &r->nodes[id];
        if (r->cells[i].hash != hash_node(r, node)) return false;
        if (node->kind == RADIX_KIND_ROOT) {
            if (radix_table_find_root(r, node->namespace_id) != id) return false;
            continue;
        }
        struct radix_tokens page = {.head = r->tokens + (size_t)node->first_page * r->page_slots,
                                    .n_head = r->page_slots};
        if (radix_table_find(r, node->parent, &page, 0) != id) return false;
        for (uint32_t j = r->cells[i].hash & mask; j != i; j = (j + 1) & mask)
            if (!r->cells[j].node) return false;
    }
    return n_used == r->n_nodes;
}
