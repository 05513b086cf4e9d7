/* test_json_out.c - what is written reads back as it was. */
#include "server/json_out.h"
#include "test.h"

#include <math.h>
#include <yyjson.h>

static void test_json_out_string_reads_back(void **state) {
    (void)state;
    char all[127];
    for (int i = 0; i < 127; i++) all[i] = (char)(i + 1);
    const struct {
        const char *text;
        size_t len;
    } rows[] = {{"", 0},     {"plain", 5}, {"\"\\/\b\f\n\r\t", 8},
                {"a\0b", 3}, {all, 127},   {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        buf_init(&out, 0);

        json_out_string(&out, rows[i].text, rows[i].len);

        yyjson_doc *doc = yyjson_read(out.data, out.len, 0);
        assert_non_null(doc);
        assert_int_equal(yyjson_get_len(yyjson_doc_get_root(doc)), rows[i].len);
        assert_memory_equal(yyjson_get_str(yyjson_doc_get_root(doc)), rows[i].text, rows[i].len);
        yyjson_doc_free(doc);
        buf_deinit(&out);
    }
}

static void test_json_out_string_replaces_bytes_that_are_no_utf8(void **state) {
    (void)state;
    struct buf out;
    buf_init(&out, 0);

    json_out_string(&out, "a\xFFz\xE2\x82", 5);

    assert_string_equal(out.data, "\"a\xEF\xBF\xBDz\xEF\xBF\xBD\"");
    buf_deinit(&out);
}

static void check_logprob(float value, double want) {
    struct buf out;
    buf_init(&out, 0);
    json_out_logprob(&out, value);
    yyjson_doc *doc = yyjson_read(out.data, out.len, 0);
    assert_non_null(doc);
    assert_true(yyjson_get_num(yyjson_doc_get_root(doc)) == want);
    yyjson_doc_free(doc);
    buf_deinit(&out);
}

static void test_json_out_logprob_is_never_infinite(void **state) {
    (void)state;
    check_logprob(-INFINITY, -9999);
    check_logprob(INFINITY, -9999);
    check_logprob(NAN, -9999);
}

static void test_json_out_logprob_keeps_every_float(void **state) {
    (void)state;
    struct buf out;
    buf_init(&out, 0);

    json_out_logprob(&out, -0.100000001f);

    assert_true(strtof(out.data, NULL) == -0.100000001f);
    buf_deinit(&out);
    check_logprob(0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_out_string_reads_back),
        cmocka_unit_test(test_json_out_string_replaces_bytes_that_are_no_utf8),
        cmocka_unit_test(test_json_out_logprob_is_never_infinite),
        cmocka_unit_test(test_json_out_logprob_keeps_every_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
