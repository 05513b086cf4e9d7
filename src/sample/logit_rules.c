/* logit_rules.c - penalties are recomputed from the token ids of the request at every token.
 *
 * The problem: penalties need to know which tokens a sequence has seen and how often. The obvious
 * other way is state per sequence, a counter per id of the vocabulary (600 KB for 150,000 ids) or a
 * hash table of those seen, updated at every token and rebuilt after a retraction. But the ids
 * themselves are kept anyway and are all the state there is: walking them costs about a nanosecond
 * a token, against milliseconds for the forward pass that made the row, and there is nothing to
 * keep in step.
 *
 *   for ids of output: counts[id]++            how often
 *   for ids of prompt and output: once per distinct id (SEEN marks it), change its logit
 *   for ids of prompt and output: counts[id] = 0
 *
 *   repetition r:  l > 0 ? l / r : l * r       over prompt and output (Keskar et al. 2019); finite,
 *                                              however small r is
 *   frequency f, presence p:  l -= f * n + (n > 0 ? p : 0)     n = times in output
 *
 * Cost: O(prompt + output) where a penalty is on, O(biases + bans) else. */
#include "sample/logit_rules.h"

#include "base/mem.h"
#include "base/status.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define SEEN 0x80000000u

enum radish_status logit_rules_init(struct logit_rules *rules, uint32_t n_vocab,
                                    struct radish_error *err) {
    *rules = (struct logit_rules){.n_vocab = n_vocab};
    rules->counts = mem_zalloc(n_vocab, sizeof *rules->counts);
    return rules->counts ? RADISH_OK : error_nomem(err);
}

void logit_rules_deinit(struct logit_rules *rules) {
    free(rules->counts);
    *rules = (struct logit_rules){0};
}

static void penalise(struct logit_rules *rules, float *logits,
                     const struct radish_sampling *sampling, const int32_t *ids, size_t n_ids) {
    for (size_t i = 0; i < n_ids; i++) {
        uint32_t id = (uint32_t)ids[i];
        if (id >= rules->n_vocab || rules->counts[id] & SEEN) continue;
        float n = (float)rules->counts[id], l = logits[id];
        float r = sampling->repetition_penalty;
        if (r != 1) l = l > 0 ? fminf(l / r, FLT_MAX) : l * r;
        if (n > 0) l -= sampling->frequency_penalty * n + sampling->presence_penalty;
        logits[id] = l;
        rules->counts[id] |= SEEN;
    }
}

static void clear(struct logit_rules *rules, const int32_t *ids, size_t n_ids) {
    for (size_t i = 0; i < n_ids; i++)
        if ((uint32_t)ids[i] < rules->n_vocab) rules->counts[ids[i]] = 0;
}

bool logit_rules_apply(struct logit_rules *rules, float *logits, const struct sample_args *args) {
    const struct radish_sampling *sampling = args->sampling;
    bool has_repetition = sampling->repetition_penalty != 1;
    bool has_penalty =
        has_repetition || sampling->frequency_penalty != 0 || sampling->presence_penalty != 0;
    bool has_tail = args->n_sampled && args->n_sampled < rules->n_vocab;
    if (has_penalty) {
        size_t n_prompt = has_repetition ? args->n_prompt : 0;
        for (size_t i = 0; i < args->n_output; i++)
            if ((uint32_t)args->output[i] < rules->n_vocab) rules->counts[args->output[i]]++;
        penalise(rules, logits, sampling, args->output, args->n_output);
        penalise(rules, logits, sampling, args->prompt, n_prompt);
        clear(rules, args->output, args->n_output);
        clear(rules, args->prompt, n_prompt);
    }
    for (uint32_t i = 0; i < sampling->n_logit_bias; i++)
        if ((uint32_t)sampling->logit_bias[i].id < rules->n_vocab)
            logits[sampling->logit_bias[i].id] += sampling->logit_bias[i].bias;
    for (size_t i = 0; i < args->n_banned; i++)
        if ((uint32_t)args->banned[i] < rules->n_vocab) logits[args->banned[i]] = -INFINITY;
    for (uint32_t id = args->n_sampled; id && id < rules->n_vocab; id++) logits[id] = -INFINITY;
    return has_penalty || has_tail || sampling->n_logit_bias || args->n_banned;
}
