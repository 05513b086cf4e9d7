/* What the engine tells of its cache: why a prompt was not found, and what the tree holds. */
#include "test.h"

#include "engine_client.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/radix_watch.h"
#include "sched/sched_int.h"

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *first, *second;
static int32_t prompts[4][600];
static struct radish_radix_report report;

static int make_clients(void **state) {
    (void)state;
    first = client_create();
    second = client_create();
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 600; j++) prompts[i][j] = (int32_t)(rng_u64(77 + i, j) % 512);
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    client_destroy(first);
    client_destroy(second);
    return 0;
}

static void open_engine(struct radish_engine_options options) {
    options.explains_misses = true;
    client_open_engine("llama", &options, &model, &engine);
}

static void close_engine(void) {
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
}

static void run(const int32_t *prompt, uint32_t n_prompt, uint32_t n_new) {
    struct radish_request request = client_request(prompt, n_prompt, n_new);
    client_run(first, engine, &request);
}

static const struct radish_radix_report *ask(void) {
    assert_int_equal(radish_engine_radix_report(engine, &report, NULL), RADISH_OK);
    assert_int_equal(report.tokens_free + report.tokens_evictable + report.tokens_pinned +
                         report.tokens_private,
                     report.tokens_total);
    return &report;
}

/* The newest record. */
static const struct radish_miss_record *newest(void) {
    ask();
    assert_true(report.n_misses > 0);
    return &report.misses[0];
}

static void check_place(const struct radish_miss_record *record, const int32_t *prompt,
                        uint32_t n_prompt, uint32_t n_cached, enum radish_miss miss) {
    assert_int_equal(record->n_prompt, n_prompt);
    assert_int_equal(record->n_cached, n_cached);
    assert_int_equal(record->miss, miss);
    uint32_t n_before = n_cached < 8 ? n_cached : 8;
    assert_int_equal(record->n_tokens, n_before + 1);
    assert_memory_equal(record->tokens, prompt + n_cached - n_before, 4 * (n_before + 1));
    assert_true(record->age_seconds >= 0 && record->age_seconds < 600);
}

static void test_a_miss_is_explained_by_the_first_token_that_differs(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512});
    run(prompts[0], 100, 5);
    check_place(newest(), prompts[0], 100, 0, RADISH_MISS_UNSEEN);
    run(prompts[0], 100, 5);
    check_place(newest(), prompts[0], 100, 99, RADISH_MISS_NONE);

    int32_t other[120];
    memcpy(other, prompts[0], sizeof other);
    other[60] = other[60] ? 0 : 1;
    run(other, 120, 5);
    check_place(newest(), other, 120, 60, RADISH_MISS_UNSEEN);
    memcpy(other, prompts[0], sizeof other);
    other[3] = other[3] ? 0 : 1;
    run(other, 120, 5);
    check_place(newest(), other, 120, 3, RADISH_MISS_UNSEEN);

    assert_int_equal(report.n_misses, 4);
    assert_true(report.misses[3].request < report.misses[0].request); /* newest first */
    close_engine();
}

static void test_what_had_to_go_is_told_from_what_was_never_there(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 320, .context_tokens = 300});
    run(prompts[0], 250, 1);
    run(prompts[1], 250, 1); /* the first goes, from its end */
    run(prompts[0], 250, 1);
    const struct radish_miss_record *record = newest();

    assert_in_range(record->n_cached, 0, 100);
    check_place(record, prompts[0], 250, record->n_cached, RADISH_MISS_EVICTED);
    assert_true(report.evicted_tokens_total >= 180);
    close_engine();
}

static void test_a_request_that_does_not_look_says_so(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512});
    run(prompts[0], 100, 5);
    struct radish_request request = client_request(prompts[0], 100, 5);
    request.is_cache_off = true;
    client_run(first, engine, &request);
    check_place(newest(), prompts[0], 100, 0, RADISH_MISS_OFF);
    request.is_cache_off = false;
    request.prompt_logprobs = true;
    client_run(first, engine, &request);
    check_place(newest(), prompts[0], 100, 0, RADISH_MISS_OFF);
    close_engine();
}

/* On the engine's thread, with the first rows of the first prompt: the second comes in the next
 * step, when most of the first is still to be computed. */
static void submit_second(void *user, size_t row, size_t n_rows, size_t n_vocab,
                          const float *logits) {
    (void)user;
    (void)n_rows;
    (void)n_vocab;
    (void)logits;
    if (row) return;
    struct radish_request request = client_request(prompts[0], 500, 2);
    assert_int_equal(client_submit(second, engine, &request, NULL), RADISH_OK);
}

static void test_a_twin_says_that_another_is_computing(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){
        .kv_tokens_max = 2000, .context_tokens = 512, .chunk_tokens = 16});
    struct radish_request request = client_request(prompts[0], 500, 2);
    request.on_logits = submit_second;
    client_run(first, engine, &request);
    client_wait(second);

    check_place(newest(), prompts[0], 500, 16, RADISH_MISS_TWIN);
    assert_int_equal(second->choices[0].usage.cached_tokens, 499);
    close_engine();
}

static void test_the_last_hundred_misses_are_kept(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512});
    for (uint32_t i = 0; i < RADISH_REPORT_MISSES_MAX + 5; i++) run(prompts[0] + i, 10, 1);
    ask();

    assert_int_equal(report.n_misses, RADISH_REPORT_MISSES_MAX);
    for (uint32_t i = 0; i < RADISH_REPORT_MISSES_MAX; i++)
        assert_int_equal(report.misses[i].tokens[0], prompts[0][RADISH_REPORT_MISSES_MAX + 4 - i]);
    close_engine();
}

static void test_the_report_counts_and_ranks_prefixes(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512});
    ask();
    assert_true(report.is_enabled);
    assert_int_equal(report.tokens_free, 2000);
    assert_int_equal(report.n_nodes + report.n_prefixes + report.matches_total, 0);
    assert_string_equal(report.eviction_policy, "lru");
    assert_string_equal(report.schedule_policy, "lpm");
    assert_int_equal(report.page_tokens, 1);

    for (uint32_t i = 0; i < 3; i++) run(prompts[0], 50, 1);  /* 49 x 2 */
    for (uint32_t i = 0; i < 2; i++) run(prompts[1], 300, 1); /* 299 x 1 */
    run(prompts[2], 40, 1);                                   /* never again */
    ask();

    assert_int_equal(report.matches_total, 6);
    assert_int_equal(report.hit_tokens_total, 2 * 49 + 299);
    assert_int_equal(report.match_tokens_total, 3 * 49 + 2 * 299 + 39);
    assert_int_equal(report.n_namespaces, 1);
    assert_int_equal(report.n_nodes_visited, report.n_nodes);
    assert_int_equal(report.tokens_pinned + report.tokens_private, 0);
    assert_int_equal(report.tokens_evictable, 50 + 300 + 40);
    assert_int_equal(report.n_prefixes, 2);
    assert_int_equal(report.prefixes[0].n_tokens, 299);
    assert_int_equal(report.prefixes[0].n_hits, 1);
    assert_memory_equal(report.prefixes[0].tokens, prompts[1], 4 * RADISH_REPORT_TOKENS_MAX);
    assert_int_equal(report.prefixes[1].n_tokens, 49);
    assert_int_equal(report.prefixes[1].n_hits, 2);
    assert_memory_equal(report.prefixes[1].tokens, prompts[0], 4 * RADISH_REPORT_TOKENS_MAX);
    assert_true(report.prefixes[1].age > report.prefixes[0].age);
    assert_true(report.age_oldest > report.age_newest);
    close_engine();
}

static void test_only_the_ten_largest_prefixes_are_told(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 512});
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t n = 3 + i * 7 % 30; /* all different, in no order */
        run(prompts[3] + 10 * i, n, 1);
        run(prompts[3] + 10 * i, n, 1);
    }
    ask();

    assert_int_equal(report.n_prefixes, RADISH_REPORT_PREFIXES_MAX);
    for (uint32_t i = 0; i < RADISH_REPORT_PREFIXES_MAX; i++)
        assert_int_equal(report.prefixes[i].n_tokens, 31 - i);
    close_engine();
}

static void test_a_report_comes_while_an_answer_runs(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){.kv_tokens_max = 2000, .context_tokens = 1024});
    struct radish_request request = client_request(prompts[0], 100, 900);
    assert_int_equal(client_submit(first, engine, &request, NULL), RADISH_OK);
    client_wait_tokens(first, 5);
    ask();
    assert_true(report.tokens_pinned >= 100);
    radish_engine_abort(engine, first->request);
    client_wait(first);
    close_engine();
}

static void test_without_a_cache_there_is_only_the_pool(void **state) {
    (void)state;
    open_engine((struct radish_engine_options){
        .kv_tokens_max = 2000, .context_tokens = 512, .is_cache_off = true});
    run(prompts[0], 100, 5);
    ask();
    assert_false(report.is_enabled);
    assert_int_equal(report.tokens_free, 2000);
    assert_int_equal(report.n_prefixes, 0);
    check_place(&report.misses[0], prompts[0], 100, 0, RADISH_MISS_OFF);
    close_engine();
}

static void test_without_explaining_nothing_is_kept(void **state) {
    (void)state;
    struct radish_engine_options options = {.kv_tokens_max = 2000, .context_tokens = 512};
    client_open_engine("llama", &options, &model, &engine);
    run(prompts[0], 100, 5);
    assert_int_equal(ask()->n_misses, 0);
    close_engine();
}

/* A namespace of as many nodes as there are slots, each of one token. */
static void grow(struct kv_cache *cache, uint32_t n_nodes) {
    for (uint32_t i = 0; i < n_nodes; i++) {
        int32_t id = (int32_t)i;
        struct radix_tokens tokens = {.head = &id, .n_head = 1};
        struct kv_seq seq;
        assert_int_equal(kv_cache_open(cache, 0, true, &tokens, 0, 0, &seq), RADISH_OK);
        assert_int_equal(kv_cache_extend(cache, &seq, 1, 1), RADISH_OK);
        kv_cache_commit(cache, &seq, &tokens, 1);
        kv_cache_close(cache, &seq);
    }
}

static void test_a_report_of_a_huge_tree_looks_at_a_bounded_part(void **state) {
    (void)state;
    const uint32_t n_nodes = RADIX_WATCH_NODES_MAX + 1000;
    struct sched_options options = {
        .kv = {.n_slots = n_nodes + 1, .page_slots = 1, .n_rows = 2, .context_tokens = 16},
        .chunk_tokens = 16,
        .prefill_tokens_max = 16,
        .conservativeness = 1};
    struct sched *sched;
    struct radix_watch watch;
    assert_int_equal(sched_create(&options, &sched, NULL), RADISH_OK);
    assert_int_equal(radix_watch_init(&watch, false, true, NULL), RADISH_OK);
    grow(sched->kv, n_nodes);

    uint64_t begun_ns = clock_ns();
    radix_watch_report(&watch, sched, begun_ns, &report);
    print_message("a report of %u nodes takes %.2f ms\n", report.n_nodes_visited,
                  (double)(clock_ns() - begun_ns) / 1e6);
    assert_int_equal(report.n_nodes, n_nodes);
    assert_int_equal(report.n_nodes_visited, RADIX_WATCH_NODES_MAX);
    assert_int_equal(report.tokens_evictable, n_nodes);
    radix_watch_deinit(&watch);
    sched_destroy(sched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_miss_is_explained_by_the_first_token_that_differs),
        cmocka_unit_test(test_what_had_to_go_is_told_from_what_was_never_there),
        cmocka_unit_test(test_a_request_that_does_not_look_says_so),
        cmocka_unit_test(test_a_twin_says_that_another_is_computing),
        cmocka_unit_test(test_the_last_hundred_misses_are_kept),
        cmocka_unit_test(test_the_report_counts_and_ranks_prefixes),
        cmocka_unit_test(test_only_the_ten_largest_prefixes_are_told),
        cmocka_unit_test(test_a_report_comes_while_an_answer_runs),
        cmocka_unit_test(test_without_a_cache_there_is_only_the_pool),
        cmocka_unit_test(test_without_explaining_nothing_is_kept),
        cmocka_unit_test(test_a_report_of_a_huge_tree_looks_at_a_bounded_part),
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
