/* The cache emptied while the engine serves: all slots are free after, the next request computes
 * everything and answers the same, and nothing is flushed under somebody who runs. Also what else
 * is asked of the engine's own thread. */
#include "test.h"

#include "engine_client.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/engine_int.h"

#include <pthread.h>
#include <unistd.h>

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *client;
static int32_t prompt[300];

static int make_prompt(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 300; i++) prompt[i] = (int32_t)(rng_u64(7, i) % 512);
    return 0;
}

static void open_engine(const struct radish_engine_options *more) {
    struct radish_engine_options options = {0};
    if (more) options = *more;
    options.kv_tokens_max = 4000;
    options.context_tokens = 2048;
    client_open_engine("llama", &options, &model, &engine);
    client = client_create();
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
    client_destroy(client);
}

static uint32_t run_cached(void) {
    struct radish_request request = client_request(prompt, 200, 10);
    client_run(client, engine, &request);
    return client->choices[0].usage.cached_tokens;
}

/* Of a cache where the request was computed before, without any running now. */
static void flush(void) {
    struct radish_error err = {0};
    if (radish_engine_flush(engine, 0, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static void test_after_a_flush_all_is_free_and_all_is_computed_again(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 16};
    for (uint32_t p = 0; p < 2; p++) {
        struct radish_engine_options options = {.page_tokens = pages[p], .explains_misses = true};
        struct radish_engine_info info;
        int32_t ids[10];
        open_engine(&options);
        assert_int_equal(run_cached(), 0);
        memcpy(ids, client->choices[0].ids, sizeof ids);
        assert_true(run_cached() >= 199 / pages[p] * pages[p]);

        flush();

        do radish_engine_info(engine, &info);
        while (!info.flushes_total);
        assert_int_equal(info.kv_slots_free, info.kv_slots_total);
        assert_int_equal(info.evicted_tokens_total, 0);
        assert_int_equal(run_cached(), 0);
        assert_memory_equal(client->choices[0].ids, ids, sizeof ids);
        assert_true(run_cached() >= 199 / pages[p] * pages[p]);

        struct radish_radix_report report;
        assert_int_equal(radish_engine_radix_report(engine, &report, NULL), RADISH_OK);
        assert_int_equal(report.misses[1].miss, RADISH_MISS_UNSEEN); /* not "evicted" */
        close_engine();
    }
}

static void test_nothing_is_flushed_while_somebody_runs(void **state) {
    (void)state;
    open_engine(NULL);
    assert_int_equal(run_cached(), 0);
    struct radish_request request = client_request(prompt, 200, 1000);
    struct radish_error err = {0};
    request.ignore_eos = true;
    assert_int_equal(client_submit(client, engine, &request, &err), RADISH_OK);
    client_wait_tokens(client, 1);

    assert_int_equal(radish_engine_flush(engine, 0, &err), RADISH_AGAIN);

    assert_non_null(strstr(err.msg, "0 queued, 1 running"));
    radish_engine_abort(engine, client->request);
    client_wait(client);
    assert_int_equal(run_cached(), 199); /* still there */
    close_engine();
}

static void *wait_to_flush(void *arg) {
    struct radish_error err = {0};
    enum radish_status *status = arg;
    do *status = radish_engine_flush(engine, 60, &err);
    while (*status == RADISH_AGAIN && strstr(err.msg, "another flush"));
    return NULL;
}

static void test_a_flush_waits_for_the_last_request_and_is_alone(void **state) {
    (void)state;
    open_engine(NULL);
    struct radish_request request = client_request(prompt, 200, 1000);
    struct radish_error err = {0};
    enum radish_status status, waited;
    pthread_t waiter;
    request.ignore_eos = true;
    assert_int_equal(client_submit(client, engine, &request, &err), RADISH_OK);
    client_wait_tokens(client, 1);
    assert_int_equal(pthread_create(&waiter, NULL, wait_to_flush, &waited), 0);

    do { /* until the other one is there */
        usleep(1000);
        status = radish_engine_flush(engine, 0, &err);
    } while (status == RADISH_AGAIN && !strstr(err.msg, "another flush"));
    assert_int_equal(status, RADISH_AGAIN);
    radish_engine_abort(engine, client->request);
    client_wait(client);
    pthread_join(waiter, NULL);

    assert_int_equal(waited, RADISH_OK);
    assert_int_equal(run_cached(), 0);
    close_engine();
}

static void test_a_flush_gives_up_in_time(void **state) {
    (void)state;
    open_engine(NULL);
    struct radish_request request = client_request(prompt, 200, 1000);
    struct radish_error err = {0};
    request.ignore_eos = true;
    assert_int_equal(client_submit(client, engine, &request, &err), RADISH_OK);
    uint64_t begun_ns = clock_ns();

    enum radish_status status = radish_engine_flush(engine, 0.05, &err);

    assert_int_equal(status, RADISH_AGAIN);
    assert_true(clock_ns() - begun_ns >= 50000000u);
    radish_engine_abort(engine, client->request);
    client_wait(client);
    close_engine();
}

static void test_a_flush_drops_the_check_of_a_hit_that_is_no_more(void **state) {
    (void)state;
    struct radish_engine_options options = {.shadow_check = 1};
    open_engine(&options);
    for (uint32_t i = 0; i < 20; i++) {
        run_cached();
        run_cached();
        flush();
    }
    struct radish_engine_info info;
    radish_engine_info(engine, &info);
    assert_int_equal(info.shadow_failures_total, 0);
    close_engine();
}

static void test_an_engine_without_a_cache_has_nothing_to_flush(void **state) {
    (void)state;
    struct radish_engine_options options = {.is_cache_off = true};
    open_engine(&options);
    run_cached();
    flush();
    assert_int_equal(run_cached(), 0);
    close_engine();
}

/* ---- asking ---- */

static void look(struct radish_engine *asked, void *arg) {
    bool *is_own_thread = arg;
    *is_own_thread = asked == engine && pthread_equal(pthread_self(), asked->thread);
}

enum { ASKERS = 4, ASKED = 200 };

static void *ask_often(void *arg) {
    uint32_t *n = arg;
    for (uint32_t i = 0; i < ASKED; i++) {
        bool is_own_thread = false;
        if (engine_ask(engine, look, &is_own_thread) == RADISH_OK && is_own_thread) ++*n;
    }
    return NULL;
}

static void test_many_ask_while_requests_run_and_flushes_come(void **state) {
    (void)state;
    open_engine(NULL);
    pthread_t threads[ASKERS];
    uint32_t n_answers[ASKERS] = {0};
    for (uint32_t i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &n_answers[i]), 0);
    for (uint32_t i = 0; i < 20; i++) {
        run_cached();
        if (i % 5 == 4) flush();
    }
    for (uint32_t i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(n_answers[i], ASKED);
    }
    close_engine();
}

/* ---- figures ---- */

static void test_figures_tell_what_was_done(void **state) {
    (void)state;
    struct radish_engine_info info;
    open_engine(NULL);
    run_cached();
    run_cached();
    struct radish_request request = client_request(prompt, 200, 5);
    request.is_uncounted = request.is_cache_off = true;
    client_run(client, engine, &request);
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);

    assert_int_equal(info.requests_total, 2); /* and one that does not count */
    assert_int_equal(info.prompt_tokens_total, 400);
    assert_int_equal(info.cached_tokens_total, 199);
    assert_int_equal(info.output_tokens_total, 20);
    /* 200 and 9 decodes, 1 and 9 decodes, and 4 decodes of the one that does not count */
    assert_int_equal(info.computed_tokens_total, 209 + 10 + 4);
    assert_true(info.cache_hit_rate > 0.497 && info.cache_hit_rate < 0.498);
    assert_true(info.stall_seconds_max > 0);
    assert_int_equal(info.kv_slots_free + info.kv_slots_evictable + info.kv_slots_pinned +
                         info.kv_slots_private,
                     info.kv_slots_total);
    assert_int_equal(info.kv_slots_evictable, 209);
    assert_true(info.weight_bytes && info.kv_bytes && info.scratch_bytes && info.kv_slot_bytes);
    assert_true(*info.isa && *info.bit_class && *info.kv_dtype && *info.kernels_report);

    request = client_request(prompt, 200, 1000);
    request.ignore_eos = true;
    assert_int_equal(client_submit(client, engine, &request, NULL), RADISH_OK);
    client_wait_tokens(client, 3);
    radish_engine_abort(engine, client->request);
    client_wait(client);
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_int_equal(info.requests_total, 3);
    assert_int_equal(info.requests_aborted_total, 1);
    close_engine();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_a_flush_all_is_free_and_all_is_computed_again),
        cmocka_unit_test(test_nothing_is_flushed_while_somebody_runs),
        cmocka_unit_test(test_a_flush_waits_for_the_last_request_and_is_alone),
        cmocka_unit_test(test_a_flush_gives_up_in_time),
        cmocka_unit_test(test_a_flush_drops_the_check_of_a_hit_that_is_no_more),
        cmocka_unit_test(test_an_engine_without_a_cache_has_nothing_to_flush),
        cmocka_unit_test(test_many_ask_while_requests_run_and_flushes_come),
        cmocka_unit_test(test_figures_tell_what_was_done),
    };
    return cmocka_run_group_tests(tests, make_prompt, NULL);
}
