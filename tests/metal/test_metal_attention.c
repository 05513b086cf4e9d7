/* test_metal_attention.c - attention on the device: the shapes that the CPU's kernels are tested
 * with, and what a GPU cuts differently.
 *
 * Rows go alone, in blocks with a merge, or in tiles of a chunk; where the borders lie (4 rows,
 * 1,024 keys, blocks of 512, tiles of 32 rows and 8 to 32 keys) is metal_attention.c's, and the
 * lengths here are around them. Dispatches and barriers are counted: a batch of decodes and chunks
 * needs none between them, long rows need one before their merge. Everything is compared with
 * double arithmetic; and bit for bit where the cut may not matter: a row alone and in a batch, a
 * chunk in one piece and in many, rows merged in one round and in several. */
#include "base/rng.h"
#include "kernel_attention.h"
#include "kernel_memory.h"
#include "metal_device.h"
#include "stand_in.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct kernel_row *row;
static struct kernel_devices devices;

static int open_devices(void **state) {
    (void)state;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    check_close(&devices);
    return 0;
}

static void reserve(uint32_t rows_max, uint32_t width_max, uint32_t kv_len_max) {
    struct radish_error err = {0};
    struct device *d = devices.one;
    if (d->ops->scratch_reserve(d, rows_max, width_max, kv_len_max, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
}

/* Runs the case and compares it; the result, if it is wanted. */
static void check_case(struct attention_case c, float **out) {
    struct attention_seq seqs[ATTENTION_CASE_SEQS];
    c.devices = &devices;
    attention_case_prepare(&c);
    attention_case_list(&c, seqs);

    float *result = attention_case_run(&c, devices.one, seqs, c.n_seqs);

    attention_case_compare(&c, seqs, c.n_seqs, result);
    if (out) {
        *out = malloc((size_t)c.n_tokens * c.out_stride * sizeof **out);
        assert_non_null(*out);
        memcpy(*out, result, (size_t)c.n_tokens * c.out_stride * sizeof **out);
    }
    check_free(result);
    attention_case_release(&c);
}

/* ---- shapes ---- */

/* Kernels that report each access take eight times as long; what meets there meets in few keys. */
static void skip_where_traced(void) {
    struct stand_in_counts counts;
    stand_in_counts(&counts);
    if (counts.is_traced) skip();
}

static void test_shapes_of_the_cpus_tests(void **state) {
    (void)state;
    skip_where_traced();
    check_attention(row);
}

static void test_every_length_as_a_decode_and_as_a_chunk(void **state) {
    static const uint32_t lengths[] = {1, 2, 31, 32, 33, 57, 128, 1000, 1025, 2100};
    struct attention_case c = {.n_heads = 4,
                               .n_kv_heads = 2,
                               .head_dim = 16,
                               .v_head_dim = 16,
                               .dtype = RADISH_DTYPE_F16,
                               .n_seqs = 20};
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        c.kv_len[i] = lengths[i % 10];
        c.n_rows[i] = i < 10 ? 1 : lengths[i % 10] < 40 ? lengths[i % 10] : 37;
    }
    check_case(c, NULL);
}

static void test_every_head_and_group(void **state) {
    static const uint32_t dims[][2] = {{64, 64},  {80, 48},   {96, 96}, {128, 128},
                                       {72, 128}, {256, 256}, {512, 40}};
    static const uint32_t groups[] = {1, 2, 3, 4, 8, 5, 11};
    (void)state;
    for (uint32_t i = 0; i < 7; i++) {
        for (uint32_t t = 0; t < 3; t++) {
            struct attention_case c = {.n_heads = groups[(i + t) % 7] * 2,
                                       .n_kv_heads = 2,
                                       .head_dim = dims[i][0],
                                       .v_head_dim = dims[i][1],
                                       .dtype = (enum dtype)t,
                                       .n_seqs = 3,
                                       .kv_len = {33, 45, 9},
                                       .n_rows = {1, 12, 4}};
            check_case(c, NULL);
        }
    }
}

static void test_random_batches(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        struct attention_case c = {.n_kv_heads = 1 + (uint32_t)(rng_u64(check_seed(), i * 64) % 3)};
        c.n_heads = c.n_kv_heads * (1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 1) % 9));
        c.head_dim = 1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 2) % 40);
        c.v_head_dim = 1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 3) % 40);
        c.dtype = (enum dtype)(rng_u64(check_seed(), i * 64 + 4) % 3);
        c.window = i % 2 ? 1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 5) % 60) : 0;
        c.soft_cap = i % 3 == 2 ? 1.5f : 0.0f;
        c.n_seqs = 5;
        for (uint32_t s = 0; s < c.n_seqs; s++) {
            c.kv_len[s] = 1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 6 + s) % 120);
            c.n_rows[s] = 1 + (uint32_t)(rng_u64(check_seed(), i * 64 + 16 + s) % (s % 2 ? 3 : 50));
            if (c.n_rows[s] > c.kv_len[s]) c.n_rows[s] = c.kv_len[s];
        }
        check_case(c, NULL);
    }
}

static void test_the_last_position_of_a_long_table(void **state) {
    struct attention_case c = {.n_heads = 1,
                               .n_kv_heads = 1,
                               .head_dim = 8,
                               .v_head_dim = 8,
                               .dtype = RADISH_DTYPE_BF16,
                               .n_seqs = 1,
                               .kv_len = {131072},
                               .n_rows = {1}};
    (void)state;
    skip_where_traced();
    reserve(4, 64, 131072);
    check_case(c, NULL);
    c.window = 40; /* a chunk at the end */
    c.n_rows[0] = 9;
    check_case(c, NULL);
}

/* Keys before a row's window and behind its position are NaN, as are slots that nobody has. */
static void test_what_a_row_does_not_see_may_be_anything(void **state) {
    struct attention_case c = {.devices = &devices,
                               .n_heads = 4,
                               .n_kv_heads = 2,
                               .head_dim = 24,
                               .v_head_dim = 20,
                               .dtype = RADISH_DTYPE_F32,
                               .window = 50,
                               .n_seqs = 2,
                               .kv_len = {90, 100},
                               .n_rows = {1, 8}};
    struct attention_seq seqs[ATTENTION_CASE_SEQS];
    const uint32_t n_seen[] = {50, 57};
    (void)state;
    attention_case_prepare(&c);
    attention_case_list(&c, seqs);
    uint8_t *is_seen = calloc(c.n_slots, 1);
    assert_non_null(is_seen);
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = c.kv_len[s] - n_seen[s]; i < c.kv_len[s]; i++) is_seen[c.slots[s][i]] = 1;
    for (uint32_t slot = 0; slot < c.n_slots; slot++) {
        if (is_seen[slot]) continue;
        check_fill_nan((float *)(void *)c.k_pool + (size_t)slot * 2 * 24, 2 * 24);
        check_fill_nan((float *)(void *)c.v_pool + (size_t)slot * 2 * 20, 2 * 20);
    }
    float *out = attention_case_run(&c, devices.one, seqs, c.n_seqs);

    attention_case_compare(&c, seqs, c.n_seqs, out);

    check_free(out);
    free(is_seen);
    attention_case_release(&c);
}

static void test_shapes_that_no_kernel_has_are_refused_with_a_reason(void **state) {
    const struct kernel_shape wide = {.kv_dtype = RADISH_DTYPE_F16,
                                      .n_heads = 2,
                                      .n_kv_heads = 1,
                                      .head_dim = 520,
                                      .v_head_dim = 64};
    const struct kernel_shape uneven = {.kv_dtype = RADISH_DTYPE_F16,
                                        .n_heads = 5,
                                        .n_kv_heads = 2,
                                        .head_dim = 64,
                                        .v_head_dim = 64};
    char reason[160] = "";
    struct device *d = devices.one;
    (void)state;

    assert_false(d->ops->supports(d, KERNEL_OP_ATTENTION, &wide, reason, sizeof reason));
    assert_non_null(strstr(reason, "head_dim 520"));
    assert_false(d->ops->supports(d, KERNEL_OP_ATTENTION, &uneven, reason, sizeof reason));
    assert_non_null(strstr(reason, "5 heads, 2 KV heads"));
}

/* ---- dispatches ---- */

/* The case's dispatches and barriers. */
static void check_counts(struct attention_case c, uint64_t n_dispatches, uint64_t n_barriers) {
    struct stand_in_counts before, after;
    stand_in_counts(&before);
    check_case(c, NULL);
    stand_in_counts(&after);
    assert_int_equal(after.dispatches - before.dispatches, n_dispatches);
    assert_int_equal(after.barriers - before.barriers, n_barriers);
    assert_int_equal(stand_in_hazards(), 0);
}

static const struct attention_case mixed = {.n_heads = 2,
                                            .n_kv_heads = 2,
                                            .head_dim = 8,
                                            .v_head_dim = 8,
                                            .dtype = RADISH_DTYPE_F16,
                                            .n_seqs = 4,
                                            .kv_len = {70, 40, 12, 9},
                                            .n_rows = {40, 33, 1, 1}};

static void test_decodes_and_chunks_need_two_dispatches_and_no_barrier(void **state) {
    (void)state;
    check_counts(mixed, 2, 0);
}

static void test_long_rows_are_merged_behind_one_barrier(void **state) {
    struct attention_case c = mixed;
    (void)state;
    c.kv_len[2] = 1025, c.kv_len[3] = 2000;
    check_counts(c, 3, 1);
}

/* Layers that ask with the same sequences share slots and lists; another window has lists of its
 * own; the rows that want logits are other sequences. */
static void test_layers_share_what_the_host_makes(void **state) {
    struct attention_case c = mixed;
    struct attention_seq seqs[ATTENTION_CASE_SEQS];
    struct device *d = devices.one;
    const struct metal_step *step;
    (void)state;
    c.devices = &devices;
    attention_case_prepare(&c);
    attention_case_list(&c, seqs);
    struct attention_args args = attention_case_args(&c, seqs, c.n_seqs);
    float *outs[4];
    size_t used[4];

    d->ops->step_begin(d);
    step = metal_of(d)->recording;
    for (int i = 0; i < 4; i++) {
        args.out = outs[i] = check_floats((size_t)c.n_tokens * c.out_stride);
        args.window = i == 2 ? 5 : 0;
        d->ops->attention(d, &args);
        used[i] = step->block_used;
    }
    assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    assert_int_equal(d->ops->step_wait(d), RADISH_OK);

    assert_true(used[0] > 0);
    assert_int_equal(used[1], used[0]);
    assert_true(used[2] > used[1]);
    assert_true(used[2] - used[1] < used[0]); /* no second copy of the slots */
    assert_int_equal(used[3], used[2]);
    for (int i = 0; i < 4; i++) {
        c.window = i == 2 ? 5 : 0;
        attention_case_compare(&c, seqs, c.n_seqs, outs[i]);
        check_free(outs[i]);
    }
    attention_case_release(&c);
}

/* ---- cuts that do not matter ---- */

static void test_pieces_of_a_shrunken_device_give_the_same_bits(void **state) {
    struct attention_case c = mixed;
    struct metal_device *d = metal_of(devices.one);
    float *whole, *pieces;
    (void)state;
    c.kv_len[2] = 1025, c.kv_len[3] = 2000;
    check_case(c, &whole);
    d->shrink = 28; /* every tile is a piece; parts of one row are a round */

    struct stand_in_counts before, after;
    stand_in_counts(&before);
    check_case(c, &pieces);
    stand_in_counts(&after);

    assert_int_equal(after.dispatches - before.dispatches, 4 + 2 * 2);
    check_same_bits(pieces, whole, 75 * (2 * 8 + 3) * sizeof(float), "pieces");
    d->shrink = 0;
    free(whole), free(pieces);
}

static void test_rounds_give_the_same_bits_and_too_little_scratch_the_same_values(void **state) {
    struct attention_case c = mixed;
    float *outs[3];
    (void)state;
    c.n_seqs = 6;
    for (uint32_t s = 0; s < c.n_seqs; s++) c.kv_len[s] = 1030 + 500 * s, c.n_rows[s] = 1;
    const uint32_t rows_max[] = {64, 1, 1}, kv_len_max[] = {4096, 4096, 1500};
    for (int i = 0; i < 3; i++) {
        struct stand_in_counts before, after;
        reserve(rows_max[i], 16, kv_len_max[i]);
        /* The tables of six rows are more than is planned for one. */
        struct metal_device *d = metal_of(devices.one);
        const size_t room = d->scratch_room;
        reserve(64, 16, 4096);
        d->scratch_room = room < d->scratch_room ? room : d->scratch_room;
        stand_in_counts(&before);
        check_case(c, &outs[i]);
        stand_in_counts(&after);
        const uint64_t n = after.dispatches - before.dispatches;
        if (i == 0) assert_int_equal(n, 2);
        if (i == 1) assert_true(n > 4);
    }
    check_same_bits(outs[1], outs[0], 6 * (2 * 8 + 3) * sizeof(float), "rounds");
    for (int i = 0; i < 3; i++) free(outs[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_devices, close_devices)
        TEST(test_every_length_as_a_decode_and_as_a_chunk),
        TEST(test_every_head_and_group),
        TEST(test_random_batches),
        TEST(test_the_last_position_of_a_long_table),
        TEST(test_what_a_row_does_not_see_may_be_anything),
        TEST(test_shapes_that_no_kernel_has_are_refused_with_a_reason),
        TEST(test_decodes_and_chunks_need_two_dispatches_and_no_barrier),
        TEST(test_long_rows_are_merged_behind_one_barrier),
        TEST(test_layers_share_what_the_host_makes),
        TEST(test_pieces_of_a_shrunken_device_give_the_same_bits),
        TEST(test_rounds_give_the_same_bits_and_too_little_scratch_the_same_values),
        cmocka_unit_test(test_shapes_of_the_cpus_tests), /* has devices of its own */
    };
    uint32_t n_rows;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_METAL, &n_rows);
    for (uint32_t i = 0; i < n_rows; i++)
        if (rows[i].op == KERNEL_OP_ATTENTION) row = &rows[i];
    if (!row) return 1;
    check_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
