/* test_rope_table.c - frequencies against values computed by another program (Python, from the
 * formulas of transformers' modeling_rope_utils, in double), and the table against long double. */
#include "test.h"

#include "model/rope_table.h"
#include "model_fake_device.h"

#include <math.h>

struct expected {
    uint32_t pair;
    double inv_freq;
};

static void check_frequencies(const struct rope_config *rope, uint32_t rotary_dim, uint32_t context,
                              const struct expected *expected, size_t n, double factor_expected) {
    double inv_freq[ROPE_PAIRS_MAX], factor;
    rope_frequencies(rope, rotary_dim, context, inv_freq, &factor);
    for (size_t i = 0; i < n; i++) {
        double got = inv_freq[expected[i].pair], want = expected[i].inv_freq;
        if (!(fabs(got - want) <= 1e-13 * want))
            fail_msg("pair %u: %.17g, expected %.17g", expected[i].pair, got, want);
    }
    if (!(fabs(factor - factor_expected) <= 1e-13))
        fail_msg("factor %.17g, expected %.17g", factor, factor_expected);
}

static struct rope_config make_rope(enum rope_kind kind, double theta, double factor) {
    return (struct rope_config){.kind = kind,
                                .theta = theta,
                                .factor = factor,
                                .beta_fast = 32,
                                .beta_slow = 1,
                                .truncate = true};
}

static void test_default_frequencies_are_powers_of_theta(void **state) {
    (void)state;
    static const struct expected expected[] = {{0, 1}, {1, 0.1}, {2, 0.01}, {3, 0.001}};
    struct rope_config rope = make_rope(ROPE_DEFAULT, 10000, 1);
    check_frequencies(&rope, 8, 512, expected, 4, 1);
}

static void test_linear_divides_all_by_the_factor(void **state) {
    (void)state;
    static const struct expected expected[] = {{0, 0.5}, {3, 0.0005}};
    struct rope_config rope = make_rope(ROPE_LINEAR, 10000, 2);
    check_frequencies(&rope, 8, 512, expected, 2, 1);
}

static void test_llama3_slows_long_waves_and_mixes_those_between(void **state) {
    (void)state;
    static const struct expected expected[] = {
        {0, 1},
        {20, 0.016560440080994446},
        {29, 0.0021665707635033591},
        {31, 0.00085675141291963208},
        {33, 0.00031269375038406517},
        {40, 3.4281021959525912e-05},
        {63, 3.0689259889145111e-07},
    };
    struct rope_config rope = make_rope(ROPE_LLAMA3, 5e5, 8);
    rope.low_freq_factor = 1;
    rope.high_freq_factor = 4;
    rope.context_original = 8192;
    check_frequencies(&rope, 128, 131072, expected, 7, 1);
}

static void test_yarn_ramps_between_extrapolation_and_interpolation(void **state) {
    (void)state;
    static const struct expected expected[] = {
        {0, 1},
        {23, 0.0069783058485986633},
        {24, 0.0053753214907901019},
        {30, 0.0010643609812470019},
        {35, 0.00024625840690893869},
        {39, 6.4903943208370293e-05},
        {40, 4.4456985250973067e-05},
        {63, 3.1023444018792988e-07},
    };
    struct rope_config rope = make_rope(ROPE_YARN, 1e6, 4);
    rope.context_original = 32768;
    check_frequencies(&rope, 128, 131072, expected, 8, 1.138629436111989);
}

static void test_yarn_without_truncation_keeps_the_ramps_fractions(void **state) {
    (void)state;
    static const struct expected expected[] = {
        {0, 1},
        {8, 0.050813274815461475},
        {9, 0.031705696184663769},
        {12, 0.0067949594897322189},
        {17, 0.00012931870124506319},
        {18, 3.8308812373753384e-05},
        {31, 3.0235114281192144e-07},
    };
    struct rope_config rope = make_rope(ROPE_YARN, 150000, 32);
    rope.context_original = 4096;
    rope.truncate = false;
    rope.attention_factor = 1.25;
    check_frequencies(&rope, 64, 131072, expected, 7, 1.25);
}

static void test_yarn_takes_its_attention_factor_from_mscale(void **state) {
    (void)state;
    struct rope_config rope = make_rope(ROPE_YARN, 10000, 40);
    rope.context_original = 4096;
    rope.mscale = 1;
    rope.mscale_all_dim = 0.707;
    check_frequencies(&rope, 64, 163840, NULL, 0, 1.0857263992561355);
}

static void test_longrope_chooses_its_factors_by_the_context_served(void **state) {
    (void)state;
    static const struct expected is_short[] = {{0, 1}, {1, 0.1 / 1.5}};
    static const struct expected is_long[] = {{0, 0.5}, {1, 0.1 / 3}};
    struct rope_config rope = make_rope(ROPE_LONGROPE, 100, 32);
    rope.context_original = 4096;
    rope.n_freq_factors = 2;
    rope.freq_factors[0] = 1;
    rope.freq_factors[1] = 1.5;
    rope.freq_factors_long[0] = 2;
    rope.freq_factors_long[1] = 3;
    check_frequencies(&rope, 4, 4096, is_short, 2, 1.1902380714238083);
    check_frequencies(&rope, 4, 4097, is_long, 2, 1.1902380714238083);
}

static void test_frequency_factors_divide(void **state) {
    (void)state;
    static const struct expected expected[] = {{0, 1}, {1, 0.025}};
    struct rope_config rope = make_rope(ROPE_DEFAULT, 100, 1);
    rope.n_freq_factors = 2;
    rope.freq_factors[0] = 1;
    rope.freq_factors[1] = 4;
    check_frequencies(&rope, 4, 512, expected, 2, 1);
}

enum { CONTEXT = 131072, ROTARY_DIM = 64 };

static void check_row(const struct rope_table *table, uint32_t position) {
    const float *row = table->address + (size_t)position * ROTARY_DIM;
    for (uint32_t i = 0; i < ROTARY_DIM / 2; i++) {
        long double angle = position * (long double)table->inv_freq[i];
        long double factor = table->attention_factor;
        assert_true(fabsl(row[i] - cosl(angle) * factor) < 1e-7L);
        assert_true(fabsl(row[ROTARY_DIM / 2 + i] - sinl(angle) * factor) < 1e-7L);
    }
}

static void test_the_table_is_exact_up_to_the_last_position(void **state) {
    (void)state;
    struct fake_device fake;
    struct rope_table table;
    struct rope_config rope = make_rope(ROPE_YARN, 1e6, 4);
    struct radish_error err;
    rope.context_original = 32768;
    fake_device_init(&fake);
    assert_int_equal(rope_table_init(&table, &fake.device, &rope, ROTARY_DIM, CONTEXT, &err),
                     RADISH_OK);
    assert_true(rope_table_bytes(ROTARY_DIM, CONTEXT) >= fake.bytes_live);

    rope_table_fill(&table, CONTEXT);
    static const uint32_t positions[] = {0, 1, 63, 64, 65, 4095, 65537, 131071};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        check_row(&table, positions[i]);
    rope_table_deinit(&table);
    assert_int_equal(fake.n_live, 0);
}

static void test_rows_are_made_once_and_only_as_far_as_served(void **state) {
    (void)state;
    struct fake_device fake;
    struct rope_table table;
    struct rope_config rope = make_rope(ROPE_DEFAULT, 10000, 1);
    struct radish_error err;
    size_t row_bytes = ROTARY_DIM * sizeof(float);
    fake_device_init(&fake);
    assert_int_equal(rope_table_init(&table, &fake.device, &rope, ROTARY_DIM, 512, &err),
                     RADISH_OK);

    rope_table_fill(&table, 70);
    assert_int_equal(fake.bytes_uploaded, 70 * row_bytes);
    rope_table_fill(&table, 70);
    rope_table_fill(&table, 3);
    assert_int_equal(fake.bytes_uploaded, 70 * row_bytes);
    rope_table_fill(&table, 71);
    assert_int_equal(fake.bytes_uploaded, 71 * row_bytes);
    check_row(&table, 69);
    check_row(&table, 70);
    assert_true(table.address[71 * ROTARY_DIM] == 0); /* untouched */
    rope_table_deinit(&table);
}

static void test_lack_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct fake_device fake;
    struct rope_table table;
    struct rope_config rope = make_rope(ROPE_DEFAULT, 10000, 1);
    struct radish_error err;
    fake_device_init(&fake);
    fake.fail_at = 1;
    assert_int_equal(rope_table_init(&table, &fake.device, &rope, ROTARY_DIM, 512, &err),
                     RADISH_E_NOMEM);
    assert_int_equal(fake.n_live, 0);
    rope_table_deinit(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_frequencies_are_powers_of_theta),
        cmocka_unit_test(test_linear_divides_all_by_the_factor),
        cmocka_unit_test(test_llama3_slows_long_waves_and_mixes_those_between),
        cmocka_unit_test(test_yarn_ramps_between_extrapolation_and_interpolation),
        cmocka_unit_test(test_yarn_without_truncation_keeps_the_ramps_fractions),
        cmocka_unit_test(test_yarn_takes_its_attention_factor_from_mscale),
        cmocka_unit_test(test_longrope_chooses_its_factors_by_the_context_served),
        cmocka_unit_test(test_frequency_factors_divide),
        cmocka_unit_test(test_the_table_is_exact_up_to_the_last_position),
        cmocka_unit_test(test_rows_are_made_once_and_only_as_far_as_served),
        cmocka_unit_test(test_lack_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
