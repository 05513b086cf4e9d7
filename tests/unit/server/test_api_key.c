/* test_api_key.c - which Authorization headers open the API. */
#include "server/http/api_key.h"
#include "server/http/once.h"
#include "test.h"

static void test_api_keys_accept_any_of_the_keys_and_nothing_else(void **state) {
    (void)state;
    const char *const values[] = {"alpha", "a-much-longer-key"};
    struct api_keys keys;
    assert_int_equal(api_keys_init(&keys, values, 2, NULL), RADISH_OK);

    assert_true(api_keys_accept(&keys, "Bearer alpha"));
    assert_true(api_keys_accept(&keys, "bearer a-much-longer-key"));
    assert_true(api_keys_accept(&keys, "Bearer  alpha "));
    const char *const wrong[] = {NULL,
                                 "",
                                 "Bearer",
                                 "Bearer ",
                                 "Bearer alph",
                                 "alpha",
                                 "Bearer alphaX",
                                 "Basic alpha",
                                 "Bearer alphb",
                                 "Bearer ALPHA"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(api_keys_accept(&keys, wrong[i]));

    api_keys_deinit(&keys);
}

static void test_api_keys_without_keys_accept_everything(void **state) {
    (void)state;
    struct api_keys keys;
    assert_int_equal(api_keys_init(&keys, NULL, 0, NULL), RADISH_OK);

    assert_true(api_keys_accept(&keys, NULL));
    assert_true(api_keys_accept(&keys, "Bearer whatever"));

    api_keys_deinit(&keys);
}

static void test_api_keys_refuse_an_empty_key(void **state) {
    (void)state;
    const char *const values[] = {"good", ""};
    struct api_keys keys;
    struct radish_error err;

    assert_int_equal(api_keys_init(&keys, values, 2, &err), RADISH_E_INVALID);

    assert_string_equal(err.field, "--api-key");
}

static void test_once_says_each_name_once_and_stops_when_full(void **state) {
    (void)state;
    static struct once once;
    once_init(&once);

    assert_true(once_add(&once, "seed"));
    assert_false(once_add(&once, "seed"));
    for (int i = 1; i < ONCE_NAMES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        assert_true(once_add(&once, name));
    }
    assert_false(once_add(&once, "one too many"));

    once_deinit(&once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_api_keys_accept_any_of_the_keys_and_nothing_else),
        cmocka_unit_test(test_api_keys_without_keys_accept_everything),
        cmocka_unit_test(test_api_keys_refuse_an_empty_key),
        cmocka_unit_test(test_once_says_each_name_once_and_stops_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
