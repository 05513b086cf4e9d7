/* What submit refuses, with the field's name and the numbers; and what it must not keep. */
#include "test.h"

#include "engine_client.h"

#include <math.h>

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *client;
static int32_t prompt[600];

static int open_all(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 300, .context_tokens = 280};
    client_open_engine("llama", &options, &model, &engine);
    client = client_create();
    for (int32_t i = 0; i < 600; i++) prompt[i] = i % 512;
    return 0;
}

static int close_all(void **state) {
    (void)state;
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
    client_destroy(client);
    return 0;
}

static void refuse(const struct radish_request *request, enum radish_status status,
                   const char *field, const char *word) {
    struct radish_error err = {0};
    assert_int_equal(client_submit(client, engine, request, &err), status);
    assert_int_equal(err.status, status);
    assert_string_equal(err.field, field);
    if (!strstr(err.msg, word)) fail_msg("no '%s' in: %s", word, err.msg);
    assert_int_equal(client->choices[0].n_events, 0);
}

static void test_prompts_must_fit_with_their_answer(void **state) {
    (void)state;
    struct radish_request request = client_request(prompt, 0, 5);
    refuse(&request, RADISH_E_INVALID, "prompt", "empty");
    request = client_request(prompt, 280, 0);
    refuse(&request, RADISH_E_LIMIT, "prompt", "280");
    request = client_request(prompt, 600, 0);
    refuse(&request, RADISH_E_LIMIT, "prompt", "600");
    request = client_request(prompt, 100, 181);
    refuse(&request, RADISH_E_LIMIT, "max_tokens", "181");
    request = client_request(prompt, 100, UINT32_MAX);
    refuse(&request, RADISH_E_LIMIT, "max_tokens", "280");

    request = client_request(prompt, 279, 1);
    client_run(client, engine, &request);
    request = client_request(prompt, 100, 180);
    client_run(client, engine, &request);
    assert_int_equal(client->choices[0].n_ids, 180);
}

static void test_ids_must_be_in_the_vocabulary(void **state) {
    (void)state;
    struct radish_request request = client_request(prompt, 5, 5);
    const int32_t bad[] = {1, 512}, negative[] = {-1};
    request.prompt = bad;
    request.n_prompt = 2;
    refuse(&request, RADISH_E_INVALID, "prompt", "512");
    request.prompt = negative;
    request.n_prompt = 1;
    refuse(&request, RADISH_E_INVALID, "prompt", "-1");
    request = client_request(prompt, 5, 5);
    request.stop_ids = bad;
    request.n_stop_ids = 2;
    refuse(&request, RADISH_E_INVALID, "stop_token_ids", "512");
    struct radish_logit_bias bias = {600, 1};
    request.n_stop_ids = 0;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    refuse(&request, RADISH_E_INVALID, "logit_bias", "600");
}

static void test_counts_have_limits(void **state) {
    (void)state;
    struct radish_request request = client_request(prompt, 5, 5);
    request.n = RADISH_CHOICES_MAX + 1;
    refuse(&request, RADISH_E_LIMIT, "n", "129");
    request.n = 1;
    request.n_top_logprobs = 21;
    refuse(&request, RADISH_E_LIMIT, "top_logprobs", "21");
    request.n_top_logprobs = 0;
    request.logprob_ids = prompt;
    request.n_logprob_ids = RADISH_LOGPROB_IDS_MAX + 1;
    refuse(&request, RADISH_E_LIMIT, "logprob_ids", "65");
    request.n_logprob_ids = 1;
    request.logprob_ids = (const int32_t[]){600};
    refuse(&request, RADISH_E_INVALID, "logprob_ids", "600");
    request.n_logprob_ids = 0;
    request.prompt_logprobs = true;
    request.prompt_logprobs_from = 6;
    refuse(&request, RADISH_E_LIMIT, "prompt_logprobs_from", "6");
    request.prompt_logprobs = false;
    request.stop_ids = prompt;
    request.n_stop_ids = RADISH_STOP_IDS_MAX + 1;
    refuse(&request, RADISH_E_LIMIT, "stop_token_ids", "65");
    request.n_stop_ids = 0;
    request.min_new_tokens = 6;
    refuse(&request, RADISH_E_INVALID, "min_tokens", "6");
}

static void test_stop_strings_have_limits(void **state) {
    (void)state;
    char long_stop[300];
    memset(long_stop, 'x', sizeof long_stop);
    long_stop[257] = '\0';
    const char *stops[17];
    for (uint32_t i = 0; i < 17; i++) stops[i] = "stop";
    struct radish_request request = client_request(prompt, 5, 5);
    request.stop = stops;
    request.n_stop = 17;
    refuse(&request, RADISH_E_LIMIT, "stop", "17");
    request.n_stop = 1;
    stops[0] = "";
    refuse(&request, RADISH_E_INVALID, "stop", "empty");
    stops[0] = long_stop;
    refuse(&request, RADISH_E_LIMIT, "stop", "257");
    stops[0] = "\xff";
    refuse(&request, RADISH_E_INVALID, "stop", "UTF-8");
}

static void test_sampling_values_have_limits(void **state) {
    (void)state;
    struct radish_request request = client_request(prompt, 5, 5);
    request.sampling.temperature = -1;
    refuse(&request, RADISH_E_INVALID, "temperature", "-1");
    request.sampling.temperature = NAN;
    refuse(&request, RADISH_E_INVALID, "temperature", "nan");
    request.sampling.temperature = 1;
    request.sampling.top_p = 0;
    refuse(&request, RADISH_E_INVALID, "top_p", "0");
}

static void test_a_request_without_a_callback_is_refused(void **state) {
    (void)state;
    struct radish_request request = client_request(prompt, 5, 5);
    uint64_t id = 7;
    struct radish_error err;
    assert_int_equal(radish_engine_submit(engine, &request, &id, &err), RADISH_E_INVALID);
    assert_string_equal(err.field, "on_event");
    assert_int_equal(id, 0);
}

static void test_inputs_are_copied(void **state) {
    (void)state;
    int32_t ids[50];
    memcpy(ids, prompt, sizeof ids);
    char stop[] = "zzzz";
    const char *stops[] = {stop};
    struct radish_logit_bias bias = {3, 0.5f};
    struct radish_request request = client_request(ids, 50, 30);
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    request.stop = stops;
    request.n_stop = 1;
    client_run(client, engine, &request);
    int32_t kept[30];
    memcpy(kept, client->choices[0].ids, sizeof kept);

    assert_int_equal(client_submit(client, engine, &request, NULL), RADISH_OK);
    memset(ids, 0, sizeof ids);
    stop[0] = '\0';
    stops[0] = NULL;
    bias.id = -5;
    client_wait(client);

    assert_memory_equal(client->choices[0].ids, kept, sizeof kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts_must_fit_with_their_answer),
        cmocka_unit_test(test_ids_must_be_in_the_vocabulary),
        cmocka_unit_test(test_counts_have_limits),
        cmocka_unit_test(test_stop_strings_have_limits),
        cmocka_unit_test(test_sampling_values_have_limits),
        cmocka_unit_test(test_a_request_without_a_callback_is_refused),
        cmocka_unit_test(test_inputs_are_copied),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
