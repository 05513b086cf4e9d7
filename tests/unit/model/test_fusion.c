/* test_fusion.c - what saves passes changes no bit: groups of products against the operations they
 * are made of, and a last layer that goes on with the wanted rows only against one that computes
 * all; for every family that is served, in both precisions.
 *
 * The batch is three sequences, ragged, in one step: one wants no logits, one its last row, one its
 * last five. The base is the same batch wanting all rows, with --kernel matmul_group=unfused. */
#include "test.h"

#include "model_golden.h"
#include "model_session.h"

#include <unistd.h>

enum { N_SEQS = 3, ROWS_MAX = 64, VOCAB_MAX = 2048 };

static const uint32_t seq_rows[N_SEQS] = {9, 21, 17}, n_wanted[N_SEQS] = {0, 1, 5};

struct step {
    int32_t token_ids[ROWS_MAX], positions[ROWS_MAX], slots[ROWS_MAX];
    uint32_t tables[N_SEQS][ROWS_MAX], logits_rows[ROWS_MAX];
    struct batch_seq seqs[N_SEQS];
    struct batch batch;
};

static void fill(struct step *step, uint32_t n_vocab, bool wants_all) {
    uint32_t row = 0, n_logits = 0;
    for (uint32_t s = 0; s < N_SEQS; s++) {
        const uint32_t n = seq_rows[s], first = wants_all ? 0 : n - n_wanted[s];
        step->seqs[s] = (struct batch_seq){.row_first = row,
                                           .n_rows = n,
                                           .kv_len = n,
                                           .kv_slots = {step->tables[s]},
                                           .logits_first = first,
                                           .logits_row = n_logits};
        for (uint32_t i = 0; i < n; i++, row++) {
            step->token_ids[row] = (int32_t)((row * 37 + 11) % n_vocab);
            step->positions[row] = (int32_t)i;
            step->tables[s][i] = 3 + row;
            step->slots[row] = (int32_t)(3 + row);
            if (i >= first) step->logits_rows[n_logits++] = row;
        }
    }
    step->batch = (struct batch){.n_tokens = row,
                                 .token_ids = step->token_ids,
                                 .positions = step->positions,
                                 .slots = {step->slots},
                                 .n_groups = 1,
                                 .n_seqs = N_SEQS,
                                 .seqs = step->seqs,
                                 .n_logits_rows = n_logits,
                                 .logits_rows = step->logits_rows};
}

/* Logits of the rows the batch wants, each where its row of the batch is. */
static void compute(struct session *session, const struct step *step, float *out) {
    const uint32_t n_vocab = session->config.n_vocab, n = step->batch.n_logits_rows;
    float *logits;
    assert_true(n <= RUNNER_LOGITS_ROWS && n_vocab <= VOCAB_MAX);
    assert_int_equal(runner_step(session->runner, &step->batch), RADISH_OK);
    assert_int_equal(runner_logits(session->runner, 0, n, &logits), RADISH_OK);
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + (size_t)step->logits_rows[i] * n_vocab, logits + (size_t)i * n_vocab,
               n_vocab * sizeof *out);
}

static float base[ROWS_MAX * VOCAB_MAX], other[ROWS_MAX * VOCAB_MAX];

static void compare(const struct session *session, const struct step *step, const char *path,
                    const char *what) {
    const size_t n_vocab = session->config.n_vocab;
    for (uint32_t i = 0; i < step->batch.n_logits_rows; i++) {
        const size_t at = step->logits_rows[i] * n_vocab;
        if (memcmp(base + at, other + at, n_vocab * sizeof *base))
            fail_msg("%s, %s: row %u differs", path, what, step->logits_rows[i]);
    }
}

static void check_model(const char *path, enum radish_precision precision) {
    static struct step all, few;
    const struct session_options unfused = {.precision = precision,
                                            .n_threads = 1,
                                            .kernels = {"matmul_group=unfused"},
                                            .n_kernels = 1},
                                 fused = {.precision = precision, .n_threads = 2};
    struct session session;
    session_open(path, &unfused, &session);
    fill(&all, session.config.n_vocab, true);
    fill(&few, session.config.n_vocab, false);
    compute(&session, &all, base);
    compute(&session, &few, other);
    compare(&session, &few, path, "parts, only rows that are wanted");
    session_close(&session);

    session_open(path, &fused, &session);
    compute(&session, &all, other);
    compare(&session, &all, path, "groups");
    memset(other, 0, sizeof other);
    compute(&session, &few, other);
    compare(&session, &few, path, "groups, only rows that are wanted");
    session_close(&session);
}

static void check_file(void **state) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", golden_conformance(), (const char *)*state);
    if (access(path, R_OK) != 0) skip();
    check_model(path, RADISH_PRECISION_FAST);
    check_model(path, RADISH_PRECISION_EXACT);
}

static void test_the_models_of_the_tests_have_the_same_bits(void **state) {
    (void)state;
    check_model(TEST_DATA "/models/llama", RADISH_PRECISION_FAST);
    check_model(TEST_DATA "/models/llama", RADISH_PRECISION_EXACT);
    check_model(TEST_DATA "/models/qwen3", RADISH_PRECISION_FAST);
}

int main(void) {
    /* Every layer function, with and without biases, gates, second norms and parallel parts; and
     * files whose V and down weights are of another type than Q and K. */
    static const char *const files[] = {
        "models/llama",         "models/llama_bias",   "models/llama_mha", "models/qwen2",
        "models/qwen3",         "models/mistral_swa",  "models/phi3",      "models/granite",
        "models/smollm3",       "models/stablelm",     "models/nemotron",  "models/gpt_neox",
        "models/phi",           "models/cohere2",      "models/glm4",      "models/gemma2",
        "models/gemma3",        "models/olmo2",        "models/exaone4",   "gguf/llama-Q4_K.gguf",
        "gguf/qwen2-Q5_K.gguf", "gguf/qwen3-Q3_K.gguf"};
    enum { N_FILES = sizeof files / sizeof *files };
    struct CMUnitTest tests[N_FILES + 1] = {
        [N_FILES] = cmocka_unit_test(test_the_models_of_the_tests_have_the_same_bits)};
    radish_log_set_level(RADISH_LOG_OFF);
    for (int i = 0; i < N_FILES; i++)
        tests[i] = (struct CMUnitTest){.name = files[i],
                                       .test_func = check_file,
                                       .initial_state = (void *)(uintptr_t)files[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
