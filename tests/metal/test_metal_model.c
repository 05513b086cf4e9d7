/* test_metal_model.c - tiny models of several families on the Metal device (on the stand-in),
 * against the logits of their reference implementations.
 *
 * Right: exact precision within 5e-5 standard deviations, fast precision within the relative L2 of
 * the CPU's test (test_conformance.c). The same tokens in one ragged batch or in chunks with slots
 * in any order: not bit for bit, as products and attention take other forms for other numbers of
 * rows, but as near. The families are chosen by what they need of the device: norms, windows, soft
 * caps, tied embeddings, biases, partial and interleaved RoPE, every kind of quantised weight.
 * Models that are not there are skipped; the two in tests/data always run. A thread of the GPU is a
 * fiber here, so prompts are cut to their first tokens, whose logits do not depend on the rest;
 * RADISH_TEST_LONG=1 runs them whole, RADISH_TEST_SHORT=1 three models only (where every access is
 * traced). */
#include "test.h"

#include "base/file_map.h"
#include "model_golden.h"
#include "model_session.h"
#include "stand_in.h"

#include <math.h>

static const struct row {
    const char *name; /* what it opens, below tests/data, models/ or gguf/ */
    bool is_committed, may_be_mapped;
    double fast_bound; /* relative L2 */
} rows[] = {
    {"models/llama", true, true, 0.015},         /* grouped heads */
    {"models/qwen3", true, true, 0.015},         /* norms of heads, tied */
    {"models/qwen2", false, true, 0.015},        /* biases */
    {"models/mistral_swa", false, true, 0.015},  /* a window */
    {"models/gemma2", false, true, 0.015},       /* soft caps, norms after */
    {"models/gpt_neox", false, true, 0.015},     /* LayerNorm, GELU, partial RoPE, gathered rows */
    {"models/cohere2", false, true, 0.015},      /* interleaved RoPE, layers without it */
    {"models/nemotron", false, true, 0.015},     /* ReLU^2 */
    {"models/phi3_partial", false, true, 0.015}, /* slices of one tensor */
    {"gguf/llama-F16", false, true, 0.015},      {"gguf/llama-Q8_0", false, true, 0.03},
    {"gguf/llama-Q4_K", false, true, 0.03},      {"gguf/llama-Q6_K", false, true, 0.03},
    {"gguf/llama-Q4_1", false, true, 0.03},      {"gguf/qwen2-Q4_0", false, true, 0.03},
    {"gguf/qwen2-Q5_K", false, true, 0.03},      {"gguf/qwen3-Q3_K", false, true, 0.03},
    {"gguf/qwen3-BF16", false, true, 0.015},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static const double exact_bound = 5e-5; /* standard deviations */
static int n_skipped;
static bool is_long; /* all tokens of all prompts */

enum { TOKENS_SHORT = 9, TOKENS_LONG = 40 }; /* of a prompt, and of the longest one */

static const struct {
    uint32_t chunk;
    enum session_slots order;
} schedules[] = {{0, SESSION_SLOTS_IN_ORDER}, {7, SESSION_SLOTS_SHUFFLED}};

/* The largest error over all prompts, as a part of the bound. */
static double measure(struct session *session, const struct golden *golden, size_t schedule,
                      bool is_exact, double bound) {
    struct session_seq seqs[GOLDEN_PROMPTS] = {0};
    double worst = 0;
    int longest = 0;
    for (int i = 1; i < GOLDEN_PROMPTS; i++)
        if (golden->prompts[i].n_tokens > golden->prompts[longest].n_tokens) longest = i;
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        const uint32_t n = golden->prompts[i].n_tokens;
        const uint32_t n_max = i == longest ? TOKENS_LONG : TOKENS_SHORT;
        seqs[i].tokens = golden->prompts[i].tokens;
        seqs[i].n_tokens = n < n_max || is_long ? n : n_max;
        seqs[i].logits = calloc((size_t)seqs[i].n_tokens * golden->n_vocab, sizeof(float));
        assert_non_null(seqs[i].logits);
    }
    session_run(session, seqs, GOLDEN_PROMPTS, schedules[schedule].chunk,
                schedules[schedule].order);
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        const struct golden_prompt *prompt = &golden->prompts[i];
        double max = 0, squares = 0, norm = 0;
        const size_t n = (size_t)seqs[i].n_tokens * golden->n_vocab;
        for (size_t k = 0; prompt->logits && k < n; k++) {
            const double want = (double)prompt->logits[k];
            const double diff = fabs((double)seqs[i].logits[k] - want);
            if (!(diff <= max)) max = diff; /* NaN counts as infinitely far */
            squares += diff * diff;
            norm += want * want;
        }
        if (prompt->logits) {
            const double error = (is_exact ? max / prompt->std : sqrt(squares / norm)) / bound;
            if (!(error <= worst)) worst = error;
        }
        free(seqs[i].logits);
    }
    session_free_slots(seqs, GOLDEN_PROMPTS);
    return worst;
}

static double check_precision(const char *path, const struct row *row, const struct golden *golden,
                              enum radish_precision precision, double bound) {
    const struct session_options options = {
        .device = "metal-sim", .precision = precision, .n_threads = 1};
    struct session session;
    double worst = 0;
    session_open(path, &options, &session);
    assert_int_equal(session.config.n_vocab, golden->n_vocab);
    const bool is_mapped =
        session.device->ops->weight_is_mapped(session.device, session.weights->embedding);
    assert_int_equal(is_mapped, row->may_be_mapped);
    const bool is_exact = precision == RADISH_PRECISION_EXACT;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        if (!is_long && is_exact == (i > 0)) continue; /* whole if exact, in chunks if fast */
        const double error = measure(&session, golden, i, is_exact, bound);
        if (!(error <= worst)) worst = error;
    }
    session_close(&session);
    return worst;
}

static void test_model_gives_the_reference_logits(void **state) {
    const struct row *row = *state;
    char path[512], golden_path[512];
    const char *root = row->is_committed ? TEST_DATA : golden_conformance();
    const bool is_gguf = !strncmp(row->name, "gguf/", 5);
    snprintf(path, sizeof path, "%s/%s%s", root, row->name, is_gguf ? ".gguf" : "");
    snprintf(golden_path, sizeof golden_path, "%s/%s%sgolden.safetensors", root, row->name,
             is_gguf ? "." : "/");
    if (!file_exists(golden_path)) {
        printf("skipped: %s is not there\n", golden_path);
        n_skipped++;
        skip();
    }
    struct golden golden;
    golden_open(golden_path, &golden);

    const double exact = check_precision(path, row, &golden, RADISH_PRECISION_EXACT, exact_bound);
    const double fast = check_precision(path, row, &golden, RADISH_PRECISION_FAST, row->fast_bound);

    printf("%-22s exact %5.1f%% of the bound, fast %5.1f%%\n", row->name, 100 * exact, 100 * fast);
    fflush(stdout);
    golden_close(&golden);
    assert_true(exact <= 1);
    assert_true(fast <= 1);
    assert_int_equal(stand_in_hazards(), 0);
    assert_int_equal(stand_in_faults(), 0);
    assert_int_equal(stand_in_objects_alive(), 0);
}

int main(void) {
    struct CMUnitTest tests[N_ROWS];
    const bool is_short = getenv("RADISH_TEST_SHORT") != NULL;
    size_t n = 0;
    is_long = getenv("RADISH_TEST_LONG") != NULL;
    for (int i = 0; i < N_ROWS; i++)
        if (!is_short || rows[i].is_committed || strstr(rows[i].name, "gemma2"))
            tests[n++] = (struct CMUnitTest){.name = rows[i].name,
                                             .test_func = test_model_gives_the_reference_logits,
                                             .initial_state = (void *)(uintptr_t)&rows[i]};
    if (_cmocka_run_group_tests("metal_model", tests, n, NULL, NULL)) return 1;
    return n_skipped ? 77 : 0;
}
