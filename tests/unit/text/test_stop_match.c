/* Stop strings in a text that arrives in pieces, against a search of the whole text. */
#include "test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "text/stop_match.h"

static struct stop_match *make(const char *const *strings, size_t n) {
    struct radish_error err = {0};
    struct stop_match *match;
    if (stop_match_create(strings, n, &match, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return match;
}

static int push(struct stop_match *match, const char *text, struct buf *out) {
    return stop_match_push(match, text, strlen(text), /*include_stop=*/false, out);
}

static void expect_text(struct buf *out, const char *text) {
    assert_string_equal(out->data ? out->data : "", text);
}

static void test_a_string_over_three_pieces_is_found_and_cut_off(void **state) {
    const char *const strings[] = {"</tool>"};
    struct buf out = {0};
    (void)state;
    struct stop_match *match = make(strings, 1);

    assert_int_equal(push(match, "ok</t", &out), -1);
    expect_text(&out, "ok");
    assert_int_equal(push(match, "oo", &out), -1);
    assert_int_equal(push(match, "l> more", &out), 0);
    expect_text(&out, "ok");
    assert_int_equal(push(match, "and more", &out), -1);
    stop_match_finish(match, &out);
    expect_text(&out, "ok");

    buf_deinit(&out);
    stop_match_destroy(match);
}

static void test_what_turns_out_to_be_no_string_is_shown_at_once(void **state) {
    const char *const strings[] = {"aab"};
    struct buf out = {0};
    (void)state;
    struct stop_match *match = make(strings, 1);

    assert_int_equal(push(match, "aaaa", &out), -1);
    expect_text(&out, "aa");
    assert_int_equal(push(match, "c", &out), -1);
    expect_text(&out, "aaaac");
    assert_int_equal(push(match, "aa", &out), -1);
    stop_match_finish(match, &out);
    expect_text(&out, "aaaacaa");

    buf_deinit(&out);
    stop_match_destroy(match);
}

static void test_the_string_itself_is_kept_when_asked(void **state) {
    const char *const strings[] = {"END"};
    struct buf out = {0};
    (void)state;
    struct stop_match *match = make(strings, 1);

    assert_int_equal(stop_match_push(match, "the END.", 8, /*include_stop=*/true, &out), 0);
    expect_text(&out, "the END");

    buf_deinit(&out);
    stop_match_destroy(match);
}

static void test_the_earliest_start_wins_and_then_the_longest(void **state) {
    const char *const strings[] = {"b", "abc", "ab", "abcd"};
    struct buf out = {0};
    (void)state;

    struct stop_match *match = make(strings, 4);
    assert_int_equal(push(match, "xabcx", &out), 1);
    expect_text(&out, "x");
    stop_match_destroy(match);

    match = make(strings, 4);
    buf_clear(&out);
    assert_int_equal(push(match, "xa", &out), -1);
    assert_int_equal(push(match, "b", &out), 2);
    expect_text(&out, "x");

    buf_deinit(&out);
    stop_match_destroy(match);
}

static void test_an_empty_string_is_refused(void **state) {
    const char *const strings[] = {"x", ""};
    struct radish_error err = {0};
    struct stop_match *match;
    (void)state;

    assert_int_equal(stop_match_create(strings, 2, &match, &err), RADISH_E_INVALID);
    assert_null(match);
    assert_string_equal(err.field, "stop");
}

/* First piece end at which any string is complete; then the rule of the header. */
static int find_slowly(const char *text, const size_t *ends, size_t n_ends,
                       const char *const *strings, size_t n, size_t *start_out) {
    for (size_t e = 0; e < n_ends; e++) {
        int best = -1;
        for (size_t start = 0; start < ends[e] && best < 0; start++)
            for (size_t i = 0; i < n; i++) {
                size_t len = strlen(strings[i]);
                if (start + len > ends[e] || memcmp(text + start, strings[i], len) != 0) continue;
                if (best < 0 || len > strlen(strings[best])) best = (int)i;
                *start_out = start;
            }
        if (best >= 0) return best;
    }
    return -1;
}

static void test_random_pieces_agree_with_a_search_of_the_whole(void **state) {
    static const char *const pool[] = {"a",  "ab",  "ba",   "aab", "abab", "bb",
                                       "bc", "cab", "cccc", "abc", "aaaa", "cb"};
    uint64_t seed = 777, at = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        const char *strings[3];
        char text[41];
        size_t ends[40], n_ends = 0, len = 1 + rng_u64(seed, at++) % 40, start = 0;
        size_t n = 1 + rng_u64(seed, at++) % 3;
        for (size_t i = 0; i < n; i++) strings[i] = pool[1 + (rng_u64(seed, at++) + i) % 11];
        if (n > 1 && strcmp(strings[0], strings[1]) == 0) n = 1;
        if (n > 2 && (strcmp(strings[0], strings[2]) == 0 || strcmp(strings[1], strings[2]) == 0))
            n = 2;
        for (size_t i = 0; i < len; i++) text[i] = (char)('a' + rng_u64(seed, at++) % 3);
        text[len] = '\0';
        for (size_t end = 0; end < len; ends[n_ends++] = end) {
            end += 1 + rng_u64(seed, at++) % 5;
            if (end > len) end = len;
        }
        int want = find_slowly(text, ends, n_ends, strings, n, &start);
        struct stop_match *match = make(strings, n);
        struct buf out = {0};
        int got = -1;
        for (size_t e = 0, from = 0; e < n_ends; from = ends[e++]) {
            int found = stop_match_push(match, text + from, ends[e] - from, false, &out);
            if (got < 0) got = found;
        }
        stop_match_finish(match, &out);
        assert_int_equal(got, want);
        assert_int_equal(out.len, want < 0 ? len : start);
        assert_memory_equal(out.data ? out.data : "", text, out.len);
        buf_deinit(&out);
        stop_match_destroy(match);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_string_over_three_pieces_is_found_and_cut_off),
        cmocka_unit_test(test_what_turns_out_to_be_no_string_is_shown_at_once),
        cmocka_unit_test(test_the_string_itself_is_kept_when_asked),
        cmocka_unit_test(test_the_earliest_start_wins_and_then_the_longest),
        cmocka_unit_test(test_an_empty_string_is_refused),
        cmocka_unit_test(test_random_pieces_agree_with_a_search_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
