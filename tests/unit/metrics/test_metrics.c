/* What is counted comes out as Prometheus reads it: names, labels, buckets that add up. */
#include "test.h"

#include "metrics/metrics.h"
#include "metrics/metrics_text.h"

#include <math.h>
#include <pthread.h>

static struct buf out;

static int clear(void **state) {
    (void)state;
    buf_deinit(&out);
    buf_init(&out, 0);
    return 0;
}

static void assert_line(const char *line) {
    const char *at = out.data ? strstr(out.data, line) : NULL;
    size_t len = strlen(line);
    if (!at || (at != out.data && at[-1] != '\n') || at[len] != '\n')
        fail_msg("no line '%s' in:\n%s", line, out.data ? out.data : "");
}

static void assert_absent(const char *text) {
    if (strstr(out.data, text)) fail_msg("'%s' is in:\n%s", text, out.data);
}

static void test_a_family_has_help_and_type(void **state) {
    (void)state;
    metrics_text_family(&out, "a:b_total", METRICS_COUNTER, "Back\\slash, \"quotes\"\nand lines.");
    assert_string_equal(out.data, "# HELP a:b_total Back\\\\slash, \"quotes\"\\nand lines.\n"
                                  "# TYPE a:b_total counter\n");
}

static void test_label_values_are_escaped_and_made_valid(void **state) {
    (void)state;
    metrics_text_label(&out, "model_name", "a\"b\\c\nd\xff\xc3\xa9\xc3");
    metrics_text_label(&out, "empty", "");
    assert_string_equal(
        out.data, "model_name=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\",empty=\"\"");
}

static void test_numbers_are_short_exact_and_finite(void **state) {
    (void)state;
    const struct {
        double value;
        const char *text;
    } cases[] = {{0, "x 0\n"},
                 {-3, "x -3\n"},
                 {0.1, "x 0.1\n"},
                 {1.0 / 3, "x 0.33333333333333331\n"},
                 {123456789012, "x 123456789012\n"},
                 {1e22, "x 1e+22\n"},
                 {NAN, "x 0\n"},
                 {INFINITY, "x 0\n"},
                 {-INFINITY, "x 0\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf_clear(&out);
        metrics_text_sample(&out, "x", "", cases[i].value);
        assert_string_equal(out.data, cases[i].text);
    }
    buf_clear(&out);
    metrics_text_sample(&out, "x", "a=\"b\"", 1);
    assert_string_equal(out.data, "x{a=\"b\"} 1\n");
}

static void test_a_histogram_is_cumulative_and_ends_in_its_count(void **state) {
    (void)state;
    const double bounds[] = {.1, 1};
    const uint64_t counts[] = {2, 3, 1};
    metrics_text_histogram(&out, "h", "a=\"b\"", bounds, 2, counts, 7.5);
    assert_string_equal(out.data, "h_bucket{a=\"b\",le=\"0.1\"} 2\n"
                                  "h_bucket{a=\"b\",le=\"1\"} 5\n"
                                  "h_bucket{a=\"b\",le=\"+Inf\"} 6\n"
                                  "h_sum{a=\"b\"} 7.5\n"
                                  "h_count{a=\"b\"} 6\n");
    buf_clear(&out);
    metrics_text_histogram(&out, "h", "", bounds, 0, counts + 2, 1);
    assert_string_equal(out.data, "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n");
}

static struct metrics *open_engine_metrics(void) {
    struct metrics *m;
    assert_int_equal(metrics_create(METRICS_OWNER_ENGINE, NULL, &m, NULL), RADISH_OK);
    return m;
}

static void test_an_observation_goes_into_the_bucket_that_holds_it(void **state) {
    (void)state;
    double told[METRIC_COUNT] = {0};
    struct metrics *m = open_engine_metrics();
    const double seconds[] = {0, .1, .1000001, .39, 400, 400.5};
    for (uint32_t i = 0; i < 6; i++) metrics_observe(m, METRIC_TTFT, 0, seconds[i]);
    metrics_observe(m, METRIC_STAGES, METRICS_STAGE_PREFILL, .02);

    metrics_write(m, told, "model_name=\"m\"", &out);

    assert_line("# TYPE sglang:time_to_first_token_seconds histogram");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.1\"} 2");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.2\"} 3");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.4\"} 4");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"200\"} 4");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"400\"} 5");
    assert_line("sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 6");
    assert_line("sglang:time_to_first_token_seconds_count{model_name=\"m\"} 6");
    assert_line("sglang:e2e_request_latency_seconds_bucket{model_name=\"m\",le=\"2400\"} 0");
    assert_line("sglang:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.002\"} 0");
    assert_line("sglang:per_stage_req_latency_seconds_count{model_name=\"m\","
                "stage=\"prefill_forward\"} 1");
    assert_line("sglang:per_stage_req_latency_seconds_count{model_name=\"m\","
                "stage=\"prefill_waiting\"} 0");
    metrics_destroy(m);
}

static void test_what_is_told_is_written_and_what_is_kept_is_counted(void **state) {
    (void)state;
    double told[METRIC_COUNT] = {0};
    struct metrics *m = open_engine_metrics();
    told[METRIC_RUNNING] = 3;
    told[METRIC_CACHED_TOKENS] = 1e9;
    told[METRIC_TOKEN_USAGE] = NAN;
    metrics_count(m, METRIC_REQUESTS, /*is_streaming=*/1, 2);
    metrics_count(m, METRIC_REQUESTS, 1, 5);

    metrics_write(m, told, "model_name=\"m\"", &out);

    assert_line("sglang:num_running_reqs{model_name=\"m\"} 3");
    assert_line("sglang:cached_tokens_total{model_name=\"m\",cache_source=\"device\"} 1000000000");
    assert_line("sglang:token_usage{model_name=\"m\"} 0");
    assert_line("sglang:num_requests_total{model_name=\"m\",is_streaming=\"true\"} 7");
    assert_line("sglang:num_requests_total{model_name=\"m\",is_streaming=\"false\"} 0");
    assert_absent("http");
    metrics_destroy(m);
}

static void test_series_of_two_labels_appear_when_they_are_counted(void **state) {
    (void)state;
    const char *endpoints[] = {"/a", "/b"}, *codes[] = {"200", "404", "other"};
    const struct metrics_values values = {endpoints, 2, codes, 3};
    double told[METRIC_COUNT] = {0};
    struct metrics *m;
    assert_int_equal(metrics_create(METRICS_OWNER_SERVER, &values, &m, NULL), RADISH_OK);
    metrics_count(m, METRIC_HTTP_REQUESTS, 1 * 3 + 1, 4);

    metrics_write(m, told, "", &out);

    assert_line("radish:http_requests_total{endpoint=\"/b\",code=\"404\"} 4");
    assert_absent("endpoint=\"/a\"");
    assert_absent("code=\"200\"");
    assert_absent("sglang:");
    metrics_destroy(m);
}

/* Names as tools want them: no name twice, counters end in _total, and nothing else does. */
static void test_the_table_keeps_to_the_rules(void **state) {
    (void)state;
    static const char *const names[] = {
#define METRIC(id, owner, kind, store, name, label_a, label_b, buckets, help) name,
#include "metrics/metrics.def"
#undef METRIC
    };
    static const char *const kinds[] = {
#define METRIC(id, owner, kind, store, name, label_a, label_b, buckets, help) #kind,
#include "metrics/metrics.def"
#undef METRIC
    };
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        size_t len = strlen(names[i]);
        bool is_total = len > 6 && !strcmp(names[i] + len - 6, "_total");
        assert_int_equal(is_total, !strcmp(kinds[i], "COUNTER"));
        for (size_t j = 0; j < i; j++) assert_string_not_equal(names[i], names[j]);
    }
}

enum { COUNTED = 20000 };

static void *count_many(void *arg) {
    for (uint32_t i = 0; i < COUNTED; i++) metrics_count(arg, METRIC_REQUESTS, i % 2, 1);
    return NULL;
}

static void *observe_many(void *arg) {
    for (uint32_t i = 0; i < COUNTED; i++) metrics_observe(arg, METRIC_ITL, 0, .001 * (i % 50));
    return NULL;
}

/* Under ThreadSanitizer, too. */
static void test_threads_count_while_others_write_out(void **state) {
    (void)state;
    double told[METRIC_COUNT] = {0};
    struct metrics *m = open_engine_metrics();
    pthread_t threads[3];
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? count_many : observe_many, m), 0);
    for (uint32_t i = 0; i < 20; i++) {
        buf_clear(&out);
        metrics_write(m, told, "", &out);
        const char *inf = strstr(out.data, "inter_token_latency_seconds_bucket{le=\"+Inf\"} ");
        const char *count = strstr(out.data, "inter_token_latency_seconds_count ");
        assert_non_null(inf);
        assert_non_null(count);
        assert_int_equal(strtoul(strchr(inf, '}') + 1, NULL, 10),
                         strtoul(strchr(count, ' '), NULL, 10));
    }
    for (uint32_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);

    buf_clear(&out);
    metrics_write(m, told, "", &out);
    assert_line("sglang:num_requests_total{is_streaming=\"false\"} 20000");
    assert_line("sglang:num_requests_total{is_streaming=\"true\"} 20000");
    assert_line("sglang:inter_token_latency_seconds_count 20000");
    metrics_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_family_has_help_and_type, clear),
        cmocka_unit_test_setup(test_label_values_are_escaped_and_made_valid, clear),
        cmocka_unit_test_setup(test_numbers_are_short_exact_and_finite, clear),
        cmocka_unit_test_setup(test_a_histogram_is_cumulative_and_ends_in_its_count, clear),
        cmocka_unit_test_setup(test_an_observation_goes_into_the_bucket_that_holds_it, clear),
        cmocka_unit_test_setup(test_what_is_told_is_written_and_what_is_kept_is_counted, clear),
        cmocka_unit_test_setup(test_series_of_two_labels_appear_when_they_are_counted, clear),
        cmocka_unit_test_setup(test_the_table_keeps_to_the_rules, clear),
        cmocka_unit_test_setup(test_threads_count_while_others_write_out, clear),
    };
    buf_init(&out, 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_deinit(&out);
    return failed;
}
