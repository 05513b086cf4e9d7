/* Rows of slots: who owns what, and that it all comes back. */
#include "test.h"

#include "alloc_fail.h"
#include "base/rng.h"
#include "base/status.h"
#include "cache/slot_table.h"

struct fixture {
    struct kv_pool *pool;
    struct slot_table *table;
};

static void open_fixture(struct fixture *f, uint32_t n_slots, uint32_t page_slots, uint32_t n_rows,
                         uint32_t context) {
    assert_int_equal(kv_pool_create(n_slots, page_slots, &f->pool, NULL), RADISH_OK);
    assert_int_equal(slot_table_create(f->pool, n_rows, context, &f->table, NULL), RADISH_OK);
}

static void close_fixture(struct fixture *f) {
    slot_table_destroy(f->table);
    kv_pool_destroy(f->pool);
}

static void test_a_row_grows_in_place_and_its_slots_come_back(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 1025, 1, 4, 500);
    uint32_t row;
    assert_int_equal(slot_table_take_row(f.table, &row), RADISH_OK);

    assert_int_equal(slot_table_extend(f.table, row, 3, 3), RADISH_OK);
    const uint32_t *slots = slot_table_slots(f.table, row);
    uint32_t first[3] = {slots[0], slots[1], slots[2]};
    assert_int_equal(slot_table_extend(f.table, row, 400, 400), RADISH_OK);

    assert_ptr_equal(slot_table_slots(f.table, row), slots);
    assert_memory_equal(slots, first, sizeof first);
    assert_int_equal(slot_table_n_held(f.table, row), 400);
    assert_int_equal(kv_pool_n_free(f.pool), 624);
    assert_true(slot_table_check(f.table));
    slot_table_give_row(f.table, row);
    assert_int_equal(kv_pool_n_free(f.pool), 1024);
    close_fixture(&f);
}

static void test_rows_run_out_and_slots_run_out_without_a_change(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 301, 1, 2, 300);
    uint32_t a, b, c;
    assert_int_equal(slot_table_take_row(f.table, &a), RADISH_OK);
    assert_int_equal(slot_table_take_row(f.table, &b), RADISH_OK);
    assert_int_equal(slot_table_take_row(f.table, &c), RADISH_AGAIN);
    assert_int_equal(slot_table_extend(f.table, a, 290, 290), RADISH_OK);

    assert_int_equal(slot_table_extend(f.table, b, 11, 11), RADISH_AGAIN);

    assert_int_equal(slot_table_n_held(f.table, b), 0);
    assert_int_equal(slot_table_extend(f.table, b, 10, 100), RADISH_OK);
    assert_int_equal(slot_table_n_held(f.table, b), 10);
    assert_true(slot_table_check(f.table));
    slot_table_give_row(f.table, a);
    slot_table_give_row(f.table, b);
    close_fixture(&f);
}

static void test_slots_ahead_keep_interleaved_sequences_in_runs(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 2049, 1, 8, 128);
    uint32_t rows[8];
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(slot_table_take_row(f.table, &rows[i]), RADISH_OK);

    for (uint32_t n = 1; n <= 128; n++)
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(slot_table_extend(f.table, rows[i], n, n + 15), RADISH_OK);

    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t *slots = slot_table_slots(f.table, rows[i]);
        uint32_t n_breaks = 0;
        for (uint32_t j = 1; j < 128; j++) n_breaks += slots[j] != slots[j - 1] + 1;
        assert_in_range(n_breaks, 0, 8);
        slot_table_give_row(f.table, rows[i]);
    }
    close_fixture(&f);
}

static void test_random_growth_owns_every_slot_once(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    for (uint32_t page_slots = 1; page_slots <= 16; page_slots *= 4) {
        struct fixture f;
        open_fixture(&f, 2000, page_slots, 16, 400);
        uint32_t n_tokens[16] = {0};
        bool is_taken[16] = {false};
        for (uint32_t step = 0; step < 2000; step++) {
            uint64_t random = rng_u64(seed, step);
            uint32_t row = (uint32_t)random % 16, n_more = (uint32_t)(random >> 32) % 60;
            if (!is_taken[row]) {
                uint32_t got;
                assert_int_equal(slot_table_take_row(f.table, &got), RADISH_OK);
                assert_false(is_taken[got]);
                is_taken[got] = true;
                n_tokens[got] = 0;
            } else if (random >> 8 & 7) {
                uint32_t n = n_tokens[row] + n_more > 400 ? 400 : n_tokens[row] + n_more;
                if (slot_table_extend(f.table, row, n, n + 8) == RADISH_OK) n_tokens[row] = n;
                assert_true(slot_table_n_held(f.table, row) >= n_tokens[row]);
            } else {
                slot_table_give_row(f.table, row);
                is_taken[row] = false;
            }
            assert_true(slot_table_check(f.table));
        }
        for (uint32_t row = 0; row < 16; row++)
            if (is_taken[row]) slot_table_give_row(f.table, row);
        assert_int_equal(kv_pool_n_free(f.pool), kv_pool_n_usable(f.pool));
        close_fixture(&f);
    }
}

static void test_check_sees_a_slot_with_two_owners(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 1025, 1, 4, 500);
    uint32_t row;
    assert_int_equal(slot_table_take_row(f.table, &row), RADISH_OK);
    assert_int_equal(slot_table_extend(f.table, row, 10, 10), RADISH_OK);
    uint32_t *slots = (uint32_t *)(uintptr_t)slot_table_slots(f.table, row), kept = slots[4];
    assert_true(slot_table_check(f.table));

    slots[4] = slots[5];
    assert_false(slot_table_check(f.table));
    slots[4] = 900; /* free in the pool */
    assert_false(slot_table_check(f.table));
    slots[4] = kept;

    assert_true(slot_table_check(f.table));
    slot_table_give_row(f.table, row);
    close_fixture(&f);
}

/* Four slots as if a tree had them: taken from the pool, in no row. */
static void lend(struct fixture *f, uint32_t row, uint32_t slots[4]) {
    assert_int_equal(kv_pool_take(f->pool, 4, 0, slots), RADISH_OK);
    memcpy(slot_table_cells(f->table, row), slots, 4 * sizeof *slots);
    slot_table_set_shared(f->table, row, 4);
}

static void test_shared_slots_do_not_go_to_the_pool_with_the_row(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 1025, 1, 4, 500);
    uint32_t row, slots[4];
    assert_int_equal(slot_table_take_row(f.table, &row), RADISH_OK);
    lend(&f, row, slots);
    assert_int_equal(slot_table_n_held(f.table, row), 4);
    assert_int_equal(slot_table_n_slots_private(f.table), 0);

    assert_int_equal(slot_table_extend(f.table, row, 10, 10), RADISH_OK);
    assert_int_equal(slot_table_n_slots_private(f.table), 6);
    assert_memory_equal(slot_table_slots(f.table, row), slots, sizeof slots);
    slot_table_set_shared(f.table, row, 7); /* three are handed over */
    assert_int_equal(slot_table_n_slots_private(f.table), 3);
    assert_true(slot_table_check(f.table));
    uint32_t handed_over[3];
    memcpy(handed_over, slot_table_slots(f.table, row) + 4, sizeof handed_over);
    slot_table_give_row(f.table, row);

    assert_int_equal(kv_pool_n_free(f.pool), 1024 - 7);
    for (uint32_t i = 0; i < 4; i++) assert_false(kv_pool_is_free(f.pool, slots[i]));
    assert_true(slot_table_check(f.table));
    kv_pool_give(f.pool, slots, 4);
    kv_pool_give(f.pool, handed_over, 3);
    close_fixture(&f);
}

static void test_two_rows_may_share_what_neither_owns(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, 1025, 1, 4, 500);
    uint32_t a, b, slots[4];
    assert_int_equal(slot_table_take_row(f.table, &a), RADISH_OK);
    assert_int_equal(slot_table_take_row(f.table, &b), RADISH_OK);
    lend(&f, a, slots);
    memcpy(slot_table_cells(f.table, b), slots, sizeof slots);
    slot_table_set_shared(f.table, b, 4);
    assert_true(slot_table_check(f.table));
    slot_table_give_row(f.table, a);
    assert_int_equal(slot_table_n_shared(f.table, b), 4);
    assert_true(slot_table_check(f.table));

    kv_pool_give(f.pool, slots, 4); /* gone while a row reads it: a fault that is seen */
    assert_false(slot_table_check(f.table));

    assert_int_equal(kv_pool_take(f.pool, 4, slots[0], slots), RADISH_OK);
    slot_table_give_row(f.table, b);
    kv_pool_give(f.pool, slots, 4);
    close_fixture(&f);
}

static bool attempt_create(void *user) {
    (void)user;
    struct kv_pool *pool;
    struct slot_table *table;
    enum radish_status status = kv_pool_create(1000, 1, &pool, NULL);
    if (status == RADISH_OK) {
        status = slot_table_create(pool, 8, 100, &table, NULL);
        slot_table_destroy(table);
        kv_pool_destroy(pool);
    }
    assert_true(status == RADISH_OK || status == RADISH_E_NOMEM);
    return status == RADISH_OK;
}

static void test_every_failed_allocation_is_reported_and_leaks_nothing(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_in_range(alloc_fail_each(attempt_create, NULL), 6, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_grows_in_place_and_its_slots_come_back),
        cmocka_unit_test(test_rows_run_out_and_slots_run_out_without_a_change),
        cmocka_unit_test(test_slots_ahead_keep_interleaved_sequences_in_runs),
        cmocka_unit_test(test_random_growth_owns_every_slot_once),
        cmocka_unit_test(test_check_sees_a_slot_with_two_owners),
        cmocka_unit_test(test_shared_slots_do_not_go_to_the_pool_with_the_row),
        cmocka_unit_test(test_two_rows_may_share_what_neither_owns),
        cmocka_unit_test(test_every_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
