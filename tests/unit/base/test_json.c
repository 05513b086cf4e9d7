/* test_json.c - JSON from strangers: strictness, depth, typed members that name themselves when
 * wrong. */
#include "test.h"

#include "alloc_fail.h"
#include "base/json.h"

#include <math.h>

static yyjson_doc *parse(const char *text) {
    yyjson_doc *doc;
    struct radish_error err = {0};
    if (json_parse(text, strlen(text), JSON_DEPTH_MAX, &doc, &err) != RADISH_OK)
        fail_msg("%s: %s", text, err.msg);
    return doc;
}

static void test_what_is_not_json_is_refused_with_its_offset(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t offset;
    } rows[] = {{"", 0},
                {"{\"a\": }", 6},
                {"{\"a\": 1,}", 8},
                {"[1, 2", 5},
                {"{} x", 3},
                {"NaN", 0},
                {"[01]", 2},
                {"'a'", 0},
                {"/* c */ 1", 0},
                {"\"\x80\"", 1},
                {"\"\xed\xa0\x80\"", 1},
                {"\"\n\"", 1},
                {"\xef\xbb\xbf{}", 0},
                {"1e999", 0},
                {"\"\\ud800\"", 7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        yyjson_doc *doc = (yyjson_doc *)1;
        struct radish_error err = {0};
        assert_int_equal(json_parse(rows[i].text, strlen(rows[i].text), 10, &doc, &err),
                         RADISH_E_INVALID);
        assert_null(doc);
        assert_memory_equal(err.msg, "not JSON: ", 10);
        if (err.offset > strlen(rows[i].text))
            fail_msg("%s: offset %d", rows[i].text, (int)err.offset);
        if (err.offset + 1 < rows[i].offset || err.offset > rows[i].offset + 1)
            fail_msg("%s: offset %d", rows[i].text, (int)err.offset);
    }
}

static void test_nesting_is_limited_exactly(void **state) {
    (void)state;
    yyjson_doc *doc;
    struct radish_error err;

    assert_int_equal(json_parse("[[[1]]]", 7, 3, &doc, &err), RADISH_OK);
    yyjson_doc_free(doc);
    assert_int_equal(json_parse("[[[1]]]", 7, 2, &doc, &err), RADISH_E_INVALID);
    assert_null(doc);
    assert_int_equal(json_parse("[1, {\"a\": [{}]}]", 16, 3, &doc, &err), RADISH_E_INVALID);
    assert_non_null(strstr(err.msg, "deeper than 3"));
}

static void test_a_million_brackets_are_no_stack_overflow(void **state) {
    (void)state;
    enum { N = 1000000 };
    yyjson_doc *doc;
    char *text = malloc(2 * N);
    assert_non_null(text);
    memset(text, '[', N);
    memset(text + N, ']', N);
    assert_int_equal(json_parse(text, 2 * N, JSON_DEPTH_MAX, &doc, NULL), RADISH_E_INVALID);
    free(text);
}

static void test_the_last_of_two_equal_keys_counts(void **state) {
    (void)state;
    yyjson_doc *doc = parse("{\"a\": 1, \"b\": 2, \"a\": 3, \"ab\": 4}");
    assert_int_equal(yyjson_get_int(json_get(yyjson_doc_get_root(doc), "a")), 3);
    assert_null(json_get(yyjson_doc_get_root(doc), "c"));
    assert_null(json_get(NULL, "a"));
    assert_null(json_get(json_get(yyjson_doc_get_root(doc), "a"), "a"));
    yyjson_doc_free(doc);
}

static void test_absent_and_null_members_leave_the_default(void **state) {
    (void)state;
    yyjson_doc *doc = parse("{\"n\": null}");
    yyjson_val *root = yyjson_doc_get_root(doc);
    static const char *const keys[] = {"n", "absent"};
    for (size_t i = 0; i < 2; i++) {
        bool b = true;
        int64_t n = -7;
        uint32_t u = 3;
        double d = 1.5;
        const char *s = "default";
        assert_int_equal(json_get_bool(root, keys[i], &b, NULL), RADISH_OK);
        assert_int_equal(json_get_i64(root, keys[i], 0, 5, &n, NULL), RADISH_OK);
        assert_int_equal(json_get_u32(root, keys[i], 10, 20, &u, NULL), RADISH_OK);
        assert_int_equal(json_get_double(root, keys[i], 0, 1, &d, NULL), RADISH_OK);
        assert_int_equal(json_get_str(root, keys[i], &s, NULL), RADISH_OK);
        assert_true(b && n == -7 && u == 3 && d == 1.5);
        assert_string_equal(s, "default");
    }
    yyjson_doc_free(doc);
}

static void test_members_of_the_right_type_are_read(void **state) {
    (void)state;
    yyjson_doc *doc =
        parse("{\"b\": false, \"i\": -9223372036854775808, \"f\": 4.0, \"u\": 4294967295, "
              "\"d\": 2, \"s\": \"x\\u00e9\"}");
    yyjson_val *root = yyjson_doc_get_root(doc);
    bool b = true;
    int64_t n = 0;
    uint32_t u = 0;
    double d = 0;
    const char *s = NULL;

    assert_int_equal(json_get_bool(root, "b", &b, NULL), RADISH_OK);
    assert_false(b);
    assert_int_equal(json_get_i64(root, "i", INT64_MIN, 0, &n, NULL), RADISH_OK);
    assert_true(n == INT64_MIN);
    assert_int_equal(json_get_i64(root, "f", 0, 10, &n, NULL), RADISH_OK);
    assert_int_equal(n, 4);
    assert_int_equal(json_get_u32(root, "u", 0, UINT32_MAX, &u, NULL), RADISH_OK);
    assert_true(u == UINT32_MAX);
    assert_int_equal(json_get_double(root, "d", 0, 10, &d, NULL), RADISH_OK);
    assert_true(d == 2.0);
    assert_int_equal(json_get_str(root, "s", &s, NULL), RADISH_OK);
    assert_string_equal(s, "x\xc3\xa9");
    yyjson_doc_free(doc);
}

static void test_members_of_a_wrong_type_or_range_name_themselves(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\"1\"", "true", "1.5", "-1", "101", "1e300", "18446744073709551615", "[1]", "{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[100];
        struct radish_error err = {0};
        int64_t n = 55;
        uint32_t u = 55;
        snprintf(text, sizeof text, "{\"top_k\": %s}", texts[i]);
        yyjson_doc *doc = parse(text);
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert_int_equal(json_get_i64(root, "top_k", 0, 100, &n, &err), RADISH_E_INVALID);
        assert_string_equal(err.field, "top_k");
        assert_non_null(strstr(err.msg, "top_k must be"));
        assert_int_equal(json_get_u32(root, "top_k", 0, 100, &u, &err), RADISH_E_INVALID);
        assert_true(n == 55 && u == 55);
        yyjson_doc_free(doc);
    }
}

static void test_floats_bools_and_strings_are_as_strict(void **state) {
    (void)state;
    yyjson_doc *doc =
        parse("{\"b\": 1, \"d\": \"0.5\", \"big\": 3, \"s\": 5, \"nul\": \"a\\u0000b\"}");
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct radish_error err;
    bool b = true;
    double d = 0.25;
    const char *s = "kept";

    assert_int_equal(json_get_bool(root, "b", &b, &err), RADISH_E_INVALID);
    assert_int_equal(json_get_double(root, "d", 0, 1, &d, &err), RADISH_E_INVALID);
    assert_int_equal(json_get_double(root, "big", 0, 2, &d, &err), RADISH_E_INVALID);
    assert_string_equal(err.msg, "big must be a number from 0 to 2");
    assert_int_equal(json_get_str(root, "s", &s, &err), RADISH_E_INVALID);
    assert_string_equal(err.msg, "s must be a string, not integer");
    assert_int_equal(json_get_str(root, "nul", &s, &err), RADISH_E_INVALID);
    assert_true(b && d == 0.25);
    assert_string_equal(s, "kept");
    yyjson_doc_free(doc);
}

static void test_types_have_names(void **state) {
    (void)state;
    yyjson_doc *doc = parse("[null, true, 1, 1.5, \"\", [], {}]");
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(json_type_name(yyjson_arr_get(yyjson_doc_get_root(doc), i)), names[i]);
    assert_string_equal(json_type_name(NULL), "nothing");
    yyjson_doc_free(doc);
}

static bool attempt_to_parse(void *user) {
    yyjson_doc *doc;
    struct radish_error err = {0};
    const char *text = user;
    const enum radish_status status = json_parse(text, strlen(text), 10, &doc, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        assert_null(doc);
        return false;
    }
    yyjson_doc_free(doc);
    return true;
}

static void test_each_failed_allocation_is_reported(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    char text[] =
        "{\"a\": [1, 2, 3, {\"b\": \"a longer string, with \\u00e9scapes\"}], \"c\": 1.5}";
    assert_true(alloc_fail_each(attempt_to_parse, text) >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_json_is_refused_with_its_offset),
        cmocka_unit_test(test_nesting_is_limited_exactly),
        cmocka_unit_test(test_a_million_brackets_are_no_stack_overflow),
        cmocka_unit_test(test_the_last_of_two_equal_keys_counts),
        cmocka_unit_test(test_absent_and_null_members_leave_the_default),
        cmocka_unit_test(test_members_of_the_right_type_are_read),
        cmocka_unit_test(test_members_of_a_wrong_type_or_range_name_themselves),
        cmocka_unit_test(test_floats_bools_and_strings_are_as_strict),
        cmocka_unit_test(test_types_have_names),
        cmocka_unit_test(test_each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
