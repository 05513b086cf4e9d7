/* sampler.c - temperature, top_k, top_p and min_p as one cut and one walk in id order.
 *
 * The problem: the textbook way sorts the vocabulary, 150,000 entries a token, and every shortcut
 * tends to change which token a given random number means. The idea: whatever the limits, what they
 * keep is "everything at least as good as some token", in the total order (higher logit, then lower
 * id). So top_k and top_p only look for that token, the cut, and the draw always walks the kept ids
 * in id order:
 *
 *   logits --max, exp--> weights[id]           w = exp((l - max) / T), best = 1
 *   cut    --top_k: quickselect--top_p: quickselect by mass-->  (value, id) of the last one kept
 *   draw:  sum w over kept ids (id order), walk to u * sum
 *
 * top_p keeps a token if the mass before it is < top_p * mass of what top_k left. Only tokens with
 * w >= (1 - top_p) * mass / n can be among them (all others together weigh too little), so that few
 * are looked at. min_p keeps w >= min_p. Pivots come from a hash of the range, so that a row always
 * takes the same way.
 *
 * exp() is our own, polynomial and branch-free: the compiler makes vectors of it, and it gives the
 * same bits on every machine (libm picks a version by CPU). Its error is about 1 ulp.
 *
 * Cost: four to eight passes over the row, about 0.3 ms for 150,000 ids; logprobs two more. */
#include "sample/sampler.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "sample/logit_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GREEDY_BELOW 1e-6f

struct candidate {
    float value;
    int32_t id;
};

struct sampler {
    uint32_t n_vocab;
    struct logit_rules rules;
    float *weights; /* [n_vocab] */
    float *raw;     /* [n_vocab] the row before the rules, where logprobs are wanted */
    struct candidate *candidates; /* [n_vocab] */
};

enum radish_status sampler_create(uint32_t n_vocab, struct sampler **sampler_out,
                                  struct radish_error *err) {
    *sampler_out = NULL;
    struct sampler *s = calloc(1, sizeof *s);
    if (!s) return error_nomem(err);
    s->n_vocab = n_vocab;
    s->weights = mem_zalloc(n_vocab, sizeof *s->weights);
    s->raw = mem_zalloc(n_vocab, sizeof *s->raw);
    s->candidates = mem_zalloc(n_vocab, sizeof *s->candidates);
    enum radish_status status = logit_rules_init(&s->rules, n_vocab, err);
    if (status == RADISH_OK && (!s->weights || !s->raw || !s->candidates))
        status = error_nomem(err);
    if (status != RADISH_OK) {
        sampler_destroy(s);
        return status;
    }
    *sampler_out = s;
    return RADISH_OK;
}

void sampler_destroy(struct sampler *sampler) {
    if (!sampler) return;
    logit_rules_deinit(&sampler->rules);
    free(sampler->weights);
    free(sampler->raw);
    free(sampler->candidates);
    free(sampler);
}

/* exp(x) for x <= 0 (Cephes' polynomial); 0 below -87, where floats end. */
static inline float exp_negative(float x) {
    union {
        float f;
        uint32_t u;
    } z, scale;
    float clamped = x < -87.0f ? -87.0f : x;
    z.f =
        clamped * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer in the low bits */
    float n = z.f - 12582912.0f;
    float r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    scale.u = (z.u + 127u) << 23;
    float y = (p * r * r + r + 1.0f) * scale.f;
    return x < -87.0f ? 0.0f : y;
}

/* weights = exp((logits - max) * inv_temperature); returns their sum, added up in four lanes. */
static double make_weights(const float *logits, uint32_t n, float max, float inv_temperature,
                           float *weights) {
    for (uint32_t i = 0; i < n; i++) weights[i] = exp_negative((logits[i] - max) * inv_temperature);
    double sum[4] = {0};
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (uint32_t lane = 0; lane < 4; lane++) sum[lane] += (double)weights[i + lane];
    for (; i < n; i++) sum[i % 4] += (double)weights[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* The first of the largest, or -1 when the row holds a NaN or +inf, or nothing but -inf. */
static int32_t find_best(const float *logits, uint32_t n) {
    int32_t best = -1;
    float max = -INFINITY;
    bool is_sound = true;
    for (uint32_t i = 0; i < n; i++) {
        is_sound &= logits[i] < INFINITY;
        if (logits[i] > max) {
            max = logits[i];
            best = (int32_t)i;
        }
    }
    return is_sound ? best : -1;
}

static bool is_better(struct candidate a, struct candidate b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* Puts what is better than a pivot in c[lo, hi) before it and returns where the pivot ends up. */
static uint32_t partition(struct candidate *c, uint32_t lo, uint32_t hi) {
    uint32_t at = lo + (uint32_t)(rng_u64(hi, lo) % (hi - lo)), end = lo;
    struct candidate pivot = c[at];
    c[at] = c[hi - 1];
    for (uint32_t i = lo; i + 1 < hi; i++) {
        struct candidate x = c[i];
        if (!is_better(x, pivot)) continue;
        c[i] = c[end];
        c[end++] = x;
    }
    c[hi - 1] = c[end];
    c[end] = pivot;
    return end;
}

/* Brings the k best of c[0, n) to the front, 1 <= k < n, and returns the last of them. */
static struct candidate select_best(struct candidate *c, uint32_t n, uint32_t k) {
    for (uint32_t lo = 0, hi = n;;) {
        uint32_t pivot = partition(c, lo, hi);
        if (pivot == k - 1) return c[pivot];
        if (pivot < k - 1)
            lo = pivot + 1;
        else
            hi = pivot;
    }
}

/* The last of c[0, n) that top_p keeps: those before it weigh less than `target`. n >= 1. */
static struct candidate select_mass(struct candidate *c, uint32_t n, const float *weights,
                                    double target) {
    struct candidate last = c[0];
    double before = 0;
    for (uint32_t lo = 0, hi = n; lo < hi;) {
        uint32_t pivot = partition(c, lo, hi);
        double mass = before;
        for (uint32_t i = lo; i < pivot; i++) mass += (double)weights[c[i].id];
        if (mass < target || pivot == 0) {
            last = c[pivot];
            before = mass + (double)weights[last.id];
            lo = pivot + 1;
        } else {
            hi = pivot;
        }
    }
    return last;
}

/* The worst token that top_k and top_p keep. */
static struct candidate find_cut(struct sampler *s, const float *logits, double mass,
                                 const struct radish_sampling *sampling) {
    struct candidate cut = {-INFINITY, INT32_MAX}, *c = s->candidates;
    const float *weights = s->weights;
    bool has_top_k = sampling->top_k > 0 && (uint32_t)sampling->top_k < s->n_vocab;
    bool has_top_p = sampling->top_p < 1;
    if (!has_top_k && !has_top_p) return cut;
    double weight_min =
        has_top_k ? 0 : 0.99 * (1 - (double)sampling->top_p) * mass / (double)s->n_vocab;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        c[n] = (struct candidate){logits[i], (int32_t)i};
        n += logits[i] > -INFINITY && (double)weights[i] >= weight_min;
    }
    if (has_top_k && (uint32_t)sampling->top_k < n) {
        cut = select_best(c, n, (uint32_t)sampling->top_k);
        n = (uint32_t)sampling->top_k;
    }
    if (has_top_p) {
        double kept = mass;
        if (has_top_k) {
            kept = 0;
            for (uint32_t i = 0; i < n; i++) kept += (double)weights[c[i].id];
        }
        cut = select_mass(c, n, weights, (double)sampling->top_p * kept);
    }
    return cut;
}

static int32_t draw(const struct sampler *s, const float *logits, struct candidate cut, float min_p,
                    double u) {
    double sum = 0, walked = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        struct candidate x = {logits[i], (int32_t)i};
        if (s->weights[i] >= min_p && !is_better(cut, x)) sum += (double)s->weights[i];
    }
    int32_t last = -1;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        struct candidate x = {logits[i], (int32_t)i};
        if (s->weights[i] <= 0 || s->weights[i] < min_p || is_better(cut, x)) continue;
        last = (int32_t)i;
        walked += (double)s->weights[i];
        if (walked > u * sum) break;
    }
    return last;
}

/* Best first; equal logits: the lower id first. */
static uint32_t find_top(const float *logits, uint32_t n, uint32_t n_top,
                         struct radish_logprob *top_out) {
    uint32_t n_found = 0;
    for (uint32_t i = 0; n_top && i < n; i++) {
        float l = logits[i];
        if (n_found == n_top && !(l > top_out[n_found - 1].logprob)) continue;
        uint32_t at = n_found < n_top ? n_found++ : n_top - 1;
        for (; at && l > top_out[at - 1].logprob; at--) top_out[at] = top_out[at - 1];
        top_out[at] = (struct radish_logprob){(int32_t)i, l};
    }
    return n_found;
}

/* Fills the top list; returns what to subtract from a logit, log of the sum of exp. */
static double find_logprobs(struct sampler *s, const float *logits, float max, uint32_t n_top,
                            struct sample_result *result) {
    double log_sum = (double)max + log(make_weights(logits, s->n_vocab, max, 1, s->weights));
    result->n_top = find_top(logits, s->n_vocab, n_top, result->top);
    for (uint32_t i = 0; i < result->n_top; i++)
        result->top[i].logprob = (float)((double)result->top[i].logprob - log_sum);
    return log_sum;
}

void sampler_logprobs(struct sampler *sampler, const float *logits, int32_t id, uint32_t n_top,
                      struct sample_result *result_out) {
    int32_t best = find_best(logits, sampler->n_vocab);
    result_out->status = best < 0 ? RADISH_E_INTERNAL : RADISH_OK;
    result_out->id = id;
    result_out->n_top = 0;
    if (best < 0) return;
    double log_sum = find_logprobs(sampler, logits, logits[best], n_top, result_out);
    result_out->logprob = (float)((double)logits[id] - log_sum);
}

void sampler_sample(struct sampler *sampler, float *logits, const struct sample_args *args,
                    struct sample_result *result_out) {
    const struct radish_sampling *sampling = args->sampling;
    uint32_t n = sampler->n_vocab;
    int32_t best = find_best(logits, n);
    *result_out = (struct sample_result){.status = RADISH_E_INTERNAL, .id = -1};
    if (best < 0) return;
    double log_sum = 0;
    if (args->wants_logprob) {
        log_sum = find_logprobs(sampler, logits, logits[best], args->n_top, result_out);
        memcpy(sampler->raw, logits, n * sizeof *logits);
    }
    logit_rules_apply(&sampler->rules, logits, args);
    best = find_best(logits, n);
    if (best < 0) return;

    int32_t id = best;
    if (sampling->temperature >= GREEDY_BELOW && sampling->top_k != 1) {
        double mass =
            make_weights(logits, n, logits[best], 1 / sampling->temperature, sampler->weights);
        struct candidate cut = find_cut(sampler, logits, mass, sampling);
        id = draw(sampler, logits, cut, sampling->min_p, rng_uniform(args->seed, args->n_output));
    }
    result_out->status = RADISH_OK;
    result_out->id = id;
    if (args->wants_logprob) result_out->logprob = (float)((double)sampler->raw[id] - log_sum);
}
