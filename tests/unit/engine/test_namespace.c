/* Namespaces: names to numbers and back to nothing; and that what is shared is shared with equals
 * only, whatever bytes they are called by. */
#include "test.h"

#include "alloc_fail.h"
#include "base/rng.h"
#include "engine/namespace.h"
#include "engine_client.h"
#include "engine_int.h"

static void test_equal_names_have_equal_numbers_and_others_do_not(void **state) {
    (void)state;
    struct namespaces names;
    uint32_t a, b, c, d, e, none;
    namespaces_init(&names, 1);
    assert_true(namespaces_take(&names, "ab", 2, &a));
    assert_true(namespaces_take(&names, "abc", 3, &b));
    assert_true(namespaces_take(&names, "ab\0", 3, &c));
    assert_true(namespaces_take(&names, "\0ab", 3, &d));
    assert_true(namespaces_take(&names, "ab", 2, &e));
    assert_true(namespaces_take(&names, NULL, 0, &none));

    assert_int_equal(a, e);
    assert_int_equal(none, 0);
    assert_true(a && b && c && d);
    assert_true(a != b && a != c && a != d && b != c && b != d && c != d);
    namespaces_deinit(&names);
}

/* Against a flat list: numbers are unique among the names that are in use. */
static void test_names_that_nobody_has_are_forgotten(void **state) {
    (void)state;
    enum { NAMES = 500, STEPS = 20000 };
    struct namespaces names;
    static uint32_t number[NAMES], n_requests[NAMES];
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    namespaces_init(&names, 7);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t random = rng_u64(seed, i);
        uint32_t k = (uint32_t)(random % NAMES);
        char key[32];
        size_t len = (size_t)snprintf(key, sizeof key, "name %u", k);
        if (random >> 32 & 1) {
            uint32_t before = number[k];
            assert_true(namespaces_take(&names, key, len, &number[k]));
            if (n_requests[k]++) assert_int_equal(number[k], before);
            for (uint32_t j = 0; j < NAMES; j++)
                if (j != k && n_requests[j]) assert_int_not_equal(number[j], number[k]);
        } else if (n_requests[k]) {
            namespaces_give(&names, number[k]);
            n_requests[k]--;
        }
        namespaces_sweep(&names, NULL);
    }
    for (uint32_t k = 0; k < NAMES; k++)
        while (n_requests[k]) {
            namespaces_give(&names, number[k]);
            n_requests[k]--;
        }
    for (uint32_t i = 0; i < 200; i++) namespaces_sweep(&names, NULL);
    assert_int_equal(names.n_entries, 0);
    assert_int_equal(names.n_bytes, 0);
    namespaces_deinit(&names);
}

static void test_names_that_fill_their_room_are_refused(void **state) {
    (void)state;
    struct namespaces names;
    uint32_t number, n = 0;
    namespaces_init(&names, 1);
    names.n_bytes_max = 4000;
    while (namespaces_take(&names, &n, sizeof n, &number)) n++;
    assert_in_range(n, 50, 500);
    assert_int_equal(number, 0);
    uint32_t first = 0;
    assert_true(namespaces_take(&names, &first, sizeof first, &number)); /* it is there */
    namespaces_deinit(&names);
}

static bool attempt_take(void *user) {
    struct namespaces names;
    uint32_t number;
    bool is_done = true;
    (void)user;
    namespaces_init(&names, 1);
    for (uint32_t i = 0; i < 200 && is_done; i++)
        is_done = namespaces_take(&names, &i, sizeof i, &number);
    namespaces_deinit(&names);
    return is_done;
}

static void test_failed_allocations_refuse_a_name_and_leak_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_take, NULL) > 200);
}

/* ---- through the engine ---- */

static struct radish_model *model;
static struct radish_engine *engine;
static int32_t prompt[50];

static uint32_t cached(struct client *client, const char *key, size_t len) {
    struct radish_request request = client_request(prompt, 50, 2);
    request.namespace_key = key;
    request.namespace_len = len;
    client_run(client, engine, &request);
    return client->choices[0].usage.cached_tokens;
}

static void test_only_equal_namespaces_share(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 300, .context_tokens = 256};
    client_open_engine("llama", &options, &model, &engine);
    struct client *client = client_create();
    for (int32_t i = 0; i < 50; i++) prompt[i] = i;

    assert_int_equal(cached(client, NULL, 0), 0);
    assert_int_equal(cached(client, NULL, 0), 49);
    assert_int_equal(cached(client, "a", 1), 0);
    assert_int_equal(cached(client, "a\0", 2), 0);
    assert_int_equal(cached(client, "a", 1), 49);
    assert_int_equal(cached(client, "a\0", 2), 49);
    assert_int_equal(cached(client, "", 0), 49);

    /* More names than the pool has room for: their numbers come back with their slots. */
    for (uint32_t i = 0; i < 300; i++) {
        char key[16];
        size_t len = (size_t)snprintf(key, sizeof key, "key %u", i);
        assert_int_equal(cached(client, key, len), 0);
    }
    client_assert_baseline(engine);
    pthread_mutex_lock(&engine->lock);
    uint32_t n_entries = engine->namespaces.n_entries;
    pthread_mutex_unlock(&engine->lock);
    assert_in_range(n_entries, 1, 40);

    radish_engine_close(engine);
    radish_model_close(model);
    client_destroy(client);
}

static void test_names_without_room_are_served_without_cache(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 300, .context_tokens = 256};
    client_open_engine("llama", &options, &model, &engine);
    struct client *client = client_create();
    pthread_mutex_lock(&engine->lock);
    engine->namespaces.n_bytes_max = 10;
    pthread_mutex_unlock(&engine->lock);

    assert_int_equal(cached(client, "a", 1), 0);
    assert_int_equal(cached(client, "a", 1), 0);
    assert_int_equal(cached(client, NULL, 0), 0);
    assert_int_equal(cached(client, NULL, 0), 49);

    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
    client_destroy(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_names_have_equal_numbers_and_others_do_not),
        cmocka_unit_test(test_names_that_nobody_has_are_forgotten),
        cmocka_unit_test(test_names_that_fill_their_room_are_refused),
        cmocka_unit_test(test_failed_allocations_refuse_a_name_and_leak_nothing),
        cmocka_unit_test(test_only_equal_namespaces_share),
        cmocka_unit_test(test_names_without_room_are_served_without_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
