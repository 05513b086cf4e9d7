/* sched.h - which tokens are computed in the next step: the queue, admission, slots, chunks, and
 * the life of a sequence. Policy only: no model, no tensor, no text, no clock.
 *
 *   sched_push          admission (in sched_fill)      last chunk computed     sched_remove
 *      |                       |                              |                     |
 *      v                       v                              v                     v
 *   QUEUED ---------------> PREFILLING ------------------> DECODING ------------> DONE
 *      |                       |                                                    ^
 *      +-----------------------+---------- sched_remove (abort, timeout, end) ------+
 *
 *   IDLE        not with the scheduler: before push. Holds nothing.
 *   QUEUED      in the queue, first come first served. Holds nothing.
 *   PREFILLING  has a row and slots for the tokens cached so far; n_cached < n_prompt.
 *   DECODING    n_cached >= n_prompt; one token a step, once sched_append() brought it.
 *   DONE        holds nothing; the owner may free it.
 *
 * Admission reserves a sequence's worst case (prompt + max_new_tokens), so that a running sequence
 * never waits for a slot; slots themselves are taken as they are written. It is strictly in order:
 * the head waits until its worst case fits, nobody overtakes, so nobody starves.
 *
 * Owns: pool and slot table, the batch. Caller keeps: struct sched_seq, from push until DONE, at
 * one address. Threads: the engine's thread. Nothing is allocated after create.
 *
 * Invariants, recomputed by sched_check():
 *  (1) free + private == usable; every slot is owned once (slot_table_check()).
 *  (2) A running sequence holds exactly one row; held slots <= its worst case in whole pages.
 *  (3) n_slots_promised == sum over running of (worst case - held) <= free. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "radish.h"

#include "model/batch.h"

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
    uint32_t max_new_tokens; /* n_prompt + max_new_tokens <= sched_tokens_max() */
    bool wants_all_logits;   /* of every prompt row, not only what is sampled from */
    void *user;              /* batch_seq.user points to the sequence, this to its owner */

    enum sched_state state;
    uint32_t row;      /* of the slot table, while running */
    uint32_t n_cached; /* positions whose KV is written (or will be, by the batch just filled) */
    uint32_t n_output; /* tokens appended */
    int32_t token;     /* the last one appended: input of the next step */
    struct sched_seq *prev, *next; /* in the queue or among the running */
};

struct sched_options {
    uint32_t n_slots, page_slots; /* of the pool; n_slots counts the padding page */
    uint32_t context_tokens;      /* positions of a sequence */
    uint32_t seqs_running_max;    /* sequences that hold slots */
    uint32_t chunk_tokens;        /* prefill tokens a step, shared in order of admission */
    uint32_t prefill_tokens_max; /* prompt tokens still to compute among the admitted, past which no
                                    further sequence is admitted to prefill */
};

/* What the batch just filled consists of. */
struct sched_step {
    uint32_t n_prefill_seqs; /* sequences with a prefill chunk in it */
    uint32_t n_new_seqs;     /* of these, with their first chunk */
    uint32_t n_prefill_tokens;
    uint32_t n_cached_tokens; /* of the new ones' prompts, found in the pool */
    uint32_t n_decode_seqs;
};

struct sched_stats {
    uint32_t n_slots_usable, n_slots_free;
    uint32_t n_seqs_running, n_seqs_queued;
};

struct sched;

enum radish_status sched_create(const struct sched_options *options, struct sched **sched_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
void sched_destroy(struct sched *s); /* every sequence must be DONE or never pushed */

/* The most tokens, prompt and output, that a sequence may have: min(context, usable slots). */
uint32_t sched_tokens_max(const struct sched *s);

/* IDLE -> QUEUED. */
void sched_push(struct sched *s, struct sched_seq *seq);

/* Admits what fits, takes slots and fills the batch with every decode and the next prefill chunks:
 * QUEUED -> PREFILLING, and PREFILLING -> DECODING for a sequence whose last chunk is in the batch.
 * The batch is borrowed until the next call; n_tokens 0: there is nothing to do. Every DECODING
 * sequence must have got its token since the last call. */
const struct batch *sched_fill(struct sched *s, struct sched_step *step_out);

/* The token that follows: computed in the next step. */
void sched_append(struct sched *s, struct sched_seq *seq, int32_t token);

/* Any state -> DONE: off the queue, or its row and slots go back. Not between sched_fill() and the
 * end of the step that computes the batch. */
void sched_remove(struct sched *s, struct sched_seq *seq);

void sched_stats(const struct sched *s, struct sched_stats *stats_out);
bool sched_is_idle(const struct sched *s); /* nothing queued, nothing running */
bool sched_check(const struct sched *s);

#endif
