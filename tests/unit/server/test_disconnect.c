/* test_disconnect.c - clients that leave, in every phase, and clients that do not read: whatever
 * they held comes back, and nobody else notices. */
#include "server_client.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define COMPLETIONS "/v1/completions"
#define STREAM      "{\"prompt\":\"ab\",\"stream\":true}"
#define WHOLE       "{\"prompt\":\"ab\"}"

/* RST instead of FIN. */
static void reset(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void leave_by_fin(int fd) {
    close(fd);
}

static void leave_by_half_close(int fd) {
    shutdown(fd, SHUT_WR);
}

static void check_leaving(const char *body, bool is_held, void (*leave)(int fd)) {
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = is_held;
    fake.step_us = 1000;
    int fd = client_post_open(f.port, COMPLETIONS, body);
    fixture_wait_requests(&f, 1);
    if (!is_held && strstr(body, "stream")) {
        struct answer first = client_read_until(fd, "\"text\":");
        answer_free(&first);
    }

    uint64_t begin_ns = clock_ns();
    leave(fd);

    fixture_wait_requests(&f, 0);
    fixture_wait_free(&f);
    assert_true(clock_ns() - begin_ns < 400000000);
    assert_int_equal(fake.n_aborts, 1);
    assert_true(server_wait_drained(f.server, 5));
    fixture_close(&f);
}

static void test_disconnect_in_the_queue_or_prefill_aborts_at_once(void **state) {
    (void)state;
    static void (*const ways[])(int fd) = {leave_by_fin, reset, leave_by_half_close};
    for (int i = 0; i < 3; i++) {
        check_leaving(STREAM, /*is_held=*/true, ways[i]);
        check_leaving(WHOLE, /*is_held=*/true, ways[i]);
    }
}

static void test_disconnect_while_decoding_aborts_at_once(void **state) {
    (void)state;
    static void (*const ways[])(int fd) = {leave_by_fin, reset, leave_by_half_close};
    for (int i = 0; i < 3; i++) {
        check_leaving(STREAM, /*is_held=*/false, ways[i]);
        check_leaving(WHOLE, /*is_held=*/false, ways[i]);
    }
}

static void test_disconnect_of_many_prompts_aborts_each(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    fake.is_held = true;
    int fd = client_post_open(f.port, COMPLETIONS, "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":4}");
    fixture_wait_requests(&f, 3);

    close(fd);

    fixture_wait_free(&f);
    assert_int_equal(fake.n_aborts, 3);
    fixture_close(&f);
}

static void test_disconnect_in_the_middle_of_a_body_leaves_nothing(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, NULL);
    for (int i = 0; i < 20; i++) {
        int fd = client_connect(f.port);
        client_send_str(fd, "POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
                            "\r\n{\"prompt\":");
        if (i % 2)
            reset(fd);
        else
            close(fd);
    }

    struct answer a = client_post(f.port, COMPLETIONS, "{\"prompt\":\"ab\",\"max_tokens\":2}");

    assert_int_equal(a.status, 200);
    answer_free(&a);
    fixture_close(&f);
}

static void test_disconnect_does_not_disturb_others(void **state) {
    (void)state;
    enum { N = 20 };
    struct fixture f;
    int leaving[N], staying[N];
    fixture_open(&f, NULL);
    fake.step_us = 1000;
    for (int i = 0; i < N; i++) {
        char body[128];
        leaving[i] = client_post_open(f.port, COMPLETIONS, STREAM);
        snprintf(body, sizeof body, "{\"prompt\":\"%c%c\",\"max_tokens\":6,\"stream\":%s}", 'c' + i,
                 'C' + i, i % 2 ? "true" : "false");
        staying[i] = client_post_open(f.port, COMPLETIONS, body);
    }

    for (int i = 0; i < N; i++) close(leaving[i]);

    for (int i = 0; i < N; i++) {
        char want[32];
        struct answer a = client_read_all(staying[i]);
        assert_int_equal(a.status, 200);
        snprintf(want, sizeof want, i % 2 ? "\"text\":\"%c" : "\"text\":\"%c%c%c", 'c' + i, 'C' + i,
                 'c' + i);
        if (!strstr(a.body, want)) fail_msg("no %s in %s", want, a.body);
        answer_free(&a);
        close(staying[i]);
    }
    fixture_wait_free(&f);
    fixture_close(&f);
}

/* It sends and sends, nobody reads: its buffer fills, it is aborted; others go on meanwhile. */
static void test_disconnect_a_client_that_does_not_read_is_aborted(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.stream_bytes_max = 100000};
    fixture_open(&f, &options);
    fake.output_bytes = 100000; /* times 500 tokens: more than any socket buffer */
    int fd = client_connect(f.port);
    client_send_str(fd, "POST " COMPLETIONS " HTTP/1.1\r\nHost: x\r\nContent-Length: 29\r\n\r\n"
                        "{\"prompt\":\"ab\",\"stream\":true}");

    for (int ms = 0; ms < 5000 && !fake.n_aborts; ms++) usleep(1000);

    assert_int_equal(fake.n_aborts, 1);
    fixture_wait_free(&f);
    fake.output_bytes = 0;
    struct answer other = client_post(f.port, COMPLETIONS, "{\"prompt\":\"cd\",\"max_tokens\":2}");
    assert_int_equal(other.status, 200);
    answer_free(&other);
    struct answer late = client_read_until(fd, "[DONE]");
    assert_non_null(strstr(late.text, "the client reads too slowly"));
    answer_free(&late);
    close(fd);
    fixture_close(&f);
}

static void test_disconnect_a_reply_too_large_to_gather_is_refused(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.reply_bytes_max = 100000};
    fixture_open(&f, &options);
    fake.output_bytes = 10000;

    struct answer a = client_post(f.port, COMPLETIONS, WHOLE);

    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.body, "too large to be gathered"));
    answer_free(&a);
    fixture_wait_free(&f);
    fixture_close(&f);
}

static void test_disconnect_close_with_clients_that_never_read(void **state) {
    (void)state;
    struct fixture f;
    struct server_options options = {.stream_bytes_max = 100u << 20};
    fixture_open(&f, &options);
    fake.output_bytes = 100000;
    int fd = client_post_open(f.port, COMPLETIONS, STREAM);
    struct answer first = client_read_until(fd, "\"text\":");
    answer_free(&first);

    uint64_t begin_ns = clock_ns();
    fixture_close(&f);

    assert_true(clock_ns() - begin_ns < 8000000000u);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disconnect_in_the_queue_or_prefill_aborts_at_once),
        cmocka_unit_test(test_disconnect_while_decoding_aborts_at_once),
        cmocka_unit_test(test_disconnect_of_many_prompts_aborts_each),
        cmocka_unit_test(test_disconnect_in_the_middle_of_a_body_leaves_nothing),
        cmocka_unit_test(test_disconnect_does_not_disturb_others),
        cmocka_unit_test(test_disconnect_a_client_that_does_not_read_is_aborted),
        cmocka_unit_test(test_disconnect_a_reply_too_large_to_gather_is_refused),
        cmocka_unit_test(test_disconnect_close_with_clients_that_never_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
