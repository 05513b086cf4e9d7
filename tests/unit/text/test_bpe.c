/* Merging against the rule itself: of all neighbours the pair of lowest rank, leftmost first. */
#include "test.h"
#include "text_spec.h"

#include "base/rng.h"
#include "text/bpe.h"

static struct token_model *make(const struct tokenizer_spec *spec, bool is_byte_level) {
    struct radish_error err = {0};
    struct token_model *bpe;
    if (bpe_ops.create(spec, is_byte_level, &bpe, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return bpe;
}

static void expect_ids(const struct token_model *bpe, const char *text, size_t len,
                       const int32_t *ids, size_t n) {
    struct token_scratch scratch = {0};
    struct id_list list = {0};
    assert_true(bpe_ops.encode(bpe, text, len, &scratch, &list));
    assert_int_equal(list.n, n);
    if (n) assert_memory_equal(list.ids, ids, n * sizeof *ids);
    free(list.ids);
    free(scratch.memory);
}

#define EXPECT(bpe, text, ...)                                                                     \
    do {                                                                                           \
        const int32_t ids_[] = {__VA_ARGS__};                                                      \
        expect_ids(bpe, text, sizeof(text) - 1, ids_, sizeof ids_ / sizeof *ids_);                 \
    } while (0)

/* The oracle: strings only, O(n^2). */
static size_t merge_slowly(const struct toy *toy, const char *text, size_t len, int32_t *ids) {
    for (size_t i = 0; i < len; i++) ids[i] = (unsigned char)text[i];
    for (;;) {
        size_t best_at = SIZE_MAX;
        int best = TOY_MERGES;
        for (size_t i = 0; i + 1 < len; i++)
            for (int m = 0; m < best; m++)
                if (strcmp(toy->text[ids[i]], toy->merges[m].left.data) == 0 &&
                    strcmp(toy->text[ids[i + 1]], toy->merges[m].right.data) == 0) {
                    best = m;
                    best_at = i;
                }
        if (best_at == SIZE_MAX) return len;
        ids[best_at] = 256 + best;
        memmove(ids + best_at + 1, ids + best_at + 2, (len - best_at - 2) * sizeof *ids);
        len--;
    }
}

static void test_lowest_rank_merges_first(void **state) {
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct token_model *bpe = make(&toy.spec, true);

    EXPECT(bpe, "the", 258);
    EXPECT(bpe, " the", ' ', 258); /* "th" has rank 0 and takes the t before " t" can */
    EXPECT(bpe, "hello", 264);
    EXPECT(bpe, "\xE2\x82\xAC", 267);
    EXPECT(bpe, "\xE2\x82", 266);

    bpe_ops.destroy(bpe);
}

static void test_short_and_long_pieces_follow_the_same_rule(void **state) {
    static const char alphabet[] = "the lo\xE2\x82\xAC";
    static char text[4000];
    static int32_t want[4000];
    struct toy toy;
    uint64_t seed = 20261129, counter = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    toy_init(&toy);
    struct token_model *bpe = make(&toy.spec, true);

    for (int round = 0; round < 300; round++) {
        size_t limit = round < 250 ? 120 : sizeof text;
        size_t len = (size_t)(rng_u64(seed, counter++) % limit);
        for (size_t i = 0; i < len; i++)
            text[i] = alphabet[rng_u64(seed, counter++) % (sizeof alphabet - 1)];
        size_t n = merge_slowly(&toy, text, len, want);
        expect_ids(bpe, text, len, want, n);
    }

    bpe_ops.destroy(bpe);
}

static void test_a_million_equal_bytes_take_no_quadratic_time(void **state) {
    const size_t len = 1000000;
    struct token_scratch scratch = {0};
    struct id_list list = {0};
    struct toy toy;
    (void)state;
    toy_init(&toy);
    struct token_model *bpe = make(&toy.spec, true);
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);

    assert_true(bpe_ops.encode(bpe, text, len, &scratch, &list));

    assert_int_equal(list.n, len / 2);
    assert_int_equal(list.ids[len / 2 - 1], 265);
    free(list.ids);
    free(scratch.memory);
    free(text);
    bpe_ops.destroy(bpe);
}

static void test_whole_pieces_skip_the_merges_when_told(void **state) {
    struct toy toy;
    (void)state;
    toy_init(&toy);
    toy.spec.n_merges = 3;
    struct token_model *plain = make(&toy.spec, true);
    toy.spec.ignores_merges = true;
    struct token_model *whole = make(&toy.spec, true);

    EXPECT(plain, "hello", 'h', 'e', 'l', 'l', 'o');
    EXPECT(whole, "hello", 264);
    EXPECT(whole, "hellot", 'h', 'e', 'l', 'l', 'o', 't');

    bpe_ops.destroy(plain);
    bpe_ops.destroy(whole);
}

static void test_hidden_tokens_are_never_made(void **state) {
    struct toy toy;
    (void)state;
    toy_init(&toy);
    toy.spec.n_merges = 8;
    toy.spec.ignores_merges = true;
    toy.tokens[264].is_hidden = true;
    struct token_model *bpe = make(&toy.spec, true);

    EXPECT(bpe, "hello", 263, 'o');

    bpe_ops.destroy(bpe);
}

static void test_unknown_characters_become_bytes_or_one_unknown_token(void **state) {
    struct spm spm;
    (void)state;
    spm_init(&spm);
    struct token_model *bytes = make(&spm.spec, false);
    spm.spec.has_byte_fallback = false;
    struct token_model *fused = make(&spm.spec, false);
    spm.spec.fuses_unk = false;
    struct token_model *single = make(&spm.spec, false);
    spm.spec.unk = (struct spec_str){0};
    struct token_model *dropping = make(&spm.spec, false);

    EXPECT(bytes, "a\xC3\xA9", SPM_A, SPM_BYTE + 0xC3, SPM_BYTE + 0xA9);
    EXPECT(fused, "xyaz", 0, SPM_A, 0);
    EXPECT(single, "xyaz", 0, 0, SPM_A, 0);
    EXPECT(dropping, "xyaz", SPM_A);

    bpe_ops.destroy(bytes);
    bpe_ops.destroy(fused);
    bpe_ops.destroy(single);
    bpe_ops.destroy(dropping);
}

static void test_subword_prefix_and_word_suffix_are_part_of_the_token(void **state) {
    struct spec_token tokens[] = {
        {.content = spec_str("a"), .id = 0},    {.content = spec_str("##b"), .id = 1},
        {.content = spec_str("ab"), .id = 2},   {.content = spec_str("c</w>"), .id = 3},
        {.content = spec_str("b"), .id = 4},    {.content = spec_str("bc</w>"), .id = 5},
        {.content = spec_str("a</w>"), .id = 6}};
    struct spec_merge with_prefix[] = {{spec_str("a"), spec_str("##b")}};
    struct spec_merge with_suffix[] = {{spec_str("b"), spec_str("c</w>")}};
    struct tokenizer_spec spec = {.tokens = tokens, .n_tokens = 7, .n_merges = 1};
    (void)state;
    spec.merges = with_prefix;
    spec.prefix = spec_str("##");
    struct token_model *prefix = make(&spec, false);
    spec.merges = with_suffix;
    spec.prefix = (struct spec_str){0};
    spec.suffix = spec_str("</w>");
    struct token_model *suffix = make(&spec, false);

    EXPECT(prefix, "ab", 2);
    EXPECT(prefix, "bb", 4, 1);
    EXPECT(suffix, "abc", 0, 5);
    EXPECT(suffix, "a", 6);

    bpe_ops.destroy(prefix);
    bpe_ops.destroy(suffix);
}

static void test_merges_of_missing_tokens_are_refused(void **state) {
    struct radish_error err = {0};
    struct token_model *bpe;
    struct toy toy;
    (void)state;
    toy_init(&toy);

    toy.merges[3].left = spec_str("nope");
    assert_int_equal(bpe_ops.create(&toy.spec, true, &bpe, &err), RADISH_E_FORMAT);
    assert_null(bpe);
    assert_non_null(strstr(err.msg, "merge 3"));

    toy_init(&toy);
    toy.spec.n_tokens = 260; /* the products of later merges are gone */
    assert_int_equal(bpe_ops.create(&toy.spec, true, &bpe, &err), RADISH_E_FORMAT);

    toy_init(&toy);
    toy.spec.unk = spec_str("<missing>");
    assert_int_equal(bpe_ops.create(&toy.spec, true, &bpe, &err), RADISH_E_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_rank_merges_first),
        cmocka_unit_test(test_short_and_long_pieces_follow_the_same_rule),
        cmocka_unit_test(test_a_million_equal_bytes_take_no_quadratic_time),
        cmocka_unit_test(test_whole_pieces_skip_the_merges_when_told),
        cmocka_unit_test(test_hidden_tokens_are_never_made),
        cmocka_unit_test(test_unknown_characters_become_bytes_or_one_unknown_token),
        cmocka_unit_test(test_subword_prefix_and_word_suffix_are_part_of_the_token),
        cmocka_unit_test(test_merges_of_missing_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
