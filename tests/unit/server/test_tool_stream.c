/* test_tool_stream.c - texts of models taken apart into content and calls, cut in every way; and
 * the JSON scanner that finds where a call ends, against yyjson. */
#include "test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "json_scan.h"
#include "tool_reply.h"

#include <yyjson.h>

/* ---- what a text turns out to be, as one line ---- */

static void on_content(void *user, const char *bytes, size_t n) {
    struct buf *content = user;
    buf_append(content, bytes, n);
}

struct seen {
    struct buf content; /* first: on_content() takes it for the user */
    struct buf calls;   /* " f(arguments)" each */
    uint32_t n_calls;
};

static void on_call(void *user, uint32_t call_idx, const char *name) {
    struct seen *seen = user;
    assert_int_equal(call_idx, seen->n_calls++);
    buf_printf(&seen->calls, "%s%s:", call_idx ? "|" : "", name);
}

static void on_arguments(void *user, uint32_t call_idx, const char *bytes, size_t n) {
    struct seen *seen = user;
    assert_int_equal(call_idx + 1, seen->n_calls);
    assert_true(n > 0);
    buf_append(&seen->calls, bytes, n);
}

/* "content" and "calls" of text, pushed in pieces that end at cut and then are `piece` long. */
static void read_text(enum tool_format format, const char *text, size_t len, size_t cut,
                      size_t piece, struct seen *seen) {
    const struct tool_sink sink = {on_content, on_call, on_arguments, seen};
    struct tool_stream stream;
    *seen = (struct seen){0};
    buf_init(&seen->content, 0);
    buf_init(&seen->calls, 0);
    buf_append_str(&seen->content, "");
    buf_reserve(&seen->content, 1);
    buf_reserve(&seen->calls, 1);
    tool_stream_init(&stream, format, &sink);
    tool_stream_push(&stream, text, cut);
    for (size_t at = cut, n; at < len; at += n) {
        n = len - at < piece ? len - at : piece;
        /* A copy of its own, so that a read past it is seen. */
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, text + at, n);
        tool_stream_push(&stream, copy, n);
        free(copy);
    }
    tool_stream_finish(&stream);
    assert_false(stream.failed);
    tool_stream_deinit(&stream);
}

static void deinit(struct seen *seen) {
    buf_deinit(&seen->content);
    buf_deinit(&seen->calls);
}

static void expect(enum tool_format format, const char *text, size_t len, const char *content,
                   const char *calls, size_t cut, size_t piece) {
    struct seen seen;
    read_text(format, text, len, cut, piece, &seen);
    if (strcmp(seen.content.data, content) != 0 || strcmp(seen.calls.data, calls) != 0)
        fail_msg("%s\n cut at %zu, then every %zu:\n content '%s' instead of '%s'\n calls '%s' "
                 "instead of '%s'",
                 text, cut, piece, seen.content.data, content, seen.calls.data, calls);
    deinit(&seen);
}

static void expect_all_cuts(enum tool_format format, const char *text, const char *content,
                            const char *calls) {
    const size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) expect(format, text, len, content, calls, cut, len + 1);
    for (size_t piece = 1; piece <= 7; piece++) expect(format, text, len, content, calls, 0, piece);
}

struct row {
    const char *text, *content, *calls;
};

#define OPEN  "<tool_call>"
#define CLOSE "</tool_call>"

static void test_hermes_calls_are_found(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"", "", ""},
        {"Hello, world.\n", "Hello, world.\n", ""},
        {OPEN "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n" CLOSE, "", "f:{\"x\": 1}"},
        {"Let me see. \n\n" OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE "\n", "Let me see.",
         "f:{}"},
        {OPEN "{\"name\":\"f\",\"arguments\":{\"a\":[1,{\"b\":\"}]</tool_call>\\\"\"}]}}" CLOSE, "",
         "f:{\"a\":[1,{\"b\":\"}]</tool_call>\\\"\"}]}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"x\": 1}}" CLOSE "\n" OPEN
              "{\"name\": \"g\", \"arguments\": {\"y\": \"é😀\\u00e9\"}}" CLOSE,
         "", "f:{\"x\": 1}|g:{\"y\": \"é😀\\u00e9\"}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE " and " OPEN
              "{\"name\": \"f\", \"arguments\": {}}" CLOSE " done ",
         " and done ", "f:{}|f:{}"},
        /* The arguments first; none; other members; spaces in odd places; an unknown function. */
        {OPEN "{\"arguments\": { \"x\" : [ ] } , \"name\" : \"f\"}" CLOSE, "", "f:{ \"x\" : [ ] }"},
        {OPEN "{\"name\": \"f\"}" CLOSE, "", "f:{}"},
        {OPEN "{\"id\": 7, \"type\": \"function\", \"name\": \"no_such\", \"arguments\": {\"a\": "
              "null}, \"more\": [true]}" CLOSE,
         "", "no_such:{\"a\": null}"},
        {OPEN " \t{ \"name\" : \"f\" , \"parameters\" : {\"n\":-1.5e+3} } " CLOSE, "",
         "f:{\"n\":-1.5e+3}"},
        /* Several objects in one mark; no end mark; a brace too few. */
        {OPEN "{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}" CLOSE,
         "", "f:{}|g:{}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {}}", "", "f:{}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {}}\n" OPEN "{\"name\": \"g\"}", "", "f:{}|g:{}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"x\": 1}\n" CLOSE "bye", "bye", "f:{\"x\": 1}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_all_cuts(TOOL_FORMAT_HERMES, rows[i].text, rows[i].content, rows[i].calls);
}

static void test_what_is_no_call_is_content_and_nothing_is_dropped(void **state) {
    (void)state;
    static const char *const texts[] = {
        "<tool_cal",
        "a <tool <<tool_call x",
        OPEN,
        OPEN "\n \n",
        OPEN "nothing" CLOSE,
        OPEN "[{\"name\": \"f\"}]" CLOSE,
        OPEN "{\"name\": \"f\", \"argum",
        OPEN "{name: \"f\"}" CLOSE,
        OPEN "{'name': 'f'}" CLOSE,
        OPEN "{\"name\": 5, \"arguments\": {}}" CLOSE,
        OPEN "{\"name\": \"\", \"arguments\": {}}" CLOSE,
        OPEN "{\"name\": \"f\", \"arguments\": \"{}\"}" CLOSE,
        OPEN "{\"name\": \"f\", \"arguments\": null}" CLOSE,
        OPEN "{\"name\": \"f\\n\", \"arguments\": {}}" CLOSE,
        OPEN "{\"arguments\": {\"x\": 1}}" CLOSE,
        OPEN "{\"function\": \"f\"}" CLOSE,
        OPEN "{\"arguments\": {\"x\": 01}, \"name\": \"f\"}" CLOSE,
        OPEN "{}" CLOSE,
        "text \n\n  \n",
        "  leading",
        CLOSE,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_all_cuts(TOOL_FORMAT_HERMES, texts[i], texts[i], "");
    /* What is wrong does not hide the call behind it. */
    expect_all_cuts(TOOL_FORMAT_HERMES,
                    OPEN "{\"na" OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE,
                    OPEN "{\"na" OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE, "");
    expect_all_cuts(TOOL_FORMAT_HERMES,
                    OPEN "x" OPEN OPEN "{\"name\": \"f\", \"arguments\": {}}" CLOSE, OPEN "x" OPEN,
                    "f:{}");
}

static void test_arguments_that_break_off_are_told_as_far_as_they_go(void **state) {
    (void)state;
    static const struct row rows[] = {
        {OPEN "{\"name\": \"f\", \"arguments\": {\"x\": \"abc", "", "f:{\"x\": \"abc"},
        {OPEN "{\"name\": \"f\", \"arguments\": {", "", "f:{"},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"x\": nope}}" CLOSE, "ope}}" CLOSE,
         "f:{\"x\": n"},
        {OPEN "{\"name\": \"f\", \"arguments\": {\"x\": 1" CLOSE "after", "after", "f:{\"x\": 1"},
        {OPEN "{\"name\": \"f\", \"arguments\": {}, \"x\": oops}" CLOSE, ", \"x\": oops}" CLOSE,
         "f:{}"},
        {OPEN "{\"name\": \"f\", \"arguments\": {}, \"arguments\": {}}" CLOSE,
         ", \"arguments\": {}}" CLOSE, "f:{}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_all_cuts(TOOL_FORMAT_HERMES, rows[i].text, rows[i].content, rows[i].calls);
}

static void test_llama3_calls_are_found(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"{\"name\": \"f\", \"parameters\": {\"x\": 1}}", "", "f:{\"x\": 1}"},
        {"\n <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "", "f:{}"},
        {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "",
         "f:{}|g:{}"},
        {"{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"g\", \"parameters\": {}}\nok", "\nok",
         "f:{}|g:{}"},
        {"Well: {\"name\": \"f\", \"parameters\": {}}",
         "Well: {\"name\": \"f\", \"parameters\": {}}", ""},
        {"Well. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "Well.", "f:{}"},
        {"{\"answer\": 42}", "{\"answer\": 42}", ""},
        {"{\"name\": \"Ann\", \"age\": \"{\"", "{\"name\": \"Ann\", \"age\": \"{\"", ""},
        {"<|python_tag|>brave_search.call(query=\"x\")",
         "<|python_tag|>brave_search.call(query=\"x\")", ""},
        {"{\"name\": \"f\", \"parameters\": {}}; then", "; then", "f:{}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_all_cuts(TOOL_FORMAT_LLAMA3, rows[i].text, rows[i].content, rows[i].calls);
}

static void test_mistral_calls_are_found(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": [1]}}]", "", "f:{\"x\": [1]}"},
        {"Hm.\n[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"arguments\": {}, \"name\": "
         "\"g\", \"id\": \"123456789\"} ] ",
         "Hm.", "f:{}|g:{}"},
        {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}},]", "", "f:{}"},
        {"[TOOL_CALLS]f{\"x\": \"}\"}[TOOL_CALLS]g-h.i{}", "", "f:{\"x\": \"}\"}|g-h.i:{}"},
        {"[TOOL_CALLS]f[ARGS]{\"x\": 1}", "", "f:{\"x\": 1}"},
        {"[TOOL_CALLS]f[CALL_ID]ab12[ARGS]{}text", "text", "f:{}"},
        {"[TOOL_CALLS]{\"name\": \"f\", \"arguments\": {}}", "", "f:{}"},
        {"[TOOL_CALLS][]", "[TOOL_CALLS][]", ""},
        {"[TOOL_CALLS]f[ARG]{}", "[TOOL_CALLS]f[ARG]{}", ""},
        {"[TOOL_CALLS]say hello", "[TOOL_CALLS]say hello", ""},
        {"[TOOL_CALLS]f(x)", "[TOOL_CALLS]f(x)", ""},
        {"[TOOL[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}] bye", "[TOOL bye", "f:{}"},
        {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}} x]", " x]", "f:{}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_all_cuts(TOOL_FORMAT_MISTRAL, rows[i].text, rows[i].content, rows[i].calls);
}

static void test_texts_of_nothing_but_half_calls_cost_what_others_do(void **state) {
    (void)state;
    static const char *const pieces[] = {OPEN,
                                         OPEN "{",
                                         OPEN "{\"name\": \"",
                                         "{\"name\": \"f\", ",
                                         "\n\t ",
                                         OPEN "{\"name\": \"f\", \"arguments\": {"};
    enum { BYTES = 1 << 20 };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buf text;
        struct seen seen;
        buf_init(&text, 0);
        while (text.len < BYTES) buf_append_str(&text, pieces[i]);
        read_text(TOOL_FORMAT_HERMES, text.data, text.len, 0, text.len, &seen);
        /* Nothing is lost, but for what calls are told apart by. */
        if (!seen.n_calls) assert_int_equal(seen.content.len, text.len);
        assert_true(seen.n_calls <= TOOL_CALLS_MAX);
        deinit(&seen);
        buf_deinit(&text);
    }
}

static void test_random_texts_come_out_the_same_however_they_are_cut(void **state) {
    (void)state;
    static const char *const words[] = {OPEN,
                                        CLOSE,
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"",
                                        "\\",
                                        "\n",
                                        " ",
                                        "\"name\"",
                                        "\"arguments\"",
                                        "\"f\"",
                                        "1",
                                        "é",
                                        ";",
                                        "null",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "<|python_tag|>",
                                        "{\"name\": \"f\", \"arguments\": {",
                                        "x"};
    const uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 3000; i++) {
        const enum tool_format format = (enum tool_format)(1 + i % 3);
        struct buf text;
        struct seen whole;
        buf_init(&text, 0);
        buf_append_str(&text, " ");
        const uint64_t n = rng_u64(seed, 64 * i) % 24;
        for (uint64_t k = 1; k <= n; k++)
            buf_append_str(&text,
                           words[rng_u64(seed, 64 * i + k) % (sizeof words / sizeof *words)]);
        read_text(format, text.data, text.len, text.len, 1, &whole);
        for (size_t piece = 1; piece <= 5; piece += 2)
            expect(format, text.data, text.len, whole.content.data, whole.calls.data, 0, piece);
        deinit(&whole);
        buf_deinit(&text);
    }
}

/* ---- the scanner ---- */

/* Whether the scanner takes all of text as one object or array. */
static bool scans(const char *text, size_t len) {
    struct json_scan scan;
    json_scan_init(&scan);
    for (size_t i = 0; i < len; i++) {
        const enum json_scan_result result = json_scan_push(&scan, text[i]);
        if (result == JSON_SCAN_ERROR) return false;
        if (result == JSON_SCAN_DONE) {
            while (++i < len)
                if (!strchr(" \t\r\n", text[i])) return false;
            return true;
        }
    }
    return false;
}

static void test_the_scanner_takes_what_yyjson_takes(void **state) {
    (void)state;
    static const char *const words[] = {"{",        "}",     "[",     "]",       ",",
                                        ":",        "\"",    "\"a\"", "\"a\":",  "1",
                                        "-",        "0",     ".5",    "e",       "+",
                                        "true",     "false", "null",  "\\u00e9", "\\n",
                                        " ",        "\\",    "12",    "[1,2]",   "{\"b\":{}}",
                                        "\"\\\"}\""};
    const uint64_t seed = rng_seed_from_system();
    size_t n_valid = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < 200000; i++) {
        struct buf text;
        buf_init(&text, 0);
        buf_append_char(&text, i % 2 ? '[' : '{');
        const uint64_t n = rng_u64(seed, 64 * i) % 8;
        for (uint64_t k = 1; k <= n; k++)
            buf_append_str(&text,
                           words[rng_u64(seed, 64 * i + k) % (sizeof words / sizeof *words)]);
        buf_append_char(&text, i % 2 ? ']' : '}');
        /* Raw: 1e999 is JSON, though no double. */
        yyjson_doc *doc = yyjson_read(text.data, text.len, YYJSON_READ_NUMBER_AS_RAW);
        if (scans(text.data, text.len) != (doc != NULL))
            fail_msg("%s: yyjson says %s", text.data, doc ? "yes" : "no");
        n_valid += doc != NULL;
        yyjson_doc_free(doc);
        buf_deinit(&text);
    }
    assert_true(n_valid > 1000);
}

static void test_nesting_has_a_limit(void **state) {
    (void)state;
    char text[2 * JSON_SCAN_DEPTH_MAX + 2];
    memset(text, '[', JSON_SCAN_DEPTH_MAX);
    memset(text + JSON_SCAN_DEPTH_MAX, ']', JSON_SCAN_DEPTH_MAX);
    assert_true(scans(text, sizeof text - 2));
    memset(text, '[', JSON_SCAN_DEPTH_MAX + 1);
    memset(text + JSON_SCAN_DEPTH_MAX + 1, ']', JSON_SCAN_DEPTH_MAX + 1);
    assert_false(scans(text, sizeof text));
}

/* ---- formats and replies ---- */

static void test_the_format_is_seen_in_the_chat_template(void **state) {
    (void)state;
    static const struct {
        const char *name, *template;
        enum tool_format format;
    } rows[] = {
        {"auto", "{{ '<tool_call>\\n{\"name\": \"' }}", TOOL_FORMAT_HERMES},
        {"auto", "<tool_call>\n<function=f>", TOOL_FORMAT_NONE},
        {"auto", "<tool_call>f\n<arg_key>", TOOL_FORMAT_NONE},
        {"auto", "{{ '[TOOL_CALLS] [' }}", TOOL_FORMAT_MISTRAL},
        {"auto", "{{ '<|python_tag|>' }}", TOOL_FORMAT_LLAMA3},
        {"auto", "Environment: ipython {\"name\": x, \"parameters\": y}", TOOL_FORMAT_LLAMA3},
        {"auto", "<|im_start|>", TOOL_FORMAT_NONE},
        {"auto", NULL, TOOL_FORMAT_NONE},
        {"none", "<tool_call>", TOOL_FORMAT_NONE},
        {"hermes", NULL, TOOL_FORMAT_HERMES},
        {"qwen", NULL, TOOL_FORMAT_HERMES},
        {"qwen25", NULL, TOOL_FORMAT_HERMES},
        {"llama3", NULL, TOOL_FORMAT_LLAMA3},
        {"llama3_json", NULL, TOOL_FORMAT_LLAMA3},
        {"mistral", NULL, TOOL_FORMAT_MISTRAL},
    };
    enum tool_format format;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(tool_format_find(rows[i].name, rows[i].template, &format));
        assert_int_equal(format, rows[i].format);
    }
    assert_false(tool_format_find("deepseek", NULL, &format));
    for (int i = TOOL_FORMAT_NONE; i <= TOOL_FORMAT_MISTRAL; i++) {
        assert_true(tool_format_find(tool_format_name((enum tool_format)i), NULL, &format));
        assert_int_equal(format, i);
    }
}

static void test_pieces_are_written_as_the_api_has_them(void **state) {
    (void)state;
    static const char first[] = "Hi " OPEN "{\"name\": \"f\", \"arguments\": {\"x\": \"";
    static const char second[] = "\xc3\xa9\"}}" CLOSE OPEN "{\"name\": \"g\"}" CLOSE;
    struct tool_reply reply;
    struct buf out;
    char id[TOOL_ID_MAX], expected[400];
    buf_init(&out, 0);
    tool_reply_init(&reply, TOOL_FORMAT_HERMES);

    tool_reply_push(&reply, first, sizeof first - 1);
    assert_string_equal(reply.content.data, "Hi");
    assert_int_equal(reply.n_pieces, 1);
    snprintf(id, sizeof id, "%s", reply.pieces[0].id);
    assert_int_equal(strncmp(id, "call_", 5), 0);
    tool_reply_write_begin(&reply.pieces[0], &out);
    snprintf(expected, sizeof expected,
             "{\"index\":0,\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"arguments\":\"\"}}",
             id);
    assert_string_equal(out.data, expected);
    buf_clear(&out);
    tool_reply_write_arguments(&reply.pieces[0], &out);
    assert_string_equal(out.data,
                        "{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\": \\\"\"}}");
    tool_reply_clear(&reply);
    tool_reply_push(&reply, second, sizeof second - 1);
    tool_reply_finish(&reply);
    assert_int_equal(reply.n_pieces, 2);
    assert_false(reply.pieces[0].is_new);
    assert_string_equal(reply.pieces[0].arguments.data, "\xc3\xa9\"}");
    assert_true(reply.pieces[1].is_new);
    assert_string_not_equal(reply.pieces[1].id, id);
    assert_true(tool_reply_has_calls(&reply));
    assert_false(reply.failed);
    tool_reply_deinit(&reply);

    tool_reply_init(&reply, TOOL_FORMAT_MISTRAL);
    tool_reply_push(&reply, "[TOOL_CALLS]f{}", 15);
    assert_int_equal(strlen(reply.pieces[0].id), 9);
    assert_int_equal(strspn(reply.pieces[0].id, "0123456789abcdefghijklmnopqrstuvwxyz"
                                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
                     9);
    buf_clear(&out);
    tool_reply_write_calls(&reply, &out);
    assert_non_null(strstr(out.data, "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]"));
    tool_reply_deinit(&reply);
    buf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hermes_calls_are_found),
        cmocka_unit_test(test_what_is_no_call_is_content_and_nothing_is_dropped),
        cmocka_unit_test(test_arguments_that_break_off_are_told_as_far_as_they_go),
        cmocka_unit_test(test_llama3_calls_are_found),
        cmocka_unit_test(test_mistral_calls_are_found),
        cmocka_unit_test(test_texts_of_nothing_but_half_calls_cost_what_others_do),
        cmocka_unit_test(test_random_texts_come_out_the_same_however_they_are_cut),
        cmocka_unit_test(test_the_scanner_takes_what_yyjson_takes),
        cmocka_unit_test(test_nesting_has_a_limit),
        cmocka_unit_test(test_the_format_is_seen_in_the_chat_template),
        cmocka_unit_test(test_pieces_are_written_as_the_api_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
