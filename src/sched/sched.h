/* sched.h - which tokens are computed in the next step: the queue and its order, admission, slots,
 * chunks, twins, retraction, and the life of a sequence. Policy only: no model, no tensor, no text;
 * time comes in as a number, so that tests can invent it.
 *
 *   sched_push          admission (in sched_fill)      last chunk computed     sched_remove
 *      |                       |                              |                     |
 *      v                       v                              v                     v
 *   QUEUED ---------------> PREFILLING ------------------> DECODING ------------> DONE
 *      ^                       |  |                           |                     ^
 *      +---- retracted --------+--|---------------------------+                     |
 *      +--------------------------+---- sched_remove (abort, timeout, end) ---------+
 *
 *   IDLE        not with the scheduler: before push. Holds nothing.
 *   QUEUED      in the queue, in the policy's order. Holds nothing. A retracted one keeps its
 * output. PREFILLING  has a row; its known tokens (prompt, and output made before a retraction)
 * that the tree lacks are computed in chunks. While another sequence computes what it needs (a
 * twin), it waits and takes over what the tree has got; then it holds no private slot. DECODING one
 * token a step, once sched_append() brought it. DONE        holds nothing; the owner may free it.
 *
 * What a sequence may take is estimated, not reserved: prompt plus a share (new_token_ratio) of
 * max_new_tokens. When the estimate fails, sequences are retracted: fewest generated tokens first;
 * they come back to the queue's front and go on where they were, with the same output.
 *
 * Owns: the KV cache (pool, table, tree), the batch. Caller keeps: struct sched_seq, from push
 * until DONE, at one address. Threads: the engine's thread. Nothing is allocated after create.
 *
 * Invariants, recomputed by sched_check():
 *  (1) free + evictable + pinned + private == usable; every slot is owned once (kv_cache_check()).
 *  (2) A running sequence holds one row; n_cached <= held; a waiter holds no private slot.
 *  (3) Every sequence pushed is queued, running, or was removed by its owner: none is lost.
 *  (4) What a step counts (waiters, ends of the lists) equals what walking the lists gives. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "radish.h"

#include "cache/kv_cache.h"
#include "model/batch.h"

/* X(suffix, name on the command line): who is admitted first. */
#define SCHED_POLICY_TABLE(X)                                                                      \
    X(LPM, "lpm")               /* most of it cached first, with ageing: see sched_order.c */      \
    X(FCFS, "fcfs")             /* in order of arrival */                                          \
    X(DFS_WEIGHT, "dfs-weight") /* branch of the tree with the most waiting requests first */      \
    X(LOF, "lof")               /* largest max_new_tokens first */                                 \
    X(RANDOM, "random")                                                                            \
    X(HRRN, "hrrn") /* highest (wait + cost) / cost first */

enum sched_policy {
#define SCHED_ENUM(suffix, name) SCHED_POLICY_##suffix,
    SCHED_POLICY_TABLE(SCHED_ENUM)
#undef SCHED_ENUM
        SCHED_POLICY_COUNT
};

enum sched_state {
    SCHED_SEQ_IDLE,
    SCHED_SEQ_QUEUED,
    SCHED_SEQ_PREFILLING,
    SCHED_SEQ_DECODING,
    SCHED_SEQ_DONE
};

/* One sequence (one choice of a request). The caller sets the first group before push; the
 * scheduler keeps the second, which anyone on the engine's thread may read. */
struct sched_seq {
    const int32_t *prompt; /* [n_prompt], borrowed until DONE; n_prompt >= 1 */
    uint32_t n_prompt;
    const int32_t *output;   /* [max_new_tokens] where the owner keeps what it appends; read up to
                                n_output */
    uint32_t max_new_tokens; /* n_prompt + max_new_tokens <= sched_tokens_max() */
    uint32_t logits_from;    /* prompt rows from here on want logits, and are therefore computed,
                                unless it is pushed with output; n_prompt: only what is sampled
                                from */
    uint32_t namespace_id;   /* shares only with its like */
    bool is_cache_off;       /* neither uses nor feeds the tree */
    bool is_background;      /* behind all others: in the queue, for chunks, in keeping its slots */
    bool is_uncounted;       /* its tokens are in no count of a step but n_uncounted_tokens */
    int32_t priority;        /* higher first, with has_priorities */
    uint64_t arrived_ns;     /* same clock as sched_fill() */
    void *user;              /* batch_seq.user points to the sequence, this to its owner */

    enum sched_state state;
    struct kv_seq kv;    /* while running */
    uint32_t n_output;   /* tokens appended. A sequence may be pushed with some: it goes on */
    uint32_t n_pending;  /* 1: the token behind them is being sampled by the step in flight, and the
                            batch filled behind that computes it */
    uint32_t logits_row; /* of the batch filled last, the one that is sampled from */
    uint32_t n_cached;   /* positions whose KV is written, or will be by the batch just filled */
    uint32_t n_prompt_cached; /* of the prompt, found in the tree at the first admission or followed
                                 then: not computed for this sequence */
    enum radix_miss miss;     /* why no more was found then */
    uint32_t n_retractions;
    uint32_t n_prompt_seen; /* prompt tokens counted in n_prompt_tokens of some step */
    uint32_t logits_next;   /* prompt rows before it have given their logits, or want none */
    bool is_waiting;        /* for a twin, in the batch just filled */
    bool is_front;          /* goes on where it was: before all that have not begun */
    uint64_t order_window;  /* of its arrival, where the policy alone would let some starve */
    uint64_t order_key;     /* of the policy, in the window; the smallest is next */
    uint64_t push_idx;      /* breaks ties */
    uint32_t n_peeked;      /* prefix found when last looked for, and the round of that */
    uint64_t peek_round;
    struct sched_seq *prev, *next; /* in the queue or among the running */
};

struct sched_options {
    struct kv_cache_options kv;  /* n_rows: sequences that run at once */
    uint32_t chunk_tokens;       /* prefill tokens a step */
    uint32_t prefill_tokens_max; /* prompt tokens still to compute among the admitted, past which
                                    no further sequence is admitted */
    enum sched_policy policy;
    double conservativeness; /* scales new_token_ratio; 1 is usual */
    bool has_priorities;
    int32_t preemption_threshold; /* priorities that differ by more preempt */
    uint64_t stall_ns_max;        /* longest gap between two tokens of a stream; 0 = no bound */
    uint64_t seed;                /* of policy random */
};

/* What the batch just filled consists of, and what happened while it was. */
struct sched_step {
    uint32_t n_prefill_seqs; /* sequences with a prefill chunk in it */
    uint32_t n_new_seqs;     /* admitted for the first time, and not going on from output */
    uint32_t n_prefill_tokens;
    uint32_t n_uncounted_tokens; /* prefill of uncounted sequences, which nothing else counts */
    uint32_t n_prompt_tokens;    /* that have KV now, computed or found, and never had before */
    uint32_t n_cached_tokens;    /* of new prompts, found in the tree: at admission or by waiting */
    uint32_t n_decode_seqs;
    uint32_t n_waiting_seqs;   /* twins */
    uint32_t n_retracted_seqs; /* because the pool is full */
    uint32_t n_preempted_seqs; /* for a higher priority */
    uint32_t n_slots_regained; /* by retraction */
    double new_token_ratio_before, new_token_ratio;
    struct sched_seq *const *admitted; /* [n_new_seqs] with n_prompt_cached and miss known;
                                          borrowed until the next fill */
};

struct sched_stats {
    uint32_t n_slots_usable, n_slots_free, n_slots_evictable, n_slots_pinned, n_slots_private;
    uint32_t n_seqs_running, n_seqs_queued, n_seqs_waiting;
    uint32_t n_seqs_sent_back; /* of the queued */
    uint64_t n_retracted_total, n_preempted_total;
    uint64_t n_retracted_input_tokens, n_retracted_output_tokens; /* that they had, in total */
    uint64_t n_waits_total; /* of twins, counted as they begin */
    double new_token_ratio;
};

struct sched;

enum radish_status sched_create(const struct sched_options *options, struct sched **sched_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
void sched_destroy(struct sched *s); /* every sequence must be DONE or never pushed */

/* The most tokens, prompt and output, that a sequence may have: min(context, usable slots). */
uint32_t sched_tokens_max(const struct sched *s);

/* IDLE -> QUEUED. With n_output > 0 the sequence goes on behind tokens that its owner has (a choice
 * that shares its sibling's prompt): it is put in front, like a retracted one. */
void sched_push(struct sched *s, struct sched_seq *seq);

/* Orders the queue, admits, takes slots (evicting, retracting) and fills the batch with every
 * decode and the next prefill chunks. The batch is borrowed until its step has ended and the next
 * fill; n_tokens 0: there is nothing to do. Every DECODING sequence must have got its token since
 * the last call; or one step is in flight (filled, not ended) and sched_can_fill_ahead(): then the
 * tokens that it will sample are named by its logits rows, nobody is sent back, and a sequence
 * whose last token it samples is left out. A sequence that is removed while rows of it are in
 * flight leaves them to nobody (user NULL). */
const struct batch *sched_fill(struct sched *s, uint64_t now_ns, struct sched_step *step_out);

/* Whether one step is in flight and another can be filled behind it: every token that will follow
 * has a slot without sending anybody back, and nobody waits who might be let in by that. */
bool sched_can_fill_ahead(const struct sched *s);

/* The oldest batch in flight has been computed, in duration_ns: what it wrote joins the tree, and
 * chunks to come are sized by what was measured. Before any append or remove of its sequences. */
void sched_step_end(struct sched *s, uint64_t duration_ns);

/* What followed (more logits, sampling, text) took this much longer: counts for the same step. */
void sched_step_more(struct sched *s, uint64_t duration_ns);

/* The batches in flight were not computed: nothing of them joins the tree, and nothing is measured.
 * Their sequences can only be removed. */
void sched_step_fail(struct sched *s);

/* The token that follows; the owner has put it at output[n_output]. Computed in the next step, or
 * in the one in flight that was filled with it pending. */
void sched_append(struct sched *s, struct sched_seq *seq, int32_t token);

/* Any state -> DONE: off the queue, or its row and private slots go back; what it computed stays in
 * the tree. With a step in flight its slots may be given out again at once, since steps run one
 * after another; only a retracted sequence's may not, as its token would be lost: nobody is sent
 * back meanwhile. */
void sched_remove(struct sched *s, struct sched_seq *seq);

void sched_stats(const struct sched *s, struct sched_stats *stats_out);
bool sched_is_idle(const struct sched *s);              /* nothing queued, nothing running */
const struct radix *sched_radix(const struct sched *s); /* for reports; NULL when off */
void sched_flush(struct sched *s);                      /* the tree gives back what nobody uses */
void sched_reset(struct sched *s);                      /* an empty cache; when idle only */
bool sched_check(const struct sched *s);

#endif
