/* Steps that overlap, on a device that runs them later (engine_async_device.h): every answer is
 * what it is when each step is begun after the one before; whatever ends, is aborted or sent back
 * while a step is in flight, no slot is lost, and the scheduler's invariants hold at every step.
 *
 * RADISH_OVERLAP_ROUNDS=N runs the random histories N times. */
#include "test.h"

#include "engine_async_device.h"
#include "engine_client.h"

#include "base/rng.h"
#include "engine/engine_int.h"
#include "sched/sched_int.h"

#include <stdlib.h>
#include <unistd.h>

enum { CLIENTS = 20, N_PROMPT_MAX = 70, N_NEW = 90 };

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *clients[CLIENTS], *wanted[CLIENTS];
static int32_t prompts[CLIENTS][N_PROMPT_MAX];
static char stops[CLIENTS][8]; /* "" = none */
static uint64_t seed;

static void check_step(void *user) {
    (void)user;
    if (engine) assert_true(sched_check(engine->sched));
}

/* Half of the prompts begin alike. */
static int make_clients(void **state) {
    (void)state;
    const char *given = getenv("RADISH_SEED");
    seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system() % 1000000;
    print_message("seed %llu (RADISH_SEED)\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_create();
        wanted[i] = client_create();
        for (uint32_t j = 0; j < N_PROMPT_MAX; j++)
            prompts[i][j] = (int32_t)(rng_u64(i % 2 && j < 30 ? 5 : 900 + i, j) % 512);
    }
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_destroy(clients[i]);
        client_destroy(wanted[i]);
    }
    return 0;
}

/* Most are the device's to sample; some are not (penalties, logprobs, two choices, minimum length),
 * and hold a step back now and then. */
static struct radish_request request_of(uint32_t i, const char **stop) {
    struct radish_request request =
        client_request(prompts[i], 5 + i * 13 % (N_PROMPT_MAX - 5), 1 + (i * 17 + 30) % N_NEW);
    request.ignore_eos = i % 3 == 0;
    if (i % 2) {
        request.sampling.temperature = 0.8f;
        request.sampling.top_p = i % 4 == 1 ? 0.9f : 1;
        request.sampling.top_k = i % 6 == 1 ? 20 : -1;
        request.sampling.min_p = i % 6 == 3 ? 0.05f : 0;
        request.sampling.seed = i;
        request.sampling.has_seed = true;
    }
    if (i % 3 == 0 && i >= 6) request.max_new_tokens = 8; /* they hold everybody back */
    if (i == 6) request.sampling.repetition_penalty = 1.3f;
    if (i == 9) request.logprobs = true;
    if (i == 12) request.n = 2;
    if (i == 15) request.min_new_tokens = 3;
    if (*stops[i]) {
        *stop = stops[i];
        request.stop = stop;
        request.n_stop = 1;
    }
    return request;
}

/* Of a history: what must not change any token. */
static uint32_t variety; /* 0: the plain engine and requests */

static void vary_options(struct radish_engine_options *options) {
    static const uint32_t pages[] = {1, 4, 1, 16};
    options->page_tokens = pages[variety % 4];
    options->has_priorities = variety % 3 == 1;
    options->shadow_check = variety % 5 == 1 ? 2 : 0;
    options->is_cache_off = variety % 5 == 3;
    options->requests_running_max = variety % 2 ? 7 : 256;
    options->chunk_tokens = 24 + variety % 7 * 10;
}

static void vary_request(uint32_t i, struct radish_request *request) {
    request->priority = (int32_t)(rng_u64(seed + variety, i) % 4) * 11;
    request->is_cache_off = i % 7 == 2;
    request->namespace_key = "another";
    request->namespace_len = i % 8 == 3 ? 7 : 0;
}

static void open_engine(const char *device, uint32_t kv_tokens, bool is_overlap_off,
                        const struct async_device_plan *plan) {
    struct radish_engine_options options = {.device = device,
                                            .n_threads = 1,
                                            .kv_tokens_max = kv_tokens,
                                            .context_tokens = 256,
                                            .chunk_tokens = 24,
                                            .schedule_conservativeness = 0.02, /* retracts */
                                            .is_overlap_off = is_overlap_off};
    if (variety) vary_options(&options);
    async_device_set(plan);
    engine = NULL;
    client_open_engine("llama", &options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
    engine = NULL;
}

static void submit(struct client **to, uint32_t i) {
    const char *stop;
    struct radish_error err;
    struct radish_request request = request_of(i, &stop);
    if (variety) vary_request(i, &request);
    if (client_submit(to[i], engine, &request, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static void run_all(struct client **to) {
    for (uint32_t i = 0; i < CLIENTS; i++) submit(to, i);
    for (uint32_t i = 0; i < CLIENTS; i++) client_wait(to[i]);
}

/* Text from the middle of an answer becomes a stop string of every third request. */
static void choose_stops(void) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < CLIENTS; i += 3) {
        const struct client_choice *choice = &wanted[i]->choices[0];
        for (size_t at = choice->text_len / 2; at + 3 < choice->text_len && !*stops[i]; at++) {
            bool is_plain = true;
            for (size_t j = 0; j < 2; j++)
                is_plain &= choice->text[at + j] > ' ' && choice->text[at + j] < 127;
            if (is_plain) memcpy(stops[i], choice->text + at, 2);
        }
        n += *stops[i] != '\0';
    }
    assert_true(n >= 2);
}

/* What all answers are when steps follow one another, in wanted[]. */
static void make_wanted(void) {
    const struct async_device_plan plan = {.samples = true, .on_step = check_step};
    if (wanted[0]->n_ended) return;
    for (uint32_t round = 0; round < 2; round++) {
        open_engine("cpu-async", 6000, /*is_overlap_off=*/true, &plan);
        run_all(wanted);
        close_engine();
        assert_int_equal(async_device_counts().n_ahead, 0);
        assert_true(async_device_counts().n_drawn > 100);
        if (!round) choose_stops();
    }
    uint32_t n_stopped = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) n_stopped += *wanted[i]->choices[0].matched_stop != 0;
    assert_true(n_stopped >= 2);
}

/* An aborted one is the beginning of what it would have been. */
static void assert_same_choice(uint32_t i, uint32_t k) {
    const struct client_choice *a = &clients[i]->choices[k], *b = &wanted[i]->choices[k];
    assert_true(a->n_ids <= b->n_ids);
    assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, a->n_ids * sizeof *a->logprobs);
    assert_int_equal(a->usage.output_tokens, a->n_ids);
    if (a->finish == RADISH_FINISH_ABORT) return;
    assert_int_equal(a->n_ids, b->n_ids);
    assert_int_equal(a->text_len, b->text_len);
    assert_memory_equal(a->text, b->text, a->text_len);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->matched_token, b->matched_token);
    assert_string_equal(a->matched_stop, b->matched_stop);
}

static void assert_same_answer(uint32_t i) {
    for (uint32_t k = 0; k < wanted[i]->n_choices; k++) {
        assert_int_not_equal(clients[i]->choices[k].finish, RADISH_FINISH_ABORT);
        assert_same_choice(i, k);
    }
}

static void test_answers_are_those_of_steps_one_after_another(void **state) {
    (void)state;
    make_wanted();
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 300, .on_step = check_step};
    open_engine("cpu-async", 6000, /*is_overlap_off=*/false, &plan);
    run_all(clients);
    for (uint32_t i = 0; i < CLIENTS; i++) assert_same_answer(i);
    close_engine();
    assert_true(async_device_counts().n_ahead > 20);
}

static void test_answers_are_those_of_the_cpu(void **state) {
    (void)state;
    make_wanted();
    const struct async_device_plan plan = {0};
    open_engine("cpu", 6000, false, &plan);
    run_all(clients);
    for (uint32_t i = 0; i < CLIENTS; i++) assert_same_answer(i);
    close_engine();
}

/* Eighty rows a step: their logits are made in two blocks. */
static void test_rows_of_every_block_are_drawn_for_their_own(void **state) {
    (void)state;
    enum { N = 10, N_CHOICES = 8, N_TOKENS = 20 };
    for (uint32_t round = 0; round < 2; round++) {
        const struct async_device_plan plan = {.samples = true, .on_step = check_step};
        struct radish_error err;
        open_engine(round ? "cpu-async" : "cpu", 6000, false, &plan);
        for (uint32_t i = 0; i < N; i++) {
            struct radish_request request = client_request(prompts[2 * i], 20, N_TOKENS);
            request.sampling.temperature = 1;
            request.sampling.seed = 100 * i;
            request.sampling.has_seed = true;
            request.n = N_CHOICES;
            if (client_submit(clients[round * N + i], engine, &request, &err) != RADISH_OK)
                fail_msg("%s", err.msg);
        }
        for (uint32_t i = 0; i < N; i++) client_wait(clients[round * N + i]);
        close_engine();
    }
    for (uint32_t i = 0; i < N * N_CHOICES; i++)
        assert_memory_equal(clients[N + i / N_CHOICES]->choices[i % N_CHOICES].ids,
                            clients[i / N_CHOICES]->choices[i % N_CHOICES].ids,
                            N_TOKENS * sizeof(int32_t));
    assert_true(async_device_counts().n_drawn > N * N_CHOICES);
}

static double decode_ns;

static void watch_pace(void *user) {
    check_step(user);
    if (engine) decode_ns = pace_decode_ns(&engine->sched->pace, 1);
}

/* A step lasts from the end of the one before, however early it was begun; with the same delays
 * the scheduler expects the same. */
static void test_a_step_is_measured_from_the_end_of_the_one_before(void **state) {
    (void)state;
    double ns[2];
    for (uint32_t round = 0; round < 2; round++) {
        const struct async_device_plan plan = {
            .samples = true, .delay_us_max = 10000, .on_step = watch_pace};
        open_engine("cpu-async", 2000, /*is_overlap_off=*/!round, &plan);
        struct radish_request request = client_request(prompts[0], 10, 20);
        client_run(clients[0], engine, &request);
        close_engine();
        ns[round] = decode_ns;
    }
    assert_true(ns[0] > 1e6 && ns[1] > 0.5 * ns[0] && ns[1] < 1.5 * ns[0]);
}

/* Then only chunks of prompts run ahead, and the host samples every token. */
static void test_a_device_that_does_not_sample_overlaps_prefill(void **state) {
    (void)state;
    make_wanted();
    const struct async_device_plan plan = {.delay_us_max = 100, .on_step = check_step};
    open_engine("cpu-async", 6000, false, &plan);
    run_all(clients);
    for (uint32_t i = 0; i < CLIENTS; i++) assert_same_answer(i);
    uint64_t n_before = async_device_counts().n_ahead;
    struct radish_request request = client_request(prompts[0], N_PROMPT_MAX, 2);
    request.is_cache_off = true;
    client_run(clients[0], engine, &request);
    close_engine();
    assert_int_equal(async_device_counts().n_ahead, n_before + 2);
    assert_int_equal(async_device_counts().n_drawn, 0);
}

/* One stream alone: all of its decode steps but the first can be begun early. */
static void test_every_step_of_a_stream_is_begun_before_the_one_before_has_ended(void **state) {
    (void)state;
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 50, .on_step = check_step};
    open_engine("cpu-async", 2000, false, &plan);
    struct radish_request request = client_request(prompts[0], 10, 30);
    client_run(clients[0], engine, &request);
    assert_int_equal(clients[0]->choices[0].n_ids, 30);
    close_engine();
    assert_int_equal(async_device_counts().n_steps, 30);
    assert_int_equal(async_device_counts().n_ahead, 29);
    assert_int_equal(async_device_counts().n_drawn, 30);
}

/* Whoever looks at logits keeps steps apart. */
static void test_log_probabilities_and_penalties_are_the_hosts(void **state) {
    (void)state;
    const struct async_device_plan plan = {.samples = true, .on_step = check_step};
    open_engine("cpu-async", 2000, false, &plan);
    struct radish_request request = client_request(prompts[0], 10, 20);
    request.logprobs = true;
    client_run(clients[0], engine, &request);
    request.logprobs = false;
    request.sampling.frequency_penalty = 0.5f;
    client_run(clients[1], engine, &request);
    close_engine();
    assert_int_equal(async_device_counts().n_ahead, 0);
    assert_int_equal(async_device_counts().n_drawn, 0);
}

static void test_steps_that_the_device_gives_up_are_run_again(void **state) {
    (void)state;
    make_wanted();
    for (uint32_t runs_on = 0; runs_on < 2; runs_on++) {
        const struct async_device_plan plan = {.samples = true,
                                               .delay_us_max = 100,
                                               .give_up_1_in = 5,
                                               .runs_on = runs_on,
                                               .on_step = check_step};
        open_engine("cpu-async", 6000, false, &plan);
        run_all(clients);
        for (uint32_t i = 0; i < CLIENTS; i++) assert_same_answer(i);
        close_engine();
        assert_true(async_device_counts().n_given_up > 3);
    }
}

static void test_a_device_that_fails_ends_what_is_in_flight_and_loses_no_slot(void **state) {
    (void)state;
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 100, .fail_at = 12, .on_step = check_step};
    open_engine("cpu-async", 6000, false, &plan);
    run_all(clients);
    uint32_t n_failed = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        n_failed += clients[i]->choices[0].finish == RADISH_FINISH_ERROR;
        if (clients[i]->choices[0].finish == RADISH_FINISH_ERROR)
            assert_int_equal(clients[i]->choices[0].status, RADISH_E_INTERNAL);
    }
    assert_true(n_failed > CLIENTS / 2);
    close_engine();
}

/* Whether it is a step in front, behind one in flight, or one that is to be done again. */
static void test_a_device_that_takes_no_more_steps_ends_everybody(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 12; round++) {
        const struct async_device_plan plan = {.samples = true,
                                               .give_up_1_in = round % 3 ? 2 : 0,
                                               .refuse_at = 3 + round,
                                               .on_step = check_step};
        struct radish_error err;
        open_engine("cpu-async", 4000, false, &plan);
        for (uint32_t i = 0; i < 3; i++) {
            struct radish_request request = client_request(prompts[i], 20, 40);
            if (client_submit(clients[i], engine, &request, &err) != RADISH_OK)
                fail_msg("%s", err.msg);
        }
        for (uint32_t i = 0; i < 3; i++) {
            client_wait(clients[i]);
            assert_int_equal(clients[i]->choices[0].finish, RADISH_FINISH_ERROR);
            assert_int_equal(clients[i]->choices[0].status, RADISH_E_INTERNAL);
        }
        close_engine();
    }
}

static uint32_t logits_from;

static void count_rows(void *user, size_t row, size_t n_rows, size_t n_vocab, const float *logits) {
    uint32_t *n_seen = ((struct client *)user)->extra;
    (void)n_vocab;
    if (row == logits_from + *n_seen && logits) *n_seen += (uint32_t)n_rows;
}

/* Three chunks, the last of which is begun while the second is in flight: the answer of no tokens
 * ends with the third, whose logits are told and whose KV is found by the next. */
static void test_a_prompt_without_an_answer_ends_with_its_last_chunk(void **state) {
    (void)state;
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 50, .on_step = check_step};
    uint32_t n_seen = 0;
    struct radish_request request = client_request(prompts[0], N_PROMPT_MAX, 0);
    open_engine("cpu-async", 2000, false, &plan);
    client_run(clients[0], engine, &request);
    assert_int_equal(clients[0]->choices[0].finish, RADISH_FINISH_LENGTH);
    assert_int_equal(async_device_counts().n_steps, 3);
    assert_int_equal(async_device_counts().n_ahead, 2);
    request.max_new_tokens = 1;
    client_run(clients[0], engine, &request);
    assert_int_equal(clients[0]->choices[0].usage.cached_tokens, N_PROMPT_MAX - 1);

    const uint32_t froms[] = {60, 50, N_PROMPT_MAX - 1};
    for (uint32_t i = 0; i < 3; i++) {
        request = client_request(prompts[2 + 2 * i], N_PROMPT_MAX, i);
        request.on_logits = count_rows;
        request.logits_from = logits_from = froms[i];
        clients[1]->extra = &n_seen;
        n_seen = 0;
        client_run(clients[1], engine, &request);
        assert_int_equal(n_seen, N_PROMPT_MAX - froms[i]);
        assert_int_equal(clients[1]->choices[0].n_ids, i);
    }
    close_engine();
}

/* A check that has become due waits for the queue to be empty, which it is for the first time while
 * a step is in flight: it must not be pushed behind that, since with priorities whoever waits is a
 * reason not to fill ahead. */
static void test_a_shadow_check_with_priorities_waits_for_the_step_in_flight(void **state) {
    (void)state;
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 100, .on_step = check_step};
    struct radish_engine_options options = {.device = "cpu-async",
                                            .n_threads = 1,
                                            .kv_tokens_max = 4000,
                                            .context_tokens = 256,
                                            .requests_running_max = 2,
                                            .has_priorities = true,
                                            .shadow_check = 1};
    struct radish_engine_info info;
    struct radish_error err;
    async_device_set(&plan);
    client_open_engine("llama", &options, &model, &engine);
    struct radish_request request = client_request(prompts[0], 40, 2);
    client_run(clients[0], engine, &request);
    for (uint32_t i = 0; i < 3; i++) { /* a hit; who runs long; who waits while the hit is seen */
        request = client_request(prompts[i ? i + 1 : 0], 40, i ? 100 : 2);
        if (client_submit(clients[i], engine, &request, &err) != RADISH_OK) fail_msg("%s", err.msg);
    }
    for (uint32_t i = 0; i < 3; i++) client_wait(clients[i]);
    for (uint32_t i = 0; i < 3000; i++) {
        radish_engine_info(engine, &info);
        if (info.shadow_checks_total) break;
        usleep(1000);
    }
    close_engine();
    assert_int_equal(info.shadow_checks_total, 1);
    assert_int_equal(info.shadow_failures_total, 0);
}

/* The step behind has computed something for it already; the others go on. */
static void test_a_row_without_numbers_ends_its_request_alone(void **state) {
    (void)state;
    enum { N = 3, N_TOKENS = 40 };
    struct radish_error err;
    uint32_t n_failed = 0;
    for (uint32_t round = 0; round < 2; round++) {
        const struct async_device_plan plan = {.samples = true,
                                               .delay_us_max = 50,
                                               .nothing_at = round ? 50 : 0,
                                               .on_step = check_step};
        open_engine("cpu-async", 4000, false, &plan);
        for (uint32_t i = 0; i < N; i++) {
            struct radish_request request = client_request(prompts[i], 20, N_TOKENS);
            struct client *client = clients[round * N + i];
            if (client_submit(client, engine, &request, &err) != RADISH_OK) fail_msg("%s", err.msg);
        }
        for (uint32_t i = 0; i < N; i++) client_wait(clients[round * N + i]);
        close_engine();
        assert_true(async_device_counts().n_ahead > N_TOKENS / 2);
    }
    for (uint32_t i = 0; i < N; i++) {
        const struct client_choice *a = &clients[N + i]->choices[0], *b = &clients[i]->choices[0];
        const bool has_failed = a->finish == RADISH_FINISH_ERROR;
        n_failed += has_failed;
        assert_int_equal(a->status, has_failed ? RADISH_E_INTERNAL : RADISH_OK);
        assert_true(has_failed ? a->n_ids < N_TOKENS : a->n_ids == N_TOKENS);
        assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
    }
    assert_int_equal(n_failed, 1);
}

/* Both wait for the step in flight, so what it makes is told: each step gave a token. */
static void test_aborts_and_timeouts_take_up_the_step_in_flight(void **state) {
    (void)state;
    for (uint32_t is_late = 0; is_late < 2; is_late++) {
        const struct async_device_plan plan = {
            .samples = true, .delay_us_max = 1000, .on_step = check_step};
        struct radish_engine_options options = {.device = "cpu-async",
                                                .n_threads = 1,
                                                .kv_tokens_max = 2000,
                                                .context_tokens = 512,
                                                .request_timeout_seconds = is_late ? 0.03 : 0};
        async_device_set(&plan);
        client_open_engine("llama", &options, &model, &engine);
        struct radish_request request = client_request(prompts[0], 10, 400);
        clients[0]->abort_at_ids = is_late ? 0 : 5; /* from the callback, with one in flight */
        client_run(clients[0], engine, &request);
        clients[0]->abort_at_ids = 0;
        close_engine();
        const struct client_choice *choice = &clients[0]->choices[0];
        assert_int_equal(choice->finish, RADISH_FINISH_ABORT);
        assert_int_equal(choice->status, is_late ? RADISH_E_TIMEOUT : RADISH_E_ABORTED);
        assert_int_equal(choice->n_ids, async_device_counts().n_steps);
        if (!is_late) assert_int_equal(choice->n_ids, 6);
    }
}

/* A flush that waits for an answer that ends late, with a row for nobody in flight; and an engine
 * that is closed in the middle of one. The device minds that nothing is left to wait for. */
static void test_a_flush_and_the_end_wait_for_the_step_in_flight(void **state) {
    (void)state;
    make_wanted();
    uint32_t at = 1;
    while (at < CLIENTS && !*wanted[at]->choices[0].matched_stop) at++;
    assert_true(at < CLIENTS);
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 2000, .on_step = check_step};
    open_engine("cpu-async", 2000, false, &plan);
    submit(clients, at);
    client_wait_tokens(clients[at], 1);
    assert_int_equal(radish_engine_flush(engine, 60, NULL), RADISH_OK);
    client_wait(clients[at]);
    assert_same_answer(at);
    submit(clients, at);
    client_wait_tokens(clients[at], 2);
    radish_engine_close(engine);
    radish_model_close(model);
    engine = NULL;
    client_wait(clients[at]);
}

/* An end token that is banned so far is the host's business, and so are the rows until then. */
static void test_a_minimum_length_is_kept_and_then_steps_overlap(void **state) {
    (void)state;
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 50, .on_step = check_step};
    open_engine("cpu-async", 2000, false, &plan);
    struct radish_request request = client_request(prompts[0], 10, 20);
    client_run(clients[0], engine, &request);
    const int32_t end = clients[0]->choices[0].ids[2];
    request.stop_ids = &end;
    request.n_stop_ids = 1;
    request.min_new_tokens = 8;
    const uint64_t n_drawn = async_device_counts().n_drawn, n_ahead = async_device_counts().n_ahead;
    client_run(clients[1], engine, &request);
    const struct client_choice *choice = &clients[1]->choices[0];
    close_engine();
    assert_true(choice->n_ids > 8);
    for (uint32_t i = 0; i < 8; i++) assert_int_not_equal(choice->ids[i], end);
    assert_in_range(async_device_counts().n_drawn - n_drawn, choice->n_ids - 8,
                    choice->n_ids - 8 + 1); /* one for nobody */
    assert_true(async_device_counts().n_ahead - n_ahead >= choice->n_ids - 9);
}

/* The step behind the one that ended the last answer is nobody's, and no time without tokens. */
static void test_a_row_for_nobody_does_not_end_the_rate(void **state) {
    (void)state;
    make_wanted();
    uint32_t at = 1;
    while (at < CLIENTS && !*wanted[at]->choices[0].matched_stop) at++;
    assert_true(at < CLIENTS);
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 8000, .on_step = check_step};
    struct radish_engine_info info;
    open_engine("cpu-async", 2000, false, &plan);
    submit(clients, at);
    client_wait(clients[at]);
    assert_same_answer(at);
    client_assert_baseline(engine);
    for (uint32_t i = 0; i < 1000; i++) { /* the last step ends after the answer */
        usleep(1000);
        radish_engine_info(engine, &info);
        if (info.steps_total == async_device_counts().n_steps) break;
    }
    assert_int_equal(info.steps_total, async_device_counts().n_steps);
    close_engine();
    assert_true(async_device_counts().n_steps > clients[at]->choices[0].n_ids);
    assert_true(info.output_tokens_per_second > 0);
}

/* Aborts from callbacks and from here, too small a pool, stop strings, reports and flushes. */
static void run_history(uint32_t round, struct radish_engine_info *info_out) {
    const struct async_device_plan plan = {.samples = true,
                                           .delay_us_max = 200 * (round % 3),
                                           .give_up_1_in = round % 2 ? 0 : 40,
                                           .runs_on = round % 4 == 2,
                                           .on_step = check_step};
    variety = round;
    open_engine("cpu-async", 256 + 10 * (round % 4), false, &plan);
    uint64_t n = 0;
    for (uint32_t i = 0; i < CLIENTS; i++)
        clients[i]->abort_at_ids =
            rng_u64(seed + round, n++) % 4 ? 0 : 1 + (uint32_t)(rng_u64(seed + round, n++) % 12);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        submit(clients, i);
        if (rng_u64(seed + round, n++) % 5 == 0) {
            struct radish_radix_report report;
            usleep((useconds_t)(rng_u64(seed + round, n++) % 3000));
            assert_int_equal(radish_engine_radix_report(engine, &report, NULL), RADISH_OK);
        }
        if (rng_u64(seed + round, n++) % 6 == 0)
            radish_engine_abort(engine, clients[rng_u64(seed + round, n++) % (i + 1)]->request);
        if (rng_u64(seed + round, n++) % 9 == 0) {
            enum radish_status status = radish_engine_flush(engine, 0.001, NULL);
            assert_true(status == RADISH_OK || status == RADISH_AGAIN);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_wait(clients[i]);
        clients[i]->abort_at_ids = 0;
        for (uint32_t k = 0; k < clients[i]->n_choices; k++) assert_same_choice(i, k);
    }
    radish_engine_info(engine, info_out);
    client_assert_baseline(engine);
    assert_int_equal(radish_engine_flush(engine, 1, NULL), RADISH_OK);
    do { /* figures are told between two steps */
        usleep(1000);
        radish_engine_info(engine, info_out);
    } while (info_out->kv_slots_free != info_out->kv_slots_total);
    assert_int_equal(info_out->shadow_failures_total, 0);
    close_engine();
    variety = 0;
}

/* Eight answers of 90 tokens in a pool of 256: whoever is sent back goes on where it was. */
static void test_a_full_pool_sends_back_between_steps(void **state) {
    (void)state;
    enum { N = 8, N_TOKENS = 90 };
    const struct async_device_plan plan = {
        .samples = true, .delay_us_max = 100, .on_step = check_step};
    struct radish_engine_info info;
    struct radish_error err;
    for (uint32_t round = 0; round < 2; round++) {
        struct client **to = round ? clients : wanted + N;
        open_engine("cpu-async", round ? 256 : 4000, /*is_overlap_off=*/!round, &plan);
        for (uint32_t i = 0; i < N; i++) {
            struct radish_request request = client_request(prompts[i], 10, N_TOKENS);
            if (client_submit(to[i], engine, &request, &err) != RADISH_OK) fail_msg("%s", err.msg);
        }
        for (uint32_t i = 0; i < N; i++) client_wait(to[i]);
        radish_engine_info(engine, &info);
        close_engine();
    }
    assert_true(info.retractions_total > 0 && async_device_counts().n_ahead > 50);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(clients[i]->choices[0].n_ids, N_TOKENS);
        assert_memory_equal(clients[i]->choices[0].ids, wanted[N + i]->choices[0].ids,
                            N_TOKENS * sizeof(int32_t));
    }
}

static void test_no_slot_and_no_token_is_lost_whatever_ends_meanwhile(void **state) {
    (void)state;
    make_wanted();
    const char *given = getenv("RADISH_OVERLAP_ROUNDS");
    uint32_t n_rounds = given ? (uint32_t)strtoul(given, NULL, 10) : 6;
    uint64_t n_retracted = 0, n_ahead = 0;
    for (uint32_t round = 0; round < n_rounds; round++) {
        struct radish_engine_info info;
        run_history(round, &info);
        n_retracted += info.retractions_total;
        n_ahead += async_device_counts().n_ahead;
    }
    print_message("%llu retractions, %llu steps ahead\n", (unsigned long long)n_retracted,
                  (unsigned long long)n_ahead);
    assert_true(n_ahead > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_of_steps_one_after_another),
        cmocka_unit_test(test_answers_are_those_of_the_cpu),
        cmocka_unit_test(test_rows_of_every_block_are_drawn_for_their_own),
        cmocka_unit_test(test_a_step_is_measured_from_the_end_of_the_one_before),
        cmocka_unit_test(test_a_device_that_does_not_sample_overlaps_prefill),
        cmocka_unit_test(test_every_step_of_a_stream_is_begun_before_the_one_before_has_ended),
        cmocka_unit_test(test_log_probabilities_and_penalties_are_the_hosts),
        cmocka_unit_test(test_steps_that_the_device_gives_up_are_run_again),
        cmocka_unit_test(test_a_device_that_fails_ends_what_is_in_flight_and_loses_no_slot),
        cmocka_unit_test(test_a_device_that_takes_no_more_steps_ends_everybody),
        cmocka_unit_test(test_a_prompt_without_an_answer_ends_with_its_last_chunk),
        cmocka_unit_test(test_a_shadow_check_with_priorities_waits_for_the_step_in_flight),
        cmocka_unit_test(test_a_row_without_numbers_ends_its_request_alone),
        cmocka_unit_test(test_aborts_and_timeouts_take_up_the_step_in_flight),
        cmocka_unit_test(test_a_flush_and_the_end_wait_for_the_step_in_flight),
        cmocka_unit_test(test_a_minimum_length_is_kept_and_then_steps_overlap),
        cmocka_unit_test(test_a_row_for_nobody_does_not_end_the_rate),
        cmocka_unit_test(test_no_slot_and_no_token_is_lost_whatever_ends_meanwhile),
        cmocka_unit_test(test_a_full_pool_sends_back_between_steps), /* overwrites wanted[] */
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
