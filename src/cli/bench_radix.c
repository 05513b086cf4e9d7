/* bench_radix.c - what the prefix tree costs, at 10^3 to 10^6 nodes.
 *
 * The tree: N sequences of 4 tokens in sqrt(N) groups, root -> group (2 tokens) -> leaf (2), so
 * that a node has up to a thousand children, and beside them one sequence of 10,000 tokens. What is
 * timed leaves the tree as it was, so that all runs see the same one: what is inserted is evicted
 * again. New leaves push out the oldest, which lie anywhere in memory, as in a server that has run
 * long.
 *
 * Slots of the long sequence lie in one run (a prompt computed in an empty pool), in runs of 16 (a
 * sequence that grew beside others), or singly at random (nothing makes it so; it is the worst
 * there can be). */
#include "bench.h"

#include "base/clock.h"
#include "base/rng.h"
#include "cache/radix.h"
#include "command.h"

#include <stdlib.h>

enum {
    LONG = 10000,     /* tokens of the long sequence */
    NEW = 100,        /* tokens inserted behind it */
    LEAF_TOKENS = 2,  /* of an edge in the large tree */
    SCATTER = 131072, /* slots among which those of the long sequence are scattered */
    ROUND = 500,      /* leaves inserted, evicted in one run */
    RUNS = 21,
    NODES_USUAL = 1000000,
    LONG_TOKEN = 1 << 24, /* where token ids of the long sequence begin */
};

struct bench {
    struct kv_pool *pool;
    struct radix *tree;
    uint64_t n_nodes;
    uint32_t n_groups;
    uint64_t n_leaves; /* made so far: each has a number of its own */
    int32_t *tokens;   /* [LONG + NEW] */
    uint32_t *slots;   /* [SCATTER] */
    bool json;
    struct bench_row row;
};

static int print_row(struct bench *b, const char *what, const char *unit) {
    b->row.bench = "radix";
    b->row.what = what;
    b->row.size_name = "nodes";
    b->row.size = b->n_nodes;
    b->row.unit = unit;
    return bench_print(&b->row, b->json);
}

static struct radix_tokens whole(const int32_t *tokens, uint32_t n) {
    return (struct radix_tokens){.head = tokens, .n_head = n};
}

/* One request of four tokens, the last two of which nobody has. */
static bool insert_leaf(struct bench *b) {
    uint64_t leaf = b->n_leaves++;
    int32_t group = (int32_t)(rng_u64(3, leaf) % b->n_groups);
    int32_t tokens[2 * LEAF_TOKENS] = {group, 1, (int32_t)(leaf & 0x7FFFFF), 2};
    struct radix_tokens all = whole(tokens, 2 * LEAF_TOKENS);
    struct radix_ref ref;
    uint32_t slots[2 * LEAF_TOKENS];
    radix_match_pin(b->tree, 0, &all, 2 * LEAF_TOKENS, 0, &ref, slots);
    uint32_t n_more = 2 * LEAF_TOKENS - ref.n_tokens;
    if (kv_pool_take(b->pool, n_more, 0, slots + ref.n_tokens) != RADISH_OK) return false;
    radix_append(b->tree, &all, 2 * LEAF_TOKENS, &ref, slots);
    radix_unpin(b->tree, &ref);
    return true;
}

/* ---- leaves ---- */

static int run_leaves(struct bench *b, const char *what_insert, const char *what_evict) {
    struct bench_row evicted = b->row;
    for (uint32_t run = 0; run < RUNS; run++) {
        uint64_t start = clock_ns();
        for (uint32_t i = 0; i < ROUND; i++)
            if (!insert_leaf(b)) return command_fail("the pool is too small");
        uint64_t middle = clock_ns();
        uint32_t n_evicted = 0;
        for (uint32_t i = 0; i < ROUND; i++) n_evicted += radix_evict(b->tree, LEAF_TOKENS);
        uint64_t end = clock_ns();
        bench_add(&b->row, (double)(middle - start) / ROUND);
        bench_add(&evicted, (double)(end - middle) * LEAF_TOKENS / n_evicted);
    }
    int rc = print_row(b, what_insert, "ns/leaf");
    if (rc >= 0) return rc;
    b->row = evicted;
    return print_row(b, what_evict, "ns/leaf");
}

/* ---- the long sequence ---- */

enum layout { IN_ONE_RUN, IN_RUNS_OF_16, SINGLY, N_LAYOUTS };

/* Slots for the long sequence, in the order that the layout says. */
static bool take_slots(struct bench *b, enum layout layout) {
    uint32_t block = layout == IN_ONE_RUN ? LONG : layout == IN_RUNS_OF_16 ? 16 : 1;
    if (kv_pool_take(b->pool, SCATTER, 0, b->slots) != RADISH_OK) return false;
    if (layout != IN_ONE_RUN)
        for (uint32_t i = SCATTER / block - 1; i; i--) {
            uint32_t j = (uint32_t)(rng_u64(5, i) % (i + 1));
            for (uint32_t k = 0; k < block; k++) {
                uint32_t kept = b->slots[i * block + k];
                b->slots[i * block + k] = b->slots[j * block + k];
                b->slots[j * block + k] = kept;
            }
        }
    kv_pool_give(b->pool, b->slots + LONG, SCATTER - LONG);
    return true;
}

/* A decode's commits: one token at a time behind a leaf that grows. */
static int run_commits(struct bench *b, struct radix_ref *ref) {
    struct radix_tokens all = whole(b->tokens, LONG + NEW);
    for (uint32_t run = 0; run < RUNS; run++) {
        struct radix_ref own;
        radix_match_pin(b->tree, 0, &all, ref->n_tokens, 0, &own, b->slots);
        if (kv_pool_take(b->pool, NEW, 0, b->slots + LONG) != RADISH_OK)
            return command_fail("the pool is too small");
        uint64_t start = clock_ns();
        for (uint32_t n = LONG + 1; n <= LONG + NEW; n++)
            radix_append(b->tree, &all, n, &own, b->slots);
        bench_add(&b->row, (double)(clock_ns() - start) / NEW);
        radix_unpin(b->tree, &own);
        while (radix_peek(b->tree, 0, &all, LONG + NEW, &(enum radix_miss){0}) > LONG)
            radix_evict(b->tree, LEAF_TOKENS);
    }
    return print_row(b, "append 1 token to a running leaf", "ns/token");
}

/* Match 10,000 tokens; the same and 100 new ones. In MRU order, so that eviction takes just these
 * back. */
static int run_long(struct bench *b, enum layout layout, const char *what_match,
                    const char *what_insert) {
    struct radix_tokens all = whole(b->tokens, LONG + NEW);
    struct radix_ref held, ref;
    radix_match_pin(b->tree, 0, &all, LONG, 0, &held, b->slots);
    if (!take_slots(b, layout)) return command_fail("the pool is too small");
    radix_append(b->tree, &all, LONG, &held, b->slots);
    struct bench_row insert = b->row;
    for (uint32_t run = 0; run < RUNS; run++) {
        uint64_t start = clock_ns();
        radix_match_pin(b->tree, 0, &all, LONG, 0, &ref, b->slots);
        bench_add(&b->row, (double)(clock_ns() - start) / LONG);
        radix_unpin(b->tree, &ref);
        start = clock_ns();
        radix_match_pin(b->tree, 0, &all, LONG + NEW, 0, &ref, b->slots);
        if (kv_pool_take(b->pool, NEW, 0, b->slots + LONG) != RADISH_OK)
            return command_fail("the pool is too small");
        radix_append(b->tree, &all, LONG + NEW, &ref, b->slots);
        radix_unpin(b->tree, &ref);
        bench_add(&insert, (double)(clock_ns() - start) / 1000);
        radix_evict(b->tree, NEW);
    }
    int rc = print_row(b, what_match, "ns/token");
    b->row = insert;
    if (rc < 0) rc = print_row(b, what_insert, "us");
    if (rc < 0 && layout == IN_ONE_RUN) rc = run_commits(b, &held);
    radix_unpin(b->tree, &held);
    radix_evict(b->tree, LONG);
    return rc;
}

/* ---- trees ---- */

static int open_tree(struct bench *b, uint64_t n_nodes, enum radix_policy policy) {
    struct radish_error err = {0};
    b->n_nodes = n_nodes;
    b->n_leaves = 0;
    b->n_groups = 1;
    while ((uint64_t)b->n_groups * b->n_groups < n_nodes) b->n_groups++;
    uint32_t n_slots = (uint32_t)(n_nodes * LEAF_TOKENS) + 2 * SCATTER;
    enum radish_status status = kv_pool_create(n_slots, 1, &b->pool, &err);
    if (status == RADISH_OK) status = radix_create(b->pool, 4, policy, &b->tree, &err);
    if (status != RADISH_OK) return command_fail_error("bench radix", &err);
    struct radix_summary summary;
    do {
        if (!insert_leaf(b)) return command_fail("the pool is too small");
        radix_summary(b->tree, &summary);
    } while (summary.n_nodes < n_nodes);
    return -1;
}

static void close_tree(struct bench *b) {
    radix_destroy(b->tree);
    kv_pool_destroy(b->pool);
    b->tree = NULL;
    b->pool = NULL;
}

static int run_size(struct bench *b, uint64_t n_nodes) {
    static const char *const what[N_LAYOUTS][2] = {
        {"match 10,000 in one run", "match 10,000 in one run, insert 100"},
        {"match 10,000 in runs of 16", "match 10,000 in runs of 16, insert 100"},
        {"match 10,000 scattered", "match 10,000 scattered, insert 100"},
    };
    int rc = open_tree(b, n_nodes, RADIX_POLICY_LRU);
    if (rc < 0) rc = run_leaves(b, "insert a leaf (lru)", "evict a leaf (lru, a list)");
    close_tree(b);
    if (rc < 0) rc = open_tree(b, n_nodes, RADIX_POLICY_LFU);
    if (rc < 0) rc = run_leaves(b, "insert a leaf (lfu)", "evict a leaf (lfu, a heap)");
    close_tree(b);
    if (rc < 0) rc = open_tree(b, n_nodes, RADIX_POLICY_MRU);
    for (int layout = 0; rc < 0 && layout < N_LAYOUTS; layout++)
        rc = run_long(b, (enum layout)layout, what[layout][0], what[layout][1]);
    close_tree(b);
    return rc;
}

int bench_radix(const struct args *args) {
    struct bench b = {.json = args->json,
                      .tokens = calloc(LONG + NEW, sizeof *b.tokens),
                      .slots = calloc(SCATTER, sizeof *b.slots)};
    const uint64_t n_nodes_max = args->n_nodes_max ? args->n_nodes_max : NODES_USUAL;
    int rc = b.tokens && b.slots ? -1 : command_fail("out of memory");
    for (int32_t i = 0; rc < 0 && i < LONG + NEW; i++) b.tokens[i] = LONG_TOKEN + i % 5000;
    for (uint64_t n = 1000; rc < 0 && n <= n_nodes_max; n *= 10) rc = run_size(&b, n);
    free(b.tokens);
    free(b.slots);
    return rc;
}
