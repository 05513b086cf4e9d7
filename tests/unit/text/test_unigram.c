/* Unigram: the best path against trying all of them, unknown text, both kinds of arithmetic, cost
 * counted in steps, refusals, and running out of memory. */
#include "alloc_fail.h"
#include "text_scored.h"

#include "base/rng.h"
#include "text/unigram.h"

#include <math.h>

/* Token 0 is "<unk>". */
static void begin(struct scored *v) {
    scored_init(v, SPEC_MODEL_UNIGRAM);
    v->spec.unk_score = -20;
    scored_add(v, "<unk>", 0);
}

static void test_the_most_probable_path_wins_and_of_equals_the_longer_last_token(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -1);
    scored_add(&v, "b", -1);
    scored_add(&v, "ab", -1.5);
    scored_add(&v, "bb", -2);
    scored_expect_ids(&v, "", NULL, 0);
    SCORED_EXPECT(&v, "ab", 3);
    SCORED_EXPECT(&v, "abb", 3, 2);
    SCORED_EXPECT(&v, "bb", 4); /* -2 either way: the one that starts earlier was there first */
    SCORED_EXPECT(&v, "a", 1);
    v.tokens[4].is_hidden = true;
    SCORED_EXPECT(&v, "bb", 2, 2);
}

static void test_unknown_neighbours_are_one_token_and_their_text_is_looked_up(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -1);
    scored_add(&v, "xy", -100); /* worse than two unknown characters */
    SCORED_EXPECT(&v, "axyza", 1, 0, 1);
    SCORED_EXPECT(&v, "<unk>", 0);
    SCORED_EXPECT(&v, "axya", 1, 2, 1);
    v.spec.sums_in_f32 = true; /* SentencePiece does not look */
    SCORED_EXPECT(&v, "axya", 1, 0, 1);
}

static void test_unknown_text_becomes_bytes_when_all_of_them_are_there(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -1);
    scored_add(&v, "<0xC3>", -9);
    scored_add(&v, "<0xA9>", -9);
    v.spec.has_byte_fallback = true;
    SCORED_EXPECT(&v, "a\u00E9a", 1, 2, 3, 1);
    SCORED_EXPECT(&v, "\u00E9\u00E9", 2, 3, 2, 3);
    SCORED_EXPECT(&v, "\u00E9\u00E8", 0);                 /* one run, and A8 is missing */
    v.tokens[2].is_hidden = v.tokens[3].is_hidden = true; /* as GGUF has them */
    SCORED_EXPECT(&v, "a\u00E9<0xC3>", 1, 0);
    SCORED_EXPECT(&v, "\u00E9", 2, 3);
}

/* "b" + "bb" and "bb" + "b" are the same sum, but not after rounding. The answers are those of the
 * tokenizers and the sentencepiece packages. */
static void test_ties_are_decided_by_each_implementations_own_arithmetic(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -150000);
    scored_add(&v, "bc", -1.001);
    scored_add(&v, "b", -1);
    scored_add(&v, "c", 0);
    v.spec.unk_score = -150010;
    for (int i = 0; i < 5; i++) v.tokens[i].score = (double)(float)v.tokens[i].score;
    v.spec.sums_in_f32 = true;
    SCORED_EXPECT(&v, "abc", 1, 3,
                  4); /* the sum has passed 100,000 and starts anew: nothing is lost */
    v.tokens[1].score = -98304;
    SCORED_EXPECT(&v, "abc", 1, 2); /* it has not: the thousandth is rounded away */
    v.spec.sums_in_f32 = false;
    SCORED_EXPECT(&v, "abc", 1, 3, 4);
}

/* The best sum over all ways to cut text[at..len), characters that are no tokens included. */
static double best_sum(const struct scored *v, const char *text, size_t at, size_t len) {
    double best = -INFINITY;
    bool has_char = false;
    if (at == len) return 0;
    for (uint32_t i = 1; i < v->spec.n_tokens; i++) {
        size_t n = v->tokens[i].content.len;
        if (n > len - at || memcmp(v->tokens[i].content.data, text + at, n) != 0) continue;
        has_char |= n == 1;
        best = fmax(best, v->tokens[i].score + best_sum(v, text, at + n, len));
    }
    if (!has_char) best = fmax(best, v->spec.unk_score + best_sum(v, text, at + 1, len));
    return best;
}

static double sum_of(const struct scored *v, const struct id_list *ids, size_t len) {
    double sum = 0;
    size_t known = 0, n_unk = 0;
    for (size_t i = 0; i < ids->n; i++) {
        n_unk += ids->ids[i] == 0;
        if (ids->ids[i]) {
            sum += v->tokens[ids->ids[i]].score;
            known += v->tokens[ids->ids[i]].content.len;
        }
    }
    assert_true((n_unk > 0) == (known < len));
    return sum + (double)(len - known) * v->spec.unk_score;
}

static void test_no_path_is_better_than_the_one_found(void **state) {
    const uint64_t seed = 20261129;
    uint64_t rolled = 0;
    struct scored v;
    struct id_list ids = {0};
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        char text[14];
        begin(&v);
        for (int i = 0; i < 12; i++) {
            size_t n = 1 + (size_t)(rng_u64(seed, rolled++) % 4);
            for (size_t k = 0; k < n; k++) text[k] = (char)('a' + rng_u64(seed, rolled++) % 3);
            text[n] = '\0';
            /* Powers of two: all sums are exact, and equal texts equally good. */
            scored_add(&v, text, -(double)(1 + rng_u64(seed, rolled++) % 64) / 8);
            for (int k = 1; k <= i; k++)
                if (strcmp(v.text[k], text) == 0) v.tokens[i + 1].score = v.tokens[k].score;
        }
        struct token_model *m = scored_make_model(&v);
        for (int i = 0; i < 10; i++) {
            size_t len = (size_t)(rng_u64(seed, rolled++) % sizeof text);
            for (size_t k = 0; k < len; k++) text[k] = (char)('a' + rng_u64(seed, rolled++) % 4);
            scored_encode(&v, m, text, len, &ids);
            assert_true(sum_of(&v, &ids, len) == best_sum(&v, text, 0, len));
        }
        unigram_ops.destroy(m);
    }
    free(ids.ids);
}

/* A megabyte without a cut: twice the text, twice the steps. */
static void test_cost_is_proportional_to_length(void **state) {
    enum { LONG = 1 << 20 };
    static const char *const units[] = {"a", " ", "1", "ab", "\u65E5", "xyz"};
    struct scored v;
    struct id_list ids = {0};
    char *text = malloc(2 * LONG + 8);
    (void)state;
    assert_non_null(text);
    begin(&v);
    for (int i = 1; i <= 15; i++) {
        char run[16] = "";
        for (int k = 0; k < i; k++) run[k] = 'a';
        scored_add(&v, run, -i);
    }
    scored_add(&v, "b", -1);
    scored_add(&v, " ", -1);
    struct token_model *m = scored_make_model(&v);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i]);
        for (size_t at = 0; at < 2 * LONG; at += n) memcpy(text + at, units[i], n);
        uint64_t once = scored_encode(&v, m, text, LONG / n * n, &ids);
        uint64_t twice = scored_encode(&v, m, text, 2 * LONG / n * n, &ids);
        assert_true(once <= 17u * LONG);
        assert_true(once >= ids.n / 2); /* or nobody counts; ids are of twice the text */
        assert_true(twice <= 2 * once + 1000);
    }
    unigram_ops.destroy(m);
    free(ids.ids);
    free(text);
}

static void expect_refused(const struct scored *v, bool is_byte_level, enum radish_status status) {
    struct radish_error err = {0};
    struct token_model *m;
    assert_int_equal(unigram_ops.create(&v->spec, is_byte_level, &m, &err), status);
    assert_null(m);
    assert_true(*err.msg);
}

static void test_what_cannot_work_is_refused(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", NAN);
    expect_refused(&v, false, RADISH_E_FORMAT);
    v.tokens[1].score = -1;
    v.spec.unk_id = 7;
    expect_refused(&v, false, RADISH_E_UNSUPPORTED);
    v.spec.unk_id = -1;
    expect_refused(&v, false, RADISH_E_UNSUPPORTED);
    v.spec.unk_id = 0;
    v.spec.has_byte_fallback = true;
    expect_refused(&v, true, RADISH_E_UNSUPPORTED);
}

static void test_byte_level_pieces_are_raw_bytes(void **state) {
    struct radish_error err = {0};
    struct scored v;
    struct token_model *m;
    struct id_list ids = {0};
    (void)state;
    begin(&v);
    scored_add(&v, "\u0120a", -1); /* " a" */
    scored_add(&v, "\u00C3\u00A9", -1);
    scored_add(&v, "\u65E5", -1); /* not of the alphabet: never found */
    assert_int_equal(unigram_ops.create(&v.spec, true, &m, &err), RADISH_OK);
    scored_encode(&v, m, " a\u00E9\xC3", 5, &ids);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[0], 1);
    assert_int_equal(ids.ids[1], 2);
    assert_int_equal(ids.ids[2], 0);
    free(ids.ids);
    unigram_ops.destroy(m);
}

static bool attempt(void *user) {
    struct radish_error err = {0};
    struct token_model *m;
    struct token_scratch scratch = {0};
    struct id_list ids = {0};
    const struct scored *v = user;
    enum radish_status status = unigram_ops.create(&v->spec, false, &m, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        return false;
    }
    bool ok = unigram_ops.encode(m, "abcab", 5, &scratch, &ids);
    free(scratch.memory);
    free(ids.ids);
    unigram_ops.destroy(m);
    return ok;
}

static void test_running_out_of_memory_is_reported_and_leaks_nothing(void **state) {
    struct scored v;
    (void)state;
    if (!alloc_fail_can()) skip();
    begin(&v);
    scored_add(&v, "ab", -1);
    assert_true(alloc_fail_each(attempt, &v) >= 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_most_probable_path_wins_and_of_equals_the_longer_last_token),
        cmocka_unit_test(test_unknown_neighbours_are_one_token_and_their_text_is_looked_up),
        cmocka_unit_test(test_unknown_text_becomes_bytes_when_all_of_them_are_there),
        cmocka_unit_test(test_ties_are_decided_by_each_implementations_own_arithmetic),
        cmocka_unit_test(test_no_path_is_better_than_the_one_found),
        cmocka_unit_test(test_cost_is_proportional_to_length),
        cmocka_unit_test(test_what_cannot_work_is_refused),
        cmocka_unit_test(test_byte_level_pieces_are_raw_bytes),
        cmocka_unit_test(test_running_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
