/* test_pool.c - the compute pool: every item once, results visible, no CPU while idle, clean ends.
 *
 * Run under ThreadSanitizer as well: the items write plain memory on purpose. */
#include "kernel/cpu/pool_int.h"

#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { ITEMS_MAX = 1000 };

struct counts {
    uint32_t done[ITEMS_MAX];   /* by item */
    uint32_t worker[ITEMS_MAX]; /* who did it */
};

static struct pool *open_pool(uint32_t n_threads) {
    struct pool *pool;
    struct radish_error err = {0};
    if (pool_create(n_threads, &pool, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return pool;
}

static void count_item(void *user, uint32_t item, uint32_t worker) {
    struct counts *c = user;
    c->done[item]++;
    c->worker[item] = worker;
}

static void test_every_item_is_done_exactly_once(void **state) {
    (void)state;
    static const uint32_t items[] = {0, 1, 2, 3, 7, 64, ITEMS_MAX};
    for (uint32_t n_threads = 1; n_threads <= 5; n_threads++) {
        struct pool *pool = open_pool(n_threads);
        assert_int_equal(pool_n_threads(pool), n_threads);
        for (int round = 0; round < 20; round++) {
            for (size_t n = 0; n < sizeof items / sizeof *items; n++) {
                struct counts c = {{0}, {0}};

                pool_run(pool, items[n], count_item, &c);

                for (uint32_t i = 0; i < ITEMS_MAX; i++) {
                    assert_int_equal(c.done[i], i < items[n]);
                    assert_true(c.worker[i] < n_threads);
                }
            }
        }
        pool_destroy(pool);
    }
}

struct peeks {
    struct pool *pool;
    uint32_t next[ITEMS_MAX];
};

static void peek_item(void *user, uint32_t item, uint32_t worker) {
    struct peeks *p = user;
    (void)worker;
    p->next[item] = pool_next_item(p->pool);
}

static void test_the_next_item_is_one_that_was_not_taken(void **state) {
    (void)state;
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
        struct peeks p = {.pool = open_pool(n_threads)};

        pool_run(p.pool, 64, peek_item, &p);

        for (uint32_t i = 0; i < 64; i++)
            assert_in_range(p.next[i], i + 1, n_threads == 1 ? i + 1 : 64 + n_threads);
        pool_destroy(p.pool);
    }
}

static void sleep_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void sleep_item(void *user, uint32_t item, uint32_t worker) {
    count_item(user, item, worker);
    sleep_ms(20);
}

static void test_items_are_spread_over_the_threads(void **state) {
    (void)state;
    struct pool *pool = open_pool(3);
    struct counts c = {{0}, {0}};
    bool is_seen[3] = {false};

    pool_run(pool, 12, sleep_item, &c); /* sleeping, not computing: works on one CPU too */

    for (int i = 0; i < 12; i++) is_seen[c.worker[i]] = true;
    assert_true(is_seen[0] && is_seen[1] && is_seen[2]);
    pool_destroy(pool);
}

static void test_a_run_after_a_long_pause_wakes_the_sleepers(void **state) {
    (void)state;
    struct pool *pool = open_pool(3);
    for (int round = 0; round < 3; round++) {
        struct counts c = {{0}, {0}};
        sleep_ms(30); /* far beyond the time that workers spin */
        pool_run(pool, 100, count_item, &c);
        for (uint32_t i = 0; i < 100; i++) assert_int_equal(c.done[i], 1);
    }
    pool_destroy(pool);
}

static void test_an_idle_pool_uses_no_cpu(void **state) {
    (void)state;
    struct pool *pool = open_pool(4);
    struct counts c = {{0}, {0}};
    struct timespec before, after;
    pool_run(pool, 10, count_item, &c);
    sleep_ms(50);

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    sleep_ms(300);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);

    const double used =
        (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    assert_true(used < 10e6); /* 10 ms of 1,200 thread milliseconds */
    pool_destroy(pool);
}

static void test_nobody_spins_under_a_quota_or_without_a_cpu_of_its_own(void **state) {
    (void)state;
    static const struct {
        double quota;
        uint32_t n_allowed, n_threads, n_cores;
        bool spins, is_pinned;
    } rows[] = {
        {0, 16, 8, 8, true, true},    {0, 16, 16, 8, true, false},  /* two workers a core */
        {0, 16, 17, 8, false, false},                               /* more threads than CPUs */
        {8, 16, 8, 8, false, false},  {0.5, 1, 1, 1, false, false}, /* quotas */
        {0, 2, 2, 2, true, false}, /* too few cores to be sure of one */
        {0, 4, 4, 4, true, true},     {0, 4, 4, 0, true, false}, /* cores cannot be told */
        {0, 4, 3, 4, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct machine m = {.cpu_quota = rows[i].quota, .n_cpus_allowed = rows[i].n_allowed};
        const struct pool_manners manners = pool_decide(rows[i].n_threads, &m, rows[i].n_cores);
        if (manners.spins != rows[i].spins || manners.is_pinned != rows[i].is_pinned)
            fail_msg("row %zu: spins %d, pinned %d", i, manners.spins, manners.is_pinned);
    }
}

/* Runs that find workers spinning, just parking, parked, and still inside the run before; pools
 * that end in each of these states. */
static void test_runs_after_pauses_of_any_length_lose_nobody(void **state) {
    (void)state;
    const unsigned seed = (unsigned)time(NULL);
    srand(seed);
    print_message("seed %u\n", seed);
    for (int round = 0; round < 25; round++) {
        struct pool *pool = open_pool(2 + (uint32_t)rand() % 5);
        for (int n = rand() % 30; n > 0; n--) {
            struct counts c = {{0}, {0}};
            const uint32_t n_items = (uint32_t)rand() % 40;
            const struct timespec pause = {0, rand() % 3 ? rand() % 120000 : 0};
            if (pause.tv_nsec) nanosleep(&pause, NULL);
            pool_run(pool, n_items, count_item, &c);
            for (uint32_t i = 0; i < 40; i++) assert_int_equal(c.done[i], i < n_items);
        }
        pool_destroy(pool);
    }
}

/* The caller sleeps, too, when a worker is late. */
static void sleep_if_worker(void *user, uint32_t item, uint32_t worker) {
    count_item(user, item, worker);
    sleep_ms(worker ? 5 : 1);
}

static void test_the_caller_sleeps_until_the_last_worker_is_out(void **state) {
    (void)state;
    struct pool *pool = open_pool(4);
    for (int round = 0; round < 10; round++) {
        struct counts c = {{0}, {0}};
        pool_run(pool, 4 + (uint32_t)round, sleep_if_worker, &c);
        for (uint32_t i = 0; i < 4 + (uint32_t)round; i++) assert_int_equal(c.done[i], 1);
    }
    pool_destroy(pool);
}

static void read_rounding(void *user, uint32_t item, uint32_t worker) {
    int *modes = user;
    (void)worker;
    sleep_ms(10);
    modes[item] = fegetround();
}

static void test_all_workers_round_to_nearest(void **state) {
    (void)state;
    struct pool *pool = open_pool(3);
    int modes[9];
    memset(modes, 0xff, sizeof modes);

    pool_run(pool, 9, read_rounding, modes);

    for (int i = 0; i < 9; i++) assert_int_equal(modes[i], FE_TONEAREST);
    pool_destroy(pool);
}

static void test_pools_open_and_close_without_a_run(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 20; i++) pool_destroy(open_pool(1 + i % 4));
    pool_destroy(NULL);
}

static void test_thread_counts_out_of_range_are_refused(void **state) {
    (void)state;
    struct pool *pool;
    struct radish_error err;
    assert_int_equal(pool_create(0, &pool, &err), RADISH_E_INVALID);
    assert_null(pool);
    assert_int_equal(pool_create(POOL_THREADS_MAX + 1, &pool, &err), RADISH_E_INVALID);
    assert_non_null(strstr(err.msg, "513"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_is_done_exactly_once),
        cmocka_unit_test(test_the_next_item_is_one_that_was_not_taken),
        cmocka_unit_test(test_items_are_spread_over_the_threads),
        cmocka_unit_test(test_a_run_after_a_long_pause_wakes_the_sleepers),
        cmocka_unit_test(test_nobody_spins_under_a_quota_or_without_a_cpu_of_its_own),
        cmocka_unit_test(test_runs_after_pauses_of_any_length_lose_nobody),
        cmocka_unit_test(test_the_caller_sleeps_until_the_last_worker_is_out),
        cmocka_unit_test(test_an_idle_pool_uses_no_cpu),
        cmocka_unit_test(test_all_workers_round_to_nearest),
        cmocka_unit_test(test_pools_open_and_close_without_a_run),
        cmocka_unit_test(test_thread_counts_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
