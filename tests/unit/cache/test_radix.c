/* The prefix tree by named cases: who finds what, who holds what, what goes back. Eviction order is
 * test_radix_order.c; broken trees are test_radix_check.c; chance is test_radix_fuzz.c. */
#include "test.h"

#include "cache_tree.h"

static void assert_slots_ascend_from(const struct tree *t, uint32_t from, uint32_t n) {
    for (uint32_t i = from + 1; i < n; i++) assert_int_equal(t->slots[i], t->slots[i - 1] + 1);
}

/* ---- match ---- */

static void test_what_was_computed_is_found_up_to_where_it_differs(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 2; page_slots++) {
        struct tree t;
        tree_open(&t, 600, page_slots, RADIX_POLICY_LRU);
        tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
        tree_add(&t, 0, TOKENS(1, 2, 9, 10));
        assert_int_equal(radix_n_evictable(t.radix), 10);

        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 999)), 4);
        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 777)), 6);
        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8)), 8);
        assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 9, 10, 11)), 4);
        assert_int_equal(tree_peek(&t, 0, TOKENS(2, 1)), 0);

        assert_int_equal(radix_n_evictable(t.radix), 10);
        tree_close(&t);
    }
}

static void test_a_match_in_the_middle_splits_without_changing_what_is_there(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
    uint32_t slots[8];
    memcpy(slots, t.slots, sizeof slots);
    tree_leave(&t, &ref);
    assert_int_equal(tree_n_nodes(&t), 1);

    struct radix_ref upper = tree_match(&t, 0, TOKENS(1, 2, 3, 99));

    assert_int_equal(upper.n_tokens, 3);
    assert_memory_equal(t.slots, slots, 3 * sizeof *slots);
    assert_int_equal(tree_n_nodes(&t), 2);
    assert_int_equal(radix_n_pinned(t.radix), 3);
    assert_int_equal(radix_n_evictable(t.radix), 5);
    struct radix_ref all = tree_match(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
    assert_int_equal(all.n_tokens, 8);
    assert_memory_equal(t.slots, slots, sizeof slots);
    tree_leave(&t, &upper);
    tree_leave(&t, &all);
    tree_close(&t);
}

static void test_only_whole_pages_are_found(void **state) {
    (void)state;
    static const uint32_t page_sizes[] = {1, 2, 4, 16};
    int32_t tokens[64];
    for (int32_t i = 0; i < 64; i++) tokens[i] = i;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t page_slots = page_sizes[i];
        struct tree t;
        tree_open(&t, 1024, page_slots, RADIX_POLICY_LRU);
        tree_add(&t, 0, tokens, 37);
        for (uint32_t n = 0; n <= 64; n++) {
            uint32_t n_there = n < 37 ? n : 37;
            assert_int_equal(tree_peek(&t, 0, tokens, n), n_there - n_there % page_slots);
        }
        int32_t kept = tokens[5]; /* one token makes its whole page another one */
        tokens[5] = 1000;
        assert_int_equal(tree_peek(&t, 0, tokens, 37), 5 / page_slots * page_slots);
        tokens[5] = kept;
        tree_close(&t);
    }
}

static void test_a_peek_touches_nothing(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 1, 1));
    tree_add(&t, 0, TOKENS(2, 2, 2));

    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 1, 9)), 2);

    assert_int_equal(tree_n_nodes(&t), 2);
    assert_int_equal(radix_evict(t.radix, 3), 3);
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 1, 1)), 0); /* still the older one */
    assert_int_equal(tree_peek(&t, 0, TOKENS(2, 2, 2)), 3);
    tree_close(&t);
}

static void test_tokens_may_be_cut_in_two_anywhere(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t head[N], tail[N];
    uint32_t slots[N];
    for (uint32_t page_slots = 1; page_slots <= 16; page_slots *= 4) {
        struct tree t;
        tree_open(&t, 1024, page_slots, RADIX_POLICY_LRU);
        for (uint32_t n_head = 0; n_head <= N; n_head += 7) {
            for (uint32_t i = 0; i < N; i++)
                *(i < n_head ? &head[i] : &tail[i - n_head]) = (int32_t)(i * i % 71);
            struct radix_tokens tokens = {.head = head, .n_head = n_head, .tail = tail};
            struct radix_ref ref;
            radix_match_pin(t.radix, 0, &tokens, N, 0, &ref, slots);
            uint32_t n = N / page_slots * page_slots;
            assert_int_equal(ref.n_tokens, n_head ? n : 0);
            if (!n_head) {
                assert_int_equal(kv_pool_take(t.pool, n, 0, slots), RADISH_OK);
                assert_int_equal(radix_append(t.radix, &tokens, n, &ref, slots), 0);
            }
            tree_leave(&t, &ref);
        }
        tree_close(&t);
    }
}

static void test_ten_thousand_requests_keep_their_trunk_once(void **state) {
    (void)state;
    enum { TRUNK = 2000, OWN = 10, N = 10000 };
    int32_t *tokens = calloc(TRUNK + OWN, sizeof *tokens);
    struct tree *t = malloc(sizeof *t);
    tree_open(t, TRUNK + N * OWN + 1, 1, RADIX_POLICY_LRU);
    for (int32_t i = 0; i < N; i++) {
        tokens[TRUNK] = i;
        struct radix_ref ref;
        struct radix_tokens all = {.head = tokens, .n_head = TRUNK + OWN};
        radix_match_pin(t->radix, 0, &all, TRUNK + OWN, 0, &ref, t->slots);
        assert_int_equal(ref.n_tokens, i ? TRUNK : 0);
        uint32_t n = TRUNK + OWN - ref.n_tokens;
        assert_int_equal(kv_pool_take(t->pool, n, 0, t->slots + ref.n_tokens), RADISH_OK);
        assert_int_equal(radix_append(t->radix, &all, TRUNK + OWN, &ref, t->slots), 0);
        radix_unpin(t->radix, &ref);
    }
    assert_int_equal(radix_n_evictable(t->radix), TRUNK + N * OWN);
    assert_int_equal(kv_pool_n_free(t->pool), 0);
    assert_int_equal(tree_n_nodes(t), N + 1);
    assert_true(radix_check(t->radix));
    tree_close(t);
    free(t);
    free(tokens);
}

/* ---- namespaces ---- */

static void test_namespaces_share_nothing(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref a = tree_put(&t, 1, 0, TOKENS(5, 6, 7));
    uint32_t slot = t.slots[0];
    assert_int_equal(tree_peek(&t, 1, TOKENS(5, 6, 7)), 3);

    assert_int_equal(tree_peek(&t, 0, TOKENS(5, 6, 7)), 0);
    assert_int_equal(tree_peek(&t, 2, TOKENS(5, 6, 7)), 0);
    struct radix_ref b = tree_put(&t, 2, 0, TOKENS(5, 6, 7));

    assert_int_not_equal(t.slots[0], slot);
    assert_int_equal(radix_n_pinned(t.radix), 6);
    tree_leave(&t, &a);
    tree_leave(&t, &b);
    tree_close(&t);
}

static void test_a_namespace_ends_with_its_last_token_and_ref(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    assert_false(radix_has_namespace(t.radix, 7));

    struct radix_ref ref = tree_match(&t, 7, TOKENS(1, 2));
    assert_true(radix_has_namespace(t.radix, 7));
    tree_grow(&t, &ref, TOKENS(1, 2));
    tree_leave(&t, &ref);
    assert_true(radix_has_namespace(t.radix, 7));
    radix_evict(t.radix, 600);

    assert_false(radix_has_namespace(t.radix, 7));
    /* Nothing is remembered: the number may come to stand for somebody else. */
    assert_int_equal(tree_miss(&t, 7, TOKENS(1, 2)), RADIX_MISS_UNSEEN);
    struct radix_summary summary;
    radix_summary(t.radix, &summary);
    assert_int_equal(summary.n_namespaces, 0);
    tree_close(&t);
}

static void test_a_namespace_per_page_still_finds_nodes(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 257, 1, RADIX_POLICY_LRU);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 1; i <= 256; i++) tree_add(&t, i, TOKENS(1));
        assert_int_equal(kv_pool_n_free(t.pool), 0);
        struct radix_ref refs[16];
        for (uint32_t i = 0; i < 16; i++) refs[i] = tree_match(&t, 1000 + i, TOKENS(1));
        for (uint32_t i = 0; i < 16; i++) tree_leave(&t, &refs[i]);
        assert_int_equal(radix_evict(t.radix, 256), 256);
    }
    tree_close(&t);
}

/* ---- pins ---- */

static void test_a_split_copies_pins(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref a = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 5, 6));
    struct radix_ref b = tree_match(&t, 0, TOKENS(1, 2, 3, 4, 5, 6));
    struct radix_ref c = tree_match(&t, 0, TOKENS(1, 2, 3));
    struct radix_ref d = tree_match(&t, 0, TOKENS(1, 9));
    assert_int_equal(tree_n_nodes(&t), 3);
    assert_int_equal(radix_n_pinned(t.radix), 6);

    tree_leave(&t, &a);
    assert_int_equal(radix_n_pinned(t.radix), 6);
    tree_leave(&t, &b);
    assert_int_equal(radix_n_pinned(t.radix), 3);
    tree_leave(&t, &c);
    assert_int_equal(radix_n_pinned(t.radix), 1);
    tree_leave(&t, &d);

    assert_int_equal(radix_n_pinned(t.radix), 0);
    assert_int_equal(radix_n_evictable(t.radix), 6);
    tree_close(&t);
}

static void test_refs_live_through_splits_and_evictions(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 5, 6));
    uint32_t slots[8];
    memcpy(slots, t.slots, sizeof slots);
    tree_add(&t, 0, TOKENS(1, 2, 3, 9, 9));
    tree_add(&t, 0, TOKENS(1, 8, 8));
    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 7));

    assert_int_equal(radix_evict(t.radix, 600), 6);

    assert_true(radix_check(t.radix));
    assert_int_equal(radix_n_pinned(t.radix), 6);
    for (uint32_t i = 0; i < 6; i++) assert_false(kv_pool_is_free(t.pool, slots[i]));
    tree_grow(&t, &ref, TOKENS(1, 2, 3, 4, 5, 6, 10));
    struct radix_ref again = tree_match(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 10, 11));
    assert_int_equal(again.n_tokens, 7);
    assert_memory_equal(t.slots, slots, 6 * sizeof *slots);
    tree_leave(&t, &again);
    tree_leave(&t, &ref);
    tree_close(&t);
}

/* ---- append ---- */

static void test_a_running_leaf_grows_in_place(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    int32_t tokens[200];
    for (int32_t i = 0; i < 200; i++) tokens[i] = i;
    struct radix_ref ref = tree_put(&t, 0, 0, tokens, 10);

    for (uint32_t n = 11; n <= 200; n++) {
        tree_grow(&t, &ref, tokens, n);
        assert_int_equal(tree_peek(&t, 0, tokens, 200), n); /* at once, while it runs */
    }

    assert_int_equal(tree_n_nodes(&t), 1);
    assert_slots_ascend_from(&t, 0, 200);
    tree_leave(&t, &ref);
    tree_close(&t);
}

static void test_a_running_leaf_grows_on_after_others_split_it(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4));
    struct radix_ref other = tree_match(&t, 0, TOKENS(1, 2, 7));
    assert_int_equal(tree_n_nodes(&t), 2);

    tree_grow(&t, &ref, TOKENS(1, 2, 3, 4, 5));
    tree_grow(&t, &other, TOKENS(1, 2, 7));
    struct radix_ref third = tree_match(&t, 0, TOKENS(1, 2, 3, 8));
    tree_grow(&t, &ref, TOKENS(1, 2, 3, 4, 5, 6));

    assert_int_equal(tree_n_nodes(&t), 4); /* 1 2, 3, 4 5 6, 7 */
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 5, 6)), 6);
    assert_int_equal(radix_n_pinned(t.radix), 7);
    tree_leave(&t, &ref);
    tree_leave(&t, &other);
    tree_leave(&t, &third);
    tree_close(&t);
}

static void test_a_leaf_that_others_pin_gets_children(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref a = tree_put(&t, 0, 0, TOKENS(1, 2, 3));
    struct radix_ref b = tree_match(&t, 0, TOKENS(1, 2, 3));

    tree_grow(&t, &a, TOKENS(1, 2, 3, 4));
    tree_grow(&t, &b, TOKENS(1, 2, 3, 5));

    assert_int_equal(tree_n_nodes(&t), 3);
    assert_int_equal(b.n_tokens, 4);
    tree_leave(&t, &a);
    assert_int_equal(radix_n_pinned(t.radix), 4);
    tree_leave(&t, &b);
    tree_close(&t);
}

static void test_a_leaf_that_was_hit_gets_a_child_so_that_hits_stay_real(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LFU);
    tree_add(&t, 0, TOKENS(1, 2, 3));
    struct radix_ref ref = tree_match(&t, 0, TOKENS(1, 2, 3, 4));

    tree_grow(&t, &ref, TOKENS(1, 2, 3, 4));
    tree_grow(&t, &ref, TOKENS(1, 2, 3, 4, 5));

    assert_int_equal(tree_n_nodes(&t), 2);
    tree_leave(&t, &ref);
    tree_close(&t);
}

static void test_duplicates_go_back_and_cells_name_the_trees_slots(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref a = tree_match(&t, 0, TOKENS(1, 2, 3, 4));
    struct radix_ref b = tree_match(&t, 0, TOKENS(1, 2, 3, 5)); /* both were cold */
    tree_grow(&t, &a, TOKENS(1, 2, 3, 4));
    uint32_t slots[3];
    memcpy(slots, t.slots, sizeof slots);
    uint32_t n_free = kv_pool_n_free(t.pool);

    uint32_t n_duplicates = tree_grow(&t, &b, TOKENS(1, 2, 3, 5));

    assert_int_equal(n_duplicates, 3);
    assert_int_equal(kv_pool_n_free(t.pool), n_free - 1);
    assert_memory_equal(t.slots, slots, sizeof slots);
    struct radix_summary summary;
    radix_summary(t.radix, &summary);
    assert_int_equal(summary.n_duplicates, 3);
    tree_leave(&t, &a);
    tree_leave(&t, &b);
    tree_close(&t);
}

static void test_sequences_share_a_growing_leaf(void **state) {
    (void)state;
    enum { N = 120 };
    int32_t tokens[N];
    for (int32_t i = 0; i < N; i++) tokens[i] = 7 * i;
    struct radix_tokens all = {.head = tokens, .n_head = N};
    for (uint32_t page_slots = 1; page_slots <= 4; page_slots *= 2) {
        struct tree t;
        tree_open(&t, 1000, page_slots, RADIX_POLICY_LRU);
        uint32_t slots[2][N];
        struct radix_ref leader = tree_match(&t, 0, tokens, N), followers[2];
        for (uint32_t i = 0; i < 2; i++)
            radix_match_pin(t.radix, 0, &all, N, 0, &followers[i], slots[i]);

        for (uint32_t n = page_slots; n <= N; n += page_slots) {
            tree_grow(&t, &leader, tokens, n);
            for (uint32_t i = 0; i < 2; i++) {
                if (n % (3 + i)) continue;
                radix_match_more(t.radix, &all, N, &followers[i], slots[i]);
                assert_int_equal(followers[i].n_tokens, n);
                assert_memory_equal(slots[i], t.slots, n * sizeof **slots);
                assert_true(radix_check(t.radix));
            }
        }

        assert_int_equal(radix_n_pinned(t.radix), N);
        tree_leave(&t, &leader);
        assert_int_equal(radix_n_pinned(t.radix), N);
        for (uint32_t i = 0; i < 2; i++) tree_leave(&t, &followers[i]);
        tree_close(&t);
    }
}

static void test_following_to_nothing_new_changes_nothing(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3));
    struct radix_ref before = ref;
    struct radix_tokens all = {.head = (const int32_t[]){1, 2, 3, 4}, .n_head = 4};

    radix_match_more(t.radix, &all, 4, &ref, t.slots);
    radix_match_more(t.radix, &all, 2, &ref, t.slots);

    assert_memory_equal(&ref, &before, sizeof ref);
    tree_leave(&t, &ref);
    tree_close(&t);
}

/* ---- eviction ---- */

static void test_a_leaf_gives_up_only_its_end(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 4; page_slots *= 2) {
        struct tree t;
        tree_open(&t, 600, page_slots, RADIX_POLICY_LRU);
        int32_t tokens[40];
        for (int32_t i = 0; i < 40; i++) tokens[i] = i;
        tree_add(&t, 0, tokens, 40);

        uint32_t n = radix_evict(t.radix, 5);

        assert_int_equal(n, (5 + page_slots - 1) / page_slots * page_slots);
        assert_true(radix_check(t.radix));
        assert_int_equal(tree_peek(&t, 0, tokens, 40), 40 - n);
        assert_int_equal(radix_evict(t.radix, 1000), 40 - n);
        assert_int_equal(radix_evict(t.radix, 1), 0);
        tree_close(&t);
    }
}

static void test_a_trimmed_leaf_grows_again(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5, 6));
    radix_evict(t.radix, 2);

    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 7));

    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 7)), 5);
    assert_int_equal(tree_peek(&t, 0, TOKENS(1, 2, 3, 4, 5, 6)), 4);
    tree_leave(&t, &ref);
    tree_close(&t);
}

static void test_a_miss_tells_evicted_from_never_seen(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5, 6));
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 5, 6)), RADIX_MISS_NONE);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 9)), RADIX_MISS_UNSEEN);

    radix_evict(t.radix, 2); /* a tail: 5 6 */
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 5, 6)), RADIX_MISS_EVICTED);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 9)), RADIX_MISS_UNSEEN);
    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5)); /* computed again, and gone again with its node */
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 5)), RADIX_MISS_NONE);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 5, 6)), RADIX_MISS_UNSEEN);

    radix_evict(t.radix, 600); /* all of it: the first namespace's root remembers */
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2)), RADIX_MISS_EVICTED);
    assert_int_equal(tree_miss(&t, 0, TOKENS(2, 1)), RADIX_MISS_UNSEEN);
    tree_add(&t, 0, TOKENS(1));
    assert_int_equal(tree_miss(&t, 0, TOKENS(1)), RADIX_MISS_NONE);
    tree_close(&t);
}

static void test_a_node_remembers_the_last_four_that_went(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref trunk = tree_put(&t, 0, 0, TOKENS(1));
    for (int32_t i = 10; i < 16; i++) tree_add(&t, 0, TOKENS(1, i));
    radix_evict(t.radix, 600);

    for (int32_t i = 10; i < 16; i++)
        assert_int_equal(tree_miss(&t, 0, TOKENS(1, i)),
                         i < 12 ? RADIX_MISS_UNSEEN : RADIX_MISS_EVICTED);
    tree_leave(&t, &trunk);
    tree_close(&t);
}

static void test_a_node_remembers_each_that_went_once(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref trunk = tree_put(&t, 0, 0, TOKENS(1));
    for (int32_t i = 0; i < 6; i++) {
        tree_add(&t, 0, TOKENS(1, i ? 10 : 11));
        radix_evict(t.radix, 1);
    }

    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 10)), RADIX_MISS_EVICTED);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 11)), RADIX_MISS_EVICTED);
    tree_leave(&t, &trunk);
    tree_close(&t);
}

static void test_what_went_is_remembered_where_it_was(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4));
    tree_add(&t, 0, TOKENS(1, 2, 3, 4, 9));
    radix_evict(t.radix, 1);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 9)), RADIX_MISS_EVICTED);

    struct radix_ref other = tree_match(&t, 0, TOKENS(1, 2)); /* a split */
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 9)), RADIX_MISS_UNSEEN);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 3, 4, 9)), RADIX_MISS_EVICTED);
    tree_leave(&t, &other);
    tree_leave(&t, &ref);
    tree_close(&t);
}

static void test_a_leaf_that_grows_forgets_what_went_at_its_old_end(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2));
    struct radix_ref twin = tree_match(&t, 0, TOKENS(3));
    tree_grow(&t, &twin, TOKENS(1, 2, 9)); /* duplicates, so no hit */
    tree_leave(&t, &twin);
    radix_evict(t.radix, 1);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 9)), RADIX_MISS_EVICTED);

    tree_grow(&t, &ref, TOKENS(1, 2, 5));

    assert_int_equal(tree_n_nodes(&t), 1);
    assert_int_equal(tree_miss(&t, 0, TOKENS(1, 2, 5, 9)), RADIX_MISS_UNSEEN);
    tree_leave(&t, &ref);
    tree_close(&t);
}

/* ---- reports ---- */

struct seen {
    uint32_t n, n_tokens, n_hits, n_pins;
    uint32_t deepest, n_deepest;
};

static bool see(void *user, uint32_t node, const struct radix_node_info *info) {
    struct seen *seen = user;
    assert_int_equal(info->namespace_id, 3);
    seen->n++;
    seen->n_tokens += info->n_tokens;
    seen->n_hits += (uint32_t)info->n_hits;
    seen->n_pins += info->n_pins;
    if (info->n_tokens_path > seen->n_deepest) {
        seen->n_deepest = info->n_tokens_path;
        seen->deepest = node;
    }
    return true;
}

static bool stop_at_once(void *user, uint32_t node, const struct radix_node_info *info) {
    (void)node;
    (void)info;
    (*(uint32_t *)user)++;
    return false;
}

static void test_reports_tell_what_is_there(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 3, TOKENS(1, 2, 3, 4));
    struct radix_ref ref = tree_put(&t, 3, 0, TOKENS(1, 2, 5, 6, 7));

    struct seen seen = {0};
    radix_visit(t.radix, see, &seen);
    assert_int_equal(seen.n, 3);
    assert_int_equal(seen.n_tokens, 7);
    assert_int_equal(seen.n_hits, 1);
    assert_int_equal(seen.n_pins, 2);
    assert_int_equal(seen.n_deepest, 5);
    uint32_t n_visits = 0;
    radix_visit(t.radix, stop_at_once, &n_visits);
    assert_int_equal(n_visits, 1);

    int32_t path[8] = {0};
    assert_int_equal(radix_path(t.radix, seen.deepest, path, 8), 5);
    assert_memory_equal(path, ((int32_t[]){1, 2, 5, 6, 7, 0, 0, 0}), sizeof path);
    memset(path, 0, sizeof path);
    assert_int_equal(radix_path(t.radix, seen.deepest, path, 3), 3);
    assert_memory_equal(path, ((int32_t[]){1, 2, 5, 0, 0, 0, 0, 0}), sizeof path);
    assert_int_equal(radix_path(t.radix, seen.deepest, path, 0), 0);

    struct radix_summary summary;
    radix_summary(t.radix, &summary);
    assert_int_equal(summary.n_nodes, 3);
    assert_int_equal(summary.n_namespaces, 1);
    assert_int_equal(summary.n_tokens_pinned, 5);
    assert_int_equal(summary.n_tokens_evictable, 2);
    assert_int_equal(summary.n_matches, 2);
    assert_int_equal(summary.n_tokens_asked, 9);
    assert_int_equal(summary.n_tokens_matched, 2);
    assert_int_equal(summary.n_splits, 1);
    tree_leave(&t, &ref);
    radix_evict(t.radix, 4);
    radix_summary(t.radix, &summary);
    assert_int_equal(summary.n_tokens_evicted, 4);
    assert_int_equal(summary.n_leaves_evicted, 1);
    tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_computed_is_found_up_to_where_it_differs),
        cmocka_unit_test(test_a_match_in_the_middle_splits_without_changing_what_is_there),
        cmocka_unit_test(test_only_whole_pages_are_found),
        cmocka_unit_test(test_a_peek_touches_nothing),
        cmocka_unit_test(test_tokens_may_be_cut_in_two_anywhere),
        cmocka_unit_test(test_ten_thousand_requests_keep_their_trunk_once),
        cmocka_unit_test(test_namespaces_share_nothing),
        cmocka_unit_test(test_a_namespace_ends_with_its_last_token_and_ref),
        cmocka_unit_test(test_a_namespace_per_page_still_finds_nodes),
        cmocka_unit_test(test_a_split_copies_pins),
        cmocka_unit_test(test_refs_live_through_splits_and_evictions),
        cmocka_unit_test(test_a_running_leaf_grows_in_place),
        cmocka_unit_test(test_a_running_leaf_grows_on_after_others_split_it),
        cmocka_unit_test(test_a_leaf_that_others_pin_gets_children),
        cmocka_unit_test(test_a_leaf_that_was_hit_gets_a_child_so_that_hits_stay_real),
        cmocka_unit_test(test_duplicates_go_back_and_cells_name_the_trees_slots),
        cmocka_unit_test(test_sequences_share_a_growing_leaf),
        cmocka_unit_test(test_following_to_nothing_new_changes_nothing),
        cmocka_unit_test(test_a_leaf_gives_up_only_its_end),
        cmocka_unit_test(test_a_trimmed_leaf_grows_again),
        cmocka_unit_test(test_a_miss_tells_evicted_from_never_seen),
        cmocka_unit_test(test_a_node_remembers_the_last_four_that_went),
        cmocka_unit_test(test_a_node_remembers_each_that_went_once),
        cmocka_unit_test(test_what_went_is_remembered_where_it_was),
        cmocka_unit_test(test_a_leaf_that_grows_forgets_what_went_at_its_old_end),
        cmocka_unit_test(test_reports_tell_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
