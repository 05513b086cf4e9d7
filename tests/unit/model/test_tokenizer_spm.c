/* Vocabularies that SentencePiece made, as GGUF and as tokenizer.json: which tokens are found
 * where, what missing keys mean, prefixes beside special tokens, decoding and streams, and what is
 * refused. The ids are the sentencepiece and tokenizers packages' (tests/oracle compares many
 * more). */
#include "model_vocab.h"
#include "stream_check.h"
#include "test.h"

#include "base/arena.h"
#include "base/json.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"
#include "model/tokenizer_json.h"

#define M "\u2581"

enum {
    UNK,
    BOS,
    EOS,
    BYTE_C3,
    BYTE_A9,
    MARK,
    A,
    B,
    AB,
    MARK_A,
    MARK_AB,
    MARKS,
    USER,
    ADDED,
    OLD,
    N
};

static const char *const TOKENS[N] = {
    "<unk>", "<s>",     "</s>",     "<0xC3>",       "<0xA9>", "\u2581",    "a",      "b",
    "ab",    "\u2581a", "\u2581ab", "\u2581\u2581", "xy",     "<|added|>", "b\u2581"};
static const int32_t TYPES[N] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4, 4, 5};
static const float SCORES[N] = {0, 0, 0, 0, 0, -5, -5, -5, -1, -2, -1.5f, -9, 0, -1000, -3};

static struct vocab_file vocabulary(const char *kind) {
    struct vocab_file f = {0};
    vocab_file_add_str(&f, "ggml.model", kind);
    vocab_file_add_strs(&f, "ggml.tokens", TOKENS, N);
    vocab_file_add_i32s(&f, "ggml.token_type", TYPES, N);
    vocab_file_add_f32s(&f, "ggml.scores", SCORES, N);
    vocab_file_add_u32(&f, "ggml.bos_token_id", BOS);
    vocab_file_add_u32(&f, "ggml.eos_token_id", EOS);
    return f;
}

static struct tokenizer *open_file(struct vocab_file f) {
    struct radish_error err;
    struct tokenizer *t = vocab_file_open(&f, &err);
    if (!t) fail_msg("%s", err.msg);
    return t;
}

static struct tokenizer *try_open_json(const char *json, struct radish_error *err) {
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_spec spec;
    struct arena arena;
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
    assert_non_null(doc);
    arena_init(&arena, 0);
    memset(err, 0, sizeof *err);
    enum radish_status status =
        tokenizer_json_spec(yyjson_doc_get_root(doc), NULL, &arena, &spec, err);
    if (status == RADISH_OK) status = tokenizer_create(&spec, &tokenizer, err);
    arena_deinit(&arena);
    yyjson_doc_free(doc);
    return tokenizer;
}

static void expect_ids(const struct tokenizer *t, const char *text, bool add_special,
                       const int32_t *want, size_t n_want) {
    struct radish_error err;
    int32_t *ids;
    size_t n;
    assert_int_equal(tokenizer_encode(t, text, strlen(text), add_special, &ids, &n, &err),
                     RADISH_OK);
    assert_int_equal(n, n_want);
    if (n) assert_memory_equal(ids, want, n * sizeof *ids);
    free(ids);
}

#define EXPECT(t, text, ...)                                                                       \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(t, text, false, ids_, sizeof ids_ / sizeof *ids_);                              \
    } while (0)

#define EXPECT_SPECIAL(t, text, ...)                                                               \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(t, text, true, ids_, sizeof ids_ / sizeof *ids_);                               \
    } while (0)

static void expect_text(const struct tokenizer *t, const int32_t *ids, size_t n, const char *want) {
    struct radish_error err;
    struct buf out = {0};
    assert_int_equal(tokenizer_decode(t, ids, n, /*skip_special=*/true, &out, &err), RADISH_OK);
    assert_string_equal(out.data ? out.data : "", want);
    buf_deinit(&out);
}

static void test_a_prefix_follows_special_tokens_but_not_user_defined_symbols(void **state) {
    struct tokenizer *t = open_file(vocabulary("llama"));
    (void)state;
    EXPECT(t, "ab", MARK_AB);
    EXPECT(t, "<s>ab", BOS, MARK_AB);
    EXPECT(t, "</s> ab", EOS, MARK, MARK_AB); /* a prefix and a space */
    EXPECT(t, "ab<|added|>ab", MARK_AB, ADDED, MARK_AB);
    EXPECT(t, "<s></s>", BOS, EOS);
    EXPECT(t, "abxyab", MARK_AB, USER, AB);
    EXPECT(t, "xyxy", MARK, USER, USER);
    EXPECT_SPECIAL(t, "ab", BOS, MARK_AB); /* without a key */
    assert_true(tokenizer_is_special(t, EOS));
    assert_false(tokenizer_is_special(t, ADDED));
    assert_false(tokenizer_is_special(t, USER));
    tokenizer_destroy(t);
}

static void test_types_decide_what_text_becomes(void **state) {
    struct tokenizer *t = open_file(vocabulary("llama"));
    (void)state;
    EXPECT(t, "\u00E9", MARK, BYTE_C3, BYTE_A9);
    EXPECT(t, "<0xC3>", MARK, UNK, UNK, UNK, UNK, UNK, UNK); /* not the byte; no tokens for these */
    EXPECT(t, "b a", MARK, B, MARK_A); /* the unused "b" + mark stays in parts */
    tokenizer_destroy(t);
}

static void test_white_space_keys_are_obeyed(void **state) {
    struct vocab_file f = vocabulary("llama");
    (void)state;
    vocab_file_add_bool(&f, "ggml.add_space_prefix", false);
    struct tokenizer *t = open_file(f);
    EXPECT(t, "ab  ab ", AB, MARK, MARK_AB, MARK);
    tokenizer_destroy(t);

    f = vocabulary("llama");
    vocab_file_add_bool(&f, "ggml.remove_extra_whitespaces", true);
    t = open_file(f);
    EXPECT(t, "  ab   ab ", MARK_AB, MARK_AB);
    expect_ids(t, "   ", false, NULL, 0);
    tokenizer_destroy(t);
}

static void test_t5_has_other_defaults_and_takes_the_most_probable_path(void **state) {
    struct tokenizer *t = open_file(vocabulary("t5"));
    (void)state;
    EXPECT(t, "ab", AB);
    EXPECT(t, " ab", MARK_AB);
    EXPECT(t, "aab", A, AB);
    EXPECT(t, "axyb\u00E9", A, USER, B, BYTE_C3, BYTE_A9);
    EXPECT(t, "z", UNK); /* a byte is missing */
    EXPECT(t, "<unk></s>", UNK, EOS);
    EXPECT_SPECIAL(t, "ab", AB, EOS);
    tokenizer_destroy(t);
}

static void test_a_charsmap_is_read_from_both_kinds_of_files(void **state) {
    /* One rule, "a" to "b": units 0 (offset 1 to its children), 96 (label a, a value below), the
     * value. */
    uint32_t blob[1 + 128] = {128 * 4};
    (void)state;
    for (int i = 0; i < 128; i++) blob[1 + i] = 0xFF;
    blob[1] = 1u << 10;
    blob[1 + (1 ^ 'a')] = 'a' | 1u << 8 | ((1u ^ 'a') ^ 2u) << 10;
    blob[1 + 2] = 1u << 31;
    char bytes[sizeof blob + 2];
    memcpy(bytes, blob, sizeof blob);
    memcpy(bytes + sizeof blob, "b", 2);
    struct vocab_file f = vocabulary("t5");
    vocab_file_add_bytes(&f, "ggml.precompiled_charsmap", bytes, sizeof bytes);
    struct tokenizer *t = open_file(f);
    EXPECT(t, "ab", B, B);
    tokenizer_destroy(t);

    struct radish_error err;
    f = vocabulary("t5");
    vocab_file_add_bytes(&f, "ggml.precompiled_charsmap", bytes, 8);
    assert_null(vocab_file_open(&f, &err));
    assert_int_equal(err.status, RADISH_E_FORMAT);

    /* 4 bytes of size 0, then "\0": no rule. */
    const char *json =
        "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAAAAA=\"}, "
        "\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -1]]}}";
    t = try_open_json(json, &err);
    if (!t) fail_msg("%s", err.msg);
    EXPECT(t, "ab", 1, 0);
    tokenizer_destroy(t);
}

#define UNIGRAM(more) "{\"model\": {\"type\": \"Unigram\", " more "}}"

static void expect_refusal(const char *json, enum radish_status status, const char *words) {
    struct radish_error err;
    assert_null(try_open_json(json, &err));
    if (err.status != status || !strstr(err.msg, words))
        fail_msg("%s: %s: wanted \"%s\"", radish_status_name(err.status), err.msg, words);
}

static void test_unigram_is_read_from_tokenizer_json(void **state) {
    struct radish_error err;
    struct tokenizer *t;
    (void)state;
    t = try_open_json("{\"model\": {\"unk_id\": 1, \"byte_fallback\": true, \"vocab\": [[\"a\", "
                      "-1], [\"<unk>\", 0], "
                      "[\"b\", -2.5], [\"ab\", -4], [\"<0x7A>\", -9], [\"" M
                      "a\", -3]]}, \"pre_tokenizer\": {\"type\": "
                      "\"Metaspace\", \"replacement\": \"" M
                      "\", \"prepend_scheme\": \"always\"}, \"decoder\": {\"type\": "
                      "\"Metaspace\", \"replacement\": \"" M "\", \"prepend_scheme\": \"always\"}}",
                      &err);
    if (!t) fail_msg("%s", err.msg);
    EXPECT(t, "abab", 5, 2, 0, 2); /* -3.5 beats -4 */
    EXPECT(t, "azy", 5, 1);        /* one run, and "y" has no byte */
    EXPECT(t, "az", 5, 4);
    const int32_t ids[] = {5, 2, 5};
    expect_text(t, ids, 3, "ab a");
    tokenizer_destroy(t);

    expect_refusal(UNIGRAM("\"vocab\": [[\"a\", 0]]"), RADISH_E_UNSUPPORTED, "unknown token");
    expect_refusal(UNIGRAM("\"unk_id\": null, \"vocab\": [[\"a\", 0]]"), RADISH_E_UNSUPPORTED,
                   "unknown token");
    expect_refusal(UNIGRAM("\"unk_id\": 1, \"vocab\": [[\"a\", 0]]"), RADISH_E_UNSUPPORTED,
                   "unknown token");
    expect_refusal(UNIGRAM("\"unk_id\": \"a\", \"vocab\": [[\"a\", 0]]"), RADISH_E_FORMAT, "id");
    expect_refusal(UNIGRAM("\"unk_id\": 0, \"vocab\": {\"a\": 0}"), RADISH_E_FORMAT,
                   "list of at most");
    expect_refusal(UNIGRAM("\"unk_id\": 0, \"vocab\": [\"a\"]"), RADISH_E_FORMAT, "[piece, score]");
    expect_refusal(UNIGRAM("\"unk_id\": 0, \"vocab\": [[\"a\", \"b\"]]"), RADISH_E_FORMAT,
                   "[piece, score]");
    expect_refusal("{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"A\"}, "
                   "\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", 0]]}}",
                   RADISH_E_FORMAT, "not base64");
}

static void test_texts_start_without_the_prefix_and_bytes_join(void **state) {
    struct tokenizer *t = open_file(vocabulary("llama"));
    (void)state;
    expect_text(t, (int32_t[]){BOS, MARK_AB, MARK_AB, USER, BYTE_C3, BYTE_A9}, 6, "ab abxy\u00E9");
    expect_text(t, (int32_t[]){MARKS, A}, 2, " a");
    expect_text(t, (int32_t[]){BYTE_C3, A}, 2, "\uFFFDa");
    tokenizer_destroy(t);
    struct vocab_file f = vocabulary("t5");
    vocab_file_add_bool(&f, "ggml.remove_extra_whitespaces", true);
    t = open_file(f);
    expect_text(t, (int32_t[]){MARKS, MARK, A, MARK, EOS}, 5, "a ");
    tokenizer_destroy(t);
}

static void test_streams_are_what_decoding_everything_gives(void **state) {
    static const char *const kinds[] = {"llama", "t5"};
    const uint64_t seed = 20261129;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 4; i++) {
        struct vocab_file f = vocabulary(kinds[i / 2]);
        vocab_file_add_bool(&f, "ggml.remove_extra_whitespaces", i % 2);
        struct tokenizer *t = open_file(f);
        stream_check_random(t, seed + (uint64_t)i, 300, 40);
        tokenizer_destroy(t);
    }
}

static void test_broken_keys_are_named(void **state) {
    static const float bad[N] = {[MARK] = -1.0f / 0.0f};
    struct radish_error err;
    (void)state;
    struct vocab_file f = {0};
    vocab_file_add_str(&f, "ggml.model", "t5");
    vocab_file_add_strs(&f, "ggml.tokens", TOKENS, N);
    vocab_file_add_f32s(&f, "ggml.scores", bad, N);
    assert_null(vocab_file_open(&f, &err));
    assert_non_null(strstr(err.msg, "tokenizer.ggml.scores must be an array of finite floats"));

    f = vocabulary("llama");
    vocab_file_add_u32(&f, "ggml.unknown_token_id", N);
    assert_null(vocab_file_open(&f, &err));
    assert_non_null(strstr(err.msg, "tokenizer.ggml.unknown_token_id"));

    f = vocabulary("t5");
    vocab_file_add_str(&f, "ggml.precompiled_charsmap", "AAAA");
    assert_null(vocab_file_open(&f, &err));
    assert_non_null(
        strstr(err.msg, "tokenizer.ggml.precompiled_charsmap must be an array of bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_prefix_follows_special_tokens_but_not_user_defined_symbols),
        cmocka_unit_test(test_types_decide_what_text_becomes),
        cmocka_unit_test(test_white_space_keys_are_obeyed),
        cmocka_unit_test(test_t5_has_other_defaults_and_takes_the_most_probable_path),
        cmocka_unit_test(test_a_charsmap_is_read_from_both_kinds_of_files),
        cmocka_unit_test(test_unigram_is_read_from_tokenizer_json),
        cmocka_unit_test(test_texts_start_without_the_prefix_and_bytes_join),
        cmocka_unit_test(test_streams_are_what_decoding_everything_gives),
        cmocka_unit_test(test_broken_keys_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
