/* trie.c - a double array: all nodes in one array, a child is found by one addition and one
 * comparison.
 *
 *   node --byte b--> nodes[node.base + b], if that one's parent is the node
 *
 * Building: keys are sorted, so that the strings below a node are a range, and nodes are made level
 * by level (the top of the trie, which every look-up reads, lies together). A node's children need
 * a base where all their places are free. Free places form a list; a single child takes the first,
 * several try up to TRIES_MAX places and then go behind the last node: building takes time
 * proportional to the number of nodes, and nearly nothing stays empty. The 262,144 tokens of Gemma
 * 3 make 600,000 nodes, 7 MB, in a third of a second, half of it sorting.
 *
 * The alternative, a hash table asked for every prefix, hashes a text of n bytes n * longest / 2
 * times; here a byte is a step, and most starts end after three or four. */
#include "trie.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

enum { TRIES_MAX = 64, BYTES = 256, NODES_MAX = 1 << 30 };

/* A node whose children are not made yet: keys [left, right) start with its string. */
struct task {
    uint32_t node;
    size_t left, right;
};

struct builder {
    struct trie *trie;
    const struct trie_key *keys;
    struct task *now, *next;       /* [n keys] of this level and the one below */
    size_t n_now, n_next;          /* */
    uint32_t free_head, free_tail; /* free nodes: base is the next, value the one before */
    uint32_t n_used;               /* one more than the last node in use */
};

static int compare_keys(const void *a, const void *b) {
    const struct trie_key *x = a, *y = b;
    size_t common = x->len < y->len ? x->len : y->len;
    int order = common ? memcmp(x->data, y->data, common) : 0;
    if (order) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void link_free(struct builder *b, uint32_t node) {
    struct trie_node *nodes = b->trie->nodes;
    nodes[node] = (struct trie_node){NONE, NONE, (int32_t)b->free_tail};
    if (b->free_tail == NONE)
        b->free_head = node;
    else
        nodes[b->free_tail].base = node;
    b->free_tail = node;
}

static void unlink_free(struct builder *b, uint32_t node) {
    struct trie_node *nodes = b->trie->nodes;
    uint32_t next = nodes[node].base, before = (uint32_t)nodes[node].value;
    if (before == NONE)
        b->free_head = next;
    else
        nodes[before].base = next;
    if (next == NONE)
        b->free_tail = before;
    else
        nodes[next].value = (int32_t)before;
}

/* At least n nodes. */
static bool grow(struct builder *b, size_t n) {
    struct trie *t = b->trie;
    size_t n_before = t->n_nodes, n_after = n_before ? n_before : 2 * BYTES, bytes;
    while (n_after < n) n_after *= 2;
    if (n_after == n_before) return true;
    if (n_after > NODES_MAX || !mem_mul(n_after, sizeof *t->nodes, &bytes)) return false;
    struct trie_node *nodes = realloc(t->nodes, bytes);
    if (!nodes) return false;
    t->nodes = nodes;
    t->n_nodes = n_after;
    for (size_t i = n_before; i < n_after; i++) {
        if (i < BYTES) /* the places that a leaf (base 0) looks at: never a child */
            nodes[i] = (struct trie_node){0, NONE, -1};
        else
            link_free(b, (uint32_t)i);
    }
    return true;
}

static bool is_free(const struct builder *b, uint32_t node) {
    return node >= BYTES && b->trie->nodes[node].parent == NONE;
}

/* A base where the places of bytes[0..n) are free, all below n_nodes. */
static bool find_base(struct builder *b, const uint8_t *bytes, size_t n, uint32_t *base_out) {
    uint32_t at = b->free_head;
    for (unsigned tries = 0; at != NONE && tries < TRIES_MAX; tries++) {
        uint32_t base = at - bytes[0];
        size_t fits = 1;
        while (fits < n && base + bytes[fits] < b->trie->n_nodes && is_free(b, base + bytes[fits]))
            fits++;
        *base_out = base;
        if (fits == n) return grow(b, (size_t)base + BYTES);
        at = b->trie->nodes[at].base;
    }
    *base_out = b->n_used;
    return grow(b, (size_t)*base_out + BYTES);
}

static bool make_children(struct builder *b, const struct task *task, size_t depth) {
    uint8_t bytes[BYTES];
    size_t starts[BYTES + 1], n = 0, i = task->left;
    uint32_t base;
    for (; i < task->right && b->keys[i].len == depth; i++) /* they end here: the last counts */
        b->trie->nodes[task->node].value = b->keys[i].value;
    for (; i < task->right; i++) {
        uint8_t byte = (uint8_t)b->keys[i].data[depth];
        if (n && bytes[n - 1] == byte) continue;
        starts[n] = i;
        bytes[n++] = byte;
    }
    if (!n) return true;
    starts[n] = task->right;
    if (!find_base(b, bytes, n, &base)) return false;
    b->trie->nodes[task->node].base = base;
    for (size_t k = 0; k < n; k++) {
        uint32_t child = base + bytes[k];
        unlink_free(b, child);
        if (child >= b->n_used) b->n_used = child + 1;
        b->trie->nodes[child] = (struct trie_node){0, task->node, -1};
        b->next[b->n_next++] = (struct task){child, starts[k], starts[k + 1]};
    }
    return true;
}

static bool build(struct builder *b, size_t n) {
    if (!b->now || !b->next || !grow(b, 2 * BYTES)) return false;
    b->n_now = n ? 1 : 0;
    if (n) b->now[0] = (struct task){0, 0, n};
    for (size_t depth = 0; b->n_now; depth++) {
        b->n_next = 0;
        for (size_t i = 0; i < b->n_now; i++)
            if (!make_children(b, &b->now[i], depth)) return false;
        struct task *done = b->now;
        b->now = b->next;
        b->next = done;
        b->n_now = b->n_next;
    }
    struct trie *t = b->trie;
    t->nodes[0].value = -1;
    /* Bases lie below n_used: what is behind can go. It may also stay. */
    struct trie_node *nodes = realloc(t->nodes, ((size_t)b->n_used + BYTES) * sizeof *nodes);
    if (!nodes) return true;
    t->nodes = nodes;
    t->n_nodes = (size_t)b->n_used + BYTES;
    return true;
}

bool trie_init(struct trie *trie, struct trie_key *keys, size_t n) {
    struct builder b = {
        .trie = trie, .keys = keys, .free_head = NONE, .free_tail = NONE, .n_used = BYTES};
    *trie = (struct trie){0};
    for (size_t i = 0; i < n; i++) keys[i].order = i;
    if (n) qsort(keys, n, sizeof *keys, compare_keys);
    b.now = mem_alloc(n, sizeof *b.now);
    b.next = mem_alloc(n, sizeof *b.next);
    bool ok = build(&b, n);
    free(b.now);
    free(b.next);
    if (ok) return true;
    trie_deinit(trie);
    return false;
}

void trie_deinit(struct trie *trie) {
    free(trie->nodes);
    *trie = (struct trie){0};
}

int32_t trie_find(const struct trie *trie, const char *s, size_t len) {
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++)
        if (!(node = trie_step(trie, node, (uint8_t)s[i]))) return -1;
    return trie->nodes[node].value;
}

size_t trie_longest(const struct trie *trie, const char *s, size_t len, int32_t *value_out) {
    size_t longest = 0;
    uint32_t node = 0;
    *value_out = -1;
    for (size_t i = 0; i < len && (node = trie_step(trie, node, (uint8_t)s[i])); i++) {
        if (trie->nodes[node].value < 0) continue;
        longest = i + 1;
        *value_out = trie->nodes[node].value;
    }
    return longest;
}
