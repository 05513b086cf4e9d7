/* expect.c - what the reference makes of the golden vectors' inputs.
 *
 * The plain C kernels of the CPU are the specification (they are held against double arithmetic by
 * the kernel tests); precision exact leaves activations and sums in float32. Draws are the host
 * sampler's, at random numbers that both sides know. */
#include "cases.h"
#include "operations.h"

#include "base/mem.h"
#include "base/status.h"
#include "sample/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double largest(const struct vector_array *a, const uint8_t *data) {
    const size_t n = a->n_bytes / dtype_block_bytes(a->dtype);
    double max = 0;
    for (size_t i = 0; i < n; i++) {
        float x;
        dtype_to_f32(a->dtype, data + i * dtype_block_bytes(a->dtype), &x, 1);
        max = fmax(max, fabs((double)x));
    }
    return max;
}

/* The largest sum of absolute terms of a product; 0 when out of memory. */
static double largest_sum(const struct vector_case *c) {
    const uint32_t n_rows = vector_u32(c, "n_rows"), n_in = vector_u32(c, "n_in");
    const uint32_t n_out = vector_u32(c, "n_out"), stride = vector_u32(c, "x_stride");
    const enum dtype dtype = vector_dtype(c, "weight_dtype");
    const float *x = (const float *)(const void *)vector_find(c, "x")->data;
    uint64_t row_bytes = 0;
    double max = 0;
    float *w = mem_alloc(n_in, sizeof *w);
    if (!w || !dtype_row_bytes(dtype, n_in, &row_bytes)) {
        free(w);
        return 0;
    }
    for (uint32_t o = 0; o < n_out; o++) {
        dtype_to_f32(dtype, vector_find(c, "matrix")->data + o * row_bytes, w, n_in);
        for (uint32_t r = 0; r < n_rows; r++) {
            double sum = 2; /* bias and what was there */
            for (uint32_t i = 0; i < n_in; i++)
                sum += fabs((double)w[i] * (double)x[(size_t)r * stride + i]);
            max = fmax(max, sum);
        }
    }
    free(w);
    return max;
}

static double find_bound(const struct vector_case *c) {
    double bound = 0;
    if (c->op == KERNEL_OP_MATMUL) return largest_sum(c);
    /* Each of two factors is off by its own sums, and as large as the other's at most. */
    if (c->op == KERNEL_OP_MATMUL_GROUP) return 2 * largest_sum(c) * largest_sum(c);
    if (c->op == KERNEL_OP_ATTENTION)
        return largest(vector_find(c, "v_pool"), vector_find(c, "v_pool")->data);
    for (uint32_t i = 0; i < c->n_arrays; i++)
        if (c->arrays[i].is_out && c->arrays[i].dtype != RADISH_DTYPE_I32)
            bound = fmax(bound, largest(&c->arrays[i], c->arrays[i].expected));
    return bound;
}

/* The host's tokens. Its random number for output 0 of seed r is where row r's draw falls. */
static enum radish_status expect_tokens(struct vector_case *c, struct radish_error *err) {
    const uint32_t n_rows = vector_u32(c, "n_rows"), width = vector_u32(c, "width");
    float *row = (float *)(void *)vector_find(c, "logits")->data;
    int32_t *tokens = (int32_t *)(void *)vector_find(c, "tokens")->expected;
    const struct sample_draw *draws =
        (const struct sample_draw *)(const void *)vector_find(c, "draws")->data;
    struct sampler *sampler = NULL;
    float *scratch = mem_alloc(width, sizeof *scratch);
    if (!scratch) return error_nomem(err);
    enum radish_status status = sampler_create(width, &sampler, err);
    for (uint32_t r = 0; r < n_rows && status == RADISH_OK; r++, row += width) {
        const struct radish_sampling sampling = {.temperature = draws[r].temperature,
                                                 .top_k = (int32_t)draws[r].top_k,
                                                 .top_p = draws[r].top_p,
                                                 .min_p = draws[r].min_p,
                                                 .repetition_penalty = 1};
        const struct sample_args args = {.sampling = &sampling, .seed = r};
        struct sample_result result = {.id = -1};
        memcpy(scratch, row, width * sizeof *row);
        if (!draws[r].is_off) sampler_sample(sampler, scratch, &args, &result);
        tokens[r] = result.id;
    }
    sampler_destroy(sampler);
    free(scratch);
    return status;
}

static enum radish_status expect_case(struct device *device, struct vector_case *c,
                                      struct radish_error *err) {
    uint8_t *results[VECTOR_ARRAYS_MAX];
    for (uint32_t i = 0; i < c->n_arrays; i++) results[i] = c->arrays[i].expected;
    if (c->op == KERNEL_OP_SAMPLE)
        RADISH_TRY(expect_tokens(c, err));
    else
        RADISH_TRY(operations_run(device, c, results, err));
    vector_set(c, "bound", "%.9g", find_bound(c));
    return RADISH_OK;
}

enum radish_status cases_expect(struct vectors *vectors, struct radish_error *err) {
    static const char *const kernels[] = {
        "embed=ref",         "rmsnorm=ref",   "layernorm=ref", "prepare=ref",
        "matmul=ref",        "silu_mul=ref",  "activate=ref",  "soft_cap=ref",
        "rope_kv_store=ref", "attention=ref", "keep_rows=ref", "matmul_group=ref_unfused",
    };
    const struct device_options options = {.n_threads = 1,
                                           .precision = RADISH_PRECISION_EXACT,
                                           .kernels = kernels,
                                           .n_kernels = sizeof kernels / sizeof *kernels};
    struct device *device = NULL;
    RADISH_TRY(device_open("cpu", &options, &device, err));
    enum radish_status status = operations_reserve(device, err);
    for (uint32_t i = 0; i < vectors->n_cases && status == RADISH_OK; i++)
        status = expect_case(device, &vectors->cases[i], err);
    device_close(device);
    return status;
}
