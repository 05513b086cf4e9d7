/* Real tokenizers against what the tokenizers library makes of the same texts: ids, ids with the
 * post-processor's specials, decoding, and rendered chats; from tokenizer.json and from GGUF. And
 * streams of each: random tokens behind random prompts are decode(prompt + output) minus
 * decode(prompt). */
#include "model_tokenizers.h"
#include "stream_check.h"
#include "test.h"

#include "base/json.h"

static const char *folder; /* of the conformance data; NULL = not there */
static bool is_incomplete;

static void check_streams(const struct tokenizer *tokenizer, uint64_t seed) {
    printf("streams: seed %llu\n", (unsigned long long)seed);
    stream_check_random(tokenizer, seed, /*rounds=*/1000, /*n_max=*/60);
    stream_check_random(tokenizer, seed + 1, /*rounds=*/1, /*n_max=*/20000);
}

static void check(const char *name, struct tokenizer *(*open)(const char *), bool nfc_only) {
    char path[1024], file[256];
    struct golden_rows rows;
    snprintf(path, sizeof path, "%s/tokenizers/%s", folder, name);
    snprintf(file, sizeof file, "tokenizers/%s/golden.json", name);
    yyjson_doc *golden = read_json_file(path, "golden.json");
    struct tokenizer *tokenizer = open(path);
    assert_non_null(golden);
    assert_non_null(tokenizer);

    unsigned n_bad = check_golden(tokenizer, yyjson_doc_get_root(golden), name, nfc_only, &rows);
    check_streams(tokenizer, 100 + strlen(name));

    assert_true(rows.n_encode >= 90);
    assert_int_equal(n_bad, 0);
    report_covered(file, nfc_only ? "encode-gguf" : "encode", rows.n_encode);
    report_covered(file, nfc_only ? "chat-ids-gguf" : "chat-ids", rows.n_chat);
    tokenizer_destroy(tokenizer);
    yyjson_doc_free(golden);
}

static void test_streams_of_the_committed_tokenizer_are_decode_minus_the_prompt(void **state) {
    struct tokenizer *tokenizer = open_json_tokenizer(TEST_DATA "/tokenizers/qwen3");
    (void)state;
    assert_non_null(tokenizer);
    check_streams(tokenizer, 1);
    tokenizer_destroy(tokenizer);
}

static void test_streams_of_smollm2_are_decode_minus_the_prompt(void **state) {
    struct tokenizer *tokenizer = open_smollm2_tokenizer();
    (void)state;
    if (!tokenizer) {
        printf("skipped: RADISH_SMOLLM2 does not name the model (scripts/model fetches it)\n");
        is_incomplete = true;
        skip();
    }
    check_streams(tokenizer, 2);
    tokenizer_destroy(tokenizer);
}

#define JSON_TEST(name)                                                                            \
    static void test_##name##_json_gives_the_reference_ids(void **state) {                         \
        (void)state;                                                                               \
        if (!folder) skip();                                                                       \
        check(#name, open_json_tokenizer, /*nfc_only=*/false);                                     \
    }
#define GGUF_TEST(name)                                                                            \
    static void test_##name##_gguf_gives_the_reference_ids(void **state) {                         \
        (void)state;                                                                               \
        if (!folder) skip();                                                                       \
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
        cmocka_unit_test(test_streams_of_the_committed_tokenizer_are_decode_minus_the_prompt),
        cmocka_unit_test(test_streams_of_smollm2_are_decode_minus_the_prompt),
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
    is_incomplete = !folder;
    if (cmocka_run_group_tests(tests, NULL, NULL)) return 1;
    return is_incomplete ? TEST_SKIPPED : 0;
}
