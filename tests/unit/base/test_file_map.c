/* test_file_map.c - files mapped and read: content, empty files, folders, limits, release. */
#include "test.h"

#include "base/file_map.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/radish-test-XXXXXX";
static char path[64];

static void write_file(const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void test_a_file_is_mapped_and_read_whole(void **state) {
    (void)state;
    struct file_map map;
    char *text = NULL;
    size_t len = 0;

    write_file("some\0bytes", 10);

    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    assert_int_equal(map.size, 10);
    assert_memory_equal(map.data, "some\0bytes", 10);
    file_map_close(&map);
    assert_int_equal(file_read(path, 10, &text, &len, NULL), RADISH_OK);
    assert_int_equal(len, 10);
    assert_memory_equal(text, "some\0bytes\0", 11);
    free(text);
    assert_true(file_exists(path));
    assert_false(file_is_folder(path));
    assert_true(file_is_folder(folder));
}

static void test_an_empty_file_is_valid(void **state) {
    (void)state;
    struct file_map map;
    char *text = NULL;
    size_t len = 1;

    write_file("", 0);

    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    assert_non_null(map.data);
    assert_int_equal(map.size, 0);
    file_map_close(&map);
    assert_int_equal(file_read(path, 0, &text, &len, NULL), RADISH_OK);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    free(text);
}

static void test_what_is_no_readable_file_is_named(void **state) {
    (void)state;
    struct file_map map;
    struct radish_error err;
    char *text;
    size_t len;

    assert_int_equal(file_map_open("/nonexistent/file", &map, &err), RADISH_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nonexistent/file"));
    assert_int_equal(file_map_open(folder, &map, &err), RADISH_E_IO);
    assert_non_null(strstr(err.msg, folder));
    assert_int_equal(file_read("/nonexistent/file", 10, &text, &len, &err), RADISH_E_NOT_FOUND);
    assert_null(text);
}

static void test_a_pipe_does_not_hang_the_reader(void **state) {
    (void)state;
    struct file_map map;
    struct radish_error err;

    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(5);
    assert_int_equal(file_map_open(path, &map, &err), RADISH_E_IO);
    alarm(0);
    unlink(path);
}

static void test_a_file_over_the_limit_is_refused(void **state) {
    (void)state;
    struct radish_error err;
    char *text;
    size_t len;

    write_file("12345", 5);

    assert_int_equal(file_read(path, 4, &text, &len, &err), RADISH_E_LIMIT);
    assert_null(text);
    assert_non_null(strstr(err.msg, "limit of 4"));
}

static void test_released_pages_can_still_be_read(void **state) {
    (void)state;
    enum { N = 300000 };
    struct file_map map;
    unsigned char *bytes = malloc(N);
    assert_non_null(bytes);
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
    write_file(bytes, N);

    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    file_map_release(&map, 5, N - 5);
    file_map_release(&map, 0, N);
    file_map_release(&map, N, 0);
    file_map_release(&map, 100, 100);
    assert_memory_equal(map.data, bytes, N);
    file_map_close(&map);
    free(bytes);
}

static void test_mappings_are_whole_pages_of_16_kib_with_zeros_behind_the_file(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, 16383, 16384, 16385, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct file_map map;
        unsigned char *bytes = malloc(sizes[i]);
        assert_non_null(bytes);
        memset(bytes, 7, sizes[i]);
        write_file(bytes, sizes[i]);

        assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);

        assert_int_equal((uintptr_t)map.data % FILE_MAP_ALIGN, 0);
        assert_int_equal(map.size, sizes[i]);
        assert_memory_equal(map.data, bytes, sizes[i]);
        for (size_t j = sizes[i]; j % FILE_MAP_ALIGN; j++) assert_int_equal(map.data[j], 0);
        file_map_close(&map);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_mapped_and_read_whole),
        cmocka_unit_test(test_an_empty_file_is_valid),
        cmocka_unit_test(test_what_is_no_readable_file_is_named),
        cmocka_unit_test(test_a_pipe_does_not_hang_the_reader),
        cmocka_unit_test(test_a_file_over_the_limit_is_refused),
        cmocka_unit_test(test_released_pages_can_still_be_read),
        cmocka_unit_test(test_mappings_are_whole_pages_of_16_kib_with_zeros_behind_the_file),
    };
    return cmocka_run_group_tests_name("file_map", tests, set_up, tear_down);
}
