/* Stop strings in a text that arrives in pieces, against a search of the whole text. */
#include "alloc_fail.h"
#include "test.h"

#include "base/buf.h"
#include "base/rng.h"
#include "base/utf8.h"
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

static void test_nothing_is_held_back_when_the_string_is_shown_anyway(void **state) {
    const char *const strings[] = {"END"};
    struct buf out = {0};
    (void)state;
    struct stop_match *match = make(strings, 1);

    assert_int_equal(stop_match_push(match, "the EN", 6, /*include_stop=*/true, &out), -1);
    expect_text(&out, "the EN");
    assert_int_equal(stop_match_push(match, "D.", 2, /*include_stop=*/true, &out), 0);
    expect_text(&out, "the END");
    stop_match_finish(match, &out);
    expect_text(&out, "the END");

    buf_deinit(&out);
    stop_match_destroy(match);
}

/* The same answer in one piece and byte by byte. */
static void expect_found(const char *const *strings, size_t n, const char *text, int want,
                         const char *shown) {
    for (size_t size = 1; size <= strlen(text); size += strlen(text) > 1 ? strlen(text) - 1 : 1) {
        struct stop_match *match = make(strings, n);
        struct buf out = {0};
        int got = -1;
        for (size_t at = 0; at < strlen(text); at += size) {
            int found = stop_match_push(match, text + at, size, /*include_stop=*/false, &out);
            if (found >= 0) got = found;
        }
        stop_match_finish(match, &out);
        assert_int_equal(got, want);
        expect_text(&out, shown);
        buf_deinit(&out);
        stop_match_destroy(match);
    }
}

static void test_what_is_complete_first_is_found_whatever_the_pieces(void **state) {
    const char *const prefixes[] = {"abcd", "ab", "abc"};
    const char *const same_end[] = {"bc", "abc", "c"};
    const char *const inside[] = {"<tool>", "oo"};
    const char *const twice[] = {"xy", "xy"};
    (void)state;

    expect_found(prefixes, 3, "xxabcd", 1, "xx");
    expect_found(same_end, 3, "xabcd", 1, "x");
    expect_found(same_end, 3, "xbcd", 0, "x");
    expect_found(inside, 2, "a <tool>", 1, "a <t");
    expect_found(twice, 2, "axyxy", 0, "a");
}

static void test_a_string_that_another_always_precedes_holds_nothing_back(void **state) {
    const char *const strings[] = {"<tool>", "oo"};
    struct buf out = {0};
    (void)state;
    struct stop_match *match = make(strings, 2);

    assert_int_equal(push(match, "a <t", &out), -1);
    expect_text(&out, "a <t");

    buf_deinit(&out);
    stop_match_destroy(match);
}

static bool try_create(void *user) {
    static const char *const strings[] = {"</tool>", "<end>", "\n\n"};
    struct radish_error err = {0};
    struct stop_match *match;
    (void)user;
    enum radish_status status = stop_match_create(strings, 3, &match, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        assert_null(match);
    }
    stop_match_destroy(match);
    return status == RADISH_OK;
}

static void test_a_failed_allocation_leaves_nothing_behind(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();

    assert_true(alloc_fail_each(try_create, NULL) >= 6);
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

static void test_too_many_and_too_long_strings_are_refused(void **state) {
    const char *strings[RADISH_STOP_MAX + 1];
    char longest[RADISH_STOP_BYTES_MAX + 2];
    struct radish_error err = {0};
    struct stop_match *match;
    (void)state;
    for (int i = 0; i <= RADISH_STOP_MAX; i++) strings[i] = "x";
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';

    assert_int_equal(stop_match_create(strings, RADISH_STOP_MAX + 1, &match, &err), RADISH_E_LIMIT);
    strings[0] = longest;
    assert_int_equal(stop_match_create(strings, 1, &match, &err), RADISH_E_LIMIT);
    assert_string_equal(err.field, "stop");
}

/* ---- against a search of the whole text */

enum { TEXT_MAX = 160 };

struct strings {
    const char *all[RADISH_STOP_MAX];
    char data[RADISH_STOP_MAX][16];
    size_t n;
};

struct hit {
    int idx; /* -1: none */
    size_t start, end;
};

/* The string that is complete first; of those the longest; of equal ones the first. */
static struct hit find_slowly(const struct strings *strings, const char *text, size_t len) {
    struct hit hit = {-1, 0, 0};
    for (size_t end = 1; end <= len && hit.idx < 0; end++)
        for (size_t i = 0; i < strings->n; i++) {
            size_t n = strlen(strings->all[i]);
            if (n > end || memcmp(text + end - n, strings->all[i], n) != 0) continue;
            if (hit.idx < 0 || end - n < hit.start) hit = (struct hit){(int)i, end - n, end};
        }
    return hit;
}

/* How much of text[0..len), which holds no string, can be shown for good: continues it in every way
 * that makes a string out of its end, and asks what would then be found. */
static size_t show_slowly(const struct strings *strings, const char *text, size_t len) {
    char longer[TEXT_MAX + 16];
    size_t n_shown = len;
    memcpy(longer, text, len);
    for (size_t i = 0; i < strings->n; i++) {
        size_t n = strlen(strings->all[i]);
        for (size_t k = 1; k < n && k <= len; k++) {
            if (memcmp(text + len - k, strings->all[i], k) != 0) continue;
            memcpy(longer + len, strings->all[i] + k, n - k);
            struct hit hit = find_slowly(strings, longer, len + n - k);
            assert_true(hit.idx >= 0);
            if (hit.start < n_shown) n_shown = hit.start;
        }
    }
    return n_shown;
}

struct dice {
    uint64_t seed, at;
};

static size_t roll(struct dice *dice, size_t n) {
    return rng_u64(dice->seed, dice->at++) % n;
}

/* n letters of a small alphabet; its characters share bytes. */
static size_t write_letters(struct dice *dice, size_t n, size_t n_letters, char *out) {
    static const char *const letters[] = {"a", "b", "\u00E9", "\u00E8", "\u20AC", "\u20AD"};
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        const char *letter = letters[roll(dice, n_letters)];
        memcpy(out + len, letter, strlen(letter));
        len += strlen(letter);
    }
    out[len] = '\0';
    return len;
}

/* Pushes text[0..len) in random pieces of whole characters; after each, what is shown must be what
 * the slow search says. */
static void compare(struct dice *dice, const struct strings *strings, const char *text, size_t len,
                    bool include_stop) {
    struct stop_match *match = make(strings->all, strings->n);
    struct hit hit = find_slowly(strings, text, len);
    struct buf out = {0};
    int got = -1;
    for (size_t at = 0, n; at < len; at += n) {
        n = 1 + roll(dice, 9);
        if (n > len - at) n = len - at;
        while (at + n < len && (text[at + n] & 0xC0) == 0x80) n++;
        int found = stop_match_push(match, text + at, n, include_stop, &out);
        if (hit.idx >= 0 && at + n >= hit.end) {
            assert_int_equal(found, got < 0 ? hit.idx : -1);
            assert_int_equal(out.len, include_stop ? hit.end : hit.start);
            got = hit.idx;
        } else {
            assert_int_equal(found, -1);
            assert_int_equal(out.len, include_stop ? at + n : show_slowly(strings, text, at + n));
        }
        if (out.len) assert_int_equal(utf8_valid_prefix(out.data, out.len), out.len);
        if (out.len) assert_memory_equal(out.data, text, out.len);
    }
    stop_match_finish(match, &out);
    assert_int_equal(got, hit.idx);
    if (hit.idx < 0) assert_int_equal(out.len, len);
    buf_deinit(&out);
    stop_match_destroy(match);
}

static void test_random_pieces_agree_with_a_search_of_the_whole(void **state) {
    struct dice dice = {777, 0};
    size_t n_found = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)dice.seed);
    for (int round = 0; round < 20000; round++) {
        struct strings strings;
        char text[TEXT_MAX];
        size_t n_letters = 2 + roll(&dice, 5), longest = 1 + roll(&dice, 5);
        strings.n = 1 + roll(&dice, round % 8 ? 4 : RADISH_STOP_MAX);
        for (size_t i = 0; i < strings.n; i++) {
            write_letters(&dice, 1 + roll(&dice, longest), n_letters, strings.data[i]);
            strings.all[i] = strings.data[i];
        }
        size_t len = write_letters(&dice, 1 + roll(&dice, 50), n_letters, text);
        n_found += find_slowly(&strings, text, len).idx >= 0;
        compare(&dice, &strings, text, len, /*include_stop=*/round % 4 == 3);
    }
    assert_true(n_found > 2000 && n_found < 19000);
}

/* What a search per string and position would need 10^9 steps for. */
static void test_cost_is_linear_for_the_worst_strings(void **state) {
    enum { LEN = 200000 };
    const char *strings[RADISH_STOP_MAX];
    char data[RADISH_STOP_MAX][RADISH_STOP_BYTES_MAX + 1];
    struct buf out = {0};
    char *text = malloc(LEN);
    (void)state;
    assert_non_null(text);
    memset(text, 'a', LEN);
    for (int i = 0; i < RADISH_STOP_MAX; i++) {
        memset(data[i], 'a', RADISH_STOP_BYTES_MAX);
        data[i][RADISH_STOP_BYTES_MAX] = '\0';
        data[i][RADISH_STOP_BYTES_MAX - 1 - i] = (char)('b' + i);
        strings[i] = data[i];
    }
    struct stop_match *match = make(strings, RADISH_STOP_MAX);
    for (size_t i = 0; i < LEN; i += 4) {
        assert_int_equal(stop_match_push(match, text + i, 4, false, &out), -1);
        assert_true(out.len + RADISH_STOP_BYTES_MAX >= i + 4);
    }
    printf("%.2f steps a byte\n", (double)stop_match_n_steps(match) / LEN);
    assert_true(stop_match_n_steps(match) >= (uint64_t)LEN); /* or nobody counts */
    assert_true(stop_match_n_steps(match) < (uint64_t)8 * LEN);
    assert_int_equal(stop_match_push(match, "b", 1, false, &out), 0);
    assert_int_equal(out.len, LEN - RADISH_STOP_BYTES_MAX + 1);

    stop_match_destroy(match);
    buf_deinit(&out);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_string_over_three_pieces_is_found_and_cut_off),
        cmocka_unit_test(test_what_turns_out_to_be_no_string_is_shown_at_once),
        cmocka_unit_test(test_the_string_itself_is_kept_when_asked),
        cmocka_unit_test(test_nothing_is_held_back_when_the_string_is_shown_anyway),
        cmocka_unit_test(test_what_is_complete_first_is_found_whatever_the_pieces),
        cmocka_unit_test(test_a_string_that_another_always_precedes_holds_nothing_back),
        cmocka_unit_test(test_a_failed_allocation_leaves_nothing_behind),
        cmocka_unit_test(test_an_empty_string_is_refused),
        cmocka_unit_test(test_too_many_and_too_long_strings_are_refused),
        cmocka_unit_test(test_random_pieces_agree_with_a_search_of_the_whole),
        cmocka_unit_test(test_cost_is_linear_for_the_worst_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
