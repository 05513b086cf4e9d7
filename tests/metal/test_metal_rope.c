/* test_metal_rope.c - rope_kv_store on the device: every variant over the shapes that the CPU's
 * kernels are tested with, and what holds on a GPU only.
 *
 * On a GPU nobody can stop at a slot that is none, so such a slot must write nothing, and a
 * position past the table must read nothing past it. Pools lie in larger memory here, whose other
 * bytes must not change. Dispatches and barriers are counted: the trio has none between its
 * kernels, one form is a single dispatch, the unfused one needs its barrier. */
#include "base/rng.h"
#include "kernel_check.h"
#include "kernel_memory.h"
#include "metal_device.h"
#include "metal_grid.h"
#include "stand_in.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_row(void **state) {
    check_rope_kv_store(*state);
}

/* ---- one small problem ---- */

enum {
    ROWS = 9,
    HEADS = 6,
    KV_HEADS = 3,
    DIM = 20,
    V_DIM = 12,
    ROTARY = 12,
    SLOTS = 11,
    POSITIONS = 6,
    GUARD = 64, /* elements before and behind the pools */
    K_WIDTH = KV_HEADS * DIM,
    V_WIDTH = KV_HEADS * V_DIM
};

struct problem {
    struct device *device;
    float *q, *k, *v, *table; /* the table ends with a row of NaN, which is not part of it */
    float *k_memory, *v_memory;
    int32_t *positions, *slots;
    struct rope_kv_store_args args;
};

static const char *const variants[] = {"metal", "metal_h1", "metal_one", "metal_unfused"};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static void fill_table(float *table) {
    for (uint32_t p = 0; p < POSITIONS; p++) {
        for (uint32_t i = 0; i < ROTARY / 2; i++) {
            table[p * ROTARY + i] = (float)cos(p * pow(100, -2.0 * i / (double)ROTARY));
            table[p * ROTARY + ROTARY / 2 + i] =
                (float)sin(p * pow(100, -2.0 * i / (double)ROTARY));
        }
    }
}

static void open_problem(struct problem *p, const char *variant) {
    char choice[64];
    snprintf(choice, sizeof choice, "rope_kv_store=%s", variant);
    *p = (struct problem){
        .device = check_open_named(CHECK_METAL, choice, /*n_threads=*/1, RADISH_PRECISION_FAST)};
    check_memory_from(p->device);
    p->q = check_floats(ROWS * HEADS * DIM);
    p->k = check_floats(ROWS * K_WIDTH);
    p->v = check_floats(ROWS * V_WIDTH);
    p->table = check_floats((POSITIONS + 1) * ROTARY);
    p->k_memory = check_floats(SLOTS * K_WIDTH + 2 * GUARD);
    p->v_memory = check_floats(SLOTS * V_WIDTH + 2 * GUARD);
    p->positions = check_alloc(ROWS * sizeof *p->positions);
    p->slots = check_alloc(ROWS * sizeof *p->slots);
    check_fill(p->q, ROWS * HEADS * DIM, 1, 2.0f);
    check_fill(p->k, ROWS * K_WIDTH, 2, 2.0f);
    check_fill(p->v, ROWS * V_WIDTH, 3, 2.0f);
    fill_table(p->table);
    for (int32_t r = 0; r < ROWS; r++) {
        p->positions[r] = r % POSITIONS;
        p->slots[r] = SLOTS - 1 - r;
    }
    p->args = (struct rope_kv_store_args){.q = p->q,
                                          .k = p->k,
                                          .v = p->v,
                                          .positions = p->positions,
                                          .slots = p->slots,
                                          .rope_table = p->table,
                                          .k_pool = p->k_memory + GUARD,
                                          .v_pool = p->v_memory + GUARD,
                                          .n_rows = ROWS,
                                          .q_stride = HEADS * DIM,
                                          .k_stride = K_WIDTH,
                                          .v_stride = V_WIDTH,
                                          .n_heads = HEADS,
                                          .n_kv_heads = KV_HEADS,
                                          .head_dim = DIM,
                                          .v_head_dim = V_DIM,
                                          .rotary_dim = ROTARY,
                                          .n_slots = SLOTS,
                                          .n_positions = POSITIONS,
                                          .kv_dtype = RADISH_DTYPE_F32};
}

static void close_problem(struct problem *p) {
    check_free(p->q), check_free(p->k), check_free(p->v), check_free(p->table);
    check_free(p->k_memory), check_free(p->v_memory);
    check_free(p->positions), check_free(p->slots);
    check_memory_from(NULL);
    device_close(p->device);
}

static void run_problem(struct problem *p) {
    const struct rope_kv_store_args *a = &p->args;
    const struct kernel_shape shape = {.kv_dtype = (enum dtype)a->kv_dtype,
                                       .n_heads = HEADS,
                                       .n_kv_heads = KV_HEADS,
                                       .head_dim = a->head_dim,
                                       .v_head_dim = a->v_head_dim,
                                       .rotary_dim = a->rotary_dim,
                                       .is_interleaved = a->is_interleaved};
    check_supports(p->device, KERNEL_OP_ROPE_KV_STORE, &shape);
    p->device->ops->step_begin(p->device);
    p->device->ops->rope_kv_store(p->device, a);
    assert_int_equal(p->device->ops->step_submit(p->device), RADISH_OK);
    assert_int_equal(p->device->ops->step_wait(p->device), RADISH_OK);
}

/* Memory starts as NaN and K and V are numbers, so what was written can be seen. */
static bool is_written(const float *x, size_t n) {
    size_t n_written = 0;
    for (size_t i = 0; i < n; i++) n_written += isnan(x[i]) ? 0 : 1;
    if (n_written && n_written < n) fail_msg("%zu of %zu numbers written", n_written, n);
    return n_written > 0;
}

static void check_guards(const struct problem *p) {
    assert_false(is_written(p->k_memory, GUARD));
    assert_false(is_written(p->v_memory, GUARD));
    assert_false(is_written(p->k_memory + GUARD + SLOTS * K_WIDTH, GUARD));
    assert_false(is_written(p->v_memory + GUARD + SLOTS * V_WIDTH, GUARD));
}

/* ---- what only a GPU has to bear ---- */

static void test_slots_that_are_none_write_nothing_and_q_is_turned_all_the_same(void **state) {
    static const int32_t slots[ROWS] = {-1, 4, SLOTS, INT32_MIN, INT32_MAX, 0, -2, SLOTS + 1, 7};
    (void)state;
    for (int i = 0; i < N_VARIANTS; i++) {
        struct problem p;
        open_problem(&p, variants[i]);
        memcpy(p.slots, slots, sizeof slots);
        for (int r = 0; r < ROWS; r++) p.positions[r] = 1 + r % (POSITIONS - 1);
        float before[ROWS * HEADS * DIM];
        memcpy(before, p.q, sizeof before);

        run_problem(&p);

        for (int slot = 0; slot < SLOTS; slot++) {
            const bool is_named = slot == 0 || slot == 4 || slot == 7;
            assert_int_equal(is_written(p.k_memory + GUARD + slot * K_WIDTH, K_WIDTH), is_named);
            assert_int_equal(is_written(p.v_memory + GUARD + slot * V_WIDTH, V_WIDTH), is_named);
        }
        check_guards(&p);
        for (int h = 0; h < ROWS * HEADS; h++) {
            assert_memory_not_equal(p.q + h * DIM, before + h * DIM, ROTARY * sizeof *before);
            assert_memory_equal(p.q + h * DIM + ROTARY, before + h * DIM + ROTARY,
                                (DIM - ROTARY) * sizeof *before);
        }
        close_problem(&p);
    }
}

static void test_positions_past_the_table_read_its_last_row(void **state) {
    static const int32_t positions[] = {POSITIONS, -1, INT32_MAX, INT32_MIN};
    (void)state;
    for (int i = 0; i < N_VARIANTS; i++) {
        struct problem p;
        open_problem(&p, variants[i]);
        for (int r = 0; r < ROWS; r++) p.positions[r] = POSITIONS - 1;
        float q[ROWS * HEADS * DIM], expected[ROWS * HEADS * DIM];
        memcpy(q, p.q, sizeof q);
        run_problem(&p);
        memcpy(expected, p.q, sizeof q);
        for (int r = 0; r < ROWS; r++) p.positions[r] = positions[r % 4];
        memcpy(p.q, q, sizeof q);
        check_fill(p.k, ROWS * K_WIDTH, 2, 2.0f); /* unfused turns it in place */

        run_problem(&p);

        check_same_bits(p.q, expected, sizeof q, "q");
        for (int slot = SLOTS - ROWS; slot < SLOTS; slot++)
            assert_true(is_written(p.k_memory + GUARD + slot * K_WIDTH, K_WIDTH));
        close_problem(&p);
    }
}

static void test_a_layer_without_rotation_copies_k(void **state) {
    (void)state;
    for (int i = 0; i < N_VARIANTS; i++) {
        struct problem p;
        open_problem(&p, variants[i]);
        p.args.rotary_dim = 0;
        float q[ROWS * HEADS * DIM];
        memcpy(q, p.q, sizeof q);

        run_problem(&p);

        check_same_bits(p.q, q, sizeof q, "q");
        for (int r = 0; r < ROWS; r++)
            check_same_bits(p.k_memory + GUARD + p.slots[r] * K_WIDTH, p.k + r * K_WIDTH,
                            K_WIDTH * sizeof *p.k, "k");
        check_guards(&p);
        close_problem(&p);
    }
}

static void test_a_layer_without_keys_of_its_own_turns_q_only(void **state) {
    (void)state;
    for (int i = 0; i < N_VARIANTS; i++) {
        struct problem p;
        open_problem(&p, variants[i]);
        run_problem(&p);
        float expected[ROWS * HEADS * DIM];
        memcpy(expected, p.q, sizeof expected);
        check_fill(p.q, ROWS * HEADS * DIM, 1, 2.0f);
        check_fill_nan(p.k_memory, SLOTS * K_WIDTH + 2 * GUARD);
        check_fill_nan(p.v_memory, SLOTS * V_WIDTH + 2 * GUARD);
        p.args.n_kv_heads = 0;

        run_problem(&p);

        check_same_bits(p.q, expected, sizeof expected, "q");
        assert_false(is_written(p.k_memory, SLOTS * K_WIDTH + 2 * GUARD));
        assert_false(is_written(p.v_memory, SLOTS * V_WIDTH + 2 * GUARD));
        close_problem(&p);
    }
}

static void test_variants_agree(void **state) {
    float *first = NULL;
    const size_t n_q = ROWS * HEADS * DIM, n_k = SLOTS * K_WIDTH, n_v = SLOTS * V_WIDTH;
    (void)state;
    for (int i = 0; i < 2 * N_VARIANTS; i++) {
        struct problem p;
        open_problem(&p, variants[i / 2]);
        p.args.is_interleaved = i % 2 == 1;
        run_problem(&p);
        if (!first) first = calloc(2 * (n_q + n_k + n_v), sizeof *first);
        assert_non_null(first);
        float *mine = first + (size_t)(i % 2) * (n_q + n_k + n_v);
        if (i < 2) {
            memcpy(mine, p.q, n_q * sizeof *mine);
            memcpy(mine + n_q, p.k_memory + GUARD, n_k * sizeof *mine);
            memcpy(mine + n_q + n_k, p.v_memory + GUARD, n_v * sizeof *mine);
        }
        for (size_t j = 0; j < n_q; j++)
            check_close_to((double)p.q[j], (double)mine[j], 1e-6, "q", j);
        for (size_t j = 0; j < n_k; j++)
            if (!isnan(mine[n_q + j]) || !isnan(p.k_memory[GUARD + j]))
                check_close_to((double)p.k_memory[GUARD + j], (double)mine[n_q + j], 1e-6, "k", j);
        check_same_bits(p.v_memory + GUARD, mine + n_q + n_k, n_v * sizeof *mine, "v");
        close_problem(&p);
    }
    free(first);
}

static uint64_t bits_rounded(enum dtype dtype, float x) {
    return dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(x) : dtype_f32_to_bf16(x);
}

/* Halfway cases, infinities, the largest and random numbers; NaN stays NaN, and what is below the
 * smallest normal number may be flushed. */
static void check_rounding(enum dtype dtype) {
    static const uint32_t edges[] = {0x7fc00001, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000,
                                     0x00000001, 0x807fffff, 0x7f7fffff, 0x3f808000, 0x3f818000,
                                     0x3f801000, 0x3f803000, 0x477ff000, 0x33000001, 0x387fc000};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    struct problem p;
    open_problem(&p, "metal");
    p.args.kv_dtype = (int32_t)dtype;
    for (uint32_t i = 0; i < ROWS * V_WIDTH; i++) {
        const uint32_t bits = i < N_EDGES ? edges[i] : (uint32_t)rng_u64(check_seed() + 5, i);
        memcpy(&p.v[i], &bits, sizeof bits);
    }

    run_problem(&p);

    for (uint32_t i = 0; i < ROWS * V_WIDTH; i++) {
        const size_t at = (size_t)p.slots[i / V_WIDTH] * V_WIDTH + i % V_WIDTH;
        const uint16_t stored = ((const uint16_t *)p.args.v_pool)[at];
        const uint16_t expected = (uint16_t)bits_rounded(dtype, p.v[i]);
        float value, wanted;
        dtype_to_f32(dtype, &stored, &value, 1);
        dtype_to_f32(dtype, &expected, &wanted, 1);
        if (isnan(wanted) ? isnan(value) : stored == expected) continue;
        if (fabsf(p.v[i]) < 0x1p-126f && fabsf(value) == 0.0f) continue;
        fail_msg("%a is stored as %04x, expected %04x", (double)p.v[i], stored, expected);
    }
    close_problem(&p);
}

static void test_rounding_is_to_nearest_even(void **state) {
    (void)state;
    check_rounding(RADISH_DTYPE_F16);
    check_rounding(RADISH_DTYPE_BF16);
}

/* Slot times the width of a row past 2^32: the pools are address space, of which little is used. */
static void test_slots_are_found_beyond_4_billion_numbers(void **state) {
    enum { N_SLOTS = (int)((1ull << 32) / K_WIDTH) + 3 };
    const size_t pool_bytes = (size_t)N_SLOTS * K_WIDTH * sizeof(uint16_t);
    const size_t last = (size_t)(N_SLOTS - 1) * K_WIDTH, wrapped = (uint32_t)last;
    void *pools[2] = {NULL, NULL};
    struct radish_error err = {0};
    struct problem p;
    (void)state;
    assert_int_equal(setenv("MTL_SIM_BUFFER_MAX", "17179869184", 1), 0);
    assert_int_equal(setenv("MTL_SIM_WORKING_SET", "68719476736", 1), 0);
    stand_in_reset();
    open_problem(&p, "metal");
    bool has_room = true;
    for (int i = 0; i < 2 && has_room; i++)
        has_room = p.device->ops->mem_alloc(p.device, pool_bytes, &pools[i], &err) == RADISH_OK;
    if (!has_room) print_message("not tested: %s\n", err.msg);
    p.args.k_pool = pools[0];
    p.args.v_pool = pools[1];
    p.args.n_slots = N_SLOTS;
    p.args.kv_dtype = RADISH_DTYPE_F16;
    p.args.n_rows = 1;
    p.args.v_head_dim = DIM; /* of K's width; V is read where K is */
    p.args.v = p.k;
    p.args.v_stride = K_WIDTH;
    p.slots[0] = N_SLOTS - 1;
    p.positions[0] = 0;

    if (has_room) run_problem(&p);

    for (int i = 0; i < 2 && has_room; i++) {
        const uint16_t *pool = pools[i];
        for (size_t j = 0; j < K_WIDTH; j++) {
            assert_int_equal(pool[last + j], dtype_f32_to_f16(p.k[j]));
            assert_int_equal(pool[wrapped + j], 0);
        }
    }
    for (int i = 0; i < 2; i++)
        if (pools[i]) p.device->ops->mem_free(p.device, pools[i], pool_bytes);
    close_problem(&p);
    assert_int_equal(unsetenv("MTL_SIM_BUFFER_MAX"), 0);
    assert_int_equal(unsetenv("MTL_SIM_WORKING_SET"), 0);
    stand_in_reset();
}

/* ---- dispatches ---- */

static void check_counts(const char *variant, uint64_t n_dispatches, uint64_t n_barriers) {
    struct stand_in_counts before, after;
    struct problem p;
    open_problem(&p, variant);
    run_problem(&p); /* and whatever a first step may do */
    stand_in_counts(&before);
    run_problem(&p);
    stand_in_counts(&after);
    assert_int_equal(after.dispatches - before.dispatches, n_dispatches);
    assert_int_equal(after.barriers - before.barriers, n_barriers);
    assert_int_equal(stand_in_hazards(), 0);
    close_problem(&p);
}

static void test_the_trio_has_no_barrier_and_unfused_has_one(void **state) {
    (void)state;
    check_counts("metal", 3, 0);
    check_counts("metal_h1", 3, 0);
    check_counts("metal_one", 1, 0);
    check_counts("metal_unfused", 4, 1);
}

static void test_the_trio_is_chosen_and_can_be_switched_off(void **state) {
    static const char *const choices[] = {NULL, "rope_kv_store=unfused"};
    static const char *const names[] = {"rope_kv_store=kv_f32_rope_kv_store__metal ",
                                        "rope_kv_store=kv_f32_rope_kv_store__metal_unfused "};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct device *d =
            check_open_named(CHECK_METAL, choices[i], /*n_threads=*/1, RADISH_PRECISION_FAST);
        char kernels[2048];
        snprintf(kernels, sizeof kernels, "%s ", device_kernels(d));
        assert_non_null(strstr(kernels, names[i]));
        device_close(d);
    }
}

/* Whatever a grid is, a group has more than half of its threads, or all of the grid. */
static void test_groups_never_collapse(void **state) {
    (void)state;
    struct device *device =
        check_open_named(CHECK_METAL, NULL, /*n_threads=*/1, RADISH_PRECISION_FAST);
    const struct mtl_pipeline *pipeline =
        metal_pipeline((struct metal_device *)device, "v_to_pool_f32", NULL, 0, NULL, 0);
    assert_non_null(pipeline);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t grid[3], group[3];
        for (uint32_t j = 0; j < 3; j++)
            grid[j] = 1 + (uint32_t)rng_u64(check_seed(), 3 * i + j) % 300;
        metal_group(pipeline, grid, group);
        const uint32_t threads = group[0] * group[1] * group[2];
        assert_true(threads && threads <= METAL_GROUP_THREADS);
        assert_true(threads > METAL_GROUP_THREADS / 2 || threads == grid[0] * grid[1] * grid[2]);
        for (int j = 0; j < 3; j++) assert_true(group[j] <= grid[j]);
    }
    device_close(device);
}

enum { N_COMMON = 10, N_ROWS_MAX = 16 };

int main(void) {
    struct CMUnitTest tests[N_COMMON + N_ROWS_MAX] = {
        cmocka_unit_test(test_slots_that_are_none_write_nothing_and_q_is_turned_all_the_same),
        cmocka_unit_test(test_positions_past_the_table_read_its_last_row),
        cmocka_unit_test(test_a_layer_without_rotation_copies_k),
        cmocka_unit_test(test_a_layer_without_keys_of_its_own_turns_q_only),
        cmocka_unit_test(test_variants_agree),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_slots_are_found_beyond_4_billion_numbers),
        cmocka_unit_test(test_the_trio_has_no_barrier_and_unfused_has_one),
        cmocka_unit_test(test_the_trio_is_chosen_and_can_be_switched_off),
        cmocka_unit_test(test_groups_never_collapse),
    };
    uint32_t n_rows;
    size_t n_tests = N_COMMON;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_METAL, &n_rows);
    for (uint32_t i = 0; i < n_rows && n_tests < N_COMMON + N_ROWS_MAX; i++)
        if (rows[i].op == KERNEL_OP_ROPE_KV_STORE)
            tests[n_tests++] = (struct CMUnitTest){.name = rows[i].name,
                                                   .test_func = check_row,
                                                   .initial_state = (void *)(uintptr_t)&rows[i]};
    check_seed();
    return _cmocka_run_group_tests("metal rope", tests, n_tests, NULL, NULL);
}
