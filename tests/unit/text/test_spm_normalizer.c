/* SentencePiece's normalizer: white space in every combination, rules and user-defined symbols. The
 * answers are the sentencepiece package's (tests/oracle compares more of them). */
#include "test.h"
#include "text_charsmap.h"
#include "text_spec.h"

#include "text/spm_normalizer.h"

#define M "\u2581"

static void expect(const struct spec_normalizer *spec, const char *text, const char *want) {
    struct radish_error err = {0};
    struct spm_normalizer *n;
    struct buf out = {0};
    assert_int_equal(spm_normalizer_create(spec, &n, &err), RADISH_OK);
    spm_normalizer_run(n, text, strlen(text), &out);
    assert_string_equal(out.data ? out.data : "", want);
    assert_int_equal(out.len, strlen(want));
    buf_deinit(&out);
    spm_normalizer_destroy(n);
}

static void test_white_space_is_marked_prefixed_and_removed_as_told(void **state) {
    struct spec_normalizer plain = {.kind = SPEC_NORMALIZER_SENTENCEPIECE}, prefix = plain,
                           removes = plain, both = plain;
    (void)state;
    prefix.adds_prefix = both.adds_prefix = true;
    removes.removes_spaces = both.removes_spaces = true;

    expect(&plain, " a  b ", M "a" M M "b" M);
    expect(&prefix, " a  b ", M M "a" M M "b" M);
    expect(&removes, " a  b ", "a" M "b");
    expect(&both, " a  b ", M "a" M "b");
    expect(&prefix, "   ", M M M M);
    expect(&both, "   ", "");
    expect(&prefix, "", "");
    expect(&both, "a\n  \n", M "a\n" M "\n");
    expect(&both, "a" M, M "a"); /* a mark in the text is a space at the end, and no other place */
    expect(&both, "a" M " b", M "a" M M "b");
}

static void test_rules_come_before_white_space_and_the_longest_wins(void **state) {
    static const struct charsmap_rule rules[] = {{"\t", " "},           {"\uFB01", "fi"},
                                                 {"\u00A8", " \u0308"}, {"\u200B", ""},
                                                 {"ab", "1"},           {"abc", "2"}};
    struct spec_normalizer both = {
        .kind = SPEC_NORMALIZER_SENTENCEPIECE, .adds_prefix = true, .removes_spaces = true};
    struct buf blob = {0};
    (void)state;
    charsmap_write(rules, sizeof rules / sizeof *rules, &blob);
    both.content = (struct spec_str){blob.data, blob.len};

    expect(&both, "\t \tx\t\ty\t", M "x" M "y");
    expect(&both, "\uFB01\u200Bx", M "fix");
    expect(&both, "x \u00A8", M "x" M "\u0308");
    expect(&both, "abcab", M "21");
    buf_deinit(&blob);
}

static void test_user_defined_symbols_are_left_alone(void **state) {
    static const struct charsmap_rule rules[] = {{"\uFB01", "fi"}, {"b", "B"}};
    const struct spec_str kept[] = {{"\uFB01x", 4}, {"ab", 2}, {"abb", 3}};
    struct spec_normalizer spec = {
        .kind = SPEC_NORMALIZER_SENTENCEPIECE, .kept = kept, .n_kept = 3};
    struct buf blob = {0};
    (void)state;
    charsmap_write(rules, 2, &blob);
    spec.content = (struct spec_str){blob.data, blob.len};

    expect(&spec, "\uFB01x\uFB01b", "\uFB01xfiB");
    expect(&spec, "abbabcb", "abbabcB");
    buf_deinit(&blob);
}

static void test_a_broken_charsmap_is_refused(void **state) {
    struct spec_normalizer spec = {.kind = SPEC_NORMALIZER_SENTENCEPIECE, .content = {"abc", 3}};
    struct radish_error err = {0};
    struct spm_normalizer *n;
    (void)state;
    assert_int_equal(spm_normalizer_create(&spec, &n, &err), RADISH_E_FORMAT);
    assert_null(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_white_space_is_marked_prefixed_and_removed_as_told),
        cmocka_unit_test(test_rules_come_before_white_space_and_the_longest_wins),
        cmocka_unit_test(test_user_defined_symbols_are_left_alone),
        cmocka_unit_test(test_a_broken_charsmap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
