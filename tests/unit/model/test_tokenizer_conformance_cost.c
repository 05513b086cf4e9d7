/* What encoding costs, counted in operations: of real tokenizers, for texts that are one piece from
 * end to end, the operations per byte grow no faster than a logarithm. */
#include "model_tokenizers.h"
#include "test.h"

#include "base/rng.h"
#include "text/tokenizer_int.h"

static const char *folder;

/* A megabyte of the first texts; of the rest a quarter, since it is many texts for many tokenizers.
 */
enum { SMALL = 1 << 16, LARGE = 1 << 20, N_LARGE = 3 };

/* Writes n bytes, valid UTF-8. */
typedef void (*fill_fn)(char *text, size_t n);

static void fill_spaces(char *text, size_t n) {
    memset(text, ' ', n);
}
static void fill_letter(char *text, size_t n) {
    memset(text, 'a', n);
}
static void fill_capitals(char *text, size_t n) {
    memset(text, 'A', n);
}
static void fill_newlines(char *text, size_t n) {
    memset(text, '\n', n);
}
static void fill_tabs(char *text, size_t n) {
    memset(text, '\t', n);
}
static void fill_signs(char *text, size_t n) {
    memset(text, '=', n);
}
static void fill_digits(char *text, size_t n) {
    for (size_t i = 0; i < n; i++) text[i] = (char)('0' + rng_u64(1, i) % 10);
}
static void fill_letters(char *text, size_t n) {
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + rng_u64(2, i) % 26);
}
static void fill_ascii(char *text, size_t n) {
    for (size_t i = 0; i < n; i++) text[i] = (char)(1 + rng_u64(3, i) % 127);
}
static void fill_cycle(char *text, size_t n, const char *cycle) {
    size_t len = strlen(cycle);
    for (size_t i = 0; i < n; i++) text[i] = i + len - i % len <= n ? cycle[i % len] : 'x';
}
/* In the order that normalisation changes: 230, 220. */
static void fill_marks(char *text, size_t n) {
    fill_cycle(text, n, "\u0301\u0316");
}
static void fill_ideographs(char *text, size_t n) {
    fill_cycle(text, n, "\u4E2D\u6587\u5B57");
}
static void fill_spaces_and_newlines(char *text, size_t n) {
    fill_cycle(text, n, " \n");
}
static void fill_words(char *text, size_t n) {
    fill_cycle(text, n, "the quick brown fox, ");
}
/* What ends differently from how it began. */
static void fill_spaces_then_letter(char *text, size_t n) {
    memset(text, ' ', n);
    text[n - 1] = 'x';
}

static const struct {
    const char *name;
    fill_fn fill;
} TEXTS[] = {
    {"spaces", fill_spaces},         {"one letter", fill_letter},
    {"digits", fill_digits},         {"capitals", fill_capitals},
    {"newlines", fill_newlines},     {"tabs", fill_tabs},
    {"signs", fill_signs},           {"letters", fill_letters},
    {"any ASCII", fill_ascii},       {"combining marks", fill_marks},
    {"ideographs", fill_ideographs}, {"spaces and newlines", fill_spaces_and_newlines},
    {"words", fill_words},           {"spaces, then a letter", fill_spaces_then_letter},
};

static double operations_per_byte(const struct tokenizer *t, const char *text, size_t len) {
    struct radish_error err = {0};
    uint64_t n_operations;
    int32_t *ids;
    size_t n;
    if (tokenizer_encode_counted(t, text, len, false, &ids, &n, &n_operations, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    free(ids);
    return (double)n_operations / (double)len;
}

static void check(const char *name) {
    static char text[LARGE];
    char path[1024];
    snprintf(path, sizeof path, "%s/tokenizers/%s", folder, name);
    struct tokenizer *t = open_json_tokenizer(path);
    assert_non_null(t);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        TEXTS[i].fill(text, SMALL);
        double small = operations_per_byte(t, text, SMALL);
        size_t len = i < N_LARGE ? LARGE : LARGE / 4;
        TEXTS[i].fill(text, len);
        double large = operations_per_byte(t, text, len);

        /* Nothing counted shows nothing. log(2^20) / log(2^16) = 1.25. */
        if (small < 0.5) fail_msg("%s: %s: %.3f operations per byte", name, TEXTS[i].name, small);
        if (large > small * 1.25 + 1)
            fail_msg("%s: %s: %.1f operations per byte of 64 KB, %.1f of %zu KB", name,
                     TEXTS[i].name, small, large, len >> 10);
        if (large > 100) fail_msg("%s: %s: %.1f operations per byte", name, TEXTS[i].name, large);
    }
    tokenizer_destroy(t);
}

#define COST_TEST(name)                                                                            \
    static void test_##name##_encodes_in_proportion_to_length(void **state) {                      \
        (void)state;                                                                               \
        check(#name);                                                                              \
    }
COST_TEST(qwen3)
COST_TEST(llama3_1)
COST_TEST(gptoss)
COST_TEST(mistral_nemo)
COST_TEST(gemma3)
COST_TEST(llama2)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen3_encodes_in_proportion_to_length),
        cmocka_unit_test(test_llama3_1_encodes_in_proportion_to_length),
        cmocka_unit_test(test_gptoss_encodes_in_proportion_to_length),
        cmocka_unit_test(test_mistral_nemo_encodes_in_proportion_to_length),
        cmocka_unit_test(test_gemma3_encodes_in_proportion_to_length),
        cmocka_unit_test(test_llama2_encodes_in_proportion_to_length),
    };
    folder = conformance_folder();
    if (!folder) return TEST_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
