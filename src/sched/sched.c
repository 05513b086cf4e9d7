/* sched.c - the life of a sequence, and the rows of each step.
 *
 * The problem: sequences of unknown length share one pool, one tree and one step at a time. The
 * rules:
 *
 *   1. Every decoding sequence is in every step: a stream never waits for another's prompt. Its
 *      slot comes first (sched_admit.c says what happens when there is none).
 *   2. Then the queue's first are admitted, each with what the tree has of it, pinned.
 *   3. What is left of a step, chunk_tokens or what the stall bound allows, goes to prefilling
 *      sequences in order of admission, in chunks that end on page borders.
 *   4. A prefix is computed once. A sequence whose next tokens are those of a chunk that is in this
 *      batch already, from the same place of the tree, waits for this step, and takes over what the
 *      chunk brought in the next:
 *
 *        step 1   A  computes [0, 512)            B, C wait
 *        step 2   A  computes [512, 1000)         B, C take [0, 512) over, wait
 *        step 3   A  decodes                      B, C take [512, 1000) over; B's own tail; C's
 *
 *      There is no leader to keep track of: who is first in the list leads, step by step. If A is
 *      aborted, sent back or gets no chunk, B simply is not told to wait.
 *
 *   slots of one sequence:   |  shared: the tree's  |  private: written, or to be  | held ahead |
 *                            0                   n_shared                       kv_len       n_held
 *
 * What a step wrote joins the tree when the step has ended, whole pages at a time: so a sequence
 * holds private slots only for its last page and for what it took ahead.
 *
 * A sequence that was sent back, and a choice that starts from its sibling's first token, are
 * nothing special: prompt and output so far are its known tokens, and those that the tree lacks are
 * computed before it decodes.
 *
 * Cost: O(running + rows) a step, nothing is sorted but the queue. Memory: the batch,
 * O(chunk_tokens
 * + n_rows). */
#include "sched/sched_int.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>

enum {
    TWIN_TOKENS = 32,       /* common tokens that are worth waiting for; SGLang's number */
    FIRST_CHUNK_TOKENS = 32 /* beside streams: before anything was measured, and for background */
};
#define STALL_SHARE                                                                                \
    0.8 /* of the stall bound is planned for; the rest is for what was not foreseen */

#define PREFILL_SHARE                                                                              \
    0.25 /* of the decodes' time is prefill's in any case: where decodes alone take as long as the \
            bound, prompts would otherwise come in token by token */

static enum radish_status make_arrays(struct sched *s, struct radish_error *err) {
    uint32_t n_rows = s->options.kv.n_rows;
    bool has_all = true;
    for (uint32_t i = 0; i < SCHED_STEPS_MAX; i++) {
        struct batch *batch = &s->opens[i].batch;
        batch->n_groups = 1;
        batch->token_ids = mem_zalloc(s->tokens_max, sizeof *batch->token_ids);
        batch->positions = mem_zalloc(s->tokens_max, sizeof *batch->positions);
        batch->slots[0] = mem_zalloc(s->tokens_max, sizeof *batch->slots[0]);
        batch->logits_rows = mem_zalloc(s->tokens_max, sizeof *batch->logits_rows);
        batch->seqs = mem_zalloc(n_rows, sizeof *batch->seqs);
        has_all &= batch->token_ids && batch->positions && batch->slots[0] && batch->logits_rows &&
                   batch->seqs;
    }
    s->admitted = mem_zalloc(n_rows, sizeof *s->admitted);
    s->ordered = mem_zalloc(SCHED_PEEKS_MAX, sizeof *s->ordered);
    s->scratch = mem_zalloc(SCHED_PEEKS_MAX, sizeof *s->scratch);
    has_all &= s->admitted && s->ordered && s->scratch;
    return has_all ? RADISH_OK : error_nomem(err);
}

enum radish_status sched_create(const struct sched_options *options, struct sched **sched_out,
                                struct radish_error *err) {
    *sched_out = NULL;
    struct sched *s = calloc(1, sizeof *s);
    if (!s) return error_nomem(err);
    s->options = *options;
    s->tokens_max = options->chunk_tokens + options->kv.n_rows;
    s->peek_round = 1;
    s->is_queue_sorted = true;
    s->ratio = 0.7 * options->conservativeness < 1 ? 0.7 * options->conservativeness : 1;
    s->ratio_min = s->ratio * 0.14;
    s->ratio_decay = (s->ratio - s->ratio_min) / 600;
    pace_init(&s->pace);
    enum radish_status status = kv_cache_create(&options->kv, &s->kv, err);
    if (status == RADISH_OK) status = make_arrays(s, err);
    if (status != RADISH_OK) {
        sched_destroy(s);
        return status;
    }
    *sched_out = s;
    return RADISH_OK;
}

void sched_destroy(struct sched *s) {
    if (!s) return;
    RADISH_INVARIANT(!s->running.n && !s->queue.n, "%u sequences run, %u are queued", s->running.n,
                     s->queue.n);
    kv_cache_destroy(s->kv);
    for (uint32_t i = 0; i < SCHED_STEPS_MAX; i++) {
        struct batch *batch = &s->opens[i].batch;
        free(batch->token_ids);
        free(batch->positions);
        free(batch->slots[0]);
        free(batch->logits_rows);
        free(batch->seqs);
    }
    free(s->admitted);
    free(s->ordered);
    free(s->scratch);
    free(s);
}

uint32_t sched_tokens_max(const struct sched *s) {
    uint32_t n_usable = kv_cache_n_usable(s->kv);
    return s->options.kv.context_tokens < n_usable ? s->options.kv.context_tokens : n_usable;
}

void sched_push(struct sched *s, struct sched_seq *seq) {
    RADISH_INVARIANT(seq->state == SCHED_SEQ_IDLE, "a sequence is pushed twice");
    RADISH_INVARIANT(seq->n_prompt &&
                         (uint64_t)seq->n_prompt + seq->max_new_tokens <= sched_tokens_max(s),
                     "%u + %u tokens, at most %u can be served", seq->n_prompt, seq->max_new_tokens,
                     sched_tokens_max(s));
    RADISH_INVARIANT(!seq->n_output || seq->n_output < seq->max_new_tokens,
                     "%u of %u tokens are there already", seq->n_output, seq->max_new_tokens);
    seq->state = SCHED_SEQ_QUEUED;
    seq->n_cached = seq->n_prompt_cached = seq->n_retractions = 0;
    seq->miss = RADIX_MISS_NONE;
    seq->n_prompt_seen = seq->n_output ? seq->n_prompt : 0;
    seq->logits_next =
        seq->n_output || seq->logits_from > seq->n_prompt ? seq->n_prompt : seq->logits_from;
    seq->is_waiting = false;
    seq->n_pending = 0;
    seq->is_front = seq->n_output > 0;
    seq->push_idx = s->n_pushed++;
    seq_append(&s->queue, seq);
    order_init(s, seq);
}

/* ---- rows
 * ----------------------------------------------------------------------------------------------------
 */

void sched_take(struct sched *s, struct sched_seq *seq, uint32_t n) {
    uint32_t page_slots = s->options.kv.page_slots, run = SCHED_RUN_TOKENS;
    uint32_t n_known = seq_n_known(seq), ahead = (n_known > n ? n_known : n) + run - 1;
    if (ahead > seq_worst(seq)) ahead = seq_worst(seq);
    uint64_t n_plenty = slots_missing(s, seq, ahead) +
                        2 * (uint64_t)(run > page_slots ? run : page_slots) * s->running.n;
    if (kv_cache_n_free(s->kv) < n_plenty) ahead = n;
    enum radish_status status = kv_cache_extend(s->kv, &seq->kv, n, ahead);
    RADISH_INVARIANT(status == RADISH_OK, "no slots for %u tokens, %u free, %u evictable", n,
                     kv_cache_n_free(s->kv), kv_cache_n_evictable(s->kv));
}

/* The first of n rows that wants logits: prompt rows that were asked for, or the last one that is
 * known, if there is something to sample. */
static uint32_t logits_first(const struct sched_seq *seq, uint32_t n) {
    uint32_t kv_len = seq->n_cached + n, first = n;
    uint32_t n_output = seq->n_output + seq->n_pending;
    if (kv_len == seq_n_known(seq) && n_output < seq->max_new_tokens) first = n - 1;
    if (!seq->n_output && seq->logits_next < kv_len && seq->logits_next < seq->n_prompt) {
        uint32_t asked = seq->logits_next > seq->n_cached ? seq->logits_next - seq->n_cached : 0;
        if (asked < first) first = asked;
    }
    return first;
}

/* The next n tokens of a running sequence, which has slots for them, become rows of the batch. */
static void add_rows(struct sched *s, struct sched_seq *seq, uint32_t n) {
    struct batch *batch = s->batch;
    const uint32_t *slots = kv_cache_slots(s->kv, &seq->kv);
    const struct radix_tokens tokens = seq_tokens(seq);
    uint32_t first = batch->n_tokens, kv_len = seq->n_cached + n;
    RADISH_INVARIANT(first + n <= s->tokens_max && batch->n_seqs < s->options.kv.n_rows,
                     "the batch is full");
    RADISH_INVARIANT(kv_len <= kv_cache_n_held(s->kv, &seq->kv) && kv_len <= seq_n_known(seq),
                     "%u tokens, %u slots, %u known", kv_len, kv_cache_n_held(s->kv, &seq->kv),
                     seq_n_known(seq));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t position = seq->n_cached + i;
        batch->token_ids[first + i] = position < seq_n_told(seq) ? radix_token_at(&tokens, position)
                                                                 : -1 - (int32_t)seq->logits_row;
        batch->positions[first + i] = (int32_t)position;
        batch->slots[0][first + i] = (int32_t)slots[position];
    }
    uint32_t n_silent = logits_first(seq, n);
    batch->seqs[batch->n_seqs++] = (struct batch_seq){.row_first = first,
                                                      .n_rows = n,
                                                      .kv_len = kv_len,
                                                      .kv_slots = {slots},
                                                      .logits_first = n_silent,
                                                      .logits_row = batch->n_logits_rows,
                                                      .user = seq};
    for (uint32_t i = n_silent; i < n; i++) batch->logits_rows[batch->n_logits_rows++] = first + i;
    if (n_silent < n) seq->logits_row = batch->n_logits_rows - 1;
    batch->n_tokens += n;
    seq->n_cached = kv_len;
}

static void add_decodes(struct sched *s) {
    for (struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
        if (seq->state != SCHED_SEQ_DECODING) continue;
        if (s->n_open && seq->n_cached == seq_n_known(seq)) continue; /* ends with that step */
        RADISH_INVARIANT(seq->n_output + seq->n_pending && seq->n_cached + 1 == seq_n_known(seq),
                         "a sequence decodes without a token: %u cached of %u + %u + %u",
                         seq->n_cached, seq->n_prompt, seq->n_output, seq->n_pending);
        add_rows(s, seq, 1);
        s->step.n_decode_seqs++;
    }
}

/* ---- chunks
 * --------------------------------------------------------------------------------------------------
 */

/* What a step may still spend on prefill. */
struct budget {
    uint32_t n_tokens;
    bool is_timed;
    double ns;
};

static struct budget make_budget(const struct sched *s) {
    struct budget budget = {.n_tokens = s->options.chunk_tokens};
    if (!s->step.n_decode_seqs || !s->options.stall_ns_max) return budget;
    if (pace_knows_prefill(&s->pace)) {
        double decode_ns = pace_decode_ns(&s->pace, s->step.n_decode_seqs);
        double room_ns = STALL_SHARE * (double)s->options.stall_ns_max - decode_ns;
        budget.is_timed = true;
        budget.ns = room_ns > PREFILL_SHARE * decode_ns ? room_ns : PREFILL_SHARE * decode_ns;
    } else if (budget.n_tokens > FIRST_CHUNK_TOKENS) {
        budget.n_tokens = FIRST_CHUNK_TOKENS;
    }
    return budget;
}

/* How many of the next tokens two sequences at the same place of the tree have in common, up to
 * n_max. */
static uint32_t n_common(const struct sched_seq *a, const struct sched_seq *b, uint32_t n_max) {
    const struct radix_tokens tokens_a = seq_tokens(a), tokens_b = seq_tokens(b);
    uint32_t at = a->kv.n_shared, n = 0;
    if (seq_n_told(b) - at < n_max) n_max = seq_n_told(b) - at;
    while (n < n_max && radix_token_at(&tokens_a, at + n) == radix_token_at(&tokens_b, at + n)) n++;
    return n;
}

/* Whether a chunk in this batch, or in the one in flight, computes what comes next for this
 * sequence, which has written nothing that is not in the tree. Someone who waited already goes on
 * for as little as a page. */
static bool has_leader(const struct sched *s, const struct sched_seq *seq, bool was_waiting) {
    uint32_t page_slots = s->options.kv.page_slots, share_max = seq_share_max(seq);
    uint32_t n_wanted = was_waiting || page_slots > TWIN_TOKENS ? page_slots : TWIN_TOKENS;
    if (seq->kv.ref.node == RADIX_REF_NONE || seq->kv.n_shared + n_wanted > share_max) return false;
    for (uint32_t i = 0; i <= s->n_open; i++) {
        const struct sched_open *open = &s->opens[(s->oldest + i) % SCHED_STEPS_MAX];
        for (uint32_t j = open->n_decode_seqs; j < open->batch.n_seqs; j++) {
            const struct sched_seq *leader = open->batch.seqs[j].user;
            if (leader && leader->kv.ref.node == seq->kv.ref.node &&
                n_common(seq, leader, n_wanted) == n_wanted)
                return true;
        }
    }
    return false;
}

/* Takes over what others have computed by now. */
static void follow(struct sched *s, struct sched_seq *seq) {
    bool is_private = kv_cache_n_held(s->kv, &seq->kv) > seq->kv.n_shared;
    if (is_private || seq->kv.ref.node == RADIX_REF_NONE) return;
    struct radix_tokens tokens = seq_tokens(seq);
    kv_cache_follow(s->kv, &seq->kv, &tokens, seq_share_max(seq));
    uint32_t n_more = seq->kv.n_shared - seq->n_cached;
    seq->n_cached = seq->kv.n_shared;
    seq_note_prompt(s, seq);
    if (seq->n_retractions || seq->n_output) return;
    seq->n_prompt_cached += n_more;
    s->step.n_cached_tokens += n_more;
}

/* Gives back what was taken ahead by a leader that is overtaken: whoever waits holds nothing. */
static void reopen(struct sched *s, struct sched_seq *seq) {
    struct radix_tokens tokens = seq_tokens(seq);
    kv_cache_close(s->kv, &seq->kv);
    enum radish_status status = kv_cache_open(s->kv, seq->namespace_id, /*shares=*/true, &tokens,
                                              seq->n_cached, seq->priority, &seq->kv);
    RADISH_INVARIANT(status == RADISH_OK && seq->kv.n_shared == seq->n_cached,
                     "%u tokens were pinned, %u are found", seq->n_cached, seq->kv.n_shared);
}

/* Rows of the next chunk: what the budget and the slots allow, to a page's end where it is not the
 * last. */
static uint32_t chunk_rows(const struct sched *s, const struct sched_seq *seq,
                           const struct budget *budget) {
    uint32_t page_slots = s->options.kv.page_slots, n_left = seq_n_known(seq) - seq->n_cached;
    uint32_t n = budget->n_tokens;
    if (budget->is_timed) {
        uint32_t n_timely = pace_tokens_in(&s->pace, budget->ns, seq->n_cached);
        bool is_first = s->batch->n_seqs == s->step.n_decode_seqs;
        if (is_first && n_timely < page_slots) n_timely = page_slots; /* prefill goes on */
        if (n_timely < n) n = n_timely;
    }
    uint64_t n_slots = (uint64_t)kv_cache_n_held(s->kv, &seq->kv) - seq->n_cached +
                       slots_available(s) / page_slots * page_slots;
    if (n_slots < n) n = (uint32_t)n_slots;
    if (n >= n_left) return n_left;
    uint32_t n_over = (seq->n_cached + n) % page_slots;
    return n > n_over ? n - n_over : n;
}

static void add_chunk(struct sched *s, struct sched_seq *seq, struct budget *budget) {
    bool was_waiting = seq->is_waiting;
    follow(s, seq);
    seq->is_waiting = seq->n_cached == seq->kv.n_shared && has_leader(s, seq, was_waiting);
    s->n_waits_total += seq->is_waiting && !was_waiting;
    if (seq->is_waiting && kv_cache_n_held(s->kv, &seq->kv) > seq->kv.n_shared) reopen(s, seq);
    uint32_t n = seq->is_waiting ? 0 : chunk_rows(s, seq, budget);
    if (!n) return; /* nothing left for it */
    sched_take(s, seq, seq->n_cached + n);
    if (budget->is_timed) budget->ns -= pace_chunk_ns(&s->pace, n, seq->n_cached);
    budget->n_tokens -= n;
    s->open->pace_step.position_sum += n * ((double)seq->n_cached + ((double)n - 1) / 2);
    s->step.n_prefill_seqs += !seq->is_uncounted;
    *(seq->is_uncounted ? &s->step.n_uncounted_tokens : &s->step.n_prefill_tokens) += n;
    add_rows(s, seq, n);
    seq_note_prompt(s, seq);
    if (seq->n_cached == seq_n_known(seq)) seq->state = SCHED_SEQ_DECODING;
}

/* Background sequences come last, and beside streams get no more than a stream hardly notices. */
static void add_chunks(struct sched *s) {
    struct budget budget = make_budget(s);
    uint32_t n_background = 0;
    for (struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
        n_background += seq->is_background;
        if (seq->state == SCHED_SEQ_PREFILLING && !seq->is_background) add_chunk(s, seq, &budget);
    }
    if (s->step.n_decode_seqs && budget.n_tokens > FIRST_CHUNK_TOKENS)
        budget.n_tokens = FIRST_CHUNK_TOKENS;
    for (struct sched_seq *seq = s->running.head; seq && n_background; seq = seq->next)
        if (seq->state == SCHED_SEQ_PREFILLING && seq->is_background) add_chunk(s, seq, &budget);
    s->n_waiting = 0;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        s->n_waiting += seq->is_waiting;
}

/* ---- steps
 * ---------------------------------------------------------------------------------------------------
 */

bool sched_can_fill_ahead(const struct sched *s) {
    uint64_t n_missing = 0;
    if (s->n_open != 1 || (s->options.has_priorities && s->queue.n)) return false;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        if (seq_goes_on(seq)) n_missing += slots_missing(s, seq, seq_n_known(seq) + 1);
    return n_missing <= slots_available(s);
}

/* The tokens that the step in flight is about to sample are known by its rows. */
static void mark_pending(struct sched *s) {
    for (struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        seq->n_pending += seq_goes_on(seq);
}

static void begin_batch(struct sched *s) {
    RADISH_INVARIANT(!s->n_open || sched_can_fill_ahead(s), "%u steps have not ended", s->n_open);
    s->open = &s->opens[(s->oldest + s->n_open) % SCHED_STEPS_MAX];
    s->open->pace_step = (struct pace_step){0};
    s->open->n_decode_seqs = 0;
    s->batch = &s->open->batch;
    s->batch->n_tokens = s->batch->n_seqs = s->batch->n_logits_rows = 0;
    s->step = (struct sched_step){.new_token_ratio_before = s->ratio};
}

const struct batch *sched_fill(struct sched *s, uint64_t now_ns, struct sched_step *step_out) {
    if (s->ended_ns) pace_add(&s->pace, &s->ended_step, s->ended_ns);
    s->ended_ns = 0;
    s->now_ns = now_ns;
    begin_batch(s);
    if (s->n_open) mark_pending(s);
    admit_decodes(s);
    if (!s->step.n_retracted_seqs) admit_queue(s);
    add_decodes(s);
    s->open->n_decode_seqs = s->step.n_decode_seqs;
    add_chunks(s);
    /* All prefill, and none has a slot left. */
    while (!s->batch->n_tokens && !s->n_open && s->running.n > 1) {
        admit_retract_one(s);
        add_chunks(s);
    }
    if (s->step.n_decode_seqs && !s->step.n_retracted_seqs && s->ratio > s->ratio_min)
        s->ratio =
            s->ratio - s->ratio_decay > s->ratio_min ? s->ratio - s->ratio_decay : s->ratio_min;
    s->step.n_waiting_seqs = s->n_waiting;
    s->step.new_token_ratio = s->ratio;
    s->open->pace_step.n_decodes = s->step.n_decode_seqs;
    s->open->pace_step.n_prefill_tokens = s->step.n_prefill_tokens + s->step.n_uncounted_tokens;
    s->n_open += s->batch->n_tokens > 0;
    *step_out = s->step;
    return s->batch;
}

void sched_step_end(struct sched *s, uint64_t duration_ns) {
    RADISH_INVARIANT(s->n_open, "no step has been begun");
    const struct sched_open *open = &s->opens[s->oldest];
    for (uint32_t i = 0; i < open->batch.n_seqs; i++) {
        struct sched_seq *seq = open->batch.seqs[i].user;
        uint32_t kv_len = open->batch.seqs[i].kv_len;
        if (!seq) continue;
        if (!seq->n_output && seq->logits_next < kv_len)
            seq->logits_next = kv_len < seq->n_prompt ? kv_len : seq->n_prompt;
        if (seq->kv.ref.node == RADIX_REF_NONE ||
            kv_len - seq->kv.n_shared < s->options.kv.page_slots)
            continue;
        struct radix_tokens tokens = seq_tokens(seq);
        kv_cache_commit(s->kv, &seq->kv, &tokens, kv_len);
    }
    s->ended_step = open->pace_step;
    s->ended_ns = duration_ns;
    s->oldest = (s->oldest + 1) % SCHED_STEPS_MAX;
    s->n_open--;
}

void sched_step_more(struct sched *s, uint64_t duration_ns) {
    if (s->ended_ns) s->ended_ns += duration_ns;
}

void sched_step_fail(struct sched *s) {
    s->n_open = 0;
    s->ended_ns = 0;
}

void sched_append(struct sched *s, struct sched_seq *seq, int32_t token) {
    RADISH_INVARIANT(seq->state == SCHED_SEQ_DECODING && seq->n_cached == seq_n_known(seq) &&
                         s->n_open == seq->n_pending && seq->n_output + 1 < seq->max_new_tokens &&
                         seq->output[seq->n_output] == token,
                     "token %u of %u for a sequence in state %d", seq->n_output + 1,
                     seq->max_new_tokens, (int)seq->state);
    seq->n_output++;
    seq->n_pending = 0;
}

/* Its rows of steps in flight are computed for nobody. */
static void disown_rows(struct sched *s, const struct sched_seq *seq) {
    for (uint32_t i = 0; i < s->n_open; i++) {
        struct batch *batch = &s->opens[(s->oldest + i) % SCHED_STEPS_MAX].batch;
        for (uint32_t j = 0; j < batch->n_seqs; j++)
            if (batch->seqs[j].user == seq) batch->seqs[j].user = NULL;
    }
}

void sched_remove(struct sched *s, struct sched_seq *seq) {
    disown_rows(s, seq);
    switch (seq->state) {
    case SCHED_SEQ_IDLE:
    case SCHED_SEQ_DONE: break;
    case SCHED_SEQ_QUEUED:
        s->n_sent_back -= seq_is_sent_back(seq);
        seq_unlink(&s->queue, seq);
        s->n_removed++;
        break;
    case SCHED_SEQ_PREFILLING:
    case SCHED_SEQ_DECODING:
        kv_cache_close(s->kv, &seq->kv);
        seq_unlink(&s->running, seq);
        s->n_removed++;
        break;
    }
    if (seq->is_waiting) s->n_waiting--;
    seq->is_waiting = false;
    seq->state = SCHED_SEQ_DONE;
}

/* ---- what there is
 * -------------------------------------------------------------------------------------------
 */

void sched_stats(const struct sched *s, struct sched_stats *stats_out) {
    const struct radix *radix = kv_cache_radix(s->kv);
    *stats_out = (struct sched_stats){.n_slots_usable = kv_cache_n_usable(s->kv),
                                      .n_slots_free = kv_cache_n_free(s->kv),
                                      .n_slots_evictable = kv_cache_n_evictable(s->kv),
                                      .n_slots_pinned = radix ? radix_n_pinned(radix) : 0,
                                      .n_seqs_running = s->running.n,
                                      .n_seqs_queued = s->queue.n,
                                      .n_seqs_waiting = s->n_waiting,
                                      .n_seqs_sent_back = s->n_sent_back,
                                      .n_retracted_total = s->n_retracted_total,
                                      .n_preempted_total = s->n_preempted_total,
                                      .n_retracted_input_tokens = s->n_retracted_input_tokens,
                                      .n_retracted_output_tokens = s->n_retracted_output_tokens,
                                      .n_waits_total = s->n_waits_total,
                                      .new_token_ratio = s->ratio};
    stats_out->n_slots_private = stats_out->n_slots_usable - stats_out->n_slots_free -
                                 stats_out->n_slots_evictable - stats_out->n_slots_pinned;
}

bool sched_is_idle(const struct sched *s) {
    return !s->queue.n && !s->running.n;
}

const struct radix *sched_radix(const struct sched *s) {
    return kv_cache_radix(s->kv);
}

void sched_flush(struct sched *s) {
    RADISH_INVARIANT(!s->n_open, "the tree is flushed while a step is computed");
    kv_cache_flush(s->kv);
}

void sched_reset(struct sched *s) {
    RADISH_INVARIANT(sched_is_idle(s) && !s->n_open,
                     "the cache is emptied while %u sequences run, %u are queued", s->running.n,
                     s->queue.n);
    kv_cache_reset(s->kv);
}

static bool check_running(const struct sched *s, const struct sched_seq *seq) {
    uint32_t n_held = kv_cache_n_held(s->kv, &seq->kv), n_known = seq_n_known(seq);
    if (seq->state != SCHED_SEQ_PREFILLING && seq->state != SCHED_SEQ_DECODING) return false;
    if (seq->kv.n_shared > seq->n_cached || seq->n_cached > n_held) return false;
    if (n_held > whole_pages(s, seq_worst(seq))) return false;
    if (seq->state == SCHED_SEQ_PREFILLING && seq->n_cached >= n_known) return false;
    if (seq->state == SCHED_SEQ_DECODING && n_known - seq->n_cached > 1) return false;
    return !seq->is_waiting || (seq->state == SCHED_SEQ_PREFILLING && n_held == seq->kv.n_shared);
}

bool sched_check(const struct sched *s) {
    uint32_t n_running = 0, n_queued = 0, n_waiting = 0, n_sent_back = 0;
    const struct sched_seq *last = NULL;
    for (const struct sched_seq *seq = s->running.head; seq; last = seq, seq = seq->next) {
        if (seq->prev != last || !check_running(s, seq)) return false;
        n_running++;
        n_waiting += seq->is_waiting;
    }
    if (last != s->running.tail) return false;
    last = NULL;
    for (const struct sched_seq *seq = s->queue.head; seq; last = seq, seq = seq->next) {
        if (seq->prev != last || seq->state != SCHED_SEQ_QUEUED || seq->n_cached) return false;
        n_queued++;
        n_sent_back += seq_is_sent_back(seq);
    }
    return last == s->queue.tail && n_running == s->running.n && n_queued == s->queue.n &&
           n_waiting == s->n_waiting && n_sent_back == s->n_sent_back &&
           n_running <= s->options.kv.n_rows &&
           s->n_pushed == s->n_removed + n_running + n_queued && kv_cache_check(s->kv);
}
