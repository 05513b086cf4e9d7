/* The step path allocates nothing: prefill in chunks, decode, penalties, logprobs, stop strings,
 * text, ends. */
#include "test.h"

#include "alloc_fail.h"
#include "engine_client.h"
#include "engine_int.h"

enum { N_NEW = 200, N_REQUESTS = 4 };

static struct radish_model *model;
static struct radish_engine *engine;
static int32_t prompt[300];
static size_t n_allocations;
static _Atomic size_t n_kv_events;
static uint32_t n_tokens_seen, n_ended;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Counting begins with the first event of any request, when all have been submitted, and stops with
 * the last. */
static void on_event(void *user, const struct radish_event *event) {
    (void)user;
    pthread_mutex_lock(&lock);
    if (!alloc_fail_at) {
        alloc_fail_count = 0;
        alloc_fail_at = SIZE_MAX;
    }
    n_tokens_seen += event->n_tokens;
    if (event->finish != RADISH_FINISH_NONE && ++n_ended == N_REQUESTS) {
        alloc_fail_at = 0;
        n_allocations = alloc_fail_count;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void take_kv_events(void *user, const struct radish_kv_event *events, size_t n) {
    (void)user;
    (void)events;
    n_kv_events += n;
}

static void test_the_step_path_allocates_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct radish_engine_options options = {.n_threads = 2,
                                            .kv_tokens_max = 3000,
                                            .context_tokens = 512,
                                            .chunk_tokens = 32,
                                            .explains_misses = true,
                                            .on_kv_events = take_kv_events,
                                            .shadow_check = 1};
    client_open_engine("llama", &options, &model, &engine);
    for (int32_t i = 0; i < 300; i++) prompt[i] = i;
    const char *stops[] = {"never in there", "\n\n\n\n\n\n"};
    pthread_mutex_lock(&lock); /* holds the first event back until all are in */
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct radish_request request = client_request(prompt, 20 + 60 * i, N_NEW);
        request.sampling.temperature = 1;
        request.sampling.top_k = 40;
        request.sampling.top_p = 0.9f;
        request.sampling.repetition_penalty = 1.1f;
        request.sampling.seed = i;
        request.sampling.has_seed = true;
        request.logprobs = true;
        request.n_top_logprobs = 5;
        request.prompt_logprobs = i == 2;
        request.prompt_logprobs_from = 10;
        request.logprob_ids = prompt;
        request.n_logprob_ids = 7;
        request.stop = stops;
        request.n_stop = i == 3 ? 0 : 2;
        request.on_event = on_event;
        uint64_t id;
        assert_int_equal(radish_engine_submit(engine, &request, &id, NULL), RADISH_OK);
    }
    while (n_ended < N_REQUESTS) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);

    assert_true(n_tokens_seen > 3 * N_NEW && n_kv_events > 3 * N_NEW);
    assert_int_equal(n_allocations, 0);
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

/* Until the engine's threads have begun, and freed what that and their last request took: only then
 * is this thread the only one that allocates. */
static void wait_settled(void) {
    static struct radish_radix_report report;
    struct client *client = client_create();
    struct radish_request request = client_request(prompt, 8, 2);
    client_run(client, engine, &request);
    client_assert_baseline(engine);
    assert_int_equal(radish_engine_radix_report(engine, &report, NULL), RADISH_OK);
    client_destroy(client);
}

static bool attempt_build(void *user) {
    struct engine_request *request;
    enum radish_status status = request_build(engine, user, &request, NULL);
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    assert_true((status == RADISH_OK) == (request != NULL));
    request_destroy(request);
    return status == RADISH_OK;
}

static void test_building_a_request_survives_every_failed_allocation(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct radish_engine_options options = {.kv_tokens_max = 1000, .context_tokens = 512};
    client_open_engine("llama", &options, &model, &engine);
    wait_settled();
    const char *stops[] = {"one", "two"};
    struct radish_logit_bias bias = {1, 1};
    struct radish_request request = client_request(prompt, 50, 20);
    request.n = 3;
    request.stop = stops;
    request.n_stop = 2;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    request.min_new_tokens = 2;
    request.prompt_logprobs = true;
    request.n_top_logprobs = 5;
    request.logprob_ids = prompt;
    request.n_logprob_ids = 3;
    request.on_event = on_event;

    assert_true(alloc_fail_each(attempt_build, &request) > 8);

    radish_engine_close(engine);
    radish_model_close(model);
}

static bool attempt_render(void *user) {
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"one\"}, {\"type\": \"text\", \"text\": \"two\"}]}, {\"role\": \"assistant\", "
        "\"content\": "
        "null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]}]}";
    char *text;
    size_t len;
    enum radish_status status =
        radish_render(user, json, sizeof json - 1, true, NULL, &text, &len, NULL);
    assert_true((status == RADISH_OK) == (text != NULL));
    radish_free(text);
    return status == RADISH_OK;
}

static void test_rendering_survives_every_failed_allocation(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_int_equal(radish_model_open(TEST_DATA "/models/llama", NULL, &model, NULL), RADISH_OK);

    assert_true(alloc_fail_each(attempt_render, model) > 8);

    radish_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_path_allocates_nothing),
        cmocka_unit_test(test_building_a_request_survives_every_failed_allocation),
        cmocka_unit_test(test_rendering_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
