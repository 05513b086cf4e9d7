/* test_quantise.c - numbers into blocks: the simple types against vectors of the gguf package
 * (tests/data/quantise), the K types by their error, all types by what they refuse. */
#include "test.h"

#include "base/file_map.h"
#include "base/rng.h"
#include "tensor/quantise.h"

#include <math.h>

enum { BLOCK_MAX = 256 };

static const enum dtype all[] = {RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q6_K, RADISH_DTYPE_Q5_K,
                                 RADISH_DTYPE_Q5_1, RADISH_DTYPE_Q5_0, RADISH_DTYPE_Q4_K,
                                 RADISH_DTYPE_Q4_1, RADISH_DTYPE_Q4_0};
enum { N_ALL = sizeof all / sizeof *all };

static void test_every_type_has_a_name_that_leads_back_to_it(void **state) {
    (void)state;
    char names[100] = "";
    enum dtype dtype;
    for (size_t i = 0; i < N_ALL; i++) {
        const char *name = quantise_type_name(all[i]);
        assert_non_null(name);
        assert_true(quantise_type_find(name, &dtype) && dtype == all[i]);
        assert_true(quantise_type_find(dtype_name(all[i]), &dtype) && dtype == all[i]);
        assert_true(dtype_can_read(all[i]));
        if (*names) strcat(names, ", ");
        strcat(names, name);
    }
    assert_string_equal(names, quantise_type_names());
    static const char *const wrong[] = {"", "q8", "q2_k", "f16", "none", "q8_0 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(quantise_type_find(wrong[i], &dtype));
    assert_null(quantise_type_name(RADISH_DTYPE_Q2_K));
    assert_null(quantise_type_name(RADISH_DTYPE_F32));
}

static void test_rows_that_are_no_whole_blocks_get_a_type_with_smaller_ones(void **state) {
    (void)state;
    static const struct {
        enum dtype wanted;
        uint32_t n_in;
        bool has_type;
        enum dtype due;
    } cases[] = {
        {RADISH_DTYPE_Q4_K, 512, true, RADISH_DTYPE_Q4_K},
        {RADISH_DTYPE_Q4_K, 576, true, RADISH_DTYPE_Q5_0},
        {RADISH_DTYPE_Q5_K, 576, true, RADISH_DTYPE_Q5_1},
        {RADISH_DTYPE_Q6_K, 576, true, RADISH_DTYPE_Q8_0},
        {RADISH_DTYPE_Q8_0, 576, true, RADISH_DTYPE_Q8_0},
        {RADISH_DTYPE_Q4_K, 80, false, RADISH_DTYPE_F32},
        {RADISH_DTYPE_Q4_0, 80, false, RADISH_DTYPE_F32},
        {RADISH_DTYPE_BF16, 512, false, RADISH_DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum dtype dtype;
        bool has_type = quantise_type_for(cases[i].wanted, cases[i].n_in, &dtype);
        assert_int_equal(has_type, cases[i].has_type);
        if (has_type) assert_int_equal(dtype, cases[i].due);
    }
}

static void test_simple_types_have_the_bits_of_the_reference(void **state) {
    (void)state;
    enum { N_BLOCKS = 96, ELEMS = 32 };
    static const enum dtype types[] = {RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q4_0, RADISH_DTYPE_Q4_1,
                                       RADISH_DTYPE_Q5_0, RADISH_DTYPE_Q5_1};
    char *data;
    size_t len, at = N_BLOCKS * ELEMS * sizeof(float);
    struct radish_error err;
    static float x[N_BLOCKS * ELEMS];
    if (file_read(TEST_DATA "/quantise/blocks.bin", 1 << 20, &data, &len, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    assert_true(len > at);
    memcpy(x, data, at);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const size_t bytes = dtype_block_bytes(types[t]);
        for (size_t b = 0; b < N_BLOCKS; b++, at += bytes) {
            uint8_t block[64];
            assert_true(at + bytes <= len);
            assert_true(quantise_row(types[t], x + b * ELEMS, ELEMS, block));
            if (memcmp(block, data + at, bytes) != 0)
                fail_msg("%s, block %zu differs", dtype_name(types[t]), b);
        }
    }
    assert_int_equal(at, len);
    free(data);
}

static float draw_normal(uint64_t seed, uint64_t i) {
    double u = ((double)(rng_u64(seed, 2 * i) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(rng_u64(seed, 2 * i + 1) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* sqrt(sum of squared errors / sum of squares) over normal numbers of standard deviation `size`. */
static double measure_error(enum dtype dtype, float size, float shift) {
    enum { N_BLOCKS = 200 };
    double error = 0, total = 0;
    for (uint64_t b = 0; b < N_BLOCKS; b++) {
        float x[BLOCK_MAX], y[BLOCK_MAX];
        uint8_t blocks[BLOCK_MAX * 2];
        for (uint64_t i = 0; i < BLOCK_MAX; i++)
            x[i] = (draw_normal(1, b * BLOCK_MAX + i) + shift) * size;
        assert_true(quantise_row(dtype, x, BLOCK_MAX, blocks));
        dtype_to_f32(dtype, blocks, y, BLOCK_MAX);
        for (int i = 0; i < BLOCK_MAX; i++) {
            error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
            total += (double)x[i] * (double)x[i];
        }
    }
    return sqrt(error / total);
}

/* The bounds are what was measured, rounded up: a worse search shows. */
static void test_errors_are_within_their_bounds(void **state) {
    (void)state;
    static const struct {
        enum dtype dtype;
        double bound;
    } cases[] = {{RADISH_DTYPE_Q8_0, 0.0054}, {RADISH_DTYPE_Q6_K, 0.0173},
                 {RADISH_DTYPE_Q5_K, 0.0358}, {RADISH_DTYPE_Q5_1, 0.0378},
                 {RADISH_DTYPE_Q5_0, 0.0428}, {RADISH_DTYPE_Q4_K, 0.0710},
                 {RADISH_DTYPE_Q4_1, 0.0780}, {RADISH_DTYPE_Q4_0, 0.0860}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double error = measure_error(cases[i].dtype, 0.02f, 0);
        printf("%s: relative error %.5f\n", dtype_name(cases[i].dtype), error);
        assert_true(error < cases[i].bound && error > cases[i].bound / 2);
        /* Sizes are f16: within its normal numbers they change nothing. */
        assert_true(measure_error(cases[i].dtype, 300, 0) < cases[i].bound);
    }
}

static void test_k_types_beat_the_simple_ones_and_follow_a_shift(void **state) {
    (void)state;
    static const enum dtype pairs[][2] = {{RADISH_DTYPE_Q4_K, RADISH_DTYPE_Q4_1},
                                          {RADISH_DTYPE_Q5_K, RADISH_DTYPE_Q5_1}};
    for (size_t i = 0; i < 2; i++) {
        assert_true(measure_error(pairs[i][0], 1, 0) < measure_error(pairs[i][1], 1, 0));
        /* Numbers on one side of zero: a minimum takes the shift, where it is negative. */
        assert_true(measure_error(pairs[i][0], 1, -8) < 0.7 * measure_error(pairs[i][0], 1, 8));
    }
}

static void test_blocks_do_not_depend_on_how_rows_are_cut(void **state) {
    (void)state;
    float x[4 * BLOCK_MAX];
    for (uint64_t i = 0; i < 4 * BLOCK_MAX; i++) x[i] = draw_normal(2, i);
    for (size_t t = 0; t < N_ALL; t++) {
        uint8_t whole[8 * BLOCK_MAX], part[8 * BLOCK_MAX];
        uint64_t quarter;
        assert_true(dtype_row_bytes(all[t], BLOCK_MAX, &quarter));
        assert_true(quantise_row(all[t], x, 4 * BLOCK_MAX, whole));
        for (size_t i = 0; i < 4; i++)
            assert_true(quantise_row(all[t], x + i * BLOCK_MAX, BLOCK_MAX, part + i * quarter));
        assert_memory_equal(whole, part, 4 * (size_t)quarter);
    }
}

static void read_back(enum dtype dtype, const float *x, float *y) {
    uint8_t blocks[BLOCK_MAX * 2];
    assert_true(quantise_row(dtype, x, BLOCK_MAX, blocks));
    dtype_to_f32(dtype, blocks, y, BLOCK_MAX);
}

static void test_a_block_of_one_number_keeps_it(void **state) {
    (void)state;
    for (size_t t = 0; t < N_ALL; t++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float x[BLOCK_MAX], y[BLOCK_MAX];
            for (int i = 0; i < BLOCK_MAX; i++) x[i] = 1.5f * (float)sign;
            read_back(all[t], x, y);
            for (int i = 0; i < BLOCK_MAX; i++) assert_true(fabsf(y[i] - x[i]) < 0.002f);
        }
}

static void test_zeros_stay_zeros_and_tiny_numbers_do_not_grow(void **state) {
    (void)state;
    for (size_t t = 0; t < N_ALL; t++) {
        float x[BLOCK_MAX] = {0}, y[BLOCK_MAX];
        read_back(all[t], x, y);
        for (int i = 0; i < BLOCK_MAX; i++) assert_true(y[i] == 0);
        static const float sizes[] = {1e-7f, 1e-12f, 1e-38f, 1e-44f};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (uint64_t i = 0; i < BLOCK_MAX; i++) x[i] = draw_normal(3, i) * sizes[s];
            read_back(all[t], x, y);
            for (int i = 0; i < BLOCK_MAX; i++) assert_true(fabsf(y[i]) < 1e-5f);
        }
    }
}

/* One group in 1,000 times smaller numbers than its neighbours: its own scale is lost in a K type,
 * but it must not come out larger than it was. */
static void test_small_groups_among_large_ones_stay_small(void **state) {
    (void)state;
    for (size_t t = 0; t < N_ALL; t++) {
        float x[BLOCK_MAX], y[BLOCK_MAX];
        for (uint64_t i = 0; i < BLOCK_MAX; i++)
            x[i] = draw_normal(4, i) * (i / 32 == 3 ? 0.001f : 1);
        read_back(all[t], x, y);
        for (int i = 96; i < 128; i++) assert_true(fabsf(y[i]) < 0.02f);
    }
}

static void test_numbers_that_no_scale_can_hold_are_refused(void **state) {
    (void)state;
    static const float wrong[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e9f, -1e9f};
    for (size_t t = 0; t < N_ALL; t++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
            for (int at = 0; at < BLOCK_MAX; at += 85) {
                float x[BLOCK_MAX] = {0};
                uint8_t blocks[BLOCK_MAX * 2];
                x[at] = wrong[w];
                if (quantise_row(all[t], x, BLOCK_MAX, blocks))
                    fail_msg("%s takes %g", dtype_name(all[t]), (double)wrong[w]);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_has_a_name_that_leads_back_to_it),
        cmocka_unit_test(test_rows_that_are_no_whole_blocks_get_a_type_with_smaller_ones),
        cmocka_unit_test(test_simple_types_have_the_bits_of_the_reference),
        cmocka_unit_test(test_errors_are_within_their_bounds),
        cmocka_unit_test(test_k_types_beat_the_simple_ones_and_follow_a_shift),
        cmocka_unit_test(test_blocks_do_not_depend_on_how_rows_are_cut),
        cmocka_unit_test(test_a_block_of_one_number_keeps_it),
        cmocka_unit_test(test_zeros_stay_zeros_and_tiny_numbers_do_not_grow),
        cmocka_unit_test(test_small_groups_among_large_ones_stay_small),
        cmocka_unit_test(test_numbers_that_no_scale_can_hold_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
