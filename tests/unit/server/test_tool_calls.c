/* test_tool_calls.c - chats with tools over HTTP: the message, the stream's deltas, when calls are
 * left alone. The fake engine says the prompt again: "user:", what the user said, "\nassistant:".
 */
#include "base/buf.h"
#include "server_client.h"

#include <yyjson.h>

#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define CALLS                                                                                      \
    "<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"x\\\": [1, \\\"}\\\"]}}"         \
    "</tool_call>\\n<tool_call>{\\\"name\\\": \\\"g\\\"}</tool_call>\\n"
#define ARGUMENTS "{\"x\": [1, \"}\"]}"

static struct fixture f;

static int set_up(void **state) {
    (void)state;
    struct server_options options = {.tool_call_parser = "hermes"};
    fixture_open(&f, &options);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_close(&f);
    return 0;
}

/* POSTs a chat of one message; "more" are further members. */
static struct answer chat(const char *content, const char *more) {
    char body[2000];
    snprintf(body, sizeof body,
             "{\"model\":\"fake\",\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":"
             "\"%s\"}]%s}",
             content, more);
    return client_post(f.port, "/v1/chat/completions", body);
}

/* The first choice of a reply; *doc_out is the caller's. */
static yyjson_val *choice_of(const struct answer *a, yyjson_doc **doc_out) {
    if (a->status != 200) fail_msg("%s", a->text);
    *doc_out = yyjson_read(a->body, strlen(a->body), 0);
    assert_non_null(*doc_out);
    return yyjson_arr_get_first(yyjson_obj_get(yyjson_doc_get_root(*doc_out), "choices"));
}

static const char *text_at(yyjson_val *val, const char *pointer) {
    return yyjson_get_str(yyjson_ptr_get(val, pointer));
}

static void test_a_message_has_its_calls_apart_from_its_text(void **state) {
    (void)state;
    yyjson_doc *doc;
    struct answer a = chat(CALLS "END", "," TOOLS ",\"stop\":\"END\"");
    yyjson_val *choice = choice_of(&a, &doc);

    assert_string_equal(text_at(choice, "/message/content"), "user:");
    assert_string_equal(text_at(choice, "/finish_reason"), "tool_calls");
    assert_int_equal(yyjson_arr_size(yyjson_ptr_get(choice, "/message/tool_calls")), 2);
    assert_string_equal(text_at(choice, "/message/tool_calls/0/type"), "function");
    assert_string_equal(text_at(choice, "/message/tool_calls/0/function/name"), "f");
    assert_string_equal(text_at(choice, "/message/tool_calls/0/function/arguments"), ARGUMENTS);
    assert_string_equal(text_at(choice, "/message/tool_calls/1/function/name"), "g");
    assert_string_equal(text_at(choice, "/message/tool_calls/1/function/arguments"), "{}");
    assert_string_not_equal(text_at(choice, "/message/tool_calls/0/id"),
                            text_at(choice, "/message/tool_calls/1/id"));
    yyjson_doc_free(doc);
    answer_free(&a);
}

static void test_calls_stay_text_without_tools(void **state) {
    (void)state;
    static const char *const more[] = {",\"stop\":\"END\"", ",\"stop\":\"END\",\"tools\":[]",
                                       "," TOOLS ",\"stop\":\"END\",\"tool_choice\":\"none\""};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        yyjson_doc *doc;
        struct answer a = chat(CALLS "END", more[i]);
        yyjson_val *choice = choice_of(&a, &doc);
        assert_non_null(strstr(text_at(choice, "/message/content"), "<tool_call>{\"name\""));
        assert_string_equal(text_at(choice, "/finish_reason"), "stop");
        assert_null(yyjson_ptr_get(choice, "/message/tool_calls"));
        yyjson_doc_free(doc);
        answer_free(&a);
    }
}

static void test_a_message_without_calls_is_as_ever(void **state) {
    (void)state;
    yyjson_doc *doc;
    struct answer a = chat("hello <tool_call> END", "," TOOLS ",\"stop\":\"END\"");
    yyjson_val *choice = choice_of(&a, &doc);
    assert_string_equal(text_at(choice, "/message/content"), "user:hello <tool_call> ");
    assert_string_equal(text_at(choice, "/finish_reason"), "stop");
    assert_null(yyjson_ptr_get(choice, "/message/tool_calls"));
    yyjson_doc_free(doc);
    answer_free(&a);
}

/* What the deltas of a stream add up to. */
struct sum {
    struct buf content, arguments[2];
    char names[2][16], ids[2][64];
    size_t n_chunks, n_with_arguments;
    char reason[32];
};

static void add_call(struct sum *sum, yyjson_val *call) {
    const uint64_t idx = yyjson_get_uint(yyjson_obj_get(call, "index"));
    const char *name = text_at(call, "/function/name");
    const char *arguments = text_at(call, "/function/arguments");
    assert_true(idx < 2);
    assert_non_null(arguments);
    if (name) { /* the first of a call: all but arguments */
        assert_string_equal(sum->names[idx], "");
        assert_string_equal(arguments, "");
        assert_string_equal(text_at(call, "/type"), "function");
        snprintf(sum->names[idx], sizeof sum->names[idx], "%s", name);
        snprintf(sum->ids[idx], sizeof sum->ids[idx], "%s", text_at(call, "/id"));
    } else {
        assert_string_not_equal(sum->names[idx], "");
        assert_null(text_at(call, "/id"));
        sum->n_with_arguments++;
    }
    buf_append_str(&sum->arguments[idx], arguments);
}

static void add_chunk(struct sum *sum, yyjson_val *choice) {
    yyjson_val *delta = yyjson_obj_get(choice, "delta");
    yyjson_val *calls = yyjson_obj_get(delta, "tool_calls"), *call;
    size_t idx, max;
    const char *content = yyjson_get_str(yyjson_obj_get(delta, "content"));
    const char *reason = yyjson_get_str(yyjson_obj_get(choice, "finish_reason"));
    sum->n_chunks++;
    if (content) buf_append_str(&sum->content, content);
    if (reason) snprintf(sum->reason, sizeof sum->reason, "%s", reason);
    yyjson_arr_foreach(calls, idx, max, call) {
        add_call(sum, call);
    }
}

static void add_up(const struct answer *a, struct sum *sum) {
    memset(sum, 0, sizeof *sum);
    for (const char *at = strstr(a->body, "data: {"); at; at = strstr(at + 1, "data: {")) {
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        yyjson_doc *doc = yyjson_read(at + 6, (size_t)(end - at - 6), 0);
        assert_non_null(doc);
        add_chunk(sum, yyjson_arr_get_first(yyjson_obj_get(yyjson_doc_get_root(doc), "choices")));
        yyjson_doc_free(doc);
    }
}

static void sum_deinit(struct sum *sum) {
    buf_deinit(&sum->content);
    buf_deinit(&sum->arguments[0]);
    buf_deinit(&sum->arguments[1]);
}

static void check_stream(const char *more, const char *reason, bool in_pieces) {
    struct sum sum;
    struct answer a = chat(CALLS "END", more);
    add_up(&a, &sum);
    assert_string_equal(sum.content.data, "user:");
    assert_string_equal(sum.names[0], "f");
    assert_string_equal(sum.names[1], "g");
    assert_string_equal(sum.arguments[0].data, ARGUMENTS);
    assert_string_equal(sum.arguments[1].data, "{}");
    assert_string_not_equal(sum.ids[0], sum.ids[1]);
    assert_string_equal(sum.reason, reason);
    if (in_pieces) assert_true(sum.n_with_arguments > 4);
    sum_deinit(&sum);
    answer_free(&a);
}

static void test_a_stream_tells_the_name_and_then_the_arguments_as_they_come(void **state) {
    (void)state;
    fake.step_us = 500;
    /* As far as the last mark, and no stop string that would hold the text back. */
    check_stream("," TOOLS ",\"stream\":true,\"max_tokens\":109", "length", /*in_pieces=*/true);
}

static void test_a_stream_that_comes_at_once_says_the_same(void **state) {
    (void)state;
    check_stream("," TOOLS ",\"stream\":true,\"stop\":\"END\"", "tool_calls", false);
    check_stream("," TOOLS ",\"stream\":true,\"stop\":\"END\",\"logprobs\":true", "tool_calls",
                 false);
}

static void test_an_unknown_parser_is_refused(void **state) {
    (void)state;
    struct server *second;
    struct radish_error err;
    struct server_options options = {.tool_call_parser = "no_such"};
    assert_int_equal(server_open(f.model, f.engine, &options, &second, &err), RADISH_E_INVALID);
    assert_non_null(strstr(err.msg, "no_such"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_message_has_its_calls_apart_from_its_text),
        TEST(test_calls_stay_text_without_tools),
        TEST(test_a_message_without_calls_is_as_ever),
        TEST(test_a_stream_tells_the_name_and_then_the_arguments_as_they_come),
        TEST(test_a_stream_that_comes_at_once_says_the_same),
        TEST(test_an_unknown_parser_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
