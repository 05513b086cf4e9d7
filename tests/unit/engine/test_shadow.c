/* The shadow check: right caches pass, one flipped bit in one cached slot does not, and nobody sees
 * the hidden request otherwise. */
#include "test.h"

#include "base/rng.h"
#include "cache/kv_cache_int.h"
#include "engine/engine_int.h"
#include "engine_client.h"
#include "model/runner_int.h"
#include "sched/sched_int.h"

#include <unistd.h>

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *client, *other;
static int32_t prompt[600], other_prompt[600];

static int make_clients(void **state) {
    (void)state;
    client = client_create();
    other = client_create();
    for (uint32_t i = 0; i < 600; i++) prompt[i] = (int32_t)(rng_u64(5, i) % 512);
    for (uint32_t i = 0; i < 600; i++) other_prompt[i] = (int32_t)(rng_u64(6, i) % 512);
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    client_destroy(client);
    client_destroy(other);
    return 0;
}

static void open_engine(uint32_t every) {
    struct radish_engine_options options = {
        .kv_tokens_max = 2000, .context_tokens = 512, .chunk_tokens = 64, .shadow_check = every};
    client_open_engine("llama", &options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

static void run(uint32_t n_prompt) {
    struct radish_request request = client_request(prompt, n_prompt, 3);
    client_run(client, engine, &request);
}

/* The figures once n checks have been made. */
static struct radish_engine_info after_checks(uint32_t n) {
    struct radish_engine_info info;
    for (uint32_t i = 0; i < 6000; i++) {
        radish_engine_info(engine, &info);
        if (info.shadow_checks_total >= n) break;
        usleep(10000);
    }
    assert_int_equal(info.shadow_checks_total, n);
    return info;
}

static void flip_one_bit_of_a_cached_slot(void) {
    const struct kv_pool *pool = engine->sched->kv->pool;
    uint32_t slot = 1;
    while (slot < kv_pool_n_slots(pool) && kv_pool_is_free(pool, slot)) slot++;
    assert_true(slot < kv_pool_n_slots(pool));
    size_t bytes;
    unsigned char *v =
        runner_slot_address(engine->runner, /*layer=*/0, /*is_v=*/true, slot, &bytes);
    v[0] ^= 0x40; /* the highest bit of a bf16's mantissa */
}

static void test_a_right_cache_passes_and_a_flipped_bit_is_counted(void **state) {
    (void)state;
    open_engine(1);
    run(100); /* nothing cached, nothing to check */
    for (uint32_t i = 0; i < 3; i++) {
        run(100);
        assert_int_equal(after_checks(i + 1).shadow_failures_total, 0);
    }
    radish_log_set_level(RADISH_LOG_OFF); /* an error is what is wanted here */
    flip_one_bit_of_a_cached_slot();
    run(100);
    assert_int_equal(after_checks(4).shadow_failures_total, 1);
    flip_one_bit_of_a_cached_slot(); /* and back */
    run(100);
    assert_int_equal(after_checks(5).shadow_failures_total, 1);
    radish_log_set_level(RADISH_LOG_WARN);
    close_engine();
}

static void test_one_hit_in_n_is_checked(void **state) {
    (void)state;
    open_engine(4);
    run(60);
    for (uint32_t i = 1; i <= 9; i++) {
        run(60);
        struct radish_engine_info info = after_checks(i / 4);
        assert_int_equal(info.shadow_failures_total, 0);
    }
    close_engine();
}

static void test_nobody_is_charged_for_a_check(void **state) {
    (void)state;
    open_engine(1);
    run(100);
    run(100);
    struct radish_engine_info info = after_checks(1);

    assert_int_equal(info.prompt_tokens_total, 200);
    assert_int_equal(info.cached_tokens_total, 99);
    assert_int_equal(info.output_tokens_total, 6);
    assert_int_equal(info.requests_queued, 0);
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_int_equal(info.kv_slots_evictable, 100 + 2); /* it has not fed the tree */
    close_engine();
}

static void test_choices_and_penalties_do_not_disturb_the_check(void **state) {
    (void)state;
    open_engine(1);
    struct radish_request request = client_request(prompt, 90, 5);
    request.n = 4;
    request.sampling.repetition_penalty = 1.5f;
    request.sampling.temperature = 1;
    struct radish_logit_bias bias = {7, 50};
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    client_run(client, engine, &request);
    client_run(client, engine, &request);
    struct radish_engine_info info = after_checks(1);
    assert_int_equal(info.shadow_failures_total, 0);
    assert_int_equal(info.prompt_tokens_total, 2 * 90);
    close_engine();
}

/* Hits, misses and aborts at once while checks come and go. */
static void test_checks_beside_traffic_all_pass_and_give_everything_back(void **state) {
    (void)state;
    open_engine(1);
    for (uint32_t i = 0; i < 12; i++) {
        struct radish_request request = client_request(prompt, 200 + i, 12);
        assert_int_equal(client_submit(client, engine, &request, NULL), RADISH_OK);
        request = client_request(other_prompt, 300, 150);
        assert_int_equal(client_submit(other, engine, &request, NULL), RADISH_OK);
        if (i % 3 == 0) radish_engine_abort(engine, other->request);
        client_wait(client);
        client_wait(other);
    }
    struct radish_engine_info info;
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_true(info.shadow_checks_total >= 1);
    assert_int_equal(info.shadow_failures_total, 0);
    close_engine();
}

/* The stream and the hidden request do not fit together to their ends: the stream goes on. */
static void test_a_full_pool_never_costs_a_stream_for_a_check(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 300,
                                            .context_tokens = 290,
                                            .chunk_tokens = 4,
                                            .schedule_conservativeness = 0.01,
                                            .shadow_check = 1};
    client_open_engine("llama", &options, &model, &engine);
    for (uint32_t i = 0; i < 6; i++) {
        struct radish_request request = client_request(other_prompt + i, 60, 200);
        assert_int_equal(client_submit(other, engine, &request, NULL), RADISH_OK);
        client_wait_tokens(other, 1);
        request = client_request(prompt, 150, 1);
        if (!i) client_run(client, engine, &request);
        client_run(client, engine, &request);
        client_wait(other);
        assert_int_equal(other->choices[0].n_ids, 200);
    }
    struct radish_engine_info info;
    client_assert_baseline(engine);
    radish_engine_info(engine, &info);
    assert_int_equal(info.shadow_failures_total, 0);
    close_engine();
}

static void test_closing_does_not_wait_for_a_check(void **state) {
    (void)state;
    open_engine(1);
    run(500);
    struct radish_request request = client_request(prompt, 500, 1);
    client_run(client, engine, &request);
    radish_engine_close(engine); /* the check is due, or under way */
    radish_model_close(model);
}

static void test_a_check_needs_a_cache(void **state) {
    (void)state;
    struct radish_error err = {0};
    struct radish_engine_options options = {.shadow_check = 5, .is_cache_off = true};
    assert_int_equal(radish_model_open(TEST_DATA "/models/llama", NULL, &model, NULL), RADISH_OK);
    assert_int_equal(radish_engine_open(model, &options, &engine, &err), RADISH_E_INVALID);
    assert_string_equal(err.field, "shadow-check");
    radish_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_cache_passes_and_a_flipped_bit_is_counted),
        cmocka_unit_test(test_one_hit_in_n_is_checked),
        cmocka_unit_test(test_nobody_is_charged_for_a_check),
        cmocka_unit_test(test_choices_and_penalties_do_not_disturb_the_check),
        cmocka_unit_test(test_checks_beside_traffic_all_pass_and_give_everything_back),
        cmocka_unit_test(test_a_full_pool_never_costs_a_stream_for_a_check),
        cmocka_unit_test(test_closing_does_not_wait_for_a_check),
        cmocka_unit_test(test_a_check_needs_a_cache),
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
