/* Streaming against decoding everything: for random tokens behind random prompts, through every
 * kind of decoder and random chains of them, the pushes sum up to the text that decode() gives but
 * for what the prompt has shown, and each is valid UTF-8. */
#include "alloc_fail.h"
#include "stream_check.h"
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

static void expect_valid(const struct buf *b) {
    if (b->len) assert_int_equal(utf8_valid_prefix(b->data, b->len), b->len);
}

static void test_byte_level_streams_are_decode_minus_the_prompt(void **state) {
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct tokenizer *t = make(&toy.spec);

    printf("seed 11\n");
    stream_check_random(t, 11, 6000, 60);

    tokenizer_destroy(t);
}

static void test_byte_fallback_streams_are_decode_minus_the_prompt(void **state) {
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct tokenizer *t = make(&spm.spec);

    printf("seed 12\n");
    stream_check_random(t, 12, 6000, 60);
    stream_check_random(t, 13, 4, 20000);

    tokenizer_destroy(t);
}

/* ---- chains */

/* A vocabulary with what decoders look for: byte tokens, marks of all families, punctuation that a
 * cleanup pulls to the left, letters of one to four bytes. */
enum { MIXED_BYTES = 256, MIXED_WORDS = 34, MIXED_IDS = MIXED_BYTES + MIXED_WORDS };
static const char *const mixed_words[MIXED_WORDS] = {
    "a",      "b",          "ab",  "c",   "aab",    "x",       "xy",           "\u00E9",
    "\u20AC", "\U0001F600", "##a", "##b", "##",     "#",       "a</w>",        "b</w>",
    "</w>",   "<pad>",      "|",   "a|b", "\u2581", "\u2581a", "\u2581\u2581", "a\u2581",
    " ",      "  a",        ".",   "?",   "'",      "n't",     "'s",           " do not",
    "\uFFFD", "\u0120a"};

struct mixed {
    struct tokenizer_spec spec;
    struct spec_token tokens[MIXED_IDS];
    struct spec_added added[3];
    char bytes[MIXED_BYTES][8];
};

static void mixed_init(struct mixed *mixed) {
    *mixed = (struct mixed){0};
    for (int32_t i = 0; i < MIXED_IDS; i++) {
        struct spec_token *token = &mixed->tokens[i];
        token->id = i;
        if (i < MIXED_BYTES) snprintf(mixed->bytes[i], 8, "<0x%02X>", (unsigned)i);
        token->content = spec_str(i < MIXED_BYTES ? mixed->bytes[i] : mixed_words[i - MIXED_BYTES]);
    }
    mixed->added[0] =
        (struct spec_added){.content = spec_str("<s>"), .id = MIXED_IDS, .is_special = true};
    mixed->added[1] = (struct spec_added){.content = spec_str("<pad>"), .id = MIXED_BYTES + 17};
    mixed->added[2] = (struct spec_added){.content = spec_str(" tool "), .id = MIXED_IDS + 1};
    mixed->spec = (struct tokenizer_spec){
        .tokens = mixed->tokens, .n_tokens = MIXED_IDS, .added = mixed->added, .n_added = 3};
}

static uint64_t roll(uint64_t seed, uint64_t *at, uint64_t n) {
    return rng_u64(seed, (*at)++) % n;
}

/* A step of a kind with parameters at random. */
static struct spec_decoder draw_step(enum spec_decoder_kind kind, uint64_t seed, uint64_t *at) {
    static const char *const chars[] = {"a", " ", "\u2581", "\u20AC"};
    static const char *const literals[] = {"a", "\u2581", "ab", "<0x41>"};
    static const char *const regexes[] = {"[ab]", "b+", "^ ", "a*"};
    static const char *const contents[] = {"", " ", "xy", "\u20AC"};
    struct spec_decoder step = {.kind = kind};
    step.n_start = (uint32_t)roll(seed, at, 3);
    step.n_stop = (uint32_t)roll(seed, at, 4);
    step.prepend = (enum spec_prepend)roll(seed, at, 3);
    step.cleans_up = roll(seed, at, 2);
    step.content = spec_str(chars[roll(seed, at, 4)]);
    step.delimiter = spec_str(chars[roll(seed, at, 4)]);
    if (kind == SPEC_DECODER_REPLACE) {
        step.pattern.is_regex = roll(seed, at, 2);
        const char *const *from = step.pattern.is_regex ? regexes : literals;
        step.pattern.text = spec_str(from[roll(seed, at, 4)]);
        step.content = spec_str(contents[roll(seed, at, 4)]);
    } else if (kind == SPEC_DECODER_WORDPIECE) {
        step.content = spec_str(roll(seed, at, 4) ? "##" : contents[roll(seed, at, 4)]);
    } else if (kind == SPEC_DECODER_BPE) {
        step.content = spec_str(roll(seed, at, 4) ? "</w>" : contents[roll(seed, at, 4)]);
    } else if (kind == SPEC_DECODER_CTC) {
        step.content = spec_str(roll(seed, at, 4) ? "<pad>" : contents[roll(seed, at, 4)]);
        if (roll(seed, at, 4)) step.delimiter = spec_str("|");
    }
    return step;
}

static void check_chain(struct mixed *mixed, const struct spec_decoder *steps, uint32_t n,
                        uint64_t seed, int rounds, unsigned used[SPEC_DECODER_COUNT]) {
    struct radish_error err = {0};
    struct tokenizer *t;
    mixed->spec.decoders = steps;
    mixed->spec.n_decoders = n;
    enum radish_status status = tokenizer_create(&mixed->spec, &t, &err);
    if (status == RADISH_E_UNSUPPORTED || status == RADISH_E_FORMAT) return; /* refused: fine */
    if (status != RADISH_OK) fail_msg("%s", err.msg);
    stream_check_random(t, seed, rounds, 40);
    tokenizer_destroy(t);
    for (uint32_t i = 0; i < n; i++) used[steps[i].kind]++;
}

static void test_every_kind_of_decoder_alone_and_in_random_chains(void **state) {
    static const char *const names[] = {
#define SPEC_NAME(suffix, name) [SPEC_DECODER_##suffix] = name,
        SPEC_DECODER_TABLE(SPEC_NAME)
#undef SPEC_NAME
    };
    unsigned used[SPEC_DECODER_COUNT] = {0};
    uint64_t seed = 31, at = 0;
    struct mixed mixed;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    mixed_init(&mixed);

    check_chain(&mixed, NULL, 0, seed, 2000, used);
    for (int i = 0; i < 3 * SPEC_DECODER_COUNT; i++) {
        enum spec_decoder_kind kind = (enum spec_decoder_kind)(i % SPEC_DECODER_COUNT);
        struct spec_decoder step = draw_step(kind, seed, &at);
        check_chain(&mixed, &step, 1, seed + 1, 300, used);
    }
    for (int i = 0; i < 600; i++) {
        struct spec_decoder steps[4];
        uint32_t n = 2 + (uint32_t)roll(seed, &at, 3);
        for (uint32_t k = 0; k < n; k++)
            steps[k] =
                draw_step((enum spec_decoder_kind)roll(seed, &at, SPEC_DECODER_COUNT), seed, &at);
        check_chain(&mixed, steps, n, seed + 2 + (uint64_t)i, 20, used);
    }

    for (int kind = 0; kind < SPEC_DECODER_COUNT; kind++) {
        printf("%s: in %u chains\n", names[kind], used[kind]);
        assert_true(used[kind] >= 20);
    }
}

/* ---- what "minus" means where the end of a text is decoded otherwise than its middle */

static void test_what_the_prompt_has_shown_is_not_shown_again(void **state) {
    const int32_t half[] = {'a', 0xE2, 0x82};
    const int32_t run[] = {SPM_A, SPM_BYTE + 0xC3, SPM_BYTE + 0xA9};
    struct buf out = {0};
    struct toy toy;
    struct spm spm;
    (void)state;
    toy_init(&toy);
    spm_init(&spm);

    /* "a<U+FFFD>" is decode(prompt), and the output does not change it. */
    struct tokenizer *t = make(&toy.spec);
    struct detok_stream *s = start(t, half, 3, false);
    detok_stream_push(s, 'b', &out);
    detok_stream_finish(s, &out);
    assert_string_equal(out.data, "b");
    detok_stream_destroy(s);

    buf_clear(&out);
    s = start(t, half, 3, false);
    detok_stream_finish(s, &out);
    assert_int_equal(out.len, 0);
    detok_stream_destroy(s);
    tokenizer_destroy(t);

    /* A run of byte tokens that was text, is still text, and is not text any more. */
    t = make(&spm.spec);
    s = start(t, run, 3, false);
    detok_stream_push(s, SPM_A, &out);
    assert_string_equal(out.data, "a");
    detok_stream_destroy(s);

    buf_clear(&out);
    s = start(t, run, 3, false);
    detok_stream_push(s, SPM_BYTE + 'x', &out);
    detok_stream_finish(s, &out);
    assert_string_equal(out.data, "x");
    detok_stream_destroy(s);

    buf_clear(&out);
    s = start(t, run, 3, false);
    detok_stream_push(s, SPM_BYTE + 0xFF, &out);
    assert_string_equal(out.data, "\uFFFD\uFFFD\uFFFD");
    detok_stream_push(s, SPM_BYTE + 'x', &out);
    assert_string_equal(out.data, "\uFFFD\uFFFD\uFFFD\uFFFD");
    detok_stream_destroy(s);

    tokenizer_destroy(t);
    buf_deinit(&out);
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

    /* Those that are to be shown are, and no others. */
    buf_clear(&out);
    s = start(t, NULL, 0, true);
    detok_stream_show(s, (const int32_t[]){TOY_TOOL, TOY_END}, 2);
    detok_stream_push(s, TOY_END, &out);
    detok_stream_push(s, 0xC3, &out);
    detok_stream_push(s, 0xA9, &out);
    assert_string_equal(out.data, "<|end|>\u00E9");
    detok_stream_show(s, (const int32_t[]){TOY_TOOL}, 1);
    detok_stream_push(s, TOY_END, &out);
    assert_string_equal(out.data, "<|end|>\u00E9");
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

static void test_pushes_allocate_nothing_whatever_the_decoder(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    const struct spec_decoder decoders[] = {
        {.kind = SPEC_DECODER_BYTE_FALLBACK},
        {.kind = SPEC_DECODER_METASPACE, .content = spec_str("\u2581")},
        {.kind = SPEC_DECODER_WORDPIECE, .content = spec_str("##"), .cleans_up = true},
        {.kind = SPEC_DECODER_BPE, .content = spec_str("</w>")},
        {.kind = SPEC_DECODER_CTC,
         .content = spec_str("a"),
         .delimiter = spec_str("|"),
         .cleans_up = true},
    };
    for (size_t d = 0; d < sizeof decoders / sizeof *decoders; d++) {
        struct spm spm;
        struct buf out = {0};
        spm_init(&spm);
        spm.spec.decoders = &decoders[d];
        spm.spec.n_decoders = 1;
        struct tokenizer *t = make(&spm.spec);
        struct detok_stream *s = start(t, NULL, 0, false); /* a prompt would warm it up */
        assert_true(buf_reserve(&out, 1 << 16));

        alloc_fail_count = 0;
        alloc_fail_at = SIZE_MAX;
        for (uint64_t i = 0; i < 2000; i++)
            detok_stream_push(s, (int32_t)(rng_u64(d, i) % SPM_IDS), &out);
        detok_stream_finish(s, &out);
        alloc_fail_at = 0;

        if (alloc_fail_count) fail_msg("decoder %zu: %zu allocations", d, alloc_fail_count);
        assert_true(out.len > 500);
        detok_stream_destroy(s);
        tokenizer_destroy(t);
        buf_deinit(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level_streams_are_decode_minus_the_prompt),
        cmocka_unit_test(test_byte_fallback_streams_are_decode_minus_the_prompt),
        cmocka_unit_test(test_every_kind_of_decoder_alone_and_in_random_chains),
        cmocka_unit_test(test_what_the_prompt_has_shown_is_not_shown_again),
        cmocka_unit_test(test_a_character_that_the_prompt_began_is_given_whole),
        cmocka_unit_test(test_the_first_space_goes_only_at_the_start_of_the_text),
        cmocka_unit_test(test_special_tokens_are_left_out_when_asked),
        cmocka_unit_test(test_a_long_run_of_byte_tokens_is_not_held_forever),
        cmocka_unit_test(test_pushes_allocate_nothing_whatever_the_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
