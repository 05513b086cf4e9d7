/* The pool of slot ids, against a plain bitmap, and what it refuses. */
#include "test.h"

#include "base/rng.h"
#include "base/status.h"
#include "cache/kv_pool_int.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct kv_pool *make_pool(uint32_t n_slots, uint32_t page_slots) {
    struct kv_pool *pool;
    assert_int_equal(kv_pool_create(n_slots, page_slots, &pool, NULL), RADISH_OK);
    return pool;
}

static void test_fewer_than_256_usable_slots_are_refused(void **state) {
    (void)state;
    struct kv_pool *pool;
    struct radish_error err;

    assert_int_equal(kv_pool_create(256, 1, &pool, &err), RADISH_E_LIMIT);
    assert_non_null(strstr(err.msg, "255"));
    assert_int_equal(kv_pool_create(300, 64, &pool, &err), RADISH_E_LIMIT);
    assert_int_equal(kv_pool_create(1000, 0, &pool, &err), RADISH_E_LIMIT);

    pool = make_pool(257, 1);
    assert_int_equal(kv_pool_n_usable(pool), 256);
    kv_pool_destroy(pool);
}

static void test_every_slot_but_the_padding_page_is_given_out_once(void **state) {
    (void)state;
    for (uint32_t page_slots = 1; page_slots <= 12; page_slots += page_slots == 1 ? 2 : 9) {
        struct kv_pool *pool = make_pool(1200, page_slots);
        uint32_t n = kv_pool_n_usable(pool), slots[1200];
        bool seen[1200] = {false};

        assert_int_equal(kv_pool_take(pool, n, 0, slots), RADISH_OK);

        for (uint32_t i = 0; i < n; i++) {
            assert_in_range(slots[i], page_slots, kv_pool_n_slots(pool) - 1);
            assert_false(seen[slots[i]]);
            seen[slots[i]] = true;
        }
        assert_int_equal(kv_pool_n_free(pool), 0);
        assert_int_equal(kv_pool_take(pool, page_slots, 0, slots), RADISH_AGAIN);
        kv_pool_destroy(pool);
    }
}

static void test_an_unfragmented_pool_gives_ascending_runs(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(4096, 1);
    uint32_t slots[300];

    for (uint32_t round = 0; round < 10; round++) {
        assert_int_equal(kv_pool_take(pool, 300, 0, slots), RADISH_OK);
        for (uint32_t i = 1; i < 300; i++) assert_int_equal(slots[i], slots[i - 1] + 1);
    }
    kv_pool_destroy(pool);
}

static void test_a_hole_that_is_long_enough_is_found_behind_short_ones(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(1025, 1);
    uint32_t slots[1024], more[100];
    assert_int_equal(kv_pool_take(pool, 1024, 0, slots), RADISH_OK);
    for (uint32_t i = 10; i < 300; i += 10) kv_pool_give(pool, slots + i, 3);
    kv_pool_give(pool, slots + 600, 120);

    assert_int_equal(kv_pool_take(pool, 100, 0, more), RADISH_OK);

    assert_int_equal(more[0], slots[600]);
    for (uint32_t i = 1; i < 100; i++) assert_int_equal(more[i], more[i - 1] + 1);
    kv_pool_destroy(pool);
}

static void test_a_sequence_goes_on_where_its_last_slot_ended(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(1025, 1);
    uint32_t a[8], b[8];
    assert_int_equal(kv_pool_take(pool, 4, 0, a), RADISH_OK);
    assert_int_equal(kv_pool_take(pool, 4, 500, b), RADISH_OK);
    assert_int_equal(b[0], 500);

    assert_int_equal(kv_pool_take(pool, 4, a[3] + 1, a + 4), RADISH_OK);

    assert_int_equal(a[4], a[3] + 1);
    kv_pool_destroy(pool);
}

static void test_a_fragmented_pool_still_gives_all_it_has(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(1025, 1);
    uint32_t slots[1024];
    assert_int_equal(kv_pool_take(pool, 1024, 0, slots), RADISH_OK);
    for (uint32_t i = 0; i < 1024; i += 2) kv_pool_give(pool, slots + i, 1);

    assert_int_equal(kv_pool_take(pool, 512, 0, slots), RADISH_OK);

    assert_int_equal(kv_pool_n_free(pool), 0);
    assert_true(kv_pool_check(pool));
    kv_pool_destroy(pool);
}

/* Pages that a plain array says are free must be exactly those that the pool has. */
static void fuzz(uint64_t seed, uint32_t n_slots, uint32_t page_slots) {
    struct kv_pool *pool = make_pool(n_slots, page_slots);
    uint32_t n_pages = n_slots / page_slots, n_free = n_pages - 1, n_held = 0, counter = 0;
    bool *is_free = calloc(n_pages, sizeof *is_free);
    uint32_t *held = calloc(n_slots, sizeof *held), *slots = calloc(n_slots, sizeof *slots);
    for (uint32_t i = 1; i < n_pages; i++) is_free[i] = true;

    for (uint32_t step = 0; step < 3000; step++) {
        uint64_t random = rng_u64(seed, counter++);
        if (random % 2) {
            uint32_t n = (uint32_t)(random >> 8) % (n_pages / (random % 3 ? 20 : 2));
            uint32_t near = (uint32_t)(random >> 32) % n_slots;
            enum radish_status status = kv_pool_take(pool, n * page_slots, near, slots);
            assert_int_equal(status, n > n_free ? RADISH_AGAIN : RADISH_OK);
            if (status != RADISH_OK) continue;
            for (uint32_t i = 0; i < n; i++) {
                uint32_t page = slots[i * page_slots] / page_slots;
                assert_true(is_free[page]);
                is_free[page] = false;
                held[n_held++] = page;
                for (uint32_t j = 0; j < page_slots; j++)
                    assert_int_equal(slots[i * page_slots + j], page * page_slots + j);
            }
            n_free -= n;
        } else {
            for (uint32_t n = (uint32_t)(random >> 8) % 40; n && n_held; n--) {
                uint32_t at = (uint32_t)rng_u64(seed, counter++) % n_held, page = held[at];
                held[at] = held[--n_held];
                is_free[page] = true;
                n_free++;
                for (uint32_t j = 0; j < page_slots; j++) slots[j] = page * page_slots + j;
                kv_pool_give(pool, slots, page_slots);
            }
        }
        assert_int_equal(kv_pool_n_free(pool), n_free * page_slots);
        assert_true(kv_pool_check(pool));
        for (uint32_t i = 0; i < n_pages; i++)
            if (kv_pool_is_free(pool, i * page_slots) != is_free[i])
                fail_msg("page %u differs, seed %llu", i, (unsigned long long)seed);
    }
    free(is_free);
    free(held);
    free(slots);
    kv_pool_destroy(pool);
}

static void test_random_takes_and_gives_agree_with_a_plain_bitmap(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    fuzz(seed, 300, 1);
    fuzz(seed + 1, 4097, 1);
    fuzz(seed + 2, 4100, 4);
    fuzz(seed + 3, 2000, 7);
    fuzz(seed + 4, 8192, 16);
}

/* Runs fn in a child, which must abort. */
static void assert_aborts(void (*fn)(struct kv_pool *pool), struct kv_pool *pool) {
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        fn(pool);
        _exit(0);
    }
    int result = 0;
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_false(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void give_twice(struct kv_pool *pool) {
    uint32_t slots[4];
    if (kv_pool_take(pool, 4, 0, slots) != RADISH_OK) return;
    kv_pool_give(pool, slots, 4);
    kv_pool_give(pool, slots, 4);
}

static void give_padding(struct kv_pool *pool) {
    kv_pool_give(pool, (uint32_t[]){0, 1, 2, 3}, 4);
}

static void give_foreign(struct kv_pool *pool) {
    kv_pool_give(pool, (uint32_t[]){40000, 40001, 40002, 40003}, 4);
}

static void give_torn(struct kv_pool *pool) {
    uint32_t slots[8];
    if (kv_pool_take(pool, 8, 0, slots) != RADISH_OK) return;
    kv_pool_give(pool, (uint32_t[]){slots[0], slots[1], slots[4], slots[5]}, 4);
}

static void test_ownership_faults_abort(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(1024, 4);
    assert_aborts(give_twice, pool);
    assert_aborts(give_padding, pool);
    assert_aborts(give_foreign, pool);
    assert_aborts(give_torn, pool);
    kv_pool_destroy(pool);
}

static void test_check_sees_a_broken_pool(void **state) {
    (void)state;
    struct kv_pool *pool = make_pool(1024, 1);
    assert_true(kv_pool_check(pool));

    pool->n_pages_free--;
    assert_false(kv_pool_check(pool));
    pool->n_pages_free++;

    pool->summary[0] ^= 2;
    assert_false(kv_pool_check(pool));
    pool->summary[0] ^= 2;

    pool->free[0] ^= 3; /* the padding page instead of page 1 */
    assert_false(kv_pool_check(pool));
    pool->free[0] ^= 3;

    assert_true(kv_pool_check(pool));
    kv_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_than_256_usable_slots_are_refused),
        cmocka_unit_test(test_every_slot_but_the_padding_page_is_given_out_once),
        cmocka_unit_test(test_an_unfragmented_pool_gives_ascending_runs),
        cmocka_unit_test(test_a_hole_that_is_long_enough_is_found_behind_short_ones),
        cmocka_unit_test(test_a_sequence_goes_on_where_its_last_slot_ended),
        cmocka_unit_test(test_a_fragmented_pool_still_gives_all_it_has),
        cmocka_unit_test(test_random_takes_and_gives_agree_with_a_plain_bitmap),
        cmocka_unit_test(test_ownership_faults_abort),
        cmocka_unit_test(test_check_sees_a_broken_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
