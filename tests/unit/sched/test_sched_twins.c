/* Twins: requests with a common cold trunk compute it once, whatever happens to whoever is
 * computing it; and waiting neither holds slots nor costs anybody an answer. */
#include "test.h"

#include "sched_int.h"
#include "sched_sim.h"

enum { TWINS = 32, TRUNK = 1000, TAIL = 8 };

static struct sim sim;
static struct sim_request twins[TWINS];

static struct sched_options big_options(uint32_t page_slots) {
    struct sched_options options = sim_options();
    options.kv.page_slots = page_slots;
    options.kv.n_slots = 60000 + page_slots;
    options.kv.n_rows = 40;
    options.kv.context_tokens = 2000;
    options.prefill_tokens_max = 1u << 20;
    options.chunk_tokens = 128;
    return options;
}

static void push_all(uint32_t n_new) {
    for (uint32_t i = 0; i < TWINS; i++) {
        sim_prompt(&twins[i], 1, TRUNK, 100 + i, TRUNK + TAIL, n_new);
        sim_push(&sim, &twins[i]);
    }
}

/* Rows beyond the trunk: each twin's tail, less than a page of the trunk again, and its decodes. */
static uint64_t own_rows(uint32_t n_new, uint32_t page_slots) {
    return (uint64_t)TWINS * (TAIL + n_new - 1 + TRUNK % page_slots);
}

static void test_32_twins_compute_their_trunk_once(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 2, 4, 16};
    for (uint32_t p = 0; p < 4; p++) {
        struct sched_options options = big_options(pages[p]);
        sim_open(&options, &sim);
        push_all(4);
        uint64_t n_cached = 0, n_computed = 0;
        for (uint32_t n = 0; sim_step(&sim); n++) {
            assert_true(n < 200);
            n_cached += sim.step.n_cached_tokens;
            n_computed += sim.step.n_prefill_tokens;
        }

        assert_in_range(sim.n_computed, TRUNK, TRUNK + own_rows(4, pages[p]));
        assert_int_equal(n_cached + n_computed, TWINS * (TRUNK + TAIL));
        uint32_t n_whole = TRUNK / pages[p] * pages[p];
        for (uint32_t i = 1; i < TWINS; i++)
            assert_int_equal(twins[i].seq.n_prompt_cached, n_whole);
        assert_int_equal(twins[0].seq.n_prompt_cached, 0);
        sim_close(&sim);
    }
}

/* Also when whoever computes the trunk is still in flight as the others come. */
static void test_twins_of_a_step_in_flight_wait_for_it(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    options.chunk_tokens = 2048; /* the whole prompt in one step */
    sim_open(&options, &sim);
    sim.runs_ahead = true;
    sim_prompt(&twins[0], 1, TRUNK, 100, TRUNK + TAIL, 4);
    sim_push(&sim, &twins[0]);
    sim_step(&sim);
    assert_int_equal(sim.n_flights, 1);
    for (uint32_t i = 1; i < TWINS; i++) {
        sim_prompt(&twins[i], 1, TRUNK, 100 + i, TRUNK + TAIL, 4);
        sim_push(&sim, &twins[i]);
    }
    sim_drain(&sim, 200);
    assert_in_range(sim.n_computed, TRUNK, TRUNK + own_rows(4, 1) + sim.n_dropped);
    for (uint32_t i = 1; i < TWINS; i++) assert_int_equal(twins[i].seq.n_prompt_cached, TRUNK);
    sim_close(&sim);
}

/* The token that a step in flight is about to sample is nobody's reason to wait, whatever stands
 * where it will be put. */
static void test_a_token_that_is_not_told_yet_is_in_common_with_nobody(void **state) {
    (void)state;
    enum { COMMON = 31 }; /* one less than is worth waiting for */
    for (int32_t is_told = 0; is_told < 2; is_told++) {
        struct sched_options options = big_options(1);
        sim_open(&options, &sim);
        sim.runs_ahead = true;
        sim_prompt(&twins[0], 1, COMMON, 100, COMMON + (uint32_t)is_told, 4);
        const int32_t next = twins[0].tokens[COMMON];
        sim_push(&sim, &twins[0]);
        sim_step(&sim);
        assert_int_equal(sim.n_flights, 1);
        sim_prompt(&twins[1], 1, COMMON, 101, COMMON + 10, 4);
        twins[1].tokens[COMMON] = next;
        sim_push(&sim, &twins[1]);
        sim_step(&sim);
        assert_int_equal(sim.n_ahead, 1);
        assert_int_equal(sim.step.n_waiting_seqs, is_told);
        sim_drain(&sim, 100);
        sim_close(&sim);
    }
}

static void test_waiters_hold_no_private_slot(void **state) {
    (void)state;
    struct sched_options options = big_options(4);
    sim_open(&options, &sim);
    push_all(4);
    sim_step(&sim);
    sim_step(&sim);

    struct sched_stats stats;
    sched_stats(sim.s, &stats);
    assert_int_equal(stats.n_seqs_waiting, TWINS - 1);
    assert_int_equal(sim.step.n_waiting_seqs, TWINS - 1);
    uint32_t n_used = stats.n_slots_usable - stats.n_slots_free;
    assert_in_range(n_used, 256, TRUNK + TAIL + SCHED_RUN_TOKENS + 4); /* the leader's alone */
    for (uint32_t i = 1; i < TWINS; i++)
        assert_int_equal(kv_cache_n_held(sim.s->kv, &twins[i].seq.kv), twins[i].seq.kv.n_shared);
    sim_drain(&sim, 200);
    sim_close(&sim);
}

/* Leaders go, one after the other, in the middle of their work: nothing is computed twice. */
static void test_a_leader_that_is_aborted_half_way_loses_nothing(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    push_all(2);
    for (uint32_t i = 0; i < 5; i++) {
        sim_step(&sim);
        sim_abort(&sim, &twins[i]);
    }
    sim_drain(&sim, 200);

    assert_true(sim.n_computed <= TRUNK + own_rows(2, 1));
    for (uint32_t i = 5; i < TWINS; i++) assert_int_equal(twins[i].n_output, 2);
    sim_close(&sim);
}

static void test_a_leader_that_is_retracted_is_followed_by_the_next(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    twins[0].seq.n_prompt = 0;
    push_all(2);
    sim_step(&sim);
    sim_step(&sim);
    assert_int_equal(twins[0].seq.n_cached, 256);

    admit_retract_one(sim.s); /* of all the same, the first in the list: the leader */
    assert_int_equal(twins[0].seq.state, SCHED_SEQ_QUEUED);
    assert_int_equal(twins[0].seq.n_retractions, 1);
    sim_drain(&sim, 200);

    assert_true(sim.n_computed <= TRUNK + own_rows(2, 1));
    for (uint32_t i = 0; i < TWINS; i++) assert_int_equal(twins[i].n_output, 2);
    sim_close(&sim);
}

/* A leader without a chunk (its batch is full of others' work, or no slots are left) does not hold
 * its twins up: whoever gets a chunk leads. */
static void test_a_leader_that_stalls_is_overtaken(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    push_all(2);
    sim_step(&sim);
    sim_step(&sim);
    /* As if the first had got no chunk: it goes behind all others in the list of the running. */
    seq_unlink(&sim.s->running, &twins[0].seq);
    seq_append(&sim.s->running, &twins[0].seq);
    sim_step(&sim);

    assert_int_equal(twins[1].seq.n_cached, 256 + 128);
    sim_drain(&sim, 200);
    assert_true(sim.n_computed <= TRUNK + 128 + own_rows(2, 1));
    for (uint32_t i = 0; i < TWINS; i++) assert_int_equal(twins[i].n_output, 2);
    sim_close(&sim);
}

static void test_different_prompts_do_not_wait_for_each_other(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    sim_prompt(&twins[0], 1, 20, 5, 100, 2); /* 20 common tokens: not worth it */
    sim_prompt(&twins[1], 1, 20, 6, 100, 2);
    sim_prompt(&twins[2], 1, 100, 7, 100, 2); /* the same, but another namespace, and uncached */
    sim_prompt(&twins[3], 1, 100, 7, 100, 2);
    twins[2].seq.namespace_id = 3;
    twins[3].seq.is_cache_off = true;
    for (uint32_t i = 0; i < 4; i++) sim_push(&sim, &twins[i]);
    while (sim_step(&sim)) assert_int_equal(sim.step.n_waiting_seqs, 0);

    sim_close(&sim);
}

/* Exact twins: all but the first compute one token. */
static void test_equal_prompts_are_computed_once(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    for (uint32_t i = 0; i < TWINS; i++) {
        sim_prompt(&twins[i], 1, 300, 1, 300, 1);
        sim_push(&sim, &twins[i]);
    }
    sim_drain(&sim, 100);

    assert_int_equal(sim.n_computed, 300 + TWINS - 1);
    sim_close(&sim);
}

/* A tree of trunks: pairs share 600 tokens, all share 300. */
static void test_trunks_within_trunks_are_computed_once_each(void **state) {
    (void)state;
    struct sched_options options = big_options(1);
    sim_open(&options, &sim);
    for (uint32_t i = 0; i < 8; i++) {
        sim_prompt(&twins[i], 50 + i / 2, 600, 100 + i, 610, 1);
        for (uint32_t t = 0; t < 300; t++) twins[i].tokens[t] = (int32_t)t;
        sim_push(&sim, &twins[i]);
    }
    sim_drain(&sim, 100);

    assert_int_equal(sim.n_computed, 300 + 4 * 300 + 8 * 10);
    sim_close(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_32_twins_compute_their_trunk_once),
        cmocka_unit_test(test_twins_of_a_step_in_flight_wait_for_it),
        cmocka_unit_test(test_a_token_that_is_not_told_yet_is_in_common_with_nobody),
        cmocka_unit_test(test_waiters_hold_no_private_slot),
        cmocka_unit_test(test_a_leader_that_is_aborted_half_way_loses_nothing),
        cmocka_unit_test(test_a_leader_that_is_retracted_is_followed_by_the_next),
        cmocka_unit_test(test_a_leader_that_stalls_is_overtaken),
        cmocka_unit_test(test_different_prompts_do_not_wait_for_each_other),
        cmocka_unit_test(test_equal_prompts_are_computed_once),
        cmocka_unit_test(test_trunks_within_trunks_are_computed_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
