/* model_golden.c - reads golden.safetensors. Data in such files lie at odd addresses: everything is
 * copied out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/safetensors.h"
#include "model_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *golden_conformance(void) {
    const char *path = getenv("RADISH_CONFORMANCE");
    return path && *path ? path : TEST_SOURCE "/../shared/conformance";
}

static const struct safetensors_tensor *find(const struct safetensors *file, const char *kind,
                                             int idx, enum dtype dtype) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, idx);
    const struct safetensors_tensor *tensor = safetensors_find(file, name);
    if (tensor) assert_int_equal(tensor->dtype, dtype);
    return tensor;
}

static void copy_ids(const struct safetensors_tensor *tensor, size_t n, int32_t *out) {
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        memcpy(&id, tensor->data + 8 * i, 8);
        out[i] = (int32_t)id;
    }
}

static double deviation(const float *x, size_t n) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    for (size_t i = 0; i < n; i++) squares += pow((double)x[i] - sum / (double)n, 2);
    return sqrt(squares / (double)n);
}

static void read_prompt(const struct safetensors *file, int idx, struct golden *golden) {
    struct golden_prompt *prompt = &golden->prompts[idx];
    const struct safetensors_tensor *ids = find(file, "prompt", idx, RADISH_DTYPE_I64);
    const struct safetensors_tensor *logits = find(file, "logits", idx, RADISH_DTYPE_F32);
    const struct safetensors_tensor *greedy = find(file, "greedy", idx, RADISH_DTYPE_I64);
    const struct safetensors_tensor *gap = find(file, "gap", idx, RADISH_DTYPE_F32);
    assert_non_null(ids);
    prompt->n_tokens = (uint32_t)ids->shape[0];
    prompt->tokens = calloc(prompt->n_tokens, sizeof(int32_t));
    assert_non_null(prompt->tokens);
    copy_ids(ids, prompt->n_tokens, prompt->tokens);
    if (logits) {
        assert_int_equal(logits->shape[0], prompt->n_tokens);
        golden->n_vocab = (uint32_t)logits->shape[1];
        prompt->logits = malloc(logits->n_bytes);
        assert_non_null(prompt->logits);
        memcpy(prompt->logits, logits->data, logits->n_bytes);
        prompt->std = deviation(prompt->logits, logits->n_bytes / sizeof(float));
    }
    prompt->has_greedy = greedy && gap;
    if (!prompt->has_greedy) return;
    copy_ids(greedy, GOLDEN_GREEDY, prompt->greedy);
    memcpy(prompt->gap, gap->data, sizeof prompt->gap);
}

void golden_open(const char *path, struct golden *golden_out) {
    struct safetensors *file = NULL;
    struct radish_error err = {0};
    memset(golden_out, 0, sizeof *golden_out);
    if (safetensors_open(path, &file, &err) != RADISH_OK) fail_msg("%s", err.msg);
    for (int i = 0; i < GOLDEN_PROMPTS; i++) read_prompt(file, i, golden_out);
    safetensors_close(file);
    assert_true(golden_out->n_vocab > 0);
}

void golden_close(struct golden *golden) {
    for (int i = 0; i < GOLDEN_PROMPTS; i++) {
        free(golden->prompts[i].tokens);
        free(golden->prompts[i].logits);
    }
    memset(golden, 0, sizeof *golden);
}
