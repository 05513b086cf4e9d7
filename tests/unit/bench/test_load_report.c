/* test_load_report.c - figures of records that were made by hand. */
#include "base/json.h"
#include "load_report.h"
#include "test.h"

#include <math.h>

static const struct load_target target = {
    .url = "u", .label = "l", .is_calibrated = true, .tokens_per_word = 2, .tokens_fixed = 10};

/* A request that took ttft_ms to its first chunk and then the gaps. */
static struct load_record record(double sent_ms, double ttft_ms, const float *gaps, uint32_t n_gaps,
                                 uint32_t n_output) {
    double last = sent_ms + ttft_ms;
    struct load_record r = {.sent_ns = (uint64_t)(sent_ms * 1e6),
                            .due_ns = (uint64_t)(sent_ms * 1e6),
                            .first_ns = (uint64_t)(last * 1e6),
                            .n_chunks = n_gaps + 1,
                            .has_prompt_tokens = true,
                            .has_output_tokens = true,
                            .has_cached_tokens = true,
                            .prompt_tokens = 110,
                            .output_tokens = n_output,
                            .output_tokens_wanted = n_output,
                            .prompt_bytes = 100};
    r.gaps_ms = calloc(n_gaps + 1, sizeof *r.gaps_ms);
    assert_non_null(r.gaps_ms);
    for (uint32_t i = 0; i < n_gaps; i++) last += (double)(r.gaps_ms[i] = gaps[i]);
    r.last_ns = r.ended_ns = (uint64_t)(last * 1e6);
    return r;
}

static struct load_run run_of(const struct load_record *records, uint32_t n, double seconds) {
    struct load_run run = {.n_records = n, .duration_ns = (uint64_t)(seconds * 1e9)};
    run.records = calloc(n, sizeof *run.records);
    assert_non_null(run.records);
    memcpy(run.records, records, n * sizeof *records);
    return run;
}

static void assert_near(double value, double wanted) {
    if (!(fabs(value - wanted) <= 1e-3 * fabs(wanted) + 1e-6))
        fail_msg("%.9g is not %.9g", value, wanted);
}

static void test_load_report_has_the_figures_of_bench_serving(void **state) {
    (void)state;
    static const float gaps[] = {10, 30};
    struct load_record records[] = {record(0, 100, gaps, 2, 3), record(50, 200, gaps, 2, 3),
                                    record(100, 600, gaps, 2, 3)};
    struct load_run run = run_of(records, 3, 2);
    struct load_report report;

    load_report_make(&run, &target, &report);

    const double *f = report.figures;
    assert_near(f[LOAD_COMPLETED], 3);
    assert_near(f[LOAD_FAILED], 0);
    assert_near(f[LOAD_INPUT], 330);
    assert_near(f[LOAD_OUTPUT], 9);
    assert_near(f[LOAD_REQUEST_RATE], 1.5);
    assert_near(f[LOAD_OUTPUT_RATE], 4.5);
    assert_near(f[LOAD_TOTAL_RATE], 339 / 2.0);
    assert_near(f[LOAD_TTFT_MEAN], 300);
    assert_near(f[LOAD_TTFT_MEDIAN], 200);
    assert_near(f[LOAD_TTFT_P99], 200 + 400 * 0.98);
    assert_near(f[LOAD_TTFT_MAX], 600);
    assert_near(f[LOAD_E2E_MEAN], 340);
    assert_near(f[LOAD_CONCURRENCY], 3 * 0.34 / 2);
    assert_near(f[LOAD_TPOT_MEAN], 20);
    assert_near(f[LOAD_ITL_MEDIAN], 20);
    assert_near(f[LOAD_ITL_MAX], 30);
    assert_near(f[LOAD_GAP_MEDIAN], 30);
    assert_near(f[LOAD_SPREAD], 100);
    load_run_deinit(&run);
}

static void test_load_report_shares_a_gap_among_the_tokens_it_brought(void **state) {
    (void)state;
    static const float gaps[] = {80, 80, 80};
    struct load_record records[] = {record(0, 100, gaps, 3, 25)}; /* chunks of 8 tokens */
    struct load_run run = run_of(records, 1, 1);
    struct load_report report;

    load_report_make(&run, &target, &report);

    assert_near(report.figures[LOAD_ITL_MEDIAN], 10);
    assert_near(report.figures[LOAD_TPOT_MEAN], 10);
    assert_near(report.figures[LOAD_GAP_MAX], 80);
    load_run_deinit(&run);
}

static void test_load_report_holds_the_hit_rate_against_an_infinite_tree(void **state) {
    (void)state;
    struct load_record records[] = {record(0, 1, NULL, 0, 1), record(0, 1, NULL, 0, 1),
                                    record(0, 1, NULL, 0, 1)};
    records[1].shared_bytes = 50;
    records[1].cached_tokens = 40;
    records[2].shared_bytes = 100;
    struct load_run run = run_of(records, 3, 1);
    struct load_report report;

    load_report_make(&run, &target, &report);

    assert_near(report.figures[LOAD_HIT_RATE], 100.0 * 40 / 330);
    /* 10 fixed, 10 + 50 of 100, and all but one of 110. */
    assert_near(report.figures[LOAD_HIT_CEILING], 100.0 * (10 + 60 + 109) / 330);
    assert_near(report.figures[LOAD_COMPUTED], 290);
    assert_false(report.was_warm);

    run.records[0].cached_tokens = 109;
    run.records[1].cached_tokens = 109;
    load_report_make(&run, &target, &report);
    assert_true(report.was_warm);
    load_run_deinit(&run);
}

static void test_load_report_never_hides_failures_nor_invents_counts(void **state) {
    (void)state;
    struct load_record records[] = {record(0, 1, NULL, 0, 3), record(0, 1, NULL, 0, 3),
                                    record(0, 1, NULL, 0, 3)};
    struct buf text;
    records[0].failure = LOAD_FAILED_STATUS;
    records[0].status = 503;
    strcpy(records[0].why, "the queue is full");
    records[1].failure = LOAD_FAILED_TIMEOUT;
    records[2].has_prompt_tokens = records[2].has_cached_tokens = false;
    records[2].prompt_words = 7;
    records[2].output_tokens_wanted = 4;
    struct load_run run = run_of(records, 3, 1);
    struct load_report report;
    buf_init(&text, 0);

    load_report_make(&run, &target, &report);
    load_report_table(&report, NULL, 0, &text);

    assert_near(report.figures[LOAD_COMPLETED], 1);
    assert_near(report.figures[LOAD_FAILED], 2);
    assert_near(report.figures[LOAD_SHORT], 1);
    assert_near(report.figures[LOAD_INPUT], 24); /* 7 words of 2 tokens, and 10 */
    assert_false(report.has[LOAD_CACHED] || report.has[LOAD_HIT_RATE]);
    assert_non_null(strstr(text.data, "status 503: the queue is full"));
    assert_non_null(strstr(text.data, "timeout"));
    assert_non_null(strstr(text.data, "does not count prompts"));
    assert_non_null(strstr(text.data, "not known"));
    buf_deinit(&text);
    load_run_deinit(&run);
}

static void test_load_report_writes_json_that_reads_back(void **state) {
    (void)state;
    static const float gaps[] = {10, 30};
    struct load_record records[] = {record(0, 100, gaps, 2, 3), record(0, 1, NULL, 0, 0)};
    const struct load_label labels[] = {{"backend", "Backend:", "a \"quoted\" name"}};
    struct buf text;
    records[1].failure = LOAD_FAILED_CONNECT;
    struct load_run run = run_of(records, 2, 2);
    struct load_report report;
    buf_init(&text, 0);

    load_report_make(&run, &target, &report);
    load_report_json(&report, labels, 1, &run, &text);

    yyjson_doc *doc = yyjson_read(text.data, text.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    yyjson_val *requests = json_get(root, "requests");
    assert_string_equal(yyjson_get_str(json_get(root, "backend")), "a \"quoted\" name");
    assert_int_equal(yyjson_get_int(json_get(root, "completed")), 1);
    assert_near(yyjson_get_num(json_get(root, "mean_ttft_ms")), 100);
    assert_int_equal(yyjson_get_int(json_get(json_get(root, "failures"), "connect")), 1);
    assert_int_equal(yyjson_arr_size(requests), 2);
    assert_int_equal(yyjson_arr_size(json_get(yyjson_arr_get(requests, 0), "gaps_ms")), 2);
    assert_string_equal(yyjson_get_str(json_get(yyjson_arr_get(requests, 1), "failure")),
                        "connect");
    assert_null(strstr(text.data, "nan"));
    assert_null(strstr(text.data, "inf"));
    yyjson_doc_free(doc);
    buf_deinit(&text);
    load_run_deinit(&run);
}

static void test_load_report_compares_medians_of_rounds(void **state) {
    (void)state;
    static const double ttft[2][3] = {{100, 300, 110}, {50, 55, 1000}};
    const char *const labels[] = {"ours", "theirs"};
    struct load_report reports[6];
    struct buf text, json;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 3; i++) {
            struct load_record r = record(0, ttft[t][i], NULL, 0, 1);
            struct load_run run = run_of(&r, 1, 1);
            load_report_make(&run, &target, &reports[t * 3 + i]);
            load_run_deinit(&run);
        }
    buf_init(&text, 0);
    buf_init(&json, 0);

    load_report_compare(reports, labels, 2, 3, &text);
    load_report_compare_json(reports, labels, 2, 3, &json);

    yyjson_doc *doc = yyjson_read(json.data, json.len, 0);
    yyjson_val *medians = json_get(yyjson_doc_get_root(doc), "medians");
    yyjson_val *theirs = yyjson_arr_get(medians, 1);
    assert_near(yyjson_get_num(json_get(yyjson_arr_get(medians, 0), "median_ttft_ms")), 110);
    assert_near(yyjson_get_num(json_get(theirs, "median_ttft_ms")), 55);
    assert_near(yyjson_get_num(json_get(json_get(theirs, "as_good_as_first"), "median_ttft_ms")),
                2);
    assert_non_null(strstr(text.data, "110.00 (100.00 to 300.00)"));
    assert_non_null(strstr(text.data, "55.00 (50.00 to 1000.00) 2.00x"));
    yyjson_doc_free(doc);
    buf_deinit(&text);
    buf_deinit(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_report_has_the_figures_of_bench_serving),
        cmocka_unit_test(test_load_report_shares_a_gap_among_the_tokens_it_brought),
        cmocka_unit_test(test_load_report_holds_the_hit_rate_against_an_infinite_tree),
        cmocka_unit_test(test_load_report_never_hides_failures_nor_invents_counts),
        cmocka_unit_test(test_load_report_writes_json_that_reads_back),
        cmocka_unit_test(test_load_report_compares_medians_of_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
