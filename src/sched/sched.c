/* sched.c - first come first served, worst case reserved, prefill in chunks beside every decode.
 *
 * The problem: many sequences of unknown length share one pool and one step at a time. The idea, in
 * three rules that need no search and no clock:
 *
 *   1. Admission is strictly in order and reserves a sequence's worst case, as a number, not as
 *      slots: what runs can always go on, and the head of the queue gets in after a few ends.
 *   2. Every running decode is in every step: a stream never waits for another's prompt.
 *   3. What is left of a step, chunk_tokens, goes to prefilling sequences in order of admission.
 *
 *   queue:    F -> G -> H              hold nothing
 *   running:  A -> B -> C -> D -> E    A B C decode, D has 900 prompt tokens left
 *   step:     a b c d d d ... d        3 + 512 rows: the chunk goes to D, E waits; F is admitted as
 *                                      soon as prefill_tokens_max and its worst case allow
 *
 *   slots of one sequence:   |  cached  | chunk |  held ahead  |  promised, not yet taken  |
 *                            0       n_cached  kv_len       n_held                     worst case
 *
 * Taking every slot at admission would be simpler still, but then the pool's fill would tell what
 * may be written, not what is. Slots are taken for the whole prompt at once and for RUN_TOKENS
 * decodes at a time, so that a sequence's slots are ascending runs although decodes of many are
 * interleaved.
 *
 * Historical note: admission by an estimate of output lengths (as in SGLang) admits more, but needs
 * retraction when the estimate fails; until that exists only the worst case is safe.
 *
 * Cost: O(running + rows) a step. Memory: the batch, O(chunk_tokens + seqs_running_max). */
#include "sched/sched.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "cache/slot_table.h"

#include <stdlib.h>

enum { RUN_TOKENS = 16 };

struct seq_list {
    struct sched_seq *head, *tail;
    uint32_t n;
};

struct sched {
    struct sched_options options;
    struct kv_pool *pool;
    struct slot_table *table;
    struct seq_list queue, running;
    uint32_t n_slots_promised;    /* to running sequences, beyond what they hold */
    uint32_t n_prefill_remaining; /* prompt tokens of running sequences without KV yet */
    uint32_t tokens_max;          /* rows of the batch */
    struct batch batch;
};

enum radish_status sched_create(const struct sched_options *options, struct sched **sched_out,
                                struct radish_error *err) {
    *sched_out = NULL;
    struct sched *s = calloc(1, sizeof *s);
    if (!s) return error_nomem(err);
    s->options = *options;
    s->tokens_max = options->chunk_tokens + options->seqs_running_max;
    enum radish_status status =
        kv_pool_create(options->n_slots, options->page_slots, &s->pool, err);
    if (status == RADISH_OK)
        status = slot_table_create(s->pool, options->seqs_running_max, options->context_tokens,
                                   &s->table, err);
    if (status != RADISH_OK) {
        sched_destroy(s);
        return status;
    }
    struct batch *batch = &s->batch;
    batch->n_groups = 1;
    batch->token_ids = mem_zalloc(s->tokens_max, sizeof *batch->token_ids);
    batch->positions = mem_zalloc(s->tokens_max, sizeof *batch->positions);
    batch->slots[0] = mem_zalloc(s->tokens_max, sizeof *batch->slots[0]);
    batch->logits_rows = mem_zalloc(s->tokens_max, sizeof *batch->logits_rows);
    batch->seqs = mem_zalloc(options->seqs_running_max, sizeof *batch->seqs);
    if (!batch->token_ids || !batch->positions || !batch->slots[0] || !batch->logits_rows ||
        !batch->seqs) {
        sched_destroy(s);
        return error_nomem(err);
    }
    *sched_out = s;
    return RADISH_OK;
}

void sched_destroy(struct sched *s) {
    if (!s) return;
    RADISH_INVARIANT(!s->running.n && !s->queue.n, "%u sequences run, %u are queued", s->running.n,
                     s->queue.n);
    slot_table_destroy(s->table);
    kv_pool_destroy(s->pool);
    free(s->batch.token_ids);
    free(s->batch.positions);
    free(s->batch.slots[0]);
    free(s->batch.logits_rows);
    free(s->batch.seqs);
    free(s);
}

uint32_t sched_tokens_max(const struct sched *s) {
    uint32_t n_usable = kv_pool_n_usable(s->pool);
    return s->options.context_tokens < n_usable ? s->options.context_tokens : n_usable;
}

static void append_to(struct seq_list *list, struct sched_seq *seq) {
    seq->prev = list->tail;
    seq->next = NULL;
    *(list->tail ? &list->tail->next : &list->head) = seq;
    list->tail = seq;
    list->n++;
}

static void unlink_from(struct seq_list *list, struct sched_seq *seq) {
    *(seq->prev ? &seq->prev->next : &list->head) = seq->next;
    *(seq->next ? &seq->next->prev : &list->tail) = seq->prev;
    seq->prev = seq->next = NULL;
    list->n--;
}

/* Positions that may ever be written: the last token sampled gets no KV. */
static uint32_t worst_tokens(const struct sched_seq *seq) {
    return seq->n_prompt + (seq->max_new_tokens ? seq->max_new_tokens - 1 : 0);
}

static uint32_t worst_slots(const struct sched *s, const struct sched_seq *seq) {
    uint32_t page_slots = s->options.page_slots;
    return (worst_tokens(seq) + page_slots - 1) / page_slots * page_slots;
}

void sched_push(struct sched *s, struct sched_seq *seq) {
    RADISH_INVARIANT(seq->state == SCHED_SEQ_IDLE, "a sequence is pushed twice");
    RADISH_INVARIANT(seq->n_prompt &&
                         (uint64_t)seq->n_prompt + seq->max_new_tokens <= sched_tokens_max(s),
                     "%u + %u tokens, at most %u can be served", seq->n_prompt, seq->max_new_tokens,
                     sched_tokens_max(s));
    seq->state = SCHED_SEQ_QUEUED;
    seq->n_cached = seq->n_output = 0;
    append_to(&s->queue, seq);
}

static bool can_admit(const struct sched *s, const struct sched_seq *seq) {
    if (s->running.n >= s->options.seqs_running_max) return false;
    if (s->n_prefill_remaining &&
        (uint64_t)s->n_prefill_remaining + seq->n_prompt > s->options.prefill_tokens_max)
        return false;
    return worst_slots(s, seq) <= kv_pool_n_free(s->pool) - s->n_slots_promised;
}

static void admit(struct sched *s) {
    struct sched_seq *seq;
    while ((seq = s->queue.head) && can_admit(s, seq)) {
        enum radish_status status = slot_table_take_row(s->table, &seq->row);
        RADISH_INVARIANT(status == RADISH_OK, "%u run, but there is no row", s->running.n);
        unlink_from(&s->queue, seq);
        append_to(&s->running, seq);
        seq->state = SCHED_SEQ_PREFILLING;
        s->n_slots_promised += worst_slots(s, seq);
        s->n_prefill_remaining += seq->n_prompt;
    }
}

/* The next n tokens of a running sequence become rows of the batch. */
static void add_rows(struct sched *s, struct sched_seq *seq, uint32_t n) {
    struct batch *batch = &s->batch;
    uint32_t kv_len = seq->n_cached + n;
    uint32_t ahead = (seq->n_prompt > kv_len ? seq->n_prompt : kv_len) + RUN_TOKENS - 1;
    if (ahead > worst_tokens(seq)) ahead = worst_tokens(seq);
    uint32_t n_held = slot_table_n_held(s->table, seq->row);
    enum radish_status status = slot_table_extend(s->table, seq->row, kv_len, ahead);
    RADISH_INVARIANT(status == RADISH_OK, "%u slots were promised, but are not free", kv_len);
    s->n_slots_promised -= slot_table_n_held(s->table, seq->row) - n_held;

    const uint32_t *slots = slot_table_slots(s->table, seq->row);
    uint32_t first = batch->n_tokens;
    RADISH_INVARIANT(first + n <= s->tokens_max && batch->n_seqs < s->options.seqs_running_max,
                     "the batch is full");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t position = seq->n_cached + i;
        batch->token_ids[first + i] =
            seq->state == SCHED_SEQ_PREFILLING ? seq->prompt[position] : seq->token;
        batch->positions[first + i] = (int32_t)position;
        batch->slots[0][first + i] = (int32_t)slots[position];
    }
    bool is_sampled = kv_len >= seq->n_prompt && seq->max_new_tokens;
    uint32_t logits_first = seq->wants_all_logits ? 0 : is_sampled ? n - 1 : n;
    batch->seqs[batch->n_seqs++] = (struct batch_seq){.row_first = first,
                                                      .n_rows = n,
                                                      .kv_len = kv_len,
                                                      .kv_slots = {slots},
                                                      .logits_first = logits_first,
                                                      .logits_row = batch->n_logits_rows,
                                                      .user = seq};
    for (uint32_t i = logits_first; i < n; i++)
        batch->logits_rows[batch->n_logits_rows++] = first + i;
    batch->n_tokens += n;
    seq->n_cached = kv_len;
}

static void add_decode(struct sched *s, struct sched_seq *seq) {
    RADISH_INVARIANT(seq->n_output && seq->n_cached == seq->n_prompt + seq->n_output - 1,
                     "a sequence decodes without a token: %u cached of %u + %u", seq->n_cached,
                     seq->n_prompt, seq->n_output);
    add_rows(s, seq, 1);
}

static void add_chunk(struct sched *s, struct sched_seq *seq, struct sched_step *step) {
    uint32_t n_budget = s->options.chunk_tokens - step->n_prefill_tokens;
    uint32_t n_left = seq->n_prompt - seq->n_cached, n = n_left < n_budget ? n_left : n_budget;
    if (!n) return;
    step->n_new_seqs += seq->n_cached == 0;
    step->n_prefill_seqs++;
    step->n_prefill_tokens += n;
    add_rows(s, seq, n);
    s->n_prefill_remaining -= n;
    if (seq->n_cached == seq->n_prompt) seq->state = SCHED_SEQ_DECODING;
}

const struct batch *sched_fill(struct sched *s, struct sched_step *step_out) {
    *step_out = (struct sched_step){0};
    s->batch.n_tokens = s->batch.n_seqs = s->batch.n_logits_rows = 0;
    admit(s);
    for (struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
        if (seq->state == SCHED_SEQ_PREFILLING) {
            add_chunk(s, seq, step_out);
        } else {
            add_decode(s, seq);
            step_out->n_decode_seqs++;
        }
    }
    return &s->batch;
}

void sched_append(struct sched *s, struct sched_seq *seq, int32_t token) {
    (void)s;
    RADISH_INVARIANT(seq->state == SCHED_SEQ_DECODING &&
                         seq->n_cached == seq->n_prompt + seq->n_output &&
                         seq->n_output + 1 < seq->max_new_tokens,
                     "token %u of %u for a sequence in state %d", seq->n_output + 1,
                     seq->max_new_tokens, (int)seq->state);
    seq->token = token;
    seq->n_output++;
}

void sched_remove(struct sched *s, struct sched_seq *seq) {
    switch (seq->state) {
    case SCHED_SEQ_IDLE:
    case SCHED_SEQ_DONE: break;
    case SCHED_SEQ_QUEUED: unlink_from(&s->queue, seq); break;
    case SCHED_SEQ_PREFILLING:
    case SCHED_SEQ_DECODING:
        if (seq->state == SCHED_SEQ_PREFILLING)
            s->n_prefill_remaining -= seq->n_prompt - seq->n_cached;
        s->n_slots_promised -= worst_slots(s, seq) - slot_table_n_held(s->table, seq->row);
        slot_table_give_row(s->table, seq->row);
        unlink_from(&s->running, seq);
        break;
    }
    seq->state = SCHED_SEQ_DONE;
}

void sched_stats(const struct sched *s, struct sched_stats *stats_out) {
    *stats_out = (struct sched_stats){.n_slots_usable = kv_pool_n_usable(s->pool),
                                      .n_slots_free = kv_pool_n_free(s->pool),
                                      .n_seqs_running = s->running.n,
                                      .n_seqs_queued = s->queue.n};
}

bool sched_is_idle(const struct sched *s) {
    return !s->queue.n && !s->running.n;
}

bool sched_check(const struct sched *s) {
    uint64_t n_promised = 0, n_prefill = 0, n_held = 0;
    uint32_t n_running = 0, n_queued = 0;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next, n_running++) {
        uint32_t n = slot_table_n_held(s->table, seq->row);
        if (seq->state != SCHED_SEQ_PREFILLING && seq->state != SCHED_SEQ_DECODING) return false;
        if (seq->state == SCHED_SEQ_PREFILLING && seq->n_cached >= seq->n_prompt) return false;
        if (seq->n_cached > n || n > worst_slots(s, seq)) return false;
        if (seq->state == SCHED_SEQ_PREFILLING) n_prefill += seq->n_prompt - seq->n_cached;
        n_held += n;
        n_promised += worst_slots(s, seq) - n;
    }
    for (const struct sched_seq *seq = s->queue.head; seq; seq = seq->next, n_queued++)
        if (seq->state != SCHED_SEQ_QUEUED || seq->n_cached) return false;
    return n_running == s->running.n && n_queued == s->queue.n &&
           n_running + slot_table_n_rows_free(s->table) == s->options.seqs_running_max &&
           n_held == slot_table_n_slots_held(s->table) && n_prefill == s->n_prefill_remaining &&
           n_promised == s->n_slots_promised && n_promised <= kv_pool_n_free(s->pool) &&
           slot_table_check(s->table);
}
