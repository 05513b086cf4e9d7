/* Each kind of normalizer, and their order. */
#include "test.h"
#include "text_spec.h"

#include "base/buf.h"
#include "text/normalizer.h"

static void expect(const struct spec_normalizer *steps, uint32_t n, const char *text,
                   const char *want) {
    struct radish_error err = {0};
    struct buf scratch[2] = {{0}, {0}};
    struct normalizer *normalizer;
    struct spec_str got;
    if (normalizer_create(steps, n, &normalizer, &err) != RADISH_OK) fail_msg("%s", err.msg);
    if (normalizer_run(normalizer, text, strlen(text), scratch, &got, NULL, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(got.len, strlen(want));
    assert_memory_equal(got.data, want, got.len);
    buf_deinit(&scratch[0]);
    buf_deinit(&scratch[1]);
    normalizer_destroy(normalizer);
}

static void expect_one(struct spec_normalizer step, const char *text, const char *want) {
    expect(&step, 1, text, want);
}

static void test_no_step_leaves_the_text(void **state) {
    (void)state;
    expect(NULL, 0, " e\u0301 ", " e\u0301 ");
}

static void test_each_kind_does_its_work(void **state) {
    (void)state;
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_NFC}, "e\u0301", "\u00E9");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_NFD}, "\u00E9", "e\u0301");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_NFKC}, "\uFB01", "fi");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_NFKD}, "\u00E9\uFB01", "e\u0301fi");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_LOWERCASE}, "A\u00C9", "a\u00E9");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_STRIP_ACCENTS}, "e\u0301x", "ex");
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_BYTE_LEVEL}, " \u00E9",
               "\u0120\u00C3\u00A9");
}

static void test_nmt_drops_controls_and_makes_spaces(void **state) {
    (void)state;
    expect_one((struct spec_normalizer){.kind = SPEC_NORMALIZER_NMT},
               "a\x01\x7F\tb\u200Bc\u2581d\uFEFF\u00A0", "a b c d \u00A0");
}

static void test_each_part_of_bert_s_normalizer_works_alone(void **state) {
    struct spec_normalizer step = {.kind = SPEC_NORMALIZER_BERT};
    const char *text = "\u00C9\u00AD\n\u4E2D\uFFFD\u3000"
                       "A";
    (void)state;
    expect_one(step, text, text);
    step.cleans_text = true;
    expect_one(step, text, "\u00C9 \u4E2D A");
    step.spaces_chinese = true;
    expect_one(step, text, "\u00C9  \u4E2D  A");
    step.strips_accents = true;
    expect_one(step, text, "E  \u4E2D  A");
    step.lowers = true;
    expect_one(step, text, "e  \u4E2D  a");
    step = (struct spec_normalizer){.kind = SPEC_NORMALIZER_BERT, .lowers = true};
    expect_one(step, text, "\u00E9\u00AD\n\u4E2D\uFFFD\u3000a");
}

/* What becomes of the first character: Metaspace asks. */
static void expect_first(const struct spec_normalizer *steps, uint32_t n, const char *text,
                         size_t first_len, size_t want) {
    struct radish_error err = {0};
    struct buf scratch[2] = {{0}, {0}};
    struct normalizer *normalizer;
    struct spec_str got;
    assert_int_equal(normalizer_create(steps, n, &normalizer, &err), RADISH_OK);
    assert_int_equal(
        normalizer_run(normalizer, text, strlen(text), scratch, &got, &first_len, &err), RADISH_OK);
    assert_int_equal(first_len, want);
    buf_deinit(&scratch[0]);
    buf_deinit(&scratch[1]);
    normalizer_destroy(normalizer);
}

static void test_the_first_character_is_followed_through_the_steps(void **state) {
    const struct spec_normalizer strip = {.kind = SPEC_NORMALIZER_STRIP, .strips_left = true};
    const struct spec_normalizer prepend = {.kind = SPEC_NORMALIZER_PREPEND,
                                            .content = spec_str("\u2581")};
    const struct spec_normalizer replace = {
        .kind = SPEC_NORMALIZER_REPLACE, .pattern.text = spec_str("a"), .content = spec_str("xyz")};
    const struct spec_normalizer runs = {.kind = SPEC_NORMALIZER_REPLACE,
                                         .pattern = {spec_str(" {2,}"), true},
                                         .content = spec_str("_")};
    const struct spec_normalizer chain[] = {prepend,
                                            replace,
                                            {.kind = SPEC_NORMALIZER_NFD},
                                            {.kind = SPEC_NORMALIZER_BERT, .spaces_chinese = true}};
    (void)state;
    expect_first(NULL, 0, "ab", 1, 1);
    expect_first(&strip, 1, " b", 1, 0);
    expect_first(&strip, 1, "b ", 1, 1);
    expect_first(&prepend, 1, "ab", 1, 4);
    expect_first(&replace, 1, "aab", 1, 3);
    expect_first(&runs, 1, "  b", 1, 0); /* made of the last space */
    expect_first(&runs, 1, " b", 1, 1);
    expect_first(chain, 4, "ab", 1, 6);
    expect_first(chain, 4, "\u00E9b", 2, 6);
    expect_first(chain + 2, 2, "\u4E2Db", 3, 5);
}

static void test_nothing_is_found_in_nothing(void **state) {
    const struct spec_normalizer step = {.kind = SPEC_NORMALIZER_REPLACE,
                                         .pattern = {spec_str("^"), true},
                                         .content = spec_str("x")};
    (void)state;
    expect_one(step, "", "");
    expect_one(step, "a", "xa");
}

static void test_strip_takes_the_sides_it_is_told(void **state) {
    struct spec_normalizer step = {.kind = SPEC_NORMALIZER_STRIP};
    (void)state;
    expect_one(step, " a b\u3000", " a b\u3000");
    step.strips_left = true;
    expect_one(step, " a b\u3000", "a b\u3000");
    step.strips_right = true;
    expect_one(step, " a b\u3000", "a b");
    expect_one(step, " \n ", "");
    step.strips_left = false;
    expect_one(step, " a b\u3000", " a b");
}

static void test_prepend_leaves_empty_text_empty(void **state) {
    const struct spec_normalizer step = {.kind = SPEC_NORMALIZER_PREPEND,
                                         .content = spec_str("\u2581")};
    (void)state;
    expect_one(step, "a", "\u2581a");
    expect_one(step, "", "");
}

static void test_replace_takes_literals_and_patterns(void **state) {
    struct spec_normalizer step = {.kind = SPEC_NORMALIZER_REPLACE,
                                   .pattern = {spec_str("."), false},
                                   .content = spec_str("--")};
    (void)state;
    expect_one(step, "a.b.", "a--b--");
    step.pattern.is_regex = true;
    expect_one(step, "a.", "----");
    step.pattern.text = spec_str("[ab]+");
    step.content = spec_str("");
    expect_one(step, "xaby", "xy");
}

static void test_steps_run_in_order(void **state) {
    const struct spec_normalizer steps[] = {
        {.kind = SPEC_NORMALIZER_NFD},
        {.kind = SPEC_NORMALIZER_STRIP_ACCENTS},
        {.kind = SPEC_NORMALIZER_LOWERCASE},
        {.kind = SPEC_NORMALIZER_REPLACE, .pattern.text = spec_str("e"), .content = spec_str("X")}};
    (void)state;
    expect(steps, 4, "\u00C9E", "XX");
    expect(steps, 3, "\u00C9E", "ee");
    expect(steps + 3, 1, "\u00E9e", "\u00E9X");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_step_leaves_the_text),
        cmocka_unit_test(test_each_kind_does_its_work),
        cmocka_unit_test(test_nmt_drops_controls_and_makes_spaces),
        cmocka_unit_test(test_each_part_of_bert_s_normalizer_works_alone),
        cmocka_unit_test(test_the_first_character_is_followed_through_the_steps),
        cmocka_unit_test(test_nothing_is_found_in_nothing),
        cmocka_unit_test(test_strip_takes_the_sides_it_is_told),
        cmocka_unit_test(test_prepend_leaves_empty_text_empty),
        cmocka_unit_test(test_replace_takes_literals_and_patterns),
        cmocka_unit_test(test_steps_run_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
