/* Real tokenizers against what the tokenizers library makes of the same texts: ids, ids with the
 * post-processor's specials, decoding, and rendered chats; from tokenizer.json and from GGUF. */
#include "model_tokenizers.h"
#include "test.h"

#include "base/json.h"

static const char *folder;

static void check(const char *name, struct tokenizer *(*open)(const char *), bool nfc_only) {
    char path[1024];
    unsigned n_rows;
    snprintf(path, sizeof path, "%s/tokenizers/%s", folder, name);
    yyjson_doc *golden = read_json_file(path, "golden.json");
    struct tokenizer *tokenizer = open(path);
    assert_non_null(golden);
    assert_non_null(tokenizer);

    unsigned n_bad = check_golden(tokenizer, yyjson_doc_get_root(golden), name, nfc_only, &n_rows);

    assert_true(n_rows >= 90);
    assert_int_equal(n_bad, 0);
    tokenizer_destroy(tokenizer);
    yyjson_doc_free(golden);
}

#define JSON_TEST(name)                                                                            \
    static void test_##name##_json_gives_the_reference_ids(void **state) {                         \
        (void)state;                                                                               \
        check(#name, open_json_tokenizer, /*nfc_only=*/false);                                     \
    }
#define GGUF_TEST(name)                                                                            \
    static void test_##name##_gguf_gives_the_reference_ids(void **state) {                         \
        (void)state;                                                                               \
        check(#name, open_gguf_tokenizer, /*nfc_only=*/true);                                      \
    }

JSON_TEST(qwen3)
JSON_TEST(llama3_1)
JSON_TEST(gptoss)
JSON_TEST(mistral_nemo)
JSON_TEST(gemma3)
JSON_TEST(llama2)
GGUF_TEST(qwen3)
GGUF_TEST(llama3_1)
GGUF_TEST(gptoss)
GGUF_TEST(mistral_nemo)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen3_json_gives_the_reference_ids),
        cmocka_unit_test(test_llama3_1_json_gives_the_reference_ids),
        cmocka_unit_test(test_gptoss_json_gives_the_reference_ids),
        cmocka_unit_test(test_mistral_nemo_json_gives_the_reference_ids),
        cmocka_unit_test(test_gemma3_json_gives_the_reference_ids),
        cmocka_unit_test(test_llama2_json_gives_the_reference_ids),
        cmocka_unit_test(test_qwen3_gguf_gives_the_reference_ids),
        cmocka_unit_test(test_llama3_1_gguf_gives_the_reference_ids),
        cmocka_unit_test(test_gptoss_gguf_gives_the_reference_ids),
        cmocka_unit_test(test_mistral_nemo_gguf_gives_the_reference_ids),
    };
    folder = conformance_folder();
    if (!folder) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
