/* WordPiece against its rule, longest first, and WordLevel; and what both refuse. */
#include "test.h"
#include "text_spec.h"

#include "base/rng.h"
#include "text/wordlevel.h"
#include "text/wordpiece.h"

enum { UNK = 0 };

static const char *const words[] = {"[UNK]", "un",    "aff",     "able", "##aff", "##able",
                                    "##a",   "a",     "\u00E9t", "b",    "##b",   "##\u00E9",
                                    "aa",    "##aaa", "\u4E2D",  "##ab", "x y"};
enum { N_WORDS = sizeof words / sizeof *words };

static struct token_model *make(const struct token_model_ops *ops, uint32_t n_chars_max) {
    struct spec_token tokens[N_WORDS] = {0};
    struct radish_error err = {0};
    struct token_model *model;
    for (int32_t i = 0; i < N_WORDS; i++)
        tokens[i] = (struct spec_token){.content = spec_str(words[i]), .id = i};
    const struct tokenizer_spec spec = {.tokens = tokens,
                                        .n_tokens = N_WORDS,
                                        .unk = spec_str("[UNK]"),
                                        .prefix = spec_str("##"),
                                        .n_word_chars_max = n_chars_max};
    if (ops->create(&spec, false, &model, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return model;
}

static void expect_ids(const struct token_model_ops *ops, const struct token_model *model,
                       const char *text, const int32_t *ids, size_t n) {
    struct token_scratch scratch = {0};
    struct id_list list = {0};
    assert_true(ops->encode(model, text, strlen(text), &scratch, &list));
    assert_int_equal(list.n, n);
    if (n) assert_memory_equal(list.ids, ids, n * sizeof *ids);
    free(list.ids);
    free(scratch.memory);
}

#define EXPECT(ops, model, text, ...)                                                              \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(ops, model, text, ids_, sizeof ids_ / sizeof *ids_);                            \
    } while (0)

static void test_wordpiece_takes_the_longest_token_first(void **state) {
    (void)state;
    struct token_model *model = make(&wordpiece_ops, 100);

    EXPECT(&wordpiece_ops, model, "unaffable", 1, 4, 5);
    EXPECT(&wordpiece_ops, model, "aaaaab", 12, 13, 10);
    EXPECT(&wordpiece_ops, model, "aab", 12, 10);
    EXPECT(&wordpiece_ops, model, "x y", 16);

    wordpiece_ops.destroy(model);
}

static void test_wordpiece_gives_a_word_up_as_a_whole(void **state) {
    (void)state;
    struct token_model *model = make(&wordpiece_ops, 100);

    EXPECT(&wordpiece_ops, model, "unaffableX", UNK);
    EXPECT(&wordpiece_ops, model, "able", 3);
    EXPECT(&wordpiece_ops, model, "##able", 5); /* a token is a token */
    EXPECT(&wordpiece_ops, model, "##b#", UNK);
    expect_ids(&wordpiece_ops, model, "", NULL, 0);

    wordpiece_ops.destroy(model);
}

static void test_wordpiece_counts_characters_not_bytes(void **state) {
    (void)state;
    struct token_model *model = make(&wordpiece_ops, 3);

    EXPECT(&wordpiece_ops, model, "\u00E9t\u00E9", 8, 11);
    EXPECT(&wordpiece_ops, model, "aaaa", UNK);

    wordpiece_ops.destroy(model);
    model = make(&wordpiece_ops, 0);
    EXPECT(&wordpiece_ops, model, "a", UNK);
    wordpiece_ops.destroy(model);
}

static int32_t find(const char *prefix, const char *s, size_t len) {
    for (int32_t i = 0; i < N_WORDS; i++)
        if (strlen(words[i]) == strlen(prefix) + len &&
            memcmp(words[i], prefix, strlen(prefix)) == 0 &&
            memcmp(words[i] + strlen(prefix), s, len) == 0)
            return i;
    return -1;
}

static void test_wordpiece_agrees_with_the_rule_on_random_words(void **state) {
    static const char letters[] = "aabfle";
    uint64_t seed = 4, at = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    struct token_model *model = make(&wordpiece_ops, 100);
    for (int round = 0; round < 5000; round++) {
        char text[16];
        int32_t ids[16];
        size_t len = 1 + rng_u64(seed, at++) % 15, n = 0, start = 0;
        for (size_t i = 0; i < len; i++) text[i] = letters[rng_u64(seed, at++) % 6];
        text[len] = '\0';
        while (start < len) {
            size_t end = len;
            while (end > start && find(start ? "##" : "", text + start, end - start) < 0) end--;
            if (end == start) break;
            ids[n++] = find(start ? "##" : "", text + start, end - start);
            start = end;
        }
        if (start < len) ids[0] = UNK;
        expect_ids(&wordpiece_ops, model, text, ids, start < len ? 1 : n);
    }
    wordpiece_ops.destroy(model);
}

static void test_wordpiece_s_work_is_bounded_by_its_longest_token(void **state) {
    enum { LEN = 100000 };
    struct token_scratch scratch = {0};
    struct id_list list = {0};
    char *text = malloc(LEN);
    (void)state;
    assert_non_null(text);
    memset(text, 'a', LEN);
    struct token_model *model = make(&wordpiece_ops, UINT32_MAX);

    assert_true(wordpiece_ops.encode(model, text, LEN, &scratch, &list));

    assert_true(list.n > LEN / 4);
    assert_true(scratch.n_operations >= list.n); /* or nobody counts */
    assert_true(scratch.n_operations < 8 * LEN);
    wordpiece_ops.destroy(model);
    free(list.ids);
    free(scratch.memory);
    free(text);
}

static void test_wordlevel_knows_a_piece_or_does_not(void **state) {
    (void)state;
    struct token_model *model = make(&wordlevel_ops, 0);

    EXPECT(&wordlevel_ops, model, "aff", 2);
    EXPECT(&wordlevel_ops, model, "affa", UNK);
    EXPECT(&wordlevel_ops, model, "\u4E2D", 14);
    expect_ids(&wordlevel_ops, model, "", NULL, 0);

    wordlevel_ops.destroy(model);
}

static void test_an_unknown_token_that_is_missing_is_refused(void **state) {
    const struct spec_token token = {.content = spec_str("a")};
    const struct tokenizer_spec spec = {.tokens = &token, .n_tokens = 1, .unk = spec_str("<unk>")};
    const struct token_model_ops *const ops[] = {&wordpiece_ops, &wordlevel_ops};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct radish_error err = {0};
        struct token_model *model;
        assert_int_equal(ops[i]->create(&spec, false, &model, &err), RADISH_E_FORMAT);
        assert_null(model);
        assert_non_null(strstr(err.msg, "\"<unk>\""));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wordpiece_takes_the_longest_token_first),
        cmocka_unit_test(test_wordpiece_gives_a_word_up_as_a_whole),
        cmocka_unit_test(test_wordpiece_counts_characters_not_bytes),
        cmocka_unit_test(test_wordpiece_agrees_with_the_rule_on_random_words),
        cmocka_unit_test(test_wordpiece_s_work_is_bounded_by_its_longest_token),
        cmocka_unit_test(test_wordlevel_knows_a_piece_or_does_not),
        cmocka_unit_test(test_an_unknown_token_that_is_missing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
