/* The trie against a plain list of strings, and running out of memory while it is built. */
#include "alloc_fail.h"
#include "test.h"

#include "base/rng.h"
#include "text/trie.h"

enum { KEYS = 300, KEY_BYTES = 12 };

struct list {
    char text[KEYS][KEY_BYTES];
    size_t len[KEYS];
    size_t n;
};

static uint64_t seed = 20261129, rolled;

static size_t roll(size_t n) {
    return (size_t)(rng_u64(seed, rolled++) % n);
}

/* Few different bytes, so that strings share prefixes; now and then any. */
static size_t fill(char *out, size_t n_max) {
    size_t n = roll(n_max + 1);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(roll(5) ? "ab\xE2\x96\xFF"[roll(5)] : (int)roll(256));
    return n;
}

static int32_t list_find(const struct list *l, const char *s, size_t len) {
    for (size_t i = l->n; len && i-- > 0;)
        if (l->len[i] == len && memcmp(l->text[i], s, len) == 0) return (int32_t)i;
    return -1;
}

static size_t list_longest(const struct list *l, const char *s, size_t len, int32_t *value_out) {
    for (size_t n = len; n; n--)
        if ((*value_out = list_find(l, s, n)) >= 0) return n;
    *value_out = -1;
    return 0;
}

static bool make(const struct list *l, struct trie *trie) {
    static struct trie_key keys[KEYS];
    for (size_t i = 0; i < l->n; i++)
        keys[i] = (struct trie_key){l->text[i], l->len[i], (int32_t)i, 0};
    return trie_init(trie, keys, l->n);
}

static void test_a_trie_finds_what_a_list_finds(void **state) {
    static struct list l;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 200; round++) {
        struct trie trie;
        char text[32];
        int32_t value, wanted;
        l.n = roll(KEYS + 1);
        for (size_t i = 0; i < l.n; i++) l.len[i] = fill(l.text[i], KEY_BYTES);
        assert_true(make(&l, &trie));

        for (size_t i = 0; i < l.n; i++)
            assert_int_equal(trie_find(&trie, l.text[i], l.len[i]),
                             list_find(&l, l.text[i], l.len[i]));
        for (int i = 0; i < 200; i++) {
            size_t len = fill(text, sizeof text);
            assert_int_equal(trie_find(&trie, text, len), list_find(&l, text, len));
            assert_int_equal(trie_longest(&trie, text, len, &value),
                             list_longest(&l, text, len, &wanted));
            assert_int_equal(value, wanted);
        }
        trie_deinit(&trie);
    }
}

static void test_of_equal_strings_the_last_counts_and_empty_ones_are_left_out(void **state) {
    struct trie_key keys[] = {{"ab", 2, 1, 0}, {"", 0, 2, 0}, {"ab", 2, 3, 0}, {"a", 1, 4, 0}};
    struct trie trie;
    int32_t value;
    (void)state;
    assert_true(trie_init(&trie, keys, 4));
    assert_int_equal(trie_find(&trie, "ab", 2), 3);
    assert_int_equal(trie_find(&trie, "", 0), -1);
    assert_int_equal(trie_longest(&trie, "ax", 2, &value), 1);
    assert_int_equal(value, 4);
    assert_int_equal(trie_longest(&trie, "", 0, &value), 0);
    trie_deinit(&trie);
}

/* As many nodes as the strings have different starts, and little more: with holes, or an array that
 * grows for every node, a real vocabulary would take seconds and gigabytes. */
static void test_a_large_trie_is_dense(void **state) {
    enum { MANY = 60000, LEN = 6 };
    struct trie_key *keys = malloc(MANY * sizeof *keys);
    char *text = malloc(MANY * LEN);
    struct trie trie;
    size_t n_used = 0;
    (void)state;
    assert_true(keys && text);
    for (size_t i = 0; i < MANY; i++) {
        for (size_t k = 0; k < LEN; k++)
            text[i * LEN + k] = (char)(k < 3 ? 'a' + roll(26) : roll(256));
        keys[i] = (struct trie_key){text + i * LEN, 1 + roll(LEN), (int32_t)i, 0};
    }

    assert_true(trie_init(&trie, keys, MANY));

    for (size_t i = 1; i < trie.n_nodes; i++) n_used += trie.nodes[i].parent != UINT32_MAX;
    assert_true(n_used > MANY);
    assert_true(trie.n_nodes < n_used + n_used / 10 + 1000);
    for (size_t i = 0; i < MANY; i++) assert_true(trie_find(&trie, keys[i].data, keys[i].len) >= 0);
    trie_deinit(&trie);
    free(keys);
    free(text);
}

static bool attempt(void *user) {
    struct trie trie;
    bool ok = make(user, &trie);
    trie_deinit(&trie);
    return ok;
}

static void test_running_out_of_memory_leaks_nothing(void **state) {
    static struct list l;
    (void)state;
    if (!alloc_fail_can()) skip();
    l.n = KEYS;
    for (size_t i = 0; i < l.n; i++) l.len[i] = fill(l.text[i], KEY_BYTES);
    assert_true(alloc_fail_each(attempt, &l) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trie_finds_what_a_list_finds),
        cmocka_unit_test(test_of_equal_strings_the_last_counts_and_empty_ones_are_left_out),
        cmocka_unit_test(test_a_large_trie_is_dense),
        cmocka_unit_test(test_running_out_of_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
