/* test_origins.c - which pages and which names are let in, without a server around it. */
#include "server/http/origins.h"
#include "test.h"

#include "server/http/framing.h"

static void open_origins(struct origins *o, const char *first, const char *second) {
    const char *const values[] = {first, second};
    struct radish_error err;
    size_t n = second ? 2 : first ? 1 : 0;
    enum radish_status status = origins_init(o, values, n, "my.host.example", &err);
    if (status) fail_msg("%s", err.msg);
    o->is_guarded = o->is_loopback = true;
}

static void test_origins_take_origins_and_nothing_else(void **state) {
    (void)state;
    const char *const good[] = {"*",
                                "null",
                                "http://a",
                                "https://a.b:8443",
                                "http://[::1]:1",
                                "app://",
                                "app://obsidian.md",
                                "tauri://localhost"};
    const char *const bad[] = {"",           "a",          "http://",     "http://a/",
                               "http://a:",  "http://a:b", "http://a b",  "://a",
                               "http://a#b", "http://u@a", "http://[::1", "HTTP:/a"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct origins o;
        if (origins_init(&o, &good[i], 1, "h", NULL)) fail_msg("%s is refused", good[i]);
        assert_true(origins_has_any(&o));
        origins_deinit(&o);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct origins o;
        struct radish_error err;
        if (!origins_init(&o, &bad[i], 1, "h", &err)) fail_msg("%s is taken", bad[i]);
        assert_string_equal(err.field, "--cors-origin");
    }
}

static void test_origins_allow_what_was_given_whatever_its_case(void **state) {
    (void)state;
    struct origins o;
    open_origins(&o, "https://Chat.example", "http://localhost:5173");

    assert_true(origins_allow(&o, "https://chat.example"));
    assert_true(origins_allow(&o, "http://localhost:5173"));
    assert_false(origins_allow(&o, "http://localhost:51730"));
    assert_false(origins_allow(&o, "http://localhost"));
    assert_false(origins_allow(&o, ""));

    origins_deinit(&o);
}

struct row {
    struct origin_claim claim;
    bool is_open;
    enum origin_verdict verdict;
};

static void check_rows(const struct origins *o, const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        enum origin_verdict got = origins_judge(o, &rows[i].claim, rows[i].is_open);
        if (got != rows[i].verdict) fail_msg("row %zu: %d, not %d", i, got, rows[i].verdict);
    }
}

static void test_origins_judge_pages_by_origin_and_site(void **state) {
    (void)state;
    struct origins o;
    const struct row rows[] = {
        {{"localhost:1", NULL, NULL, NULL}, false, ORIGIN_FINE},
        {{NULL, NULL, NULL, NULL}, false, ORIGIN_FINE},
        {{"localhost:1", "http://localhost:1", "same-origin", NULL}, false, ORIGIN_FINE},
        {{"localhost:1", "http://localhost:2", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost", "http://localhost:80", NULL, NULL}, false, ORIGIN_FINE},
        {{"localhost", "https://localhost:443", NULL, NULL}, false, ORIGIN_FINE},
        {{"localhost", "https://localhost:80", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", "http://localhost:1.evil", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", "null", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", "", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{NULL, "http://a.example", NULL, NULL}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", "https://ok.example", "cross-site", NULL}, false, ORIGIN_FINE},
        {{"localhost:1", NULL, "cross-site", "no-cors"}, true, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", NULL, "cross-site", "navigate"}, true, ORIGIN_FINE},
        {{"localhost:1", NULL, "cross-site", "navigate"}, false, ORIGIN_FOREIGN_PAGE},
        {{"localhost:1", NULL, "none", "navigate"}, false, ORIGIN_FINE},
        {{"localhost:1", NULL, "same-origin", "no-cors"}, false, ORIGIN_FINE},
    };
    open_origins(&o, "https://ok.example", NULL);

    check_rows(&o, rows, sizeof rows / sizeof *rows);
    o.is_guarded = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(origins_judge(&o, &rows[i].claim, rows[i].is_open), ORIGIN_FINE);

    origins_deinit(&o);
}

static void test_origins_judge_names_on_loopback_only(void **state) {
    (void)state;
    struct origins o;
    const char *const ours[] = {
        "localhost", "LOCALHOST.", "a.localhost:80",     "127.0.0.1",
        "[::1]",     "box",        "my.host.example:30", "proxy.example:443",
        "box.local", "10.0.0.1:8", "db.internal",        ""};
    const char *const foreign[] = {"a.example",
                                   "localhost.a.example",
                                   "127.0.0.1.a.example",
                                   "my.host.example.a",
                                   "1.2.3.4a",
                                   "proxy.example.a",
                                   "xlocal.a",
                                   ".a.example"};
    open_origins(&o, "https://proxy.example", NULL);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        const struct origin_claim claim = {.host = ours[i]};
        if (origins_judge(&o, &claim, false)) fail_msg("%s is refused", ours[i]);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const struct origin_claim claim = {.host = foreign[i]};
        if (origins_judge(&o, &claim, true) != ORIGIN_FOREIGN_NAME)
            fail_msg("%s is taken", foreign[i]);
        o.is_loopback = false;
        assert_int_equal(origins_judge(&o, &claim, false), ORIGIN_FINE);
        o.is_loopback = true;
    }
    origins_deinit(&o);
}

static void test_framing_decodes_escapes_but_no_zero(void **state) {
    (void)state;
    const char *const rows[][2] = {{"/a%20b", "/a b"},
                                   {"/%2F%2f", "///"},
                                   {"/a%00b", "/a%00b"},
                                   {"/a%zz%4", "/a%zz%4"},
                                   {"%", "%"},
                                   {"", ""},
                                   {"/%e2%82%ac", "/\xE2\x82\xAC"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", rows[i][0]);
        assert_int_equal(framing_unescape(NULL, NULL, text), strlen(rows[i][1]));
        assert_string_equal(text, rows[i][1]);
    }
}

static void test_framing_takes_the_path_out_of_an_absolute_target(void **state) {
    (void)state;
    assert_string_equal(framing_path("/health"), "/health");
    assert_string_equal(framing_path("http://a:1/health"), "/health");
    assert_string_equal(framing_path("HTTPS://a"), "/");
    assert_string_equal(framing_path("*"), "*");
    assert_string_equal(framing_path("ftp://a/b"), "ftp://a/b");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origins_take_origins_and_nothing_else),
        cmocka_unit_test(test_origins_allow_what_was_given_whatever_its_case),
        cmocka_unit_test(test_origins_judge_pages_by_origin_and_site),
        cmocka_unit_test(test_origins_judge_names_on_loopback_only),
        cmocka_unit_test(test_framing_decodes_escapes_but_no_zero),
        cmocka_unit_test(test_framing_takes_the_path_out_of_an_absolute_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
