/* test_api_key.c - which Authorization headers open the API. */
#include "server/http/api_key.h"
#include "server/http/once.h"
#include "test.h"

#include "base/clock.h"

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

/* A header that holds the key alone. */
static void test_api_keys_come_bare_too_and_tell_which(void **state) {
    (void)state;
    const char *const values[] = {"alpha", "beta"};
    struct api_keys keys;
    uint32_t idx = 0;
    assert_int_equal(api_keys_init(&keys, values, 2, NULL), RADISH_OK);

    assert_true(api_keys_find_bare(&keys, " beta ", &idx));
    assert_int_equal(idx, 1);
    assert_false(api_keys_find_bare(&keys, "Bearer beta", &idx));
    assert_int_equal(idx, API_KEY_NONE);
    assert_false(api_keys_find_bare(&keys, NULL, &idx));
    assert_false(api_keys_find_bare(&keys, "", &idx));

    api_keys_deinit(&keys);
}

/* The least of many times, so that other programs on the machine do not count. */
static uint64_t least_ns(const struct api_keys *keys, const char *guess) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 300; i++) {
        uint32_t idx;
        uint64_t begin_ns = clock_ns();
        for (int k = 0; k < 20; k++) api_keys_find_bare(keys, guess, &idx);
        uint64_t took = clock_ns() - begin_ns;
        if (took < least) least = took;
    }
    return least;
}

/* A comparison that stops at the first difference is some hundred times faster for a guess that is
 * wrong at once than for one that is wrong at its end, or with the first of many keys. */
static void test_api_keys_take_as_long_for_a_bad_guess_as_for_a_good_one(void **state) {
    (void)state;
    static char key[API_KEY_BYTES_MAX + 1], first[sizeof key], last[sizeof key];
    const char *const values[] = {key, "other", "third"};
    struct api_keys keys;
    memset(key, 'k', API_KEY_BYTES_MAX);
    memcpy(first, key, sizeof key);
    memcpy(last, key, sizeof key);
    first[0] = last[API_KEY_BYTES_MAX - 1] = 'x';
    assert_int_equal(api_keys_init(&keys, values, 3, NULL), RADISH_OK);

    uint64_t right_ns = least_ns(&keys, key), first_ns = least_ns(&keys, first);
    uint64_t last_ns = least_ns(&keys, last), short_ns = least_ns(&keys, "k");

    if (first_ns * 3 < last_ns || first_ns * 3 < right_ns || short_ns * 4 < right_ns)
        fail_msg("ns: right %llu, wrong at once %llu, wrong at its end %llu, short %llu",
                 (unsigned long long)right_ns, (unsigned long long)first_ns,
                 (unsigned long long)last_ns, (unsigned long long)short_ns);
    api_keys_deinit(&keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_api_keys_accept_any_of_the_keys_and_nothing_else),
        cmocka_unit_test(test_api_keys_without_keys_accept_everything),
        cmocka_unit_test(test_api_keys_refuse_an_empty_key),
        cmocka_unit_test(test_api_keys_come_bare_too_and_tell_which),
        cmocka_unit_test(test_api_keys_take_as_long_for_a_bad_guess_as_for_a_good_one),
        cmocka_unit_test(test_once_says_each_name_once_and_stops_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
