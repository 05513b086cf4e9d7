/* Streaming against decoding everything: for random tokens, with and without a prompt, the pushes
 * sum up to the same text, and each is valid UTF-8. */
#include "test.h"
#include "text_spec.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"

static struct tokenizer *make(const struct tokenizer_spec *spec) {
    struct radish_error err = {0};
    struct tokenizer *t;
    if (tokenizer_create(spec, &t, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return t;
}

static struct detok_stream *start(const struct tokenizer *t, const int32_t *prompt, size_t n,
                                  bool skip_special) {
    struct radish_error err = {0};
    struct detok_stream *s;
    if (detok_stream_create(t, prompt, n, skip_special, &s, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    return s;
}

static void decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip,
                   struct buf *out) {
    struct radish_error err = {0};
    buf_clear(out);
    if (tokenizer_decode(t, ids, n, skip, out, &err) != RADISH_OK) fail_msg("%s", err.msg);
}

static void expect_valid(const struct buf *b) {
    if (b->len) assert_int_equal(utf8_valid_prefix(b->data, b->len), b->len);
}

/* The text of ids[0..n), pushed one by one behind the prompt ids[0..n_prompt). Every push alone
 * must be whole characters. */
static void stream(const struct tokenizer *t, const int32_t *ids, size_t n_prompt, size_t n,
                   bool skip, struct buf *out) {
    struct detok_stream *s = start(t, ids, n_prompt, skip);
    struct buf piece = {0};
    buf_clear(out);
    for (size_t i = n_prompt; i <= n; i++) {
        buf_clear(&piece);
        if (i < n)
            detok_stream_push(s, ids[i], &piece);
        else
            detok_stream_finish(s, &piece);
        expect_valid(&piece);
        buf_append(out, piece.data, piece.len);
    }
    buf_deinit(&piece);
    detok_stream_destroy(s);
}

/* What decode(prompt) shows for good: without what a later token may still change. Asked of the
 * tokenizer itself by decoding the prompt with two different continuations. */
static size_t stable_len(const struct tokenizer *t, const int32_t *ids, size_t n_prompt, bool skip,
                         const int32_t probes[2]) {
    struct buf a = {0}, b = {0};
    int32_t longer[64];
    size_t len = 0;
    memcpy(longer, ids, n_prompt * sizeof *ids);
    longer[n_prompt] = probes[0];
    decode(t, longer, n_prompt + 1, skip, &a);
    longer[n_prompt] = probes[1];
    decode(t, longer, n_prompt + 1, skip, &b);
    while (len < a.len && len < b.len && a.data[len] == b.data[len]) len++;
    buf_deinit(&a);
    buf_deinit(&b);
    return len;
}

static void compare_random(const struct tokenizer *t, int32_t n_ids, uint64_t seed) {
    struct buf whole = {0}, streamed = {0};
    uint64_t at = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 4000; round++) {
        int32_t ids[60];
        size_t n = rng_u64(seed, at++) % 60;
        bool skip = rng_u64(seed, at++) % 2;
        for (size_t i = 0; i < n; i++) {
            bool is_high = rng_u64(seed, at++) % 3 == 0; /* bytes of characters: 0x80 and up */
            uint64_t r = rng_u64(seed, at++);
            ids[i] = is_high ? (int32_t)(0x80 + r % 0x80) : (int32_t)(r % (uint64_t)n_ids);
        }
        decode(t, ids, n, skip, &whole);
        stream(t, ids, 0, n, skip, &streamed);
        assert_int_equal(streamed.len, whole.len);
        if (whole.len) assert_memory_equal(streamed.data, whole.data, whole.len);
    }
    buf_deinit(&whole);
    buf_deinit(&streamed);
}

static void test_byte_level_pushes_sum_up_to_decode(void **state) {
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    compare_random(t, TOY_IDS, 11);

    tokenizer_destroy(t);
}

static void test_byte_fallback_pushes_sum_up_to_decode(void **state) {
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);

    compare_random(t, SPM_IDS, 12);

    tokenizer_destroy(t);
}

static void test_other_decoders_sum_up_to_decode(void **state) {
    struct spec_decoder metaspace[] = {
        {.kind = SPEC_DECODER_METASPACE, .content = spec_str("\u2581")}};
    struct spec_decoder stripped[] = {
        {.kind = SPEC_DECODER_BYTE_FALLBACK},
        {.kind = SPEC_DECODER_REPLACE,
         .pattern = {spec_str("[ab]"), true},
         .content = spec_str("xy")},
        {.kind = SPEC_DECODER_FUSE},
        {.kind = SPEC_DECODER_STRIP, .content = spec_str("c"), .n_start = 2, .n_stop = 3}};
    struct spm spm;
    (void)state;
    spm_init(&spm);
    for (int i = 0; i < 3; i++) {
        spm.spec.decoders = i == 1 ? metaspace : stripped;
        spm.spec.n_decoders = i == 0 ? 0 : i == 1 ? 1 : 4;
        struct tokenizer *t = make(&spm.spec);
        compare_random(t, SPM_IDS, 13 + (uint64_t)i);
        tokenizer_destroy(t);
    }
}

static void test_output_continues_where_the_prompt_ends(void **state) {
    const int32_t probes[2] = {'q', 'z'};
    struct buf whole = {0}, streamed = {0};
    uint64_t seed = 21, at = 0;
    struct toy toy;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);
    for (int round = 0; round < 4000; round++) {
        int32_t ids[40];
        size_t n = 1 + rng_u64(seed, at++) % 39, n_prompt = rng_u64(seed, at++) % n;
        for (size_t i = 0; i < n; i++)
            ids[i] =
                (int32_t)(rng_u64(seed, at++) % (round % 2 ? TOY_IDS : 4) + (round % 2 ? 0 : 0xE1));
        ids[n_prompt ? n_prompt - 1 : 0] = 'x'; /* a prompt that ends with a whole character */
        decode(t, ids, n, false, &whole);
        stream(t, ids, n_prompt, n, false, &streamed);
        size_t before = stable_len(t, ids, n_prompt, false, probes);
        assert_int_equal(streamed.len, whole.len - before);
        if (streamed.len) assert_memory_equal(streamed.data, whole.data + before, streamed.len);
    }
    buf_deinit(&whole);
    buf_deinit(&streamed);
    tokenizer_destroy(t);
}

static void test_a_character_that_the_prompt_began_is_given_whole(void **state) {
    const int32_t prompt[] = {'a', 0xE2, 0x82};
    struct buf out = {0};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    struct detok_stream *s = start(t, prompt, 3, false);
    detok_stream_push(s, 0xAC, &out);
    assert_string_equal(out.data, "\u20AC");
    detok_stream_push(s, 0xE2, &out);
    detok_stream_push(s, 'b', &out);
    assert_string_equal(out.data, "\u20AC\uFFFDb");

    detok_stream_destroy(s);
    tokenizer_destroy(t);
    buf_deinit(&out);
}

static void test_the_first_space_goes_only_at_the_start_of_the_text(void **state) {
    const int32_t prompt[] = {1, SPM_A + 6};
    struct buf out = {0};
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);

    struct detok_stream *s = start(t, NULL, 0, true);
    detok_stream_push(s, SPM_A + 6, &out);
    assert_string_equal(out.data, "a");
    detok_stream_destroy(s);

    buf_clear(&out);
    s = start(t, prompt, 2, true);
    detok_stream_push(s, SPM_A + 6, &out);
    assert_string_equal(out.data, " a");
    detok_stream_destroy(s);

    tokenizer_destroy(t);
    buf_deinit(&out);
}

static void test_special_tokens_are_left_out_when_asked(void **state) {
    struct buf out = {0};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    struct detok_stream *s = start(t, NULL, 0, true);
    detok_stream_push(s, 0xC3, &out);
    detok_stream_push(s, TOY_END, &out);
    detok_stream_push(s, 0xA9, &out);
    detok_stream_push(s, TOY_TOOL, &out);
    detok_stream_push(s, 9999, &out); /* unknown: nothing */
    assert_string_equal(out.data, "\u00E9<tool>");
    detok_stream_destroy(s);

    buf_clear(&out);
    s = start(t, NULL, 0, false);
    detok_stream_push(s, TOY_END, &out);
    assert_string_equal(out.data, "<|end|>");
    detok_stream_destroy(s);

    tokenizer_destroy(t);
    buf_deinit(&out);
}

static void test_a_long_run_of_byte_tokens_is_not_held_forever(void **state) {
    struct buf out = {0};
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);
    struct detok_stream *s = start(t, NULL, 0, false);

    for (int i = 0; i < 3000; i++) {
        detok_stream_push(s, SPM_BYTE + 0xC3, &out);
        detok_stream_push(s, SPM_BYTE + 0xA9, &out);
    }
    assert_true(out.len > 3000);
    detok_stream_finish(s, &out);
    assert_int_equal(out.len, 6000);
    expect_valid(&out);

    detok_stream_destroy(s);
    tokenizer_destroy(t);
    buf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level_pushes_sum_up_to_decode),
        cmocka_unit_test(test_byte_fallback_pushes_sum_up_to_decode),
        cmocka_unit_test(test_other_decoders_sum_up_to_decode),
        cmocka_unit_test(test_output_continues_where_the_prompt_ends),
        cmocka_unit_test(test_a_character_that_the_prompt_began_is_given_whole),
        cmocka_unit_test(test_the_first_space_goes_only_at_the_start_of_the_text),
        cmocka_unit_test(test_special_tokens_are_left_out_when_asked),
        cmocka_unit_test(test_a_long_run_of_byte_tokens_is_not_held_forever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
