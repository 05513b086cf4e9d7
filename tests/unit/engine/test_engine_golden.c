/* Greedy answers of the committed tiny models, through scheduler, pool and sampler, against the
 * reference's: equal for as long as the reference's best token is clearly best. */
#include "test.h"

#include "base/file_map.h"
#include "engine_client.h"
#include "model_golden.h"

static const char *const committed[] = {TEST_DATA "/models/llama", TEST_DATA "/models/qwen3"};
static const char *const conformance[] = {
    "llama",      "llama31",  "llama_bias",  "llama_linear", "llama_mha",    "qwen2",
    "qwen2_yarn", "qwen3",    "mistral_swa", "phi3",         "phi3_partial", "granite",
    "smollm3",    "stablelm", "gpt_neox",    "phi",          "nemotron",     "cohere2",
    "glm4",       "gemma2",   "gemma3",      "olmo2",        "exaone4"};

/* Where `gap` is smaller than this part of the logits' deviation, the order of two tokens is noise.
 */
#define GAP_MIN 0.002

static uint32_t compare(const char *folder, enum radish_precision precision, uint32_t chunk) {
    struct radish_engine_options options = {.n_threads = 2,
                                            .precision = precision,
                                            .kv_tokens_max = 1000,
                                            .context_tokens = 512,
                                            .chunk_tokens = chunk};
    struct radish_model *model;
    struct radish_engine *engine;
    client_open_engine(folder, &options, &model, &engine);
    char path[512];
    snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    struct golden golden;
    golden_open(path, &golden);
    struct client *clients[GOLDEN_PROMPTS];
    for (uint32_t i = 0; i < GOLDEN_PROMPTS; i++) {
        clients[i] = client_create();
        struct radish_request request =
            client_request(golden.prompts[i].tokens, golden.prompts[i].n_tokens, GOLDEN_GREEDY);
        assert_int_equal(client_submit(clients[i], engine, &request, NULL), RADISH_OK);
    }
    uint32_t n_compared = 0;
    double std = golden.prompts[2].std;
    for (uint32_t i = 0; i < GOLDEN_PROMPTS; i++) {
        const struct golden_prompt *prompt = &golden.prompts[i];
        client_wait(clients[i]);
        assert_true(prompt->has_greedy);
        for (uint32_t j = 0; j < GOLDEN_GREEDY && (double)prompt->gap[j] >= GAP_MIN * std; j++) {
            assert_int_equal(clients[i]->choices[0].ids[j], prompt->greedy[j]);
            n_compared++;
        }
        client_destroy(clients[i]);
    }
    golden_close(&golden);
    radish_engine_close(engine);
    radish_model_close(model);
    return n_compared;
}

static void test_greedy_answers_equal_the_reference(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sizeof committed / sizeof *committed; i++)
        for (uint32_t chunk = 1; chunk <= 256; chunk *= 16)
            assert_true(compare(committed[i], RADISH_PRECISION_EXACT, chunk) > 24);
}

static void test_greedy_answers_of_every_family_equal_the_reference(void **state) {
    (void)state;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/models", golden_conformance());
    if (!file_is_folder(folder)) {
        printf("there is no %s\n", folder);
        skip();
    }
    enum { N_FAMILIES = sizeof conformance / sizeof *conformance };
    uint32_t n_compared = 0;
    for (uint32_t i = 0; i < N_FAMILIES; i++) {
        char *path = realpath(golden_conformance(), NULL);
        assert_non_null(path);
        snprintf(folder, sizeof folder, "%s/models/%s", path, conformance[i]);
        free(path);
        n_compared += compare(folder, RADISH_PRECISION_EXACT, 64);
        snprintf(folder, sizeof folder, "models/%s", conformance[i]);
        report_covered(folder, "answers", GOLDEN_PROMPTS);
    }
    /* Of 48 each; none of gemma2, whose soft cap makes its best logits equal. */
    assert_true(n_compared > 40 * N_FAMILIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_answers_equal_the_reference),
        cmocka_unit_test(test_greedy_answers_of_every_family_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
