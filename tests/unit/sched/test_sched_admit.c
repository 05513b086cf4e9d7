/* Admission by estimate, eviction for whoever comes, retraction when the estimate was wrong, and
 * preemption: everybody ends with the answer that is due (sched_sim.h sees to that), nobody is
 * lost.
 */
#include "test.h"

#include "sched_int.h"
#include "sched_sim.h"

#include <math.h>

static struct sim sim;
static struct sim_request a, b, c, many[64];

static struct sched_stats stats_now(void) {
    struct sched_stats stats;
    sched_stats(sim.s, &stats);
    return stats;
}

static void test_admission_follows_the_formula_to_the_slot(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 4, 16};
    for (uint32_t p = 0; p < 3; p++) {
        uint32_t n_admitted = 0, n_refused = 0;
        for (uint32_t n_new = 250; n_new < 380; n_new++) {
            struct sched_options options = sim_options();
            options.kv.page_slots = pages[p];
            options.kv.n_slots = 800 + pages[p];
            sim_open(&options, &sim);
            sim_prompt(&a, 1, 0, 2, 90, 400);
            sim_prompt(&b, 1, 0, 3, 100, n_new);
            sim_push(&sim, &a);
            sim_step(&sim);
            sim_step(&sim);
            sim_push(&sim, &b);
            struct sched_stats before = stats_now();
            uint32_t n_held = kv_cache_n_held(sim.s->kv, &a.seq.kv);
            uint32_t n_needed = (100 + pages[p] - 1) / pages[p] * pages[p] + n_new + pages[p];
            uint32_t n_lacking = 90 + a.seq.n_output > n_held ? pages[p] : 0;
            double n_claimed = n_lacking + (400 - a.seq.n_output) * before.new_token_ratio;
            bool fits =
                n_needed + n_claimed <= (double)before.n_slots_free + before.n_slots_evictable;

            /* The decode of this step may take a run of slots first: only whole cases count. */
            sim_step(&sim);

            struct sched_stats after = stats_now();
            uint32_t n_run = kv_cache_n_held(sim.s->kv, &a.seq.kv) - n_held;
            if (!n_run) assert_int_equal(b.seq.state != SCHED_SEQ_QUEUED, fits);
            n_admitted += after.n_seqs_running == 2;
            n_refused += after.n_seqs_running == 1;
            sim_abort(&sim, &a);
            sim_abort(&sim, &b);
            sim_close(&sim);
        }
        assert_true(n_admitted > 5 && n_refused > 5);
    }
}

static void test_whoever_is_alone_is_admitted(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.kv.n_slots = 301;
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 250, 50);
    assert_int_equal(sched_tokens_max(sim.s), 300);
    sim_push(&sim, &a);
    sim_drain(&sim, 100);

    assert_int_equal(a.n_output, 50);
    assert_int_equal(a.seq.n_retractions, 0);
    sim_close(&sim);
}

static void test_the_ratio_sinks_while_all_goes_well(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    assert_true(fabs(stats_now().new_token_ratio - 0.7) < 1e-9);
    sim_prompt(&a, 1, 0, 2, 5, 102);
    sim_push(&sim, &a);
    sim_drain(&sim, 200);
    assert_true(fabs(stats_now().new_token_ratio - (0.7 - 101 * (0.7 - 0.098) / 600)) < 1e-9);
    for (uint32_t i = 0; i < 3; i++) {
        sim_prompt(&a, 1, 0, 2, 5, 400);
        sim_push(&sim, &a);
        sim_drain(&sim, 500);
    }
    assert_true(fabs(stats_now().new_token_ratio - 0.098) < 1e-9);
    sim_close(&sim);
}

/* 16 requests that need twice the pool: all run at once by a hopeful estimate, and all finish. */
static void test_twice_the_pool_is_served_to_the_end(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 2, 4, 16};
    for (uint32_t p = 0; p < 4; p++) {
        struct sched_options options = sim_options();
        options.kv.page_slots = pages[p];
        options.kv.n_slots = 640 + pages[p];
        options.kv.n_rows = 16;
        options.conservativeness = 0.05;
        sim_open(&options, &sim);
        for (uint32_t i = 0; i < 16; i++) {
            sim_prompt(&many[i], 1, 0, 10 + i, 20, 60);
            sim_push(&sim, &many[i]);
        }
        sim_drain(&sim, 2000);

        assert_true(sim.n_retracted > 0);
        assert_int_equal(stats_now().n_retracted_total, sim.n_retracted);
        uint32_t n_retracted = 0;
        for (uint32_t i = 0; i < 16; i++) {
            assert_int_equal(many[i].n_output, 60);
            n_retracted += many[i].seq.n_retractions;
        }
        assert_int_equal(n_retracted, sim.n_retracted);
        sim_close(&sim);
    }
}

/* Steps until somebody is sent back. */
static void run_until_full(void) {
    while (!sim.step.n_retracted_seqs) assert_true(sim_step(&sim));
}

static void test_the_victim_lost_least_and_goes_on_where_it_was(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.kv.n_slots = 301;
    options.conservativeness = 0.01;
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 20, 150);
    sim_prompt(&b, 1, 0, 3, 30, 150);
    sim_prompt(&c, 1, 0, 4, 40, 150);
    sim_push(&sim, &a);
    for (uint32_t i = 0; i < 10; i++) sim_step(&sim);
    sim_push(&sim, &b); /* b and c are level, c has the longer prompt */
    sim_push(&sim, &c);
    run_until_full();

    assert_int_equal(sim.step.n_retracted_seqs, 1);
    assert_int_equal(c.seq.state, SCHED_SEQ_QUEUED);
    assert_int_equal(b.seq.n_retractions, 0);
    assert_true(sim.step.n_slots_regained >= 40);
    uint32_t n_output = c.n_output;
    double generated = a.seq.n_output - 1 + b.seq.n_output - 1; /* before this step's tokens */
    double ratio = (generated + 2 * 20) / (300 + 1) * 0.01;
    assert_true(fabs(sim.step.new_token_ratio - ratio) < 1e-6);
    assert_true(n_output > 20);
    uint64_t n_computed = c.n_computed;
    while (c.seq.state == SCHED_SEQ_QUEUED) sim_step(&sim);
    assert_int_equal(c.n_output, n_output + (c.seq.state == SCHED_SEQ_DECODING));
    sim_drain(&sim, 1000);
    assert_int_equal(c.n_output, 150);
    assert_true(c.n_computed - n_computed < 40 + 150 + 10);
    sim_close(&sim);
}

static void test_a_victim_finds_in_the_tree_what_was_not_evicted(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 100, 20);
    sim_prompt(&b, 1, 0, 3, 10, 50);
    sim_push(&sim, &b);
    sim_push(&sim, &a);
    for (uint32_t i = 0; i < 8; i++) sim_step(&sim);
    uint32_t n_output = a.n_output;
    assert_true(n_output > 3 && b.n_output > n_output);

    admit_retract_one(sim.s);
    assert_int_equal(a.seq.state, SCHED_SEQ_QUEUED);
    uint64_t n_computed = a.n_computed;
    sim_step(&sim);

    assert_int_equal(a.n_output, n_output + 1);
    assert_int_equal(a.n_computed, n_computed + 1);
    assert_int_equal(a.seq.n_prompt_cached, 0); /* as it was at the first admission */
    sim_drain(&sim, 100);
    sim_close(&sim);
}

static void test_a_pool_full_of_cache_makes_room_for_a_big_request(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    for (uint32_t i = 0; i < 10; i++) {
        sim_prompt(&many[i], 1, 0, 20 + i, 200, 5);
        sim_push(&sim, &many[i]);
        sim_drain(&sim, 20);
    }
    assert_true(stats_now().n_slots_evictable > 1000);
    assert_true(stats_now().n_slots_free < 20);

    sim_prompt(&a, 1, 0, 2, 480, 20);
    sim_push(&sim, &a);
    sim_step(&sim);

    assert_int_equal(a.seq.state, SCHED_SEQ_PREFILLING);
    sim_drain(&sim, 100);
    assert_int_equal(a.seq.n_retractions, 0);
    sim_close(&sim);
}

/* Two chats alternate in a pool that holds one and a half: what comes next is pinned before room is
 * made for its tail, so it is never the thing evicted. */
static void test_an_incoming_prefix_is_not_evicted_for_its_own_tail(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.kv.n_slots = 601;
    sim_open(&options, &sim);
    for (uint32_t turn = 0; turn < 8; turn++) {
        uint32_t n_prompt = 340 + turn * 20, trunk = 1 + turn % 2;
        sim_prompt(&a, trunk, n_prompt, trunk, n_prompt, 1);
        enum radix_miss miss;
        struct radix_tokens tokens = {.head = a.tokens, .n_head = n_prompt};
        uint32_t n_found = kv_cache_peek(sim.s->kv, 0, &tokens, n_prompt - 1, &miss);
        sim_push(&sim, &a);
        sim_drain(&sim, 20);
        assert_int_equal(a.seq.n_prompt_cached, n_found);
        if (turn >= 2) assert_true(n_found > 50); /* no whole leaf was thrown away for 20 tokens */
    }
    sim_close(&sim);
}

static void test_a_shared_prefix_outlives_its_leaves(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    sim_open(&options, &sim);
    for (uint32_t i = 0; i < 30; i++) {
        sim_prompt(&a, 1, 150, 40 + i, 450, 5);
        sim_push(&sim, &a);
        sim_drain(&sim, 30);
        assert_int_equal(a.seq.n_prompt_cached, i ? 150 : 0);
        assert_int_equal(a.seq.miss, RADIX_MISS_UNSEEN);
    }
    /* And what was evicted is known as such. */
    sim_prompt(&a, 1, 150, 40, 450, 5);
    sim_push(&sim, &a);
    sim_drain(&sim, 30);
    assert_true(a.seq.n_prompt_cached < 449);
    sim_close(&sim);
}

/* ---- priorities ---- */

static struct sched_options priority_options(void) {
    struct sched_options options = sim_options();
    options.kv.n_slots = 301;
    options.has_priorities = true;
    return options;
}

static void test_a_far_higher_priority_preempts_and_the_victim_still_finishes(void **state) {
    (void)state;
    struct sched_options options = priority_options();
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 20, 200);
    sim_prompt(&b, 1, 0, 3, 30, 200);
    a.seq.priority = 5;
    b.seq.priority = 16;
    sim_push(&sim, &a);
    for (uint32_t i = 0; i < 20; i++) sim_step(&sim);
    sim_push(&sim, &b);
    sim_step(&sim);

    assert_int_equal(sim.step.n_preempted_seqs, 1);
    assert_int_equal(sim.step.n_retracted_seqs, 0);
    assert_int_equal(b.n_output, 1);
    assert_int_equal(a.seq.state, SCHED_SEQ_QUEUED);
    sim_drain(&sim, 1000);
    assert_int_equal(a.n_output, 200);
    assert_int_equal(b.n_output, 200);
    assert_true(a.last_ns > b.last_ns);
    sim_close(&sim);
}

static void test_a_priority_within_the_threshold_waits(void **state) {
    (void)state;
    struct sched_options options = priority_options();
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 20, 200);
    sim_prompt(&b, 1, 0, 3, 30, 200);
    sim_prompt(&c, 1, 0, 4, 30, 200);
    a.seq.priority = 5;
    b.seq.priority = 5;
    c.seq.priority = 15; /* 10 more: not more than the threshold */
    sim_push(&sim, &a);
    for (uint32_t i = 0; i < 20; i++) sim_step(&sim);
    sim_push(&sim, &b);
    sim_push(&sim, &c);
    sim_drain(&sim, 1000);

    assert_int_equal(sim.n_preempted, 0);
    assert_true(c.first_ns < b.first_ns); /* but it comes before its elders of lower priority */
    sim_close(&sim);
}

static void test_without_priorities_the_field_does_nothing(void **state) {
    (void)state;
    struct sched_options options = priority_options();
    options.has_priorities = false;
    sim_open(&options, &sim);
    sim_prompt(&a, 1, 0, 2, 20, 200);
    sim_prompt(&b, 1, 0, 3, 30, 200);
    sim_prompt(&c, 1, 0, 4, 30, 200);
    c.seq.priority = 100;
    sim_push(&sim, &a);
    sim_push(&sim, &b);
    sim_push(&sim, &c);
    sim_drain(&sim, 1000);

    assert_int_equal(sim.n_preempted, 0);
    assert_true(b.first_ns < c.first_ns);
    sim_close(&sim);
}

static void test_a_full_row_table_is_preempted_by_one(void **state) {
    (void)state;
    struct sched_options options = priority_options();
    options.kv.n_slots = 1001;
    options.kv.n_rows = 3;
    sim_open(&options, &sim);
    for (uint32_t i = 0; i < 3; i++) {
        sim_prompt(&many[i], 1, 0, 20 + i, 20, 40);
        many[i].seq.priority = -(int32_t)i;
        sim_push(&sim, &many[i]);
    }
    for (uint32_t i = 0; i < 5; i++) sim_step(&sim);
    sim_prompt(&a, 1, 0, 3, 20, 5);
    a.seq.priority = 50;
    sim_push(&sim, &a);
    sim_step(&sim);

    assert_int_equal(sim.n_preempted, 1);
    assert_int_equal(many[2].seq.n_retractions, 1); /* the lowest */
    sim_drain(&sim, 200);
    sim_close(&sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_follows_the_formula_to_the_slot),
        cmocka_unit_test(test_whoever_is_alone_is_admitted),
        cmocka_unit_test(test_the_ratio_sinks_while_all_goes_well),
        cmocka_unit_test(test_twice_the_pool_is_served_to_the_end),
        cmocka_unit_test(test_the_victim_lost_least_and_goes_on_where_it_was),
        cmocka_unit_test(test_a_victim_finds_in_the_tree_what_was_not_evicted),
        cmocka_unit_test(test_a_pool_full_of_cache_makes_room_for_a_big_request),
        cmocka_unit_test(test_an_incoming_prefix_is_not_evicted_for_its_own_tail),
        cmocka_unit_test(test_a_shared_prefix_outlives_its_leaves),
        cmocka_unit_test(test_a_far_higher_priority_preempts_and_the_victim_still_finishes),
        cmocka_unit_test(test_a_priority_within_the_threshold_waits),
        cmocka_unit_test(test_without_priorities_the_field_does_nothing),
        cmocka_unit_test(test_a_full_row_table_is_preempted_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
