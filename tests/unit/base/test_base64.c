/* Base64: RFC 4648's vectors, without padding too, and what is refused. */
#include "test.h"

#include "base/base64.h"

static void expect(const char *text, const char *want) {
    struct buf out = {0};
    buf_append_str(&out, "<");
    assert_true(base64_decode(text, strlen(text), &out));
    assert_string_equal(out.data + 1, want);
    buf_deinit(&out);
}

static void expect_refused(const char *text) {
    struct buf out = {0};
    buf_append_str(&out, "as it was");
    assert_false(base64_decode(text, strlen(text), &out));
    assert_string_equal(out.data, "as it was");
    assert_int_equal(out.len, 9);
    buf_deinit(&out);
}

static void test_the_vectors_of_the_standard_decode_with_and_without_padding(void **state) {
    (void)state;
    expect("", "");
    expect("Zg==", "f");
    expect("Zm8=", "fo");
    expect("Zm9v", "foo");
    expect("Zm9vYg==", "foob");
    expect("Zm9vYmE=", "fooba");
    expect("Zm9vYmFy", "foobar");
    expect("Zg", "f");
    expect("Zm9vYmE", "fooba");
    expect("+/8A", "\xFB\xFF");
}

static void test_what_is_not_base64_is_refused_and_changes_nothing(void **state) {
    (void)state;
    expect_refused("Z");
    expect_refused("Zm9vY");
    expect_refused("Zm9\n");
    expect_refused("Z===");
    expect_refused("====");
    expect_refused("Zg=a");
    expect_refused("Zh=="); /* bits left over */
    expect_refused("Zm_v");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_vectors_of_the_standard_decode_with_and_without_padding),
        cmocka_unit_test(test_what_is_not_base64_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
