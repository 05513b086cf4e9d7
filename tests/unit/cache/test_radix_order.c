/* Who is evicted first, per policy, by small cases that say what the policy is for. The same
 * against a slow model, for millions of random operations, is test_radix_fuzz.c. */
#include "test.h"

#include "cache_tree.h"

/* One token a leaf: evicts them one by one and tells the order as a number, 312 = 3, 1, 2. */
static uint32_t order_of_leaves(struct tree *t, uint32_t n_leaves) {
    uint32_t order = 0;
    for (uint32_t round = 0; round < n_leaves; round++) {
        bool was_there[10];
        for (int32_t i = 1; i < 10; i++) was_there[i] = tree_peek(t, 0, &i, 1);
        assert_int_equal(radix_evict(t->radix, 1), 1);
        assert_true(radix_check(t->radix));
        for (int32_t i = 1; i < 10; i++)
            if (was_there[i] && !tree_peek(t, 0, &i, 1)) order = order * 10 + (uint32_t)i;
    }
    return order;
}

static void use(struct tree *t, int32_t token, int32_t priority) {
    struct radix_ref ref = tree_put(t, 0, priority, &token, 1);
    tree_leave(t, &ref);
}

static void test_each_policy_has_its_own_order(void **state) {
    (void)state;
    static const uint32_t expected[RADIX_POLICY_COUNT] = {
        [RADIX_POLICY_LRU] = 23145,      [RADIX_POLICY_LFU] = 34251,  [RADIX_POLICY_FIFO] = 12345,
        [RADIX_POLICY_MRU] = 54132,      [RADIX_POLICY_FILO] = 54321, [RADIX_POLICY_SLRU] = 23451,
        [RADIX_POLICY_PRIORITY] = 23514,
    };
    for (int policy = 0; policy < RADIX_POLICY_COUNT; policy++) {
        struct tree t;
        tree_open(&t, 600, 1, (enum radix_policy)policy);
        /* Uses after the first are hits: 1 has three, 2 and 5 one, 3 and 4 none. */
        use(&t, 1, 2);
        use(&t, 1, 0);
        use(&t, 1, 0);
        use(&t, 2, 0);
        use(&t, 2, 0);
        use(&t, 3, 0);
        use(&t, 1, 0);
        use(&t, 4, 9);
        use(&t, 5, 0);
        use(&t, 5, 0);
        assert_int_equal(order_of_leaves(&t, 5), expected[policy]);
        tree_close(&t);
    }
}

static void test_lfu_counts_hits_and_is_not_lru(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LFU);
    tree_add(&t, 0, TOKENS(1, 1, 1));
    struct radix_ref ref = tree_match(&t, 0, TOKENS(1, 1, 1));
    tree_leave(&t, &ref);
    tree_add(&t, 0, TOKENS(2, 2, 2)); /* used later, never hit */

    radix_evict(t.radix, 3);

    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 1, 1)), 3);
    assert_int_equal(tree_peek(&t, 0, TOKENS(2, 2, 2)), 0);
    tree_close(&t);
}

static void test_a_partial_hit_makes_its_part_newest_and_leaves_the_rest_old(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 2, 3, 4));
    tree_add(&t, 0, TOKENS(5, 6, 7, 8));
    struct radix_ref ref = tree_match(&t, 0, TOKENS(1, 2, 9));
    tree_leave(&t, &ref);

    radix_evict(t.radix, 2);
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4)), 2);
    assert_int_equal(tree_peek(&t, 0, TOKENS(5, 6, 7, 8)), 4);
    radix_evict(t.radix, 4);

    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4)), 2);
    assert_int_equal(tree_peek(&t, 0, TOKENS(5, 6, 7, 8)), 0);
    tree_close(&t);
}

static void test_leaving_counts_as_use(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1));
    tree_add(&t, 0, TOKENS(2));
    tree_leave(&t, &ref); /* began first, ended last */

    assert_int_equal(order_of_leaves(&t, 2), 21);
    tree_close(&t);
}

static void test_a_shared_prefix_outlives_its_leaves_under_every_policy(void **state) {
    (void)state;
    enum { TRUNK = 20, CHATS = 9, OWN = 25 };
    for (int policy = 0; policy < RADIX_POLICY_COUNT; policy++) {
        struct tree t;
        tree_open(&t, 600, 1, (enum radix_policy)policy);
        int32_t tokens[TRUNK + OWN];
        for (int32_t chat = 0; chat < CHATS; chat++) {
            for (int32_t i = 0; i < TRUNK + OWN; i++) tokens[i] = i < TRUNK ? i : 1000 * chat + i;
            tree_add(&t, 0, tokens, TRUNK + OWN);
        }

        for (uint32_t n = 0; n < CHATS * OWN; n++) {
            assert_int_equal(tree_peek(&t, 0, tokens, TRUNK), TRUNK);
            assert_int_equal(radix_evict(t.radix, 1), 1);
        }

        assert_int_equal(tree_peek(&t, 0, tokens, TRUNK + OWN), TRUNK);
        radix_evict(t.radix, 1);
        assert_int_equal(tree_peek(&t, 0, tokens, TRUNK), TRUNK - 1);
        assert_true(radix_check(t.radix));
        tree_close(&t);
    }
}

static void test_what_all_use_survives_a_flood_of_others(void **state) {
    (void)state;
    enum { TRUNK = 50 };
    int32_t tokens[TRUNK + 10];
    struct tree t;
    tree_open(&t, 257, 1, RADIX_POLICY_LRU);
    for (int32_t i = 0; i < 500; i++) {
        bool is_flood = i % 3 != 0;
        for (int32_t j = 0; j < TRUNK + 10; j++)
            tokens[j] = is_flood || j >= TRUNK ? 1000 + 100 * i + j : j;
        struct radix_ref ref = tree_match(&t, 0, tokens, TRUNK + 10);
        if (i && !is_flood) assert_int_equal(ref.n_tokens, TRUNK);
        uint32_t n_more = TRUNK + 10 - ref.n_tokens, n_free = kv_pool_n_free(t.pool);
        if (n_more > n_free)
            assert_int_equal(radix_evict(t.radix, n_more - n_free), n_more - n_free);
        tree_grow(&t, &ref, tokens, TRUNK + 10);
        tree_leave(&t, &ref);
    }
    tree_close(&t);
}

static void test_priority_is_the_highest_of_all_that_used_the_way(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_PRIORITY);
    struct radix_ref ref = tree_put(&t, 0, 5, TOKENS(1, 2, 3));
    tree_leave(&t, &ref);
    ref = tree_put(&t, 0, 1, TOKENS(1, 2, 4));
    tree_leave(&t, &ref);
    tree_add(&t, 0, TOKENS(7));

    assert_int_equal(radix_evict(t.radix, 1), 1);
    assert_int_equal(tree_peek(&t, 0, TOKENS(7)), 0);
    assert_int_equal(radix_evict(t.radix, 1), 1);
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 4)), 2);
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3)), 3);
    tree_close(&t);
}

static void test_slru_keeps_what_was_hit_twice(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_SLRU);
    for (int i = 0; i < 3; i++) use(&t, 1, 0);
    for (int i = 0; i < 2; i++) use(&t, 2, 0);
    use(&t, 3, 0);

    assert_int_equal(order_of_leaves(&t, 3), 231);
    tree_close(&t);
}

static void test_what_is_pinned_never_goes(void **state) {
    (void)state;
    for (int policy = 0; policy < RADIX_POLICY_COUNT; policy++) {
        struct tree t;
        tree_open(&t, 600, 1, (enum radix_policy)policy);
        tree_add(&t, 0, TOKENS(1, 2, 3, 4));
        struct radix_ref ref = tree_match(&t, 0, TOKENS(1, 2));
        tree_add(&t, 0, TOKENS(5, 6));

        assert_int_equal(radix_evict(t.radix, 600), 4);

        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4)), 2);
        assert_int_equal(radix_evict(t.radix, 1), 0);
        tree_leave(&t, &ref);
        assert_int_equal(radix_evict(t.radix, 600), 2);
        tree_close(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_policy_has_its_own_order),
        cmocka_unit_test(test_lfu_counts_hits_and_is_not_lru),
        cmocka_unit_test(test_a_partial_hit_makes_its_part_newest_and_leaves_the_rest_old),
        cmocka_unit_test(test_leaving_counts_as_use),
        cmocka_unit_test(test_a_shared_prefix_outlives_its_leaves_under_every_policy),
        cmocka_unit_test(test_what_all_use_survives_a_flood_of_others),
        cmocka_unit_test(test_priority_is_the_highest_of_all_that_used_the_way),
        cmocka_unit_test(test_slru_keeps_what_was_hit_twice),
        cmocka_unit_test(test_what_is_pinned_never_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
