/* Who is next: every policy's order, ageing with its bound, and how much is looked up in a fill.
 * One row, so that the order of admission is the order of ends. */
#include "test.h"

#include "sched_int.h"
#include "sched_sim.h"

enum { MANY = 300 };
#define MS 1000000u

static struct sim sim;
static struct sim_request r[MANY], warm;
static const struct sim_request *ended[MANY];
static uint32_t n_ended;

static void note_end(struct sim *s, struct sim_request *request) {
    (void)s;
    if (n_ended < MANY) ended[n_ended] = request;
    n_ended++;
}

static void open_sim(enum sched_policy policy) {
    struct sched_options options = sim_options();
    options.policy = policy;
    options.kv.n_rows = 1;
    options.kv.n_slots = 8001;
    options.kv.context_tokens = 2000;
    options.chunk_tokens = 2000;
    options.has_priorities =
        true; /* all are equal: the queue is put in order even while it waits */
    sim_open(&options, &sim);
    sim.cost = (struct sim_cost){.token = 1e6};
    sim.on_end = note_end;
    n_ended = 0;
}

/* Runs one request whose prompt is the text `trunk`, so that it is in the tree. */
static void cache_trunk(uint64_t trunk, uint32_t n) {
    sim_prompt(&warm, trunk, n, trunk, n, 1);
    sim_push(&sim, &warm);
    sim_drain(&sim, 20);
    n_ended = 0;
}

/* Someone who runs while the others queue up; ends first. */
static void occupy(void) {
    sim_prompt(&warm, 999, 0, 998, 10, 3);
    sim_push(&sim, &warm);
    sim_step(&sim);
}

static void push(uint32_t i, uint64_t trunk, uint32_t n_trunk, uint32_t n_prompt, uint32_t n_new) {
    sim_prompt(&r[i], trunk, n_trunk, 1000 + i, n_prompt, n_new);
    sim.now_ns += 1000;
    sim_push(&sim, &r[i]);
}

static void assert_order(const uint32_t *order, uint32_t n) {
    sim_drain(&sim, 10000);
    assert_int_equal(n_ended, n + 1);
    assert_ptr_equal(ended[0], &warm);
    for (uint32_t i = 0; i < n; i++) {
        if (ended[i + 1] != &r[order[i]])
            fail_msg("place %u has request %td, not %u", i, ended[i + 1] - r, order[i]);
    }
    sim_close(&sim);
}

static void test_fcfs_serves_in_order_of_arrival(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_FCFS);
    cache_trunk(1, 500);
    occupy();
    push(0, 2, 0, 100, 1);
    push(1, 1, 500, 510, 1);
    push(2, 2, 0, 10, 9);
    assert_order((uint32_t[]){0, 1, 2}, 3);
}

static void test_lpm_serves_what_is_cached_first(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_LPM);
    cache_trunk(1, 500);
    cache_trunk(2, 500);
    occupy();
    push(0, 3, 0, 400, 1);   /* 400 to compute */
    push(1, 1, 500, 600, 1); /* 100 */
    push(2, 2, 500, 510, 1); /* 10 */
    push(3, 3, 0, 50, 1);    /* 50 */
    assert_order((uint32_t[]){2, 3, 1, 0}, 4);
}

/* Warm requests come faster than they are served. Whoever begins before the cold one came within
 * AGEING (4) times the cold one's prefill time after it; those who came later do not overtake. */
static void test_a_cold_request_in_a_hot_stream_waits_no_longer_than_the_bound(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_LPM);
    cache_trunk(1, 500);
    occupy();
    const uint32_t cold = 5, n_cold = 300;
    uint32_t n_pushed = 0;
    for (; n_pushed < cold; n_pushed++) push(n_pushed, 1, 500, 520, 1);
    push(n_pushed++, 2, 0, n_cold, 1);
    uint64_t window_end = r[cold].seq.arrived_ns + 4ull * n_cold * MS;
    uint64_t next_ns = sim.now_ns;
    while (r[cold].is_live) {
        for (; next_ns <= sim.now_ns && n_pushed < MANY; next_ns += 15 * MS) {
            sim_prompt(&r[n_pushed], 1, 500, 1000 + n_pushed, 520, 1);
            r[n_pushed].seq.arrived_ns = next_ns;
            sim_push(&sim, &r[n_pushed++]);
        }
        assert_true(sim_step(&sim));
    }

    uint32_t n_overtook = 0, n_ahead = 0;
    for (uint32_t i = 1; i < n_ended && ended[i] != &r[cold]; i++) {
        assert_true(ended[i]->seq.arrived_ns <= window_end);
        n_overtook += ended[i]->seq.arrived_ns >= r[cold].seq.arrived_ns;
        n_ahead++;
    }
    assert_true(n_overtook > 20); /* warm ones do go first, within the window */
    assert_int_equal(n_ahead, n_overtook + cold);
    /* The stated bound: to drain what was ahead, and the window's arrivals, 20 ms each. */
    uint64_t n_window = 4ull * n_cold * MS / (15 * MS) + 1;
    uint64_t bound = (cold + n_window) * 20 * MS + 20 * MS + (uint64_t)n_cold * MS;
    assert_true(r[cold].first_ns - r[cold].seq.arrived_ns <= bound);
    assert_true(n_pushed < MANY); /* the stream never dried up */
    sim_drain(&sim, 10000);
    sim_close(&sim);
}

/* A queue of huge cold prompts and a nearly free turn: it does not wait for them. */
static void test_a_warm_turn_goes_before_a_cold_queue(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_LPM);
    cache_trunk(1, 1500);
    occupy();
    for (uint32_t i = 0; i < 8; i++) push(i, 2, 0, 1000, 1);
    push(8, 1, 1500, 1510, 1);
    sim_drain(&sim, 1000);

    assert_ptr_equal(ended[1], &r[8]);
    sim_close(&sim);
}

static void test_dfs_weight_serves_the_heaviest_branch_first(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_DFS_WEIGHT);
    for (uint64_t trunk = 1; trunk <= 3; trunk++) cache_trunk(trunk, 300);
    /* In trunk 2, two branches behind 100 tokens. */
    sim_prompt(&warm, 2, 100, 50, 300, 1);
    sim_push(&sim, &warm);
    sim_drain(&sim, 10);
    n_ended = 0;
    occupy();
    push(0, 1, 300, 310, 1);
    push(1, 2, 300, 310, 1);
    push(2, 3, 300, 310, 1);
    push(3, 2, 300, 310, 1);
    push(4, 1, 300, 310, 1);
    push(5, 2, 150, 160, 1); /* ends on the way of 1 and 3 */
    push(6, 9, 0, 10, 1);    /* nothing is cached of it */
    sim_prompt(&r[7], 2, 100, 50, 310, 1);
    sim_push(&sim, &r[7]); /* the other branch of trunk 2 */
    sim_step(&sim);
    /* Trunk 2 has four below it (its heavier branch first, and there whoever goes further first),
     * trunk 1 two, trunk 3 one; who ends at the root is last. */
    const struct sched_seq *seq = sim.s->queue.head;
    const uint32_t order[] = {1, 3, 5, 7, 0, 4, 2, 6};
    for (uint32_t i = 0; i < 8; i++, seq = seq->next) assert_ptr_equal(seq, &r[order[i]].seq);
    sim_drain(&sim, 1000);
    sim_close(&sim);
}

static void test_lof_serves_the_longest_answers_first(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_LOF);
    occupy();
    push(0, 2, 0, 10, 5);
    push(1, 2, 0, 10, 50);
    push(2, 2, 0, 10, 7);
    push(3, 2, 0, 10, 50);
    assert_order((uint32_t[]){1, 3, 2, 0}, 4);
}

/* Those whom the policy prefers come faster than they are served, for ever. */
static void starve(enum sched_policy policy) {
    open_sim(policy);
    sim.cost.decode = 20 * MS; /* 0.4 s each */
    sim.checks_all = false;
    cache_trunk(1, 500);
    occupy();
    push(0, 2, 0, 1500, 1);
    uint32_t n_pushed = 1;
    while (r[0].is_live) {
        while (n_pushed < MANY && n_pushed < n_ended + 4) {
            push(n_pushed, 1, 500, 510, 20);
            n_pushed++;
        }
        assert_true(n_pushed < MANY);
        assert_true(sim_step(&sim));
    }
    assert_true(n_ended > 10);
    for (uint32_t i = 1; ended[i] != &r[0]; i++)
        assert_true(ended[i]->seq.arrived_ns <= r[0].seq.arrived_ns + 8000ull * MS);
    sim_drain(&sim, 10000);
    sim_close(&sim);
}

static void test_whom_a_policy_puts_last_is_served_though_others_keep_coming(void **state) {
    (void)state;
    starve(SCHED_POLICY_LOF);
    starve(SCHED_POLICY_DFS_WEIGHT);
    starve(SCHED_POLICY_HRRN);
}

static void random_order(uint64_t seed, uint32_t order_out[20]) {
    struct sched_options options = sim_options();
    options.policy = SCHED_POLICY_RANDOM;
    options.kv.n_rows = 1;
    options.seed = seed;
    sim_open(&options, &sim);
    sim.on_end = note_end;
    n_ended = 0;
    for (uint32_t i = 0; i < 20; i++) push(i, 2, 0, 10, 1);
    sim_drain(&sim, 100);
    for (uint32_t i = 0; i < 20; i++) order_out[i] = (uint32_t)(ended[i] - r);
    sim_close(&sim);
}

static void test_random_is_an_order_by_seed(void **state) {
    (void)state;
    uint32_t a[20], b[20], c[20];
    random_order(1, a);
    random_order(1, b);
    random_order(2, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    uint32_t n_in_place = 0;
    for (uint32_t i = 0; i < 20; i++) n_in_place += a[i] == i;
    assert_true(n_in_place < 15);
}

static void test_hrrn_weighs_wait_against_cost(void **state) {
    (void)state;
    open_sim(SCHED_POLICY_HRRN);
    occupy();
    push(0, 2, 0, 500, 1); /* waits 2.0 times its cost: 3.0 */
    push(1, 2, 0, 100, 1); /* waits 0.5 times its cost: 1.5 */
    push(2, 2, 0, 20, 1);  /* just came: 1.0 */
    r[0].seq.arrived_ns = sim.now_ns - 1000 * MS;
    r[1].seq.arrived_ns = sim.now_ns - 50 * MS;
    r[2].seq.arrived_ns = sim.now_ns;
    sim_step(&sim);
    sim_step(&sim);                         /* the first ends */
    assert_order((uint32_t[]){0, 2, 1}, 3); /* after 500 ms the short one's ratio is the highest */
}

static void test_without_a_tree_lpm_and_dfs_weight_are_fcfs(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct sched_options options = sim_options();
        options.policy = i ? SCHED_POLICY_LPM : SCHED_POLICY_DFS_WEIGHT;
        options.kv.n_rows = 1;
        options.kv.is_tree_off = true;
        sim_open(&options, &sim);
        sim.on_end = note_end;
        n_ended = 0;
        occupy();
        push(0, 2, 0, 400, 1);
        push(1, 2, 0, 10, 1);
        assert_order((uint32_t[]){0, 1}, 2);
    }
}

static void test_a_long_queue_is_looked_up_in_rounds(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        open_sim(i ? SCHED_POLICY_LPM : SCHED_POLICY_DFS_WEIGHT);
        sim.checks_all = false;
        cache_trunk(1, 500);
        for (uint32_t k = 0; k < MANY; k++) push(k, 1, k % 500, 500, 1);
        sim_step(&sim);
        uint32_t n_peeked = 0;
        for (uint32_t k = 0; k < MANY; k++) n_peeked += r[k].seq.peek_round > 0;
        assert_in_range(n_peeked, 1, SCHED_PEEKS_MAX);
        sim_step(&sim);
        sim_step(&sim);
        n_peeked = 0;
        for (uint32_t k = 0; k < MANY; k++) n_peeked += r[k].seq.peek_round > 0;
        assert_in_range(n_peeked, SCHED_PEEKS_MAX + 1, MANY);
        sim_drain(&sim, 10000);
        assert_int_equal(n_ended, MANY);
        sim_close(&sim);
    }
}

static void test_priority_comes_before_the_policy(void **state) {
    (void)state;
    struct sched_options options = sim_options();
    options.policy = SCHED_POLICY_LOF;
    options.kv.n_rows = 1;
    options.has_priorities = true;
    sim_open(&options, &sim);
    sim.on_end = note_end;
    n_ended = 0;
    occupy();
    const int32_t priorities[] = {0, 3, -2, 3};
    for (uint32_t i = 0; i < 4; i++) {
        sim_prompt(&r[i], 2, 0, 30 + i, 10, 5 + i);
        r[i].seq.priority = priorities[i];
        sim_push(&sim, &r[i]);
    }
    assert_order((uint32_t[]){3, 1, 0, 2}, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fcfs_serves_in_order_of_arrival),
        cmocka_unit_test(test_lpm_serves_what_is_cached_first),
        cmocka_unit_test(test_a_cold_request_in_a_hot_stream_waits_no_longer_than_the_bound),
        cmocka_unit_test(test_a_warm_turn_goes_before_a_cold_queue),
        cmocka_unit_test(test_dfs_weight_serves_the_heaviest_branch_first),
        cmocka_unit_test(test_lof_serves_the_longest_answers_first),
        cmocka_unit_test(test_whom_a_policy_puts_last_is_served_though_others_keep_coming),
        cmocka_unit_test(test_random_is_an_order_by_seed),
        cmocka_unit_test(test_hrrn_weighs_wait_against_cost),
        cmocka_unit_test(test_without_a_tree_lpm_and_dfs_weight_are_fcfs),
        cmocka_unit_test(test_a_long_queue_is_looked_up_in_rounds),
        cmocka_unit_test(test_priority_comes_before_the_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
