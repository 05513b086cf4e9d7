/* msl_uses.c - which function constants a kernel reaches.
 *
 * Metal refuses to make a pipeline when a function constant that the kernel uses has no value, even
 * on a path that is never taken; a variable of C++ would just be 0. So the pre-pass finds out what
 * each kernel reaches, by names: the source is a row of definitions at program scope,
 *
 *   static float2 turn(float x) { ... scale(x) ... }
 *   ^----------- a segment named turn, which mentions scale, x, ... --------------------------^
 *
 * and a kernel reaches every segment whose name is mentioned in one that it reaches. Overloads
 * share their name, so this may find too much, never too little. In the same way it tells whether
 * the threads of a kernel ever wait for each other: kernels whose do not run as plain loops, a
 * multiple faster than as fibers.
 *
 * Names are numbered by a hash table; a search visits each segment once a kernel. */
#include "msl_unit.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define NO_ID UINT32_MAX

struct segment {
    uint32_t name_id; /* NO_ID: an enum, a using: nothing that code reaches by name */
    struct msl_range range;
};

struct graph {
    const struct msl_unit *u;
    uint32_t *ids;   /* [n tokens] of names, NO_ID for others */
    uint32_t *table; /* [n_table] token + 1 that has the id, by hash */
    size_t n_table;
    struct segment *segments; /* [n_segments] */
    size_t n_segments;
    bool *is_reached;  /* [n_segments] */
    uint32_t *pending; /* [n_segments] */
};

static uint64_t hash_text(const char *text, size_t len) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h ^ h >> 29;
}

/* Numbers the names; equal names have the number of their first token. */
static bool number_names(struct graph *g) {
    const struct msl_tokens *t = &g->u->tokens;
    for (g->n_table = 64; g->n_table < 2 * t->n; g->n_table *= 2) continue;
    g->ids = mem_alloc(t->n + 1, sizeof *g->ids);
    g->table = mem_zalloc(g->n_table, sizeof *g->table);
    if (!g->ids || !g->table) return false;
    for (size_t i = 0; i < t->n; i++) {
        g->ids[i] = NO_ID;
        if (t->at[i].kind != MSL_TOKEN_NAME) continue;
        size_t slot = hash_text(t->at[i].text, t->at[i].len) & (g->n_table - 1);
        while (g->table[slot] && !msl_token_same(&t->at[g->table[slot] - 1], &t->at[i]))
            slot = (slot + 1) & (g->n_table - 1);
        if (!g->table[slot]) g->table[slot] = (uint32_t)i + 1;
        g->ids[i] = g->table[slot] - 1;
    }
    return true;
}

/* What at[from..to) defines: the name before the first parenthesis, or before = [ [[ ; or behind
 * struct. */
static uint32_t segment_name(const struct graph *g, struct msl_range range) {
    static const char *const ends[] = {"(", "=", "[", "[[", ";", "{", NULL};
    const struct msl_token *at = g->u->tokens.at;
    size_t i = range.from;
    while (i < range.to) {
        if (msl_token_is(&at[i], "template") && !msl_token_is(&at[i + 1], "<"))
            return NO_ID; /* an instantiation */
        if (msl_token_is(&at[i], "template"))
            i = msl_skip_bracket(g->u, i + 1);
        else if (msl_token_is(&at[i], "[["))
            i = msl_skip_bracket(g->u, i);
        else if (msl_token_is(&at[i], "struct") || msl_token_is(&at[i], "class"))
            return g->ids[i + 1];
        else if (msl_token_is(&at[i], "enum") || msl_token_is(&at[i], "using"))
            return NO_ID;
        else if (i + 1 < range.to && at[i].kind == MSL_TOKEN_NAME &&
                 msl_token_is_one_of(&at[i + 1], ends))
            return g->ids[i];
        else
            i++;
    }
    return NO_ID;
}

/* The end of the definition at i: behind its semicolon, or behind the braces of a function. */
static size_t segment_end(const struct graph *g, size_t i) {
    const struct msl_tokens *t = &g->u->tokens;
    while (i < t->n) {
        if (msl_token_is(&t->at[i], ";")) return i + 1;
        bool is_body = msl_token_is(&t->at[i], "{");
        if (is_body || msl_token_is(&t->at[i], "(") || msl_token_is(&t->at[i], "["))
            i = msl_skip_bracket(g->u, i);
        else
            i++;
        if (is_body && !msl_token_is(&t->at[i], ";")) return i;
    }
    return i;
}

static bool find_segments(struct graph *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->u->tokens.n; i = segment_end(g, i)) n++;
    g->segments = mem_zalloc(n, sizeof *g->segments);
    g->is_reached = mem_zalloc(n, sizeof *g->is_reached);
    g->pending = mem_zalloc(n, sizeof *g->pending);
    if (!g->segments || !g->is_reached || !g->pending) return false;
    for (size_t i = 0; i < g->u->tokens.n;) {
        struct msl_range range = {i, segment_end(g, i)};
        g->segments[g->n_segments++] = (struct segment){segment_name(g, range), range};
        i = range.to;
    }
    return true;
}

/* Reaches every segment of a name; they go on the list of those to look through. */
static void reach(struct graph *g, uint32_t id, size_t *n_pending) {
    for (size_t s = 0; s < g->n_segments; s++)
        if (g->segments[s].name_id == id && !g->is_reached[s]) {
            g->is_reached[s] = true;
            g->pending[(*n_pending)++] = (uint32_t)s;
        }
}

static bool is_meeting(const struct msl_token *t) {
    static const char simd[] = "simd";
    return msl_token_is(t, "threadgroup_barrier") ||
           (t->kind == MSL_TOKEN_NAME && t->len > 5 && memcmp(t->text, simd, 4) == 0 &&
            !msl_token_is(t, "simdgroup_index_in_threadgroup") &&
            !msl_token_is(t, "simdgroups_per_threadgroup"));
}

/* Everything kernel k reaches. */
static void search(struct graph *g, const struct msl_kernel_head *kernel, bool *uses_out,
                   bool *is_meeting_out) {
    const struct msl_unit *u = g->u;
    size_t n_pending = 0;
    memset(g->is_reached, 0, g->n_segments * sizeof *g->is_reached);
    reach(g, g->ids[kernel->name], &n_pending);
    while (n_pending) {
        struct msl_range range = g->segments[g->pending[--n_pending]].range;
        for (size_t i = range.from; i < range.to; i++) {
            if (g->ids[i] == NO_ID) continue;
            *is_meeting_out |= is_meeting(&u->tokens.at[i]);
            for (size_t c = 0; c < u->n_constants; c++)
                if (g->ids[i] == g->ids[u->constants[c].name]) uses_out[c] = true;
            reach(g, g->ids[i], &n_pending);
        }
    }
}

enum radish_status msl_find_uses(struct msl_unit *u, bool *uses_out, bool *is_meeting_out,
                                 struct radish_error *err) {
    struct graph g = {.u = u};
    bool is_ok = number_names(&g) && find_segments(&g);
    for (size_t k = 0; is_ok && k < u->n_kernels; k++)
        search(&g, &u->kernels[k], uses_out + k * MSL_CONSTANTS_MAX, &is_meeting_out[k]);
    free(g.ids);
    free(g.table);
    free(g.segments);
    free(g.is_reached);
    free(g.pending);
    return is_ok ? RADISH_OK : error_nomem(err);
}
