/* stop_match.c - one Aho-Corasick automaton for all strings.
 *
 * Generation stops at the byte at which the text first ends with a stop string: a rule that does
 * not depend on where tokens end, and one that never waits for more text to decide. Of several
 * that end there the longest is the one found, since it starts first.
 *
 *   "</tool>", "<end>":   root -- < -+- / -- t -- o -- o -- l -- > (0)
 *                                    +- e -- n -- d -- > (1)
 *
 * A node is a string that the text ends with, the longest that begins a stop string; its depth is
 * what must be held back, and no more need be. When the text goes on otherwise, `shorter` leads to
 * the longest proper end of the node that is a node, too. So a push costs a walk down per byte and
 * no more walks up than down, whatever the number of strings; among a node's children the search
 * is a list, of at most as many as there are strings (the root, where most text is spent, has a
 * table).
 *
 * A string that holds another before its end ("</tool>" where "tool" is one as well) can never be
 * found: it is left out, so that nothing is held back for its sake. Then every string ends in a
 * leaf. A search per string, or one with a "longest first" rule, would cost a walk each and would
 * have to hold text whose fate is already known. */
#include "stop_match.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { ROOT = 0, NONE = 0 }; /* the root is nobody's child */

struct node {
    uint32_t first_child, next_sibling;
    uint32_t shorter;
    uint32_t depth;
    int found; /* the longest string that the text ends with here; -1 = none */
    char byte;
};

struct stop_string {
    char *data; /* [len], len > 0 */
    size_t len;
    uint32_t node;  /* while building: the longest prefix that has one */
    bool is_hidden; /* another is always found before */
};

struct stop_match {
    struct stop_string *strings; /* [n] */
    size_t n;
    struct node *nodes; /* [n_nodes] by depth */
    uint32_t n_nodes;
    uint32_t root_child[256];
    uint32_t state; /* a node */
    char *held;     /* [n_held] the end of the text, not shown yet */
    size_t n_held;
    uint64_t n_steps;
    bool is_found;
};

/* ---- the automaton */

static uint32_t find_child(struct stop_match *match, uint32_t node, char byte) {
    match->n_steps++;
    if (node == ROOT) return match->root_child[(unsigned char)byte];
    uint32_t child = match->nodes[node].first_child;
    while (child != NONE && match->nodes[child].byte != byte) {
        child = match->nodes[child].next_sibling;
        match->n_steps++;
    }
    return child;
}

/* The node for the text that went on with byte. */
static uint32_t step(struct stop_match *match, uint32_t node, char byte) {
    uint32_t child;
    while ((child = find_child(match, node, byte)) == NONE && node != ROOT)
        node = match->nodes[node].shorter;
    return child;
}

/* The child of node for byte, made (with its links) when there is none. All nodes of smaller depth
 * exist by now. */
static uint32_t get_child(struct stop_match *match, uint32_t node, char byte) {
    uint32_t child = find_child(match, node, byte);
    if (child != NONE) return child;
    child = match->n_nodes++;
    uint32_t shorter = node == ROOT ? ROOT : step(match, match->nodes[node].shorter, byte);
    match->nodes[child] = (struct node){.next_sibling = match->nodes[node].first_child,
                                        .shorter = shorter,
                                        .depth = match->nodes[node].depth + 1,
                                        .found = match->nodes[shorter].found,
                                        .byte = byte};
    match->nodes[node].first_child = child;
    if (node == ROOT) match->root_child[(unsigned char)byte] = child;
    return child;
}

/* Of the strings that are not hidden: all their first bytes, all their second bytes, ... */
static void build(struct stop_match *match, size_t len_max) {
    memset(match->root_child, 0, sizeof match->root_child);
    match->nodes[ROOT] = (struct node){.found = -1};
    match->n_nodes = 1;
    for (size_t i = 0; i < match->n; i++) match->strings[i].node = ROOT;
    for (size_t depth = 1; depth <= len_max; depth++) {
        for (size_t i = 0; i < match->n; i++) {
            struct stop_string *string = &match->strings[i];
            if (string->is_hidden || string->len < depth) continue;
            string->node = get_child(match, string->node, string->data[depth - 1]);
            struct node *node = &match->nodes[string->node];
            bool is_own = node->found >= 0 && match->strings[node->found].len == depth;
            if (string->len == depth && !is_own) node->found = (int)i;
        }
    }
}

static void hide(struct stop_match *match, struct stop_string *string) {
    uint32_t node = ROOT;
    for (size_t i = 0; i + 1 < string->len; i++) {
        node = step(match, node, string->data[i]);
        if (match->nodes[node].found >= 0) string->is_hidden = true;
    }
}

/* ---- create, destroy */

static enum radish_status add(struct stop_match *match, const char *string,
                              struct radish_error *err) {
    struct stop_string *s = &match->strings[match->n];
    s->len = strlen(string);
    if (!s->len)
        return error_set_field(err, RADISH_E_INVALID, "stop", "a stop string must not be empty");
    if (s->len > RADISH_STOP_BYTES_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "stop",
                               "a stop string has %zu bytes, at most %d are allowed", s->len,
                               RADISH_STOP_BYTES_MAX);
    s->data = mem_strndup(string, s->len);
    if (!s->data) return error_nomem(err);
    match->n++;
    return RADISH_OK;
}

enum radish_status stop_match_create(const char *const *strings, size_t n,
                                     struct stop_match **match_out, struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    size_t len_max = 0, n_nodes_max = 1;
    *match_out = NULL;
    if (n > RADISH_STOP_MAX)
        return error_set_field(err, RADISH_E_LIMIT, "stop", "%zu stop strings, at most %d", n,
                               RADISH_STOP_MAX);
    struct stop_match *match = calloc(1, sizeof *match);
    if (match) match->strings = mem_zalloc(n, sizeof *match->strings);
    if (!match || !match->strings) status = error_nomem(err);
    for (size_t i = 0; i < n && status == RADISH_OK; i++) {
        status = add(match, strings[i], err);
        if (status != RADISH_OK) break;
        n_nodes_max += match->strings[i].len;
        if (match->strings[i].len > len_max) len_max = match->strings[i].len;
    }
    if (status == RADISH_OK) {
        match->nodes = mem_zalloc(n_nodes_max, sizeof *match->nodes);
        match->held = mem_alloc(len_max + 1, 1);
        if (!match->nodes || !match->held) status = error_nomem(err);
    }
    if (status != RADISH_OK) {
        stop_match_destroy(match);
        return status;
    }
    build(match, len_max);
    for (size_t i = 0; i < n; i++) hide(match, &match->strings[i]);
    build(match, len_max);
    match->n_steps = 0;
    *match_out = match;
    return RADISH_OK;
}

void stop_match_destroy(struct stop_match *match) {
    if (!match) return;
    for (size_t i = 0; i < match->n; i++) free(match->strings[i].data);
    free(match->strings);
    free(match->nodes);
    free(match->held);
    free(match);
}

/* ---- a stream */

/* Of what is held and text[0..len) behind it, shows all but the last n_left bytes, which then are
 * what is held. */
static void show(struct stop_match *match, const char *text, size_t len, size_t n_left,
                 struct buf *out) {
    size_t n_from_text = len > n_left ? len - n_left : 0;
    size_t n_from_held = match->n_held + len - n_left - n_from_text;
    buf_append(out, match->held, n_from_held);
    buf_append(out, text, n_from_text);
    match->n_held -= n_from_held;
    memmove(match->held, match->held + n_from_held, match->n_held);
    memcpy(match->held + match->n_held, text + n_from_text, len - n_from_text);
    match->n_held = n_left;
}

int stop_match_push(struct stop_match *match, const char *text, size_t len, bool include_stop,
                    struct buf *out) {
    size_t n_read = 0;
    int found = -1;
    if (match->is_found || !len) return -1;
    while (n_read < len && found < 0) {
        match->state = step(match, match->state, text[n_read++]);
        found = match->nodes[match->state].found;
    }
    show(match, text, n_read, include_stop ? 0 : match->nodes[match->state].depth, out);
    if (found < 0) return -1;
    RADISH_ASSERT(match->strings[found].len == match->nodes[match->state].depth);
    match->is_found = true;
    match->n_held = 0;
    return found;
}

void stop_match_finish(struct stop_match *match, struct buf *out) {
    buf_append(out, match->held, match->n_held);
    match->n_held = 0;
    match->state = ROOT;
}

uint64_t stop_match_n_steps(const struct stop_match *match) {
    return match->n_steps;
}
