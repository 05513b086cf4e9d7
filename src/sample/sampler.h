/* sampler.h - one row of logits to one token, as a function of that row and the request alone.
 *
 * Order: logprobs are taken from the raw row; then repetition penalty (tokens of prompt and
 * output), frequency and presence penalties (tokens of output), logit_bias, the mask of end tokens
 * before min_new_tokens; then temperature, top_k, top_p (over what top_k left, renormalised), min_p
 * (relative to the best token), and a draw. Equal logits: the lower id comes first, everywhere.
 * The random number is rng_uniform(seed, output index): the same alone and in any batch.
 *
 * Owns: scratch for one row. Threads: one sampler per worker, one at a time. Nothing is allocated
 * after create; a row costs O(vocabulary), never a sort of it. */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "radish.h"

struct sampler;

enum radish_status sampler_create(uint32_t n_vocab, struct sampler **sampler_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void sampler_destroy(struct sampler *sampler);

/* Whose row it is. Everything is borrowed for the call. */
struct sample_args {
    const struct radish_sampling *sampling; /* has been checked; its seed is not looked at */
    uint64_t seed;
    const int32_t *prompt; /* [n_prompt] for the penalties; ids in the vocabulary */
    size_t n_prompt;
    const int32_t *output; /* [n_output]; n_output is also the counter of the draw */
    size_t n_output;
    const int32_t *banned; /* [n_banned] never sampled: end tokens before min_new_tokens */
    size_t n_banned;
    uint32_t
        n_sampled; /* ids [n_sampled, n_vocab) have no text and are never sampled; 0 = n_vocab */
    bool wants_logprob;
    uint32_t n_top;       /* <= RADISH_TOP_LOGPROBS_MAX, with wants_logprob */
    const int32_t *named; /* [n_named] ids in the vocabulary, with wants_logprob */
    uint32_t n_named;     /* <= RADISH_LOGPROB_IDS_MAX */
};

struct sample_result {
    enum radish_status status; /* OK, or E_INTERNAL: NaN or +inf in the row, or nothing left */
    int32_t id;
    float logprob; /* of id, with wants_logprob */
    uint32_t n_top;
    struct radish_logprob top[RADISH_TOP_LOGPROBS_MAX]; /* best first */
    uint32_t n_named;
    struct radish_logprob named[RADISH_LOGPROB_IDS_MAX];
};

/* Samples from logits[n_vocab], which it changes. */
void sampler_sample(struct sampler *sampler, float *logits, const struct sample_args *args,
                    struct sample_result *result_out);

/* Log probability of `id`, of the n_top best and of the ids named by args, which tell nothing else,
 * of the row as it is: result_out->id = id. */
void sampler_logprobs(struct sampler *sampler, const float *logits, int32_t id,
                      const struct sample_args *args, struct sample_result *result_out);

/* Checks the limits of every field (docs/API.md): E_INVALID or E_LIMIT naming it. */
enum radish_status sampling_check(const struct radish_sampling *sampling, uint32_t n_vocab,
                                  struct radish_error *err) RADISH_CHECK_RESULT;

#endif
