/* Vocabularies in GGUF metadata: which pre-tokenizer a name means, what token types do, BOS and
 * EOS, SentencePiece's scores, and what is refused. */
#include "model_tokenizers.h"
#include "model_vocab.h"
#include "test.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "format/gguf.h"
#include "model/tokenizer_gguf.h"
#include "text/vocab.h"

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

#define EXPECT(t, text, add_special, ...)                                                          \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(t, text, add_special, ids_, sizeof ids_ / sizeof *ids_);                        \
    } while (0)

static struct tokenizer *open_pre(const char *pre) {
    struct radish_error err;
    struct vocab_file f = vocab_file_bytes(pre);
    vocab_file_add_bool(&f, "ggml.add_bos_token", false);
    struct tokenizer *t = vocab_file_open(&f, &err);
    if (!t) fail_msg("%s: %s", pre, err.msg);
    return t;
}

static void test_the_name_decides_how_text_is_split(void **state) {
    struct tokenizer *gpt2 = open_pre("gpt-2"), *smollm = open_pre("smollm");
    struct tokenizer *qwen2 = open_pre("qwen2"), *llama3 = open_pre("llama-bpe");
    (void)state;

    EXPECT(gpt2, "ab12", false, ID_AB, ID_12);
    EXPECT(smollm, "ab12", false, ID_AB, '1', '2'); /* digits stand alone */
    EXPECT(qwen2, "ab12", false, ID_AB, '1', '2');
    EXPECT(llama3, "ab12", false, ID_AB, ID_12);
    EXPECT(gpt2, "e\u0301", false, 'e', 0xCC, 0x81);
    EXPECT(qwen2, "e\u0301", false, 0xC3, 0xA9); /* NFC */

    tokenizer_destroy(gpt2);
    tokenizer_destroy(smollm);
    tokenizer_destroy(qwen2);
    tokenizer_destroy(llama3);
}

static void test_every_known_name_opens_and_keeps_the_text(void **state) {
    static const char *const names[] = {"gpt-2",
                                        "phi-2",
                                        "roberta-bpe",
                                        "mpt",
                                        "olmo",
                                        "jais",
                                        "smollm",
                                        "starcoder",
                                        "refact",
                                        "command-r",
                                        "llama-bpe",
                                        "llama3",
                                        "llama-v3",
                                        "falcon3",
                                        "smaug-bpe",
                                        "dbrx",
                                        "glm4",
                                        "chatglm-bpe",
                                        "qwen2",
                                        "megrez",
                                        "stablelm2",
                                        "qwen35",
                                        "tekken",
                                        "gpt-4o",
                                        "llama4",
                                        "kimi-k2",
                                        "falcon",
                                        "bloom",
                                        "seed-coder",
                                        "bailingmoe",
                                        "deepseek-r1-qwen",
                                        "deepseek-llm",
                                        "deepseek-coder",
                                        "deepseek-v3"};
    static const char text[] = "It's 12345 ab\u00E9\u4E2D\u6587 x\t\n\n  !? ABc(\u3002)";
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer *t = open_pre(names[i]);
        struct radish_error err;
        struct buf out = {0};
        int32_t *ids;
        size_t n;
        assert_int_equal(tokenizer_encode(t, text, strlen(text), false, &ids, &n, &err), RADISH_OK);
        assert_int_equal(tokenizer_decode(t, ids, n, false, &out, &err), RADISH_OK);
        assert_string_equal(out.data, text);
        buf_deinit(&out);
        free(ids);
        tokenizer_destroy(t);
    }
}

static void test_control_and_user_tokens_are_cut_out_and_unused_ones_never_made(void **state) {
    struct tokenizer *t = open_pre("llama-bpe");
    (void)state;

    EXPECT(t, "<ctl>ab<usr>", false, ID_CONTROL, ID_AB, ID_USER);
    EXPECT(t, "<old>", false, '<', 'o', 'l', 'd', '>');
    assert_true(tokenizer_is_special(t, ID_CONTROL));
    assert_false(tokenizer_is_special(t, ID_USER));
    assert_true(tokenizer_has_id(t, ID_UNUSED));

    tokenizer_destroy(t);
}

static void test_bos_and_eos_are_added_as_the_file_says(void **state) {
    struct radish_error err;
    struct tokenizer *t;
    (void)state;

    struct vocab_file f = vocab_file_bytes("gpt-2");
    vocab_file_add_u32(&f, "ggml.bos_token_id", ID_CONTROL);
    vocab_file_add_u32(&f, "ggml.eos_token_id", ID_USER);
    t = vocab_file_open(&f, &err);
    assert_non_null(t);
    EXPECT(t, "a", true, 'a');
    tokenizer_destroy(t);

    f = vocab_file_bytes("gpt-2");
    vocab_file_add_u32(&f, "ggml.bos_token_id", ID_CONTROL);
    vocab_file_add_u32(&f, "ggml.eos_token_id", ID_USER);
    vocab_file_add_bool(&f, "ggml.add_bos_token", true);
    vocab_file_add_bool(&f, "ggml.add_eos_token", true);
    vocab_file_add_bool(&f, "ggml.add_space_prefix", true);
    t = vocab_file_open(&f, &err);
    assert_non_null(t);
    EXPECT(t, "a", true, ID_CONTROL, ' ', 'a', ID_USER);
    EXPECT(t, "a", false, ' ', 'a');
    tokenizer_destroy(t);

    f = vocab_file_bytes("llama-bpe"); /* adds a BOS unless told otherwise */
    vocab_file_add_u32(&f, "ggml.bos_token_id", ID_CONTROL);
    t = vocab_file_open(&f, &err);
    assert_non_null(t);
    EXPECT(t, "a", true, ID_CONTROL, 'a');
    tokenizer_destroy(t);
}

static void expect_refusal(struct vocab_file *f, enum radish_status status, const char *words) {
    struct radish_error err;
    assert_null(vocab_file_open(f, &err));
    if (err.status != status || !strstr(err.msg, words))
        fail_msg("%s: %s: wanted \"%s\"", radish_status_name(err.status), err.msg, words);
}

static void test_unknown_and_missing_names_are_refused_with_advice(void **state) {
    struct vocab_file f;
    (void)state;
    f = vocab_file_bytes("brand-new");
    expect_refusal(&f, RADISH_E_UNSUPPORTED, "\"brand-new\"");
    f = vocab_file_bytes("default");
    expect_refusal(&f, RADISH_E_UNSUPPORTED, "newer conversion");
    f = vocab_file_bytes(NULL);
    expect_refusal(&f, RADISH_E_UNSUPPORTED, "newer conversion");
    f = (struct vocab_file){0};
    vocab_file_add_str(&f, "ggml.model", "glyphs");
    expect_refusal(&f, RADISH_E_UNSUPPORTED, "(supported: gpt2, llama, t5): take");
    static const char *const kinds[] = {"bert", "rwkv", "plamo2", "gemma4", "none", "no_vocab"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        f = (struct vocab_file){0};
        vocab_file_add_str(&f, "ggml.model", kinds[i]);
        expect_refusal(&f, RADISH_E_UNSUPPORTED, kinds[i]);
    }
    f = (struct vocab_file){0};
    vocab_file_add_u32(&f, "ggml.bos_token_id", 1);
    expect_refusal(&f, RADISH_E_NOT_FOUND, "no tokenizer");
}

static void test_broken_keys_are_named(void **state) {
    static const char *const one[] = {"a"}, *const no_space[] = {"ab"};
    static const int32_t types[] = {1, 1};
    struct vocab_file f = {0};
    (void)state;
    vocab_file_add_str(&f, "ggml.model", "gpt2");
    vocab_file_add_str(&f, "ggml.pre", "gpt-2");
    expect_refusal(&f, RADISH_E_FORMAT, "tokenizer.ggml.tokens");

    f = (struct vocab_file){0};
    vocab_file_add_str(&f, "ggml.model", "gpt2");
    vocab_file_add_str(&f, "ggml.pre", "gpt-2");
    vocab_file_add_strs(&f, "ggml.tokens", one, 1);
    vocab_file_add_i32s(&f, "ggml.token_type", types, 2);
    expect_refusal(&f, RADISH_E_FORMAT, "tokenizer.ggml.token_type");

    f = (struct vocab_file){0};
    vocab_file_add_str(&f, "ggml.model", "gpt2");
    vocab_file_add_str(&f, "ggml.pre", "gpt-2");
    vocab_file_add_strs(&f, "ggml.tokens", one, 1);
    expect_refusal(&f, RADISH_E_FORMAT, "tokenizer.ggml.merges");

    f = (struct vocab_file){0};
    vocab_file_add_str(&f, "ggml.model", "gpt2");
    vocab_file_add_str(&f, "ggml.pre", "gpt-2");
    vocab_file_add_strs(&f, "ggml.tokens", one, 1);
    vocab_file_add_strs(&f, "ggml.merges", no_space, 1);
    expect_refusal(&f, RADISH_E_FORMAT, "tokenizer.ggml.merges");

    f = vocab_file_bytes("gpt-2");
    vocab_file_add_bool(&f, "ggml.add_bos_token", true);
    vocab_file_add_u32(&f, "ggml.bos_token_id", N_IDS);
    expect_refusal(&f, RADISH_E_FORMAT, "bos_token_id");

    f = (struct vocab_file){0};
    vocab_file_add_str(&f, "ggml.model", "llama");
    vocab_file_add_strs(&f, "ggml.tokens", one, 1);
    expect_refusal(&f, RADISH_E_FORMAT, "tokenizer.ggml.scores");
}

/* ---- SentencePiece: scores instead of merges */

static void test_scores_decide_which_pair_merges_first(void **state) {
    static const char *const tokens[] = {"<unk>", "<s>", "<0xC3>", "<0xA9>", "\u2581", "a",
                                         "b",     "c",   "ab",     "bc",     "\u2581a"};
    static const int32_t types[] = {2, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, 0, -9, -9, -9, -9, -3, -2, -4};
    struct radish_error err;
    struct buf out = {0};
    struct vocab_file f = {0};
    (void)state;
    vocab_file_add_str(&f, "ggml.model", "llama");
    vocab_file_add_strs(&f, "ggml.tokens", tokens, 11);
    vocab_file_add_i32s(&f, "ggml.token_type", types, 11);
    vocab_file_add_f32s(&f, "ggml.scores", scores, 11);
    vocab_file_add_u32(&f, "ggml.bos_token_id", 1);
    struct tokenizer *t = vocab_file_open(&f, &err);
    if (!t) fail_msg("%s", err.msg);

    EXPECT(t, "abc", true, 1, 10, 9); /* "bc" before "ab" before "▁a" */
    EXPECT(t, "ab a", false, 4, 8, 10);
    EXPECT(t, "\u00E9", false, 4, 2, 3); /* bytes */
    EXPECT(t, "<s>a", false, 1, 10);
    assert_int_equal(
        tokenizer_decode(t, (const int32_t[]){1, 10, 9, 2, 3, 10}, 6, true, &out, &err), RADISH_OK);
    assert_string_equal(out.data, "abc\u00E9 a");

    buf_deinit(&out);
    tokenizer_destroy(t);
}

/* Scores of a SentencePiece vocabulary from the merges that a converter made of it: a token's score
 * is minus the rank of the first merge that makes it. */
static void fill_scores(yyjson_val *model, const char *const *tokens, float *scores, size_t n) {
    yyjson_val *merges = json_get(model, "merges"), *vocab = json_get(model, "vocab"), *merge;
    size_t idx, max;
    struct vocab ids;
    assert_true(vocab_init(&ids, (uint32_t)n, (uint32_t)n));
    for (size_t i = 0; i < n; i++) {
        assert_true(vocab_put(&ids, (int32_t)i, tokens[i], strlen(tokens[i]), true));
        scores[i] = -1e9f;
    }
    yyjson_arr_foreach(merges, idx, max, merge) {
        const char *both = yyjson_get_str(merge), *space = strchr(both, ' ');
        char product[256];
        assert_non_null(space);
        snprintf(product, sizeof product, "%.*s%s", (int)(space - both), both, space + 1);
        int32_t id = vocab_find(&ids, product, strlen(product));
        assert_true(id >= 0);
        if (scores[id] < -1e8f) scores[id] = -(float)idx;
    }
    assert_int_equal(yyjson_obj_size(vocab), n);
    vocab_deinit(&ids);
}

/* A real vocabulary as GGUF has it, without merges; the golden rows are tokenizer.json's. */
static void test_a_real_sentencepiece_vocabulary_gives_the_reference_ids(void **state) {
    const char *root = conformance_folder();
    char folder[1024];
    struct vocab_file f = {0};
    struct radish_error err;
    struct golden_rows rows;
    (void)state;
    if (!root) skip();
    snprintf(folder, sizeof folder, "%s/tokenizers/llama2", root);
    yyjson_doc *doc = read_json_file(folder, "tokenizer.json");
    yyjson_doc *golden = read_json_file(folder, "golden.json");
    yyjson_val *model = json_get(yyjson_doc_get_root(doc), "model"), *key, *val;
    size_t n = yyjson_obj_size(json_get(model, "vocab")), idx, max;
    const char **tokens = calloc(n, sizeof *tokens);
    int32_t *types = calloc(n, sizeof *types);
    float *scores = calloc(n, sizeof *scores);
    assert_true(tokens && types && scores);
    yyjson_obj_foreach(json_get(model, "vocab"), idx, max, key, val) {
        size_t id = (size_t)yyjson_get_uint(val);
        assert_true(id < n);
        tokens[id] = yyjson_get_str(key);
        types[id] = id == 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1;
    }
    fill_scores(model, tokens, scores, n);
    vocab_file_add_str(&f, "ggml.model", "llama");
    vocab_file_add_strs(&f, "ggml.tokens", tokens, n);
    vocab_file_add_i32s(&f, "ggml.token_type", types, n);
    vocab_file_add_f32s(&f, "ggml.scores", scores, n);
    vocab_file_add_u32(&f, "ggml.bos_token_id", 1);
    struct tokenizer *t = vocab_file_open(&f, &err);
    if (!t) fail_msg("%s", err.msg);

    assert_int_equal(check_golden(t, yyjson_doc_get_root(golden), "llama2", false, &rows), 0);
    assert_true(rows.n_encode > 90);

    tokenizer_destroy(t);
    free(tokens);
    free(types);
    free(scores);
    yyjson_doc_free(doc);
    yyjson_doc_free(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_name_decides_how_text_is_split),
        cmocka_unit_test(test_every_known_name_opens_and_keeps_the_text),
        cmocka_unit_test(test_control_and_user_tokens_are_cut_out_and_unused_ones_never_made),
        cmocka_unit_test(test_bos_and_eos_are_added_as_the_file_says),
        cmocka_unit_test(test_unknown_and_missing_names_are_refused_with_advice),
        cmocka_unit_test(test_broken_keys_are_named),
        cmocka_unit_test(test_scores_decide_which_pair_merges_first),
        cmocka_unit_test(test_a_real_sentencepiece_vocabulary_gives_the_reference_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
