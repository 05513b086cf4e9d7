/* The cache as a caller of the engine sees it: what is reused and reported, what options switch,
 * and that pressure, priorities and several choices change who waits, never an answer. */
#include "test.h"

#include "engine_client.h"

#include "base/rng.h"

#include <unistd.h>

enum { CLIENTS = 12 };

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *clients[CLIENTS];
static int32_t prompts[CLIENTS][300];

static int make_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_create();
        for (uint32_t j = 0; j < 300; j++) prompts[i][j] = (int32_t)(rng_u64(i, j) % 512);
    }
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) client_destroy(clients[i]);
    return 0;
}

static void open_engine(const struct radish_engine_options *options) {
    client_open_engine("llama", options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

static void submit(uint32_t i, const struct radish_request *request) {
    struct radish_error err;
    if (client_submit(clients[i], engine, request, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static uint32_t run_cached(const struct radish_request *request) {
    client_run(clients[0], engine, request);
    return clients[0]->choices[0].usage.cached_tokens;
}

static struct radish_engine_info info_now(void) {
    struct radish_engine_info info;
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    return info;
}

static void test_prompt_logprobs_take_from_the_cache_what_lies_before_them(void **state) {
    (void)state;
    static const uint32_t froms[] = {0, 1, 37, 180, 199, 200};
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 512, .chunk_tokens = 64};
    open_engine(&options);
    for (uint32_t i = 0; i < sizeof froms / sizeof *froms; i++) {
        struct radish_request request = client_request(prompts[0], 200, 4);
        request.logprobs = request.prompt_logprobs = request.is_cache_off = true;
        request.prompt_logprobs_from = froms[i];
        client_run(clients[1], engine, &request);
        request.is_cache_off = false;
        if (!i) assert_int_equal(run_cached(&request), 0);

        assert_int_equal(run_cached(&request), froms[i] < 199 ? froms[i] : 199);
        assert_int_equal(clients[0]->n_prompt_tokens, 200 - froms[i]);
        for (uint32_t j = 0; j < 200 - froms[i]; j++)
            assert_true(clients[0]->prompt_tokens[j].logprob ==
                        clients[1]->prompt_tokens[j].logprob);
        assert_memory_equal(clients[0]->choices[0].logprobs, clients[1]->choices[0].logprobs,
                            4 * sizeof(float));
    }
    close_engine();
}

static void test_cached_tokens_are_reported(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 512};
    open_engine(&options);
    struct radish_request request = client_request(prompts[0], 200, 10);

    assert_int_equal(run_cached(&request), 0);
    int32_t turn[260];
    memcpy(turn, prompts[0], 200 * sizeof *turn);
    memcpy(turn + 200, clients[0]->choices[0].ids, 10 * sizeof *turn);
    memcpy(turn + 210, prompts[1], 50 * sizeof *turn);
    assert_int_equal(run_cached(&request), 199);
    request.n_prompt = 150;
    assert_int_equal(run_cached(&request), 149);
    request.prompt = turn; /* the next turn of the chat: all but the last token of the answer */
    request.n_prompt = 260;
    assert_int_equal(run_cached(&request), 209);

    struct radish_engine_info info = info_now();
    assert_int_equal(info.prompt_tokens_total, 200 + 200 + 150 + 260);
    assert_int_equal(info.cached_tokens_total, 199 + 149 + 209);
    assert_true(info.kv_slots_evictable >= 260);
    close_engine();
}

static void test_a_request_or_an_engine_can_do_without_the_cache(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 512};
    for (uint32_t i = 0; i < 2; i++) {
        options.is_cache_off = i;
        open_engine(&options);
        struct radish_request request = client_request(prompts[0], 200, 10);
        request.is_cache_off = !i;
        assert_int_equal(run_cached(&request), 0);
        assert_int_equal(run_cached(&request), 0);
        request.is_cache_off = false;
        assert_int_equal(run_cached(&request), 0); /* nor did it feed it */
        assert_int_equal(run_cached(&request), i ? 0 : 199);
        close_engine();
    }
}

static void test_several_choices_compute_the_prompt_once(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 16};
    for (uint32_t p = 0; p < 2; p++) {
        struct radish_engine_options options = {
            .kv_tokens_max = 2000, .context_tokens = 512, .page_tokens = pages[p]};
        open_engine(&options);
        struct radish_request request = client_request(prompts[0], 200, 10);
        request.n = 5;
        client_run(clients[0], engine, &request);
        for (uint32_t i = 0; i < 5; i++) {
            const struct client_choice *choice = &clients[0]->choices[i];
            assert_int_equal(choice->n_ids, 10);
            assert_memory_equal(choice->ids, clients[0]->choices[0].ids, 40);
            assert_int_equal(choice->usage.cached_tokens, 0);
        }
        struct radish_engine_info info = info_now();
        assert_in_range(info.prompt_tokens_total, 200, 200 + 4 * (pages[p] + 1));
        assert_int_equal(info.cached_tokens_total, 0);
        close_engine();
    }
}

static void test_choices_end_together_when_the_first_never_samples(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 512, .chunk_tokens = 1};
    open_engine(&options);
    struct radish_request request = client_request(prompts[0], 50, 0);
    request.n = 4;
    client_run(clients[0], engine, &request); /* nothing is asked for */
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(clients[0]->choices[i].finish, RADISH_FINISH_LENGTH);

    request = client_request(prompts[1], 300, 5);
    request.n = 4;
    submit(0, &request);
    struct radish_engine_info info;
    do radish_engine_info(engine, &info);
    while (info.steps_total < 60);
    radish_engine_abort(engine, clients[0]->request);
    client_wait(clients[0]);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(clients[0]->choices[i].finish, RADISH_FINISH_ABORT);

    request = client_request(prompts[2], 20, 1); /* ends with the token that all start from */
    request.n = 4;
    client_run(clients[0], engine, &request);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(clients[0]->choices[i].n_ids, 1);
        assert_int_equal(clients[0]->choices[i].finish, RADISH_FINISH_LENGTH);
    }
    close_engine();
}

/* An answer under way is a prefix for others. */
static void test_a_running_answer_is_shared(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 1024};
    open_engine(&options);
    struct radish_request request = client_request(prompts[0], 100, 900);
    submit(0, &request);
    client_wait_tokens(clients[0], 5);
    request = client_request(prompts[0], 120, 3);
    client_run(clients[1], engine, &request);

    assert_int_equal(clients[1]->choices[0].usage.cached_tokens, 100);
    assert_int_equal(clients[0]->n_ended, 0); /* it still runs */
    radish_engine_abort(engine, clients[0]->request);
    client_wait(clients[0]);
    close_engine();
}

static void test_a_crowd_with_one_cold_trunk_computes_it_once(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .kv_tokens_max = 4000, .context_tokens = 512, .chunk_tokens = 32};
    open_engine(&options);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        memcpy(prompts[i], prompts[0], 250 * sizeof *prompts[i]);
        struct radish_request request = client_request(prompts[i], 260, 4);
        submit(i, &request);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) client_wait(clients[i]);
    struct radish_engine_info info = info_now();

    uint64_t n_computed = info.prompt_tokens_total - info.cached_tokens_total;
    assert_int_equal(info.prompt_tokens_total, CLIENTS * 260);
    assert_in_range(n_computed, 260, 260 + (CLIENTS - 1) * 10);
    close_engine();
}

static void test_an_overbooked_pool_sends_back_and_serves_all(void **state) {
    (void)state;
    struct radish_engine_options options = {.n_threads = 2,
                                            .kv_tokens_max = 300,
                                            .context_tokens = 256,
                                            .chunk_tokens = 40,
                                            .schedule_conservativeness = 0.01};
    open_engine(&options);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct radish_request request = client_request(prompts[i] + 260, 20, 60);
        submit(i, &request);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_wait(clients[i]);
        assert_int_equal(clients[i]->choices[0].finish, RADISH_FINISH_LENGTH);
        assert_int_equal(clients[i]->choices[0].n_ids, 60);
    }
    assert_true(info_now().retractions_total > 0);
    close_engine();
}

static void test_a_high_priority_goes_first(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 1200,
                                            .context_tokens = 1024,
                                            .requests_running_max = 1,
                                            .has_priorities = true};
    open_engine(&options);
    struct radish_request request = client_request(prompts[0], 100, 900);
    submit(0, &request);
    client_wait_tokens(clients[0], 3);
    request = client_request(prompts[1], 30, 5);
    request.priority = 20;
    client_run(clients[1], engine, &request);

    assert_int_equal(clients[0]->n_ended, 0);
    client_wait(clients[0]);
    assert_int_equal(clients[0]->choices[0].n_ids, 900);
    assert_int_equal(info_now().preemptions_total, 1);
    close_engine();
}

static void refuse(struct radish_engine_options options, const char *field, const char *word) {
    struct radish_error err = {0};
    assert_int_equal(radish_engine_open(model, &options, &engine, &err), RADISH_E_INVALID);
    assert_string_equal(err.field, field);
    if (!strstr(err.msg, word)) fail_msg("no '%s' in: %s", word, err.msg);
    assert_null(engine);
}

static void test_unknown_policies_are_refused_with_those_there_are(void **state) {
    (void)state;
    assert_int_equal(radish_model_open(TEST_DATA "/models/llama", NULL, &model, NULL), RADISH_OK);
    refuse((struct radish_engine_options){.schedule_policy = "best"}, "schedule-policy",
           "'best' is not one of lpm, fcfs, dfs-weight, lof, random, hrrn");
    refuse((struct radish_engine_options){.eviction_policy = "arc"}, "radix-eviction-policy",
           "'arc' is not one of lru, lfu, fifo, mru, filo, slru, priority");
    refuse((struct radish_engine_options){.schedule_conservativeness = -1},
           "schedule-conservativeness", "-1");
    refuse((struct radish_engine_options){.stall_ms_max = -2}, "max-stall-ms", "negative");
    radish_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cached_tokens_are_reported),
        cmocka_unit_test(test_prompt_logprobs_take_from_the_cache_what_lies_before_them),
        cmocka_unit_test(test_a_request_or_an_engine_can_do_without_the_cache),
        cmocka_unit_test(test_several_choices_compute_the_prompt_once),
        cmocka_unit_test(test_choices_end_together_when_the_first_never_samples),
        cmocka_unit_test(test_a_running_answer_is_shared),
        cmocka_unit_test(test_a_crowd_with_one_cold_trunk_computes_it_once),
        cmocka_unit_test(test_an_overbooked_pool_sends_back_and_serves_all),
        cmocka_unit_test(test_a_high_priority_goes_first),
        cmocka_unit_test(test_unknown_policies_are_refused_with_those_there_are),
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
