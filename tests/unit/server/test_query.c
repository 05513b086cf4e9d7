/* test_query.c - arguments behind the '?' of a request. */
#include "server/http/query.h"
#include "test.h"

static void add(struct query *query, const char *name, const char *value) {
    query_add(query, name, strlen(name), value, strlen(value));
}

static void test_query_finds_the_last_value_of_a_name(void **state) {
    (void)state;
    struct query query;
    query_init(&query);

    add(&query, "include", "core");
    add(&query, "in", "x");
    add(&query, "include", "all");
    add(&query, "flag", "");

    assert_string_equal(query_find(&query, "include"), "all");
    assert_string_equal(query_find(&query, "in"), "x");
    assert_string_equal(query_find(&query, "flag"), "");
    assert_null(query_find(&query, "inc"));
    assert_null(query_find_other(&query, "flag|in|include"));
    assert_string_equal(query_find_other(&query, "flag|include|i"), "in");
    query_deinit(&query);
}

static void test_query_with_a_zero_byte_or_too_many_arguments_is_bad_as_a_whole(void **state) {
    (void)state;
    struct query query;
    query_init(&query);
    add(&query, "a", "1");
    query_add(&query, "b", 1, "x\0y", 3);
    assert_true(query.is_bad);
    assert_null(query_find(&query, "a"));
    query_deinit(&query);

    query_init(&query);
    for (int i = 0; i < QUERY_ARGS_MAX; i++) add(&query, "a", "1");
    assert_false(query.is_bad);
    add(&query, "a", "1");
    assert_true(query.is_bad);
    query_deinit(&query);
}

static void test_query_reads_numbers_within_their_range_only(void **state) {
    (void)state;
    struct query query;
    struct radish_error err;
    double value = 7;
    query_init(&query);
    add(&query, "t", "2.5");
    assert_int_equal(query_get_double(&query, "absent", 10, &value, &err), RADISH_OK);
    assert_true(value == 7);
    assert_int_equal(query_get_double(&query, "t", 10, &value, &err), RADISH_OK);
    assert_true(value == 2.5);

    const char *const wrong[] = {"", "x", "1x", "-1", "11", "nan", "inf", "1e999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        add(&query, "t", wrong[i]);
        assert_int_equal(query_get_double(&query, "t", 10, &value, &err), RADISH_E_INVALID);
        assert_string_equal(err.field, "t");
    }
    assert_true(value == 2.5);
    query_deinit(&query);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query_finds_the_last_value_of_a_name),
        cmocka_unit_test(test_query_with_a_zero_byte_or_too_many_arguments_is_bad_as_a_whole),
        cmocka_unit_test(test_query_reads_numbers_within_their_range_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
