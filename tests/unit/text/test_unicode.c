/* Our short cuts against utf8proc, for every code point. */
#include "test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/unicode.h"

#include <utf8proc.h>

static bool is_scalar(uint32_t c) {
    return c < 0xD800 || c > 0xDFFF;
}

static void test_boundaries_are_left_alone_by_nfc_and_never_join(void **state) {
    static const char *const before[] = {"a",      "A",      "e\u0301", "\u1100",
                                         "\uAC00", "\u0915", "\u3042"};
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (!is_scalar(c) || !unicode_is_nfc_boundary(c)) continue;
        const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
        assert_int_equal(property->combining_class, 0);
        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
            char text[16];
            size_t n = strlen(before[i]), before_len;
            memcpy(text, before[i], n);
            n += utf8_encode(c, text + n);
            text[n] = '\0';
            utf8proc_uint8_t *whole = utf8proc_NFC((const utf8proc_uint8_t *)text);
            utf8proc_uint8_t *first = utf8proc_NFC((const utf8proc_uint8_t *)before[i]);
            before_len = strlen((char *)first);
            if (strcmp((char *)whole + before_len, text + strlen(before[i])) != 0)
                fail_msg("U+%04X changes behind %s", c, before[i]);
            free(whole);
            free(first);
            if (c < 0x80) break;
        }
    }
}

static void test_nfc_in_segments_equals_nfc_of_the_whole(void **state) {
    static const uint32_t pool[] = {'a',    'e',    ' ',    0x300,  0x301,   0x323,  0xE9,
                                    0x1100, 0x1161, 0x11A8, 0xAC00, 0x4E2D,  0x304B, 0x3099,
                                    0x915,  0x93C,  0x958,  0x212B, 0x1F600, 0x5D0,  0x5B0};
    uint64_t seed = 5, at = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        struct buf text = {0}, out = {0};
        size_t n = rng_u64(seed, at++) % 20;
        buf_reserve(&text, 1);
        for (size_t i = 0; i < n; i++)
            buf_append_utf8(&text, pool[rng_u64(seed, at++) % (sizeof pool / sizeof *pool)]);
        utf8proc_uint8_t *want = utf8proc_NFC((const utf8proc_uint8_t *)text.data);

        assert_true(unicode_normalize(UNICODE_NFC, text.data, text.len, &out));

        assert_string_equal(out.data ? out.data : "", (char *)want);
        free(want);
        buf_deinit(&text);
        buf_deinit(&out);
    }
}

static void expect_form(enum unicode_form form, const char *text, const char *want) {
    struct buf out = {0};
    assert_true(unicode_normalize(form, text, strlen(text), &out));
    assert_string_equal(out.data, want);
    buf_deinit(&out);
}

/* As the tokenizers package has it, which ends with Unicode 9. */
static void test_characters_newer_than_unicode_9_are_left_alone(void **state) {
    static const char *const texts[] = {
        "\U00010F46\U00010F4B\U00010F4A", /* Sogdian marks, in an order that 11.0 changes */
        "a\u1DF6\u0316\u1DF6",            /* one mark that 10.0 knows, one that 1.1 does */
        "\U00011935\U00011930",           /* a pair that 13.0 composes */
        "\u32FF\uAB69",                   /* compatibility characters of 12.1 and 13.0 */
    };
    (void)state;
    for (int form = UNICODE_NFC; form <= UNICODE_NFKD; form++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            expect_form((enum unicode_form)form, texts[i], texts[i]);
    expect_form(UNICODE_NFC, "e\u0301\U00010F46e\u0301", "\u00E9\U00010F46\u00E9");
    expect_form(UNICODE_NFD, "\u00E9\u32FF\u00E9", "e\u0301\u32FFe\u0301");
}

static void test_the_four_forms_differ(void **state) {
    (void)state;
    expect_form(UNICODE_NFC, "e\u0301\uFB01", "\u00E9\uFB01");
    expect_form(UNICODE_NFD, "\u00E9\uFB01", "e\u0301\uFB01");
    expect_form(UNICODE_NFKC, "e\u0301\uFB01", "\u00E9fi");
    expect_form(UNICODE_NFKD, "\u00E9\uFB01", "e\u0301fi");
}

static void test_classes(void **state) {
    (void)state;
    assert_true(unicode_is_space(0x3000) && unicode_is_space('\v') && !unicode_is_space(0x200B));
    assert_true(unicode_is_word(0xE9) && unicode_is_word('_') && unicode_is_word(0x301));
    assert_true(unicode_is_word(0x24B6) && unicode_is_word(0x200D) && !unicode_is_word('-'));
    assert_true(unicode_is_number(0xBD) && unicode_is_number(0x2167) && !unicode_is_number('a'));
    assert_true(unicode_is_punctuation('$') && unicode_is_punctuation(0x3002));
    assert_false(unicode_is_punctuation('a') || unicode_is_punctuation(0x20AC));
    assert_true(unicode_is_mark(0x301) && unicode_is_mark(0x903) && !unicode_is_mark('a'));
}

static void test_lower_case_of_dotted_i_is_two_characters(void **state) {
    struct buf out = {0};
    (void)state;
    unicode_append_lower(0x130, &out);
    unicode_append_lower(0xC9, &out);
    unicode_append_lower('Z', &out);
    assert_string_equal(out.data, "i\u0307\u00E9z");
    buf_deinit(&out);
}

static void test_the_byte_alphabet_is_a_bijection(void **state) {
    bool taken[0x200] = {false};
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        uint32_t c = byte_level_char((uint8_t)byte);
        assert_true(c < 0x144 && c > ' ' && !taken[c]);
        taken[c] = true;
        assert_int_equal(byte_level_byte(c), byte);
    }
    for (uint32_t c = 0; c < 0x200; c++)
        if (!taken[c]) assert_int_equal(byte_level_byte(c), -1);
    assert_int_equal(byte_level_char(' '), 0x120);
    assert_int_equal(byte_level_char('\n'), 0x10A);
}

/* Exchanging neighbours would take hours. */
static void test_a_megabyte_of_marks_is_put_in_order(void **state) {
    enum { PAIRS = 250000 };
    static char text[PAIRS * 4];
    struct buf out = {0};
    (void)state;
    for (size_t i = 0; i < PAIRS; i++) memcpy(text + 4 * i, "\u0301\u0316", 4); /* 230, 220 */

    assert_true(unicode_normalize(UNICODE_NFC, text, sizeof text, &out));

    assert_int_equal(out.len, sizeof text);
    assert_memory_equal(out.data, "\u0316\u0316", 4);
    assert_memory_equal(out.data + 2 * PAIRS - 2, "\u0316\u0301", 4);
    buf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boundaries_are_left_alone_by_nfc_and_never_join),
        cmocka_unit_test(test_nfc_in_segments_equals_nfc_of_the_whole),
        cmocka_unit_test(test_characters_newer_than_unicode_9_are_left_alone),
        cmocka_unit_test(test_the_four_forms_differ),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_lower_case_of_dotted_i_is_two_characters),
        cmocka_unit_test(test_the_byte_alphabet_is_a_bijection),
        cmocka_unit_test(test_a_megabyte_of_marks_is_put_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
