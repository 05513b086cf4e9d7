/* test_namespace_key.c - no two different sets of fields share a namespace, by name or by request.
 */
#include "server/namespace_key.h"

#include "server/http/api_key.h"
#include "server_client.h"

#define COMPLETIONS "/v1/completions"

static void test_different_fields_never_meet(void **state) {
    (void)state;
    static const char *const texts[] = {NULL, "a", "b", "ab", "aa", "k", "s\1", "e\1a", "abs"};
    enum { N = sizeof texts / sizeof *texts, KEYS = 4, ALL = KEYS * N * N };
    static char keys[ALL][NAMESPACE_KEY_BYTES_MAX];
    static size_t lens[ALL];
    size_t n = 0;
    for (uint32_t key = 0; key < KEYS; key++)
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t j = 0; j < N; j++, n++)
                lens[n] =
                    namespace_key_write(key ? 96 + key : API_KEY_NONE, texts[i], texts[j], keys[n]);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(lens[i] == lens[j] && !memcmp(keys[i], keys[j], lens[i]));
    assert_int_equal(lens[0], 0); /* nothing given: the common one */
}

static void test_the_longest_fields_fit(void **state) {
    (void)state;
    static char text[OPENAI_NAMESPACE_BYTES_MAX + 1], key[NAMESPACE_KEY_BYTES_MAX];
    memset(text, 'x', OPENAI_NAMESPACE_BYTES_MAX);
    assert_int_equal(namespace_key_write(3, text, text, key), NAMESPACE_KEY_BYTES_MAX);
}

/* Asks, and returns the length of the namespace that the engine was given. */
static size_t ask(const struct fixture *f, const char *headers, const char *body,
                  char out[RADISH_NAMESPACE_MAX]) {
    struct answer a = client_request(f->port, "POST", COMPLETIONS, headers, body);
    if (a.status != 200) fail_msg("%d: %s", a.status, a.text);
    answer_free(&a);
    return fake_namespace(out);
}

static void test_requests_name_their_namespace(void **state) {
    (void)state;
    struct fixture f;
    char a[RADISH_NAMESPACE_MAX], b[RADISH_NAMESPACE_MAX];
    fixture_open(&f, NULL);

    assert_int_equal(ask(&f, "", "{\"prompt\":\"a\",\"max_tokens\":1}", a), 0);
    assert_int_equal(ask(&f, "", "{\"prompt\":\"a\",\"max_tokens\":1,\"cache_salt\":\"\"}", a), 0);
    size_t n_salt = ask(&f, "", "{\"prompt\":\"a\",\"max_tokens\":1,\"cache_salt\":\"x\"}", a);
    size_t n_extra = ask(&f, "", "{\"prompt\":\"a\",\"max_tokens\":1,\"extra_key\":\"x\"}", b);
    assert_int_equal(n_salt, n_extra);
    assert_memory_not_equal(a, b, n_salt);
    n_extra = ask(&f, "", "{\"prompt\":\"b\",\"max_tokens\":1,\"cache_salt\":\"x\"}", b);
    assert_memory_equal(a, b, n_extra);

    fixture_close(&f);
}

static void test_keys_are_isolated_where_there_are_several_or_as_asked(void **state) {
    (void)state;
    static const char *const one[] = {"alpha"}, *const two[] = {"alpha", "beta"};
    static const char body[] = "{\"prompt\":\"a\",\"max_tokens\":1}";
    static const struct {
        const char *const *keys;
        size_t n_keys;
        enum server_isolation isolation;
        bool separates;
    } cases[] = {{two, 2, SERVER_ISOLATION_AUTO, true}, {two, 2, SERVER_ISOLATION_OFF, false},
                 {two, 2, SERVER_ISOLATION_ON, true},   {one, 1, SERVER_ISOLATION_AUTO, false},
                 {one, 1, SERVER_ISOLATION_ON, true},   {NULL, 0, SERVER_ISOLATION_ON, false}};
    char a[RADISH_NAMESPACE_MAX], b[RADISH_NAMESPACE_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct server_options options = {.api_keys = cases[i].keys,
                                         .n_api_keys = cases[i].n_keys,
                                         .isolation = cases[i].isolation};
        struct fixture f;
        fixture_open(&f, &options);
        const char *alpha = cases[i].n_keys ? "Authorization: Bearer alpha\r\n" : "";
        size_t n_a = ask(&f, alpha, body, a);
        assert_int_equal(n_a != 0, cases[i].separates);
        if (cases[i].n_keys == 2) {
            size_t n_b = ask(&f, "Authorization: Bearer beta\r\n", body, b);
            assert_int_equal(n_a == n_b && !memcmp(a, b, n_a), !cases[i].separates);
        }
        fixture_close(&f);
    }
}

static void refuse(const struct fixture *f, const char *body, const char *field) {
    struct answer a = client_post(f->port, COMPLETIONS, body);
    assert_int_equal(a.status, 400);
    if (!strstr(a.text, field)) fail_msg("no %s in: %s", field, a.text);
    answer_free(&a);
}

static void test_names_and_priorities_are_checked(void **state) {
    (void)state;
    struct fixture f;
    static char body[2 * OPENAI_NAMESPACE_BYTES_MAX];
    fixture_open(&f, NULL);

    refuse(&f, "{\"prompt\":\"a\",\"extra_key\":5}", "\"param\":\"extra_key\"");
    refuse(&f, "{\"prompt\":\"a\",\"cache_salt\":[\"a\"]}", "\"param\":\"cache_salt\"");
    refuse(&f, "{\"prompt\":\"a\",\"cache_salt\":\"a\\u0000b\"}", "\"param\":\"cache_salt\"");
    refuse(&f, "{\"prompt\":\"a\",\"priority\":1.5}", "\"param\":\"priority\"");
    refuse(&f, "{\"prompt\":\"a\",\"priority\":3000000000}", "\"param\":\"priority\"");
    int n = snprintf(body, sizeof body, "{\"prompt\":\"a\",\"extra_key\":\"");
    memset(body + n, 'x', OPENAI_NAMESPACE_BYTES_MAX + 1);
    snprintf(body + n + OPENAI_NAMESPACE_BYTES_MAX + 1, 4, "\"}");
    refuse(&f, body, "\"param\":\"extra_key\"");

    fixture_close(&f);
}

static void test_a_priority_reaches_the_engine_or_is_warned_about(void **state) {
    (void)state;
    static const char body[] = "{\"prompt\":\"a\",\"max_tokens\":1,\"priority\":-7}";
    for (int has = 0; has < 2; has++) {
        struct fixture f;
        fixture_open(&f, NULL);
        server_close(f.server);
        fake.has_priorities = has;
        assert_int_equal(
            server_open(f.model, f.engine, &(struct server_options){0}, &f.server, NULL),
            RADISH_OK);
        f.port = server_port(f.server);
        struct answer a = client_post(f.port, COMPLETIONS, body);
        assert_int_equal(a.status, 200);
        assert_int_equal(fake.priority, -7);
        assert_int_equal(strstr(a.text, "X-Radish-Warning: priority has no effect") == NULL, has);
        answer_free(&a);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_different_fields_never_meet),
        cmocka_unit_test(test_the_longest_fields_fit),
        cmocka_unit_test(test_requests_name_their_namespace),
        cmocka_unit_test(test_keys_are_isolated_where_there_are_several_or_as_asked),
        cmocka_unit_test(test_names_and_priorities_are_checked),
        cmocka_unit_test(test_a_priority_reaches_the_engine_or_is_warned_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
