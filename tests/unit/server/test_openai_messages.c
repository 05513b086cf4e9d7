/* test_openai_messages.c - conversations become template variables, or errors that say where. */
#include "base/json.h"
#include "server/openai/openai_messages.h"
#include "test.h"

static enum radish_status read_body(const char *body, struct openai_conversation *c,
                                    struct radish_error *err) {
    yyjson_doc *doc;
    assert_int_equal(json_parse(body, strlen(body), JSON_DEPTH_MAX, &doc, err), RADISH_OK);
    enum radish_status status = openai_conversation_read(yyjson_doc_get_root(doc), c, err);
    yyjson_doc_free(doc);
    return status;
}

static void check_json(const char *body, const char *want) {
    struct openai_conversation c;
    struct radish_error err;
    enum radish_status status = read_body(body, &c, &err);
    if (status) fail_msg("%s: %s", body, err.msg);
    assert_string_equal(c.json, want);
    free(c.json);
}

static void test_messages_are_normalised_for_templates(void **state) {
    (void)state;
    check_json("{\"messages\":[{\"role\":\"DEVELOPER\",\"content\":\"d\"},"
               "{\"content\":\"u\",\"role\":\"User\",\"name\":\"bob\"},"
               "{\"role\":\"assistant\",\"content\":null,\"refusal\":null}]}",
               "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
               "{\"role\":\"user\",\"content\":\"u\",\"name\":\"bob\"},"
               "{\"role\":\"assistant\",\"content\":null}],\"add_generation_prompt\":true}");
}

static void test_messages_tool_calls_and_reasoning_pass_as_they_are(void **state) {
    (void)state;
#define CALLS                                                                                      \
    "\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": "      \
    "1.0}\"}},{\"function\":{\"name\":\"g\",\"arguments\":\"\"}},"                                 \
    "{\"function\":{\"name\":\"h\",\"arguments\":{\"y\":[1]}}},{\"function\":{\"name\":\"i\"}}]"
    check_json("{\"messages\":[{\"role\":\"assistant\",\"reasoning_content\":\"r\"," CALLS "},"
               "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"t\"},"
               "{\"role\":\"function\",\"name\":\"g\",\"content\":\"u\"}]}",
               "{\"messages\":[{\"role\":\"assistant\",\"content\":null," CALLS
               ",\"reasoning_content\":\"r\"},"
               "{\"role\":\"tool\",\"content\":\"t\",\"tool_call_id\":\"1\"},"
               "{\"role\":\"function\",\"content\":\"u\",\"name\":\"g\"}],"
               "\"add_generation_prompt\":true}");
}

static void test_messages_documents_reach_the_template(void **state) {
    (void)state;
    check_json("{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],"
               "\"documents\":[{\"title\":\"t\",\"text\":\"x\"}]}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],"
               "\"documents\":[{\"title\":\"t\",\"text\":\"x\"}],\"add_generation_prompt\":true}");
}

static void test_messages_tools_reach_the_template_unless_the_choice_is_none(void **state) {
    (void)state;
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
    check_json("{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]," TOOLS "}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]," TOOLS
               ",\"add_generation_prompt\":true}");
    check_json("{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]," TOOLS
               ",\"tool_choice\":\"none\"}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],"
               "\"add_generation_prompt\":true}");
}

static void test_messages_kwargs_become_variables(void **state) {
    (void)state;
    check_json("{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],"
               "\"add_generation_prompt\":false,\"chat_template_kwargs\":{\"enable_thinking\":"
               "false}}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"enable_thinking\":false,"
               "\"add_generation_prompt\":false}");
}

#define CALL(call) "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[" call "]}]}"

static void test_messages_at_fault_are_named(void **state) {
    (void)state;
    static const struct {
        const char *body, *field;
    } rows[] = {
        {"{}", "messages"},
        {"{\"messages\":null}", "messages"},
        {"{\"messages\":\"hi\"}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":[1]}", "messages[0]"},
        {"{\"messages\":[{}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":1,\"content\":\"\"}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"pirate\",\"content\":\"\"}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},"
         "{\"type\":\"image_url\",\"image_url\":{}}]}]}",
         "messages[0].content[1]"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":{}}]}", "messages[0].tool_calls"},
        {CALL("1"), "messages[0].tool_calls[0]"},
        {CALL("{}"), "messages[0].tool_calls[0]"},
        {CALL("{\"function\":{}}"), "messages[0].tool_calls[0]"},
        {CALL("{\"function\":{\"name\":5}}"), "messages[0].tool_calls[0]"},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}"), "messages[0].tool_calls[0]"},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":\"[1]\"}}"),
         "messages[0].tool_calls[0]"},
        {CALL("{\"function\":{\"name\":\"f\",\"arguments\":5}}"), "messages[0].tool_calls[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"documents\":{}}", "documents"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"chat_template_kwargs\":{"
         "\"chat_template\":\"x\"}}",
         "chat_template_kwargs"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":{}}", "tools"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{}]}", "tools[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{\"function\":{}}]}",
         "tools[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tool_choice\":\"required\"}",
         "tool_choice"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tool_choice\":{\"type\":"
         "\"function\"}}",
         "tool_choice"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tool_choice\":5}", "tool_choice"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"chat_template_kwargs\":{"
         "\"messages\":1}}",
         "chat_template_kwargs"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"add_generation_prompt\":1}",
         "add_generation_prompt"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"continue_final_message\":true}",
         "messages[0]"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"}],\"continue_final_message\":"
         "true,\"add_generation_prompt\":true}",
         "continue_final_message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct openai_conversation c;
        struct radish_error err;
        enum radish_status status = read_body(rows[i].body, &c, &err);
        assert_int_equal(radish_status_http(status), 400);
        if (strcmp(err.field, rows[i].field))
            fail_msg("%s: names \"%s\": %s", rows[i].body, err.field, err.msg);
        assert_null(c.json);
    }
}

static void test_messages_marker_ends_the_final_content(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"continue_final_message\":true,\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"},"
        "{\"role\":\"assistant\",\"content\":\"y\"}]}",
        "{\"continue_final_message\":true,\"messages\":[{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"text\",\"text\":\"y\"}]}]}"};
    for (int i = 0; i < 2; i++) {
        struct openai_conversation c;
        struct radish_error err;
        char want[MESSAGES_MARKER_BYTES + 4];
        assert_int_equal(read_body(bodies[i], &c, &err), RADISH_OK);
        snprintf(want, sizeof want, "\"y%s \"", c.marker);
        assert_true(*c.marker && strstr(c.json, want));
        assert_non_null(strstr(c.json, "\"add_generation_prompt\":false"));
        size_t len = c.len;
        assert_int_equal(openai_marker_cut(c.marker, c.json, &len, &err), RADISH_OK);
        assert_true(c.json[len - 1] == 'y');
        free(c.json);
    }
}

static void test_messages_marker_must_appear_exactly_once(void **state) {
    (void)state;
    struct radish_error err;
    size_t none = 5, twice = 9;

    assert_int_equal(openai_marker_cut("MARK", "plain", &none, &err), RADISH_E_TEMPLATE);
    assert_int_equal(openai_marker_cut("MARK", "MARK MARK", &twice, &err), RADISH_E_TEMPLATE);

    assert_string_equal(err.field, "continue_final_message");
}

static void test_messages_are_cut_as_the_template_trims(void **state) {
    (void)state;
    static const struct {
        const char *rendered;
        size_t len;
    } rows[] = {{"a  MARK <end>", 3}, {"a  MARK<end>", 1}, {"a \n MARK", 1}, {"MARK", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct radish_error err;
        size_t len = strlen(rows[i].rendered);
        assert_int_equal(openai_marker_cut("MARK", rows[i].rendered, &len, &err), RADISH_OK);
        assert_int_equal(len, rows[i].len);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_normalised_for_templates),
        cmocka_unit_test(test_messages_tool_calls_and_reasoning_pass_as_they_are),
        cmocka_unit_test(test_messages_documents_reach_the_template),
        cmocka_unit_test(test_messages_tools_reach_the_template_unless_the_choice_is_none),
        cmocka_unit_test(test_messages_kwargs_become_variables),
        cmocka_unit_test(test_messages_at_fault_are_named),
        cmocka_unit_test(test_messages_marker_ends_the_final_content),
        cmocka_unit_test(test_messages_marker_must_appear_exactly_once),
        cmocka_unit_test(test_messages_are_cut_as_the_template_trims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
