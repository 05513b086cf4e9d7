/* Patterns: what they cost on long runs, and that bad ones end in an error soon. That they match
 * what Oniguruma matches is tests/oracle/test_patterns.py. */
#include "test.h"
#include "text_spec.h"

#include "text/pattern.h"
#include "text/pattern_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static const char *const published[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

/* ---- steps, counted where PCRE2 calls out: before every item of the pattern it tries */

static int count_step(pcre2_callout_block *block, void *user) {
    uint64_t *n_steps = user;
    (void)block;
    ++*n_steps;
    return 0;
}

static uint64_t count_steps(const char *pattern, const char *text, size_t len) {
    const struct spec_str source = spec_str(pattern);
    struct radish_error err = {0};
    struct buf translated = {0};
    uint64_t n_steps = 0;
    int code;
    PCRE2_SIZE offset;
    assert_int_equal(pattern_translate(&source, &translated, &err), RADISH_OK);
    pcre2_code *compiled = pcre2_compile(
        (PCRE2_SPTR)translated.data, translated.len,
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT, &code, &offset, NULL);
    assert_non_null(compiled);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_set_callout(context, count_step, &n_steps);
    for (size_t at = 0; at < len; at = pcre2_get_ovector_pointer(match)[1]) {
        int rc =
            pcre2_match(compiled, (PCRE2_SPTR)text, len, at, PCRE2_NO_UTF_CHECK, match, context);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        assert_true(rc >= 0);
    }
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
    buf_deinit(&translated);
    return n_steps;
}

static void test_published_patterns_take_steps_in_proportion_to_length(void **state) {
    static const char *const runs[] = {" ",  "a",  "A",   "1",  "\n", "=",
                                       "\t", "aA", " \n", "a1", "=\n"};
    enum { SMALL = 1 << 12, LARGE = 1 << 15 };
    static char text[LARGE];
    (void)state;
    for (size_t p = 0; p < sizeof published / sizeof *published; p++)
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
            size_t cycle = strlen(runs[r]);
            for (size_t i = 0; i < LARGE; i++) text[i] = runs[r][i % cycle];
            uint64_t small = count_steps(published[p], text, SMALL);
            uint64_t large = count_steps(published[p], text, LARGE);
            if (large > small * (LARGE / SMALL) * 3 / 2)
                fail_msg("pattern %zu on runs of \"%s\": %llu steps, then %llu", p, runs[r],
                         (unsigned long long)small, (unsigned long long)large);
        }
}

/* ---- patterns of ill will */

static void test_patterns_that_explode_end_soon(void **state) {
    static const char *const bad[] = {
        "(?:a+)+[bc]",       "(?:a|a)*[bc]d",
        "(?:a|aa)+$\\n",     "[a-z]*[a-z]*[a-z]*[a-z]*[a-z]*[bc](?=[cd])",
        "(?:\\p{L}*)*[0-9]", "(?=(?:a+)+[bc])x|y",
    };
    static char text[20000];
    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct spec_pattern spec = {spec_str(bad[i]), .is_regex = true};
        struct radish_error err = {0};
        struct pattern_cursor cursor;
        struct pattern *pattern;
        size_t start, end;
        bool found = true;
        enum radish_status status = RADISH_OK;
        assert_int_equal(pattern_create(&spec, &pattern, &err), RADISH_OK);
        assert_int_equal(pattern_cursor_init(&cursor, pattern, &err), RADISH_OK);
        pattern_cursor_start(&cursor, text, sizeof text);

        while (status == RADISH_OK && found)
            status = pattern_cursor_next(&cursor, &found, &start, &end, &err);

        /* PCRE2 sees through some of them, and finds at once that nothing matches. */
        if (i == 0 || status != RADISH_OK) {
            if (status != RADISH_E_LIMIT) fail_msg("%s: status %d", bad[i], (int)status);
            assert_non_null(strstr(err.msg, "too many steps"));
        }
        pattern_cursor_deinit(&cursor);
        pattern_destroy(pattern);
    }
}

static void test_a_long_match_is_no_explosion(void **state) {
    static char text[1 << 20];
    const struct spec_pattern spec = {spec_str("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), .is_regex = true};
    struct radish_error err = {0};
    struct pattern_cursor cursor;
    struct pattern *pattern;
    size_t start, end;
    bool found;
    (void)state;
    memset(text, ' ', sizeof text);
    assert_int_equal(pattern_create(&spec, &pattern, &err), RADISH_OK);
    assert_int_equal(pattern_cursor_init(&cursor, pattern, &err), RADISH_OK);
    pattern_cursor_start(&cursor, text, sizeof text);

    assert_int_equal(pattern_cursor_next(&cursor, &found, &start, &end, &err), RADISH_OK);

    assert_true(found);
    assert_int_equal(end - start, sizeof text);
    pattern_cursor_deinit(&cursor);
    pattern_destroy(pattern);
}

static void test_the_engine_names_its_unicode(void **state) {
    char line[160];
    (void)state;
    pattern_engine_text(line, sizeof line);
    assert_non_null(strstr(line, "PCRE2 1"));
    assert_non_null(strstr(line, "Unicode 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_patterns_take_steps_in_proportion_to_length),
        cmocka_unit_test(test_patterns_that_explode_end_soon),
        cmocka_unit_test(test_a_long_match_is_no_explosion),
        cmocka_unit_test(test_the_engine_names_its_unicode),
    };
    radish_log_set_level(RADISH_LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
