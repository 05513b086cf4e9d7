/* sched_admit.c - who may begin, and who must go back when slots run out.
 *
 * The problem: nobody knows how long an answer will be. Reserving max_new_tokens for each leaves
 * most of the pool empty; reserving nothing fills it until nobody can go on. The idea, SGLang's:
 * expect a share of it, new_token_ratio, which sinks while all goes well and is raised when it
 * did not, and when the pool is full after all, send somebody back:
 *
 *   a candidate needs   whole pages of (known - cached) + min(max_new - output, CLIP) + a page
 *   there must be       free + evictable - sum over the running of
 *                           (slots lacking for known tokens + min(max_new - output, CLIP) * ratio)
 *
 *   ratio:  starts at min(0.7 c, 1), sinks to 0.14 of that in DECAY_STEPS decode steps;
 *           after a retraction  c * (generated + 20 n) / (max_new + 1), summed over the n left
 *
 * c is --schedule-conservativeness. The candidate's own prefix is pinned while it is tested, so it
 * does not count as evictable. The queue is strictly in order: if its head does not fit, nobody is
 * admitted, so a large one is not starved by small ones. If nothing runs, the head is admitted
 * without a test: alone it always fits.
 *
 * Retracted are those that lose least: fewest generated tokens first, then the longest prompt; one
 * always stays. What they computed is in the tree, and mostly still there when they come back;
 * their output is kept, so that to the model they are a longer prompt. With priorities the same
 * happens to the lower ones when somebody far higher does not fit otherwise. What that would gain
 * is estimated from above (shared prefixes count for each of the victims), so at worst somebody
 * goes back for nothing and returns in the next step.
 *
 * Decodes take their slots before anybody is admitted, and prefill chunks take what is left: so an
 * estimate that was wrong never stops a stream that is not itself the victim.
 *
 * Cost: O(running) a step and a retraction. */
#include "sched/sched_int.h"

#include "base/invariant.h"

enum {
    CLIP_TOKENS = 4096, /* of max_new_tokens count at most; SGLang's number */
    RETRACT_AHEAD = 20, /* decode steps that what is left should last; SGLang's number */
};

static uint32_t clipped_rest(const struct sched_seq *seq) {
    uint32_t n = seq->max_new_tokens - seq->n_output;
    return n < CLIP_TOKENS ? n : CLIP_TOKENS;
}

static double claim_of(const struct sched *s, const struct sched_seq *seq) {
    return slots_missing(s, seq, seq_n_known(seq)) + clipped_rest(seq) * s->ratio;
}

/* ---- retraction
 * -----------------------------------------------------------------------------------------------
 */

static void send_back(struct sched *s, struct sched_seq *seq) {
    uint32_t n_before = slots_available(s);
    kv_cache_close(s->kv, &seq->kv);
    seq_unlink(&s->running, seq);
    seq->state = SCHED_SEQ_QUEUED;
    seq->n_cached = 0;
    seq->is_waiting = false;
    seq->is_front = true;
    seq->n_retractions++;
    seq_append(&s->queue, seq);
    s->n_sent_back += seq_is_sent_back(seq);
    s->is_queue_sorted = false;
    s->step.n_slots_regained += slots_available(s) - n_before;
}

static bool loses_less(const struct sched_seq *a, const struct sched_seq *b) {
    if (a->is_background != b->is_background) return a->is_background;
    if (a->n_output != b->n_output) return a->n_output < b->n_output;
    return a->n_prompt > b->n_prompt;
}

static void raise_ratio(struct sched *s) {
    double n_generated = 0, n_max = 1;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
        n_generated += (double)seq->n_output + (double)RETRACT_AHEAD;
        n_max += seq->max_new_tokens;
    }
    double ratio = n_generated / n_max * s->options.conservativeness;
    s->ratio = ratio < 1 ? ratio : 1;
}

void admit_retract_one(struct sched *s) {
    RADISH_INVARIANT(s->running.n > 1, "the only one running is to be sent back");
    RADISH_INVARIANT(!s->n_open, "a sequence is sent back while its token is being made");
    struct sched_seq *victim = s->running.head;
    for (struct sched_seq *seq = victim->next; seq; seq = seq->next)
        if (loses_less(seq, victim)) victim = seq;
    send_back(s, victim);
    if (victim->is_background) return; /* nobody's, and no sign that estimates were wrong */
    s->step.n_retracted_seqs++;
    s->n_retracted_total++;
    s->n_retracted_input_tokens += victim->n_prompt;
    s->n_retracted_output_tokens += victim->n_output;
    raise_ratio(s);
}

static uint64_t decodes_missing(const struct sched *s) {
    uint64_t n = 0;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        if (seq->state == SCHED_SEQ_DECODING) n += slots_missing(s, seq, seq_n_known(seq));
    return n;
}

void admit_decodes(struct sched *s) {
    while (s->running.n > 1 && decodes_missing(s) > slots_available(s)) admit_retract_one(s);
    for (struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        if (seq->state == SCHED_SEQ_DECODING) sched_take(s, seq, seq_n_known(seq));
}

/* ---- admission
 * -----------------------------------------------------------------------------------------------
 */

/* Whether it fits with n_found tokens of its own in the tree, and n_gained slots more. */
static bool fits(const struct sched *s, const struct sched_seq *seq, uint32_t n_found,
                 double n_gained) {
    uint32_t n_extend = seq_n_known(seq) - n_found;
    if (s->n_prefill_remaining && s->n_prefill_remaining + n_extend > s->options.prefill_tokens_max)
        return false;
    double n_needed =
        (double)whole_pages(s, n_extend) + clipped_rest(seq) + s->options.kv.page_slots;
    return n_needed + s->n_claimed <= (double)slots_available(s) + n_gained;
}

static void note_first_admission(struct sched *s, struct sched_seq *seq) {
    seq->n_prompt_cached = seq->n_cached < seq->n_prompt ? seq->n_cached : seq->n_prompt;
    if (seq->n_output) return;
    s->admitted[s->step.n_new_seqs++] = seq;
    s->step.n_cached_tokens += seq->n_prompt_cached;
}

/* The one token whose logits are wanted next, of an answer under way: a decode like any other. */
static bool can_decode(const struct sched *s, const struct sched_seq *seq) {
    return seq->n_output && seq->n_cached + 1 == seq_n_known(seq) &&
           slots_missing(s, seq, seq_n_known(seq)) <= slots_available(s);
}

static bool try_admit(struct sched *s, struct sched_seq *seq) {
    bool is_alone = !s->running.n;
    bool shares = !seq->is_cache_off && !s->options.kv.is_tree_off;
    struct radix_tokens tokens = seq_tokens(seq);
    uint32_t n_max = seq_share_max(seq), n_found = 0;
    enum radix_miss miss = RADIX_MISS_UNSEEN;
    if (s->running.n >= s->options.kv.n_rows) return false;
    if (shares) n_found = kv_cache_peek(s->kv, seq->namespace_id, &tokens, n_max, &miss);
    seq->n_peeked = n_found;
    if (!is_alone && !fits(s, seq, n_found, 0)) return false;
    enum radish_status status =
        kv_cache_open(s->kv, seq->namespace_id, shares, &tokens, n_max, seq->priority, &seq->kv);
    RADISH_INVARIANT(status == RADISH_OK, "%u run, but there is no row", s->running.n);
    if (!is_alone && !fits(s, seq, seq->kv.n_shared, 0)) {
        kv_cache_close(s->kv, &seq->kv);
        return false;
    }
    s->n_sent_back -= seq_is_sent_back(seq);
    seq_unlink(&s->queue, seq);
    seq_append(&s->running, seq);
    seq->state = SCHED_SEQ_PREFILLING;
    seq->n_cached = seq->kv.n_shared;
    seq_note_prompt(s, seq);
    if (!seq->n_retractions) {
        seq->miss = miss;
        note_first_admission(s, seq);
    }
    if (can_decode(s, seq)) {
        sched_take(s, seq, seq_n_known(seq));
        seq->state = SCHED_SEQ_DECODING;
    } else {
        s->n_prefill_remaining += seq_n_known(seq) - seq->n_cached;
    }
    s->n_claimed += claim_of(s, seq);
    return true;
}

static void count_claims(struct sched *s) {
    s->n_claimed = 0;
    s->n_prefill_remaining = 0;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
        s->n_claimed += claim_of(s, seq);
        if (seq->state == SCHED_SEQ_PREFILLING)
            s->n_prefill_remaining += seq_n_known(seq) - seq->n_cached;
    }
}

static bool can_preempt(const struct sched *s, const struct sched_seq *candidate,
                        const struct sched_seq *running) {
    if (candidate->is_background) return false;
    return (int64_t)candidate->priority - running->priority > s->options.preemption_threshold;
}

/* Sends lower ones back, the lowest first, if that can make the candidate fit. */
static bool try_preempt(struct sched *s, struct sched_seq *candidate) {
    RADISH_INVARIANT(!s->n_open, "priorities are looked at while a step is in flight");
    double n_gained = 0;
    for (const struct sched_seq *seq = s->running.head; seq; seq = seq->next)
        if (can_preempt(s, candidate, seq))
            n_gained += kv_cache_n_held(s->kv, &seq->kv) + claim_of(s, seq);
    if (n_gained <= 0 || !fits(s, candidate, candidate->n_peeked, n_gained)) return false;
    for (;;) {
        struct sched_seq *victim = NULL;
        for (struct sched_seq *seq = s->running.head; seq; seq = seq->next) {
            if (!can_preempt(s, candidate, seq)) continue;
            if (!victim || seq->priority < victim->priority ||
                (seq->priority == victim->priority && loses_less(seq, victim)))
                victim = seq;
        }
        if (!victim) return false;
        send_back(s, victim);
        s->step.n_preempted_seqs += !victim->is_background;
        s->n_preempted_total += !victim->is_background;
        count_claims(s);
        if (try_admit(s, candidate)) return true;
    }
}

void admit_queue(struct sched *s) {
    if (!s->queue.n) return;
    count_claims(s);
    order_queue(s);
    struct sched_seq *seq;
    while ((seq = s->queue.head)) {
        if (try_admit(s, seq)) continue;
        if (!s->options.has_priorities || !try_preempt(s, seq)) break;
        order_queue(s); /* the victims are somewhere in it */
    }
    s->step.admitted = s->admitted;
}
