/* An emptied tree is like one just made: every slot is free, nothing is remembered, and what comes
 * next works as ever. */
#include "test.h"

#include "cache/kv_cache.h"
#include "cache_tree.h"

static void fill(struct tree *t) {
    tree_add(t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
    tree_add(t, 0, TOKENS(1, 2, 3, 4, 9, 9, 9, 9));
    tree_add(t, 7, TOKENS(1, 2, 3, 4));
}

static void test_all_slots_are_free_and_no_node_or_namespace_is_left(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 4};
    for (uint32_t p = 0; p < 2; p++) {
        for (enum radix_policy policy = 0; policy < RADIX_POLICY_COUNT; policy++) {
            struct tree t;
            struct radix_summary summary;
            tree_open(&t, 600, pages[p], policy);
            fill(&t);
            assert_true(tree_n_nodes(&t) >= 4);

            radix_reset(t.radix);

            assert_true(radix_check(t.radix) && kv_pool_check(t.pool));
            assert_int_equal(kv_pool_n_free(t.pool), kv_pool_n_usable(t.pool));
            radix_summary(t.radix, &summary);
            assert_int_equal(summary.n_nodes + summary.n_namespaces, 0);
            assert_int_equal(summary.n_tokens_evictable + summary.n_tokens_pinned, 0);
            tree_close(&t);
        }
    }
}

static void test_it_is_no_eviction(void **state) {
    (void)state;
    struct tree t;
    struct radix_summary summary;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    fill(&t);
    radix_evict(t.radix, 2);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8)), RADIX_MISS_EVICTED);
    radix_summary(t.radix, &summary);
    uint64_t n_evicted = summary.n_tokens_evicted;
    assert_int_equal(n_evicted, 2);

    radix_reset(t.radix);

    radix_summary(t.radix, &summary);
    assert_int_equal(summary.n_tokens_evicted, n_evicted);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3)), RADIX_MISS_UNSEEN);
    assert_int_equal(tree_miss(&t, 7, TOKENS(1, 2, 3)), RADIX_MISS_UNSEEN);
    tree_close(&t);
}

static void test_the_tree_goes_on_as_new(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    for (uint32_t i = 0; i < 3; i++) {
        fill(&t);
        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 9, 9)), 6);
        assert_int_equal(tree_peek(&t, 7, TOKENS(1, 2, 3, 4, 9, 9)), 4);
        radix_reset(t.radix);
        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 9, 9)), 0);
        radix_reset(t.radix); /* of an empty one */
    }
    tree_close(&t);
}

static void test_a_cache_without_a_tree_can_be_reset_too(void **state) {
    (void)state;
    struct kv_cache_options options = {
        .n_slots = 600, .page_slots = 1, .n_rows = 4, .context_tokens = 64, .is_tree_off = true};
    struct kv_cache *cache;
    assert_int_equal(kv_cache_create(&options, &cache, NULL), RADISH_OK);
    kv_cache_reset(cache);
    assert_true(kv_cache_check(cache));
    kv_cache_destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_slots_are_free_and_no_node_or_namespace_is_left),
        cmocka_unit_test(test_it_is_no_eviction),
        cmocka_unit_test(test_the_tree_goes_on_as_new),
        cmocka_unit_test(test_a_cache_without_a_tree_can_be_reset_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
