/* test_byte_tree.c - the tree against the list of all texts that were added. */
#include "base/rng.h"
#include "byte_tree.h"
#include "test.h"

static size_t add(struct byte_tree *tree, const char *text) {
    size_t n_shared;
    assert_int_equal(byte_tree_add(tree, text, strlen(text), &n_shared), RADISH_OK);
    return n_shared;
}

static void test_byte_tree_finds_the_longest_begin_that_was_added(void **state) {
    (void)state;
    struct byte_tree *tree = byte_tree_create();

    assert_int_equal(add(tree, "the cat"), 0);
    assert_int_equal(add(tree, "the dog"), 4);
    assert_int_equal(add(tree, "the cow"), 5);
    assert_int_equal(add(tree, "the cat"), 7);
    assert_int_equal(add(tree, "the"), 3);
    assert_int_equal(add(tree, "the cats"), 7);
    assert_int_equal(add(tree, ""), 0);
    assert_int_equal(add(tree, "a"), 0);

    byte_tree_destroy(tree);
}

/* Texts over two letters share much; each is compared with all before it. */
static void test_byte_tree_agrees_with_a_list_of_texts(void **state) {
    (void)state;
    enum { N = 600, LEN = 24 };
    static char texts[N][LEN];
    const uint64_t seed = rng_seed_from_system();
    struct byte_tree *tree = byte_tree_create();
    print_message("seed %llu\n", (unsigned long long)seed);

    for (size_t i = 0; i < N; i++) {
        size_t len = rng_u64(seed, i) % LEN, longest = 0;
        for (size_t k = 0; k < len; k++)
            texts[i][k] = rng_u64(seed + 1, i * LEN + k) % 8 ? 'a' : 'b';
        for (size_t j = 0; j < i; j++) {
            size_t n = 0;
            while (n < len && texts[j][n] == texts[i][n]) n++;
            if (n > longest) longest = n;
        }

        assert_int_equal(add(tree, texts[i]), longest);
    }
    byte_tree_destroy(tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_tree_finds_the_longest_begin_that_was_added),
        cmocka_unit_test(test_byte_tree_agrees_with_a_list_of_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
