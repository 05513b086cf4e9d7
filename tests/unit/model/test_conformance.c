/* test_conformance.c - every model of the served families against its reference's logits, and every
 * way of computing them against every other.
 *
 * Right: exact precision within 5e-5 standard deviations, fast precision within a relative L2 (the
 * bounds and their reasons: README.md of the conformance data). The same: alone, all prompts in one
 * ragged batch, in chunks of 1, 3 and 16, with slots in order, shuffled or backwards, with one
 * thread or two: bit for bit, in each precision. Models that are not there are skipped; the two in
 * tests/data always run. */
#include "test.h"

#include "base/file_map.h"
#include "model_golden.h"
#include "model_session.h"

#include <math.h>

struct row {
    const char *name; /* of the test: what it opens, below tests/data, models/ or gguf/ */
    bool is_committed;
    double fast_bound; /* relative L2 */
};

static const struct row rows[] = {
    {"models/llama", true, 0.015},         {"models/qwen3", true, 0.015},
    {"models/llama", false, 0.015},        {"models/llama31", false, 0.015},
    {"models/llama_bias", false, 0.015},   {"models/llama_linear", false, 0.015},
    {"models/llama_mha", false, 0.015},    {"models/qwen2", false, 0.015},
    {"models/qwen2_yarn", false, 0.015},   {"models/qwen3", false, 0.015},
    {"models/mistral_swa", false, 0.015},  {"models/phi3", false, 0.015},
    {"models/phi3_partial", false, 0.015}, {"models/granite", false, 0.015},
    {"models/smollm3", false, 0.015},      {"models/stablelm", false, 0.015},
    {"models/gpt_neox", false, 0.015},     {"models/phi", false, 0.015},
    {"models/nemotron", false, 0.015},     {"models/cohere2", false, 0.015},
    {"models/glm4", false, 0.015},         {"models/gemma2", false, 0.015},
    {"models/gemma3", false, 0.015},       {"models/olmo2", false, 0.015},
    {"models/exaone4", false, 0.015},      {"gguf/llama-F16", false, 0.015},
    {"gguf/llama-Q4_1", false, 0.03},      {"gguf/llama-Q4_K", false, 0.03},
    {"gguf/llama-Q6_K", false, 0.03},      {"gguf/llama-Q8_0", false, 0.03},
    {"gguf/qwen2-Q4_0", false, 0.03},      {"gguf/qwen2-Q5_K", false, 0.03},
    {"gguf/qwen3-BF16", false, 0.015},     {"gguf/qwen3-Q3_K", false, 0.03},
    {"gguf/qwen3-Q8_0", false, 0.03},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static const double exact_bound = 5e-5, greedy_gap = 0.002; /* standard deviations */
static int n_skipped;

/* The logits of all prompts, one schedule. */
struct results {
    float *logits[GOLDEN_PROMPTS];
};

static size_t count_floats(const struct golden *golden, int idx) {
    return (size_t)golden->prompts[idx].n_tokens * golden->n_vocab;
}

static void results_init(struct results *results, const struct golden *golden) {
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        size_t n = count_floats(golden, i);
        results->logits[i] = malloc(n * sizeof(float));
        assert_non_null(results->logits[i]);
        for (size_t k = 0; k < n; k++) results->logits[i][k] = NAN;
    }
}

static void results_deinit(struct results *results) {
    for (int i = 0; i < GOLDEN_PROMPTS; i++) free(results->logits[i]);
}

/* together: all prompts in one batch; else one after another. */
static void compute(struct session *session, const struct golden *golden, bool together,
                    uint32_t chunk, enum session_slots order, struct results *results) {
    struct session_seq seqs[GOLDEN_PROMPTS] = {0};
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        seqs[i].tokens = golden->prompts[i].tokens;
        seqs[i].n_tokens = golden->prompts[i].n_tokens;
        seqs[i].logits = results->logits[i];
    }
    if (together)
        session_run(session, seqs, GOLDEN_PROMPTS, chunk, order);
    else
        for (int i = 0; i < GOLDEN_PROMPTS; i++) session_run(session, &seqs[i], 1, chunk, order);
    session_free_slots(seqs, GOLDEN_PROMPTS);
}

static void check_same_bits(const struct golden *golden, const struct results *a,
                            const struct results *b, const char *schedule) {
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        const float *x = a->logits[i], *y = b->logits[i];
        size_t n = count_floats(golden, i);
        if (!memcmp(x, y, n * sizeof *x)) continue;
        size_t k = 0;
        while (k < n && !memcmp(&x[k], &y[k], sizeof *x)) k++;
        fail_msg("%s: prompt %d, position %zu, logit %zu: %a, alone %a", schedule, i,
                 k / golden->n_vocab, k % golden->n_vocab, (double)y[k], (double)x[k]);
    }
}

/* How far from the reference, as a part of the bound; the largest over the prompts. */
static double measure(const struct golden *golden, const struct results *results, bool is_exact,
                      double bound) {
    double worst = 0;
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        const struct golden_prompt *prompt = &golden->prompts[i];
        double max = 0, squares = 0, norm = 0;
        if (!prompt->logits) continue;
        for (size_t k = 0; k < count_floats(golden, i); k++) {
            double want = (double)prompt->logits[k];
            double diff = fabs((double)results->logits[i][k] - want);
            if (!(diff <= max)) max = diff; /* NaN counts as infinitely far */
            squares += diff * diff;
            norm += want * want;
        }
        double error = is_exact ? max / prompt->std / bound : sqrt(squares / norm) / bound;
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static uint32_t find_best(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Feeds prompt and golden continuation, and asks at each step for the same best token. */
static void check_greedy(struct session *session, const struct golden *golden) {
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        const struct golden_prompt *prompt = &golden->prompts[i];
        if (!prompt->has_greedy) continue;
        uint32_t n = prompt->n_tokens + GOLDEN_GREEDY - 1;
        double std = prompt->std > 0 ? prompt->std : golden->prompts[2].std;
        int32_t *tokens = calloc(n, sizeof *tokens);
        float *logits = calloc((size_t)n * golden->n_vocab, sizeof *logits);
        assert_non_null(tokens);
        assert_non_null(logits);
        memcpy(tokens, prompt->tokens, prompt->n_tokens * sizeof *tokens);
        memcpy(tokens + prompt->n_tokens, prompt->greedy, (GOLDEN_GREEDY - 1) * sizeof *tokens);
        struct session_seq seq = {.tokens = tokens, .n_tokens = n, .logits = logits};
        session_run(session, &seq, 1, 16, SESSION_SLOTS_IN_ORDER);
        for (uint32_t k = 0; k < GOLDEN_GREEDY; k++) {
            const float *row = logits + (size_t)(prompt->n_tokens - 1 + k) * golden->n_vocab;
            if ((double)prompt->gap[k] >= greedy_gap * std)
                assert_int_equal(find_best(row, golden->n_vocab), prompt->greedy[k]);
        }
        session_free_slots(&seq, 1);
        free(tokens);
        free(logits);
    }
}

static const struct {
    const char *name;
    uint32_t n_threads;
    bool together;
    uint32_t chunk;
    enum session_slots order;
} schedules[] = {
    {"one ragged batch", 1, true, 0, SESSION_SLOTS_IN_ORDER},
    {"chunks of 1", 1, true, 1, SESSION_SLOTS_IN_ORDER},
    {"chunks of 3, shuffled slots", 1, true, 3, SESSION_SLOTS_SHUFFLED},
    {"chunks of 16, slots backwards", 1, true, 16, SESSION_SLOTS_BACKWARDS},
    {"alone, 2 threads", 2, false, 0, SESSION_SLOTS_IN_ORDER},
    {"one ragged batch, 2 threads, shuffled slots", 2, true, 0, SESSION_SLOTS_SHUFFLED},
    {"chunks of 3, 2 threads", 2, true, 3, SESSION_SLOTS_IN_ORDER},
    {"chunks of 16, alone, 2 threads", 2, false, 16, SESSION_SLOTS_SHUFFLED},
};

/* All schedules of one precision; the error against the reference as a part of the bound. */
static double check_precision(const char *path, const struct golden *golden,
                              enum radish_precision precision, double bound) {
    struct results alone, other;
    struct session sessions[2];
    bool is_exact = precision == RADISH_PRECISION_EXACT;
    for (uint32_t i = 0; i < 2; i++) {
        const struct session_options options = {.precision = precision, .n_threads = i + 1};
        session_open(path, &options, &sessions[i]);
    }
    assert_int_equal(sessions[0].config.n_vocab, golden->n_vocab);
    results_init(&alone, golden);
    compute(&sessions[0], golden, /*together=*/false, 0, SESSION_SLOTS_IN_ORDER, &alone);
    double error = measure(golden, &alone, is_exact, bound);
    if (is_exact) check_greedy(&sessions[0], golden);

    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        results_init(&other, golden);
        compute(&sessions[schedules[i].n_threads - 1], golden, schedules[i].together,
                schedules[i].chunk, schedules[i].order, &other);
        check_same_bits(golden, &alone, &other, schedules[i].name);
        results_deinit(&other);
    }
    results_deinit(&alone);
    for (uint32_t i = 0; i < 2; i++) session_close(&sessions[i]);
    return error;
}

/* Those that measure() and check_greedy() did not leave out. */
static void report_rows(const struct row *row, const struct golden *golden) {
    unsigned n_logits = 0, n_greedy = 0;
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        n_logits += golden->prompts[i].logits != NULL;
        n_greedy += golden->prompts[i].has_greedy;
    }
    if (row->is_committed) return;
    report_covered(row->name, "logits", n_logits);
    report_covered(row->name, "greedy", n_greedy);
}

static void test_model_gives_the_reference_logits_under_every_schedule(void **state) {
    const struct row *row = *state;
    char path[512], golden_path[512];
    const char *root = row->is_committed ? TEST_DATA : golden_conformance();
    bool is_gguf = !strncmp(row->name, "gguf/", 5);
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
    double exact = check_precision(path, &golden, RADISH_PRECISION_EXACT, exact_bound);
    double fast = check_precision(path, &golden, RADISH_PRECISION_FAST, row->fast_bound);

    printf("%-22s %sexact %5.1f%% of the bound, fast %5.1f%%; %zu schedules, same bits\n",
           row->name, row->is_committed ? "(tests/data) " : "", 100 * exact, 100 * fast,
           sizeof schedules / sizeof *schedules);
    fflush(stdout);
    assert_true(exact <= 1);
    assert_true(fast <= 1);
    report_rows(row, &golden);
    golden_close(&golden);
}

static void test_families_not_served_are_refused_by_name(void **state) {
    (void)state;
    static const char *const others[][2] = {
        {"deepseek_v3", "DeepseekV3ForCausalLM"},
        {"gpt_oss", "GptOssForCausalLM"},
        {"lfm2", "Lfm2ForCausalLM"},
        {"mixtral", "MixtralForCausalLM"},
        {"qwen3_5", "Qwen3_5ForCausalLM"},
        {"qwen3_moe", "Qwen3MoeForCausalLM"},
        {"qwen3_next", "Qwen3NextForCausalLM"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct model_file *file;
        struct model_config config;
        struct radish_error err = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/models/%s", golden_conformance(), others[i][0]);
        if (!file_is_folder(path)) {
            printf("skipped: %s is not there\n", path);
            n_skipped++;
            skip();
        }
        if (model_file_open(path, false, &file, &err) != RADISH_OK) fail_msg("%s", err.msg);
        assert_int_equal(config_read(file, &config, &err), RADISH_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, others[i][1]));
        model_file_close(file);
        snprintf(path, sizeof path, "models/%s", others[i][0]);
        report_covered(path, "refused", 1);
    }
}

int main(void) {
    struct CMUnitTest tests[N_ROWS + 1] = {
        [N_ROWS] = cmocka_unit_test(test_families_not_served_are_refused_by_name)};
    for (int i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = test_model_gives_the_reference_logits_under_every_schedule,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    int n_failed = cmocka_run_group_tests_name("conformance", tests, NULL, NULL);
    if (n_failed) return 1;
    return n_skipped ? 77 : 0;
}
