/* test_buf.c - the growing buffer: content, limits, and failures that stick. */
#include "test.h"

#include "alloc_fail.h"
#include "base/buf.h"

static void test_appends_come_out_in_order(void **state) {
    (void)state;
    struct buf b;
    size_t len;

    buf_init(&b, 0);
    buf_append(&b, "ab", 2);
    buf_append_str(&b, "cd");
    buf_append_char(&b, 'e');
    buf_append_utf8(&b, 0x20AC);
    buf_printf(&b, "%d-%s", 42, "x");
    buf_append(&b, NULL, 0);

    assert_int_equal(b.len, 12);
    assert_string_equal(b.data, "abcde\xe2\x82\xac"
                                "42-x");
    buf_remove_front(&b, 5);
    assert_string_equal(b.data, "\xe2\x82\xac"
                                "42-x");
    char *text = buf_take(&b, &len);
    assert_int_equal(len, 7);
    assert_string_equal(text, "\xe2\x82\xac"
                              "42-x");
    assert_null(b.data);
    free(text);
}

static void test_large_appends_keep_every_byte(void **state) {
    (void)state;
    struct buf b;

    buf_init(&b, 0);
    for (int i = 0; i < 100000; i++) buf_append_char(&b, (char)(i * 7));

    assert_false(b.failed);
    assert_int_equal(b.len, 100000);
    for (int i = 0; i < 100000; i++) assert_int_equal(b.data[i], (char)(i * 7));
    assert_int_equal(b.data[b.len], 0);
    buf_deinit(&b);
}

static void test_a_limit_is_obeyed_and_failure_sticks_until_clear(void **state) {
    (void)state;
    struct buf b;
    size_t len;

    buf_init(&b, 4);
    buf_append_str(&b, "abcd");
    assert_false(b.failed);
    buf_append_str(&b, "e");
    assert_true(b.failed);
    assert_string_equal(b.data, "abcd");
    buf_clear(&b);
    assert_false(b.failed);
    buf_printf(&b, "%s", "12345");
    assert_true(b.failed);
    buf_append_str(&b, "1");
    assert_int_equal(b.len, 0);
    assert_null(buf_take(&b, &len));
    assert_int_equal(len, 0);
}

static void test_an_absurd_size_fails_without_allocating(void **state) {
    (void)state;
    struct buf b;

    buf_init(&b, 0);
    buf_append_str(&b, "a");
    assert_false(buf_reserve(&b, SIZE_MAX - 1));
    assert_true(b.failed);
    buf_deinit(&b);
}

static void test_taking_an_empty_buffer_gives_an_empty_string(void **state) {
    (void)state;
    struct buf b;
    size_t len = 9;

    buf_init(&b, 0);
    char *text = buf_take(&b, &len);

    assert_non_null(text);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    free(text);
}

static bool attempt_to_build(void *user) {
    (void)user;
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 300; i++) buf_printf(&b, "%d,", i);
    const bool is_done = !b.failed;
    assert_true(is_done == (b.len == 1090));
    buf_deinit(&b);
    return is_done;
}

static void test_each_failed_allocation_is_reported(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_to_build, NULL) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_come_out_in_order),
        cmocka_unit_test(test_large_appends_keep_every_byte),
        cmocka_unit_test(test_a_limit_is_obeyed_and_failure_sticks_until_clear),
        cmocka_unit_test(test_an_absurd_size_fails_without_allocating),
        cmocka_unit_test(test_taking_an_empty_buffer_gives_an_empty_string),
        cmocka_unit_test(test_each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
