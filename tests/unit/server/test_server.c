/* test_server.c - the server over real sockets, with the fake engine: HTTP, replies, errors, and
 * the life from open to close. Phases of leaving clients are in test_disconnect.c. */
#include "server_client.h"

#include "base/clock.h"

#include <sys/socket.h>
#include <unistd.h>
#include <yyjson.h>

#define CHAT        "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"

static void check_status(struct answer a, int status, const char *needle) {
    if (a.status != status) fail_msg("status %d, not %d: %s", a.status, status, a.text);
    if (!strstr(a.text, needle)) fail_msg("no %s in: %s", needle, a.text);
    answer_free(&a);
}

static size_t count(const char *text, const char *needle) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, needle)); at += strlen(needle)) n++;
    return n;
}

static void test_server_answers_health_models_and_unknown_paths(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(client_request(f.port, "GET", "/health", "", NULL), 200, "\"status\":\"ok\"");
    check_status(client_request(f.port, "GET", "/v1/models", "", NULL), 200, "\"id\":\"fake\"");
    check_status(client_request(f.port, "GET", "/v1/models/fake", "", NULL), 200,
                 "\"max_model_len\":512");
    check_status(client_request(f.port, "GET", "/v1/models/other", "", NULL), 404,
                 "model_not_found");
    check_status(client_request(f.port, "GET", "/nothing", "", NULL), 404, "\"error\":{");
    check_status(client_request(f.port, "GET", CHAT, "", NULL), 405, "Allow: POST");
    check_status(client_request(f.port, "POST", "/health", "", "{}"), 405, "Allow: GET, HEAD");

    fixture_close(&f);
}

static void test_server_chat_reply_has_the_shape_clients_expect(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    struct answer a = client_post(f.port, CHAT,
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                                  "\"max_tokens\":4,\"model\":\"fake\"}");

    assert_int_equal(a.status, 200);
    assert_null(strstr(a.text, "X-Radish-Warning"));
    assert_non_null(strstr(a.body, "\"object\":\"chat.completion\""));
    assert_non_null(strstr(a.body, "\"message\":{\"role\":\"assistant\",\"content\":\"user\"}"));
    assert_non_null(strstr(a.body, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(a.body, "\"usage\":{\"prompt_tokens\":18,\"completion_tokens\":4,"
                                   "\"total_tokens\":22,\"prompt_tokens_details\":{"
                                   "\"cached_tokens\":9}}"));
    answer_free(&a);
    fixture_close(&f);
}

static void test_server_stream_has_role_text_finish_usage_done_in_order(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    struct answer a = client_post(f.port, CHAT,
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                                  "\"max_tokens\":4,\"stream\":true,"
                                  "\"stream_options\":{\"include_usage\":true}}");

    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.text, "Content-Type: text/event-stream"));
    const char *role = strstr(a.body, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    const char *text = strstr(a.body, "\"delta\":{\"content\":\"u");
    const char *finish = strstr(a.body, "\"delta\":{},\"logprobs\":null,\"finish_reason\":");
    const char *usage = strstr(a.body, "\"choices\":[],\"usage\":{\"prompt_tokens\":18");
    const char *done = strstr(a.body, "data: [DONE]\n\n");
    assert_true(role && text && finish && usage && done);
    assert_true(role < text && text < finish && finish < usage && usage < done);
    answer_free(&a);
    fixture_close(&f);
}

static void test_server_completions_number_choices_over_prompts(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    struct answer a =
        client_post(f.port, COMPLETIONS, "{\"prompt\":[\"ab\",\"cde\"],\"n\":2,\"max_tokens\":3}");

    assert_non_null(strstr(a.body, "{\"index\":0,\"text\":\"aba\""));
    assert_non_null(strstr(a.body, "{\"index\":1,\"text\":\"bab\""));
    assert_non_null(strstr(a.body, "{\"index\":2,\"text\":\"cde\""));
    assert_non_null(strstr(a.body, "{\"index\":3,\"text\":\"dec\""));
    assert_non_null(strstr(a.body, "\"prompt_tokens\":7,\"completion_tokens\":12"));
    answer_free(&a);
    fixture_close(&f);
}

static void test_server_text_prompts_get_specials_and_id_prompts_none(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"max_tokens\":1}"), 200,
                 "\"prompt_tokens\":3");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":[97,98],\"max_tokens\":1}"), 200,
                 "\"prompt_tokens\":2");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":[258],\"max_tokens\":1}"), 400,
                 "\"param\":\"prompt\"");

    fixture_close(&f);
}

static void test_server_echo_gives_prompt_text_logprobs_and_offsets(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    struct answer a = client_post(f.port, COMPLETIONS,
                                  "{\"prompt\":\"ab\",\"echo\":true,\"logprobs\":1,"
                                  "\"max_tokens\":1}");

    assert_non_null(strstr(a.body, "\"text\":\"aba\""));
    assert_non_null(strstr(a.body, "\"tokens\":[\"<s>\",\"a\",\"b\",\"a\"]"));
    assert_non_null(strstr(a.body, "\"token_logprobs\":[null,-0.5,-0.5,-0.5]"));
    assert_non_null(strstr(a.body, "\"top_logprobs\":[null,{\"a\":-0.5},"));
    assert_non_null(strstr(a.body, "\"text_offset\":[0,0,1,2]"));
    answer_free(&a);
    check_status(client_post(f.port, COMPLETIONS,
                             "{\"prompt\":\"ab\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}"),
                 200, "\"text\":\"ab\",\"logprobs\":{\"tokens\":[\"<s>\",\"a\",\"b\"]");
    fixture_close(&f);
}

static void test_server_tokens_that_are_half_characters_keep_their_bytes(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(
        client_post(f.port, COMPLETIONS, "{\"prompt\":[195,169],\"logprobs\":1,\"max_tokens\":2}"),
        200, "\"tokens\":[\"bytes:\\\\xc3\",\"bytes:\\\\xa9\"]");

    fixture_close(&f);
}

static void test_server_never_writes_infinite_logprobs(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.has_bad_logprobs = true;

    struct answer a = client_post(f.port, CHAT,
                                  "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                                  "\"max_tokens\":2,\"logprobs\":true,\"top_logprobs\":2}");

    yyjson_doc *doc = yyjson_read(a.body, strlen(a.body), 0);
    assert_non_null(doc);
    yyjson_doc_free(doc);
    assert_non_null(strstr(a.body, "\"logprob\":-9999.0"));
    answer_free(&a);
    fixture_close(&f);
}

static void test_server_stop_strings_and_end_tokens_are_reported(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"abcdef\",\"stop\":\"de\"}"), 200,
                 "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"stop\","
                 "\"matched_stop\":\"de\"");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":[97,257]}"), 200,
                 "\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"stop\","
                 "\"matched_stop\":257");

    fixture_close(&f);
}

static void test_server_warns_of_unknown_fields_and_foreign_models(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(client_post(f.port, COMPLETIONS,
                             "{\"prompt\":\"a\",\"max_tokens\":1,\"top_a\":1,\"x\\r\\ny\":2,"
                             "\"model\":\"gpt\"}"),
                 200,
                 "X-Radish-Warning: unknown field ignored: top_a; unknown field ignored: x??y; "
                 "model gpt is not served here, fake answers\r\n");

    fixture_close(&f);
}

static void test_server_prompts_beyond_the_context_get_the_numbers(void **state) {
    (void)state;
    struct fixture f;
    char body[2048] = "{\"prompt\":\"";
    fixture_open(&f, NULL);
    memset(body + strlen(body), 'a', FAKE_CONTEXT);
    strcat(body, "\"}");

    check_status(client_post(f.port, COMPLETIONS, body), 400, "context_length_exceeded");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"aaa\",\"max_tokens\":509}"), 400,
                 "4 tokens and 509 more");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"aaa\",\"max_tokens\":508}"), 200,
                 "\"completion_tokens\":508");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"aaa\"}"), 200,
                 "\"completion_tokens\":508");
    fixture_close(&f);
}

static void test_server_template_errors_are_the_clients(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);

    check_status(
        client_post(f.port, CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"RAISE\"}]}"),
        400, "the template raised");
    check_status(client_post(f.port, CHAT,
                             "{\"messages\":[{\"role\":\"assistant\",\"content\":\"TWICE\"}],"
                             "\"continue_final_message\":true}"),
                 400, "\"param\":\"continue_final_message\"");
    check_status(client_post(f.port, CHAT,
                             "{\"messages\":[{\"role\":\"assistant\",\"content\":\"go \"}],"
                             "\"continue_final_message\":true,\"max_tokens\":20}"),
                 200, "\"content\":\"assistant:go assista\"");

    fixture_close(&f);
}

static void test_server_queue_full_is_503_with_retry_after(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_queue_full = true;

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\"}"), 503, "Retry-After: 1");

    fixture_close(&f);
}

/* Two of five prompts are submitted when the queue is full: all of it ends, nothing leaks. */
static void test_server_a_request_that_fits_half_is_taken_back(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    fake.submits_left = 3;

    check_status(client_post(f.port, COMPLETIONS,
                             "{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"stream\":true}"),
                 503, "Retry-After: 1");

    fixture_wait_free(&f);
    assert_int_equal(fake.n_aborts, 2);
    fixture_close(&f);
}

static void test_server_errors_before_the_first_token_are_http_errors(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.fails_at_once = true;

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\"}"), 500, "server_error");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\",\"stream\":true}"), 500,
                 "server_error");

    fixture_close(&f);
}

static void test_server_errors_inside_a_stream_are_events(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.error_after = 50;
    fake.step_us = 500;

    struct answer a = client_post(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"stream\":true}");

    assert_int_equal(a.status, 200);
    const char *error = strstr(a.body, "data: {\"error\":{\"message\":");
    const char *done = strstr(a.body, "data: [DONE]\n\n");
    assert_true(error && done && error < done);
    answer_free(&a);
    fixture_close(&f);
}

static void test_server_bodies_over_the_limit_are_413(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.body_bytes_max = 1000};
    fixture_open(&f, &options);
    char body[1600], chunk[1700];
    memset(body, ' ', sizeof body - 1);
    body[sizeof body - 1] = '\0';

    check_status(client_post(f.port, COMPLETIONS, body), 413, "body_too_large");
    snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n0\r\n\r\n", strlen(body), body);
    int fd = client_connect(f.port);
    client_send_str(fd, "POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n");
    client_send_str(fd, chunk);
    check_status(client_read_all(fd), 413, "body_too_large");
    close(fd);
    check_status(client_request(f.port, "POST", COMPLETIONS,
                                "Expect: 100-continue\r\nContent-Length: 900000\r\n", NULL),
                 413, "body_too_large");
    memset(body, ' ', 1000);
    memcpy(body, "{\"prompt\":\"a\",\"max_tokens\":1}", 29);
    body[1000] = '\0';
    check_status(client_post(f.port, COMPLETIONS, body), 200, "\"text\":\"a\"");

    fixture_close(&f);
}

static void check_raw(struct fixture *f, const char *request, int status) {
    int fd = client_connect(f->port);
    client_send_str(fd, request);
    struct answer a = client_read_all(fd);
    if (a.status != status) fail_msg("status %d, not %d, for: %s", a.status, status, request);
    answer_free(&a);
    close(fd);
}

static void test_server_refuses_requests_whose_length_is_ambiguous(void **state) {
    (void)state;
#define POST_HEAD "POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\n"
    struct fixture f;
    fixture_open(&f, NULL);

    check_raw(&f, POST_HEAD "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400);
    check_raw(&f, POST_HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400);
    check_raw(&f,
              POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n"
                        "0\r\n\r\n",
              400);
    check_raw(&f, POST_HEAD "Transfer-Encoding: gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400);
    check_raw(&f, POST_HEAD "Content-Length: -2\r\n\r\n{}", 400);
    check_raw(&f, POST_HEAD "Content-Length: 0x2\r\n\r\n{}", 400);
    check_raw(&f, "GET /health HTTP/1.1\r\n\r\n", 400);
    check_raw(&f,
              POST_HEAD "Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: 2\r\n"
                        "\r\n{}",
              415);

    fixture_close(&f);
}

static void test_server_serves_pipelined_and_http_1_0_requests(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    static const char body[] = "{\"prompt\":\"ab\",\"max_tokens\":2}";
    char request[512], twice[1200];
    snprintf(request, sizeof request, POST_HEAD "Content-Length: %zu\r\n\r\n%s", strlen(body),
             body);
    snprintf(twice, sizeof twice,
             "%s%sGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", request, request);

    int fd = client_connect(f.port);
    client_send_str(fd, twice);
    struct answer a = client_read_all(fd);
    close(fd);

    assert_int_equal(count(a.text, "HTTP/1.1 200 OK"), 3);
    assert_int_equal(count(a.text, "\"text\":\"ab\""), 2);
    answer_free(&a);
    snprintf(request, sizeof request,
             "POST " COMPLETIONS " HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    check_raw(&f, request, 200);
    fixture_close(&f);
}

static void test_server_wants_a_key_everywhere_but_for_health(void **state) {
    (void)state;
    struct fixture f;
    const char *const keys[] = {"one", "two"};
    struct server_options options = {.api_keys = keys, .n_api_keys = 2};
    fixture_open(&f, &options);

    check_status(client_request(f.port, "GET", "/health", "", NULL), 200, "ok");
    check_status(client_request(f.port, "GET", "/v1/models", "", NULL), 401, "invalid_api_key");
    check_status(client_request(f.port, "GET", "/v1/models", "Authorization: Bearer no\r\n", NULL),
                 401, "WWW-Authenticate: Bearer");
    check_status(client_request(f.port, "GET", "/v1/models", "Authorization: Bearer two\r\n", NULL),
                 200, "fake");
    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\"}"), 401, "\"error\":{");

    fixture_close(&f);
}

static void test_server_health_answers_while_every_stream_is_busy(void **state) {
    (void)state;
    enum { N_STREAMS = 100 };
    struct fixture f;
    int fds[N_STREAMS];
    fixture_open(&f, NULL);
    fake.is_held = true;
    for (int i = 0; i < N_STREAMS; i++)
        fds[i] = client_post_open(f.port, COMPLETIONS, "{\"prompt\":\"a\",\"stream\":true}");
    fixture_wait_requests(&f, N_STREAMS);

    uint64_t begin_ns = clock_ns();
    check_status(client_request(f.port, "GET", "/health", "", NULL), 200,
                 "\"requests_queued\":100");

    assert_true(clock_ns() - begin_ns < 1000000000);
    for (int i = 0; i < N_STREAMS; i++) close(fds[i]);
    fixture_wait_free(&f);
    fixture_close(&f);
}

static void test_server_refuses_generations_past_its_connections(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.connections_max = 4};
    int fds[8];
    fixture_open(&f, &options);
    fake.is_held = true;
    for (int i = 0; i < 4; i++)
        fds[i] = client_post_open(f.port, COMPLETIONS, "{\"prompt\":\"a\"}");
    fixture_wait_requests(&f, 4);

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\"}"), 503,
                 "too_many_connections");
    check_status(client_request(f.port, "GET", "/health", "", NULL), 200, "ok");

    for (int i = 0; i < 4; i++) close(fds[i]);
    fixture_close(&f);
}

static void test_server_stopping_refuses_new_requests_and_finishes_running_ones(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    int fd = client_post_open(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"max_tokens\":2}");
    fixture_wait_requests(&f, 1);

    server_begin_stop(f.server);

    check_status(client_post(f.port, COMPLETIONS, "{\"prompt\":\"a\"}"), 503, "server_stopping");
    check_status(client_request(f.port, "GET", "/health", "", NULL), 503, "stopping");
    assert_false(server_wait_drained(f.server, 0.05));
    fake.is_held = false;
    check_status(client_read_all(fd), 200, "\"text\":\"ab\"");
    assert_true(server_wait_drained(f.server, 5));
    close(fd);
    fixture_close(&f);
}

static void test_server_close_ends_streams_with_abort(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.step_us = 2000;
    int running = client_post_open(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"stream\":true}");
    struct answer first = client_read_until(running, "\"text\":");
    answer_free(&first);

    fixture_close(&f);

    check_status(client_read_all(running), 0, "\"finish_reason\":\"abort\"");
    close(running);
}

static void test_server_close_refuses_what_never_began(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    int queued = client_post_open(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"stream\":true}");
    fixture_wait_requests(&f, 1);

    fixture_close(&f);

    check_status(client_read_all(queued), 503, "the server is stopping");
    close(queued);
}

static void test_server_open_says_why_it_cannot_listen(void **state) {
    (void)state;
    struct fixture f;
    struct server *second = NULL;
    struct radish_error err;
    fixture_open(&f, NULL);
    struct server_options taken = {.port = (uint16_t)f.port}, nowhere = {.host = "no.such.host."};

    assert_int_equal(server_open(f.model, f.engine, &taken, &second, &err), RADISH_E_IO);
    assert_non_null(strstr(err.msg, "in use"));
    assert_int_equal(server_open(f.model, f.engine, &nowhere, &second, &err), RADISH_E_INVALID);
    assert_null(second);

    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_answers_health_models_and_unknown_paths),
        cmocka_unit_test(test_server_chat_reply_has_the_shape_clients_expect),
        cmocka_unit_test(test_server_stream_has_role_text_finish_usage_done_in_order),
        cmocka_unit_test(test_server_completions_number_choices_over_prompts),
        cmocka_unit_test(test_server_text_prompts_get_specials_and_id_prompts_none),
        cmocka_unit_test(test_server_echo_gives_prompt_text_logprobs_and_offsets),
        cmocka_unit_test(test_server_tokens_that_are_half_characters_keep_their_bytes),
        cmocka_unit_test(test_server_never_writes_infinite_logprobs),
        cmocka_unit_test(test_server_stop_strings_and_end_tokens_are_reported),
        cmocka_unit_test(test_server_warns_of_unknown_fields_and_foreign_models),
        cmocka_unit_test(test_server_prompts_beyond_the_context_get_the_numbers),
        cmocka_unit_test(test_server_template_errors_are_the_clients),
        cmocka_unit_test(test_server_queue_full_is_503_with_retry_after),
        cmocka_unit_test(test_server_a_request_that_fits_half_is_taken_back),
        cmocka_unit_test(test_server_errors_before_the_first_token_are_http_errors),
        cmocka_unit_test(test_server_errors_inside_a_stream_are_events),
        cmocka_unit_test(test_server_bodies_over_the_limit_are_413),
        cmocka_unit_test(test_server_refuses_requests_whose_length_is_ambiguous),
        cmocka_unit_test(test_server_serves_pipelined_and_http_1_0_requests),
        cmocka_unit_test(test_server_wants_a_key_everywhere_but_for_health),
        cmocka_unit_test(test_server_health_answers_while_every_stream_is_busy),
        cmocka_unit_test(test_server_refuses_generations_past_its_connections),
        cmocka_unit_test(test_server_stopping_refuses_new_requests_and_finishes_running_ones),
        cmocka_unit_test(test_server_close_ends_streams_with_abort),
        cmocka_unit_test(test_server_close_refuses_what_never_began),
        cmocka_unit_test(test_server_open_says_why_it_cannot_listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
