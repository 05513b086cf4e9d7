/* The JSON of --kv-events-config: SGLang's names and defaults, and a sentence about all that is
 * wrong. */
#include "test.h"

#include "alloc_fail.h"
#include "events/kv_config.h"
#include "events/kv_log.h"

static void assert_refused(const char *json, const char *said) {
    struct radish_error err = {0};
    struct kv_config config;
    assert_int_equal(kv_config_read(json, &config, &err), RADISH_E_INVALID);
    if (!strstr(err.msg, said)) fail_msg("%s: \"%s\" does not say \"%s\"", json, err.msg, said);
    assert_null(config.endpoint);
}

static void test_defaults_are_those_of_sglang(void **state) {
    (void)state;
    struct kv_config config;
    assert_int_equal(kv_config_read("{\"publisher\":\"zmq\"}", &config, NULL), RADISH_OK);

    assert_true(config.is_published);
    assert_string_equal(config.endpoint, "tcp://*:5557");
    assert_null(config.replay_endpoint);
    assert_string_equal(config.topic, "");
    assert_int_equal(config.buffer_steps, 10000);
    assert_int_equal(config.hwm, 100000);
    assert_int_equal(config.n_batches_max, 100000);
    kv_config_deinit(&config);
    assert_int_equal(kv_config_read("{}", &config, NULL), RADISH_OK);
    assert_false(config.is_published);
    kv_config_deinit(&config);
}

static void test_every_key_is_read(void **state) {
    (void)state;
    struct kv_config config;
    assert_int_equal(kv_config_read("{\"publisher\": \"zmq\", \"endpoint\": \"ipc:///tmp/a\", "
                                    "\"replay_endpoint\": \"tcp://*:1\", \"buffer_steps\": 7, "
                                    "\"hwm\": 8, \"max_queue_size\": 9, \"topic\": \"kv@1\"}",
                                    &config, NULL),
                     RADISH_OK);

    assert_string_equal(config.endpoint, "ipc:///tmp/a");
    assert_string_equal(config.replay_endpoint, "tcp://*:1");
    assert_int_equal(config.buffer_steps, 7);
    assert_int_equal(config.hwm, 8);
    assert_int_equal(config.n_batches_max, 9);
    assert_string_equal(config.topic, "kv@1");
    kv_config_deinit(&config);
}

static void test_what_is_wrong_is_named(void **state) {
    (void)state;
    assert_refused("", "not JSON");
    assert_refused("zmq", "not JSON");
    assert_refused("[]", "must be a JSON object, not array");
    assert_refused("{\"replay\": \"tcp://*:1\"}", "unknown key 'replay'");
    assert_refused("{\"topic\": \"a\", \"topic\": \"b\"}", "topic is given twice");
    assert_refused("{\"publisher\": \"kafka\"}", "not \"kafka\"");
    assert_refused("{\"publisher\": 1}", "publisher must be a string");
    assert_refused("{\"endpoint\": 5557}", "endpoint must be a string");
    assert_refused("{\"buffer_steps\": 0}", "buffer_steps must be an integer from 1");
    assert_refused("{\"hwm\": -1}", "hwm must be an integer from 1");
    assert_refused("{\"max_queue_size\": 1.5}", "max_queue_size must be an integer");
    assert_refused("{\"topic\": \"a\\u0000b\"}", "NUL");
}

static bool attempt_read(void *user) {
    struct kv_config config;
    enum radish_status status = kv_config_read(user, &config, NULL);
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    kv_config_deinit(&config);
    return status == RADISH_OK;
}

static bool attempt_log(void *user) {
    struct kv_log log;
    enum radish_status status = kv_log_init(&log, 1000, 10, 10, user);
    assert_true(status == RADISH_OK || (status == RADISH_E_NOMEM && !log.bytes && !log.entries));
    kv_log_deinit(&log);
    return status == RADISH_OK;
}

static void test_every_failed_allocation_is_survived(void **state) {
    (void)state;
    static char json[] = "{\"publisher\": \"zmq\", \"replay_endpoint\": \"tcp://*:1\"}";
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_read, json) >= 4);
    assert_int_equal(alloc_fail_each(attempt_log, NULL), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_sglang),
        cmocka_unit_test(test_every_key_is_read),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
