/* test_safetensors_write.c - what is written is read back; wrong use and full disks are reported
 * and leave no half file behind. */
#include "test.h"

#include "alloc_fail.h"
#include "base/file_map.h"
#include "format/safetensors.h"
#include "format/safetensors_write.h"

#include <unistd.h>

static char path[] = "/tmp/radish-test-XXXXXX";

static int set_up(void **state) {
    (void)state;
    strcpy(path, "/tmp/radish-test-XXXXXX");
    const int fd = mkstemp(path);
    if (fd < 0) return -1;
    return close(fd);
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return 0;
}

static const int64_t ids[3] = {1, -2, (int64_t)1 << 40};
static const float logits[2][3] = {{1.5f, -2.25f, 0.0f}, {3e38f, -0.0f, 1e-40f}};

static enum radish_status write_all(struct radish_error *err) {
    struct safetensors_writer *w;
    const uint64_t shape[2] = {2, 3};
    const enum radish_status status = safetensors_writer_create(path, &w, err);
    if (status != RADISH_OK) return status;
    (void)!safetensors_writer_metadata(w, "threads", "2", err);
    (void)!safetensors_writer_metadata(w, "quote \"\n", "line\\ \xc3\xa9\x01", err);
    (void)!safetensors_writer_tensor(w, "prompt.0", RADISH_DTYPE_I64, 1, &shape[1], err);
    (void)!safetensors_writer_tensor(w, "logits.0", RADISH_DTYPE_F32, 2, shape, err);
    (void)!safetensors_writer_tensor(w, "scalar", RADISH_DTYPE_BF16, 0, NULL, err);
    (void)!safetensors_writer_data(w, ids, sizeof ids, err);
    (void)!safetensors_writer_data(w, logits[0], 4, err);
    (void)!safetensors_writer_data(w, NULL, 0, err);
    (void)!safetensors_writer_data(w, (const char *)logits + 4, sizeof logits - 4, err);
    (void)!safetensors_writer_data(w, "\x80\x3f", 2, err);
    return safetensors_writer_finish(w, err);
}

static void test_what_was_written_is_read_back(void **state) {
    (void)state;
    struct safetensors *file;
    struct radish_error err = {0};

    if (write_all(&err) != RADISH_OK) fail_msg("%s", err.msg);
    if (safetensors_open(path, &file, &err) != RADISH_OK) fail_msg("%s", err.msg);

    assert_int_equal(safetensors_n_tensors(file), 3);
    assert_string_equal(safetensors_metadata(file, "threads"), "2");
    assert_string_equal(safetensors_metadata(file, "quote \"\n"), "line\\ \xc3\xa9\x01");
    const struct safetensors_tensor *t = safetensors_find(file, "prompt.0");
    assert_int_equal(t->dtype, RADISH_DTYPE_I64);
    assert_int_equal(t->n_dims, 1);
    assert_memory_equal(t->data, ids, sizeof ids);
    assert_int_equal(t->offset % 8, 0);
    t = safetensors_find(file, "logits.0");
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_memory_equal(t->data, logits, sizeof logits);
    assert_int_equal(safetensors_find(file, "scalar")->n_dims, 0);
    safetensors_close(file);
}

static void test_a_file_without_tensors_is_valid(void **state) {
    (void)state;
    struct safetensors_writer *w;
    struct safetensors *file;
    struct radish_error err = {0};

    assert_int_equal(safetensors_writer_create(path, &w, &err), RADISH_OK);
    assert_int_equal(safetensors_writer_finish(w, &err), RADISH_OK);
    assert_int_equal(safetensors_open(path, &file, &err), RADISH_OK);
    assert_int_equal(safetensors_n_tensors(file), 0);
    assert_null(safetensors_metadata(file, "a"));
    safetensors_close(file);
}

static void test_wrong_use_sticks_and_leaves_no_file(void **state) {
    (void)state;
    static const uint64_t huge[2] = {(uint64_t)1 << 40, (uint64_t)1 << 40};
    static const uint64_t one = 1;
    for (int row = 0; row < 9; row++) {
        static const char *const msgs[] = {"'t' is not free",
                                           "'__metadata__' is not free",
                                           "too large",
                                           "no element type Q4_K",
                                           "given twice",
                                           "more data than the 4 bytes",
                                           "4 bytes of data were declared, but 3",
                                           "after the first data",
                                           "after the first data"};
        struct safetensors_writer *w;
        struct radish_error err = {0};
        enum radish_status status = safetensors_writer_create(path, &w, &err);
        assert_int_equal(status, RADISH_OK);
        assert_int_equal(safetensors_writer_tensor(w, "t", RADISH_DTYPE_F32, 1, &one, &err),
                         RADISH_OK);
        if (row == 0) status = safetensors_writer_tensor(w, "t", RADISH_DTYPE_F32, 1, &one, &err);
        if (row == 1)
            status = safetensors_writer_tensor(w, "__metadata__", RADISH_DTYPE_F32, 1, &one, &err);
        if (row == 2) status = safetensors_writer_tensor(w, "u", RADISH_DTYPE_F32, 2, huge, &err);
        if (row == 3) status = safetensors_writer_tensor(w, "u", RADISH_DTYPE_Q4_K, 1, &one, &err);
        if (row == 4) status = safetensors_writer_metadata(w, "k", "v", &err);
        if (row == 4) status = safetensors_writer_metadata(w, "k", "v", &err);
        if (row == 5) status = safetensors_writer_data(w, "12345", 5, &err);
        if (row == 6) status = safetensors_writer_data(w, "123", 3, &err);
        if (row >= 7) status = safetensors_writer_data(w, "1234", 4, &err);
        if (row == 7) status = safetensors_writer_tensor(w, "u", RADISH_DTYPE_F32, 1, &one, &err);
        if (row == 8) status = safetensors_writer_metadata(w, "k", "v", &err);
        if (row != 6) assert_int_not_equal(status, RADISH_OK);
        if (row < 5) assert_int_equal(safetensors_writer_data(w, "1234", 4, &err), status);
        assert_int_not_equal(safetensors_writer_finish(w, &err), RADISH_OK);
        if (!strstr(err.msg, msgs[row])) fail_msg("row %d: %s", row, err.msg);
        assert_memory_equal(err.msg, path, strlen(path));
        assert_false(file_exists(path));
    }
}

static void test_giving_up_removes_the_file(void **state) {
    (void)state;
    struct safetensors_writer *w;

    assert_int_equal(safetensors_writer_create(path, &w, NULL), RADISH_OK);
    assert_true(file_exists(path));
    safetensors_writer_destroy(w);
    assert_false(file_exists(path));
    safetensors_writer_destroy(NULL);
}

static void test_places_that_cannot_be_written_are_named(void **state) {
    (void)state;
    struct safetensors_writer *w;
    struct radish_error err = {0};
    const uint64_t shape = 1 << 20;

    assert_int_equal(safetensors_writer_create("/nonexistent/f", &w, &err), RADISH_E_IO);
    assert_null(w);
    assert_non_null(strstr(err.msg, "/nonexistent/f: No such file"));
    if (!file_exists("/dev/full")) return;
    assert_int_equal(safetensors_writer_create("/dev/full", &w, &err), RADISH_OK);
    assert_int_equal(safetensors_writer_tensor(w, "t", RADISH_DTYPE_U8, 1, &shape, &err),
                     RADISH_OK);
    void *zeros = calloc(1, shape);
    assert_int_equal(safetensors_writer_data(w, zeros, shape, &err), RADISH_E_IO);
    free(zeros);
    assert_int_equal(safetensors_writer_finish(w, &err), RADISH_E_IO);
    assert_non_null(strstr(err.msg, "/dev/full: No space left"));
    assert_true(file_exists("/dev/full"));
}

static bool attempt_to_write(void *user) {
    (void)user;
    struct radish_error err = {0};
    const enum radish_status status = write_all(&err);
    if (status != RADISH_OK) assert_int_not_equal(err.status, RADISH_OK);
    return status == RADISH_OK;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_true(alloc_fail_each(attempt_to_write, NULL) >= 5);
    assert_true(file_exists(path));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_written_is_read_back),
        TEST(test_a_file_without_tensors_is_valid),
        TEST(test_wrong_use_sticks_and_leaves_no_file),
        TEST(test_giving_up_removes_the_file),
        TEST(test_places_that_cannot_be_written_are_named),
        TEST(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests_name("safetensors_write", tests, NULL, NULL);
}
