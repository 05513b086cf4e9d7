/* The stall bound on a virtual clock: the longest gap between two tokens of any stream, whatever
 * arrives, and that prompts still get through. */
#include "test.h"

#include "sched_pace.h"
#include "sched_sim.h"

#include <math.h>

#define MS 1000000.0

static struct sim sim;
static struct sim_request streams[4], prompt, other;

static struct sched_options options_of(double stall_ms) {
    struct sched_options options = sim_options();
    options.kv.n_slots = 20001;
    options.kv.context_tokens = SIM_TOKENS_MAX;
    options.chunk_tokens = 512;
    options.stall_ns_max = (uint64_t)(stall_ms * MS);
    return options;
}

static void start_streams(uint32_t n_new) {
    for (uint32_t i = 0; i < 4; i++) {
        sim_prompt(&streams[i], 1, 0, 10 + i, 20, n_new);
        sim_push(&sim, &streams[i]);
    }
    for (uint32_t i = 0; i < 10; i++) sim_step(&sim);
}

static double gap_ms_max(void) {
    uint64_t ns = 0;
    for (uint32_t i = 0; i < 4; i++)
        if (streams[i].gap_ns_max > ns) ns = streams[i].gap_ns_max;
    return (double)ns / MS;
}

/* Four streams decode and a prompt of 4,000 tokens arrives. Returns the prompt's time in ms. */
static double inject(double stall_ms, const struct sim_cost *cost) {
    struct sched_options options = options_of(stall_ms);
    sim_open(&options, &sim);
    sim.cost = *cost;
    sim.checks_all = false;
    start_streams(500);
    sim_prompt(&prompt, 1, 0, 2, 4000, 5);
    sim_push(&sim, &prompt);
    while (!prompt.n_output) sim_step(&sim);
    double ms = (double)(prompt.first_ns - prompt.seq.arrived_ns) / MS;
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(streams[i].is_live);
        sim_abort(&sim, &streams[i]);
    }
    sim_drain(&sim, 100);
    sim_close(&sim);
    return ms;
}

static void test_no_stream_stalls_longer_than_the_bound(void **state) {
    (void)state;
    const struct sim_cost costs[] = {
        {.base = 20 * MS, .decode = 1 * MS, .token = 0.5 * MS},
        {.base = 5 * MS, .decode = 2 * MS, .token = 0.2 * MS, .depth = 100},
        {.base = 5 * MS, .decode = 2 * MS, .token = 0.2 * MS, .depth = 300, .noise = 0.1},
        {.base = 1 * MS, .decode = 0.1 * MS, .token = 2 * MS, .depth = 200, .noise = 0.05},
    };
    const double bounds[] = {60, 100, 250};
    for (uint32_t i = 0; i < sizeof costs / sizeof *costs; i++)
        for (uint32_t b = 0; b < 3; b++) {
            const struct sim_cost *cost = &costs[i];
            double ms = inject(bounds[b], cost), gap = gap_ms_max();
            if (gap > bounds[b])
                fail_msg("cost %u: a gap of %.1f ms, allowed are %.1f", i, gap, bounds[b]);

            /* And the room there is gets used: the prompt takes no more than twice what an ideal
             * split of the planned 80 % would. */
            double decode = cost->base + 4 * cost->decode;
            double work = 4000 * (cost->token + cost->depth * 2000);
            double room = (0.8 * bounds[b] * MS - decode) / (0.8 * bounds[b] * MS);
            assert_true(ms <= 2 * work / room / MS + 10 * bounds[b]);
        }
}

static void test_where_decodes_alone_reach_the_bound_prefill_still_gets_a_fifth_of_the_time(
    void **state) {
    (void)state;
    const struct sim_cost cost = {.base = 20 * MS, .decode = 10 * MS, .token = 0.5 * MS};
    double ms = inject(50, &cost), work_ms = 4000 * 0.5;
    assert_true(ms <= 6 * work_ms);      /* token by token it would be 120 times */
    assert_true(gap_ms_max() <= 60 * 2); /* and no step takes twice what its decodes do */
}

static void test_without_the_bound_they_do(void **state) {
    (void)state;
    const struct sim_cost cost = {.base = 5 * MS, .decode = 1 * MS, .token = 0.5 * MS};
    inject(0, &cost);
    assert_true(gap_ms_max() > 250);
}

static void test_nothing_measured_starts_with_32_tokens_beside_streams(void **state) {
    (void)state;
    struct sched_options options = options_of(100);
    sim_open(&options, &sim);
    /* A stream whose prompt was another's: a decode is all that was ever computed. */
    sim_prompt(&streams[0], 1, 0, 2, 1, 50);
    streams[0].seq.n_output = 0;
    sim_push(&sim, &streams[0]);
    const struct batch *batch = sched_fill(sim.s, sim.now_ns, &sim.step);
    assert_int_equal(batch->n_tokens, 1);
    sched_step_end(sim.s, 0); /* a clock that shows nothing: not measured */
    streams[0].tokens[1] = 5;
    sched_append(sim.s, &streams[0].seq, 5);
    sim_prompt(&prompt, 1, 0, 3, 400, 1);
    sim_push(&sim, &prompt);

    batch = sched_fill(sim.s, sim.now_ns, &sim.step);

    assert_int_equal(sim.step.n_prefill_tokens, 32);
    sched_step_end(sim.s, 1000);
    sim_abort(&sim, &streams[0]);
    sim_abort(&sim, &prompt);
    sim_close(&sim);
}

static void test_a_bound_too_short_still_lets_prefill_go_on(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 4, 16};
    for (uint32_t p = 0; p < 3; p++) {
        struct sched_options options = options_of(3);
        options.kv.page_slots = pages[p];
        options.kv.n_slots = 20000 + pages[p];
        sim_open(&options, &sim);
        sim.cost = (struct sim_cost){.base = 20 * MS, .decode = 1 * MS, .token = 10 * MS};
        start_streams(400);
        sim_prompt(&prompt, 1, 0, 2, 200, 1);
        sim_push(&sim, &prompt);
        for (uint32_t i = 0; i < 12; i++) {
            sim_step(&sim);
            if (i >= 2) assert_int_equal(sim.step.n_prefill_tokens, pages[p]);
        }
        sim_abort(&sim, &prompt);
        for (uint32_t i = 0; i < 4; i++) sim_abort(&sim, &streams[i]);
        sim_close(&sim);
    }
}

static void test_nobody_decodes_then_chunks_are_whole(void **state) {
    (void)state;
    struct sched_options options = options_of(10);
    sim_open(&options, &sim);
    sim.cost = (struct sim_cost){.token = 1 * MS};
    sim_prompt(&prompt, 1, 0, 2, 1500, 1);
    sim_push(&sim, &prompt);
    for (uint32_t i = 0; i < 2; i++) {
        sim_step(&sim);
        assert_int_equal(sim.step.n_prefill_tokens, 512);
    }
    sim_drain(&sim, 10);
    sim_close(&sim);
}

/* The second request's first token does not wait for the first one's end. */
static void test_the_second_request_does_not_wait_for_the_first(void **state) {
    (void)state;
    struct sched_options options = options_of(250);
    sim_open(&options, &sim);
    sim.cost = (struct sim_cost){.base = 10 * MS, .decode = 1 * MS, .token = 0.5 * MS};
    sim.checks_all = false;
    sim_prompt(&other, 1, 0, 2, 50, 2000);
    sim_push(&sim, &other);
    for (uint32_t i = 0; i < 100; i++) sim_step(&sim);
    sim_prompt(&prompt, 1, 0, 3, 300, 5);
    sim_push(&sim, &prompt);
    sim_drain(&sim, 5000);

    double ttft = (double)(prompt.first_ns - prompt.seq.arrived_ns) / MS;
    assert_true(ttft < 300 * 0.5 * 2 + 100);
    assert_true(prompt.last_ns < other.last_ns);
    sim_close(&sim);
}

/* The machine becomes four times slower: one step is late, the next knows. */
static void test_a_machine_that_slows_down_is_noticed_in_one_step(void **state) {
    (void)state;
    struct sched_options options = options_of(100);
    sim_open(&options, &sim);
    sim.checks_all = false;
    sim.cost = (struct sim_cost){.base = 5 * MS, .decode = 1 * MS, .token = 0.2 * MS};
    start_streams(400);
    sim_prompt(&prompt, 1, 0, 2, 4000, 5);
    sim_push(&sim, &prompt);
    for (uint32_t i = 0; i < 3; i++) sim_step(&sim);
    sim.cost = (struct sim_cost){.base = 20 * MS, .decode = 4 * MS, .token = 0.8 * MS};
    uint32_t n_late = 0;
    while (!prompt.n_output) {
        uint64_t before = sim.now_ns;
        sim_step(&sim);
        n_late += (double)(sim.now_ns - before) > 100 * MS;
    }

    assert_int_equal(n_late, 1);
    for (uint32_t i = 0; i < 4; i++) sim_abort(&sim, &streams[i]);
    sim_drain(&sim, 100);
    sim_close(&sim);
}

/* Every twelfth step is disturbed: that is expected from the first one on. */
static void test_a_peak_is_remembered_until_the_next(void **state) {
    (void)state;
    const struct sim_cost quiet = {.base = 5 * MS, .decode = 1 * MS, .token = 0.5 * MS};
    const struct sim_cost loud = {.base = 8 * MS, .decode = 1.6 * MS, .token = 0.8 * MS};
    struct sched_options options = options_of(100);
    sim_open(&options, &sim);
    sim.checks_all = false;
    sim.cost = quiet;
    start_streams(400);
    sim_prompt(&prompt, 1, 0, 2, 4000, 5);
    sim_push(&sim, &prompt);
    uint32_t n_late = 0, n_steps = 0;
    while (!prompt.n_output) {
        uint64_t before = sim.now_ns;
        sim.cost = ++n_steps % 12 == 6 ? loud : quiet;
        sim_step(&sim);
        n_late += (double)(sim.now_ns - before) > 100 * MS;
    }

    assert_true(n_steps > 24);
    assert_true(n_late <= 1);
    for (uint32_t i = 0; i < 4; i++) sim_abort(&sim, &streams[i]);
    sim_drain(&sim, 100);
    sim_close(&sim);
}

static void test_lines_are_found_again(void **state) {
    (void)state;
    struct pace pace;
    pace_init(&pace);
    assert_false(pace_knows_prefill(&pace));
    for (uint32_t i = 0; i < 40; i++) {
        struct pace_step decode = {.n_decodes = 1 + i % 8};
        pace_add(&pace, &decode, (uint64_t)(10 * MS + decode.n_decodes * 1 * MS));
        struct pace_step chunk = {.n_decodes = 1 + i % 8, .n_prefill_tokens = 64};
        double depth = i * 100 % 1700;
        chunk.position_sum = 64 * depth;
        double ns = 10 * MS + chunk.n_decodes * 1 * MS + 64 * (0.3 * MS + 200 * depth);
        pace_add(&pace, &chunk, (uint64_t)ns);
    }
    assert_true(fabs(pace_decode_ns(&pace, 3) - 13 * MS) < 0.1 * MS);
    assert_true(fabs(pace_decode_ns(&pace, 16) - 26 * MS) < 0.5 * MS);
    uint32_t n = pace_tokens_in(&pace, 100 * MS, 1000);
    double exact = n * (0.3 * MS + 200 * 1000) + 200.0 * n * n / 2;
    assert_true(exact > 95 * MS && exact < 101 * MS);
    assert_true(fabs(pace_chunk_ns(&pace, n, 1000) - exact) < 2 * MS);
    assert_int_equal(pace_tokens_in(&pace, -5, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stream_stalls_longer_than_the_bound),
        cmocka_unit_test(
            test_where_decodes_alone_reach_the_bound_prefill_still_gets_a_fifth_of_the_time),
        cmocka_unit_test(test_without_the_bound_they_do),
        cmocka_unit_test(test_nothing_measured_starts_with_32_tokens_beside_streams),
        cmocka_unit_test(test_a_bound_too_short_still_lets_prefill_go_on),
        cmocka_unit_test(test_nobody_decodes_then_chunks_are_whole),
        cmocka_unit_test(test_the_second_request_does_not_wait_for_the_first),
        cmocka_unit_test(test_a_machine_that_slows_down_is_noticed_in_one_step),
        cmocka_unit_test(test_a_peak_is_remembered_until_the_next),
        cmocka_unit_test(test_lines_are_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
