/* test_load_dialog.c - conversations and the bodies that are made of them. */
#include "base/json.h"
#include "load_dialog.h"
#include "test.h"

static void add_part(struct load_dialog *dialog, const char *text) {
    buf_append_str(&dialog->text, text);
    assert_int_equal(load_dialog_end_part(dialog), RADISH_OK);
}

static yyjson_doc *write(const struct load_body *body, const struct load_dialog *dialog) {
    struct buf text;
    buf_init(&text, 0);
    assert_int_equal(load_body_write(body, dialog, &text), RADISH_OK);
    yyjson_doc *doc = yyjson_read(text.data, text.len, 0);
    assert_non_null(doc);
    buf_deinit(&text);
    return doc;
}

static struct load_body base_body(enum load_endpoint endpoint) {
    return (struct load_body){.endpoint = endpoint,
                              .model = "m",
                              .output_tokens = 9,
                              .ignores_eos = true,
                              .streams = true};
}

static void test_load_dialog_is_a_prompt_of_all_parts(void **state) {
    (void)state;
    struct load_dialog dialog;
    struct load_body body = base_body(LOAD_COMPLETIONS);
    load_dialog_init(&dialog);
    add_part(&dialog, "ask");
    add_part(&dialog, " \"answer\"\n");
    add_part(&dialog, " again");

    yyjson_doc *doc = write(&body, &dialog);

    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_string_equal(yyjson_get_str(json_get(root, "prompt")), "ask \"answer\"\n again");
    assert_int_equal(yyjson_get_int(json_get(root, "max_tokens")), 9);
    assert_true(yyjson_get_bool(json_get(root, "ignore_eos")));
    assert_true(yyjson_get_bool(json_get(json_get(root, "stream_options"), "include_usage")));
    yyjson_doc_free(doc);
    load_dialog_deinit(&dialog);
}

static void test_load_dialog_is_messages_of_alternating_roles(void **state) {
    (void)state;
    struct load_dialog dialog, copy;
    struct load_body body = base_body(LOAD_CHAT);
    load_dialog_init(&dialog);
    load_dialog_init(&copy);
    add_part(&dialog, "ask");
    add_part(&dialog, "");
    assert_int_equal(load_dialog_copy(&copy, &dialog), RADISH_OK);
    add_part(&copy, "again");

    yyjson_doc *doc = write(&body, &copy);

    static const char *const wanted[][2] = {{"user", "ask"}, {"assistant", ""}, {"user", "again"}};
    yyjson_val *messages = json_get(yyjson_doc_get_root(doc), "messages");
    assert_int_equal(yyjson_arr_size(messages), 3);
    for (size_t i = 0; i < 3; i++) {
        yyjson_val *message = yyjson_arr_get(messages, i);
        assert_string_equal(yyjson_get_str(json_get(message, "role")), wanted[i][0]);
        assert_string_equal(yyjson_get_str(json_get(message, "content")), wanted[i][1]);
    }
    yyjson_doc_free(doc);
    load_dialog_deinit(&dialog);
    load_dialog_deinit(&copy);
}

static void test_load_body_of_generate_has_sampling_params(void **state) {
    (void)state;
    struct load_dialog dialog;
    struct load_body body = base_body(LOAD_GENERATE);
    load_dialog_init(&dialog);
    add_part(&dialog, "ask");

    yyjson_doc *doc = write(&body, &dialog);

    yyjson_val *root = yyjson_doc_get_root(doc), *params = json_get(root, "sampling_params");
    assert_string_equal(yyjson_get_str(json_get(root, "text")), "ask");
    assert_int_equal(yyjson_get_int(json_get(params, "max_new_tokens")), 9);
    assert_true(yyjson_get_bool(json_get(root, "stream")));
    yyjson_doc_free(doc);
    load_dialog_deinit(&dialog);
}

static void test_load_body_extra_members_add_and_replace(void **state) {
    (void)state;
    struct load_dialog dialog;
    struct load_body body = base_body(LOAD_COMPLETIONS);
    struct radish_error err = {0};
    body.extra = "{\"temperature\": 0.7, \"cache_prompt\": true, \"stop\": [\"x\"]}";
    load_dialog_init(&dialog);
    add_part(&dialog, "ask");

    assert_int_equal(load_body_check(body.extra, &err), RADISH_OK);
    yyjson_doc *doc = write(&body, &dialog);

    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_true(yyjson_get_real(json_get(root, "temperature")) == 0.7);
    assert_true(yyjson_get_bool(json_get(root, "cache_prompt")));
    assert_int_equal(yyjson_arr_size(json_get(root, "stop")), 1);
    assert_int_equal(load_body_check("[1]", &err), RADISH_E_INVALID);
    assert_int_equal(load_body_check("{", &err), RADISH_E_INVALID);
    yyjson_doc_free(doc);
    load_dialog_deinit(&dialog);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_dialog_is_a_prompt_of_all_parts),
        cmocka_unit_test(test_load_dialog_is_messages_of_alternating_roles),
        cmocka_unit_test(test_load_body_of_generate_has_sampling_params),
        cmocka_unit_test(test_load_body_extra_members_add_and_replace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
