/* The whole pipeline on small vocabularies: encoding, decoding, the questions one can ask, faults,
 * and running out of memory at any allocation. */
#include "alloc_fail.h"
#include "test.h"
#include "text_spec.h"

#include "base/buf.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"

static struct tokenizer *make(const struct tokenizer_spec *spec) {
    struct radish_error err = {0};
    struct tokenizer *t;
    if (tokenizer_create(spec, &t, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return t;
}

static void expect_ids(const struct tokenizer *t, const char *text, bool add_special,
                       const int32_t *want, size_t n_want) {
    struct radish_error err = {0};
    int32_t *ids;
    size_t n;
    assert_int_equal(tokenizer_encode(t, text, strlen(text), add_special, &ids, &n, &err),
                     RADISH_OK);
    assert_non_null(ids);
    assert_int_equal(n, n_want);
    if (n) assert_memory_equal(ids, want, n * sizeof *ids);
    free(ids);
}

#define EXPECT(t, text, add_special, ...)                                                          \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(t, text, add_special, ids_, sizeof ids_ / sizeof *ids_);                        \
    } while (0)

static void expect_text(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip,
                        const char *want) {
    struct radish_error err = {0};
    struct buf out = {0};
    buf_append_str(&out, ">");
    assert_int_equal(tokenizer_decode(t, ids, n, skip, &out, &err), RADISH_OK);
    assert_string_equal(out.data + 1, want);
    buf_deinit(&out);
}

static void test_text_goes_through_all_stages(void **state) {
    const int32_t bos[] = {TOY_END}, eos[] = {'!', '?'};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    toy.spec.prefix_ids = bos;
    toy.spec.n_prefix_ids = 1;
    toy.spec.suffix_ids = eos;
    toy.spec.n_suffix_ids = 2;
    struct tokenizer *t = make(&toy.spec);

    EXPECT(t, "hello<|end|> the", false, 264, TOY_END, ' ', 258);
    EXPECT(t, "hello", true, TOY_END, 264, '!', '?');
    EXPECT(t, "\u20AC<tool>", false, 267, TOY_TOOL);
    expect_ids(t, "", false, NULL, 0);

    tokenizer_destroy(t);
}

static void test_decoding_skips_special_tokens_only_when_asked(void **state) {
    const int32_t ids[] = {264, TOY_END, 0xE2, TOY_TOOL, 0x82};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    expect_text(t, ids, 5, false, "hello<|end|>\uFFFD<tool>\uFFFD");
    expect_text(t, ids, 5, true, "hello\uFFFD<tool>\uFFFD");
    expect_text(t, ids, 0, false, "");

    tokenizer_destroy(t);
}

static void test_a_run_of_byte_tokens_is_text_only_as_a_whole(void **state) {
    const int32_t good[] = {SPM_A + 6, SPM_BYTE + 0xC3, SPM_BYTE + 0xA9, SPM_A};
    const int32_t bad[] = {SPM_BYTE + 0xC3, SPM_BYTE + 0xA9, SPM_BYTE + 0xFF, SPM_A + 6};
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);

    expect_text(t, good, 4, false, "a\u00E9a");
    expect_text(t, bad, 4, false, "\uFFFD\uFFFD\uFFFD a");
    EXPECT(t, "ab a", false, SPM_MARK, SPM_A + 5, SPM_A + 6);

    tokenizer_destroy(t);
}

static void test_tokens_answer_questions(void **state) {
    struct toy toy;
    size_t len;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    assert_int_equal(tokenizer_n_tokens(t), TOY_IDS);
    assert_true(tokenizer_has_id(t, TOY_TOOL));
    assert_false(tokenizer_has_id(t, TOY_IDS));
    assert_false(tokenizer_has_id(t, -1));
    assert_true(tokenizer_is_special(t, TOY_END));
    assert_false(tokenizer_is_special(t, TOY_TOOL));
    assert_false(tokenizer_is_special(t, TOY_IDS));
    assert_int_equal(tokenizer_find(t, "<|end|>", 7), TOY_END);
    assert_int_equal(tokenizer_find(t, "\u0120t", 3), 257);
    assert_int_equal(tokenizer_find(t, "nothing", 7), -1);
    assert_string_equal(tokenizer_content(t, 257, &len), "\u0120t");
    assert_string_equal(tokenizer_token_bytes(t, 257, &len), " t");
    assert_int_equal(len, 2);
    assert_memory_equal(tokenizer_token_bytes(t, 0xFF, &len), "\xFF", 1);
    assert_string_equal(tokenizer_token_bytes(t, TOY_END, &len), "<|end|>");
    assert_null(tokenizer_token_bytes(t, TOY_IDS, &len));
    assert_null(tokenizer_content(t, -5, &len));

    tokenizer_destroy(t);
}

static void test_token_bytes_are_those_of_running_text(void **state) {
    struct spm spm;
    size_t len;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);

    assert_string_equal(tokenizer_token_bytes(t, SPM_A + 6, &len), " a");
    assert_memory_equal(tokenizer_token_bytes(t, SPM_BYTE + 0xC3, &len), "\xC3", 1);
    assert_int_equal(len, 1);

    tokenizer_destroy(t);
}

static void test_text_that_is_no_utf8_is_refused_with_its_place(void **state) {
    struct radish_error err = {0};
    struct toy toy;
    int32_t *ids;
    size_t n;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    assert_int_equal(tokenizer_encode(t, "ab\xFFz", 4, false, &ids, &n, &err), RADISH_E_INVALID);
    assert_null(ids);
    assert_int_equal(err.offset, 2);

    tokenizer_destroy(t);
}

static void test_an_unknown_id_is_refused_and_adds_no_text(void **state) {
    const int32_t ids[] = {264, TOY_IDS};
    struct radish_error err = {0};
    struct buf out = {0};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);
    buf_append_str(&out, "x");

    assert_int_equal(tokenizer_decode(t, ids, 2, false, &out, &err), RADISH_E_INVALID);
    assert_string_equal(out.data, "x");

    buf_deinit(&out);
    tokenizer_destroy(t);
}

static void expect_refusal(const struct tokenizer_spec *spec, enum radish_status status,
                           const char *words) {
    struct radish_error err = {0};
    struct tokenizer *t;
    assert_int_equal(tokenizer_create(spec, &t, &err), status);
    assert_null(t);
    if (!strstr(err.msg, words)) fail_msg("%s: wanted \"%s\"", err.msg, words);
}

static void test_faulty_specs_are_refused(void **state) {
    const int32_t missing[] = {TOY_IDS};
    struct spec_decoder late[] = {{.kind = SPEC_DECODER_FUSE},
                                  {.kind = SPEC_DECODER_REPLACE,
                                   .pattern = {spec_str("ab"), false},
                                   .content = spec_str("c")}};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    toy.tokens[7].content = spec_str("\xFF");
    expect_refusal(&toy.spec, RADISH_E_FORMAT, "token 7");
    toy_init(&toy);
    toy.tokens[7].id = SPEC_TOKENS_MAX;
    expect_refusal(&toy.spec, RADISH_E_FORMAT, "ids are 0 to");
    toy_init(&toy);
    toy.spec.n_tokens = 0;
    expect_refusal(&toy.spec, RADISH_E_FORMAT, "empty");
    toy_init(&toy);
    toy.spec.prefix_ids = missing;
    toy.spec.n_prefix_ids = 1;
    expect_refusal(&toy.spec, RADISH_E_FORMAT, "does not exist");
    toy_init(&toy);
    toy.spec.decoders = late;
    toy.spec.n_decoders = 2;
    expect_refusal(&toy.spec, RADISH_E_UNSUPPORTED, "Replace");
}

/* ---- out of memory */

static bool is_done(enum radish_status status) {
    if (status != RADISH_OK) assert_int_equal(status, RADISH_E_NOMEM);
    return status == RADISH_OK;
}

static bool create(void *user) {
    struct radish_error err;
    struct tokenizer *t;
    bool done = is_done(tokenizer_create(user, &t, &err));
    tokenizer_destroy(t);
    return done;
}

static bool encode(void *user) {
    static const char text[] = "hello the e\u0301\u20AC<tool> and a word that is long enough";
    struct radish_error err;
    int32_t *ids;
    size_t n;
    bool done = is_done(tokenizer_encode(user, text, sizeof text - 1, true, &ids, &n, &err));
    free(ids);
    return done;
}

static bool stream(void *user) {
    const int32_t prompt[] = {'a', 0xE2};
    struct radish_error err;
    struct detok_stream *s;
    struct buf out = {0};
    bool done = is_done(detok_stream_create(user, prompt, 2, false, &s, &err));
    if (done) {
        detok_stream_push(s, 0x82, &out);
        detok_stream_push(s, 0xAC, &out);
        detok_stream_finish(s, &out);
        done = !out.failed;
        if (done) assert_string_equal(out.data, "\u20AC");
    }
    buf_deinit(&out);
    detok_stream_destroy(s);
    return done;
}

static void test_running_out_of_memory_anywhere_is_reported_and_leaks_nothing(void **state) {
    struct spec_normalizer nfc = {.kind = SPEC_NORMALIZER_NFC};
    struct toy toy;
    (void)state;
    if (!alloc_fail_can()) skip();
    toy_init(&toy);
    toy.spec.normalizers = &nfc;
    toy.spec.n_normalizers = 1;

    assert_true(alloc_fail_each(create, &toy.spec) > 20);
    struct tokenizer *t = make(&toy.spec);
    assert_true(alloc_fail_each(encode, t) > 4);
    assert_true(alloc_fail_each(stream, t) >= 2);
    tokenizer_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_goes_through_all_stages),
        cmocka_unit_test(test_decoding_skips_special_tokens_only_when_asked),
        cmocka_unit_test(test_a_run_of_byte_tokens_is_text_only_as_a_whole),
        cmocka_unit_test(test_tokens_answer_questions),
        cmocka_unit_test(test_token_bytes_are_those_of_running_text),
        cmocka_unit_test(test_text_that_is_no_utf8_is_refused_with_its_place),
        cmocka_unit_test(test_an_unknown_id_is_refused_and_adds_no_text),
        cmocka_unit_test(test_faulty_specs_are_refused),
        cmocka_unit_test(test_running_out_of_memory_anywhere_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
