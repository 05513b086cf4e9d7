/* The scheduler's steps, one thing at a time: chunks and decodes, limits, which rows give logits,
 * what joins the tree when, and what is never allocated. */
#include "test.h"

#include "alloc_fail.h"
#include "sched_int.h"
#include "sched_sim.h"

static struct sim sim;
static struct sim_request a, b, c, d;

static void open_sim(const struct sched_options *options) {
    sim_open(options, &sim);
}

static void test_a_sequence_prefills_in_chunks_then_decodes_to_its_end(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 0, 2, 150, 4);
    sim_push(&sim, &a);
    assert_int_equal(a.seq.state, SCHED_SEQ_QUEUED);

    const uint32_t rows[] = {64, 64, 22};
    for (uint32_t i = 0; i < 3; i++) {
        sim_step(&sim);
        assert_int_equal(sim.step.n_prefill_tokens, rows[i]);
        assert_int_equal(sim.step.n_new_seqs, i == 0);
        assert_int_equal(a.seq.state, i == 2 ? SCHED_SEQ_DECODING : SCHED_SEQ_PREFILLING);
    }
    assert_int_equal(a.n_output, 1);
    for (uint32_t i = 0; i < 3; i++) {
        sim_step(&sim);
        assert_int_equal(sim.step.n_decode_seqs, 1);
        assert_int_equal(sim.step.n_prefill_tokens, 0);
    }

    assert_int_equal(a.n_output, 4);
    assert_int_equal(a.seq.state, SCHED_SEQ_DONE);
    sim_close(&sim);
}

static void test_decodes_are_in_every_step_beside_a_long_prefill(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 0, 2, 3, 100);
    sim_prompt(&b, 1, 0, 3, 500, 10);
    sim_push(&sim, &a);
    sim_step(&sim);
    sim_push(&sim, &b);

    for (uint32_t i = 0; i < 7; i++) {
        sim_step(&sim);
        assert_int_equal(sim.step.n_decode_seqs, 1);
        assert_int_equal(sim.step.n_prefill_tokens, 64);
        assert_int_equal(a.n_output, i + 2);
    }
    sim_drain(&sim, 1000);
    sim_close(&sim);
}

static void test_the_chunk_budget_goes_to_prefills_in_order_of_arrival(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 0, 2, 50, 1);
    sim_prompt(&b, 1, 0, 3, 50, 1);
    sim_prompt(&c, 1, 0, 4, 50, 1);
    sim_push(&sim, &a);
    sim_push(&sim, &b);
    sim_push(&sim, &c);

    sim_step(&sim);

    assert_int_equal(a.n_output, 1);
    assert_int_equal(b.seq.n_cached, 14);
    assert_int_equal(c.seq.n_cached, 0);
    sim_step(&sim);
    assert_int_equal(b.n_output, 1);
    assert_int_equal(c.seq.n_cached, 28);
    sim_drain(&sim, 10);
    sim_close(&sim);
}

static void test_the_running_limit_counts_sequences(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.kv.n_rows = 3;
    open_sim(&options);
    struct sim_request *all[] = {&a, &b, &c, &d};
    for (uint32_t i = 0; i < 4; i++) {
        sim_prompt(all[i], 1, 0, 2 + i, 4, 4 + i);
        sim_push(&sim, all[i]);
    }

    sim_step(&sim);

    assert_int_equal(d.seq.state, SCHED_SEQ_QUEUED);
    sim_step(&sim);
    sim_abort(&sim, &b);
    sim_step(&sim);
    assert_int_equal(d.n_output, 1);
    sim_drain(&sim, 20);
    sim_close(&sim);
}

static void test_prefill_tokens_max_holds_back_further_prompts(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.prefill_tokens_max = 100;
    open_sim(&options);
    sim_prompt(&a, 1, 0, 2, 200, 1);
    sim_prompt(&b, 1, 0, 3, 30, 1);
    sim_push(&sim, &a);
    sim_push(&sim, &b);

    sim_step(&sim); /* a alone may exceed the limit; 136 of it remain */
    assert_int_equal(b.seq.state, SCHED_SEQ_QUEUED);
    sim_step(&sim); /* 72 remain after this one */
    assert_int_equal(b.seq.state, SCHED_SEQ_QUEUED);
    sim_step(&sim);
    assert_int_equal(b.seq.state, SCHED_SEQ_QUEUED); /* 72 + 30 > 100 */
    sim_step(&sim);
    assert_int_not_equal(b.seq.state, SCHED_SEQ_QUEUED);

    sim_drain(&sim, 10);
    sim_close(&sim);
}

static void test_rows_give_logits_where_they_are_wanted(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 100, 2, 100, 0);
    sim_prompt(&b, 1, 100, 3, 120, 2);
    sim_prompt(&c, 5, 20, 4, 20, 0);
    a.seq.logits_from = 0;
    b.seq.logits_from = 90;
    sim_push(&sim, &a);
    sim_drain(&sim, 10);
    assert_int_equal(a.n_logits_rows, 100);

    sim_push(&sim, &b); /* rows [90, 120) are computed although [0, 100) is in the tree */
    sim_push(&sim, &c);
    sim_drain(&sim, 10);

    assert_int_equal(b.seq.n_prompt_cached, 90);
    assert_int_equal(b.n_logits_rows, 30);
    assert_int_equal(b.n_output, 2);
    assert_int_equal(c.n_logits_rows, 0);
    sim_close(&sim);
}

static void test_a_prefix_is_reusable_the_moment_it_is_written(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 200, 2, 200, 50);
    sim_prompt(&b, 1, 200, 3, 220, 5);
    sim_push(&sim, &a);
    sim_step(&sim); /* [0, 64) */
    sim_step(&sim); /* [64, 128) */
    sim_push(&sim, &b);
    sim_step(&sim);

    assert_int_equal(b.seq.n_prompt_cached, 128); /* of a prefill under way */
    for (uint32_t i = 0; i < 10; i++) sim_step(&sim);
    assert_int_equal(b.n_output, 5);
    assert_int_equal(b.seq.n_prompt_cached, 200);

    /* A prompt that goes on behind what a has generated so far, while a still runs. */
    sim_prompt(&c, 9, 0, 4, 230, 1);
    memcpy(c.tokens, a.tokens, (200 + a.seq.n_output) * sizeof *c.tokens);
    uint32_t n_written = a.seq.n_cached;
    assert_true(a.is_live && n_written > 205);
    sim_push(&sim, &c);
    sim_step(&sim);
    assert_int_equal(c.seq.n_prompt_cached, n_written);
    sim_drain(&sim, 100);

    /* The next turn: all but the last generated token, which has no KV. */
    sim_prompt(&d, 9, 0, 5, 260, 1);
    memcpy(d.tokens, a.tokens, 250 * sizeof *d.tokens);
    sim_push(&sim, &d);
    sim_drain(&sim, 10);
    assert_int_equal(d.seq.n_prompt_cached, 249);
    sim_close(&sim);
}

static void test_a_repeated_prompt_computes_one_token(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 300, 2, 300, 1);
    b = a;
    sim_push(&sim, &a);
    sim_drain(&sim, 10);
    b.seq.prompt = b.tokens;
    b.seq.output = b.tokens + 300;
    b.seq.user = &b;
    sim_push(&sim, &b);
    sim_step(&sim);

    assert_int_equal(b.n_computed, 1);
    assert_int_equal(b.seq.n_prompt_cached, 299);
    assert_int_equal(sim.step.n_cached_tokens, 299);
    assert_int_equal(b.seq.miss, RADIX_MISS_NONE);
    assert_int_equal(b.tokens[300], a.tokens[300]);
    sim_close(&sim);
}

static void test_namespaces_and_requests_without_cache_share_nothing(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    struct sim_request *all[] = {&a, &b, &c, &d};
    for (uint32_t i = 0; i < 4; i++) {
        sim_prompt(all[i], 1, 100, 2, 100, 2);
        all[i]->seq.namespace_id = i == 1 || i == 3 ? 7 : 0;
        all[i]->seq.is_cache_off = i == 2;
        sim_push(&sim, all[i]);
        sim_drain(&sim, 10);
    }

    assert_int_equal(b.seq.n_prompt_cached, 0); /* another namespace */
    assert_int_equal(c.seq.n_prompt_cached, 0); /* does not want to share */
    assert_int_equal(d.seq.n_prompt_cached, 99);
    assert_int_equal(b.seq.miss, RADIX_MISS_UNSEEN);
    sim_close(&sim);
}

static void test_siblings_compute_nothing_of_the_prompt(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 2, 4, 16};
    for (uint32_t p = 0; p < 4; p++) {
        struct sched_options options = sim_options();
        options.kv.page_slots = pages[p];
        options.kv.n_slots = 1024 + pages[p];
        open_sim(&options);
        sim_prompt(&a, 1, 100, 2, 100, 10);
        sim_push(&sim, &a);
        sim_step(&sim);
        sim_step(&sim); /* the first token, and the second */
        struct sim_request *siblings[] = {&b, &c};
        for (uint32_t i = 0; i < 2; i++) {
            sim_prompt(siblings[i], 1, 100, 2, 100, 10);
            siblings[i]->tokens[100] = a.tokens[100];
            siblings[i]->seq.n_output = 1;
            sim_push(&sim, siblings[i]);
        }
        uint32_t n_steps = 0;
        while (b.n_output < 2 || c.n_output < 2) {
            sim_step(&sim);
            n_steps++;
        }

        assert_int_equal(n_steps, 1);
        assert_int_equal(b.n_computed, 1 + 100 % pages[p]);
        assert_int_equal(c.n_computed, 1 + 100 % pages[p]);
        sim_drain(&sim, 20);
        assert_memory_equal(b.tokens, a.tokens, 110 * sizeof *a.tokens);
        assert_memory_equal(c.tokens, a.tokens, 110 * sizeof *a.tokens);
        sim_close(&sim);
    }
}

static void test_a_step_that_failed_leaves_nothing_in_the_tree(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 50, 2, 50, 5);
    sim_push(&sim, &a);
    assert_int_equal(sched_fill(sim.s, sim.now_ns, &sim.step)->n_tokens, 50);

    sched_step_fail(sim.s);
    sim_abort(&sim, &a);

    sim_prompt(&b, 1, 50, 2, 50, 5);
    sim_push(&sim, &b);
    sim_drain(&sim, 10);
    assert_int_equal(b.seq.n_prompt_cached, 0);
    sim_close(&sim);
}

static void test_check_sees_what_is_wrong(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    open_sim(&options);
    sim_prompt(&a, 1, 0, 2, 150, 10);
    sim_prompt(&b, 1, 0, 2, 150, 10);
    sim_push(&sim, &a);
    sim_step(&sim);
    sim_push(&sim, &b);
    assert_true(sched_check(sim.s));

    uint32_t n_cached = a.seq.n_cached;
    a.seq.n_cached = 400; /* more than it holds */
    assert_false(sched_check(sim.s));
    a.seq.n_cached = n_cached - 10; /* less than the tree has of it */
    assert_false(sched_check(sim.s));
    a.seq.n_cached = n_cached;
    a.seq.state = SCHED_SEQ_DECODING;
    assert_false(sched_check(sim.s));
    a.seq.state = SCHED_SEQ_PREFILLING;
    a.seq.is_waiting = true; /* with private slots, and nobody counted it */
    assert_false(sched_check(sim.s));
    a.seq.is_waiting = false;
    sim.s->queue.n++; /* one was lost */
    assert_false(sched_check(sim.s));
    sim.s->queue.n--;
    sim.s->n_pushed++;
    assert_false(sched_check(sim.s));
    sim.s->n_pushed--;

    assert_true(sched_check(sim.s));
    sim_drain(&sim, 20);
    sim_close(&sim);
}

static bool attempt_create(void *user) {
    struct sched *s;
    enum radish_status status = sched_create(user, &s, NULL);
    sched_destroy(s);
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    assert_true((status == RADISH_OK) == (s != NULL));
    return status == RADISH_OK;
}

static void test_every_failed_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    struct sched_options options = sim_options();
    assert_in_range(alloc_fail_each(attempt_create, &options), 15, 60);
}

static void test_steps_allocate_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    for (uint32_t policy = 0; policy < SCHED_POLICY_COUNT; policy++) {
        struct sched_options options = sim_options();
        options.policy = (enum sched_policy)policy;
        options.kv.n_slots = 301;
        options.kv.n_rows = 3;
        options.conservativeness = 0.1;
        open_sim(&options);
        sim.checks_all = false;
        struct sim_request *all[] = {&a, &b, &c, &d};
        for (uint32_t i = 0; i < 4; i++) sim_prompt(all[i], 1, 40, 2 + i, 50 + i, 100);
        alloc_fail_count = 0;
        alloc_fail_at = SIZE_MAX;

        for (uint32_t i = 0; i < 4; i++) sim_push(&sim, all[i]);
        sim_drain(&sim, 2000);

        alloc_fail_at = 0;
        assert_int_equal(alloc_fail_count, 0);
        assert_true(sim.n_retracted > 0);
        sim_close(&sim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sequence_prefills_in_chunks_then_decodes_to_its_end),
        cmocka_unit_test(test_decodes_are_in_every_step_beside_a_long_prefill),
        cmocka_unit_test(test_the_chunk_budget_goes_to_prefills_in_order_of_arrival),
        cmocka_unit_test(test_the_running_limit_counts_sequences),
        cmocka_unit_test(test_prefill_tokens_max_holds_back_further_prompts),
        cmocka_unit_test(test_rows_give_logits_where_they_are_wanted),
        cmocka_unit_test(test_a_prefix_is_reusable_the_moment_it_is_written),
        cmocka_unit_test(test_a_repeated_prompt_computes_one_token),
        cmocka_unit_test(test_namespaces_and_requests_without_cache_share_nothing),
        cmocka_unit_test(test_siblings_compute_nothing_of_the_prompt),
        cmocka_unit_test(test_a_step_that_failed_leaves_nothing_in_the_tree),
        cmocka_unit_test(test_check_sees_what_is_wrong),
        cmocka_unit_test(test_every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(test_steps_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
