/* Random histories: arrivals, aborts, retractions, priorities, every policy and page size, steps
 * one after another and overlapping; after each step everything is recomputed, every row reads only
 * what its own tokens left there (sched_sim.h), nobody is lost, and in the end all slots are back.
 *
 * RADISH_SOAK=100000 test_sched_random runs as many requests through one scheduler. */
#include "test.h"

#include "sched_sim.h"

#include "base/rng.h"

enum { LIVE_MAX = 48, SOAK_LIVE_MAX = 300 };

struct history {
    struct sim sim;
    struct sim_request *requests; /* [n_requests_max] */
    uint32_t n_requests_max;
    uint64_t seed, counter;
    uint64_t n_pushed, n_ended;
};

static uint32_t random_below(struct history *h, uint32_t n) {
    return (uint32_t)(rng_u64(h->seed, h->counter++) % n);
}

static void count_end(struct sim *sim, struct sim_request *request) {
    (void)request;
    struct history *h = sim->user;
    h->n_ended++;
}

static uint64_t n_retracted_all, n_ahead_all, n_dropped_all; /* in all tests */

/* A new request in a cell that is free: some share a trunk, some end early, some want logits. */
static void arrive(struct history *h) {
    struct sim_request *request = &h->requests[random_below(h, h->n_requests_max)];
    if (request->is_live) return;
    uint32_t max = sched_tokens_max(h->sim.s);
    uint32_t n_prompt = 1 + random_below(h, random_below(h, 4) ? 60 : max - 1);
    uint32_t n_new = random_below(h, random_below(h, 3) ? 40 : max);
    if (n_prompt + n_new > max) n_new = max - n_prompt;
    uint32_t n_trunk = random_below(h, 3) ? random_below(h, n_prompt + 1) : 0;
    sim_prompt(request, h->seed + random_below(h, 4), n_trunk, h->seed + 100 + h->counter, n_prompt,
               n_new);
    bool ends_early = n_new && random_below(h, 2);
    request->n_wanted = ends_early ? 1 + random_below(h, n_new) : n_new;
    request->seq.namespace_id = random_below(h, 5) == 0;
    request->seq.is_cache_off = random_below(h, 12) == 0;
    request->seq.is_background = request->seq.is_uncounted = random_below(h, 15) == 0;
    request->seq.priority = (int32_t)random_below(h, 4) * 11 - 11;
    if (random_below(h, 6) == 0) request->seq.logits_from = random_below(h, n_prompt + 1);
    sim_push(&h->sim, request);
    h->n_pushed++;
}

static void abort_one(struct history *h) {
    struct sim_request *request = &h->requests[random_below(h, h->n_requests_max)];
    if (request->is_live) sim_abort(&h->sim, request);
}

static void finish(struct history *h) {
    sim_drain(&h->sim, 100000); /* nobody starves: the queue drains */
    assert_int_equal(h->n_pushed, h->n_ended);
    for (uint32_t i = 0; i < h->n_requests_max; i++) assert_false(h->requests[i].is_live);
    sim_close(&h->sim);
    free(h->requests);
}

static void open_history(struct history *h, const struct sched_options *options, uint64_t seed,
                         uint32_t n_requests_max) {
    *h = (struct history){.seed = seed, .n_requests_max = n_requests_max};
    h->requests = calloc(n_requests_max, sizeof *h->requests);
    assert_non_null(h->requests);
    sim_open(options, &h->sim);
    h->sim.user = h;
    h->sim.on_end = count_end;
    h->sim.cost = (struct sim_cost){.base = 1e6, .decode = 1e5, .token = 1e5, .depth = 100};
}

static uint64_t run_history(uint64_t seed, uint32_t page_slots, uint32_t n_usable,
                            enum sched_policy policy, uint32_t n_steps) {
    bool runs_ahead = seed / 7 % 2;
    struct sched_options options = sim_options();
    options.policy = policy;
    options.kv.page_slots = page_slots;
    options.kv.n_slots = n_usable + page_slots;
    options.kv.context_tokens = n_usable * 2 / 3;
    options.kv.policy = (enum radix_policy)(seed % RADIX_POLICY_COUNT);
    options.kv.is_tree_off = seed % 11 == 5;
    options.chunk_tokens = 1 + (uint32_t)(seed % 5) * 10;
    options.has_priorities = runs_ahead ? seed % 5 == 0 : seed % 2;
    options.stall_ns_max = seed % 3 ? 4000000 : 0;
    options.conservativeness = seed % 4 ? 0.02 : 1; /* expects far too little: retracts */
    struct history h;
    open_history(&h, &options, seed, LIVE_MAX);
    h.sim.runs_ahead = runs_ahead;
    h.sim.lead_1_in = (uint32_t)(seed % 3) * 3;
    for (uint32_t i = 0; i < n_steps; i++) {
        for (uint32_t n = random_below(&h, 3); n; n--) arrive(&h);
        if (random_below(&h, 4) == 0) abort_one(&h);
        sim_step(&h.sim);
    }
    assert_true(h.n_pushed > n_steps / 20);
    uint64_t n_retracted = h.sim.n_retracted;
    n_ahead_all += h.sim.n_ahead;
    n_dropped_all += h.sim.n_dropped;
    finish(&h);
    return n_retracted;
}

static void test_random_histories_keep_every_invariant_and_end_at_baseline(void **state) {
    (void)state;
    static const struct {
        uint32_t page_slots, n_usable;
    } pools[] = {{1, 300}, {1, 900}, {2, 400}, {4, 400}, {16, 640}, {7, 700}};
    const char *given = getenv("RADISH_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system() % 1000000;
    printf("seed %llu\n", (unsigned long long)seed);
    uint64_t n_retracted = 0;
    for (uint32_t policy = 0; policy < SCHED_POLICY_COUNT; policy++)
        for (uint32_t i = 0; i < sizeof pools / sizeof *pools; i++)
            n_retracted += run_history(seed + policy * 100 + i, pools[i].page_slots,
                                       pools[i].n_usable, (enum sched_policy)policy, 120);
    n_retracted_all += n_retracted;
    printf("%llu steps ahead, %llu rows for nobody\n", (unsigned long long)n_ahead_all,
           (unsigned long long)n_dropped_all);
    assert_true(n_ahead_all > 100 && n_dropped_all > 10);
}

/* Many short requests, hundreds queued, with aborts: the pool ends where it began. */
static void soak(uint64_t seed, uint64_t n_requests, bool runs_ahead) {
    struct sched_options options = sim_options();
    options.policy = SCHED_POLICY_LPM;
    options.kv.n_slots = 1500 + 1;
    options.kv.n_rows = 32;
    options.stall_ns_max = 20000000;
    options.has_priorities = !runs_ahead;
    options.conservativeness = 0.05;
    struct history h;
    open_history(&h, &options, seed, SOAK_LIVE_MAX);
    h.sim.runs_ahead = runs_ahead;
    h.sim.lead_1_in = 8;
    while (h.n_pushed < n_requests) {
        for (uint32_t n = random_below(&h, 8); n; n--) arrive(&h);
        if (random_below(&h, 3) == 0) abort_one(&h);
        sim_step(&h.sim);
    }
    printf("%llu requests, %llu steps, %llu retracted, %llu preempted\n",
           (unsigned long long)h.n_pushed, (unsigned long long)h.sim.n_steps,
           (unsigned long long)h.sim.n_retracted, (unsigned long long)h.sim.n_preempted);
    n_retracted_all += h.sim.n_retracted;
    finish(&h);
}

static void test_a_soak_of_many_requests_loses_no_slot(void **state) {
    (void)state;
    const char *given = getenv("RADISH_SOAK");
    for (int runs_ahead = 0; runs_ahead < 2; runs_ahead++)
        soak(rng_seed_from_system(), given ? strtoull(given, NULL, 10) : 600, runs_ahead);
    assert_true(n_retracted_all > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories_keep_every_invariant_and_end_at_baseline),
        cmocka_unit_test(test_a_soak_of_many_requests_loses_no_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
