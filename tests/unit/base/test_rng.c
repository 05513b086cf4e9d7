/* test_rng.c - random numbers as a function: known answers, and the properties sampling relies on.
 */
#include "test.h"

#include "base/rng.h"

/* SplitMix64 from state 1234567, as published with the algorithm. */
static void test_mixing_gives_the_published_numbers(void **state) {
    (void)state;
    const uint64_t golden = 0x9E3779B97F4A7C15u;
    assert_true(rng_mix(1234567 + golden) == UINT64_C(6457827717110365317));
    assert_true(rng_mix(1234567 + 2 * golden) == UINT64_C(3203168211198807973));
}

/* Computed independently, with Python's integers: a seed must mean the same text for ever. */
static void test_known_seeds_give_known_numbers(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, counter, bits;
        double uniform;
    } known[] = {
        {0, 0, 0xa706dd2f4d197e6f, 0.6524484863740322},
        {0, 1, 0xb382a305f4414f5e, 0.7012121095215252},
        {1, 0, 0x5e41ab087439611e, 0.36818951565166946},
        {1234567, 0, 0x86bf2042062b0cc9, 0.5263538514320026},
        {UINT64_MAX, UINT64_MAX, 0x445018e305810b78, 0.2668471864940366},
        {42, 7, 0xbc16a3d4cc48678e, 0.7347204584623639},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(rng_u64(known[i].seed, known[i].counter) == known[i].bits);
        assert_true(rng_uniform(known[i].seed, known[i].counter) == known[i].uniform);
    }
}

static void test_uniform_numbers_fill_their_interval_evenly(void **state) {
    (void)state;
    enum { N = 100000, BINS = 20 };
    int bins[BINS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        const double u = rng_uniform(7, i);
        assert_true(u >= 0.0 && u < 1.0);
        bins[(int)(u * BINS)]++;
    }
    /* 5,000 are due in each; the standard deviation is 69. */
    for (int i = 0; i < BINS; i++) assert_in_range(bins[i], 4650, 5350);
}

static void test_neighbouring_seeds_are_unrelated(void **state) {
    (void)state;
    int n_equal_bits = 0;
    for (uint64_t seed = 0; seed < 1000; seed++)
        n_equal_bits += __builtin_popcountll(~(rng_u64(seed, 0) ^ rng_u64(seed + 1, 0)));
    assert_in_range(n_equal_bits, 31500, 32500); /* half of 64,000; the standard deviation is 126 */
}

static void test_seeds_from_the_system_differ(void **state) {
    (void)state;
    assert_true(rng_seed_from_system() != rng_seed_from_system());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixing_gives_the_published_numbers),
        cmocka_unit_test(test_known_seeds_give_known_numbers),
        cmocka_unit_test(test_uniform_numbers_fill_their_interval_evenly),
        cmocka_unit_test(test_neighbouring_seeds_are_unrelated),
        cmocka_unit_test(test_seeds_from_the_system_differ),
    };
    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
