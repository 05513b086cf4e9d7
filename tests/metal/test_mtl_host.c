/* test_mtl_host.c - every call of mtl.h, on the stand-in for Metal: what it computes, what it says
 * when something is not to be had, and that it leaves no object, fault or hazard behind.
 *
 * The kernels are plain C (plain_kernels.h). Each test starts from a fresh count and ends by
 * asking for zero of everything, unless what it is about is being found out. */
#include "metal/metal_source.h"
#include "metal/mtl.h"
#include "plain_kernels.h"
#include "stand_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the build makes of the kernels; the second is there once, for the test of metallibs. */
const char metal_source[] = "kernel void mtl_probe() {}\n";
const unsigned char metal_library[] = "MTLB and so on";
const size_t metal_library_bytes = TEST_METALLIB_BYTES;

enum { N = 100 };

static struct mtl_device *device;
static struct radish_error err;

static void use_environment(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    stand_in_reset();
}

static int begin(void **state) {
    (void)state;
    stand_in_reset();
    return mtl_device_open(&device, &err) != RADISH_OK;
}

static int end(void **state) {
    (void)state;
    mtl_device_close(device);
    device = NULL;
    static const char *const names[] = {
        "MTL_SIM_DELAY_US", "MTL_SIM_FAIL",        "MTL_SIM_ALLOC_FAIL", "MTL_SIM_BEGIN_FAIL",
        "MTL_SIM_WITHOUT",  "MTL_SIM_THREADS_MAX", "MTL_SIM_BUFFER_MAX", "MTL_SIM_SIMD_WIDTH",
        "MTL_SIM_ORDER",    "MTL_SIM_COMPILE_FAIL"};
    const bool is_clean = !stand_in_faults() && !stand_in_hazards() && !stand_in_objects_alive();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    return !is_clean;
}

static struct mtl_buffer *make_buffer(size_t bytes) {
    struct mtl_buffer *b = NULL;
    assert_int_equal(mtl_buffer_create(device, bytes, &b, &err), RADISH_OK);
    return b;
}

static struct mtl_buffer *make_floats(float first) {
    struct mtl_buffer *b = make_buffer(N * sizeof(float));
    for (uint32_t i = 0; i < N; i++) ((float *)mtl_buffer_contents(b))[i] = first + (float)i;
    return b;
}

static float value_at(const struct mtl_buffer *b, uint32_t i) {
    return ((const float *)mtl_buffer_contents(b))[i];
}

static struct mtl_pipeline *make_pipeline(const char *kernel, float factor) {
    const struct mtl_constant constant = {PLAIN_FACTOR, MTL_CONSTANT_FLOAT, {.f = factor}};
    struct mtl_pipeline *p = NULL;
    const uint32_t n = strcmp(kernel, "plain_add") ? 0 : 1;
    assert_int_equal(mtl_pipeline_create(device, kernel, &constant, n, &p, &err), RADISH_OK);
    return p;
}

static void encode_add(struct mtl_commands *c, const struct mtl_pipeline *p, struct mtl_buffer *a,
                       struct mtl_buffer *b, struct mtl_buffer *out) {
    mtl_use(c, p);
    mtl_bind_bytes(c, 0, &(uint32_t){N}, sizeof(uint32_t));
    mtl_bind(c, 1, a, 0);
    mtl_bind(c, 2, b, 0);
    mtl_bind(c, 3, out, 0);
    mtl_dispatch_threads(c, (const uint32_t[3]){N, 1, 1}, (const uint32_t[3]){32, 1, 1});
}

static void commit(struct mtl_commands *c) {
    mtl_device_make_resident(device);
    mtl_commit(c);
}

static void assert_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* ---- device ---- */

static void device_says_what_it_has(void **state) {
    (void)state;
    const struct mtl_info *info = mtl_device_info(device);
    assert_string_equal(info->name, "stand-in for Metal on the CPU");
    assert_int_equal(info->working_set_bytes, 1u << 30);
    assert_int_equal(info->buffer_bytes_max, 768u << 20);
    assert_true(info->has_simd_matrices && info->has_bfloat && info->is_unified);
    assert_true(info->has_residency);
}

static void older_families_are_told_apart(void **state) {
    (void)state;
    mtl_device_close(device);
    use_environment("MTL_SIM_WITHOUT", "apple7,metal3");
    assert_int_equal(mtl_device_open(&device, &err), RADISH_OK);
    assert_false(mtl_device_info(device)->has_simd_matrices);
    assert_false(mtl_device_info(device)->has_bfloat);
}

static void library_comes_from_a_metallib_or_from_source(void **state) {
    (void)state;
    struct stand_in_counts counts;
    stand_in_counts(&counts);
    assert_int_equal(counts.libraries_data, metal_library_bytes >= 4);
    assert_int_equal(counts.libraries_source, metal_library_bytes < 4);
}

static void open_fails(const char *name, const char *value, enum radish_status status,
                       const char *text) {
    use_environment(name, value);
    struct mtl_device *other = (struct mtl_device *)&other;
    assert_int_equal(mtl_device_open(&other, &err), status);
    assert_null(other);
    assert_text(err.msg, text);
    assert_null(strchr(err.msg, '\n'));
    use_environment(name, NULL);
}

static void open_without_a_device_is_unsupported(void **state) {
    (void)state;
    open_fails("MTL_SIM_WITHOUT", "device", RADISH_E_UNSUPPORTED, "no Metal device");
}

static void open_without_a_queue_fails(void **state) {
    (void)state;
    open_fails("MTL_SIM_WITHOUT", "queue", RADISH_E_INTERNAL, "no command queue");
}

static void open_tells_what_the_compiler_says(void **state) {
    (void)state;
    if (metal_library_bytes >= 4) return;
    open_fails("MTL_SIM_COMPILE_FAIL", "1", RADISH_E_INTERNAL,
               "error: use of undeclared identifier   flot4 x;");
}

static void fast_math_is_off_where_there_is_no_math_mode(void **state) {
    (void)state;
    mtl_device_close(device);
    use_environment("MTL_SIM_WITHOUT", "mathmode");
    assert_int_equal(mtl_device_open(&device, &err), RADISH_OK);
}

/* ---- buffers ---- */

static void buffers_are_zeroed_and_shared(void **state) {
    (void)state;
    const size_t sizes[] = {1, 4096, 70001, 1u << 20};
    for (size_t k = 0; k < 4; k++) {
        struct mtl_buffer *b = make_buffer(sizes[k]);
        const unsigned char *data = mtl_buffer_contents(b);
        assert_int_equal(mtl_buffer_bytes(b), sizes[k]);
        for (size_t i = 0; i < sizes[k]; i++) assert_int_equal(data[i], 0);
        mtl_buffer_destroy(device, b);
    }
    mtl_buffer_destroy(device, NULL);
}

static void wrapped_memory_is_used_where_it_is(void **state) {
    (void)state;
    float *host = aligned_alloc(MTL_PAGE_BYTES, MTL_PAGE_BYTES);
    assert_non_null(host);
    for (uint32_t i = 0; i < N; i++) host[i] = 3.0f;
    struct mtl_buffer *a = NULL, *out = make_floats(0);
    assert_int_equal(mtl_buffer_wrap(device, host, MTL_PAGE_BYTES, &a, &err), RADISH_OK);
    assert_ptr_equal(mtl_buffer_contents(a), host);
    struct mtl_pipeline *p = make_pipeline("plain_add", 2);
    struct mtl_commands *c = mtl_commands_begin(device);
    encode_add(c, p, a, a, out);
    commit(c);
    assert_int_equal(mtl_commands_wait(c, NULL, &err), RADISH_OK);
    assert_float_equal(value_at(out, N - 1), 9.0f, 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, out);
    free(host);
}

static void memory_off_the_page_is_not_wrapped(void **state) {
    (void)state;
    char *host = aligned_alloc(MTL_PAGE_BYTES, 2 * MTL_PAGE_BYTES);
    struct mtl_buffer *b = (struct mtl_buffer *)&b;
    assert_int_equal(mtl_buffer_wrap(device, host + 4096, MTL_PAGE_BYTES, &b, &err),
                     RADISH_E_INTERNAL);
    assert_null(b);
    assert_int_equal(mtl_buffer_wrap(device, host, 4096, &b, &err), RADISH_E_INTERNAL);
    assert_int_equal(mtl_buffer_wrap(device, host, 0, &b, &err), RADISH_E_INTERNAL);
    assert_text(err.msg, "multiples of 16384");
    free(host);
}

static void buffers_that_are_not_to_be_had_are_nomem(void **state) {
    (void)state;
    struct mtl_buffer *b = (struct mtl_buffer *)&b;
    use_environment("MTL_SIM_BUFFER_MAX", "65536");
    assert_int_equal(mtl_buffer_create(device, 65537, &b, &err), RADISH_E_NOMEM);
    assert_null(b);
    assert_text(err.msg, "65537 bytes");
    use_environment("MTL_SIM_ALLOC_FAIL", "2");
    b = make_buffer(64);
    struct mtl_buffer *second = NULL;
    assert_int_equal(mtl_buffer_create(device, 64, &second, &err), RADISH_E_NOMEM);
    mtl_buffer_destroy(device, b);
}

static void buffers_are_resident_from_make_resident_on(void **state) {
    (void)state;
    struct stand_in_counts counts;
    struct mtl_buffer *a = make_buffer(1000), *b = make_buffer(500);
    stand_in_counts(&counts);
    assert_int_equal(counts.resident_bytes, 0);

    mtl_device_make_resident(device);
    mtl_device_make_resident(device);

    stand_in_counts(&counts);
    assert_int_equal(counts.resident_bytes, 1500);
    assert_int_equal(counts.residency_requests, 1);
    mtl_buffer_destroy(device, a);
    stand_in_counts(&counts);
    assert_int_equal(counts.resident_bytes, 500);
    mtl_buffer_destroy(device, b);
}

static void all_works_without_residency_sets(void **state) {
    (void)state;
    mtl_device_close(device);
    use_environment("MTL_SIM_WITHOUT", "residency");
    assert_int_equal(mtl_device_open(&device, &err), RADISH_OK);
    assert_false(mtl_device_info(device)->has_residency);
    struct mtl_buffer *a = make_buffer(1000);
    mtl_device_make_resident(device);
    mtl_buffer_destroy(device, a);
}

/* ---- pipelines ---- */

static void pipeline_fails(const char *kernel, const struct mtl_constant *constants, uint32_t n,
                           const char *text) {
    struct mtl_pipeline *p = (struct mtl_pipeline *)&p;
    assert_int_equal(mtl_pipeline_create(device, kernel, constants, n, &p, &err),
                     RADISH_E_INTERNAL);
    assert_null(p);
    assert_text(err.msg, text);
    assert_text(err.msg, kernel);
}

static void pipelines_that_cannot_be_made_say_why(void **state) {
    (void)state;
    const struct mtl_constant wrong = {PLAIN_FACTOR, MTL_CONSTANT_UINT, {.u = 2}};
    const struct mtl_constant right = {PLAIN_FACTOR, MTL_CONSTANT_FLOAT, {.f = 2}};
    pipeline_fails("no_such_kernel", NULL, 0, "was not found in the library");
    pipeline_fails("plain_add", &wrong, 1, "another type");
    pipeline_fails("plain_add", NULL, 0, "has no value");
    use_environment("MTL_SIM_SIMD_WIDTH", "16");
    pipeline_fails("plain_add", &right, 1, "SIMD-groups of 16 threads");
}

static void pipelines_know_their_limits(void **state) {
    (void)state;
    struct mtl_pipeline *p = make_pipeline("plain_sum", 0);
    assert_int_equal(mtl_pipeline_threads_max(p), 256);
    assert_int_equal(mtl_pipeline_shared_bytes(p), 64);
    mtl_pipeline_destroy(p);
    mtl_pipeline_destroy(NULL);
}

static void constants_reach_the_kernel_with_their_types(void **state) {
    (void)state;
    const struct mtl_constant constants[] = {{PLAIN_NEGATE, MTL_CONSTANT_BOOL, {.b = true}},
                                             {PLAIN_FACTOR, MTL_CONSTANT_FLOAT, {.f = 0.5f}}};
    struct mtl_pipeline *p = NULL;
    assert_int_equal(mtl_pipeline_create(device, "plain_add", constants, 2, &p, &err), RADISH_OK);
    struct mtl_buffer *a = make_floats(1), *b = make_floats(10), *out = make_floats(0);
    struct mtl_commands *c = mtl_commands_begin(device);
    encode_add(c, p, a, b, out);
    commit(c);
    assert_int_equal(mtl_commands_wait(c, NULL, &err), RADISH_OK);
    assert_float_equal(value_at(out, 0), -6.0f, 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, b);
    mtl_buffer_destroy(device, out);
}

/* ---- commands ---- */

static void a_barrier_orders_what_runs_last_first(void **state) {
    (void)state;
    struct mtl_pipeline *p = make_pipeline("plain_add", 1);
    struct mtl_buffer *a = make_floats(1), *b = make_floats(2), *out = make_floats(0);
    struct mtl_commands *c = mtl_commands_begin(device);
    encode_add(c, p, a, a, b); /* b = 2a */
    mtl_barrier(c);
    encode_add(c, p, b, b, out); /* out = 4a */
    commit(c);
    double seconds = -1;
    assert_int_equal(mtl_commands_wait(c, &seconds, &err), RADISH_OK);
    assert_true(seconds >= 0 && seconds < 60);
    for (uint32_t i = 0; i < N; i++) assert_float_equal(value_at(out, i), 4.0f * (float)(i + 1), 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, b);
    mtl_buffer_destroy(device, out);
}

static void groups_have_shared_memory_of_whole_sixteens(void **state) {
    (void)state;
    struct mtl_pipeline *p = make_pipeline("plain_sum", 0);
    struct mtl_buffer *a = make_floats(0), *out = make_floats(0);
    struct mtl_commands *c = mtl_commands_begin(device);
    mtl_use(c, p);
    mtl_bind(c, 0, a, 40);
    mtl_bind(c, 1, out, 8);
    mtl_bind_shared(c, 0, 5 * sizeof(float));
    mtl_dispatch_groups(c, (const uint32_t[3]){2, 1, 1}, (const uint32_t[3]){5, 1, 1});
    commit(c);
    assert_int_equal(mtl_commands_wait(c, NULL, &err), RADISH_OK);
    assert_float_equal(value_at(out, 2), 10 + 11 + 12 + 13 + 14, 0);
    assert_float_equal(value_at(out, 3), 15 + 16 + 17 + 18 + 19, 0);
    assert_float_equal(value_at(out, 4), 4, 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, out);
}

static void commands_in_flight_are_ordered_by_the_fence(void **state) {
    (void)state;
    enum { DEPTH = 4, ROUNDS = 20 };
    use_environment("MTL_SIM_DELAY_US", "300");
    struct mtl_pipeline *p = make_pipeline("plain_add", 1);
    struct mtl_buffer *a = make_floats(1), *one = make_floats(0);
    for (uint32_t i = 0; i < N; i++) ((float *)mtl_buffer_contents(one))[i] = 1;
    struct mtl_commands *flying[DEPTH] = {NULL};
    for (uint32_t k = 0; k < ROUNDS + DEPTH; k++) {
        struct mtl_commands **slot = &flying[k % DEPTH];
        if (*slot) assert_int_equal(mtl_commands_wait(*slot, NULL, &err), RADISH_OK);
        *slot = k < ROUNDS ? mtl_commands_begin(device) : NULL;
        if (!*slot) continue;
        encode_add(*slot, p, a, one, a); /* a += 1 */
        commit(*slot);
    }
    assert_float_equal(value_at(a, 7), (float)(8 + ROUNDS), 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, one);
}

static void a_thousand_commands_leave_nothing_behind(void **state) {
    (void)state;
    struct mtl_pipeline *p = make_pipeline("plain_add", 1);
    struct mtl_buffer *a = make_floats(1), *out = make_floats(0);
    const long n_before = stand_in_objects_alive();
    for (uint32_t k = 0; k < 1000; k++) {
        struct mtl_commands *c = mtl_commands_begin(device);
        encode_add(c, p, a, a, out);
        commit(c);
        assert_int_equal(mtl_commands_wait(c, NULL, &err), RADISH_OK);
    }
    assert_int_equal(stand_in_objects_alive(), n_before);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, out);
}

static enum radish_status run_once(struct mtl_pipeline *p, struct mtl_buffer *a,
                                   struct mtl_buffer *out) {
    struct mtl_commands *c = mtl_commands_begin(device);
    encode_add(c, p, a, a, out);
    commit(c);
    return mtl_commands_wait(c, NULL, &err);
}

static void what_smaller_pieces_may_cure_is_again(void **state) {
    (void)state;
    const struct {
        const char *fail;
        enum radish_status status;
        const char *text;
    } cases[] = {{"1:2", RADISH_AGAIN, "Timeout"},
                 {"1:8", RADISH_AGAIN, "Insufficient Memory"},
                 {"1:14", RADISH_AGAIN, "Impacting Interactivity"},
                 {"1:1", RADISH_E_INTERNAL, "Internal Error"}};
    struct mtl_pipeline *p = make_pipeline("plain_add", 1);
    struct mtl_buffer *a = make_floats(1), *out = make_floats(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        use_environment("MTL_SIM_FAIL", cases[i].fail);
        assert_int_equal(run_once(p, a, out), cases[i].status);
        assert_text(err.msg, cases[i].text);
        assert_int_equal(err.status, cases[i].status);
        assert_int_equal(run_once(p, a, out), RADISH_OK);
    }
    assert_float_equal(value_at(out, 3), 8, 0);
    mtl_pipeline_destroy(p);
    mtl_buffer_destroy(device, a);
    mtl_buffer_destroy(device, out);
}

static void commands_that_are_not_to_be_had_are_null(void **state) {
    (void)state;
    use_environment("MTL_SIM_BEGIN_FAIL", "1");
    assert_null(mtl_commands_begin(device));
    struct mtl_commands *c = mtl_commands_begin(device);
    assert_non_null(c);
    commit(c);
    assert_int_equal(mtl_commands_wait(c, NULL, &err), RADISH_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(device_says_what_it_has),
        TEST(older_families_are_told_apart),
        TEST(library_comes_from_a_metallib_or_from_source),
        TEST(open_without_a_device_is_unsupported),
        TEST(open_without_a_queue_fails),
        TEST(open_tells_what_the_compiler_says),
        TEST(fast_math_is_off_where_there_is_no_math_mode),
        TEST(buffers_are_zeroed_and_shared),
        TEST(wrapped_memory_is_used_where_it_is),
        TEST(memory_off_the_page_is_not_wrapped),
        TEST(buffers_that_are_not_to_be_had_are_nomem),
        TEST(buffers_are_resident_from_make_resident_on),
        TEST(all_works_without_residency_sets),
        TEST(pipelines_that_cannot_be_made_say_why),
        TEST(pipelines_know_their_limits),
        TEST(constants_reach_the_kernel_with_their_types),
        TEST(a_barrier_orders_what_runs_last_first),
        TEST(groups_have_shared_memory_of_whole_sixteens),
        TEST(commands_in_flight_are_ordered_by_the_fence),
        TEST(a_thousand_commands_leave_nothing_behind),
        TEST(what_smaller_pieces_may_cure_is_again),
        TEST(commands_that_are_not_to_be_had_are_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
