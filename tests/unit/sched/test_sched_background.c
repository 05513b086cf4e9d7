/* Background sequences: last in the queue, last for chunks, first to be sent back, and not counted
 * as anybody's prefill. */
#include "test.h"

#include "sched_int.h"
#include "sched_sim.h"

static struct sim sim;
static struct sim_request hidden, a, b;

static void push_hidden(uint32_t n_prompt) {
    sim_prompt(&hidden, 1, 0, 9, n_prompt, 1);
    hidden.seq.is_background = true;
    hidden.seq.is_uncounted = true;
    hidden.seq.is_cache_off = true;
    sim_push(&sim, &hidden);
}

static void test_a_background_sequence_gets_what_others_leave_of_a_chunk(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    push_hidden(400);
    sim_step(&sim);
    assert_int_equal(hidden.seq.n_cached, 64);
    assert_int_equal(sim.step.n_uncounted_tokens, 64);
    assert_int_equal(sim.step.n_prefill_tokens + sim.step.n_prefill_seqs, 0);

    sim_prompt(&a, 1, 0, 2, 150, 1);
    sim_push(&sim, &a);
    sim_step(&sim);
    sim_step(&sim);
    assert_int_equal(a.seq.n_cached, 128);
    assert_int_equal(hidden.seq.n_cached, 64); /* nothing */
    sim_step(&sim);
    assert_int_equal(a.seq.state, SCHED_SEQ_DONE);
    assert_int_equal(sim.step.n_prefill_tokens, 22);
    assert_int_equal(hidden.seq.n_cached, 64 + 42);
    sim_drain(&sim, 20);
    assert_int_equal(hidden.n_output, 1);
    sim_close(&sim);
}

static void test_beside_streams_a_background_chunk_is_small(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 10, 50);
    sim_push(&sim, &a);
    sim_step(&sim);
    push_hidden(200);
    for (uint32_t i = 1; i <= 3; i++) {
        sim_step(&sim);
        assert_int_equal(sim.step.n_decode_seqs, 1);
        assert_int_equal(hidden.seq.n_cached, 32 * i);
    }
    sim_drain(&sim, 100);
    sim_close(&sim);
}

static void test_a_background_sequence_is_admitted_last_whatever_the_policy(void **state) {
    (void)state;
    for (uint32_t policy = 0; policy < SCHED_POLICY_COUNT; policy++) {
        struct sched_options options = sim_options();
        options.policy = (enum sched_policy)policy;
        options.kv.n_rows = 2;
        options.has_priorities = policy == SCHED_POLICY_FCFS;
        sim_open(&options, &sim);
        push_hidden(10);
        sim.now_ns += 1000000000;
        sim_prompt(&a, 1, 0, 2, 100, 3);
        sim_prompt(&b, 1, 0, 3, 100, 3);
        a.seq.priority = -5;
        sim_push(&sim, &a);
        sim_push(&sim, &b);
        sim_step(&sim);
        assert_int_equal(hidden.seq.state, SCHED_SEQ_QUEUED);
        assert_int_not_equal(a.seq.state, SCHED_SEQ_QUEUED);
        assert_int_not_equal(b.seq.state, SCHED_SEQ_QUEUED);
        sim_drain(&sim, 30);
        assert_int_equal(hidden.n_output, 1);
        sim_close(&sim);
        a.seq.priority = 0;
    }
}

static void test_a_background_sequence_is_the_first_to_be_sent_back(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.kv.n_slots = 257;
    options.kv.context_tokens = 256;
    options.conservativeness = 0.01;
    options.chunk_tokens = 2;
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 60, 90);
    sim_push(&sim, &a);
    while (a.n_output < 4) sim_step(&sim);
    push_hidden(150); /* the pool holds it and what there is of the first, not its growth */
    sim_step(&sim);
    assert_int_equal(hidden.seq.state, SCHED_SEQ_PREFILLING);
    while (a.seq.state != SCHED_SEQ_DONE) sim_step(&sim);
    assert_int_equal(a.seq.n_retractions, 0);
    assert_true(hidden.seq.n_retractions >= 1);
    assert_int_equal(sim.n_retracted, 0); /* of those that count */
    sim_drain(&sim, 100);
    assert_int_equal(hidden.n_output, 1);
    sim_close(&sim);
}

static void test_a_background_sequence_sends_nobody_back_whatever_its_priority(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.has_priorities = true;
    options.kv.n_rows = 1;
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 10, 5);
    sim_push(&sim, &a);
    sim_step(&sim);
    sim_prompt(&hidden, 1, 0, 9, 10, 1);
    hidden.seq.is_background = true;
    hidden.seq.priority = 100;
    sim_push(&sim, &hidden);
    sim_step(&sim);
    assert_int_equal(a.n_output, 2);
    assert_int_equal(a.seq.n_retractions, 0);
    sim_drain(&sim, 20);
    assert_int_equal(hidden.n_output, 1);
    sim_close(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_background_sequence_gets_what_others_leave_of_a_chunk),
        cmocka_unit_test(test_beside_streams_a_background_chunk_is_small),
        cmocka_unit_test(test_a_background_sequence_is_admitted_last_whatever_the_policy),
        cmocka_unit_test(test_a_background_sequence_is_the_first_to_be_sent_back),
        cmocka_unit_test(test_a_background_sequence_sends_nobody_back_whatever_its_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
