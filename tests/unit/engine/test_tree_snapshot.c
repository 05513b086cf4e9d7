/* The picture of the tree: which nodes are shown, what they add up to, and what copying them costs
 * the engine's thread. */
#include "test.h"

#include "engine_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cache/kv_pool.h"
#include "engine/tree_snapshot.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_RANDOM = 300, N_SHOWN = 40, N_HUGE = 1000 * 1000, SLICE = 1 << 13 };

/* ---- choice and sums, against a slow way ---- */

static struct radix_node_copy copies[N_RANDOM];
static struct radish_tree_node shown[N_RANDOM];

static uint32_t chance(uint64_t seed, uint64_t *count, uint32_t n) {
    return (uint32_t)(rng_u64(seed, (*count)++) % n);
}

/* A random tree in a random order; ids are not the places in the list. */
static void make_tree(uint64_t seed, uint32_t n) {
    uint64_t count = 0;
    uint32_t at_path[N_RANDOM], space[N_RANDOM];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t parent = chance(seed, &count, i + 3), tokens = 1 + chance(seed, &count, 50);
        bool is_top = parent >= i;
        space[i] = is_top ? chance(seed, &count, 3) : space[parent];
        at_path[i] = tokens + (is_top ? 0 : at_path[parent]);
        copies[i] = (struct radix_node_copy){.key = {.id = 2 * i + 1, .created = 1000 + i},
                                             .parent_id = is_top ? 2 : 2 * parent + 1,
                                             .namespace_id = space[i],
                                             .n_tokens = tokens,
                                             .n_tokens_path = at_path[i],
                                             .n_pins = chance(seed, &count, 2),
                                             .n_hits = chance(seed, &count, 9),
                                             .age = chance(seed, &count, 99)};
    }
    for (uint32_t i = n; i-- > 1;) {
        uint32_t other = chance(seed, &count, i + 1);
        struct radix_node_copy kept = copies[i];
        copies[i] = copies[other];
        copies[other] = kept;
    }
}

static const struct radix_node_copy *find_id(uint32_t n, uint64_t id) {
    for (uint32_t i = 0; i < n; i++)
        if (copies[i].key.id == id) return &copies[i];
    return NULL;
}

static bool is_behind(uint32_t n, const struct radix_node_copy *copy, uint64_t id) {
    while (copy->n_tokens != copy->n_tokens_path) {
        if (copy->parent_id == id) return true;
        copy = find_id(n, copy->parent_id);
    }
    return false;
}

static void check_node(uint32_t n, uint32_t i) {
    const struct radish_tree_node *node = &shown[i];
    const struct radix_node_copy *copy = find_id(n, node->key[0]);
    uint64_t tokens_below = 0;
    uint32_t nodes_below = 0;
    for (uint32_t j = 0; j < n; j++) {
        if (!is_behind(n, &copies[j], node->key[0])) continue;
        tokens_below += copies[j].n_tokens;
        nodes_below++;
    }
    assert_int_equal(node->key[1], copy->key.created);
    assert_int_equal(node->n_tokens_below, tokens_below);
    assert_int_equal(node->n_nodes_below, nodes_below);
    assert_int_equal(node->n_tokens, copy->n_tokens);
    assert_int_equal(node->n_tokens_path, copy->n_tokens_path);
    assert_int_equal(node->namespace_id, copy->namespace_id);
    assert_int_equal(node->n_pins, copy->n_pins);
    assert_int_equal(node->n_hits, copy->n_hits);
    assert_int_equal(node->age, copy->age);
    assert_int_equal(node->n_tokens_known, 0);
    if (node->parent == RADISH_TREE_TOP) {
        assert_int_equal(copy->n_tokens, copy->n_tokens_path);
    } else {
        assert_true(node->parent < i);
        assert_int_equal(shown[node->parent].key[0], copy->parent_id);
    }
}

static uint64_t weight(uint32_t i) {
    return shown[i].n_tokens + shown[i].n_tokens_below;
}

static void test_the_heaviest_nodes_are_shown_with_what_is_behind_them(void **state) {
    (void)state;
    uint64_t seed = clock_ns();
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t round = 0; round < 20; round++, seed++) {
        struct radish_tree tree;
        uint32_t n = 1 + (uint32_t)(seed % N_RANDOM);
        uint64_t weights[N_RANDOM];
        make_tree(seed, n);
        assert_int_equal(tree_snapshot_pick(copies, n, 2 * n, shown, n, &tree, NULL), RADISH_OK);
        assert_int_equal(tree.n_nodes, n);
        assert_int_equal(tree.n_nodes_total, n);
        for (uint32_t i = 0; i < n; i++) {
            check_node(n, i);
            weights[i] = weight(i);
            if (i) assert_true(weights[i] <= weights[i - 1]);
        }

        uint32_t n_max = n < N_SHOWN ? n : N_SHOWN;
        assert_int_equal(tree_snapshot_pick(copies, n, 2 * n, shown, n_max, &tree, NULL),
                         RADISH_OK);
        assert_int_equal(tree.n_nodes, n_max);
        assert_int_equal(tree.n_nodes_total, n);
        for (uint32_t i = 0; i < n_max; i++) {
            check_node(n, i);
            assert_int_equal(weight(i), weights[i]);
        }
    }
}

static void test_nodes_whose_parent_is_gone_or_another_are_left_out(void **state) {
    (void)state;
    struct radish_tree tree;
    static const struct radix_node_copy parts[] = {
        {.key = {1, 1}, .parent_id = 99, .n_tokens = 5, .n_tokens_path = 5},
        {.key = {2, 2}, .parent_id = 1, .n_tokens = 5, .n_tokens_path = 10},
        {.key = {3, 3}, .parent_id = 1, .n_tokens = 5, .n_tokens_path = 11}, /* behind another */
        {.key = {4, 4}, .parent_id = 1, .namespace_id = 1, .n_tokens = 5, .n_tokens_path = 10},
        {.key = {5, 5}, .parent_id = 8, .n_tokens = 5, .n_tokens_path = 10},  /* is not here */
        {.key = {6, 6}, .parent_id = 77, .n_tokens = 5, .n_tokens_path = 10}, /* nor that */
        {.key = {7, 7}, .parent_id = 5, .n_tokens = 1, .n_tokens_path = 11},  /* behind it */
    };
    assert_int_equal(tree_snapshot_pick(parts, 7, 8, shown, N_RANDOM, &tree, NULL), RADISH_OK);
    assert_int_equal(tree.n_nodes, 2);
    assert_int_equal(shown[0].key[0], 1);
    assert_int_equal(shown[0].n_tokens_below, 5);
    assert_int_equal(shown[1].key[0], 2);
    assert_int_equal(shown[1].parent, 0);
    assert_int_equal(tree_snapshot_pick(parts, 0, 0, shown, N_RANDOM, &tree, NULL), RADISH_OK);
    assert_int_equal(tree.n_nodes, 0);
}

/* ---- with an engine ---- */

static struct radish_engine *engine;
static int32_t prompt[200];

static void run(struct client *client, uint32_t n_prompt) {
    struct radish_request request = client_request(prompt, n_prompt, 1);
    client_run(client, engine, &request);
}

/* Makes steps long enough to be looked at between them. */
static void linger(void *user, size_t row, size_t n_rows, size_t n_vocab, const float *logits) {
    (void)user;
    (void)row;
    (void)n_rows;
    (void)n_vocab;
    (void)logits;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static void test_an_engine_shows_its_tree_with_text_and_pins(void **state) {
    (void)state;
    struct radish_model *model;
    struct radish_tree tree;
    struct client *client = client_create();
    for (int32_t i = 0; i < 200; i++) prompt[i] = 3 + i % 250;
    client_open_engine(
        "llama", &(struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512},
        &model, &engine);
    assert_int_equal(radish_engine_tree(engine, shown, N_RANDOM, &tree, NULL), RADISH_OK);
    assert_true(tree.is_enabled);
    assert_int_equal(tree.n_nodes + tree.n_nodes_total, 0);

    run(client, 100);
    run(client, 60);
    struct radish_request endless = client_request(prompt, 60, 400);
    endless.on_logits = linger;
    assert_int_equal(client_submit(client, engine, &endless, NULL), RADISH_OK);
    client_wait_tokens(client, 2);
    assert_int_equal(radish_engine_tree(engine, shown, N_RANDOM, &tree, NULL), RADISH_OK);
    radish_engine_abort(engine, client->request);
    client_wait(client);

    assert_true(tree.n_nodes >= 2);
    assert_int_equal(tree.n_nodes, tree.n_nodes_total);
    assert_int_equal(shown[0].parent, RADISH_TREE_TOP);
    assert_int_equal(shown[0].n_tokens_known, RADISH_TREE_TOKENS_MAX);
    assert_memory_equal(shown[0].tokens, prompt, sizeof shown[0].tokens);
    assert_int_equal(shown[0].n_pins, 1);
    assert_true(shown[0].n_hits >= 1);
    assert_int_equal(shown[0].n_tokens_below + shown[0].n_tokens, tree.n_tokens_total);
    client_destroy(client);
    radish_engine_close(engine);
    radish_model_close(model);
}

static void test_an_engine_without_a_cache_says_so(void **state) {
    (void)state;
    struct radish_model *model;
    struct radish_tree tree = {.is_enabled = true};
    client_open_engine("llama",
                       &(struct radish_engine_options){
                           .kv_tokens_max = 2000, .context_tokens = 512, .is_cache_off = true},
                       &model, &engine);
    assert_int_equal(radish_engine_tree(engine, shown, N_RANDOM, &tree, NULL), RADISH_OK);
    assert_false(tree.is_enabled);
    assert_int_equal(tree.n_nodes, 0);
    radish_engine_close(engine);
    radish_model_close(model);
}

/* ---- what it costs ---- */

/* What this thread has computed: others may have the processor meanwhile. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void test_a_slice_of_a_huge_tree_takes_less_than_a_millisecond(void **state) {
    (void)state;
    struct kv_pool *pool;
    struct radix *radix;
    struct radish_tree tree;
    assert_int_equal(kv_pool_create(N_HUGE + 1, 1, &pool, NULL), RADISH_OK);
    assert_int_equal(radix_create(pool, 2, RADIX_POLICY_LRU, &radix, NULL), RADISH_OK);
    for (int32_t i = 0; i < N_HUGE; i++) {
        struct radix_tokens tokens = {.head = &i, .n_head = 1};
        struct radix_ref ref;
        uint32_t slot;
        radix_match_pin(radix, 0, &tokens, 1, 0, &ref, &slot);
        assert_int_equal(kv_pool_take(pool, 1, 0, &slot), RADISH_OK);
        radix_append(radix, &tokens, 1, &ref, &slot);
        radix_unpin(radix, &ref);
    }
    struct radix_node_copy *all = mem_alloc(N_HUGE, sizeof *all);
    assert_non_null(all);
    memset(all, 0, N_HUGE * sizeof *all); /* the engine's thread does not meet new memory */

    uint32_t n = 0, next = 1, n_slices = 0;
    uint64_t total_ns = 0;
    while (next) {
        uint64_t begun_ns = cpu_ns();
        n += radix_copy_nodes(radix, &next, all + n, SLICE);
        uint64_t ns = cpu_ns() - begun_ns;
        total_ns += ns;
        n_slices++;
    }
    uint64_t begun_ns = cpu_ns();
    assert_int_equal(tree_snapshot_pick(all, n, radix_n_cells(radix), shown, N_RANDOM, &tree, NULL),
                     RADISH_OK);
    print_message("%u nodes: %u slices, %.3f ms each; choice %.0f ms\n", n, n_slices,
                  (double)total_ns / 1e6 / n_slices, (double)(cpu_ns() - begun_ns) / 1e6);
    assert_int_equal(n, N_HUGE);
    assert_int_equal(n_slices, (N_HUGE + SLICE - 1 + 1) / SLICE);
    assert_int_equal(tree.n_nodes, N_RANDOM);
    assert_int_equal(tree.n_tokens_total, N_HUGE);
    free(all);
    radix_destroy(radix);
    kv_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_heaviest_nodes_are_shown_with_what_is_behind_them),
        cmocka_unit_test(test_nodes_whose_parent_is_gone_or_another_are_left_out),
        cmocka_unit_test(test_an_engine_shows_its_tree_with_text_and_pins),
        cmocka_unit_test(test_an_engine_without_a_cache_says_so),
        cmocka_unit_test(test_a_slice_of_a_huge_tree_takes_less_than_a_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
