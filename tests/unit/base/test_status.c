/* test_status.c - statuses have names, sentences and HTTP codes; errors stay one bounded line. */
#include "test.h"

#include "base/status.h"

static void test_every_status_has_its_name_sentence_and_code(void **state) {
    (void)state;
#define CHECK(name, http, sentence)                                                                \
    assert_string_equal(radish_status_name(name), #name);                                          \
    assert_string_equal(radish_status_sentence(name), sentence);                                   \
    assert_int_equal(radish_status_http(name), http);
    RADISH_STATUS_TABLE(CHECK)
#undef CHECK
    assert_string_equal(radish_status_name((enum radish_status)999), "RADISH_E_INTERNAL");
    assert_int_equal(radish_status_http((enum radish_status)999), 500);
}

static void test_an_error_carries_status_field_and_offset(void **state) {
    (void)state;
    struct radish_error err;

    assert_int_equal(error_set_at(&err, RADISH_E_FORMAT, 77, "at %d", 5), RADISH_E_FORMAT);
    assert_int_equal(err.status, RADISH_E_FORMAT);
    assert_int_equal(err.offset, 77);
    assert_string_equal(err.msg, "at 5");
    assert_string_equal(err.field, "");

    assert_int_equal(error_set_field(&err, RADISH_E_INVALID, "top_p", "no"), RADISH_E_INVALID);
    assert_int_equal(err.offset, 0);
    assert_string_equal(err.field, "top_p");
}

static void test_an_error_without_a_place_to_put_it_is_still_returned(void **state) {
    (void)state;
    assert_int_equal(error_set(NULL, RADISH_E_IO, "x"), RADISH_E_IO);
    assert_int_equal(error_nomem(NULL), RADISH_E_NOMEM);
    error_prefix(NULL, "x");
}

static void test_a_message_is_cut_and_stays_one_line(void **state) {
    (void)state;
    struct radish_error err;
    char hostile[1000];
    memset(hostile, 'x', sizeof hostile);
    hostile[sizeof hostile - 1] = '\0';
    hostile[0] = '\n';
    hostile[1] = '\x1b';
    hostile[2] = '\x7f';

    error_set_field(&err, RADISH_E_FORMAT, hostile, "%s", hostile);

    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_int_equal(strlen(err.field), sizeof err.field - 1);
    assert_memory_equal(err.msg, "???x", 4);
    assert_memory_equal(err.field, "???x", 4);
}

static void test_prefixes_stack_in_front_and_never_overflow(void **state) {
    (void)state;
    struct radish_error err;

    error_set(&err, RADISH_E_FORMAT, "inner");
    error_prefix(&err, "tensor %d", 3);
    error_prefix(&err, "file");
    assert_string_equal(err.msg, "file: tensor 3: inner");
    assert_int_equal(err.status, RADISH_E_FORMAT);
    for (int i = 0; i < 100; i++) error_prefix(&err, "a longer prefix\n");
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_null(strchr(err.msg, '\n'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_name_sentence_and_code),
        cmocka_unit_test(test_an_error_carries_status_field_and_offset),
        cmocka_unit_test(test_an_error_without_a_place_to_put_it_is_still_returned),
        cmocka_unit_test(test_a_message_is_cut_and_stays_one_line),
        cmocka_unit_test(test_prefixes_stack_in_front_and_never_overflow),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
