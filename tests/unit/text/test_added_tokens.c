/* Tokens that are cut out of text: which match wins, what stands beside it, and the normalizer. */
#include "test.h"
#include "text_spec.h"

#include "base/buf.h"
#include "text/added_tokens.h"

/* The cuts of a text: ordinary parts as they are, tokens as <id:text>. */
static void expect(const struct spec_added *added, uint32_t n, const char *text, const char *want) {
    struct radish_error err = {0};
    struct added_tokens *tokens;
    struct added_cursor cursor;
    struct added_cut cut;
    struct buf out = {0};
    if (added_tokens_create(added, n, false, NULL, &tokens, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    buf_reserve(&out, 1);
    added_cursor_start(&cursor, tokens, text, strlen(text));
    while (added_cursor_next(&cursor, &cut)) {
        if (cut.id >= 0) buf_printf(&out, "<%d:", cut.id);
        buf_append(&out, text + cut.start, cut.end - cut.start);
        if (cut.id >= 0) buf_append_char(&out, '>');
    }
    assert_string_equal(out.data, want);
    buf_deinit(&out);
    added_tokens_destroy(tokens);
}

static void test_the_leftmost_then_the_longest_wins(void **state) {
    const struct spec_added added[] = {{.content = spec_str("ab"), .id = 1},
                                       {.content = spec_str("abcd"), .id = 2},
                                       {.content = spec_str("bcde"), .id = 3},
                                       {.content = spec_str("\u4E2D"), .id = 4}};
    (void)state;
    expect(added, 4, "xabcdex", "x<2:abcd>ex");
    expect(added, 4, "abc", "<1:ab>c");
    expect(added, 4, "abab", "<1:ab><1:ab>");
    expect(added, 4, "a\u4E2Dbcde", "a<4:\u4E2D><3:bcde>");
    expect(added, 4, "", "");
    expect(added, 4, "xyz", "xyz");
    expect(added, 0, "xyz", "xyz");
}

static void test_a_single_word_stands_alone_or_not_at_all(void **state) {
    const struct spec_added added[] = {
        {.content = spec_str("you"), .id = 1, .is_single_word = true},
        {.content = spec_str("yo"), .id = 2}};
    (void)state;
    expect(added, 2, "you you.", "<1:you> <1:you>.");
    expect(added, 2, "your youyou \u00E9you", "your youyou \u00E9you"); /* passed over whole */
    expect(added, 2, "yoga", "<2:yo>ga");
}

static void test_white_space_is_taken_along_but_never_twice(void **state) {
    const struct spec_added both[] = {
        {.content = spec_str("<m>"), .id = 1, .strips_left = true, .strips_right = true}};
    const struct spec_added left[] = {{.content = spec_str("<m>"), .id = 1, .strips_left = true}};
    const struct spec_added lines[] = {
        {.content = spec_str("\n\n"), .id = 1, .strips_left = true, .strips_right = true}};
    (void)state;
    expect(both, 1, "a \u3000<m>\n <m> b", "a<1: \u3000<m>\n ><1:<m> >b");
    expect(left, 1, "a <m> b", "a<1: <m>> b");
    expect(lines, 1, "a\n\n\n\n\nb", "a<1:\n\n\n\n\n>b");
}

static void test_normalized_tokens_are_looked_for_in_normal_form(void **state) {
    const struct spec_normalizer lower = {.kind = SPEC_NORMALIZER_LOWERCASE};
    const struct spec_added added[] = {
        {.content = spec_str("Hello"), .id = 7, .is_normalized = true},
        {.content = spec_str("<S>"), .id = 8}};
    struct radish_error err = {0};
    struct normalizer *normalizer;
    struct added_tokens *tokens;
    struct added_cursor cursor;
    struct added_cut cut;
    (void)state;
    assert_int_equal(normalizer_create(&lower, 1, &normalizer, &err), RADISH_OK);
    assert_int_equal(added_tokens_create(added, 2, true, normalizer, &tokens, &err), RADISH_OK);

    added_cursor_start(&cursor, tokens, "hello<S>", 8);
    assert_true(added_cursor_next(&cursor, &cut));
    assert_int_equal(cut.id, 7);
    assert_true(added_cursor_next(&cursor, &cut));
    assert_int_equal(cut.id, -1);
    assert_false(added_cursor_next(&cursor, &cut));

    added_tokens_destroy(tokens);
    normalizer_destroy(normalizer);
}

static void test_a_token_too_long_to_search_for_is_refused(void **state) {
    static char content[SPEC_ADDED_CONTENT_MAX + 1];
    struct spec_added added = {.content = {content, sizeof content}, .id = 1};
    struct radish_error err;
    struct added_tokens *tokens;
    (void)state;
    memset(content, 'a', sizeof content);
    assert_int_equal(added_tokens_create(&added, 1, false, NULL, &tokens, &err), RADISH_E_LIMIT);
    assert_null(tokens);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_leftmost_then_the_longest_wins),
        cmocka_unit_test(test_a_single_word_stands_alone_or_not_at_all),
        cmocka_unit_test(test_white_space_is_taken_along_but_never_twice),
        cmocka_unit_test(test_normalized_tokens_are_looked_for_in_normal_form),
        cmocka_unit_test(test_a_token_too_long_to_search_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
