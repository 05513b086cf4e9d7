/* sched_int.h - the inside of struct sched, for sched*.c and their tests.
 *
 *   sched.c        the life of a sequence, the rows of the batch
 *   sched_order.c  who is next in the queue
 *   sched_admit.c  who may begin, and who must go back when slots run out
 *   sched_pace.c   how many prefill tokens a step may have beside decoding streams */
#ifndef SCHED_SCHED_INT_H
#define SCHED_SCHED_INT_H

#include "sched/sched.h"
#include "sched/sched_pace.h"

#define SCHED_RUN_TOKENS 16  /* decode slots taken at a time, where there are plenty */
#define SCHED_PEEKS_MAX  128 /* prefixes looked up, and sequences put in tree order, in a fill */
#define SCHED_STEPS_MAX  2   /* open at once */

struct seq_list {
    struct sched_seq *head, *tail;
    uint32_t n;
};

/* A batch that was filled: open until its step has ended. */
struct sched_open {
    struct batch batch;
    struct pace_step pace_step;
    uint32_t n_decode_seqs; /* of its sequences, the first ones */
};

struct sched {
    struct sched_options options;
    struct kv_cache *kv;
    struct seq_list queue, running;
    bool is_queue_sorted;
    uint32_t tokens_max; /* rows of a batch */
    struct sched_open opens[SCHED_STEPS_MAX];
    uint32_t oldest, n_open; /* opens[oldest] is the first to end */
    struct sched_open *open; /* being filled, or filled last */
    struct batch *batch;     /* the same one's */
    struct pace pace;
    double ratio, ratio_min, ratio_decay; /* new_token_ratio */
    uint64_t now_ns;
    uint64_t n_pushed, n_removed;
    uint64_t peek_round;
    uint32_t n_waiting, n_sent_back;
    uint64_t n_retracted_total, n_preempted_total;
    uint64_t n_retracted_input_tokens, n_retracted_output_tokens, n_waits_total;
    struct sched_seq **admitted; /* [n_rows] */
    struct sched_seq **ordered;  /* [SCHED_PEEKS_MAX] for dfs-weight, and scratch of it */
    struct sched_seq **scratch;

    struct sched_step step; /* being filled, or filled last */

    /* The step that ended last; duration 0: not measured, or known to the pace. */
    struct pace_step ended_step;
    uint64_t ended_ns;

    /* While admitting. */
    double n_claimed;             /* slots that the running are expected to take yet */
    uint64_t n_prefill_remaining; /* tokens of the running without KV */
};

static inline void seq_append(struct seq_list *list, struct sched_seq *seq) {
    seq->prev = list->tail;
    seq->next = NULL;
    *(list->tail ? &list->tail->next : &list->head) = seq;
    list->tail = seq;
    list->n++;
}

static inline void seq_unlink(struct seq_list *list, struct sched_seq *seq) {
    *(seq->prev ? &seq->prev->next : &list->head) = seq->next;
    *(seq->next ? &seq->next->prev : &list->tail) = seq->prev;
    seq->prev = seq->next = NULL;
    list->n--;
}

/* Tokens that can be named: those whose ids are here, in a prefix of its seq_tokens(). */
static inline uint32_t seq_n_told(const struct sched_seq *seq) {
    return seq->n_prompt + seq->n_output;
}

/* Tokens there are, all but the last of which may have been computed; the one that the step in
 * flight is about to sample included. */
static inline uint32_t seq_n_known(const struct sched_seq *seq) {
    return seq_n_told(seq) + seq->n_pending;
}

/* A token will follow what has been computed or is in flight, and is to be computed in its turn. */
static inline bool seq_goes_on(const struct sched_seq *seq) {
    return seq->state == SCHED_SEQ_DECODING && seq->n_cached == seq_n_known(seq) &&
           seq->n_output + seq->n_pending + 1 < seq->max_new_tokens;
}

static inline struct radix_tokens seq_tokens(const struct sched_seq *seq) {
    return (struct radix_tokens){.head = seq->prompt, .n_head = seq->n_prompt, .tail = seq->output};
}

/* Positions that may be taken over from others: not the last, and none that still owes logits. */
static inline uint32_t seq_share_max(const struct sched_seq *seq) {
    uint32_t n = seq_n_known(seq) - 1;
    return !seq->n_output && seq->logits_next < n ? seq->logits_next : n;
}

/* Positions that may ever be written: the last token sampled gets no KV. */
static inline uint32_t seq_worst(const struct sched_seq *seq) {
    return seq->n_prompt + (seq->max_new_tokens ? seq->max_new_tokens - 1 : 0);
}

static inline uint32_t whole_pages(const struct sched *s, uint32_t n_tokens) {
    uint32_t page_slots = s->options.kv.page_slots;
    return (n_tokens + page_slots - 1) / page_slots * page_slots;
}

static inline uint32_t slots_available(const struct sched *s) {
    return kv_cache_n_free(s->kv) + kv_cache_n_evictable(s->kv);
}

/* Slots that a running sequence lacks for positions [0, n). */
static inline uint32_t slots_missing(const struct sched *s, const struct sched_seq *seq,
                                     uint32_t n) {
    uint32_t n_held = kv_cache_n_held(s->kv, &seq->kv);
    return n > n_held ? whole_pages(s, n - n_held) : 0;
}

/* Prompt tokens up to n_cached are there: those that are for the first time count. */
static inline void seq_note_prompt(struct sched *s, struct sched_seq *seq) {
    uint32_t n = seq->n_cached < seq->n_prompt ? seq->n_cached : seq->n_prompt;
    if (seq->is_uncounted || n <= seq->n_prompt_seen) return;
    s->step.n_prompt_tokens += n - seq->n_prompt_seen;
    seq->n_prompt_seen = n;
}

static inline bool seq_is_sent_back(const struct sched_seq *seq) {
    return seq->state == SCHED_SEQ_QUEUED && seq->n_retractions && !seq->is_background;
}

/* Slots for positions [0, n) of a running sequence, and a run of some more where plenty are free.
 * They must be there. */
void sched_take(struct sched *s, struct sched_seq *seq, uint32_t n);

/* sched_order.c: brings the queue into the policy's order. */
void order_init(struct sched *s, struct sched_seq *seq);
void order_queue(struct sched *s);

/* sched_admit.c */

/* Slots for the next token of every decoding sequence; retracts until they fit. */
void admit_decodes(struct sched *s);
void admit_queue(struct sched *s);
/* Sends back whoever lost least. There must be two running at least. */
void admit_retract_one(struct sched *s);

#endif
