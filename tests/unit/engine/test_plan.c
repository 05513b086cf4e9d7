/* The memory plan: what it adds up to, what it refuses with which words, and that a context that
 * was asked for is never cut. */
#include "test.h"

#include "engine/plan.h"

static struct radish_model *model;
static struct device *device;

#define MB(n) ((uint64_t)(n) << 20)

static int open_all(void **state) {
    (void)state;
    struct device_options options = {.n_threads = 2};
    if (radish_model_open(TEST_DATA "/models/llama", NULL, &model, NULL)) return 1;
    return device_open("cpu", &options, &device, NULL) != RADISH_OK;
}

static int close_all(void **state) {
    (void)state;
    device_close(device);
    radish_model_close(model);
    return 0;
}

static enum radish_status make(const struct radish_engine_options *given, uint64_t have_bytes,
                               struct engine_plan *plan, struct radish_error *err) {
    struct radish_engine_options options;
    enum radish_status status = plan_options(given, &options, err);
    if (status == RADISH_OK) status = plan_make(model, device, &options, have_bytes, plan, err);
    return status;
}

static struct engine_plan make_ok(const struct radish_engine_options *given, uint64_t have_bytes) {
    struct engine_plan plan;
    struct radish_error err;
    if (make(given, have_bytes, &plan, &err) != RADISH_OK) fail_msg("%s", err.msg);
    assert_true(plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes <= have_bytes);
    assert_true(plan.runner.context_tokens <= plan.n_usable);
    assert_int_equal(plan.runner.n_slots, plan.n_usable + plan.options.page_tokens);
    return plan;
}

static void refuse(const struct radish_engine_options *given, uint64_t have_bytes,
                   enum radish_status status, const char *field, const char *flag) {
    struct engine_plan plan;
    struct radish_error err = {0};
    assert_int_equal(make(given, have_bytes, &plan, &err), status);
    assert_string_equal(err.field, field);
    if (!strstr(err.msg, flag)) fail_msg("no '%s' in: %s", flag, err.msg);
}

static void test_plenty_of_memory_gives_16_contexts(void **state) {
    (void)state;
    struct engine_plan plan = make_ok(NULL, MB(64 << 10));
    assert_int_equal(plan.runner.context_tokens, 512);
    assert_int_equal(plan.n_usable, 16 * 512);
    assert_int_equal(plan.options.requests_running_max, 256);
    assert_int_equal(plan.options.chunk_tokens, 512);
}

static void test_the_fraction_is_of_what_weights_and_scratch_leave(void **state) {
    (void)state;
    struct radish_engine_options options = {.requests_running_max = 4, .chunk_tokens = 16};
    struct engine_plan plan = make_ok(&options, MB(64 << 10));
    uint64_t fixed = plan.weight_bytes + plan.scratch_bytes, slot = plan.kv_slot_bytes;

    plan = make_ok(&options, fixed + 4000 * slot);
    assert_in_range(plan.n_usable, 1950, 2050);
    options.mem_fraction_static = 0.25;
    plan = make_ok(&options, fixed + 4000 * slot);
    assert_in_range(plan.n_usable, 970, 1030);
}

static void test_a_context_that_was_not_asked_for_is_cut_to_what_fits(void **state) {
    (void)state;
    struct radish_engine_options options = {.requests_running_max = 4, .chunk_tokens = 16};
    struct engine_plan plan = make_ok(&options, MB(64 << 10));
    uint64_t have = plan.weight_bytes + plan.scratch_bytes + 700 * plan.kv_slot_bytes;

    plan = make_ok(&options, have);
    assert_in_range(plan.n_usable, 300, 400);
    assert_int_equal(plan.runner.context_tokens, plan.n_usable);
    options.context_tokens = 512;
    refuse(&options, have, RADISH_E_NOMEM, "context-length", "--mem-fraction-static");
    options.context_tokens = 300;
    assert_int_equal(make_ok(&options, have).runner.context_tokens, 300);
}

static void test_a_pool_of_asked_size_is_that_size_or_refused(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 1003, .page_tokens = 4};
    assert_int_equal(make_ok(&options, MB(64 << 10)).n_usable, 1000);

    options.kv_tokens_max = 1000000000;
    refuse(&options, MB(1 << 10), RADISH_E_NOMEM, "max-total-tokens", "--max-total-tokens");
    options.kv_tokens_max = UINT64_MAX;
    refuse(&options, MB(1 << 10), RADISH_E_NOMEM, "max-total-tokens", "--max-total-tokens");
    options.kv_tokens_max = 100;
    refuse(&options, MB(1 << 10), RADISH_E_NOMEM, "max-total-tokens", "256");
    options.kv_tokens_max = 300;
    options.context_tokens = 512;
    refuse(&options, MB(1 << 10), RADISH_E_NOMEM, "context-length", "--max-total-tokens");
}

static void test_too_little_memory_is_refused_with_need_and_have(void **state) {
    (void)state;
    refuse(NULL, MB(1), RADISH_E_NOMEM, "model", "0.00 GB are available");
    struct radish_engine_options options = {.requests_running_max = 4, .chunk_tokens = 16};
    struct engine_plan plan = make_ok(&options, MB(64 << 10));
    uint64_t fixed = plan.weight_bytes + plan.scratch_bytes;
    refuse(&options, fixed + 400 * plan.kv_slot_bytes, RADISH_E_NOMEM, "mem-fraction-static",
           "--mem-fraction-static");
}

static void test_senseless_options_name_their_flag(void **state) {
    (void)state;
    struct radish_engine_options options = {.mem_fraction_static = 1.5};
    refuse(&options, MB(1 << 10), RADISH_E_INVALID, "mem-fraction-static", "1.5");
    options = (struct radish_engine_options){.page_tokens = 100000};
    refuse(&options, MB(1 << 10), RADISH_E_INVALID, "page-size", "100000");
    options = (struct radish_engine_options){.chunk_tokens = 1u << 30};
    refuse(&options, MB(1 << 10), RADISH_E_INVALID, "chunked-prefill-size", "1073741824");
    options = (struct radish_engine_options){.request_timeout_seconds = -1};
    refuse(&options, MB(1 << 10), RADISH_E_INVALID, "request-timeout", "negative");
    options = (struct radish_engine_options){.quantization = "awq"};
    refuse(&options, MB(1 << 10), RADISH_E_INVALID, "quantization", "'awq' is not one of q8_0");
}

static void test_quantised_weights_leave_more_to_the_pool(void **state) {
    (void)state;
    struct radish_engine_options options = {.requests_running_max = 4, .chunk_tokens = 16};
    struct engine_plan plain = make_ok(&options, MB(4));
    char name[] = "Q4_0";
    options.quantization = name;
    struct engine_plan quantised = make_ok(&options, MB(4));
    memset(name, '?', 4);
    assert_string_equal(quantised.options.quantization, "q4_0"); /* not the caller's text */
    assert_true(quantised.weight_bytes < plain.weight_bytes / 2);
    assert_true(quantised.n_usable > plain.n_usable);
}

static void test_the_plan_is_one_line(void **state) {
    (void)state;
    struct engine_plan plan = make_ok(NULL, MB(2000));
    struct buf line;
    buf_init(&line, 0);
    plan_append_line(&plan, model, &line);
    assert_non_null(strstr(line.data, "weights 0.00 GB, KV pool 8192 slots x 3 layers"));
    assert_non_null(strstr(line.data, "have 2.1 GB"));
    assert_null(strchr(line.data, '\n'));
    buf_deinit(&line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plenty_of_memory_gives_16_contexts),
        cmocka_unit_test(test_the_fraction_is_of_what_weights_and_scratch_leave),
        cmocka_unit_test(test_a_context_that_was_not_asked_for_is_cut_to_what_fits),
        cmocka_unit_test(test_a_pool_of_asked_size_is_that_size_or_refused),
        cmocka_unit_test(test_too_little_memory_is_refused_with_need_and_have),
        cmocka_unit_test(test_senseless_options_name_their_flag),
        cmocka_unit_test(test_quantised_weights_leave_more_to_the_pool),
        cmocka_unit_test(test_the_plan_is_one_line),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
