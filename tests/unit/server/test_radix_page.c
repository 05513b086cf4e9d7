/* test_radix_page.c - GET /radix, GET /radix/tree and POST /abort_request over the fake engine: who
 * may see what, and which requests end. */
#include "server_client.h"

#define COMPLETIONS "/v1/completions"
#define ALPHA       "Authorization: Bearer alpha\r\n"
#define BETA        "Authorization: Bearer beta\r\n"

static const char *const two_keys[] = {"alpha", "beta"};

static struct answer get(const struct fixture *f, const char *headers) {
    return client_request(f->port, "GET", "/radix", headers, NULL);
}

static void check_has(const struct answer *a, const char *needle) {
    if (!strstr(a->text, needle)) fail_msg("no %s in: %s", needle, a->text);
}

static void test_the_page_shows_counts_prefixes_and_misses(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    struct answer a = get(&f, "");

    assert_int_equal(a.status, 200);
    check_has(&a, "{\"enabled\":true,\"eviction_policy\":\"lru\",\"schedule_policy\":\"lpm\","
                  "\"page_size\":1,\"nodes\":3,\"namespaces\":1,");
    check_has(&a, "\"tokens\":{\"total\":100000,\"free\":99992,\"cached\":7,\"evictable\":5,"
                  "\"pinned\":2,\"private\":1}");
    check_has(&a, "\"prefixes\":[{\"tokens\":3,\"hits\":4,\"pins\":1,\"age\":2,\"text\":\"abc\"}]");
    check_has(&a, "\"misses\":[{\"request\":9,\"seconds_ago\":1.500,\"prompt_tokens\":6,"
                  "\"cached_tokens\":3,\"reason\":\"evicted\",\"position\":3,\"token\":100,"
                  "\"text\":\"d\",\"text_before\":\"abc\"}]}");
    answer_free(&a);
    fixture_close(&f);
}

static void test_the_page_shows_no_text_where_keys_are_isolated(void **state) {
    (void)state;
    struct server_options options = {.api_keys = two_keys, .n_api_keys = 2};
    struct fixture f;
    fixture_open(&f, &options);
    struct answer a = get(&f, "");
    assert_int_equal(a.status, 401);
    answer_free(&a);

    a = get(&f, BETA);
    assert_int_equal(a.status, 200);
    check_has(&a, "\"prefixes\":[{\"tokens\":3,\"hits\":4,\"pins\":1,\"age\":2}]");
    check_has(&a, "\"reason\":\"evicted\",\"position\":3}]");
    assert_null(strstr(a.text, "abc"));
    assert_null(strstr(a.text, "\"token\""));
    answer_free(&a);
    fixture_close(&f);

    options.isolation = SERVER_ISOLATION_OFF;
    fixture_open(&f, &options);
    a = get(&f, BETA);
    check_has(&a, "\"text\":\"abc\"");
    answer_free(&a);
    fixture_close(&f);
}

static void test_the_page_of_a_server_without_cache_or_while_it_stops(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_cache_off = true;
    struct answer a = get(&f, "");
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "{\"enabled\":false}");
    answer_free(&a);
    fake.is_stopped = true;
    a = get(&f, "");
    assert_int_equal(a.status, 503);
    check_has(&a, "Retry-After");
    answer_free(&a);
    fixture_close(&f);
}

/* ---- the tree ---- */

static struct answer get_tree(const struct fixture *f, const char *headers) {
    return client_request(f->port, "GET", "/radix/tree", headers, NULL);
}

static void test_the_tree_is_a_list_with_parents_first(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    struct answer a = get_tree(&f, "");
    assert_int_equal(a.status, 200);
    assert_string_equal(
        a.body,
        "{\"enabled\":true,\"nodes\":4,\"tokens\":9,\"has_text\":true,\"tree\":["
        "{\"id\":\"1.2\",\"parent\":-1,\"namespace\":3,\"tokens\":3,\"tokens_path\":3,"
        "\"tokens_below\":6,\"nodes_below\":3,\"pins\":1,\"hits\":4,\"age\":5,\"text\":\"abc\","
        "\"text_tokens\":3},"
        "{\"id\":\"5.6\",\"parent\":0,\"namespace\":3,\"tokens\":4,\"tokens_path\":7,"
        "\"tokens_below\":0,\"nodes_below\":0,\"pins\":0,\"hits\":0,\"age\":7,\"text\":\"d\","
        "\"text_tokens\":1}]}");
    answer_free(&a);

    fake.is_cache_off = true;
    a = get_tree(&f, "");
    assert_string_equal(a.body, "{\"enabled\":false}");
    answer_free(&a);
    fake.is_stopped = true;
    a = get_tree(&f, "");
    assert_int_equal(a.status, 503);
    answer_free(&a);
    fixture_close(&f);
}

static void test_the_tree_shows_no_text_where_keys_are_isolated(void **state) {
    (void)state;
    struct server_options options = {.api_keys = two_keys, .n_api_keys = 2};
    struct fixture f;
    fixture_open(&f, &options);
    struct answer a = get_tree(&f, "");
    assert_int_equal(a.status, 401);
    answer_free(&a);
    a = get_tree(&f, BETA);
    assert_int_equal(a.status, 200);
    check_has(&a, "\"has_text\":false");
    check_has(&a, "\"age\":5},{");
    assert_null(strstr(a.text, "abc"));
    assert_null(strstr(a.text, "text_tokens"));
    answer_free(&a);
    fixture_close(&f);
}

/* ---- aborts ---- */

static struct answer abort_with(const struct fixture *f, const char *headers, const char *body) {
    return client_request(f->port, "POST", "/abort_request", headers, body);
}

static void check_abort(const struct fixture *f, const char *headers, const char *body,
                        const char *reply) {
    struct answer a = abort_with(f, headers, body);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, reply);
    answer_free(&a);
}

static void check_aborted(int fd) {
    struct answer a = client_read_all(fd);
    assert_int_equal(a.status, 200);
    check_has(&a, "\"finish_reason\":\"abort\"");
    answer_free(&a);
}

/* Opens a request; waits until the engine has it. */
static int open_one(struct fixture *f, const char *rid, const char *rest, uint32_t n) {
    char body[256];
    snprintf(body, sizeof body, "{\"prompt\":\"abc\",\"rid\":\"%s\"%s}", rid, rest);
    int fd = client_post_open(f->port, COMPLETIONS, body);
    fixture_wait_requests(f, n);
    return fd;
}

static void test_an_abort_takes_the_exact_id_in_every_phase(void **state) {
    (void)state;
    static const char *const rests[] = {"", ",\"stream\":true", ",\"n\":3"};
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        struct fixture f;
        fixture_open(&f, NULL);
        fake.is_held = true; /* in the queue */
        int one = open_one(&f, "req-1", rests[i], 1);
        int ten = open_one(&f, "req-10", rests[i], 2);
        check_abort(&f, "", "{\"rid\":\"req\"}", "{\"success\":true,\"aborted\":0}");
        check_abort(&f, "", "{\"rid\":\"req-1\"}", "{\"success\":true,\"aborted\":1}");
        check_aborted(one);
        fixture_wait_requests(&f, 1);
        fake.step_us = 1000;
        fake.is_held = false; /* decoding */
        check_abort(&f, "", "{\"rid\":\"req-10\"}", "{\"success\":true,\"aborted\":1}");
        check_aborted(ten);
        fixture_wait_free(&f);
        assert_int_equal(fake.n_aborts, 2);
        check_abort(&f, "", "{\"rid\":\"req-10\"}", "{\"success\":true,\"aborted\":0}");
        fixture_close(&f);
    }
}

static void test_abort_all_ends_everything(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    int fds[3];
    for (uint32_t i = 0; i < 3; i++) fds[i] = open_one(&f, "same", "", i + 1);
    check_abort(&f, "", "{\"abort_all\":true}", "{\"success\":true,\"aborted\":3}");
    for (uint32_t i = 0; i < 3; i++) check_aborted(fds[i]);
    fixture_wait_free(&f);
    fixture_close(&f);
}

static void test_a_key_aborts_its_own_requests_only(void **state) {
    (void)state;
    struct server_options options = {.api_keys = two_keys, .n_api_keys = 2};
    struct fixture f;
    fixture_open(&f, &options);
    fake.is_held = true;
    static const char body[] = "{\"prompt\":\"abc\",\"rid\":\"mine\"}";
    char head[512];
    snprintf(head, sizeof head,
             "POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" ALPHA
             "Content-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    int fd = client_connect(f.port);
    client_send_str(fd, head);
    fixture_wait_requests(&f, 1);

    struct answer a = abort_with(&f, "", "{\"rid\":\"mine\"}");
    assert_int_equal(a.status, 401);
    answer_free(&a);
    check_abort(&f, BETA, "{\"rid\":\"mine\"}", "{\"success\":true,\"aborted\":0}");
    check_abort(&f, BETA, "{\"abort_all\":true}", "{\"success\":true,\"aborted\":0}");
    check_abort(&f, ALPHA, "{\"abort_all\":true}", "{\"success\":true,\"aborted\":1}");
    check_aborted(fd);
    fixture_close(&f);
}

static void test_an_abort_says_what_it_needs(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{}", "{\"rid\":\"\"}", "{\"rid\":5}", "{\"abort_all\":false}", "{\"abort_all\":1}", "[]",
        ""};
    struct fixture f;
    fixture_open(&f, NULL);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct answer a = abort_with(&f, "", bodies[i]);
        if (a.status != 400) fail_msg("%s: %s", bodies[i], a.text);
        answer_free(&a);
    }
    static char big[70000];
    memset(big, ' ', sizeof big - 1);
    struct answer a = abort_with(&f, "", big);
    assert_int_equal(a.status, 400);
    check_has(&a, "65536");
    answer_free(&a);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_page_shows_counts_prefixes_and_misses),
        cmocka_unit_test(test_the_page_shows_no_text_where_keys_are_isolated),
        cmocka_unit_test(test_the_page_of_a_server_without_cache_or_while_it_stops),
        cmocka_unit_test(test_the_tree_is_a_list_with_parents_first),
        cmocka_unit_test(test_the_tree_shows_no_text_where_keys_are_isolated),
        cmocka_unit_test(test_an_abort_takes_the_exact_id_in_every_phase),
        cmocka_unit_test(test_abort_all_ends_everything),
        cmocka_unit_test(test_a_key_aborts_its_own_requests_only),
        cmocka_unit_test(test_an_abort_says_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
