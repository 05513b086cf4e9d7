/* test_quantised_load.c - models quantised while they are loaded: how far their logits are from
 * those of the model as it is, per type, in both precisions; what their weights take.
 *
 * The models have random weights and are 64 wide, which is the hardest case: nothing averages out.
 * Bounds are what was measured, rounded up; a lower bound shows that something was quantised. */
#include "test.h"

#include "model_golden.h"
#include "model_session.h"
#include "tensor/quantise.h"

#include <math.h>

enum { TOKENS_MAX = 64, PROMPT = 2 /* 45 tokens */ };

static void compute(const char *folder, const char *type, enum radish_precision precision,
                    const struct golden *golden, float *logits_out, uint64_t *bytes_out) {
    char path[300];
    struct session session;
    struct session_options options = {.precision = precision, .n_threads = 1};
    const struct golden_prompt *prompt = &golden->prompts[PROMPT];
    struct session_seq seq = {
        .tokens = prompt->tokens, .n_tokens = prompt->n_tokens, .logits = logits_out};
    if (type) {
        options.weights.is_quantised = true;
        assert_true(quantise_type_find(type, &options.weights.quant_dtype));
    }
    snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, folder);
    session_open(path, &options, &session);
    *bytes_out = session.weights->bytes;
    session_run(&session, &seq, 1, 0, SESSION_SLOTS_IN_ORDER);
    session_free_slots(&seq, 1);
    session_close(&session);
}

static double relative_l2(const float *x, const float *due, size_t n) {
    double error = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)due[i]) * ((double)x[i] - (double)due[i]);
        total += (double)due[i] * (double)due[i];
    }
    return sqrt(error / total);
}

static void check_types(const char *folder) {
    /* K types do not fit rows of 64 and become q5_0, q5_1 and q8_0. */
    static const struct {
        const char *type;
        double bound;
    } cases[] = {{"q8_0", 0.03}, {"q6_k", 0.03}, {"q5_k", 0.16}, {"q5_1", 0.16},
                 {"q5_0", 0.18}, {"q4_k", 0.18}, {"q4_1", 0.3},  {"q4_0", 0.32}};
    struct golden golden;
    char path[300];
    snprintf(path, sizeof path, "%s/models/%s/golden.safetensors", TEST_DATA, folder);
    golden_open(path, &golden);
    const struct golden_prompt *prompt = &golden.prompts[PROMPT];
    assert_true(prompt->logits && prompt->n_tokens <= TOKENS_MAX);
    const size_t n = (size_t)prompt->n_tokens * golden.n_vocab;
    float *exact = malloc(n * sizeof *exact), *fast = malloc(n * sizeof *fast);
    uint64_t plain_bytes, bytes;
    assert_non_null(exact);
    assert_non_null(fast);
    compute(folder, NULL, RADISH_PRECISION_FAST, &golden, fast, &plain_bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *type = cases[i].type;
        compute(folder, type, RADISH_PRECISION_FAST, &golden, fast, &bytes);
        assert_true(bytes < plain_bytes);
        compute(folder, type, RADISH_PRECISION_EXACT, &golden, exact, &bytes);
        assert_true(bytes >= plain_bytes); /* f32 panels */
        const double error = relative_l2(exact, prompt->logits, n);
        const double between = relative_l2(fast, exact, n);
        printf("%s %s: from the reference %.4f, fast from exact %.4f\n", folder, type, error,
               between);
        assert_true(error < cases[i].bound && error > cases[i].bound / 4);
        assert_true(between > 0 && between < 0.03);
    }
    free(exact);
    free(fast);
    golden_close(&golden);
}

static void test_llama_stays_near_its_reference(void **state) {
    (void)state;
    check_types("llama");
}

static void test_qwen3_with_tied_embeddings_stays_near_its_reference(void **state) {
    (void)state;
    check_types("qwen3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_stays_near_its_reference),
        cmocka_unit_test(test_qwen3_with_tied_embeddings_stays_near_its_reference),
    };
    radish_log_set_level(RADISH_LOG_OFF); /* K types warn that they do not fit */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
