/* sched_sim.h - a model, a clock and callers for the scheduler, none of them real.
 *
 * The "KV" of a position is a hash of everything before it, its namespace included, and the pool is
 * an array of such hashes. A row reads what stands in the slots it was given; if that is not
 * exactly what its own tokens would have left there, somebody else's KV was about to be used. The
 * next token is a function of the hash, so what an answer must be is known beforehand, however it
 * was scheduled. Every step ends with sched_check().
 *
 * With runs_ahead the next batch is filled while one is in flight, whenever the scheduler lets it.
 * What a step reads and writes is then what was in the slot table when it was filled, and it is
 * computed as late as can be: when it ends. Rows left to nobody write rubbish to their slots. */
#ifndef SCHED_SIM_H
#define SCHED_SIM_H

#include "sched/sched.h"

#define SIM_TOKENS_MAX 4608 /* prompt and output of one request */
#define SIM_VOCAB      1000

struct sim_request {
    struct sched_seq seq;
    int32_t tokens[SIM_TOKENS_MAX]; /* prompt, then output */
    uint32_t n_wanted;              /* output ends after as many, or at max_new_tokens */
    uint32_t n_output;
    bool is_live;
    uint64_t first_ns, last_ns; /* when its first and its last token came */
    uint64_t gap_ns_max;        /* between two of its tokens */
    uint32_t n_logits_rows;     /* of the prompt, seen */
    uint64_t n_computed;        /* rows of it in any step */
};

/* ns of a step: base + decode * sequences + sum over prefill tokens of (token + depth * position),
 * and then up to `noise` of that more. */
struct sim_cost {
    double base, decode, token, depth, noise;
};

/* A step that was filled and has not ended. */
struct sim_flight {
    const struct batch *batch;
    uint32_t n_logits_rows;
    struct sched_step step;
    uint32_t *slots;                   /* [sum of kv_len] of its sequences, as they were */
    const struct sim_request **owners; /* [n_logits_rows] whose each logits row is ... */
    uint32_t *positions;               /* ... and at which position */
};

struct sim {
    struct sched *s;
    struct sched_options options;
    struct sim_cost cost;
    uint64_t *kv; /* [n_slots] */
    uint64_t now_ns, n_steps, n_computed, n_retracted, n_preempted, n_random;
    struct sched_step step; /* the last */
    bool checks_all;        /* sched_check() in every step, and all slots of every row */
    bool runs_ahead;
    uint32_t lead_1_in; /* with runs_ahead: 1 of so many steps leads nothing; 0: each may */
    struct sim_flight flights[3]; /* the one that ended last, then those in flight */
    uint32_t n_flights;
    uint64_t n_ahead, n_dropped; /* batches filled behind a step; rows computed for nobody */
    /* Called for each request that ended, if set. */
    void (*on_end)(struct sim *sim, struct sim_request *request);
    void *user;
};

/* 1,024 slots of one, 512 positions, 8 rows, chunks of 64, fcfs, no stall bound, 1 us a token. */
struct sched_options sim_options(void);

void sim_open(const struct sched_options *options, struct sim *sim_out);
void sim_close(struct sim *sim); /* everything must have ended; the slots must be back */

/* A request whose prompt is `n_trunk` tokens of the text `trunk`, then tokens of the text `own`. */
void sim_prompt(struct sim_request *request, uint64_t trunk, uint32_t n_trunk, uint64_t own,
                uint32_t n_prompt, uint32_t max_new_tokens);
void sim_push(struct sim *sim, struct sim_request *request);
void sim_abort(struct sim *sim, struct sim_request *request);

/* Fills a batch, if there is one, and ends what is to end; false: there was nothing to do. */
bool sim_step(struct sim *sim);
/* Steps until nothing is left; fails the test after n_steps_max. */
void sim_drain(struct sim *sim, uint32_t n_steps_max);

/* Slots that are free or hold what nobody pins are all there are. */
void sim_assert_baseline(const struct sim *sim);

#endif
