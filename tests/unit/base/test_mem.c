/* test_mem.c - sizes that do not overflow, and aligned memory; the clock goes along. */
#include "test.h"

#include "base/clock.h"
#include "base/mem.h"

static void test_products_and_sums_that_overflow_are_false_and_zero(void **state) {
    (void)state;
    size_t out = 1;
    uint64_t out64 = 1;

    assert_true(mem_mul(1u << 20, 1u << 20, &out));
    assert_true(out == (size_t)1 << 40);
    assert_false(mem_mul(SIZE_MAX / 2, 3, &out));
    assert_int_equal(out, 0);
    assert_true(mem_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_false(mem_add(SIZE_MAX, 1, &out));
    assert_int_equal(out, 0);
    assert_true(mem_mul_u64(UINT64_MAX, 1, &out64));
    assert_false(mem_mul_u64(UINT64_MAX, 2, &out64));
    assert_int_equal(out64, 0);
    assert_false(mem_add_u64(UINT64_MAX, UINT64_MAX, &out64));
    assert_int_equal(out64, 0);
}

static void test_allocation_of_an_overflowing_size_is_null(void **state) {
    (void)state;
    /* Through a volatile, so that the compiler does not see the size and warn. */
    volatile size_t huge = SIZE_MAX / 2;
    assert_null(mem_alloc(huge, 3));
    assert_null(mem_zalloc(huge, 3));
    assert_null(mem_strndup("", SIZE_MAX));
}

static void test_zero_bytes_are_a_valid_block(void **state) {
    (void)state;
    void *blocks[] = {mem_alloc(0, 8), mem_alloc(8, 0), mem_zalloc(0, 8), mem_zalloc(8, 0)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        assert_non_null(blocks[i]);
        free(blocks[i]);
    }
}

static void test_aligned_memory_is_aligned_and_zero_at_every_size(void **state) {
    (void)state;
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = mem_aligned_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            if (p[j]) fail_msg("byte %zu of %zu is not zero", j, sizes[i]);
        if (sizes[i]) memset(p, 0xAB, sizes[i]);
        mem_aligned_free(p, sizes[i]);
    }
    mem_aligned_free(NULL, 100);
}

static void test_strings_are_copied_with_an_end(void **state) {
    (void)state;
    char *copy = mem_strndup("abcdef", 3);
    assert_string_equal(copy, "abc");
    free(copy);
}

static void test_the_clock_never_goes_back(void **state) {
    (void)state;
    uint64_t last = clock_ns();
    assert_true(last > 0);
    for (int i = 0; i < 10000; i++) {
        const uint64_t now = clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_and_sums_that_overflow_are_false_and_zero),
        cmocka_unit_test(test_allocation_of_an_overflowing_size_is_null),
        cmocka_unit_test(test_zero_bytes_are_a_valid_block),
        cmocka_unit_test(test_aligned_memory_is_aligned_and_zero_at_every_size),
        cmocka_unit_test(test_strings_are_copied_with_an_end),
        cmocka_unit_test(test_the_clock_never_goes_back),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
