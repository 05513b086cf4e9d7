/* test_msl_shim.c - what kernels on the CPU are promised, each by a kernel of selftest.metal.
 *
 * The tests of radish's own kernels rest on this: that a wrong barrier, a constant without a value,
 * a wrong index or a missing binding is found, and that what is right gives the same in every order
 * of the threads. */
#include "test.h"

#include "msl_rt.h"

#include <math.h>

enum { WIDTH = 9000, TWICE = 9001, BIAS = 9002, MAYBE = 9003 };

struct args {
    uint32_t n;
    float scale;
};

static const char *const orders[] = {"forward", "reverse", "shuffle:1", "shuffle:99"};
#define N_ORDERS (sizeof orders / sizeof *orders)

static struct msl_run run_of(const char *kernel, uint32_t threads, uint32_t group) {
    struct msl_run run = {.kernel = msl_kernel_find(kernel),
                          .is_by_threads = true,
                          .grid = {threads, 1, 1},
                          .group = {group, 1, 1}};
    assert_non_null(run.kernel);
    return run;
}

static void must_run(const struct msl_run *run) {
    char fault[256] = "";
    if (!msl_run(run, fault, sizeof fault)) fail_msg("%s", fault);
}

static void must_fail(const struct msl_run *run, const char *with) {
    char fault[256] = "";
    unsigned before = msl_faults();
    assert_false(msl_run(run, fault, sizeof fault));
    assert_int_equal(msl_faults(), before + 1);
    if (!strstr(fault, with)) fail_msg("'%s' does not have '%s'", fault, with);
}

static uint16_t to_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t b) {
    uint32_t u = (uint32_t)b << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static void a_kernel_has_bindings_a_limit_and_a_place(void **state) {
    (void)state;
    const struct msl_kernel *k = msl_kernel_find("selftest_atomic");
    assert_non_null(k);
    assert_int_equal(k->threads_max, 128);
    assert_int_equal(k->n_bindings, 3);
    assert_int_equal(k->bindings[1].kind, MSL_BINDING_BUFFER);
    assert_int_equal(k->bindings[1].index, 1);
    assert_string_equal(k->bindings[1].name, "counts");
    assert_true(k->bindings[0].is_read_only);
    assert_false(k->bindings[1].is_read_only);
    assert_true(k->bindings[2].is_reference);
    assert_non_null(strstr(k->file, "selftest.metal"));
    assert_int_equal(msl_kernel_find("selftest_vector")->bindings[1].align, 16);
    assert_int_equal(msl_kernel_find("selftest_vector")->bindings[0].align, 8);
    assert_non_null(msl_kernel_find("selftest_scale_f16"));
    assert_null(msl_kernel_find("selftest_scale"));
    assert_true(msl_kernel_count() > 8);
}

static void types_round_as_they_should(void **state) {
    (void)state;
    enum { N = 37 };
    static const float table[4] = {1.0f, 2.5f, -3.0f, 5.0f};
    float x[N], y[N];
    uint16_t bx[N], by[N];
    struct args args = {N, 0.7f};
    for (int i = 0; i < N; i++) {
        bx[i] = to_bf16((float)i * 0.37f - 5.0f);
        x[i] = from_bf16(bx[i]);
    }
    struct msl_constant twice = {TWICE, MSL_TYPE_BOOL, {.b = true}};
    struct msl_run run = run_of("selftest_scale_f32", 64, 32);
    run.constants = &twice;
    run.n_constants = 1;
    run.buffers[0] = &args;
    run.buffers[1] = x;
    run.buffers[2] = y;
    must_run(&run);
    run.kernel = msl_kernel_find("selftest_scale_bf16");
    run.buffers[1] = bx;
    run.buffers[2] = by;
    must_run(&run);
    for (int i = 0; i < N; i++) {
        float expected = 2.0f * x[i];
        expected = expected * 0.7f;
        expected = expected + table[i % 4];
        assert_float_equal(y[i], expected, 1e-5f);
        assert_int_equal(by[i], to_bf16(y[i]));
    }
}

static void pipelines_of_one_kernel_keep_their_own_constants(void **state) {
    (void)state;
    float out[4];
    for (uint32_t width = 2; width < 100; width += 31) {
        struct msl_constant c[4] = {{WIDTH, MSL_TYPE_UINT, {.u = width}},
                                    {BIAS, MSL_TYPE_FLOAT, {.f = 0.5f}},
                                    {MAYBE, MSL_TYPE_UINT, {.u = 3}}};
        struct msl_run run = run_of("selftest_constants", 4, 4);
        run.constants = c;
        run.n_constants = width == 2 ? 2 : 3;
        run.buffers[0] = out;
        must_run(&run);
        assert_float_equal(out[0], (float)width, 0);
        assert_float_equal(out[1], (float)(width / 2), 0);
        assert_float_equal(out[2], 0.5f, 0);
        assert_float_equal(out[3], width == 2 ? 7.0f : 3.0f, 0);
    }
}

static void a_constant_without_a_value_or_of_another_type_is_refused(void **state) {
    (void)state;
    char reason[256] = "";
    const struct msl_kernel *k = msl_kernel_find("selftest_constants");
    struct msl_constant c[2] = {{WIDTH, MSL_TYPE_UINT, {.u = 4}}, {BIAS, MSL_TYPE_FLOAT, {.f = 1}}};
    assert_true(msl_kernel_check(k, c, 2, reason, sizeof reason));
    assert_false(msl_kernel_check(k, c, 1, reason, sizeof reason));
    assert_non_null(strstr(reason, "SELFTEST_BIAS"));
    c[1].type = MSL_TYPE_UINT;
    assert_false(msl_kernel_check(k, c, 2, reason, sizeof reason));
    assert_non_null(strstr(reason, "another type"));
    c[1] = (struct msl_constant){4242, MSL_TYPE_UINT, {.u = 4}};
    assert_false(msl_kernel_check(k, c, 2, reason, sizeof reason));
    assert_non_null(strstr(reason, "no function constant 4242"));
    /* Reached through a function, not by the kernel itself. */
    assert_false(
        msl_kernel_check(msl_kernel_find("selftest_scale_f32"), NULL, 0, reason, sizeof reason));
    assert_non_null(strstr(reason, "SELFTEST_TWICE"));
}

static void threads_know_where_they_are_at_ragged_edges(void **state) {
    (void)state;
    enum { X = 13, Y = 5, Z = 3 };
    static uint32_t out[X * Y * Z * 12];
    struct msl_run run = run_of("selftest_places", 1, 1);
    uint32_t grid[3] = {X, Y, Z}, group[3] = {8, 4, 2};
    memcpy(run.grid, grid, sizeof grid);
    memcpy(run.group, group, sizeof group);
    run.buffers[0] = out;
    for (size_t o = 0; o < N_ORDERS; o++) {
        memset(out, 0xff, sizeof out);
        setenv("MSL_ORDER", orders[o], 1);
        must_run(&run);
        for (uint32_t i = 0; i < X * Y * Z; i++) {
            uint32_t p[3] = {i % X, i / X % Y, i / X / Y}, size[3];
            const uint32_t *at = out + i * 12;
            for (int d = 0; d < 3; d++) {
                uint32_t left = grid[d] - p[d] / group[d] * group[d];
                size[d] = left < group[d] ? left : group[d];
                assert_int_equal(at[d], p[d] % group[d]);
                assert_int_equal(at[3 + d], p[d] / group[d]);
                assert_int_equal(at[6 + d], size[d]);
            }
            uint32_t index = at[0] + size[0] * (at[1] + size[1] * at[2]);
            assert_int_equal(at[11], index);
            assert_int_equal(at[9], index % 32);
            assert_int_equal(at[10], index / 32);
        }
    }
    unsetenv("MSL_ORDER");
}

static void check_simd(const float *x, const float *o, uint32_t n, uint32_t lane) {
    float sum = 0, max = -INFINITY, min = INFINITY, prefix = 0;
    uint32_t votes = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += x[i];
        max = fmaxf(max, x[i]);
        min = fminf(min, x[i]);
        if (i < lane) prefix += x[i];
        votes += i % 3 == 0;
    }
    assert_float_equal(o[0], sum, 1e-3f);
    assert_float_equal(o[1], max, 0);
    assert_float_equal(o[2], min, 0);
    if ((lane ^ 5) < n)
        assert_float_equal(o[3], x[lane ^ 5], 0);
    else
        assert_true(isnan(o[3])); /* nobody is there */
    if (lane + 3 >= 32)
        assert_float_equal(o[4], x[lane], 0);
    else if (lane + 3 < n)
        assert_float_equal(o[4], x[lane + 3], 0);
    else
        assert_true(isnan(o[4]));
    assert_float_equal(o[5], lane < 2 ? x[lane] : x[lane - 2], 0);
    assert_float_equal(o[6], prefix, 1e-3f);
    assert_float_equal(o[7], (float)votes, 0);
}

static void functions_of_a_simd_group_see_the_threads_that_are_there(void **state) {
    (void)state;
    enum { N = 77 }; /* two whole SIMD-groups and thirteen threads of a third */
    float x[N], out[N * 8], first[N * 8];
    for (int i = 0; i < N; i++) x[i] = (float)((i * 37) % 101) * 0.25f - 7.0f;
    struct msl_run run = run_of("selftest_simd", N, 128);
    run.buffers[0] = x;
    run.buffers[1] = out;
    for (size_t o = 0; o < N_ORDERS; o++) {
        setenv("MSL_ORDER", orders[o], 1);
        must_run(&run);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t from = i / 32 * 32, n = N - from < 32 ? N - from : 32;
            check_simd(x + from, out + i * 8, n, i % 32);
        }
        if (!o) memcpy(first, out, sizeof out);
        assert_memory_equal(first, out, sizeof out);
    }
    unsetenv("MSL_ORDER");
}

static void the_two_ways_of_a_branch_join(void **state) {
    (void)state;
    float out[64], expected = 0;
    for (int i = 0; i < 32; i++) expected += i % 2 ? 256.0f : (float)i; /* odd lanes sum to 256 */
    struct msl_run run = run_of("selftest_diverge", 64, 64);
    run.buffers[0] = out;
    for (size_t o = 0; o < N_ORDERS; o++) {
        setenv("MSL_ORDER", orders[o], 1);
        must_run(&run);
        for (int i = 0; i < 64; i++) assert_float_equal(out[i], expected, 0);
    }
    unsetenv("MSL_ORDER");
}

static void run_neighbours(const char *kernel, float *x, float *out) {
    struct msl_run run = run_of(kernel, 256, 128);
    for (int i = 0; i < 256; i++) {
        x[i] = (float)i + 0.5f;
        out[i] = 0;
    }
    run.buffers[0] = x;
    run.buffers[1] = out;
    run.shared_bytes[0] = 128 * sizeof(float);
    must_run(&run);
}

static size_t count_wrong(const float *x, const float *out) {
    size_t n = 0;
    for (int i = 0; i < 256; i++) n += !(out[i] == x[i / 128 * 128 + (i % 128 + 33) % 128]);
    return n;
}

static void a_barrier_holds_and_one_that_is_missing_shows(void **state) {
    (void)state;
    float x[256], out[256];
    for (size_t o = 0; o < N_ORDERS; o++) {
        setenv("MSL_ORDER", orders[o], 1);
        run_neighbours("selftest_barrier", x, out);
        assert_int_equal(count_wrong(x, out), 0);
        if (getenv("MSL_TRACED")) continue;
        run_neighbours("selftest_race", x, out);
        assert_true(count_wrong(x, out) > 0);
    }
    unsetenv("MSL_ORDER");
    assert_int_equal(msl_kernel_shared_bytes(msl_kernel_find("selftest_barrier")), 512);
}

/* The variant `traced` knows each access: what no barrier orders is a fault in every order. */
static void accesses_that_no_barrier_orders_are_faults_where_they_are_traced(void **state) {
    (void)state;
    float x[64] = {0}, out[64];
    if (!getenv("MSL_TRACED")) skip();
    for (size_t o = 0; o < N_ORDERS; o++) {
        setenv("MSL_ORDER", orders[o], 1);
        struct msl_run run = run_of("selftest_race", 64, 64);
        run.buffers[0] = x;
        run.buffers[1] = out;
        run.shared_bytes[0] = sizeof x;
        must_fail(&run, "a race: thread");
        run.kernel = msl_kernel_find("selftest_simd_race");
        must_fail(&run, "a race: thread");
        run.kernel = msl_kernel_find("selftest_simd_ordered");
        must_run(&run);
    }
    unsetenv("MSL_ORDER");
}

static void a_barrier_that_some_do_not_reach_is_a_fault(void **state) {
    (void)state;
    float out[96];
    struct msl_run run = run_of("selftest_early", 96, 96);
    run.buffers[0] = out;
    must_fail(&run, "reached by 95 of 96 threads (1 have ended)");
    must_fail(&run, "selftest.metal:");
}

static void check_matrix(const char *kernel, const void *a, const float *fa, float *b,
                         uint32_t is_transposed) {
    float out[128];
    struct msl_run run = run_of(kernel, 64, 32);
    run.buffers[0] = (void *)(uintptr_t)a;
    run.buffers[1] = b;
    run.buffers[2] = out;
    run.buffers[3] = &is_transposed;
    must_run(&run);
    for (int m = 0; m < 2; m++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++) {
                double sum = 0;
                for (int k = 0; k < 8; k++)
                    sum += (double)fa[m * 64 + r * 8 + k] *
                           (double)b[m * 64 + (is_transposed ? c * 8 + k : k * 8 + c)];
                /* Element 0 of each thread has a quarter more: even columns. */
                sum += c % 2 == 0 ? 0.25 : 0;
                assert_float_equal(out[m * 64 + r * 8 + c], (float)sum, 1e-4f);
            }
}

static void matrices_multiply_whatever_their_types(void **state) {
    (void)state;
    float a[128], b[128];
    uint16_t half_a[128], b_a[128];
    static const uint16_t halves[4] = {0x3c00, 0xc000, 0x3800, 0x4200}; /* 1 -2 0.5 3 */
    static const float half_values[4] = {1, -2, 0.5f, 3};
    for (int i = 0; i < 128; i++) {
        b_a[i] = to_bf16((float)(i % 19) * 0.3f - 2.0f);
        a[i] = from_bf16(b_a[i]);
        b[i] = (float)(i % 23) * 0.11f - 1.0f;
    }
    for (uint32_t t = 0; t < 2; t++) {
        check_matrix("selftest_matrix_f32", a, a, b, t);
        check_matrix("selftest_matrix_bf16", b_a, a, b, t);
    }
    for (int i = 0; i < 128; i++) {
        half_a[i] = halves[i * 7 % 4];
        a[i] = half_values[i * 7 % 4];
    }
    check_matrix("selftest_matrix_f16", half_a, a, b, 0);
}

static void a_matrix_needs_a_whole_simd_group(void **state) {
    (void)state;
    float a[64] = {0}, b[64] = {0}, out[64];
    uint32_t is_transposed = 0;
    struct msl_run run = run_of("selftest_matrix_f32", 24, 24);
    run.buffers[0] = a;
    run.buffers[1] = b;
    run.buffers[2] = out;
    run.buffers[3] = &is_transposed;
    must_fail(&run, "reached by 24 of 32 threads");
}

static void atomics_lose_nothing_over_os_threads(void **state) {
    (void)state;
    enum { N = 5000 };
    static uint32_t x[N];
    uint32_t expected[16] = {0}, largest = 0, smallest = UINT32_MAX, n = N;
    for (uint32_t i = 0; i < N; i++) {
        x[i] = i * 2654435761u >> 7;
        expected[x[i] % 16]++;
        largest = x[i] > largest ? x[i] : largest;
        smallest = x[i] < smallest ? x[i] : smallest;
    }
    for (size_t o = 0; o < N_ORDERS; o++) {
        uint32_t counts[18] = {0};
        counts[17] = UINT32_MAX;
        struct msl_run run = run_of("selftest_atomic", N, 96);
        run.buffers[0] = x;
        run.buffers[1] = counts;
        run.buffers[2] = &n;
        setenv("MSL_ORDER", orders[o], 1);
        must_run(&run);
        assert_memory_equal(counts, expected, sizeof expected);
        assert_int_equal(counts[16], largest);
        assert_int_equal(counts[17], smallest);
    }
    unsetenv("MSL_ORDER");
}

static void vectors_convert_and_swizzle(void **state) {
    (void)state;
    _Alignas(16) float out[8];
    /* Halves 1 -2 0.5 3 and 3 0.5 -2 1. */
    _Alignas(8) uint16_t x[8] = {0x3c00, 0xc000, 0x3800, 0x4200, 0x4200, 0x3800, 0xc000, 0x3c00};
    static const float v[8] = {1, -2, 0.5f, 3, 3, 0.5f, -2, 1};
    struct msl_run run = run_of("selftest_vector", 2, 2);
    run.buffers[0] = x;
    run.buffers[1] = out;
    must_run(&run);
    for (int i = 0; i < 8; i++) {
        float other = v[i / 4 * 4 + (i % 4 + 2) % 4] + 1;
        assert_float_equal(out[i], v[i] * other + 2 + v[i], 1e-6f);
    }
}

static void denormals_live_or_become_zero(void **state) {
    (void)state;
    float x[2] = {1.5e-38f, 4e-39f}, out[2];
    struct msl_run run = run_of("selftest_denormal", 2, 2);
    run.buffers[0] = x;
    run.buffers[1] = out;
    must_run(&run);
    assert_true(out[0] > 7e-39f && out[1] > 1.9e-39f);
    setenv("MSL_FLUSH", "1", 1);
    must_run(&run);
    unsetenv("MSL_FLUSH");
    assert_true(out[0] == 0.0f && out[1] == 0.0f);
    volatile float mine = x[1];
    assert_true(mine * 0.5f > 0.0f); /* the caller's mode is what it was */
}

static void what_the_host_binds_wrong_is_a_fault(void **state) {
    (void)state;
    _Alignas(16) float out[12];
    _Alignas(8) uint16_t x[8] = {0};
    struct msl_run run = run_of("selftest_vector", 1, 1);
    run.buffers[0] = x;
    must_fail(&run, "buffer 1 (out) is not bound");
    run.buffers[1] = out + 1;
    must_fail(&run, "not aligned to 16");
    run.buffers[1] = out;
    run.group[0] = 1025;
    must_fail(&run, "1025 threads");
    run.group[0] = 1;
    run.grid[1] = 0;
    must_fail(&run, "an empty grid");
    run = run_of("selftest_barrier", 32, 32);
    run.buffers[0] = out;
    run.buffers[1] = out;
    must_fail(&run, "threadgroup memory 0 (shared) is not bound");
    run.shared_bytes[0] = MSL_SHARED_MAX + 16;
    must_fail(&run, "bytes of threadgroup memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_has_bindings_a_limit_and_a_place),
        cmocka_unit_test(types_round_as_they_should),
        cmocka_unit_test(pipelines_of_one_kernel_keep_their_own_constants),
        cmocka_unit_test(a_constant_without_a_value_or_of_another_type_is_refused),
        cmocka_unit_test(threads_know_where_they_are_at_ragged_edges),
        cmocka_unit_test(functions_of_a_simd_group_see_the_threads_that_are_there),
        cmocka_unit_test(the_two_ways_of_a_branch_join),
        cmocka_unit_test(a_barrier_holds_and_one_that_is_missing_shows),
        cmocka_unit_test(accesses_that_no_barrier_orders_are_faults_where_they_are_traced),
        cmocka_unit_test(a_barrier_that_some_do_not_reach_is_a_fault),
        cmocka_unit_test(matrices_multiply_whatever_their_types),
        cmocka_unit_test(a_matrix_needs_a_whole_simd_group),
        cmocka_unit_test(atomics_lose_nothing_over_os_threads),
        cmocka_unit_test(vectors_convert_and_swizzle),
        cmocka_unit_test(denormals_live_or_become_zero),
        cmocka_unit_test(what_the_host_binds_wrong_is_a_fault),
    };
    unsetenv("MSL_ORDER");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
