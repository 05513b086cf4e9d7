/* test_mtl_stand_in.c - does the stand-in find what it is there to find?
 *
 * Every wrong use of Metal that it knows is done here once, by messages of its own and around
 * mtl_objc.c, which does none of them; the fault or hazard must have the right name. Where wrong
 * use ends well nevertheless (a dispatch that runs as one would wish), the test says so. */
#include "mtl_send.h"
#include "plain_kernels.h"
#include "stand_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SHARED_UNTRACKED = 256, CONCURRENT = 1, SCOPE_BUFFERS = 1, PAGE = 16384, N = 64 };

static id device, queue, library, commands, encoder;
static void *pool;

static id text(const char *of) {
    return SEND(string_make, objc_getClass("NSString"), of);
}

static id make_library(bool is_fast, NSUInteger version) {
    id error = NULL;
    const id options = SEND(object_new, objc_getClass("MTLCompileOptions"));
    SEND(options_fast_math, options, is_fast);
    SEND(options_language_version, options, version);
    const id made = SEND(device_library_of_source, device, text("source"), options, &error);
    SEND(object_release, options);
    return made;
}

static void begin_commands(void) {
    commands = SEND(queue_commands, queue);
    encoder = SEND(commands_encoder, commands, CONCURRENT);
}

static int begin(void **state) {
    (void)state;
    stand_in_reset();
    pool = objc_autoreleasePoolPush();
    device = MTLCreateSystemDefaultDevice();
    queue = SEND(device_queue, device);
    library = make_library(false, (3 << 16) + 1);
    begin_commands();
    return 0;
}

static void finish(id c, id e) {
    SEND(encoder_end, e);
    SEND(commands_commit, c);
    SEND(commands_wait, c);
}

/* Each test ends its encoder; what it did wrong is looked at before. */
static int end(void **state) {
    (void)state;
    objc_autoreleasePoolPop(pool);
    SEND(object_release, library);
    SEND(object_release, queue);
    SEND(object_release, device);
    const long n_alive = stand_in_objects_alive();
    stand_in_reset();
    return n_alive != 0;
}

static id make_buffer(NSUInteger bytes) {
    return SEND(device_buffer, device, bytes, SHARED_UNTRACKED);
}

static id make_pipeline(const char *kernel) {
    id error = NULL;
    const float factor = 1;
    const id values = SEND(object_new, objc_getClass("MTLFunctionConstantValues"));
    if (!strcmp(kernel, "plain_add")) SEND(constants_set, values, &factor, 3, PLAIN_FACTOR);
    const id function = SEND(library_function, library, text(kernel), values, &error);
    const id pipeline = SEND(device_pipeline, device, function, &error);
    SEND(object_release, function);
    SEND(object_release, values);
    return pipeline;
}

static void dispatch(id e, NSUInteger n, NSUInteger group) {
    SEND(encoder_dispatch_threads, e, (struct mtl_size){n, 1, 1}, (struct mtl_size){group, 1, 1});
}

static void encode_copy(id e, id pipeline, id from, NSUInteger from_offset, id to,
                        NSUInteger to_offset) {
    SEND(encoder_pipeline, e, pipeline);
    SEND(encoder_bytes, e, &(uint32_t){N}, sizeof(uint32_t), 0);
    SEND(encoder_buffer, e, from, from_offset, 1);
    SEND(encoder_buffer, e, to, to_offset, 2);
    dispatch(e, N, 32);
}

static void assert_fault(const char *part) {
    if (stand_in_has_fault(part)) return;
    fail_msg("no fault says \"%s\"; there are %u, the first: %s", part, stand_in_faults(),
             stand_in_fault(0));
}

static void assert_clean(void) {
    assert_int_equal(stand_in_faults(), 0);
    assert_int_equal(stand_in_hazards(), 0);
}

/* ---- memory ---- */

static void unaligned_memory_is_found(void **state) {
    (void)state;
    char *host = aligned_alloc(PAGE, 2 * PAGE);
    assert_null(SEND(device_buffer_no_copy, device, host + 64, PAGE, SHARED_UNTRACKED, NULL));
    assert_fault("multiples of the 16 KiB page");
    assert_null(SEND(device_buffer_no_copy, device, host, PAGE + 64, SHARED_UNTRACKED, NULL));
    assert_int_equal(stand_in_faults(), 2);
    free(host);
    finish(commands, encoder);
}

static void tracked_buffers_are_found(void **state) {
    (void)state;
    SEND(object_release, SEND(device_buffer, device, 64, 0));
    assert_fault("neither shared nor untracked");
    finish(commands, encoder);
}

static void a_message_to_the_released_is_found(void **state) {
    (void)state;
    const id buffer = make_buffer(64);
    SEND(object_release, buffer);
    assert_clean();
    SEND(object_release, buffer);
    assert_fault("message release to an object that has been released");
    finish(commands, encoder);
}

static void what_was_not_retained_is_gone_with_its_pool(void **state) {
    (void)state;
    void *inner = objc_autoreleasePoolPush();
    const id string = text("short-lived");
    objc_autoreleasePoolPop(inner);
    assert_null(SEND(string_text, string));
    assert_fault("message UTF8String to an object that has been released");
    finish(commands, encoder);
}

static void autorelease_without_a_pool_is_found(void **state) {
    (void)state;
    finish(commands, encoder);
    objc_autoreleasePoolPop(pool);
    const id string = text("leaks");
    assert_fault("autoreleased with no pool in place");
    assert_non_null(string);
    pool = objc_autoreleasePoolPush();
    objc_autoreleasePoolPop((void *)((uintptr_t)1 << 16)); /* ... so that this test does not */
    pool = objc_autoreleasePoolPush();
}

static void pools_out_of_order_are_found(void **state) {
    (void)state;
    void *outer = objc_autoreleasePoolPush();
    void *inner = objc_autoreleasePoolPush();
    objc_autoreleasePoolPop(outer);
    objc_autoreleasePoolPop(inner);
    assert_fault("while pool");
    finish(commands, encoder);
}

static void a_selector_that_nobody_answers_is_found(void **state) {
    (void)state;
    SEND(encoder_barrier, queue, SCOPE_BUFFERS);
    assert_fault("SimMTLCommandQueue does not answer memoryBarrierWithScope:");
    finish(commands, encoder);
}

static void an_object_of_another_kind_is_found(void **state) {
    (void)state;
    SEND(encoder_buffer, encoder, queue, 0, 0);
    assert_fault("setBuffer: a SimMTLCommandQueue where a SimMTLBuffer is due");
    SEND(encoder_buffer, encoder, NULL, 0, 0);
    assert_fault("setBuffer: nil");
    finish(commands, encoder);
}

/* ---- libraries ---- */

static void fast_math_is_found(void **state) {
    (void)state;
    SEND(object_release, make_library(true, (3 << 16) + 1));
    assert_fault("fast math is on");
    finish(commands, encoder);
}

static void fast_functions_are_found(void **state) {
    (void)state;
    id error = NULL;
    const id options = SEND(object_new, objc_getClass("MTLCompileOptions"));
    SEND(options_language_version, options, (3 << 16) + 1);
    SEND(options_math_mode, options, 0);
    SEND(object_release, SEND(device_library_of_source, device, text("source"), options, &error));
    assert_fault("functions are the fast ones");
    SEND(options_math_functions, options, 1);
    SEND(object_release, SEND(device_library_of_source, device, text("source"), options, &error));
    SEND(object_release, options);
    finish(commands, encoder);
}

static void another_language_version_is_found(void **state) {
    (void)state;
    SEND(object_release, make_library(false, 0));
    assert_fault("language version");
    finish(commands, encoder);
}

static void residency_without_commit_is_found(void **state) {
    (void)state;
    id error = NULL;
    const id descriptor = SEND(object_new, objc_getClass("MTLResidencySetDescriptor"));
    const id set = SEND(device_residency_set, device, descriptor, &error);
    const id buffer = make_buffer(64);
    SEND(residency_add, set, buffer);
    SEND(residency_request, set);
    assert_fault("added and not committed");
    SEND(residency_remove, set, queue);
    assert_fault("the residency set does not have it");
    const id pipeline = make_pipeline("plain_sum");
    SEND(encoder_pipeline, encoder, pipeline);
    SEND(encoder_buffer, encoder, buffer, 0, 0);
    SEND(encoder_buffer, encoder, buffer, 32, 1);
    SEND(encoder_shared, encoder, 16, 0);
    dispatch(encoder, 1, 1);
    finish(commands, encoder);
    assert_fault("a buffer that is named and was not committed");
    SEND(object_release, pipeline);
    SEND(object_release, buffer);
    SEND(object_release, set);
    SEND(object_release, descriptor);
}

/* ---- encoding ---- */

static void too_many_bytes_are_found(void **state) {
    (void)state;
    static const char bytes[4097];
    SEND(encoder_bytes, encoder, bytes, 4096, 0);
    assert_clean();
    SEND(encoder_bytes, encoder, bytes, 4097, 0);
    assert_fault("setBytes of 4097 bytes");
    finish(commands, encoder);
}

static void wrong_offsets_and_indexes_are_found(void **state) {
    (void)state;
    const id buffer = make_buffer(64);
    SEND(encoder_buffer, encoder, buffer, 64, 0);
    assert_fault("offset 64 is past the end of a buffer of 64");
    SEND(encoder_buffer, encoder, buffer, 2, 0);
    assert_fault("offset 2 is no multiple of 4");
    SEND(encoder_buffer, encoder, buffer, 0, 31);
    assert_fault("setBuffer at index 31");
    finish(commands, encoder);
    SEND(object_release, buffer);
}

static void wrong_threadgroup_memory_is_found(void **state) {
    (void)state;
    const id buffer = make_buffer(N * 4), pipeline = make_pipeline("plain_sum");
    SEND(encoder_pipeline, encoder, pipeline);
    SEND(encoder_buffer, encoder, buffer, 0, 0);
    SEND(encoder_buffer, encoder, buffer, 128, 1);
    dispatch(encoder, 1, 1);
    assert_fault("threadgroup memory 0 (parts) has no length");
    SEND(encoder_shared, encoder, 20, 0);
    assert_fault("20 is no multiple of 16");
    SEND(encoder_shared, encoder, 32768, 0); /* and 64 bytes of the kernel's own */
    dispatch(encoder, 1, 1);
    assert_fault("32832 bytes of threadgroup memory");
    finish(commands, encoder);
    SEND(object_release, pipeline);
    SEND(object_release, buffer);
}

static void missing_bindings_and_pipelines_are_found(void **state) {
    (void)state;
    dispatch(encoder, 1, 1);
    assert_fault("dispatch with no pipeline");
    const id pipeline = make_pipeline("plain_add"), buffer = make_buffer(64);
    SEND(encoder_pipeline, encoder, pipeline);
    SEND(encoder_bytes, encoder, &(uint32_t){1}, 4, 0);
    SEND(encoder_buffer, encoder, buffer, 0, 1);
    SEND(encoder_buffer, encoder, buffer, 0, 3);
    dispatch(encoder, 1, 1);
    assert_fault("plain_add: nothing is bound at 2 (b)");
    SEND(encoder_bytes, encoder, &(uint32_t){1}, 4, 2);
    SEND(encoder_bytes, encoder, &(uint32_t){1}, 4, 3);
    dispatch(encoder, 1, 1);
    assert_fault("setBytes at 3 (out), which it writes");
    finish(commands, encoder);
    SEND(object_release, pipeline);
    SEND(object_release, buffer);
}

static void wrong_grids_are_found(void **state) {
    (void)state;
    const id pipeline = make_pipeline("plain_sum"), buffer = make_buffer(N * 4);
    SEND(encoder_pipeline, encoder, pipeline);
    SEND(encoder_buffer, encoder, buffer, 0, 0);
    SEND(encoder_buffer, encoder, buffer, 128, 1);
    SEND(encoder_shared, encoder, 16, 0);
    dispatch(encoder, 0, 1);
    assert_fault("plain_sum: a dispatch of nothing");
    dispatch(encoder, 512, 257);
    assert_fault("a threadgroup of 257 threads; this pipeline allows 256");
    finish(commands, encoder);
    SEND(object_release, pipeline);
    SEND(object_release, buffer);
}

/* ---- command buffers ---- */

static void an_encoder_that_has_ended_is_found(void **state) {
    (void)state;
    finish(commands, encoder);
    assert_clean();
    SEND(encoder_barrier, encoder, SCOPE_BUFFERS);
    assert_fault("memoryBarrierWithScope on an encoder that has ended");
    SEND(encoder_end, encoder);
    assert_fault("endEncoding twice");
}

static void an_open_encoder_at_commit_is_found(void **state) {
    (void)state;
    SEND(commands_commit, commands);
    assert_fault("commit with an open encoder");
    SEND(commands_wait, commands);
    SEND(encoder_end, encoder);
}

static void a_second_encoder_is_found(void **state) {
    (void)state;
    assert_null(SEND(commands_encoder, commands, CONCURRENT));
    assert_fault("a second encoder in a command buffer, while the first is open");
    finish(commands, encoder);
}

static void a_second_commit_is_found(void **state) {
    (void)state;
    finish(commands, encoder);
    SEND(commands_commit, commands);
    assert_fault("committed twice");
}

static void a_wait_before_commit_is_found(void **state) {
    (void)state;
    SEND(commands_wait, commands);
    assert_fault("waitUntilCompleted before commit");
    finish(commands, encoder);
}

static void commands_never_committed_are_found(void **state) {
    (void)state;
    SEND(encoder_end, encoder);
    objc_autoreleasePoolPop(pool);
    assert_fault("never committed");
    pool = objc_autoreleasePoolPush();
}

static void encoders_never_ended_are_found(void **state) {
    (void)state;
    objc_autoreleasePoolPop(pool);
    assert_fault("an encoder is released without endEncoding");
    pool = objc_autoreleasePoolPush();
}

static void answers_before_the_end_are_found(void **state) {
    (void)state;
    setenv("MTL_SIM_DELAY_US", "20000", 1);
    stand_in_reset();
    SEND(encoder_end, encoder);
    SEND(commands_commit, commands);
    SEND(commands_status, commands);
    assert_fault("status of a command buffer that has not ended");
    SEND(commands_wait, commands);
    unsetenv("MTL_SIM_DELAY_US");
}

/* The memory is freed at the release, which AddressSanitizer would see if the kernel still ran. */
static void a_buffer_released_in_flight_is_found(void **state) {
    (void)state;
    setenv("MTL_SIM_DELAY_US", "20000", 1);
    stand_in_reset();
    const id pipeline = make_pipeline("plain_copy"), a = make_buffer(N * 4), b = make_buffer(N * 4);
    encode_copy(encoder, pipeline, a, 0, b, 0);
    SEND(encoder_end, encoder);
    SEND(commands_commit, commands);
    SEND(object_release, a);
    assert_fault("a SimMTLBuffer is released while a command buffer that names it has not");
    SEND(commands_wait, commands);
    assert_int_equal(SEND(commands_status, commands), 5);
    assert_fault("the buffer at 1 (a) was released");
    SEND(object_release, b);
    SEND(object_release, pipeline);
    unsetenv("MTL_SIM_DELAY_US");
}

static void a_kernel_that_fails_ends_its_command_buffer(void **state) {
    (void)state;
    const id pipeline = make_pipeline("plain_fault"), a = make_buffer(N * 4);
    SEND(encoder_pipeline, encoder, pipeline);
    SEND(encoder_buffer, encoder, a, 0, 0);
    dispatch(encoder, 1, 1);
    finish(commands, encoder);
    assert_int_equal(SEND(commands_status, commands), 5);
    assert_fault("plain_fault: as it was asked to");
    SEND(object_release, a);
    SEND(object_release, pipeline);
}

/* ---- hazards ---- */

static void a_missing_barrier_is_found_and_changes_the_result(void **state) {
    (void)state;
    const id pipeline = make_pipeline("plain_copy");
    const id a = make_buffer(N * 4), b = make_buffer(N * 4), c = make_buffer(N * 4);
    ((float *)SEND(buffer_contents, a))[5] = 7;
    encode_copy(encoder, pipeline, a, 0, b, 0);
    encode_copy(encoder, pipeline, b, 0, c, 0);
    finish(commands, encoder);
    assert_true(stand_in_hazards() >= 1);
    assert_int_equal(stand_in_faults(), 0);
    assert_int_equal(((const int *)SEND(buffer_contents, c))[5], 0);
    SEND(object_release, a);
    SEND(object_release, b);
    SEND(object_release, c);
    SEND(object_release, pipeline);
}

static void a_serial_encoder_needs_no_barrier(void **state) {
    (void)state;
    finish(commands, encoder);
    commands = SEND(queue_commands, queue);
    encoder = SEND(commands_encoder, commands, 0);
    const id pipeline = make_pipeline("plain_copy");
    const id a = make_buffer(N * 4), b = make_buffer(N * 4);
    encode_copy(encoder, pipeline, a, 0, b, 0);
    encode_copy(encoder, pipeline, b, 0, a, 0);
    finish(commands, encoder);
    assert_clean();
    SEND(object_release, a);
    SEND(object_release, b);
    SEND(object_release, pipeline);
}

static void two_reads_are_no_hazard(void **state) {
    (void)state;
    const id pipeline = make_pipeline("plain_copy");
    const id a = make_buffer(N * 4), b = make_buffer(2 * N * 4);
    encode_copy(encoder, pipeline, a, 0, b, 0);
    encode_copy(encoder, pipeline, a, 0, b, N * 4);
    finish(commands, encoder);
    assert_clean();
    SEND(object_release, a);
    SEND(object_release, b);
    SEND(object_release, pipeline);
}

/* Bound at different places of one buffer: only the accesses themselves show that they meet. */
static void accesses_that_meet_off_their_bindings_are_found(void **state) {
    (void)state;
    const id pipeline = make_pipeline("plain_copy");
    const id a = make_buffer(N * 4), b = make_buffer(3 * N * 4), c = make_buffer(N * 4);
    encode_copy(encoder, pipeline, a, 0, b, 0);
    encode_copy(encoder, pipeline, b, N * 4 - 4, c, 0);
    finish(commands, encoder);
    struct stand_in_counts counts;
    stand_in_counts(&counts);
    assert_true(counts.is_traced);
    assert_int_equal(stand_in_hazards(), 1);
    SEND(object_release, a);
    SEND(object_release, b);
    SEND(object_release, c);
    SEND(object_release, pipeline);
}

/* Two command buffers, the second of which reads what the first writes. */
static void run_two(bool updates, bool waits, bool host_waits) {
    const id pipeline = make_pipeline("plain_copy"), fence = SEND(device_fence, device);
    const id a = make_buffer(N * 4), b = make_buffer(N * 4), c = make_buffer(N * 4);
    encode_copy(encoder, pipeline, a, 0, b, 0);
    if (updates) SEND(encoder_update_fence, encoder, fence);
    SEND(encoder_end, encoder);
    SEND(commands_commit, commands);
    if (host_waits) SEND(commands_wait, commands);
    const id first = commands;
    begin_commands();
    if (waits) SEND(encoder_wait_fence, encoder, fence);
    encode_copy(encoder, pipeline, b, 0, c, 0);
    finish(commands, encoder);
    SEND(commands_wait, first);
    SEND(object_release, a);
    SEND(object_release, b);
    SEND(object_release, c);
    SEND(object_release, fence);
    SEND(object_release, pipeline);
}

static void a_fence_or_the_host_orders_command_buffers(void **state) {
    (void)state;
    run_two(true, true, false);
    assert_clean();
    begin_commands();
    run_two(false, false, true);
    assert_clean();
}

static void command_buffers_without_a_fence_are_hazards(void **state) {
    (void)state;
    run_two(true, false, false);
    assert_true(stand_in_hazards() > 0);
}

static void a_fence_that_nobody_updated_orders_nothing(void **state) {
    (void)state;
    run_two(false, true, false);
    assert_true(stand_in_hazards() > 0);
}

static void a_fence_after_work_is_found(void **state) {
    (void)state;
    const id fence = SEND(device_fence, device);
    SEND(encoder_barrier, encoder, SCOPE_BUFFERS);
    SEND(encoder_wait_fence, encoder, fence);
    assert_fault("waitForFence after work");
    finish(commands, encoder);
    SEND(object_release, fence);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(unaligned_memory_is_found),
        TEST(tracked_buffers_are_found),
        TEST(a_message_to_the_released_is_found),
        TEST(what_was_not_retained_is_gone_with_its_pool),
        TEST(autorelease_without_a_pool_is_found),
        TEST(pools_out_of_order_are_found),
        TEST(a_selector_that_nobody_answers_is_found),
        TEST(an_object_of_another_kind_is_found),
        TEST(fast_math_is_found),
        TEST(fast_functions_are_found),
        TEST(another_language_version_is_found),
        TEST(residency_without_commit_is_found),
        TEST(too_many_bytes_are_found),
        TEST(wrong_offsets_and_indexes_are_found),
        TEST(wrong_threadgroup_memory_is_found),
        TEST(missing_bindings_and_pipelines_are_found),
        TEST(wrong_grids_are_found),
        TEST(an_encoder_that_has_ended_is_found),
        TEST(an_open_encoder_at_commit_is_found),
        TEST(a_second_encoder_is_found),
        TEST(a_second_commit_is_found),
        TEST(a_wait_before_commit_is_found),
        TEST(commands_never_committed_are_found),
        TEST(encoders_never_ended_are_found),
        TEST(answers_before_the_end_are_found),
        TEST(a_buffer_released_in_flight_is_found),
        TEST(a_kernel_that_fails_ends_its_command_buffer),
        TEST(a_missing_barrier_is_found_and_changes_the_result),
        TEST(a_serial_encoder_needs_no_barrier),
        TEST(two_reads_are_no_hazard),
        TEST(accesses_that_meet_off_their_bindings_are_found),
        TEST(a_fence_or_the_host_orders_command_buffers),
        TEST(command_buffers_without_a_fence_are_hazards),
        TEST(a_fence_that_nobody_updated_orders_nothing),
        TEST(a_fence_after_work_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
