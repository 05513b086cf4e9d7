/* Copies of the tree for other threads: in parts, and with names that only their own node answers
 * to. */
#include "test.h"

#include "cache_tree.h"

#include <stdlib.h>

static struct radix_node_copy copies[64];

static const struct radix_node_copy *find(uint32_t n, uint32_t n_tokens_path, uint32_t space) {
    for (uint32_t i = 0; i < n; i++)
        if (copies[i].n_tokens_path == n_tokens_path && copies[i].namespace_id == space)
            return &copies[i];
    fail_msg("no node ends at %u in namespace %u", n_tokens_path, space);
    return NULL;
}

static void test_copies_in_parts_of_any_size_are_the_whole_tree(void **state) {
    (void)state;
    struct tree t;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_put(&t, 0, 0, TOKENS(1, 2, 3, 4, 5, 6));
    tree_add(&t, 0, TOKENS(1, 2, 3, 9));
    tree_add(&t, 0, TOKENS(1, 2, 3, 9));
    tree_add(&t, 7, TOKENS(1, 2));
    for (uint32_t part = 1; part < 9; part++) {
        uint32_t n = 0, next = 1;
        while (next) n += radix_copy_nodes(t.radix, &next, copies + n, part);

        assert_int_equal(n, 4);
        const struct radix_node_copy *top = find(n, 3, 0), *left = find(n, 6, 0),
                                     *right = find(n, 4, 0), *other = find(n, 2, 7);
        assert_int_equal(top->n_tokens, 3);
        assert_int_equal(left->n_tokens, 3);
        assert_int_equal(left->parent_id, top->key.id);
        assert_int_equal(right->parent_id, top->key.id);
        assert_int_equal(other->n_tokens, 2);
        assert_int_equal(top->n_pins, 1);
        assert_int_equal(right->n_pins, 0);
        assert_int_equal(right->n_hits, 1);
        assert_true(other->age < right->age);
    }
    tree_leave(&t, &ref);
    tree_close(&t);
}

static void test_an_empty_tree_has_no_copies(void **state) {
    (void)state;
    struct tree t;
    uint32_t next = 1;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    assert_int_equal(radix_copy_nodes(t.radix, &next, copies, 64), 0);
    assert_int_equal(next, 0);
    tree_close(&t);
}

static void test_the_tokens_of_an_edge_are_its_own_and_as_many_as_wanted(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 2; page_slots++) {
        struct tree t;
        int32_t tokens[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
        static const int32_t wanted[] = {5, 6, 7};
        uint32_t next = 1;
        tree_open(&t, 600, page_slots, RADIX_POLICY_LRU);
        tree_add(&t, 0, TOKENS(1, 2, 3, 4, 5, 6, 7, 8));
        tree_add(&t, 0, TOKENS(1, 2, 3, 4, 9, 10));
        uint32_t n = radix_copy_nodes(t.radix, &next, copies, 64);
        const struct radix_node_copy *left = find(n, 8, 0);

        assert_int_equal(radix_edge(t.radix, &left->key, tokens, 3), 3);
        assert_memory_equal(tokens, wanted, sizeof wanted);
        assert_int_equal(tokens[3], -1);
        assert_int_equal(radix_edge(t.radix, &left->key, tokens, 8), 4);
        assert_int_equal(tokens[3], 8);
        tree_close(&t);
    }
}

static void test_a_node_that_is_no_more_has_no_tokens_even_when_its_place_is_taken(void **state) {
    (void)state;
    struct tree t;
    int32_t tokens[8];
    uint32_t next = 1;
    tree_open(&t, 600, 1, RADIX_POLICY_LRU);
    tree_add(&t, 0, TOKENS(1, 2, 3));
    assert_int_equal(radix_copy_nodes(t.radix, &next, copies, 64), 1);
    struct radix_node_key key = copies[0].key;
    radix_evict(t.radix, 3);
    assert_int_equal(radix_edge(t.radix, &key, tokens, 8), 0);

    tree_add(&t, 0, TOKENS(7, 8, 9));
    next = 1;
    assert_int_equal(radix_copy_nodes(t.radix, &next, copies, 64), 1);
    assert_int_equal(copies[0].key.id, key.id); /* the place, in another's use */
    assert_int_equal(radix_edge(t.radix, &key, tokens, 8), 0);
    assert_int_equal(radix_edge(t.radix, &copies[0].key, tokens, 8), 3);
    key.id = 60000;
    assert_int_equal(radix_edge(t.radix, &key, tokens, 8), 0);
    tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_in_parts_of_any_size_are_the_whole_tree),
        cmocka_unit_test(test_an_empty_tree_has_no_copies),
        cmocka_unit_test(test_the_tokens_of_an_edge_are_its_own_and_as_many_as_wanted),
        cmocka_unit_test(test_a_node_that_is_no_more_has_no_tokens_even_when_its_place_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
