/* test_arena.c - the arena: alignment, no overlap, limits, everything freed at once. */
#include "test.h"

#include "alloc_fail.h"
#include "base/arena.h"

static void test_blocks_are_aligned_and_do_not_overlap(void **state) {
    (void)state;
    enum { N = 500 };
    struct arena a;
    unsigned char *blocks[N];

    arena_init(&a, 0);
    for (int i = 0; i < N; i++) {
        blocks[i] = arena_alloc(&a, (size_t)i * 3);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], i & 255, (size_t)i * 3);
    }

    for (int i = 0; i < N; i++)
        for (int j = 0; j < i * 3; j++) assert_int_equal(blocks[i][j], i & 255);
    arena_deinit(&a);
}

static void test_one_block_may_be_larger_than_any_chunk(void **state) {
    (void)state;
    struct arena a;

    arena_init(&a, 0);
    char *small = arena_strndup(&a, "small", 5);
    unsigned char *large = arena_zalloc(&a, 5 << 20, 1);
    assert_non_null(large);
    assert_int_equal(large[0], 0);
    assert_int_equal(large[(5 << 20) - 1], 0);
    assert_string_equal(small, "small");
    arena_deinit(&a);
}

static void test_strings_are_cut_and_ended(void **state) {
    (void)state;
    struct arena a;

    arena_init(&a, 0);
    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(&a, NULL, 0), "");
    arena_deinit(&a);
}

static void test_a_limit_is_obeyed_and_deinit_makes_room_again(void **state) {
    (void)state;
    struct arena a;

    arena_init(&a, 64);
    assert_non_null(arena_alloc(&a, 48));
    assert_null(arena_alloc(&a, 17));
    assert_non_null(arena_alloc(&a, 16));
    assert_null(arena_alloc(&a, 1));
    arena_deinit(&a);
    assert_int_equal(a.bytes_used, 0);
    assert_non_null(arena_alloc(&a, 64));
    arena_deinit(&a);
}

static void test_sizes_that_overflow_are_refused(void **state) {
    (void)state;
    struct arena a;

    arena_init(&a, 0);
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 14));
    assert_null(arena_zalloc(&a, SIZE_MAX / 2, 3));
    assert_null(arena_strndup(&a, "", SIZE_MAX));
    arena_deinit(&a);
}

static bool attempt_to_fill(void *user) {
    (void)user;
    struct arena a;
    bool is_done = true;
    arena_init(&a, 0);
    for (int i = 0; i < 100 && is_done; i++) is_done = arena_alloc(&a, 1000) != NULL;
    arena_deinit(&a);
    return is_done;
}

static void test_each_failed_allocation_is_reported(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_to_fill, NULL) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_aligned_and_do_not_overlap),
        cmocka_unit_test(test_one_block_may_be_larger_than_any_chunk),
        cmocka_unit_test(test_strings_are_cut_and_ended),
        cmocka_unit_test(test_a_limit_is_obeyed_and_deinit_makes_room_again),
        cmocka_unit_test(test_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
