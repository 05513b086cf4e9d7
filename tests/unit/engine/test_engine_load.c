/* Many requests at once: the same answers as alone, aborts in every phase, limits, closing; and
 * after all of it every slot is back. */
#include "test.h"

#include "engine_client.h"

#include "base/rng.h"

#include <unistd.h>

enum { CLIENTS = 32 };

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *clients[CLIENTS], *alone;
static int32_t prompts[CLIENTS][200];

static void open_engine(const struct radish_engine_options *options) {
    client_open_engine("llama", options, &model, &engine);
}

static void close_engine(void) {
    radish_engine_close(engine);
    radish_model_close(model);
}

static int make_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_create();
        for (uint32_t j = 0; j < 200; j++) prompts[i][j] = (int32_t)(rng_u64(i, j) % 512);
    }
    alone = client_create();
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) client_destroy(clients[i]);
    client_destroy(alone);
    return 0;
}

static struct radish_request request_of(uint32_t i) {
    struct radish_request request = client_request(prompts[i], 1 + i * 41 % 150, 10 + i % 30);
    if (i % 2) {
        request.sampling.temperature = 0.8f;
        request.sampling.top_p = 0.9f;
        request.sampling.repetition_penalty = 1.1f;
        request.sampling.seed = i;
        request.sampling.has_seed = true;
    }
    request.logprobs = i % 3 == 0;
    return request;
}

static void submit(uint32_t i, const struct radish_request *request) {
    struct radish_error err;
    if (client_submit(clients[i], engine, request, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static void test_32_at_once_answer_bit_for_bit_as_each_alone(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .n_threads = 2, .kv_tokens_max = 8000, .context_tokens = 512, .chunk_tokens = 24};
    open_engine(&options);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct radish_request request = request_of(i);
        submit(i, &request);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) client_wait(clients[i]);
    client_assert_baseline(engine);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct radish_request request = request_of(i);
        client_run(alone, engine, &request);
        const struct client_choice *a = &alone->choices[0], *b = &clients[i]->choices[0];
        assert_int_equal(a->n_ids, b->n_ids);
        assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
        assert_memory_equal(a->logprobs, b->logprobs, a->n_ids * sizeof *a->logprobs);
        assert_string_equal(a->text, b->text);
    }
    close_engine();
}

static void test_a_small_pool_makes_requests_wait_but_serves_all(void **state) {
    (void)state;
    struct radish_engine_options options = {.n_threads = 2,
                                            .kv_tokens_max = 300,
                                            .context_tokens = 256,
                                            .chunk_tokens = 40,
                                            .requests_running_max = 5};
    open_engine(&options);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct radish_request request = request_of(i);
        submit(i, &request);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_wait(clients[i]);
        assert_int_equal(clients[i]->choices[0].finish, RADISH_FINISH_LENGTH);
    }
    client_assert_baseline(engine);
    close_engine();
}

/* Counts change at the next hand-over. */
static void wait_queued(uint32_t n) {
    struct radish_engine_info info;
    for (uint32_t i = 0; i < 10000; i++) {
        radish_engine_info(engine, &info);
        if (info.requests_queued == n) return;
        usleep(1000);
    }
    fail_msg("%u requests are queued, not %u", info.requests_queued, n);
}

/* An answer that takes long enough to be interrupted. */
static struct radish_request long_request(void) {
    return client_request(prompts[0], 100, 900);
}

static void test_abort_while_decoding(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 1024};
    open_engine(&options);
    struct radish_request request = long_request();
    submit(0, &request);
    client_wait_tokens(clients[0], 5);

    radish_engine_abort(engine, clients[0]->request);

    client_wait(clients[0]);
    assert_int_equal(clients[0]->choices[0].finish, RADISH_FINISH_ABORT);
    assert_int_equal(clients[0]->choices[0].status, RADISH_E_ABORTED);
    assert_in_range(clients[0]->choices[0].n_ids, 5, 899);
    client_assert_baseline(engine);
    radish_engine_abort(engine, clients[0]->request); /* ended: fine */
    radish_engine_abort(engine, 12345);               /* unknown: fine */
    request.max_new_tokens = 3;
    client_run(clients[0], engine, &request); /* the engine goes on */
    close_engine();
}

static void test_abort_from_the_callback_takes_effect_within_one_step(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 1024};
    open_engine(&options);
    struct radish_request request = long_request();
    clients[0]->abort_at_ids = 7;
    submit(0, &request);
    client_wait(clients[0]);
    clients[0]->abort_at_ids = 0;

    assert_int_equal(clients[0]->choices[0].finish, RADISH_FINISH_ABORT);
    assert_int_equal(clients[0]->choices[0].n_ids, 7);
    client_assert_baseline(engine);
    close_engine();
}

static void test_abort_while_prefilling(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 1024, .chunk_tokens = 1};
    open_engine(&options);
    int32_t prompt[1000];
    for (uint32_t i = 0; i < 1000; i++) prompt[i] = (int32_t)i % 512;
    struct radish_request request = client_request(prompt, 1000, 10);
    submit(0, &request);
    struct radish_engine_info info;
    do radish_engine_info(engine, &info);
    while (info.steps_total < 3);

    radish_engine_abort(engine, clients[0]->request);

    client_wait(clients[0]);
    assert_int_equal(clients[0]->choices[0].finish, RADISH_FINISH_ABORT);
    assert_int_equal(clients[0]->choices[0].n_ids, 0);
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_in_range(info.prompt_tokens_total, 3, 999);
    close_engine();
}

static void test_abort_while_queued(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 1024, .requests_running_max = 1};
    open_engine(&options);
    struct radish_request request = long_request();
    submit(0, &request);
    client_wait_tokens(clients[0], 1);
    request.n = 3;
    submit(1, &request);
    wait_queued(1);

    radish_engine_abort(engine, clients[1]->request);

    client_wait(clients[1]);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(clients[1]->choices[i].finish, RADISH_FINISH_ABORT);
        assert_int_equal(clients[1]->choices[i].n_ids, 0);
    }
    radish_engine_abort_all(engine);
    client_wait(clients[0]);
    client_assert_baseline(engine);
    close_engine();
}

/* RADISH_SOAK=10000 test_engine_load takes as many. */
static void test_500_requests_with_random_aborts_end_at_baseline(void **state) {
    (void)state;
    const char *given = getenv("RADISH_SOAK");
    uint64_t n_requests = given ? strtoull(given, NULL, 10) : 500;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct radish_engine_options options = {.n_threads = 2,
                                            .kv_tokens_max = 1500,
                                            .context_tokens = 256,
                                            .chunk_tokens = 16,
                                            .requests_running_max = 12,
                                            .page_tokens = 2};
    open_engine(&options);
    bool is_busy[CLIENTS] = {false};
    for (uint64_t i = 0; i < n_requests; i++) {
        uint32_t at = (uint32_t)(i % CLIENTS);
        uint64_t random = rng_u64(seed, i);
        if (is_busy[at]) client_wait(clients[at]);
        struct radish_request request =
            client_request(prompts[at], 1 + random % 60, (uint32_t)(random >> 8) % 20);
        request.n = 1 + (uint32_t)(random >> 16) % 3;
        clients[at]->abort_at_ids = random >> 24 & 3 ? 0 : 1 + (uint32_t)(random >> 32) % 10;
        submit(at, &request);
        is_busy[at] = true;
        if ((random >> 40 & 3) == 0)
            radish_engine_abort(engine, clients[random >> 48 & (CLIENTS - 1)]->request);
        if ((random >> 40 & 127) == 1) radish_engine_abort_all(engine);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_wait(clients[i]);
        clients[i]->abort_at_ids = 0;
    }
    client_assert_baseline(engine);
    close_engine();
}

static void test_a_full_queue_says_again(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000,
                                            .context_tokens = 1024,
                                            .requests_running_max = 1,
                                            .requests_queued_max = 3};
    open_engine(&options);
    struct radish_request request = long_request();
    struct radish_error err;
    submit(0, &request);
    client_wait_tokens(clients[0], 1);
    wait_queued(0);
    for (uint32_t i = 1; i <= 3; i++) submit(i, &request);

    assert_int_equal(client_submit(clients[4], engine, &request, &err), RADISH_AGAIN);

    assert_non_null(strstr(err.msg, "queue"));
    radish_engine_abort(engine, clients[2]->request);
    client_wait(clients[2]);
    wait_queued(2);
    submit(4, &request);
    radish_engine_abort_all(engine);
    for (uint32_t i = 0; i < 5; i++) client_wait(clients[i]);
    client_assert_baseline(engine);
    close_engine();
}

static void test_closing_ends_what_runs_and_what_waits(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 1024, .requests_running_max = 2};
    open_engine(&options);
    struct radish_request request = long_request();
    for (uint32_t i = 0; i < 6; i++) submit(i, &request);
    client_wait_tokens(clients[0], 3);

    radish_engine_close(engine);

    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(clients[i]->choices[0].n_finals, 1);
        assert_int_equal(clients[i]->choices[0].finish, RADISH_FINISH_ABORT);
        assert_int_equal(clients[i]->choices[0].status, RADISH_E_ABORTED);
    }
    radish_model_close(model);
}

static void test_a_request_that_takes_too_long_times_out(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 1100,
                                            .context_tokens = 1024,
                                            .chunk_tokens = 1,
                                            .request_timeout_seconds = 0.05};
    open_engine(&options);
    int32_t prompt[900];
    for (uint32_t i = 0; i < 900; i++) prompt[i] = (int32_t)i % 512;
    struct radish_request request = client_request(prompt, 900, 100);
    submit(0, &request);
    submit(1, &request);

    for (uint32_t i = 0; i < 2; i++) {
        client_wait(clients[i]);
        assert_int_equal(clients[i]->choices[0].finish, RADISH_FINISH_ABORT);
        assert_int_equal(clients[i]->choices[0].status, RADISH_E_TIMEOUT);
    }
    client_assert_baseline(engine);
    close_engine();
}

static void test_a_seeded_engine_repeats_its_unseeded_requests(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 1024, .seed = 9, .has_seed = true};
    struct radish_request request = client_request(prompts[3], 20, 30);
    request.sampling.temperature = 1;
    for (uint32_t run = 0; run < 2; run++) {
        open_engine(&options);
        client_run(clients[run * 2], engine, &request);
        client_run(clients[run * 2 + 1], engine, &request);
        close_engine();
    }
    size_t bytes = 30 * sizeof(int32_t);
    assert_memory_equal(clients[0]->choices[0].ids, clients[2]->choices[0].ids, bytes);
    assert_memory_equal(clients[1]->choices[0].ids, clients[3]->choices[0].ids, bytes);
    assert_memory_not_equal(clients[0]->choices[0].ids, clients[1]->choices[0].ids, bytes);
}

static void test_an_idle_engine_uses_no_processor(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 1024};
    open_engine(&options);
    struct radish_request request = client_request(prompts[3], 20, 3);
    client_run(clients[0], engine, &request);
    client_assert_baseline(engine);
    usleep(100000);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
                (double)(after.tv_nsec - before.tv_nsec) / 1e6;
    assert_true(ms < 30);
    close_engine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_32_at_once_answer_bit_for_bit_as_each_alone),
        cmocka_unit_test(test_a_small_pool_makes_requests_wait_but_serves_all),
        cmocka_unit_test(test_abort_while_decoding),
        cmocka_unit_test(test_abort_from_the_callback_takes_effect_within_one_step),
        cmocka_unit_test(test_abort_while_prefilling),
        cmocka_unit_test(test_abort_while_queued),
        cmocka_unit_test(test_500_requests_with_random_aborts_end_at_baseline),
        cmocka_unit_test(test_a_full_queue_says_again),
        cmocka_unit_test(test_closing_ends_what_runs_and_what_waits),
        cmocka_unit_test(test_a_request_that_takes_too_long_times_out),
        cmocka_unit_test(test_a_seeded_engine_repeats_its_unseeded_requests),
        cmocka_unit_test(test_an_idle_engine_uses_no_processor),
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
