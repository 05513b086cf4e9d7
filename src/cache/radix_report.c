/* radix_report.c - looks at the tree, and checks it.
 *
 * Reports walk the slab of nodes, not the tree: a node names its parent and the way up is all that
 * is needed, so there are no lists of children to keep for them. A token sequence is read upwards,
 * edge by edge.
 *
 * radix_check() trusts nothing that is counted or linked: it walks every edge's pages in both
 * directions, adds up tokens, children and pins, and holds them against what the tree says. It is
 * O(pages + nodes + cells), for tests and for idle moments. */
#include "cache/radix_int.h"

#include <string.h>

void radix_summary(const struct radix *r, struct radix_summary *summary_out) {
    uint32_t n_idle = 0;
    uint32_t first = radix_table_find_root(r, 0);
    if (first && !radix_has_namespace(r, 0)) n_idle = 1;
    *summary_out = (struct radix_summary){
        .n_nodes = r->n_nodes - r->n_namespaces,
        .n_namespaces = r->n_namespaces - n_idle,
        .n_tokens_pinned = r->n_tokens_pinned,
        .n_tokens_evictable = r->n_tokens_evictable,
        .n_matches = r->n_matches,
        .n_tokens_matched = r->n_tokens_matched,
        .n_tokens_asked = r->n_tokens_asked,
        .n_tokens_evicted = r->n_tokens_evicted,
        .n_leaves_evicted = r->n_leaves_evicted,
        .n_splits = r->n_splits,
        .n_duplicates = r->n_duplicates,
    };
}

void radix_visit(const struct radix *r,
                 bool (*visit)(void *user, uint32_t node, const struct radix_node_info *info),
                 void *user) {
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->kind != RADIX_KIND_EDGE) continue;
        struct radix_node_info info = {
            .namespace_id = node->namespace_id,
            .n_tokens = radix_node_tokens(r, node),
            .n_tokens_path = node->n_tokens_path,
            .n_children = node->n_children,
            .n_pins = node->n_pins,
            .n_hits = node->n_hits,
            .age = r->clock - node->used,
        };
        if (!visit(user, id, &info)) return;
    }
}

uint32_t radix_n_cells(const struct radix *r) {
    return r->n_nodes_touched;
}

uint32_t radix_copy_nodes(const struct radix *r, uint32_t *next_id,
                          struct radix_node_copy *copies_out, uint32_t n_max) {
    uint32_t n = 0, id = *next_id;
    for (uint32_t i = 0; i < n_max && id <= r->n_nodes_touched; i++, id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->kind != RADIX_KIND_EDGE) continue;
        copies_out[n++] = (struct radix_node_copy){
            .key = {.id = id, .created = node->created},
            .parent_id = node->parent,
            .namespace_id = node->namespace_id,
            .n_tokens = radix_node_tokens(r, node),
            .n_tokens_path = node->n_tokens_path,
            .n_pins = node->n_pins,
            .n_hits = node->n_hits,
            .age = r->clock - node->used,
        };
    }
    *next_id = id > r->n_nodes_touched ? 0 : id;
    return n;
}

uint32_t radix_edge(const struct radix *r, const struct radix_node_key *key, int32_t *tokens_out,
                    uint32_t n_max) {
    if (key->id > r->n_nodes_touched) return 0;
    const struct radix_node *node = &r->nodes[key->id];
    if (node->kind != RADIX_KIND_EDGE || node->created != key->created) return 0;
    uint32_t n = 0;
    for (uint32_t page = node->first_page; page && n < n_max; page = r->next[page]) {
        uint32_t n_here = n_max - n < r->page_slots ? n_max - n : r->page_slots;
        memcpy(tokens_out + n, r->tokens + (size_t)page * r->page_slots,
               n_here * sizeof *tokens_out);
        n += n_here;
    }
    return n;
}

uint32_t radix_path(const struct radix *r, uint32_t node, int32_t *tokens_out, uint32_t n_max) {
    uint32_t page_slots = r->page_slots, n = 0;
    if (node > r->n_nodes_touched) return 0;
    for (uint32_t id = node; r->nodes[id].kind == RADIX_KIND_EDGE; id = r->nodes[id].parent) {
        const struct radix_node *at = &r->nodes[id];
        uint32_t position = at->n_tokens_path - radix_node_tokens(r, at);
        if (!n) n = at->n_tokens_path < n_max ? at->n_tokens_path : n_max;
        for (uint32_t page = at->first_page; page && position < n; page = r->next[page]) {
            uint32_t n_here = n - position < page_slots ? n - position : page_slots;
            memcpy(tokens_out + position, r->tokens + (size_t)page * page_slots,
                   n_here * sizeof *tokens_out);
            position += n_here;
        }
    }
    return n;
}

/* ---- check ---- */

/* The pages of an edge: linked both ways, each in no other edge and not free. */
static bool check_edge(const struct radix *r, const struct radix_node *node) {
    uint32_t before = RADIX_PAGE_HEAD, page = node->first_page;
    for (uint32_t i = 0; i < node->n_pages; i++) {
        if (!page || page >= r->n_pages || r->prev[page] != before) return false;
        if (kv_pool_is_free(r->pool, page * r->page_slots)) return false;
        if (r->seen[page / 8] >> page % 8 & 1) return false;
        r->seen[page / 8] = (uint8_t)(r->seen[page / 8] | 1u << page % 8);
        before = page;
        page = r->next[page];
    }
    return node->n_pages && !page && node->last_page == before;
}

/* What a node must be beside its parent: one step further on the same way, and no better. */
static bool check_against_parent(const struct radix *r, const struct radix_node *node) {
    if (!node->parent || node->parent > r->n_nodes_touched) return false;
    const struct radix_node *parent = &r->nodes[node->parent];
    if (parent->kind == RADIX_KIND_FREE || parent->namespace_id != node->namespace_id) return false;
    if (node->n_tokens_path != parent->n_tokens_path + radix_node_tokens(r, node)) return false;
    if (parent->kind == RADIX_KIND_ROOT) return true;
    return parent->n_hits >= node->n_hits && parent->priority >= node->priority &&
           parent->created <= node->created && (parent->n_pins || parent->used >= node->used);
}

/* sums[parent] gathers what children say: first their number, then their pins. */
static bool check_sums(const struct radix *r, bool is_pins) {
    memset(r->sums, 0, (r->n_nodes_touched + 1) * sizeof *r->sums);
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->kind == RADIX_KIND_EDGE) r->sums[node->parent] += is_pins ? node->n_pins : 1;
    }
    uint64_t n_refs = 0;
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->kind == RADIX_KIND_FREE) continue;
        if (is_pins ? node->n_pins < r->sums[id] : node->n_children != r->sums[id]) return false;
        if (node->kind == RADIX_KIND_ROOT) n_refs += node->n_pins;
    }
    return !is_pins || n_refs == r->n_refs;
}

static bool check_nodes(const struct radix *r) {
    uint32_t n_nodes = 0, n_namespaces = 0;
    uint64_t n_pinned = 0, n_evictable = 0;
    memset(r->seen, 0, r->n_pages / 8 + 1);
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->n_gone > RADIX_GONE_MAX || node->used > r->clock) return false;
        if (node->kind == RADIX_KIND_FREE) continue;
        n_nodes++;
        if (node->kind == RADIX_KIND_ROOT) {
            n_namespaces++;
            if (node->n_pages || node->n_tokens_path || node->parent) return false;
            if (!node->n_pins && !node->n_children && node->namespace_id) return false;
            continue;
        }
        if (!check_edge(r, node) || !check_against_parent(r, node)) return false;
        *(node->n_pins ? &n_pinned : &n_evictable) += radix_node_tokens(r, node);
    }
    for (uint32_t page = 0; page < r->n_pages; page++)
        if ((r->prev[page] != 0) != (r->seen[page / 8] >> page % 8 & 1)) return false;
    return n_nodes == r->n_nodes && n_namespaces == r->n_namespaces &&
           n_pinned == r->n_tokens_pinned && n_evictable == r->n_tokens_evictable;
}

static bool check_free_nodes(const struct radix *r) {
    uint32_t n = 0;
    for (uint32_t id = r->node_free; id; id = r->nodes[id].order_next)
        if (id > r->n_nodes_touched || r->nodes[id].kind != RADIX_KIND_FREE ||
            ++n > r->n_nodes_touched)
            return false;
    return n + r->n_nodes == r->n_nodes_touched;
}

bool radix_check(const struct radix *r) {
    return r->n_nodes_touched <= r->n_nodes_max && check_nodes(r) && check_free_nodes(r) &&
           check_sums(r, /*is_pins=*/false) && check_sums(r, /*is_pins=*/true) &&
           radix_table_check(r) && radix_order_check(r);
}
