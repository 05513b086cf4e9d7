/* Charsmaps: how SentencePiece and how the tokenizers library apply the same rules, and tables that
 * point anywhere. */
#include "test.h"
#include "text_charsmap.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "text/charsmap.h"

static const struct charsmap_rule RULES[] = {
    {"a", "A"},  {"ab", "X"},    {"abcd", "YY"},  {"\uFB01", "fi"}, {"e\u0301", "\u00E9"},
    {"\r", " "}, {"\u00AD", ""}, {"\u2460", "1"}, {"\u0301", "'"},  {"\u30AB\u3099", "\u30AC"},
};

enum { N_RULES = sizeof RULES / sizeof *RULES };

static struct charsmap *make(void) {
    struct radish_error err = {0};
    struct buf blob = {0};
    struct charsmap *map;
    charsmap_write(RULES, N_RULES, &blob);
    if (charsmap_create(blob.data, blob.len, &map, &err) != RADISH_OK) fail_msg("%s", err.msg);
    buf_deinit(&blob);
    return map;
}

static void expect_longest(const struct charsmap *map, const char *s, size_t len,
                           const char *want) {
    struct spec_str text;
    assert_int_equal(charsmap_longest(map, s, strlen(s), &text), len);
    assert_int_equal(text.len, strlen(want));
    assert_memory_equal(text.data, want, text.len);
}

static void test_sentencepiece_takes_the_longest_rule(void **state) {
    struct charsmap *map = make();
    (void)state;
    expect_longest(map, "abcde", 4, "YY");
    expect_longest(map, "abc", 2, "X");
    expect_longest(map, "ac", 1, "A");
    expect_longest(map, "b", 0, "");
    expect_longest(map, "", 0, "");
    expect_longest(map, "\u00ADx", 2, "");
    expect_longest(map, "\xE2", 0, ""); /* half of a key */
    charsmap_destroy(map);
}

static void expect_normal(const struct charsmap *map, const char *s, const char *want) {
    struct buf out = {0};
    buf_append_str(&out, ">");
    charsmap_normalize(map, s, strlen(s), &out);
    assert_string_equal(out.data + 1, want);
    buf_deinit(&out);
}

static void test_the_tokenizers_library_asks_for_clusters_and_takes_the_shortest_rule(
    void **state) {
    struct charsmap *map = make();
    (void)state;
    expect_normal(map, "abcd", "Abcd");                 /* each letter is a cluster */
    expect_normal(map, "e\u0301", "\u00E9");            /* one of 3 bytes: as a whole */
    expect_normal(map, "\uFB01\u0301", "fi");           /* 5 bytes: the shortest rule, all of it */
    expect_normal(map, "e\u0301\u0301\u0301", "e'''");  /* 7 bytes: characters */
    expect_normal(map, "\u30AB\u3099", "\u30AB\u3099"); /* 6 bytes: the rule is never found */
    expect_normal(map, "x\r\ny", "x y");                /* CR LF is a cluster, all of it replaced */
    expect_normal(map, "x\n\ry", "x\n y");
    expect_normal(map, "1\u00AD\u2460", "11");
    expect_normal(map, "plain", "plAin");
    expect_normal(map, "", "");
    charsmap_destroy(map);
}

static void test_what_comes_from_the_first_character_is_counted_as_the_library_does(void **state) {
    struct charsmap *map = make();
    (void)state;
    assert_int_equal(charsmap_first_len(map, "ax", 2, 1), 1);
    assert_int_equal(charsmap_first_len(map, "\uFB01x", 4, 3), 2);
    assert_int_equal(charsmap_first_len(map, "e\u0301x", 4, 1), 2);
    assert_int_equal(charsmap_first_len(map, "\u00ADxy", 4, 2), 1); /* a loss that is forgotten */
    assert_int_equal(charsmap_first_len(map, "", 0, 0), 0);
    charsmap_destroy(map);
}

static void expect_refused(const void *blob, size_t len, const char *words) {
    struct radish_error err = {0};
    struct charsmap *map;
    assert_int_equal(charsmap_create(blob, len, &map, &err), RADISH_E_FORMAT);
    assert_null(map);
    if (!strstr(err.msg, words)) fail_msg("%s: wanted \"%s\"", err.msg, words);
}

static void test_tables_that_are_cut_short_or_hold_no_text_are_refused(void **state) {
    (void)state;
    expect_refused("", 0, "cut short");
    expect_refused("\x04\0\0", 3, "cut short");
    expect_refused("\x04\0\0\0abc", 7, "cut short");
    expect_refused("\x03\0\0\0abc", 7, "cut short");
    expect_refused("\xFF\xFF\xFF\xFF", 4, "cut short");
    expect_refused("\0\0\0\0\xC3", 5, "not valid UTF-8");
}

static void test_tables_that_point_anywhere_give_valid_text(void **state) {
    const char *text = "abcd e\u0301 \uFB01\u0301 x\r\n \u2460\u00AD \u30AB\u3099 \U0001F600";
    struct buf blob = {0}, out = {0};
    const uint64_t seed = 7;
    uint64_t rolled = 0;
    (void)state;
    charsmap_write(RULES, N_RULES, &blob);
    for (int round = 0; round < 20000; round++) {
        struct radish_error err = {0};
        struct spec_str found;
        struct charsmap *map;
        size_t at = (size_t)(rng_u64(seed, rolled++) % blob.len);
        char was = blob.data[at];
        blob.data[at] = (char)rng_u64(seed, rolled++);
        if (charsmap_create(blob.data, blob.len, &map, &err) == RADISH_OK) {
            buf_clear(&out);
            charsmap_normalize(map, text, strlen(text), &out);
            if (out.len) assert_int_equal(utf8_valid_prefix(out.data, out.len), out.len);
            for (size_t i = 0; text[i]; i++) {
                charsmap_longest(map, text + i, strlen(text) - i, &found);
                assert_int_equal(utf8_valid_prefix(found.data, found.len), found.len);
            }
            charsmap_destroy(map);
        }
        if (round % 8) blob.data[at] = was; /* some damage stays */
        if (round % 400 == 399) {
            buf_clear(&blob);
            charsmap_write(RULES, N_RULES, &blob);
        }
    }
    buf_deinit(&blob);
    buf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentencepiece_takes_the_longest_rule),
        cmocka_unit_test(test_the_tokenizers_library_asks_for_clusters_and_takes_the_shortest_rule),
        cmocka_unit_test(test_what_comes_from_the_first_character_is_counted_as_the_library_does),
        cmocka_unit_test(test_tables_that_are_cut_short_or_hold_no_text_are_refused),
        cmocka_unit_test(test_tables_that_point_anywhere_give_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
