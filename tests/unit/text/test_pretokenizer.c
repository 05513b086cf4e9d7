/* Where text is cut: the dialect of patterns, what becomes of matches, and every kind of step. */
#include "test.h"
#include "text_spec.h"

#include "base/buf.h"
#include "base/status.h"
#include "text/pretokenizer.h"

static enum radish_status append_piece(void *user, const char *piece, size_t len,
                                       struct radish_error *err) {
    struct buf *out = user;
    (void)err;
    if (out->len) buf_append_char(out, '|');
    buf_append(out, piece, len);
    return RADISH_OK;
}

/* The pieces of a text, joined by '|'. */
static void cut(const struct spec_pretokenizer *steps, uint32_t n, const char *text, bool is_first,
                struct buf *out) {
    struct radish_error err = {0};
    struct pretokenizer_scratch scratch = {0};
    struct pretokenizer *p;
    if (pretokenizer_create(steps, n, true, &p, &err) != RADISH_OK) fail_msg("%s", err.msg);
    buf_clear(out);
    buf_reserve(out, 1);
    if (pretokenizer_run(p, text, strlen(text), is_first, &scratch, append_piece, out, &err) !=
        RADISH_OK)
        fail_msg("%s", err.msg);
    pretokenizer_scratch_deinit(&scratch);
    pretokenizer_destroy(p);
}

static void expect(const struct spec_pretokenizer *step, const char *text, const char *want) {
    struct buf out = {0};
    cut(step, 1, text, true, &out);
    assert_string_equal(out.data, want);
    buf_deinit(&out);
}

static struct spec_pretokenizer split(const char *regex, enum spec_behavior behavior, bool invert) {
    return (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_SPLIT,
                                      .pattern = {spec_str(regex), true},
                                      .behavior = behavior,
                                      .is_inverted = invert};
}

static void expect_split(const char *regex, const char *text, const char *want) {
    const struct spec_pretokenizer step = split(regex, SPEC_BEHAVIOR_ISOLATED, false);
    expect(&step, text, want);
}

static void test_each_behavior_treats_matches_its_way(void **state) {
    static const struct {
        enum spec_behavior behavior;
        bool invert;
        const char *want;
    } rows[] = {
        {SPEC_BEHAVIOR_ISOLATED, false, "the|-|final|-|-|countdown"},
        {SPEC_BEHAVIOR_REMOVED, false, "the|final|countdown"},
        {SPEC_BEHAVIOR_MERGED_WITH_PREVIOUS, false, "the-|final-|-|countdown"},
        {SPEC_BEHAVIOR_MERGED_WITH_NEXT, false, "the|-final|-|-countdown"},
        {SPEC_BEHAVIOR_CONTIGUOUS, false, "the|-|final|--|countdown"},
        {SPEC_BEHAVIOR_REMOVED, true, "-|-|-"},
        {SPEC_BEHAVIOR_MERGED_WITH_PREVIOUS, true, "the|-final|-|-countdown"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct spec_pretokenizer step = split("-", rows[i].behavior, rows[i].invert);
        expect(&step, "the-final--countdown", rows[i].want);
    }
}

static void test_patterns_speak_oniguruma(void **state) {
    (void)state;
    expect_split("[a-z&&[^aeiou]]+", "abcde", "a|bcd|e");
    expect_split("[^a-z&&[^0-9]]+", "ab--12", "ab|--12");
    expect_split("[^x[0-9]]+", "xab12", "x|ab|12");
    expect_split("\\p{Han}+", "a\u4E2D\u6587\u3002", "a|\u4E2D\u6587|\u3002"); /* script only */
    expect_split("\\p{^Han}+", "a\u4E2D", "a|\u4E2D");
    expect_split("\\p{Letter}+", "ab1", "ab|1");
    expect_split("\\h+", "xfaz", "x|fa|z");
    expect_split("[\\h_]+", "xfa_z", "x|fa_|z");
    expect_split("\\u0061", "bab", "b|a|b");
    expect_split("^.", "ab\ncd", "a|b\n|c|d");
    expect_split("[[:digit:]]+", "a12", "a|12");
    expect_split("(?i:'ll)|\\p{L}+", "we'LL", "we|'LL");
}

static void test_empty_matches_cut_but_leave_no_pieces(void **state) {
    (void)state;
    expect_split("x*", "axxb", "a|xx|b");
    expect_split("(?=b)", "abcb", "a|bc|b");
}

static void test_gpt2_words(void **state) {
    const struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_BYTE_LEVEL,
                                           .uses_regex = true};
    (void)state;
    expect(&step, "Hello  it's 12 !?\n\n x", "Hello| | it|'s| 12| !?|\n\n| x");
}

static void test_the_byte_alphabet_is_written_only_where_steps_follow(void **state) {
    const struct spec_pretokenizer steps[] = {
        {.kind = SPEC_PRETOKENIZER_BYTE_LEVEL, .adds_prefix_space = true},
        {.kind = SPEC_PRETOKENIZER_DIGITS}};
    struct buf out = {0};
    (void)state;
    cut(steps, 1, "\u00B2a", true, &out);
    assert_string_equal(out.data, " \u00B2a");
    cut(steps, 2, "\u00B2a", true, &out); /* its second byte is written as a digit */
    assert_string_equal(out.data, "\u0120\u00C2|\u00B2|a");
    buf_deinit(&out);
}

static void test_digits_punctuation_and_spaces(void **state) {
    struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_DIGITS};
    (void)state;
    expect(&step, "a12\u00BDb", "a|12\u00BD|b");
    step.is_individual = true;
    expect(&step, "a12", "a|1|2");
    step = (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_PUNCTUATION};
    expect(&step, "a!?b", "a|!|?|b");
    step.behavior = SPEC_BEHAVIOR_CONTIGUOUS;
    expect(&step, "a!?b", "a|!?|b");
    step = (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_WHITESPACE};
    expect(&step, " Hey, you\u00E9_1!!  ", "Hey|,|you\u00E9_1|!!");
    step = (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_WHITESPACE_SPLIT};
    expect(&step, " a,\u3000b ", "a,|b");
    step = (struct spec_pretokenizer){.kind = SPEC_PRETOKENIZER_CHAR_DELIMITER,
                                      .pattern.text = spec_str("-")};
    expect(&step, "a-b--", "a|b");
}

static void test_metaspace_marks_words(void **state) {
    struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_METASPACE,
                                     .replacement = spec_str("\u2581"),
                                     .prepend = SPEC_PREPEND_ALWAYS,
                                     .splits = true};
    struct buf out = {0};
    (void)state;
    expect(&step, "Hey you", "\u2581Hey|\u2581you");
    expect(&step, " Hey", "\u2581Hey");
    step.splits = false;
    expect(&step, "a b", "\u2581a\u2581b");
    step.prepend = SPEC_PREPEND_NEVER;
    expect(&step, "a b", "a\u2581b");
    step.prepend = SPEC_PREPEND_FIRST;
    expect(&step, "a", "\u2581a");
    cut(&step, 1, "a", /*is_first=*/false, &out);
    assert_string_equal(out.data, "a");
    buf_deinit(&out);
}

static void test_metaspace_s_first_is_the_input_s_first_character(void **state) {
    const struct spec_pretokenizer steps[] = {{.kind = SPEC_PRETOKENIZER_WHITESPACE_SPLIT},
                                              {.kind = SPEC_PRETOKENIZER_METASPACE,
                                               .replacement = spec_str("\u2581"),
                                               .prepend = SPEC_PREPEND_FIRST}};
    struct buf out = {0};
    (void)state;
    cut(steps, 2, "a a", true, &out);
    assert_string_equal(out.data, "\u2581a|a");
    cut(steps, 2, " a", true, &out); /* the space was first, and went */
    assert_string_equal(out.data, "a");
    buf_deinit(&out);
}

static void test_bert_cuts_at_white_space_and_around_punctuation(void **state) {
    const struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_BERT};
    (void)state;
    expect(&step, " Hey, friend!!\u3000x\u2014y", "Hey|,|friend|!|!|x|\u2014|y");
}

static void test_scripts_change_between_words(void **state) {
    const struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_UNICODE_SCRIPTS};
    (void)state;
    expect(&step, "Hey \u043F\u0440\u0438 1a", "Hey |\u043F\u0440\u0438 |1|a");
    expect(&step, "\u65E5\u3072\u30AB\u30FC\u3002", "\u65E5\u3072\u30AB\u30FC|\u3002");
    expect(&step, "  ab  ", "ab  "); /* spaces at the start go */
    expect(&step, "  ", "");
}

static void test_fixed_lengths_count_characters(void **state) {
    struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_FIXED_LENGTH, .n_chars = 2};
    struct radish_error err = {0};
    struct pretokenizer *p;
    (void)state;
    expect(&step, "a\u00E9\u4E2D\U0001F600b", "a\u00E9|\u4E2D\U0001F600|b");
    step.n_chars = 0;
    assert_int_equal(pretokenizer_create(&step, 1, true, &p, &err), RADISH_E_FORMAT);
}

static void test_the_empty_pattern_is_found_everywhere(void **state) {
    const struct spec_pretokenizer step = {.kind = SPEC_PRETOKENIZER_SPLIT,
                                           .pattern.text = spec_str("")};
    (void)state;
    expect(&step, "a\u00E9b", "a|\u00E9|b");
}

static void test_patterns_that_do_not_compile_are_refused(void **state) {
    static const char *const bad[] = {"(", "[a", "\\p{Klingon}", "\\", "[a&&[b", "\\X", "\\p{L"};
    struct radish_error err;
    struct pretokenizer *p;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct spec_pretokenizer step = split(bad[i], SPEC_BEHAVIOR_ISOLATED, false);
        assert_int_equal(pretokenizer_create(&step, 1, true, &p, &err), RADISH_E_UNSUPPORTED);
        assert_null(p);
        assert_non_null(strstr(err.msg, bad[i]));
    }
}

static void test_a_pattern_that_explodes_is_an_error_not_a_hang(void **state) {
    const struct spec_pretokenizer step = split("(?:a+)+[bc]", SPEC_BEHAVIOR_ISOLATED, false);
    struct pretokenizer_scratch scratch = {0};
    struct radish_error err = {0};
    struct pretokenizer *p;
    struct buf out = {0};
    char text[200];
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(pretokenizer_create(&step, 1, true, &p, &err), RADISH_OK);

    assert_int_equal(
        pretokenizer_run(p, text, sizeof text, true, &scratch, append_piece, &out, &err),
        RADISH_E_LIMIT);

    buf_deinit(&out);
    pretokenizer_scratch_deinit(&scratch);
    pretokenizer_destroy(p);
}

static enum radish_status refuse_piece(void *user, const char *piece, size_t len,
                                       struct radish_error *err) {
    unsigned *n_calls = user;
    (void)piece, (void)len;
    return ++*n_calls < 3 ? RADISH_OK : error_nomem(err);
}

static void test_pieces_stop_when_the_sink_fails(void **state) {
    const struct spec_pretokenizer step = split(" ", SPEC_BEHAVIOR_ISOLATED, false);
    struct pretokenizer_scratch scratch = {0};
    struct radish_error err = {0};
    struct pretokenizer *p;
    unsigned n_calls = 0;
    (void)state;
    assert_int_equal(pretokenizer_create(&step, 1, true, &p, &err), RADISH_OK);

    assert_int_equal(
        pretokenizer_run(p, "a b c d", 7, true, &scratch, refuse_piece, &n_calls, &err),
        RADISH_E_NOMEM);

    assert_int_equal(n_calls, 3);
    pretokenizer_scratch_deinit(&scratch);
    pretokenizer_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_behavior_treats_matches_its_way),
        cmocka_unit_test(test_patterns_speak_oniguruma),
        cmocka_unit_test(test_empty_matches_cut_but_leave_no_pieces),
        cmocka_unit_test(test_gpt2_words),
        cmocka_unit_test(test_the_byte_alphabet_is_written_only_where_steps_follow),
        cmocka_unit_test(test_digits_punctuation_and_spaces),
        cmocka_unit_test(test_metaspace_marks_words),
        cmocka_unit_test(test_metaspace_s_first_is_the_input_s_first_character),
        cmocka_unit_test(test_bert_cuts_at_white_space_and_around_punctuation),
        cmocka_unit_test(test_scripts_change_between_words),
        cmocka_unit_test(test_fixed_lengths_count_characters),
        cmocka_unit_test(test_the_empty_pattern_is_found_everywhere),
        cmocka_unit_test(test_patterns_that_do_not_compile_are_refused),
        cmocka_unit_test(test_a_pattern_that_explodes_is_an_error_not_a_hang),
        cmocka_unit_test(test_pieces_stop_when_the_sink_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
