/* The scheduler, driven without a model: what it admits, in which order, what the batches hold, and
 * that after any history of arrivals, aborts and ends every slot is where it belongs. */
#include "test.h"

#include "alloc_fail.h"
#include "base/rng.h"
#include "base/status.h"
#include "sched/sched.h"

enum { TOKENS = 4096 };

static int32_t prompt[TOKENS]; /* 0, 1, 2, ... */

static struct sched_options options_of(uint32_t n_usable) {
    return (struct sched_options){.n_slots = n_usable + 1,
                                  .page_slots = 1,
                                  .context_tokens = 1000,
                                  .seqs_running_max = 8,
                                  .chunk_tokens = 64,
                                  .prefill_tokens_max = 16384};
}

static struct sched *make_sched(const struct sched_options *options) {
    struct sched *s;
    assert_int_equal(sched_create(options, &s, NULL), RADISH_OK);
    return s;
}

static struct sched_seq seq_of(uint32_t n_prompt, uint32_t max_new_tokens) {
    return (struct sched_seq){
        .prompt = prompt, .n_prompt = n_prompt, .max_new_tokens = max_new_tokens};
}

static struct sched_seq *owner(const struct batch_seq *seq) {
    return seq->user;
}

/* The token a model would make of position p of any sequence: the position itself. */
static int32_t token_at(uint32_t position) {
    return (int32_t)position;
}

/* Every promise of batch.h, and that each row is the right token at the right place. */
static void check_batch(const struct batch *batch, const struct sched_options *options) {
    uint32_t row = 0, logits_row = 0;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        const struct sched_seq *o = owner(seq);
        assert_int_equal(seq->row_first, row);
        assert_true(seq->n_rows >= 1);
        assert_int_equal(seq->kv_len, o->n_cached);
        assert_int_equal(seq->logits_row, logits_row);
        for (uint32_t r = 0; r < seq->n_rows; r++, row++) {
            uint32_t position = seq->kv_len - seq->n_rows + r;
            assert_int_equal(batch->positions[row], position);
            assert_int_equal(batch->token_ids[row], token_at(position));
            assert_int_equal(batch->slots[0][row], seq->kv_slots[0][position]);
            assert_in_range(batch->slots[0][row], 1, options->n_slots - 1);
            if (r >= seq->logits_first) assert_int_equal(batch->logits_rows[logits_row++], row);
        }
    }
    assert_int_equal(row, batch->n_tokens);
    assert_int_equal(logits_row, batch->n_logits_rows);
}

static void test_a_sequence_prefills_in_chunks_then_decodes_to_its_end(void **state) {
    (void)state;
    struct sched_options options = options_of(1000);
    struct sched *s = make_sched(&options);
    struct sched_seq seq = seq_of(150, 4);
    struct sched_step step;
    sched_push(s, &seq);
    assert_int_equal(seq.state, SCHED_SEQ_QUEUED);

    const uint32_t rows[] = {64, 64, 22};
    for (uint32_t i = 0; i < 3; i++) {
        const struct batch *batch = sched_fill(s, &step);
        assert_int_equal(batch->n_tokens, rows[i]);
        assert_int_equal(step.n_new_seqs, i == 0);
        assert_int_equal(batch->n_logits_rows, i == 2);
        assert_int_equal(seq.state, i == 2 ? SCHED_SEQ_DECODING : SCHED_SEQ_PREFILLING);
        check_batch(batch, &options);
        assert_true(sched_check(s));
    }
    for (uint32_t i = 0; i < 3; i++) {
        sched_append(s, &seq, token_at(150 + i));
        const struct batch *batch = sched_fill(s, &step);
        assert_int_equal(batch->n_tokens, 1);
        assert_int_equal(step.n_decode_seqs, 1);
        check_batch(batch, &options);
        assert_true(sched_check(s));
    }
    sched_remove(s, &seq);

    assert_int_equal(seq.state, SCHED_SEQ_DONE);
    assert_true(sched_is_idle(s));
    sched_destroy(s);
}

static void test_decodes_are_in_every_step_beside_a_long_prefill(void **state) {
    (void)state;
    struct sched_options options = options_of(2000);
    struct sched *s = make_sched(&options);
    struct sched_seq decode = seq_of(3, 100), prefill = seq_of(600, 10);
    struct sched_step step;
    sched_push(s, &decode);
    sched_fill(s, &step);
    sched_push(s, &prefill);

    for (uint32_t i = 0; i < 9; i++) {
        sched_append(s, &decode, token_at(3 + i));
        const struct batch *batch = sched_fill(s, &step);
        assert_int_equal(step.n_decode_seqs, 1);
        assert_int_equal(batch->n_tokens, 65);
        assert_int_equal(batch->n_logits_rows, 1);
        check_batch(batch, &options);
    }
    sched_remove(s, &decode);
    sched_remove(s, &prefill);
    sched_destroy(s);
}

static void test_the_chunk_budget_goes_to_prefills_in_order_of_arrival(void **state) {
    (void)state;
    struct sched_options options = options_of(2000);
    struct sched *s = make_sched(&options);
    struct sched_seq a = seq_of(50, 1), b = seq_of(50, 1), c = seq_of(50, 1);
    struct sched_step step;
    sched_push(s, &a);
    sched_push(s, &b);
    sched_push(s, &c);

    const struct batch *batch = sched_fill(s, &step);

    assert_int_equal(batch->n_seqs, 2);
    assert_ptr_equal(owner(&batch->seqs[0]), &a);
    assert_int_equal(batch->seqs[0].n_rows, 50);
    assert_ptr_equal(owner(&batch->seqs[1]), &b);
    assert_int_equal(batch->seqs[1].n_rows, 14);
    sched_remove(s, &a);
    batch = sched_fill(s, &step);
    assert_int_equal(batch->seqs[0].n_rows, 36);
    assert_int_equal(batch->seqs[1].n_rows, 28);
    sched_remove(s, &b);
    sched_remove(s, &c);
    sched_destroy(s);
}

static void test_admission_reserves_the_worst_case_in_order(void **state) {
    (void)state;
    struct sched_options options = options_of(1000);
    struct sched *s = make_sched(&options);
    struct sched_seq big = seq_of(10, 900), next = seq_of(10, 200), small = seq_of(5, 5);
    struct sched_step step;
    struct sched_stats stats;
    sched_push(s, &big);
    sched_push(s, &next);
    sched_push(s, &small);

    sched_fill(s, &step);

    sched_stats(s, &stats);
    assert_int_equal(stats.n_seqs_running, 1);
    assert_int_equal(stats.n_seqs_queued, 2); /* small would fit, but nobody overtakes */
    assert_true(stats.n_slots_free > 900);    /* slots are taken as they are written */
    sched_remove(s, &big);
    sched_fill(s, &step);
    sched_stats(s, &stats);
    assert_int_equal(stats.n_seqs_running, 2);
    sched_remove(s, &next);
    sched_remove(s, &small);
    sched_destroy(s);
}

static void test_the_running_limit_counts_sequences(void **state) {
    (void)state;
    struct sched_options options = options_of(1000);
    options.seqs_running_max = 3;
    struct sched *s = make_sched(&options);
    struct sched_seq seqs[5];
    struct sched_step step;
    for (uint32_t i = 0; i < 5; i++) {
        seqs[i] = seq_of(4, 4);
        sched_push(s, &seqs[i]);
    }

    assert_int_equal(sched_fill(s, &step)->n_seqs, 3);

    sched_remove(s, &seqs[1]);
    for (uint32_t i = 0; i < 3; i += 2) sched_append(s, &seqs[i], token_at(4));
    assert_int_equal(sched_fill(s, &step)->n_seqs, 3);
    assert_int_equal(seqs[3].state, SCHED_SEQ_DECODING);
    assert_int_equal(seqs[4].state, SCHED_SEQ_QUEUED);
    for (uint32_t i = 0; i < 5; i++) sched_remove(s, &seqs[i]);
    sched_destroy(s);
}

static void test_prefill_tokens_max_holds_back_further_prompts(void **state) {
    (void)state;
    struct sched_options options = options_of(2000);
    options.prefill_tokens_max = 100;
    struct sched *s = make_sched(&options);
    struct sched_seq a = seq_of(200, 1), b = seq_of(30, 1);
    struct sched_step step;
    sched_push(s, &a);
    sched_push(s, &b);

    sched_fill(s, &step); /* a alone may exceed the limit; 136 of it remain */
    assert_int_equal(b.state, SCHED_SEQ_QUEUED);
    sched_fill(s, &step); /* 72 remain after this one */
    assert_int_equal(b.state, SCHED_SEQ_QUEUED);
    sched_fill(s, &step);
    assert_int_equal(b.state, SCHED_SEQ_QUEUED); /* 72 + 30 > 100 */
    sched_fill(s, &step);
    assert_int_not_equal(b.state, SCHED_SEQ_QUEUED);

    sched_remove(s, &a);
    sched_remove(s, &b);
    sched_destroy(s);
}

static void test_all_rows_give_logits_where_they_are_wanted(void **state) {
    (void)state;
    struct sched_options options = options_of(1000);
    struct sched *s = make_sched(&options);
    struct sched_seq all = seq_of(100, 0), none = seq_of(20, 0);
    all.wants_all_logits = true;
    struct sched_step step;
    sched_push(s, &all);
    sched_push(s, &none);

    assert_int_equal(sched_fill(s, &step)->n_logits_rows, 64);
    assert_int_equal(sched_fill(s, &step)->n_logits_rows, 36);

    assert_int_equal(none.state, SCHED_SEQ_DECODING);
    sched_remove(s, &all);
    sched_remove(s, &none);
    sched_destroy(s);
}

/* ---- random histories
 * -----------------------------------------------------------------------------------------------
 */

struct fake {
    struct sched_seq seq;
    bool is_used;
    uint64_t order; /* of arrival */
    uint32_t n_wanted;
};

enum { FAKES = 64 };

struct history {
    struct sched_options options;
    struct sched *s;
    struct fake fakes[FAKES];
    uint64_t seed, counter, n_arrived, last_admitted;
};

static uint32_t random_below(struct history *h, uint32_t n) {
    return (uint32_t)(rng_u64(h->seed, h->counter++) % n);
}

static void arrive(struct history *h) {
    for (uint32_t i = 0; i < FAKES; i++) {
        struct fake *fake = &h->fakes[i];
        if (fake->is_used) continue;
        uint32_t max = sched_tokens_max(h->s);
        uint32_t n_prompt = 1 + random_below(h, random_below(h, 4) ? 60 : max - 1);
        uint32_t n_new = random_below(h, random_below(h, 4) ? 40 : max);
        if (n_prompt + n_new > max) n_new = max - n_prompt;
        *fake = (struct fake){.seq = seq_of(n_prompt, n_new), .is_used = true};
        fake->order = ++h->n_arrived;
        fake->n_wanted = n_new ? 1 + random_below(h, n_new) : 0;
        fake->seq.wants_all_logits = random_below(h, 5) == 0;
        sched_push(h->s, &fake->seq);
        return;
    }
}

static void end(struct history *h, struct fake *fake) {
    sched_remove(h->s, &fake->seq);
    fake->is_used = false;
}

static void run_step(struct history *h) {
    bool was_queued[FAKES];
    for (uint32_t i = 0; i < FAKES; i++)
        was_queued[i] = h->fakes[i].is_used && h->fakes[i].seq.state == SCHED_SEQ_QUEUED;
    uint32_t n_decoding = 0;
    for (uint32_t i = 0; i < FAKES; i++)
        n_decoding += h->fakes[i].is_used && h->fakes[i].seq.state == SCHED_SEQ_DECODING;
    struct sched_step step;
    const struct batch *batch = sched_fill(h->s, &step);
    check_batch(batch, &h->options);
    assert_true(sched_check(h->s));
    assert_int_equal(step.n_decode_seqs, n_decoding);
    assert_in_range(step.n_prefill_tokens, 0, h->options.chunk_tokens);
    assert_true(batch->n_tokens || sched_is_idle(h->s)); /* whoever waits, something moves */
    uint64_t first_queued = UINT64_MAX;
    for (uint32_t i = 0; i < FAKES; i++)
        if (h->fakes[i].is_used && h->fakes[i].seq.state == SCHED_SEQ_QUEUED &&
            h->fakes[i].order < first_queued)
            first_queued = h->fakes[i].order;
    for (uint32_t i = 0; i < FAKES; i++)
        if (was_queued[i] && h->fakes[i].seq.state != SCHED_SEQ_QUEUED)
            assert_true(h->fakes[i].order < first_queued); /* nobody overtook */
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        struct fake *fake = (struct fake *)owner(&batch->seqs[i]);
        if (fake->seq.state != SCHED_SEQ_DECODING) continue;
        if (fake->seq.n_output + 1 >= fake->n_wanted)
            end(h, fake);
        else
            sched_append(h->s, &fake->seq, token_at(fake->seq.n_prompt + fake->seq.n_output));
        assert_true(sched_check(h->s));
    }
}

static void run_history(uint64_t seed, uint32_t page_slots, uint32_t n_usable) {
    struct history h = {.seed = seed};
    h.options = options_of(n_usable);
    h.options.page_slots = page_slots;
    h.options.n_slots = n_usable + page_slots;
    h.options.context_tokens = n_usable / 2;
    h.options.chunk_tokens = 1 + (uint32_t)(seed % 5) * 10;
    h.s = make_sched(&h.options);
    for (uint32_t i = 0; i < 1500; i++) {
        for (uint32_t n = random_below(&h, 3); n; n--) arrive(&h);
        if (random_below(&h, 4) == 0) {
            struct fake *fake = &h.fakes[random_below(&h, FAKES)];
            if (fake->is_used) end(&h, fake);
            assert_true(sched_check(h.s));
        }
        run_step(&h);
    }
    uint32_t n_steps = 0;
    while (!sched_is_idle(h.s)) {
        run_step(&h);
        assert_true(n_steps++ < 100000); /* nobody starves: the queue drains */
    }
    struct sched_stats stats;
    sched_stats(h.s, &stats);
    assert_int_equal(stats.n_slots_free, stats.n_slots_usable);
    assert_true(h.n_arrived > 100);
    sched_destroy(h.s);
}

static void test_random_histories_keep_every_invariant_and_end_at_baseline(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    run_history(seed, 1, 600);
    run_history(seed + 1, 1, 2000);
    run_history(seed + 2, 4, 800);
    run_history(seed + 3, 16, 1600);
    run_history(seed + 4, 7, 700);
}

static void test_check_sees_a_sequence_that_claims_too_much(void **state) {
    (void)state;
    struct sched_options options = options_of(1000);
    struct sched *s = make_sched(&options);
    struct sched_seq seq = seq_of(150, 10);
    struct sched_step step;
    sched_push(s, &seq);
    sched_fill(s, &step);
    assert_true(sched_check(s));

    seq.n_cached -= 2; /* tokens to compute that nobody counts */
    assert_false(sched_check(s));
    seq.n_cached += 2;
    seq.max_new_tokens += 5; /* a worst case that was never promised */
    assert_false(sched_check(s));
    seq.max_new_tokens -= 5;

    assert_true(sched_check(s));
    sched_remove(s, &seq);
    sched_destroy(s);
}

static bool attempt_create(void *user) {
    struct sched *s;
    enum radish_status status = sched_create(user, &s, NULL);
    sched_destroy(s);
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    return status == RADISH_OK;
}

static void test_every_failed_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct sched_options options = options_of(1000);
    assert_in_range(alloc_fail_each(attempt_create, &options), 10, 20);
}

static void test_steps_allocate_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct sched_options options = options_of(1000);
    struct sched *s = make_sched(&options);
    struct sched_seq a = seq_of(150, 100), b = seq_of(10, 100);
    struct sched_step step;
    alloc_fail_count = 0;
    alloc_fail_at = SIZE_MAX;

    sched_push(s, &a);
    sched_push(s, &b);
    for (uint32_t i = 0; i < 50; i++) {
        sched_fill(s, &step);
        if (a.state == SCHED_SEQ_DECODING) sched_append(s, &a, token_at(a.n_cached));
        if (b.state == SCHED_SEQ_DECODING) sched_append(s, &b, token_at(b.n_cached));
    }
    sched_remove(s, &a);
    sched_remove(s, &b);

    alloc_fail_at = 0;
    assert_int_equal(alloc_fail_count, 0);
    sched_destroy(s);
}

int main(void) {
    for (int32_t i = 0; i < TOKENS; i++) prompt[i] = i;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sequence_prefills_in_chunks_then_decodes_to_its_end),
        cmocka_unit_test(test_decodes_are_in_every_step_beside_a_long_prefill),
        cmocka_unit_test(test_the_chunk_budget_goes_to_prefills_in_order_of_arrival),
        cmocka_unit_test(test_admission_reserves_the_worst_case_in_order),
        cmocka_unit_test(test_the_running_limit_counts_sequences),
        cmocka_unit_test(test_prefill_tokens_max_holds_back_further_prompts),
        cmocka_unit_test(test_all_rows_give_logits_where_they_are_wanted),
        cmocka_unit_test(test_random_histories_keep_every_invariant_and_end_at_baseline),
        cmocka_unit_test(test_check_sees_a_sequence_that_claims_too_much),
        cmocka_unit_test(test_every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(test_steps_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
