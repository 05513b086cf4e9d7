/* tokenizer.json: one real file whole, and small ones that show each part, default and refusal. */
#include "model_tokenizers.h"
#include "test.h"

#include "base/arena.h"
#include "base/json.h"
#include "model/tokenizer_json.h"

#define MODEL(more)                                                                                \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\u0120\": 3, "    \
    "\"<s>\": 4}, \"merges\": [\"a b\"]" more "}"

/* The tokenizer of a JSON text; NULL, and err filled, when it is refused. */
static struct tokenizer *open_text(const char *json, const char *config, struct radish_error *err) {
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct arena arena;
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
    yyjson_doc *config_doc = config ? yyjson_read(config, strlen(config), 0) : NULL;
    assert_non_null(doc);
    arena_init(&arena, 0);
    memset(err, 0, sizeof *err);
    enum radish_status status = tokenizer_json_spec(
        yyjson_doc_get_root(doc), yyjson_doc_get_root(config_doc), &arena, &spec, err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &tokenizer, err);
    assert_int_equal(err->status, status);
    arena_deinit(&arena);
    yyjson_doc_free(doc);
    yyjson_doc_free(config_doc);
    return tokenizer;
}

static void expect_ids(const char *json, const char *config, const char *text, bool add_special,
                       const int32_t *want, size_t n_want) {
    struct radish_error err;
    int32_t *ids;
    size_t n;
    struct tokenizer *t = open_text(json, config, &err);
    if (!t) fail_msg("%s", err.msg);
    assert_int_equal(tokenizer_encode(t, text, strlen(text), add_special, &ids, &n, &err),
                     RADISH_OK);
    assert_int_equal(n, n_want);
    if (n) assert_memory_equal(ids, want, n * sizeof *ids);
    free(ids);
    tokenizer_destroy(t);
}

#define EXPECT(json, config, text, add_special, ...)                                               \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(json, config, text, add_special, ids_, sizeof ids_ / sizeof *ids_);             \
    } while (0)

static void expect_refusal(const char *json, enum radish_status status, const char *words) {
    struct radish_error err;
    assert_null(open_text(json, NULL, &err));
    if (err.status != status || !strstr(err.msg, words))
        fail_msg("%s: %s: wanted \"%s\"", radish_status_name(err.status), err.msg, words);
}

static void test_a_real_tokenizer_gives_the_reference_ids(void **state) {
    const char *folder = TEST_DATA "/tokenizers/qwen3";
    struct golden_rows rows;
    (void)state;
    yyjson_doc *golden = read_json_file(folder, "golden.json");
    struct tokenizer *t = open_json_tokenizer(folder);
    assert_non_null(golden);
    assert_non_null(t);

    unsigned n_bad = check_golden(t, yyjson_doc_get_root(golden), "qwen3", false, &rows);

    assert_true(rows.n_encode + rows.n_chat > 100);
    assert_int_equal(n_bad, 0);
    assert_int_equal(tokenizer_n_tokens(t), 151669);
    assert_int_equal(tokenizer_find(t, "<|im_end|>", 10), 151645);
    assert_true(tokenizer_is_special(t, 151645));
    assert_false(tokenizer_is_special(t, tokenizer_find(t, "<think>", 7)));
    tokenizer_destroy(t);
    yyjson_doc_free(golden);
}

static void test_merges_may_be_strings_or_pairs(void **state) {
    (void)state;
    EXPECT("{" MODEL("") "}", NULL, "ab", false, 2);
    EXPECT("{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [[\"a\", "
           "\"b\"]]}}",
           NULL, "ab", false, 2);
}

static void test_steps_of_nested_sequences_run_in_order(void **state) {
    (void)state;
    EXPECT("{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}, "
           "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\", \"pattern\": "
           "{\"String\": \"x\"}, \"content\": \"b\"}]}]}, " MODEL("") "}",
           NULL, "AX", false, 2);
    EXPECT("{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"b\"}, "
           "\"behavior\": \"Isolated\"}, " MODEL("") "}",
           NULL, "ab", false, 0, 1);
}

static void test_byte_level_adds_a_space_unless_told(void **state) {
    (void)state;
    EXPECT("{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, " MODEL("") "}", NULL, "ab", false, 3,
           2);
    EXPECT("{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, " MODEL(
               "") "}",
           NULL, "ab", false, 2);
}

static void test_a_template_adds_ids_only_when_asked(void **state) {
    const char *json =
        "{\"post_processor\": {\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, "
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"e\"}}], "
        "\"special_tokens\": {\"<s>\": {\"ids\": [4]}, \"e\": {\"ids\": [0, 1]}}}]}, " MODEL(
            "") "}";
    (void)state;
    EXPECT(json, NULL, "b", true, 4, 1, 0, 1);
    EXPECT(json, NULL, "b", false, 1);
}

static void test_post_processors_in_a_row_work_as_the_library_s(void **state) {
    const char *template =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, "
        "{\"Sequence\": {\"id\": \"A\"}}], \"pair\": [{\"Sequence\": {\"id\": \"B\"}}, "
        "{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
        "\"special_tokens\": {\"<s>\": {\"ids\": [4]}}}";
    const char *bert = "{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}";
    const char *roberta =
        "{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}";
    char json[2000];
    (void)state;
#define ROW(first, second)                                                                         \
    (snprintf(json, sizeof json,                                                                   \
              "{\"post_processor\": {\"type\": \"Sequence\", \"processors\": [%s, %s]}, " MODEL(   \
                  "") "}",                                                                         \
              first, second),                                                                      \
     json)
    EXPECT(ROW(bert, bert), NULL, "ab", true, 0, 0, 2, 1, 1);
    EXPECT(ROW(bert, template), NULL, "ab", true, 4, 0, 2, 1);
    /* A template leaves two parts: the others take them for a pair. */
    EXPECT(ROW(template, bert), NULL, "ab", true, 0, 4, 1, 2, 1);
    EXPECT(ROW(template, roberta), NULL, "ab", true, 0, 4, 1, 1, 2, 1);
    EXPECT(ROW(template, bert), NULL, "ab", false, 2);
    EXPECT(ROW(template, template), NULL, "ab", true, 2, 4, 4);
    expect_refusal("{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                   "[{\"Sequence\": {\"id\": \"B\"}}]}, " MODEL("") "}",
                   RADISH_E_FORMAT, "a template for one text uses a second");
#undef ROW
    expect_refusal(
        "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}, " MODEL("") "}",
        RADISH_E_UNSUPPORTED, "the text 0 times");
}

static void test_truncation_and_padding_never_touch_a_text(void **state) {
    (void)state;
    EXPECT("{\"truncation\": {\"direction\": \"Right\", \"max_length\": 2, \"strategy\": "
           "\"LongestFirst\", \"stride\": 0}, \"padding\": {\"strategy\": {\"Fixed\": 9}, "
           "\"direction\": \"Right\", \"pad_to_multiple_of\": null, \"pad_id\": 0, "
           "\"pad_type_id\": 0, "
           "\"pad_token\": \"a\"}, " MODEL("") "}",
           NULL, "aaabb", false, 0, 0, 2, 1);
}

static void test_models_without_a_type_are_known_by_their_fields(void **state) {
    (void)state;
    EXPECT("{\"model\": {\"vocab\": {\"u\": 0, \"a\": 1, \"#b\": 2}, \"unk_token\": \"u\", "
           "\"continuing_subword_prefix\": \"#\", \"max_input_chars_per_word\": 3}}",
           NULL, "ab", false, 1, 2);
    EXPECT("{\"model\": {\"vocab\": {\"u\": 0, \"ab\": 1}, \"unk_token\": \"u\"}}", NULL, "ab",
           false, 1);
}

static void test_the_version_line_of_old_merges_is_no_merge(void **state) {
    (void)state;
    EXPECT(
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": "
        "[\"#version: 0.2\", \"a b\"]}}",
        NULL, "ab", false, 2);
    expect_refusal(
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a a\"]}}",
        RADISH_E_FORMAT, "merges");
}

static void test_no_decoder_and_an_empty_one_join_differently(void **state) {
    static const struct {
        const char *decoder, *want;
    } rows[] = {{"null", "a b"}, {"{\"type\": \"Sequence\", \"decoders\": []}", "ab"}};
    const int32_t ids[] = {0, 1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct radish_error err;
        struct buf out = {0};
        char json[400];
        snprintf(json, sizeof json, "{\"decoder\": %s, " MODEL("") "}", rows[i].decoder);
        struct tokenizer *t = open_text(json, NULL, &err);
        assert_non_null(t);
        assert_int_equal(tokenizer_decode(t, ids, 2, false, &out, &err), RADISH_OK);
        assert_string_equal(out.data, rows[i].want);
        buf_deinit(&out);
        tokenizer_destroy(t);
    }
}

static void test_a_normalized_token_decodes_in_its_normal_form(void **state) {
    const char *json =
        "{\"normalizer\": {\"type\": \"Lowercase\"}, \"added_tokens\": [{\"id\": 5, "
        "\"content\": \"<X>\", \"special\": true, \"normalized\": true}], " MODEL("") "}";
    const int32_t id = 5;
    struct radish_error err;
    struct buf out = {0};
    (void)state;
    struct tokenizer *t = open_text(json, NULL, &err);
    assert_non_null(t);
    EXPECT(json, NULL, "a<X><x>", false, 0, 5, 5);

    /* "<x>" is no special token's content: it is not skipped, as in the library. */
    assert_int_equal(tokenizer_decode(t, &id, 1, /*skip_special=*/true, &out, &err), RADISH_OK);

    assert_string_equal(out.data, "<x>");
    assert_int_equal(tokenizer_find(t, "<X>", 3), 5);
    buf_deinit(&out);
    tokenizer_destroy(t);
}

static void test_added_tokens_get_the_vocabulary_s_ids_or_the_next_free(void **state) {
    const char *json =
        "{\"added_tokens\": [{\"id\": 77, \"content\": \"<s>\", \"special\": true}, "
        "{\"id\": 9, \"content\": \"<x>\"}, {\"id\": 6, \"content\": \"<y>\"}], " MODEL("") "}";
    (void)state;
    EXPECT(json, NULL, "a<s><x><y>", false, 0, 4, 5, 6);
}

static void test_an_added_token_listed_twice_is_the_later_one(void **state) {
    const char *json =
        "{\"added_tokens\": [{\"id\": 5, \"content\": \"<x>\", \"rstrip\": true}, {\"id\": 6, "
        "\"content\": \"<y>\"}, {\"id\": 5, \"content\": \"<x>\", \"lstrip\": true}], " MODEL(
            "") "}";
    (void)state;
    EXPECT(json, NULL, "a <x><y>", false, 0, 5, 6);
}

static void test_tokens_known_only_to_the_config_are_added(void **state) {
    const char *config = "{\"added_tokens_decoder\": {\"4\": {\"content\": \"other\"}, "
                         "\"8\": {\"content\": \"<call>\", \"special\": true}}}";
    (void)state;
    EXPECT("{\"added_tokens\": [{\"id\": 4, \"content\": \"<s>\"}], " MODEL("") "}", config,
           "<s>b<call>", false, 4, 1, 8);
}

static void test_what_is_not_supported_is_named(void **state) {
    (void)state;
    expect_refusal("{\"model\": {\"type\": \"Odd\", \"vocab\": []}}", RADISH_E_UNSUPPORTED,
                   "model \"Odd\" is not supported (supported: BPE, ");
    expect_refusal("{\"normalizer\": {\"type\": \"Odd\"}, " MODEL("") "}", RADISH_E_UNSUPPORTED,
                   "normalizer \"Odd\"");
    expect_refusal("{\"pre_tokenizer\": {\"type\": \"Odd\"}, " MODEL("") "}", RADISH_E_UNSUPPORTED,
                   "pre_tokenizer \"Odd\"");
    expect_refusal("{\"decoder\": {\"type\": \"Odd\"}, " MODEL("") "}", RADISH_E_UNSUPPORTED,
                   "decoder \"Odd\"");
    expect_refusal("{\"post_processor\": {\"type\": \"Odd\"}, " MODEL("") "}", RADISH_E_UNSUPPORTED,
                   "post_processor \"Odd\"");
    expect_refusal("{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, "
                   "{\"type\": \"ByteFallback\"}]}, " MODEL("") "}",
                   RADISH_E_UNSUPPORTED, "decoder ByteFallback");
    expect_refusal(
        "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}}, " MODEL(
            "") "}",
        RADISH_E_UNSUPPORTED, "regular expression \"(\"");
}

static void test_broken_parts_are_named(void **state) {
    (void)state;
    expect_refusal("[]", RADISH_E_FORMAT, "root");
    expect_refusal("{}", RADISH_E_FORMAT, "model");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
                   RADISH_E_FORMAT, "token id");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, \"merges\": []}}",
                   RADISH_E_FORMAT, "token id");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}",
                   RADISH_E_FORMAT, "empty");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"ab\"]}}",
                   RADISH_E_FORMAT, "merges");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
                   RADISH_E_FORMAT, "merge 0 names \"b\"");
    expect_refusal("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], "
                   "\"byte_fallback\": 1}}",
                   RADISH_E_FORMAT, "byte_fallback");
    expect_refusal("{\"added_tokens\": [{\"id\": 1}], " MODEL("") "}", RADISH_E_FORMAT, "content");
    expect_refusal(
        "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": {}}, " MODEL("") "}",
        RADISH_E_FORMAT, "single");
    expect_refusal("{\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"x\", 99], "
                   "\"sep\": [\"y\", 4]}, " MODEL("") "}",
                   RADISH_E_FORMAT, "token 99");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_real_tokenizer_gives_the_reference_ids),
        cmocka_unit_test(test_merges_may_be_strings_or_pairs),
        cmocka_unit_test(test_steps_of_nested_sequences_run_in_order),
        cmocka_unit_test(test_byte_level_adds_a_space_unless_told),
        cmocka_unit_test(test_a_template_adds_ids_only_when_asked),
        cmocka_unit_test(test_post_processors_in_a_row_work_as_the_library_s),
        cmocka_unit_test(test_truncation_and_padding_never_touch_a_text),
        cmocka_unit_test(test_models_without_a_type_are_known_by_their_fields),
        cmocka_unit_test(test_the_version_line_of_old_merges_is_no_merge),
        cmocka_unit_test(test_no_decoder_and_an_empty_one_join_differently),
        cmocka_unit_test(test_a_normalized_token_decodes_in_its_normal_form),
        cmocka_unit_test(test_added_tokens_get_the_vocabulary_s_ids_or_the_next_free),
        cmocka_unit_test(test_an_added_token_listed_twice_is_the_later_one),
        cmocka_unit_test(test_tokens_known_only_to_the_config_are_added),
        cmocka_unit_test(test_what_is_not_supported_is_named),
        cmocka_unit_test(test_broken_parts_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
