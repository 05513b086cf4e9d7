/* byte_tree.c - a radix tree over bytes: the infinite cache that hit rates are held against.
 *
 *   "the cat"   root --"the "--> A --"cat"--> .
 *   "the dog"                    A --"dog"--> .      adding "the cow" shares 5 bytes: "the c"
 *
 * Every text is walked once; where it leaves the tree, one edge is split and one leaf is hung up.
 * Edges point into blocks of bytes that are never moved, so a split copies nothing. Children are a
 * list, newest first: at most one for each byte there is, and the walk compares one byte for each;
 * a table per node would cost more than it saves. Nodes are never removed: that is what infinite
 * means. */
#include "byte_tree.h"

#include "base/arena.h"
#include "base/status.h"

#include <stdlib.h>

struct node {
    const char *edge; /* [len] from the parent to here; len >= 1, but for the root */
    size_t len;
    struct node *child, *next;
};

struct byte_tree {
    struct arena arena; /* nodes and bytes */
    struct node root;
};

struct byte_tree *byte_tree_create(void) {
    struct byte_tree *tree = calloc(1, sizeof *tree);
    if (tree) arena_init(&tree->arena, 0);
    return tree;
}

void byte_tree_destroy(struct byte_tree *tree) {
    if (!tree) return;
    arena_deinit(&tree->arena);
    free(tree);
}

static struct node *find_child(struct node *node, char first) {
    struct node *child = node->child;
    while (child && child->edge[0] != first) child = child->next;
    return child;
}

/* The edge ends after `at` of its bytes; what was behind hangs below. */
static bool split(struct byte_tree *tree, struct node *node, size_t at) {
    struct node *rest = arena_alloc(&tree->arena, sizeof *rest);
    if (!rest) return false;
    *rest = (struct node){.edge = node->edge + at, .len = node->len - at, .child = node->child};
    node->len = at;
    node->child = rest;
    return true;
}

static bool hang(struct byte_tree *tree, struct node *node, const char *text, size_t n) {
    struct node *leaf = arena_alloc(&tree->arena, sizeof *leaf);
    char *edge = leaf ? arena_strndup(&tree->arena, text, n) : NULL;
    if (!edge) return false;
    *leaf = (struct node){.edge = edge, .len = n, .next = node->child};
    node->child = leaf;
    return true;
}

enum radish_status byte_tree_add(struct byte_tree *tree, const char *text, size_t n,
                                 size_t *n_shared_out) {
    struct node *node = &tree->root;
    size_t done = 0;
    bool is_added = true;
    while (done < n) {
        struct node *child = find_child(node, text[done]);
        if (!child) break;
        size_t same = 1;
        while (same < child->len && done + same < n && child->edge[same] == text[done + same])
            same++;
        done += same;
        if (same < child->len) {
            if (done < n) is_added = split(tree, child, same);
            node = child;
            break;
        }
        node = child;
    }
    *n_shared_out = done;
    if (is_added && done < n) is_added = hang(tree, node, text + done, n - done);
    return is_added ? RADISH_OK : error_nomem(NULL);
}
