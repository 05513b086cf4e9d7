/* sched_pace.h - how long steps take, learned from steps that were, to say how many prefill tokens
 * fit into a given time. A plain struct without a clock. Threads: the engine's thread. */
#ifndef SCHED_SCHED_PACE_H
#define SCHED_SCHED_PACE_H

#include "radish.h"

/* y = a + b x by weighted least squares, older points fading. */
struct pace_line {
    double w, x, y, xx, xy; /* sums */
};

struct pace {
    struct pace_line decode;  /* ns of a step without prefill, by the number of sequences */
    struct pace_line prefill; /* ns of one prefill token, by its position */
    double margin;            /* >= 1: how much longer than predicted steps were lately */
};

/* What a step consisted of. */
struct pace_step {
    uint32_t n_decodes;
    uint32_t n_prefill_tokens;
    double position_sum; /* of the prefill tokens */
};

void pace_init(struct pace *pace);
void pace_add(struct pace *pace, const struct pace_step *step, uint64_t duration_ns);

bool pace_knows_prefill(const struct pace *pace);
double pace_decode_ns(const struct pace *pace, uint32_t n_decodes);

/* Of one prefill token, wherever; for comparing requests. */
double pace_token_ns(const struct pace *pace);

/* How many tokens from `position` on take at most budget_ns, margin included, and how long n take.
 */
uint32_t pace_tokens_in(const struct pace *pace, double budget_ns, uint32_t position);
double pace_chunk_ns(const struct pace *pace, uint32_t n, uint32_t position);

#endif
