/* logit_rules.h - what a request changes in its row of logits before anything is chosen: penalties,
 * biases, bans.
 *
 * Owns: a counter per id of the vocabulary, all zero between calls. Threads: one rules object per
 * worker. */
#ifndef SAMPLE_LOGIT_RULES_H
#define SAMPLE_LOGIT_RULES_H

#include "radish.h"

#include "sample/sampler.h"

struct logit_rules {
    uint32_t n_vocab;
    uint32_t *counts; /* [n_vocab] */
};

enum radish_status logit_rules_init(struct logit_rules *rules, uint32_t n_vocab,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void logit_rules_deinit(struct logit_rules *rules);

/* Changes logits[n_vocab] as args ask: penalties, then biases, then bans. Returns whether any may
 * have changed. */
bool logit_rules_apply(struct logit_rules *rules, float *logits, const struct sample_args *args);

#endif
