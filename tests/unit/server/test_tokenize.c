/* test_tokenize.c - /tokenize, /detokenize and /apply-template over real sockets, with the fake
 * engine: what is asked in the words of llama.cpp, vLLM and SGLang, and the one answer that serves
 * them all. */
#include "server_client.h"

#include "base/buf.h"

#include <unistd.h>

#define CHAT "/v1/chat/completions"

static struct fixture f;

static int open_fixture(void **state) {
    (void)state;
    fixture_open(&f, NULL);
    return 0;
}

static int close_fixture(void **state) {
    (void)state;
    fixture_close(&f);
    return 0;
}

static void check_body(const char *path, const char *body, const char *want) {
    struct answer a = client_post(f.port, path, body);
    if (a.status != 200) fail_msg("%s: %s", body, a.text);
    assert_string_equal(a.body, want);
    answer_free(&a);
}

static void check_refused(const char *path, const char *body, const char *param,
                          const char *needle) {
    char want[80];
    struct answer a = client_post(f.port, path, body);
    snprintf(want, sizeof want, "\"param\":\"%s\"", param);
    if (a.status != 400 || !strstr(a.body, *param ? want : "\"param\":null") ||
        !strstr(a.body, needle))
        fail_msg("%s: no 400 with %s and %s: %s", body, want, needle, a.text);
    answer_free(&a);
}

/* ---- tokenize */

static void test_tokenize_content_gets_no_specials_and_prompt_gets_them(void **state) {
    (void)state;
    static const char bare[] = "{\"count\":2,\"max_model_len\":512,\"tokens\":[97,98],"
                               "\"token_strs\":null}";
    static const char with[] = "{\"count\":3,\"max_model_len\":512,\"tokens\":[256,97,98],"
                               "\"token_strs\":null}";
    static const char *const paths[] = {"/tokenize", "/v1/tokenize"};
    for (int i = 0; i < 2; i++) {
        check_body(paths[i], "{\"content\":\"ab\"}", bare);
        check_body(paths[i], "{\"content\":\"ab\",\"add_special\":true}", with);
        check_body(paths[i], "{\"prompt\":\"ab\"}", with);
        check_body(paths[i], "{\"prompt\":\"ab\",\"add_special_tokens\":false}", bare);
        check_body(paths[i], "{\"prompt\":\"ab\",\"content\":null,\"add_special\":false}", bare);
    }
    check_body("/tokenize", "{\"content\":\"\"}",
               "{\"count\":0,\"max_model_len\":512,\"tokens\":[],\"token_strs\":null}");
}

static void test_tokenize_lists_are_batches(void **state) {
    (void)state;
    check_body("/tokenize", "{\"prompt\":[\"a\",\"\"],\"return_token_strs\":true}",
               "{\"count\":[2,1],\"max_model_len\":512,\"tokens\":[[256,97],[256]],"
               "\"token_strs\":[[\"<s>\",\"a\"],[\"<s>\"]]}");
    check_body("/tokenize", "{\"content\":[\"a\"]}",
               "{\"count\":[1],\"max_model_len\":512,\"tokens\":[[97]],\"token_strs\":null}");
    check_body("/tokenize", "{\"content\":[]}",
               "{\"count\":[],\"max_model_len\":512,\"tokens\":[],\"token_strs\":null}");
}

static void test_tokenize_pieces_are_text_or_bytes(void **state) {
    (void)state;
    check_body("/tokenize", "{\"content\":\"a\\\"\\u00e9\\n\",\"with_pieces\":true}",
               "{\"count\":5,\"max_model_len\":512,\"tokens\":[{\"id\":97,\"piece\":\"a\"},"
               "{\"id\":34,\"piece\":\"\\\"\"},{\"id\":195,\"piece\":[195]},"
               "{\"id\":169,\"piece\":[169]},{\"id\":10,\"piece\":\"\\n\"}],\"token_strs\":null}");
    check_body(
        "/tokenize", "{\"content\":\"a\\n\",\"return_token_strs\":true}",
        "{\"count\":2,\"max_model_len\":512,\"tokens\":[97,10],\"token_strs\":[\"a\",\"J\"]}");
}

static void test_tokenize_messages_as_a_chat_would_compute_them(void **state) {
    (void)state;
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
    struct answer a = client_post(f.port, "/tokenize", "{" MESSAGES "}");
    assert_non_null(strstr(a.body, "{\"count\":18,"));
    answer_free(&a);
    a = client_post(f.port, CHAT, "{" MESSAGES ",\"max_tokens\":1}");
    assert_non_null(strstr(a.body, "\"prompt_tokens\":18,"));
    answer_free(&a);
    a = client_post(f.port, "/tokenize",
                    "{" MESSAGES ",\"add_generation_prompt\":false,\"add_special_tokens\":true,"
                    "\"temperature\":0,\"tools\":[{\"type\":\"function\",\"function\":"
                    "{\"name\":\"f\"}}]}");
    assert_null(strstr(a.text, "X-Radish-Warning"));
    assert_non_null(strstr(a.body, "{\"count\":15,"));
    answer_free(&a);
}

static void test_tokenize_refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *body, *param, *needle;
    } rows[] = {
        {"{}", "prompt", "missing"},
        {"{\"prompt\":null}", "prompt", "missing"},
        {"[]", "", "JSON object"},
        {"{\"content\":\"a\",\"prompt\":\"a\"}", "prompt", "exclude each other"},
        {"{\"prompt\":\"a\"," MESSAGES "}", "messages", "exclude each other"},
        {"{\"content\":5}", "content", "string"},
        {"{\"content\":{}}", "content", "string"},
        {"{\"prompt\":[\"a\",5]}", "prompt", "string"},
        {"{\"prompt\":[[\"a\"]]}", "prompt", "string"},
        {"{\"prompt\":[97]}", "prompt", "string"},
        {"{\"prompt\":\"a\",\"add_special_tokens\":1}", "add_special_tokens", ""},
        {"{\"prompt\":\"a\",\"add_special\":\"no\"}", "add_special", ""},
        {"{\"prompt\":\"a\",\"add_special\":true,\"add_special_tokens\":false}",
         "add_special_tokens", "disagree"},
        {"{\"prompt\":\"a\",\"with_pieces\":1}", "with_pieces", ""},
        {"{\"prompt\":\"a\",\"return_token_strs\":[]}", "return_token_strs", ""},
        {"{\"prompt\":\"a\",\"parse_special\":false}", "parse_special", "always"},
        {"{\"prompt\":\"a\",\"model\":5}", "model", ""},
        {"{" MESSAGES ",\"chat_template\":\"x\"}", "chat_template", "--chat-template"},
        {"{\"messages\":[]}", "messages", "empty"},
        {"{" MESSAGES ",\"tools\":5}", "tools", ""},
        {"{\"prompt\":\"\\ud800\"}", "", "surrogate"},
        {"{\"prompt\":\"\xff\"}", "", "UTF-8"},
        {"{\"prompt\":\"a", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused("/tokenize", rows[i].body, rows[i].param, rows[i].needle);
}

static void test_tokenize_limits_the_batch(void **state) {
    (void)state;
    struct buf body;
    buf_init(&body, 0);
    buf_append_str(&body, "{\"content\":[\"\"");
    for (int i = 0; i < 16384; i++) buf_append_str(&body, ",\"\"");
    buf_append_str(&body, "]}");
    check_refused("/tokenize", body.data, "content", "at most 16384");
    buf_deinit(&body);
}

static void test_tokenize_warns_of_what_has_no_effect(void **state) {
    (void)state;
    struct answer a = client_post(f.port, "/tokenize",
                                  "{\"prompt\":\"a\",\"tools\":[],\"odd\":1,\"model\":\"other\"}");
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.text, "unknown field ignored: odd"));
    assert_non_null(strstr(a.text, "tools has no effect without messages"));
    assert_non_null(strstr(a.text, "model other is not served here"));
    answer_free(&a);
}

/* ---- detokenize */

static void test_detokenize_answers_in_every_servers_word(void **state) {
    (void)state;
#define TEXTS(text) "{\"text\":" text ",\"content\":" text ",\"prompt\":" text "}"
    check_body("/detokenize", "{\"tokens\":[97,98]}", TEXTS("\"ab\""));
    check_body("/detokenize", "{\"tokens\":[]}", TEXTS("\"\""));
    check_body("/v1/detokenize", "{\"tokens\":[[97],[],[98,99]]}", TEXTS("[\"a\",\"\",\"bc\"]"));
    check_body("/detokenize", "{\"tokens\":[195,169,195]}", TEXTS("\"\xc3\xa9\xef\xbf\xbd\""));
}

static void test_detokenize_skips_specials_where_sglang_does(void **state) {
    (void)state;
    static const char ids[] = "{\"tokens\":[256,97,257]}";
    check_body("/detokenize", ids, TEXTS("\"<s>a</s>\""));
    check_body("/v1/detokenize", ids, TEXTS("\"a\""));
    check_body("/detokenize", "{\"tokens\":[256,97],\"skip_special_tokens\":true}", TEXTS("\"a\""));
    check_body("/v1/detokenize", "{\"tokens\":[256,97],\"skip_special_tokens\":false}",
               TEXTS("\"<s>a\""));
}

static void test_detokenize_refuses_by_name(void **state) {
    (void)state;
    static const struct {
        const char *body, *param, *needle;
    } rows[] = {
        {"{}", "tokens", "list"},
        {"{\"tokens\":null}", "tokens", "list"},
        {"{\"tokens\":5}", "tokens", "list"},
        {"{\"tokens\":\"ab\"}", "tokens", "list"},
        {"{\"tokens\":[\"a\"]}", "tokens", "not a token id"},
        {"{\"tokens\":[1.5]}", "tokens", "not a token id"},
        {"{\"tokens\":[-1]}", "tokens", "not a token id"},
        {"{\"tokens\":[258]}", "tokens", "258 is not a token id of this model (0 to 257)"},
        {"{\"tokens\":[4294967296]}", "tokens", "not a token id"},
        {"{\"tokens\":[18446744073709551615]}", "tokens", "not a token id"},
        {"{\"tokens\":[[97],98]}", "tokens", "list"},
        {"{\"tokens\":[97,[98]]}", "tokens", "not a token id"},
        {"{\"tokens\":[[97],[[98]]]}", "tokens", "not a token id"},
        {"{\"tokens\":[97],\"skip_special_tokens\":1}", "skip_special_tokens", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused("/detokenize", rows[i].body, rows[i].param, rows[i].needle);
}

/* ---- templates */

static void test_template_gives_the_text_a_chat_would_send(void **state) {
    (void)state;
    check_body("/apply-template", "{" MESSAGES "}", "{\"prompt\":\"user:hi\\nassistant:\"}");
    check_body("/apply-template", "{" MESSAGES ",\"add_generation_prompt\":false,\"stream\":true}",
               "{\"prompt\":\"user:hi\\n\"}");
    check_body("/apply-template",
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"Once\"}],"
               "\"continue_final_message\":true}",
               "{\"prompt\":\"assistant:Once\"}");
    check_refused("/apply-template", "{\"messages\":[]}", "messages", "empty");
    check_refused("/apply-template", "{" MESSAGES ",\"chat_template\":\"x\"}", "chat_template",
                  "--chat-template");
}

static void test_template_errors_carry_a_code_at_every_path(void **state) {
    (void)state;
    static const char *const paths[] = {CHAT, "/apply-template", "/tokenize"};
    for (int i = 0; i < 3; i++) {
        struct answer a = client_post(f.port, paths[i],
                                      "{\"messages\":[{\"role\":\"user\",\"content\":\"RAISE\"}]}");
        assert_int_equal(a.status, 400);
        assert_non_null(strstr(a.body, "RAISE was said"));
        assert_non_null(strstr(a.body, "\"code\":\"chat_template_error\""));
        answer_free(&a);
    }
}

static void test_template_that_is_missing_or_broken_leaves_completions(void **state) {
    (void)state;
    static const char *const paths[] = {CHAT, "/apply-template", "/tokenize"};
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        fake.has_no_template = !is_broken;
        fake.has_broken_template = is_broken;
        for (int i = 0; i < 3; i++) {
            struct answer a = client_post(f.port, paths[i], "{" MESSAGES "}");
            assert_int_equal(a.status, 400);
            assert_non_null(strstr(a.body, "\"code\":\"no_chat_template\""));
            assert_non_null(strstr(a.body, "/v1/completions"));
            assert_int_equal(strstr(a.body, "line 3: it does not compile") != NULL, is_broken);
            answer_free(&a);
        }
        struct answer a =
            client_post(f.port, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":1}");
        assert_int_equal(a.status, 200);
        answer_free(&a);
    }
    fake.has_broken_template = false;
}

/* ---- as part of a server */

static void test_work_answers_while_the_engine_is_held(void **state) {
    (void)state;
    fake.is_held = true;
    int waiting = client_post_open(f.port, "/v1/completions", "{\"prompt\":\"ab\"}");
    fixture_wait_requests(&f, 1);

    check_body("/detokenize", "{\"tokens\":[97]}", TEXTS("\"a\""));
    check_body("/apply-template", "{" MESSAGES "}", "{\"prompt\":\"user:hi\\nassistant:\"}");

    close(waiting);
    fixture_wait_free(&f);
    fake.is_held = false;
}

static void test_work_in_bulk_keeps_no_chat_waiting(void **state) {
    (void)state;
    int bulk[3];
    fake.is_decoding_held = true;
    for (int i = 0; i < 3; i++)
        bulk[i] = client_post_open(f.port, "/detokenize", "{\"tokens\":[97]}");
    usleep(20000); /* for all of them to arrive */

    struct answer chat = client_post(f.port, CHAT, "{" MESSAGES ",\"max_tokens\":1}");
    assert_int_equal(chat.status, 200);
    answer_free(&chat);

    fake.is_decoding_held = false;
    for (int i = 0; i < 3; i++) {
        struct answer a = client_read_all(bulk[i]);
        assert_string_equal(a.body, TEXTS("\"a\""));
        answer_free(&a);
        close(bulk[i]);
    }
}

static void test_work_needs_a_key_a_post_and_a_server_that_goes_on(void **state) {
    (void)state;
    static const char *const paths[] = {"/tokenize", "/v1/tokenize", "/detokenize",
                                        "/v1/detokenize", "/apply-template"};
    const char *keys[] = {"k"};
    struct server_options options = {.api_keys = keys, .n_api_keys = 1};
    struct fixture locked;
    fixture_open(&locked, &options);
    for (int stops = 0; stops < 2; stops++) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            struct answer a = client_post(locked.port, paths[i], "{}");
            assert_int_equal(a.status, 401);
            answer_free(&a);
            a = client_request(locked.port, "POST", paths[i], "Authorization: Bearer k\r\n", "{}");
            assert_int_equal(a.status, stops ? 503 : 400);
            answer_free(&a);
            a = client_request(locked.port, "GET", paths[i], "", NULL);
            assert_int_equal(a.status, 405);
            answer_free(&a);
        }
        server_begin_stop(locked.server);
    }
    fixture_close(&locked);
}

static void test_work_bounds_its_reply(void **state) {
    (void)state;
    struct server_options options = {.reply_bytes_max = 200};
    struct fixture small = f;
    fixture_open(&f, &options);
    static const char long_text[] = "01234567890123456789012345678901234567890123456789";
    char body[256];
    snprintf(body, sizeof body, "{\"content\":\"%s\",\"with_pieces\":true}", long_text);
    check_refused("/tokenize", body, "", "larger than 200 bytes");
    snprintf(body, sizeof body, "{\"content\":\"%.10s\",\"return_token_strs\":true}", long_text);
    check_body("/tokenize", body,
               "{\"count\":10,\"max_model_len\":512,\"tokens\":[48,49,50,51,52,53,54,55,56,57],"
               "\"token_strs\":[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}");
    struct buf ids;
    buf_init(&ids, 0);
    buf_append_str(&ids, "{\"tokens\":[97");
    for (int i = 0; i < 70; i++) buf_append_str(&ids, ",97");
    buf_append_str(&ids, "]}");
    check_refused("/detokenize", ids.data, "", "larger than 200 bytes");
    buf_deinit(&ids);
    fixture_close(&f);
    f = small;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenize_content_gets_no_specials_and_prompt_gets_them),
        cmocka_unit_test(test_tokenize_lists_are_batches),
        cmocka_unit_test(test_tokenize_pieces_are_text_or_bytes),
        cmocka_unit_test(test_tokenize_messages_as_a_chat_would_compute_them),
        cmocka_unit_test(test_tokenize_refuses_by_name),
        cmocka_unit_test(test_tokenize_limits_the_batch),
        cmocka_unit_test(test_tokenize_warns_of_what_has_no_effect),
        cmocka_unit_test(test_detokenize_answers_in_every_servers_word),
        cmocka_unit_test(test_detokenize_skips_specials_where_sglang_does),
        cmocka_unit_test(test_detokenize_refuses_by_name),
        cmocka_unit_test(test_template_gives_the_text_a_chat_would_send),
        cmocka_unit_test(test_template_errors_carry_a_code_at_every_path),
        cmocka_unit_test(test_template_that_is_missing_or_broken_leaves_completions),
        cmocka_unit_test(test_work_answers_while_the_engine_is_held),
        cmocka_unit_test(test_work_in_bulk_keeps_no_chat_waiting),
        cmocka_unit_test(test_work_needs_a_key_a_post_and_a_server_that_goes_on),
        cmocka_unit_test(test_work_bounds_its_reply),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
