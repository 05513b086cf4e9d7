/* test_generate.c - /generate over real sockets and the fake engine: what a real engine cannot be
 * made to do on time. What it computes is in tests/server/test_generate.py. */
#include "server_client.h"

#include <unistd.h>
#include <yyjson.h>

#define GENERATE "/generate"
#define GREEDY   "\"sampling_params\":{\"temperature\":0,\"max_new_tokens\":4}"

static void check_holds(const struct answer *a, const char *needle) {
    if (!strstr(a->text, needle)) fail_msg("no %s in: %s", needle, a->text);
}

static void check_lacks(const struct answer *a, const char *needle) {
    if (strstr(a->text, needle)) fail_msg("%s in: %s", needle, a->text);
}

static void test_generate_words_a_result_as_sglang_does(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    struct answer a = client_post(f.port, GENERATE, "{\"text\":\"abc\",\"rid\":\"r\"," GREEDY "}");
    assert_int_equal(a.status, 200);
    check_holds(&a, "{\"text\":\"abca\",\"output_ids\":[97,98,99,97],\"meta_info\":{\"id\":\"r\","
                    "\"finish_reason\":{\"type\":\"length\",\"length\":4},\"prompt_tokens\":4,"
                    "\"weight_version\":\"default\",\"total_retractions\":0,"
                    "\"completion_tokens\":4,\"cached_tokens\":2,\"e2e_latency\":0.");
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_names_end_tokens_and_stop_strings(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    struct answer a = client_post(f.port, GENERATE, "{\"input_ids\":[97,257]}");
    check_holds(&a, "\"finish_reason\":{\"type\":\"stop\",\"matched\":257}");
    answer_free(&a);
    a = client_post(f.port, GENERATE,
                    "{\"text\":\"a\\\"b\",\"sampling_params\":{\"stop\":\"\\\"b\"}}");
    check_holds(&a, "\"text\":\"a\"");
    check_holds(&a, "\"finish_reason\":{\"type\":\"stop\",\"matched\":\"\\\"b\"}");
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_lists_logprobs_as_triples(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    struct answer a = client_post(
        f.port, GENERATE,
        "{\"input_ids\":[97,98,99],\"return_logprob\":true,\"logprob_start_len\":1,"
        "\"top_logprobs_num\":2,\"token_ids_logprob\":[5,200],\"return_text_in_logprobs\":true,"
        "\"sampling_params\":{\"max_new_tokens\":1}}");
    check_holds(&a, "\"input_token_logprobs\":[[null,98,\"b\"],[-0.5,99,\"c\"]],"
                    "\"input_top_logprobs\":[null,[[-0.5,99,\"c\"],[-1.5,100,\"d\"]]],"
                    "\"input_token_ids_logprobs\":[null,[[-5,5,\"\\u0005\"],"
                    "[-200,200,\"\xef\xbf\xbd\"]]],"
                    "\"output_token_logprobs\":[[-0.5,97,\"a\"]],"
                    "\"output_top_logprobs\":[[[-0.5,97,\"a\"],[-1.5,98,\"b\"]]],"
                    "\"output_token_ids_logprobs\":[[[-5,5,\"\\u0005\"],"
                    "[-200,200,\"\xef\xbf\xbd\"]]]}}");
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_says_no_infinities(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.has_bad_logprobs = true;
    struct answer a = client_post(f.port, GENERATE,
                                  "{\"input_ids\":[97,98],\"return_logprob\":true,"
                                  "\"logprob_start_len\":0,\"top_logprobs_num\":2,"
                                  "\"token_ids_logprob\":[5]," GREEDY "}");
    assert_int_equal(a.status, 200);
    check_holds(&a, "\"input_token_logprobs\":[[null,97,null],[-9999.0,98,null]]");
    check_holds(&a, "\"output_token_ids_logprobs\":[[[-9999.0,5,null]]");
    yyjson_doc *doc = yyjson_read(a.body, strlen(a.body), 0);
    assert_non_null(doc);
    yyjson_doc_free(doc);
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_stream_is_cumulative_and_indexed_in_batches(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.step_us = 20000;
    struct answer a =
        client_post(f.port, GENERATE, "{\"text\":[\"abc\",\"x\"],\"stream\":true," GREEDY "}");
    check_holds(&a, "data: {\"text\":\"a\",\"output_ids\":[97],");
    check_holds(&a, "data: {\"text\":\"ab\",\"output_ids\":[97,98],");
    check_holds(&a, "data: {\"text\":\"abca\",\"output_ids\":[97,98,99,97],");
    check_holds(&a, "data: {\"text\":\"xxxx\",\"output_ids\":[120,120,120,120],");
    check_holds(&a, "\"finish_reason\":null");
    check_holds(&a, "},\"index\":1}\n\n");
    check_holds(&a, "data: [DONE]\n\n");
    answer_free(&a);
    a = client_post(f.port, GENERATE, "{\"text\":\"abc\",\"stream\":true," GREEDY "}");
    check_lacks(&a, "\"index\"");
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_aborted_in_the_queue_ends_as_a_result(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    int fd =
        client_post_open(f.port, GENERATE, "{\"text\":[\"a\",\"b\"],\"rid\":\"r\"," GREEDY "}");
    fixture_wait_requests(&f, 2);
    struct answer a = client_post(f.port, "/abort_request", "{\"rid\":\"r_1\"}");
    check_holds(&a, "\"aborted\":1");
    answer_free(&a);
    fixture_wait_requests(&f, 1);
    fake.is_held = false;
    a = client_read_all(fd);
    assert_int_equal(a.status, 200);
    check_holds(&a, "{\"text\":\"aaaa\"");
    check_holds(&a, "{\"text\":\"\",\"output_ids\":[],\"meta_info\":{\"id\":\"r_1\","
                    "\"finish_reason\":{\"type\":\"abort\",\"message\":\"");
    answer_free(&a);
    close(fd);
    fixture_close(&f);
}

static void test_generate_failures_are_errors_before_and_events_behind_the_first_chunk(
    void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.fails_at_once = true;
    struct answer a = client_post(f.port, GENERATE, "{\"text\":\"abc\",\"stream\":true}");
    assert_int_equal(a.status, 500);
    answer_free(&a);
    fake.fails_at_once = false;
    fake.error_after = 3;
    fake.step_us = 20000;
    a = client_post(f.port, GENERATE, "{\"text\":\"abc\",\"stream\":true}");
    assert_int_equal(a.status, 200);
    check_holds(&a, "data: {\"text\":\"ab\"");
    check_holds(&a, "data: {\"error\":{");
    check_holds(&a, "data: [DONE]\n\n");
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_stream_that_says_too_much_is_ended(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.reply_bytes_max = 2000};
    fixture_open(&f, &options);
    fake.step_us = 100;
    struct answer a = client_post(f.port, GENERATE,
                                  "{\"text\":\"abc\",\"stream\":true,\"return_logprob\":true,"
                                  "\"top_logprobs_num\":20,"
                                  "\"sampling_params\":{\"max_new_tokens\":500}}");
    assert_int_equal(a.status, 200);
    check_holds(&a, "too large to be gathered");
    check_holds(&a, "data: [DONE]\n\n");
    check_lacks(&a, "\"completion_tokens\":500");
    answer_free(&a);
    fixture_wait_free(&f);
    fixture_close(&f);
}

static void test_generate_places_each_prompt_in_its_namespace(void **state) {
    (void)state;
    struct fixture f;
    char both[RADISH_NAMESPACE_MAX], single[RADISH_NAMESPACE_MAX];
    fixture_open(&f, NULL);
    struct answer a = client_post(
        f.port, GENERATE, "{\"text\":[\"a\",\"b\"],\"extra_key\":[\"x\",\"y\"]," GREEDY "}");
    answer_free(&a);
    size_t n_both = fake_namespace(both);
    a = client_post(f.port, GENERATE, "{\"text\":\"b\",\"extra_key\":\"y\"," GREEDY "}");
    answer_free(&a);
    size_t n_single = fake_namespace(single);
    assert_true(n_both == n_single && n_both && !memcmp(both, single, n_both));
    a = client_post(f.port, GENERATE, "{\"text\":\"b\",\"priority\":5," GREEDY "}");
    check_holds(&a, "X-Radish-Warning: priority has no effect");
    assert_int_equal(fake.priority, 5);
    answer_free(&a);
    fixture_close(&f);
}

static void test_generate_batch_that_the_queue_does_not_take_is_refused_whole(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    fake.submits_left = 3;
    struct answer a =
        client_post(f.port, GENERATE, "{\"text\":[\"a\",\"b\",\"c\",\"d\"]," GREEDY "}");
    assert_int_equal(a.status, 503);
    answer_free(&a);
    fixture_wait_requests(&f, 0);
    fixture_wait_free(&f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate_words_a_result_as_sglang_does),
        cmocka_unit_test(test_generate_names_end_tokens_and_stop_strings),
        cmocka_unit_test(test_generate_lists_logprobs_as_triples),
        cmocka_unit_test(test_generate_says_no_infinities),
        cmocka_unit_test(test_generate_stream_is_cumulative_and_indexed_in_batches),
        cmocka_unit_test(test_generate_aborted_in_the_queue_ends_as_a_result),
        cmocka_unit_test(
            test_generate_failures_are_errors_before_and_events_behind_the_first_chunk),
        cmocka_unit_test(test_generate_stream_that_says_too_much_is_ended),
        cmocka_unit_test(test_generate_places_each_prompt_in_its_namespace),
        cmocka_unit_test(test_generate_batch_that_the_queue_does_not_take_is_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
