/* test_load_answer.c - text, counts and ends of answers, in the dialects of several servers. */
#include "load_answer.h"
#include "test.h"

static bool feed(struct load_answer *answer, const char *json) {
    bool has_text;
    return load_answer_event(answer, json, strlen(json), &has_text);
}

static bool brings_text(struct load_answer *answer, const char *json) {
    bool has_text;
    assert_true(load_answer_event(answer, json, strlen(json), &has_text));
    return has_text;
}

static void test_load_answer_reads_a_stream_of_completions(void **state) {
    (void)state;
    struct load_answer a;
    load_answer_init(&a, LOAD_COMPLETIONS);

    assert_false(brings_text(&a, "{\"choices\": [{\"text\": \"\", \"finish_reason\": null}]}"));
    assert_true(brings_text(&a, "{\"choices\": [{\"text\": \"one\"}]}"));
    assert_true(
        brings_text(&a, "{\"choices\": [{\"text\": \" two\", \"finish_reason\": \"length\"}]}"));
    assert_false(brings_text(
        &a, "{\"choices\": [], \"usage\": {\"prompt_tokens\": 12, \"completion_tokens\": 2, "
            "\"prompt_tokens_details\": {\"cached_tokens\": 8}}}"));
    assert_false(a.is_done);
    assert_false(brings_text(&a, "[DONE]"));

    assert_string_equal(a.text.data, "one two");
    assert_true(a.is_finished && a.is_done);
    assert_true(a.has_prompt_tokens && a.has_output_tokens && a.has_cached_tokens);
    assert_int_equal(a.prompt_tokens, 12);
    assert_int_equal(a.output_tokens, 2);
    assert_int_equal(a.cached_tokens, 8);
    load_answer_deinit(&a);
}

static void test_load_answer_reads_a_stream_of_a_chat_with_reasoning(void **state) {
    (void)state;
    struct load_answer a;
    load_answer_init(&a, LOAD_CHAT);

    assert_false(brings_text(
        &a, "{\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}"));
    assert_true(brings_text(&a, "{\"choices\": [{\"delta\": {\"reasoning_content\": \"hm \"}}]}"));
    assert_true(brings_text(&a, "{\"choices\": [{\"delta\": {\"content\": \"yes\"}}]}"));

    assert_string_equal(a.text.data, "hm yes");
    assert_false(a.has_prompt_tokens || a.has_output_tokens || a.has_cached_tokens);
    load_answer_deinit(&a);
}

static void test_load_answer_reads_cumulative_text_of_generate(void **state) {
    (void)state;
    struct load_answer a;
    load_answer_init(&a, LOAD_GENERATE);

    assert_true(brings_text(&a, "{\"text\": \"one\", \"meta_info\": {\"prompt_tokens\": 5, "
                                "\"completion_tokens\": 1, \"cached_tokens\": 4, "
                                "\"finish_reason\": null}}"));
    assert_false(brings_text(&a, "{\"text\": \"one\", \"meta_info\": {\"completion_tokens\": 2}}"));
    assert_false(a.is_finished);
    assert_true(brings_text(&a, "{\"text\": \"one two\", \"meta_info\": {\"completion_tokens\": 3, "
                                "\"finish_reason\": {\"type\": \"length\"}}}"));

    assert_string_equal(a.text.data, "one two");
    assert_true(a.is_finished);
    assert_int_equal(a.prompt_tokens, 5);
    assert_int_equal(a.output_tokens, 3);
    assert_int_equal(a.cached_tokens, 4);
    load_answer_deinit(&a);
}

static void test_load_answer_adds_up_the_timings_of_llama_cpp(void **state) {
    (void)state;
    struct load_answer a;
    load_answer_init(&a, LOAD_COMPLETIONS);

    assert_true(feed(&a, "{\"choices\": [{\"text\": \"x\", \"finish_reason\": \"stop\"}], "
                         "\"timings\": {\"cache_n\": 30, \"prompt_n\": 7, \"predicted_n\": 3}}"));

    assert_true(a.has_prompt_tokens && a.has_cached_tokens && a.has_output_tokens);
    assert_int_equal(a.prompt_tokens, 37);
    assert_int_equal(a.cached_tokens, 30);
    assert_int_equal(a.output_tokens, 3);
    load_answer_deinit(&a);
}

static void test_load_answer_says_what_is_wrong_with_a_chunk(void **state) {
    (void)state;
    static const struct {
        enum load_endpoint endpoint;
        const char *json, *error;
    } rows[] = {
        {LOAD_COMPLETIONS, "{", ""},
        {LOAD_COMPLETIONS, "", ""},
        {LOAD_COMPLETIONS, "[1]", "no JSON object"},
        {LOAD_COMPLETIONS, "{}", "neither 'choices' nor 'usage'"},
        {LOAD_COMPLETIONS, "{\"error\": {\"message\": \"out\\nof luck\"}}", "out of luck"},
        {LOAD_CHAT, "{\"error\": \"no\"}", "no"},
        {LOAD_GENERATE, "{\"meta_info\": {}}", "no 'text'"},
        {LOAD_COMPLETIONS, "{\"choices\": [], \"usage\": {\"prompt_tokens\": -1}}",
         "prompt_tokens"},
        {LOAD_COMPLETIONS, "{\"choices\": [], \"usage\": {\"completion_tokens\": \"9\"}}",
         "completion_tokens"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct load_answer a;
        load_answer_init(&a, rows[i].endpoint);

        assert_false(feed(&a, rows[i].json));

        assert_true(a.error[0] != '\0');
        assert_non_null(strstr(a.error, rows[i].error));
        assert_null(strchr(a.error, '\n'));
        load_answer_deinit(&a);
    }
}

static void test_load_answer_explains_failures_of_any_server(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{\"error\": {\"message\": \"too long\", \"code\": 400}}", "too long"},
        {"{\"object\": \"error\", \"message\": \"no such model\"}", "no such model"},
        {"{\"detail\": \"Not Found\"}", "Not Found"},
        {"<html>\r\n502</html>", "<html>  502</html>"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[160];
        load_answer_explain(rows[i][0], strlen(rows[i][0]), line);
        assert_string_equal(line, rows[i][1]);
    }
}

static void test_load_answer_reads_a_whole_body(void **state) {
    (void)state;
    static const char body[] = "{\"choices\": [{\"message\": {\"content\": \"hi\"}, "
                               "\"finish_reason\": \"stop\"}], \"usage\": {\"prompt_tokens\": 3}}";
    struct load_answer a;
    load_answer_init(&a, LOAD_CHAT);

    assert_true(load_answer_body(&a, body, sizeof body - 1));

    assert_string_equal(a.text.data, "hi");
    assert_int_equal(a.prompt_tokens, 3);
    load_answer_deinit(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_answer_reads_a_stream_of_completions),
        cmocka_unit_test(test_load_answer_reads_a_stream_of_a_chat_with_reasoning),
        cmocka_unit_test(test_load_answer_reads_cumulative_text_of_generate),
        cmocka_unit_test(test_load_answer_adds_up_the_timings_of_llama_cpp),
        cmocka_unit_test(test_load_answer_says_what_is_wrong_with_a_chunk),
        cmocka_unit_test(test_load_answer_explains_failures_of_any_server),
        cmocka_unit_test(test_load_answer_reads_a_whole_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
