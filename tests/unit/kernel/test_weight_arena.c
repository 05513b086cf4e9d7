/* test_weight_arena.c - weights side by side: zeroed, aligned, apart from each other, and gone when
 * the last one of a chunk goes. */
#include "weight_arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WATCHED
#endif
#if defined(WATCHED)
#include <sanitizer/asan_interface.h>
#endif

#define MB    ((size_t)1 << 20)
#define CHUNK (64 * MB)

static bool is_mapped(const void *p) {
    const uintptr_t page = (uintptr_t)p / 4096 * 4096;
    return msync((void *)page, 1, MS_ASYNC) == 0; /* ENOMEM where nothing is mapped */
}

static void test_weights_are_zeroed_aligned_and_apart(void **state) {
    (void)state;
    enum { N = 200 };
    static uint8_t *data[N];
    static size_t bytes[N];
    struct weight_arena arena = {.policy = {.huge_bytes = 2 * MB}};
    const unsigned seed = (unsigned)time(NULL);
    srand(seed);
    print_message("seed %u\n", seed);

    for (int i = 0; i < N; i++) {
        bytes[i] = (size_t)rand() % (i % 40 ? 300000 : 3 * MB);
        data[i] = weight_arena_take(&arena, bytes[i]);
        assert_non_null(data[i]);
        assert_int_equal((uintptr_t)data[i] % 64, 0);
        for (size_t j = 0; j < bytes[i]; j += 61) assert_int_equal(data[i][j], 0);
        memset(data[i], i % 255 + 1, bytes[i]);
    }

    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < bytes[i]; j++)
            if (data[i][j] != i % 255 + 1) fail_msg("weight %d was written over at %zu", i, j);
    for (int i = 0; i < N; i++) weight_arena_give(&arena, data[i * 7 % N]);
    assert_null(arena.newest);
}

static void test_small_weights_share_huge_pages(void **state) {
    (void)state;
    struct weight_arena arena = {.policy = {.huge_bytes = 2 * MB}};

    uint8_t *first = weight_arena_take(&arena, 500000);
    uint8_t *second = weight_arena_take(&arena, 500000);

    assert_int_equal((uintptr_t)first % (2 * MB), 0);
    assert_true(second > first && second - first < 501000);
    weight_arena_give(&arena, first);
    weight_arena_give(&arena, second);
}

static void test_a_chunk_goes_with_its_last_weight(void **state) {
    (void)state;
    struct weight_arena arena = {.policy = {0}};
    uint8_t *a = weight_arena_take(&arena, MB), *b = weight_arena_take(&arena, MB);
    uint8_t *large = weight_arena_take(&arena, 2 * CHUNK); /* a chunk of its own */
    uint8_t *c = weight_arena_take(&arena, MB);

    weight_arena_give(&arena, a);
    assert_true(is_mapped(a));
    weight_arena_give(&arena, b);
    assert_false(is_mapped(a));
    assert_true(is_mapped(large));
    weight_arena_give(&arena, large);
    assert_false(is_mapped(large));
    assert_true(is_mapped(c));
    weight_arena_give(&arena, c);
    assert_null(arena.newest);
    weight_arena_give(&arena, NULL);
}

static void test_what_a_full_chunk_has_left_goes_back(void **state) {
    (void)state;
    struct weight_arena arena = {.policy = {.huge_bytes = 2 * MB}};
    uint8_t *a = weight_arena_take(&arena, 3 * MB);
    assert_true(is_mapped(a + 5 * MB));

    uint8_t *b = weight_arena_take(&arena, CHUNK);

    assert_true(is_mapped(a + 3 * MB - 1));
    assert_false(is_mapped(a + 5 * MB));
    weight_arena_give(&arena, b);
    weight_arena_give(&arena, a);
}

#if defined(WATCHED)
/* What the heap's redzones would do: a read behind a weight is an error in builds that look. */
static void test_nothing_but_weights_may_be_read_where_that_is_watched(void **state) {
    (void)state;
    struct weight_arena arena = {.policy = {0}};
    uint8_t *a = weight_arena_take(&arena, 1001), *b = weight_arena_take(&arena, 8);

    assert_null(__asan_region_is_poisoned(a, 1001));
    assert_ptr_equal(__asan_region_is_poisoned(a, 1002), a + 1001);
    assert_true(__asan_address_is_poisoned(b - 1));
    assert_true(__asan_address_is_poisoned(b + 8));
    weight_arena_give(&arena, a);
    weight_arena_give(&arena, b);
}
#endif

static void test_a_size_that_no_memory_has_is_null(void **state) {
    (void)state;
    struct weight_arena arena = {.policy = {0}};
    assert_null(weight_arena_take(&arena, SIZE_MAX));
    assert_null(weight_arena_take(&arena, SIZE_MAX / 2 - 100));
    assert_null(arena.newest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_are_zeroed_aligned_and_apart),
        cmocka_unit_test(test_small_weights_share_huge_pages),
        cmocka_unit_test(test_a_chunk_goes_with_its_last_weight),
        cmocka_unit_test(test_what_a_full_chunk_has_left_goes_back),
#if defined(WATCHED)
        cmocka_unit_test(test_nothing_but_weights_may_be_read_where_that_is_watched),
#endif
        cmocka_unit_test(test_a_size_that_no_memory_has_is_null),
    };
    return cmocka_run_group_tests_name("weight_arena", tests, NULL, NULL);
}
