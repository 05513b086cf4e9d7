/* ref_attention.c - one segment of attention in plain C: the specification of the class segment.
 *
 *   score[i, j] = scale * (q[i] . k[j]), capped as cap * tanh(score / cap) if asked
 *   max[i] = max_j score[i, j];  p[i, j] = exp(score[i, j] - max[i])
 *   sum[i] = sum_j p[i, j];      acc[i] = sum_j p[i, j] * v[j]
 *
 * j runs over the keys that query i sees, no others: a masked key is skipped, not multiplied by
 * zero. q.k is one chain over the head's elements; sum has 16 partial sums by position mod 16; acc
 * is one chain over keys, ascending. None of these orders depends on which other queries are in the
 * part, so a decode step and a prefill chunk give the same bits. */
#include "cpu_kernel.h"
#include "scalar_exp.h"

#include <string.h>

static inline float load(const void *pool, size_t i, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F32) return ((const float *)pool)[i];
    const uint16_t h = ((const uint16_t *)pool)[i];
    return dtype == RADISH_DTYPE_F16 ? dtype_f16_to_f32(h) : dtype_bf16_to_f32(h);
}

static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void score_keys(const struct attention_part *p, const struct attention_span *span,
                       uint32_t kv_head, uint32_t i, float *scores) {
    const float *q = p->q + (size_t)i * p->head_dim;
    const uint32_t end = min_u32(p->key_end[i], span->key_end);
    for (uint32_t j = max_u32(p->key_first[i], span->key_first); j < end; j++) {
        const size_t at = span->slots[j] * p->k_stride + (size_t)kv_head * p->head_dim;
        float dot = 0;
        for (uint32_t d = 0; d < p->head_dim; d++)
            dot = fmaf(q[d], load(p->k_pool, at + d, p->kv_dtype), dot);
        scores[j] = dot * p->scale;
        if (p->soft_cap > 0) scores[j] = p->soft_cap * scalar_tanh(scores[j] / p->soft_cap);
        if (scores[j] > p->max[i]) p->max[i] = scores[j];
    }
}

static void add_values(const struct attention_part *p, const struct attention_span *span,
                       uint32_t kv_head, uint32_t i, const float *scores, float sums[16]) {
    float *acc = p->acc + (size_t)i * p->v_head_dim;
    const uint32_t end = min_u32(p->key_end[i], span->key_end);
    for (uint32_t j = max_u32(p->key_first[i], span->key_first); j < end; j++) {
        const float weight = scalar_exp(scores[j] - p->max[i]);
        const size_t at = span->slots[j] * p->v_stride + (size_t)kv_head * p->v_head_dim;
        sums[j % 16] += weight;
        for (uint32_t d = 0; d < p->v_head_dim; d++)
            acc[d] = fmaf(weight, load(p->v_pool, at + d, p->kv_dtype), acc[d]);
    }
}

void kv_f32_attention__ref(const struct attention_part *p) {
    const uint32_t n_head_queries = p->n_queries / p->n_kv_heads;
    memset(p->acc, 0, (size_t)p->n_queries * p->v_head_dim * sizeof *p->acc);
    for (uint32_t i = 0; i < p->n_queries; i++) {
        const uint32_t kv_head = i / n_head_queries, query = i % n_head_queries;
        float *scores = p->scores + (size_t)i * ATTN_SCORE_STRIDE, sums[16] = {0};
        const struct attention_span *end = p->spans + p->n_spans;
        p->max[i] = -INFINITY;
        for (const struct attention_span *s = p->spans; s < end; s++)
            if (query - s->query_first < s->n_queries) score_keys(p, s, kv_head, i, scores);
        for (const struct attention_span *s = p->spans; s < end; s++)
            if (query - s->query_first < s->n_queries) add_values(p, s, kv_head, i, scores, sums);
        p->sum[i] = scalar_sum16(sums);
    }
}
