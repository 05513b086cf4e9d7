/* SentencePiece's BPE: against doing every merge by a search over the whole text, user-defined and
 * unused pieces, unknown text, cost, refusals, and running out of memory. */
#include "alloc_fail.h"
#include "text_scored.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "text/spm_bpe.h"

#include <math.h>

enum { TEXT_MAX = 64 };

/* Token 0 is "<unk>". */
static void begin(struct scored *v) {
    scored_init(v, SPEC_MODEL_SPM_BPE);
    scored_add(v, "<unk>", 0)->is_hidden = true;
}

static void test_the_best_score_merges_first_and_the_leftmost_of_equals(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -9);
    scored_add(&v, "b", -9);
    scored_add(&v, "ab", -2);
    scored_add(&v, "ba", -1);
    scored_add(&v, "aa", -3);
    scored_expect_ids(&v, "", NULL, 0);
    SCORED_EXPECT(&v, "aba", 1, 4);
    SCORED_EXPECT(&v, "aaa", 5, 1);
    v.tokens[4].score = -2;
    SCORED_EXPECT(&v, "aba", 3, 1);
    SCORED_EXPECT(&v, "bab", 4, 2);
}

static void test_characters_that_are_no_tokens_may_merge_into_one_that_is(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "xy", -1);
    scored_add(&v, "a", -1);
    SCORED_EXPECT(&v, "axy", 2, 1);
    SCORED_EXPECT(&v, "xax", 0, 2, 0);
    SCORED_EXPECT(&v, "xxzz", 0); /* unknown neighbours are one */
    scored_add(&v, "<0x78>", 0)->is_hidden = true;
    v.spec.has_byte_fallback = true;
    SCORED_EXPECT(&v, "axxz", 2, 3, 3, 0);
}

static void test_user_defined_symbols_are_cut_out_first_and_never_merge(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -1);
    scored_add(&v, "b", -1);
    scored_add(&v, "abc", -0.5);
    scored_add(&v, "bc", 0)->is_user_defined = true;
    scored_add(&v, "bcb", 0)->is_user_defined = true;
    SCORED_EXPECT(&v, "abc", 1, 4);
    SCORED_EXPECT(&v, "bcbc", 5, 0);
    SCORED_EXPECT(&v, "abcba", 1, 5, 1);
}

static void test_unused_pieces_are_merged_through_and_taken_apart(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", -9);
    scored_add(&v, "b", -9);
    scored_add(&v, "c", -9);
    struct spec_token *unused = scored_add(&v, "ab", -1);
    unused->is_hidden = unused->is_unused = true;
    scored_add(&v, "abc", -2);
    SCORED_EXPECT(&v, "abc", 5);
    SCORED_EXPECT(&v, "ab", 1, 2);
    SCORED_EXPECT(&v, "cabab", 3, 1, 2, 1, 2);
    unused = scored_add(&v, "z", -1);
    unused->is_hidden = unused->is_unused = true;
    SCORED_EXPECT(&v, "az", 1, 0); /* nothing to take apart: unknown */
}

/* ---- against the definition */

struct part {
    size_t start, len;
};

static int32_t find(const struct scored *v, const char *s, size_t len) {
    for (uint32_t i = v->spec.n_tokens; i-- > 1;)
        if (v->tokens[i].content.len == len && memcmp(v->tokens[i].content.data, s, len) == 0)
            return (int32_t)i;
    return -1;
}

/* Joins the best pair of the whole text until there is none. */
static size_t merge_slowly(const struct scored *v, const char *text, size_t len, int32_t *ids_out) {
    struct part parts[TEXT_MAX];
    size_t n = 0, n_ids = 0;
    uint32_t c;
    for (size_t at = 0; at < len; at += parts[n++].len)
        parts[n] = (struct part){at, utf8_decode(text + at, len - at, &c)};
    for (;;) {
        double best = -INFINITY;
        size_t best_at = n;
        for (size_t i = 0; i + 1 < n; i++) {
            int32_t id = find(v, text + parts[i].start, parts[i].len + parts[i + 1].len);
            if (id < 0 || !(v->tokens[id].score > best)) continue;
            best = v->tokens[id].score;
            best_at = i;
        }
        if (best_at == n) break;
        parts[best_at].len += parts[best_at + 1].len;
        memmove(parts + best_at + 1, parts + best_at + 2, (n - best_at - 2) * sizeof *parts);
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id = find(v, text + parts[i].start, parts[i].len);
        if (id >= 0 || !n_ids || ids_out[n_ids - 1] != 0) ids_out[n_ids++] = id >= 0 ? id : 0;
    }
    return n_ids;
}

static void test_merging_region_by_region_is_merging_the_whole_text(void **state) {
    static const char *const chars[] = {"a", "b", "c", "\u2581", "\u00E9", "\u2026", "\u65E5"};
    const uint64_t seed = 20261129;
    uint64_t rolled = 0;
    struct scored v;
    struct id_list ids = {0};
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 1000; round++) {
        char text[TEXT_MAX + 1];
        int32_t want[TEXT_MAX];
        size_t n_chars = 2 + (size_t)(rng_u64(seed, rolled++) % 6);
        begin(&v);
        for (int i = 0; i < 30; i++) {
            *text = '\0';
            for (uint64_t k = 1 + rng_u64(seed, rolled++) % 4; k; k--)
                strcat(text, chars[rng_u64(seed, rolled++) % n_chars]);
            if (find(&v, text, strlen(text)) < 0)
                scored_add(&v, text, -(double)(rng_u64(seed, rolled++) % 6));
        }
        struct token_model *m = scored_make_model(&v);
        for (int i = 0; i < 20; i++) {
            size_t len = 0;
            for (uint64_t k = rng_u64(seed, rolled++) % 20; k; k--) {
                const char *c = chars[rng_u64(seed, rolled++) % n_chars];
                memcpy(text + len, c, strlen(c));
                len += strlen(c);
            }
            size_t n = merge_slowly(&v, text, len, want);
            scored_encode(&v, m, text, len, &ids);
            assert_int_equal(ids.n, n);
            if (n) assert_memory_equal(ids.ids, want, n * sizeof *want);
        }
        spm_bpe_ops.destroy(m);
    }
    free(ids.ids);
}

/* A megabyte that nothing cuts: n log n steps, told from n * n. */
static void test_long_texts_cost_little_more_than_twice_for_twice_the_length(void **state) {
    enum { LONG = 1 << 19 };
    static const char *const units[] = {"a", "ab", "\u2581", "1"};
    struct scored v;
    struct id_list ids = {0};
    char *text = malloc(2 * LONG + 8);
    (void)state;
    assert_non_null(text);
    begin(&v);
    scored_add(&v, "a", -9);
    scored_add(&v, "b", -9);
    scored_add(&v, "ab", -1);
    scored_add(&v, "ba", -2);
    scored_add(&v, "abab", -3);
    scored_add(&v, "aa", -4);
    scored_add(&v, "aaaa", -5);
    scored_add(&v, "aaaaaaaa", -6);
    scored_add(&v, "\u2581", -9);
    scored_add(&v, "\u2581\u2581", -8);
    struct token_model *m = scored_make_model(&v);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i]);
        for (size_t at = 0; at < 2 * LONG; at += n) memcpy(text + at, units[i], n);
        uint64_t once = scored_encode(&v, m, text, LONG / n * n, &ids);
        uint64_t twice = scored_encode(&v, m, text, 2 * LONG / n * n, &ids);
        assert_true(once <= 100ull * LONG);
        assert_true(once >= ids.n / 2); /* or nobody counts; ids are of twice the text */
        assert_true(twice <= once * 9 / 4 + 1000);
    }
    spm_bpe_ops.destroy(m);
    free(ids.ids);
    free(text);
}

static void expect_refused(const struct scored *v, bool is_byte_level, enum radish_status status) {
    struct radish_error err = {0};
    struct token_model *m;
    assert_int_equal(spm_bpe_ops.create(&v->spec, is_byte_level, &m, &err), status);
    assert_null(m);
    assert_true(*err.msg);
}

static void test_what_cannot_work_is_refused(void **state) {
    struct scored v;
    (void)state;
    begin(&v);
    scored_add(&v, "a", NAN);
    expect_refused(&v, false, RADISH_E_FORMAT);
    v.tokens[1].score = 0;
    expect_refused(&v, true, RADISH_E_UNSUPPORTED);
    v.spec.unk_id = 2;
    expect_refused(&v, false, RADISH_E_FORMAT);
    v.spec.unk_id = -1;
    expect_refused(&v, false, RADISH_E_FORMAT);
    v.spec.unk_id = 0;
    char *longest = calloc(1, SPEC_ADDED_CONTENT_MAX + 1);
    assert_non_null(longest);
    memset(longest, 'a', SPEC_ADDED_CONTENT_MAX + 1);
    v.tokens[1].content = (struct spec_str){longest, SPEC_ADDED_CONTENT_MAX + 1};
    expect_refused(&v, false, RADISH_E_LIMIT);
    free(longest);
}

static bool attempt(void *user) {
    struct radish_error err = {0};
    struct token_model *m;
    struct token_scratch scratch = {0};
    struct id_list ids = {0};
    const struct scored *v = user;
    enum radish_status status = spm_bpe_ops.create(&v->spec, false, &m, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        return false;
    }
    bool ok = spm_bpe_ops.encode(m, "abcab", 5, &scratch, &ids);
    free(scratch.memory);
    free(ids.ids);
    spm_bpe_ops.destroy(m);
    return ok;
}

static void test_running_out_of_memory_is_reported_and_leaks_nothing(void **state) {
    struct scored v;
    (void)state;
    if (!alloc_fail_can()) skip();
    begin(&v);
    scored_add(&v, "a", -1);
    scored_add(&v, "b", -1);
    struct spec_token *unused = scored_add(&v, "ab", -1);
    unused->is_hidden = unused->is_unused = true;
    assert_true(alloc_fail_each(attempt, &v) >= 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_best_score_merges_first_and_the_leftmost_of_equals),
        cmocka_unit_test(test_characters_that_are_no_tokens_may_merge_into_one_that_is),
        cmocka_unit_test(test_user_defined_symbols_are_cut_out_first_and_never_merge),
        cmocka_unit_test(test_unused_pieces_are_merged_through_and_taken_apart),
        cmocka_unit_test(test_merging_region_by_region_is_merging_the_whole_text),
        cmocka_unit_test(test_long_texts_cost_little_more_than_twice_for_twice_the_length),
        cmocka_unit_test(test_what_cannot_work_is_refused),
        cmocka_unit_test(test_running_out_of_memory_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
