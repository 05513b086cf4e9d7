/* test_safetensors.c - safetensors files right and wrong: a table of headers, each with one thing
 * changed; cuts and damage; allocation failures. The data of every file is `data`. */
#include "test.h"

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/rng.h"
#include "format/safetensors.h"
#include "format_gguf_spec.h"

#include <unistd.h>

#define VALID                                                                                      \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"                             \
    "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[16,40]},"                   \
    "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[40,42]},"                            \
    "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[40,40]}}"

static void build(struct buf *out, const char *header, size_t data_bytes) {
    buf_init(out, 0);
    spec_put_uint(out, strlen(header), 8);
    buf_append_str(out, header);
    for (size_t i = 0; i < data_bytes; i++) buf_append_char(out, (char)(uint8_t)i);
}

/* Keeps the compiler from leaving out reads. */
static volatile unsigned sink;

/* Opens a copy that is exactly n bytes long. */
static enum radish_status open_copy(const void *bytes, size_t n, struct radish_error *err) {
    struct safetensors *file;
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    *err = (struct radish_error){0};
    const enum radish_status status = safetensors_open_memory(copy, n, &file, err);
    assert_true((status == RADISH_OK) == (file != NULL));
    assert_int_equal(err->status, status);
    unsigned sum = 0;
    for (size_t i = 0; file && i < safetensors_n_tensors(file); i++) {
        const struct safetensors_tensor *t = safetensors_tensor(file, i);
        for (uint64_t j = 0; j < t->n_bytes; j++) sum += t->data[j];
        assert_ptr_equal(safetensors_find(file, t->name), t);
    }
    sink = sum;
    safetensors_close(file);
    free(copy);
    return status;
}

static void test_tensors_are_sorted_and_found_with_their_data(void **state) {
    (void)state;
    struct buf bytes;
    struct safetensors *file;
    build(&bytes, VALID, 42);

    assert_int_equal(safetensors_open_memory((const uint8_t *)bytes.data, bytes.len, &file, NULL),
                     RADISH_OK);

    assert_int_equal(safetensors_n_tensors(file), 4);
    assert_string_equal(safetensors_tensor(file, 0)->name, "a.weight");
    assert_string_equal(safetensors_tensor(file, 3)->name, "s");
    const struct safetensors_tensor *t = safetensors_find(file, "a.weight");
    assert_int_equal(t->dtype, RADISH_DTYPE_F32);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->n_bytes, 24);
    assert_int_equal(t->offset, bytes.len - 42 + 16);
    assert_int_equal(t->data[0], 16);
    assert_int_equal(safetensors_find(file, "s")->n_dims, 0);
    assert_int_equal(safetensors_find(file, "s")->n_bytes, 2);
    assert_int_equal(safetensors_find(file, "none")->n_bytes, 0);
    assert_int_equal(safetensors_find(file, "b")->dtype, RADISH_DTYPE_I64);
    assert_null(safetensors_find(file, "c"));
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_null(safetensors_metadata(file, "other"));
    safetensors_close(file);
    buf_deinit(&bytes);
}

static void test_a_header_padded_with_spaces_is_valid(void **state) {
    (void)state;
    struct buf bytes;
    struct radish_error err;
    build(&bytes, "{}      ", 0);
    assert_int_equal(open_copy(bytes.data, bytes.len, &err), RADISH_OK);
    buf_deinit(&bytes);
}

#define T(rest)  "{\"t\":{" rest "}}"
#define F32_6    "\"dtype\":\"F32\",\"shape\":[2,3],"
#define NEXT(nm) "\"" nm "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"

static const struct {
    const char *header;
    size_t data_bytes;
    enum radish_status status;
    const char *msg; /* a part of it */
} rows[] = {
    {T(F32_6 "\"data_offsets\":[0,24]"), 24, RADISH_OK, ""},
    /* the header */
    {"", 0, RADISH_E_FORMAT, "header: not JSON"},
    {"{", 0, RADISH_E_FORMAT, "header: not JSON"},
    {"[]", 0, RADISH_E_FORMAT, "no JSON object"},
    {"null", 0, RADISH_E_FORMAT, "no JSON object"},
    {"[[[[[[[[[[]]]]]]]]]]", 0, RADISH_E_FORMAT, "nested deeper"},
    {"{\"t\":5}", 0, RADISH_E_FORMAT, "tensor 't' is no object but integer"},
    {"{\"\":{" F32_6 "\"data_offsets\":[0,24]}}", 24, RADISH_E_FORMAT, "name is empty"},
    {"{\"a\\u0000b\":{" F32_6 "\"data_offsets\":[0,24]}}", 24, RADISH_E_FORMAT, "holds a NUL"},
    {"{\"__metadata__\":[]}", 0, RADISH_E_FORMAT, "__metadata__ is no object but array"},
    {"{\"__metadata__\":{\"a\":1}}", 0, RADISH_E_FORMAT, "key 'a' or its value is no plain string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, RADISH_E_FORMAT, "occurs twice"},
    /* the type */
    {T("\"shape\":[2,3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT, "dtype is missing"},
    {T("\"dtype\":7,\"shape\":[2,3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "dtype is missing"},
    {T("\"dtype\":\"Q9\",\"shape\":[2,3],\"data_offsets\":[0,24]"), 24, RADISH_E_UNSUPPORTED,
     "tensor 't': element type 'Q9' is not supported; supported are F32, F16, BF16"},
    /* the shape */
    {T("\"dtype\":\"F32\",\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT, "shape is no array"},
    {T("\"dtype\":\"F32\",\"shape\":6,\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "shape is no array"},
    {T("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,2,3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "at most 6 dimensions"},
    {T("\"dtype\":\"F32\",\"shape\":[2,-3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "dimension 1 is no size"},
    {T("\"dtype\":\"F32\",\"shape\":[2.0,3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "dimension 0 is no size"},
    {T("\"dtype\":\"F32\",\"shape\":[\"6\"],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "dimension 0 is no size"},
    {T("\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,24]"), 24,
     RADISH_E_FORMAT, "product is too large"},
    {T("\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,24]"), 24,
     RADISH_E_FORMAT, "too large"},
    {T("\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,24]"), 24,
     RADISH_E_FORMAT, "are no size"},
    {T("\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "need 32 bytes, but data_offsets span 24"},
    {T("\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,24]"), 24, RADISH_E_FORMAT,
     "need 12 bytes, but data_offsets span 24"},
    /* the offsets */
    {T(F32_6 "\"x\":1"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":24"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":[0]"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":[0,12,24]"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":[-24,0]"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":[0,24.0]"), 24, RADISH_E_FORMAT, "data_offsets is no array of two"},
    {T(F32_6 "\"data_offsets\":[24,0]"), 24, RADISH_E_FORMAT,
     "[24, 0] are not inside the file's 24 bytes"},
    {T(F32_6 "\"data_offsets\":[0,24]"), 23, RADISH_E_FORMAT,
     "[0, 24] are not inside the file's 23 bytes"},
    {T(F32_6 "\"data_offsets\":[18446744073709551600,18446744073709551615]"), 24, RADISH_E_FORMAT,
     "not inside"},
    {T(F32_6 "\"data_offsets\":[8,32]"), 32, RADISH_E_FORMAT, "leaving a hole behind byte"},
    {T(F32_6 "\"data_offsets\":[0,24]"), 25, RADISH_E_FORMAT, "1 bytes behind the last tensor"},
    {"{}", 1, RADISH_E_FORMAT, "1 bytes behind the last tensor"},
    /* several tensors */
    {"{" NEXT("a") "[0,8]}," NEXT("b") "[4,12]}}", 12, RADISH_E_FORMAT,
     "tensor 'b' begins at byte"},
    {"{" NEXT("a") "[0,8]}," NEXT("b") "[0,8]}}", 8, RADISH_E_FORMAT,
     "inside the tensor that ends"},
    {"{" NEXT("a") "[0,8]}," NEXT("b") "[12,20]}}", 20, RADISH_E_FORMAT, "hole"},
    {"{" NEXT("a") "[0,8]}," NEXT("a") "[8,16]}}", 16, RADISH_E_FORMAT, "tensor 'a' occurs twice"},
    {"{" NEXT("a") "[0,8]}," NEXT("b") "[8,16]}}", 16, RADISH_OK, ""},
};

static void test_each_fault_is_named_in_one_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf bytes;
        struct radish_error err;
        build(&bytes, rows[i].header, rows[i].data_bytes);
        const enum radish_status status = open_copy(bytes.data, bytes.len, &err);
        if (status != rows[i].status || !strstr(err.msg, rows[i].msg))
            fail_msg("%s: %s: %s", rows[i].header, radish_status_name(status), err.msg);
        assert_null(strchr(err.msg, '\n'));
        assert_true(err.offset <= bytes.len);
        buf_deinit(&bytes);
    }
}

static void test_a_wrong_header_length_is_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t len;
        const char *msg;
    } lengths[] = {{UINT64_MAX, "the limit is 100000000"},
                   {SAFETENSORS_HEADER_BYTES_MAX + 1, "the limit is 100000000"},
                   {SAFETENSORS_HEADER_BYTES_MAX, "but only 2 remain"},
                   {3, "but only 2 remain"},
                   {1, "not JSON"},
                   {0, "not JSON"}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct buf bytes;
        struct radish_error err;
        buf_init(&bytes, 0);
        spec_put_uint(&bytes, lengths[i].len, 8);
        buf_append_str(&bytes, "{}");
        assert_int_equal(open_copy(bytes.data, bytes.len, &err), RADISH_E_FORMAT);
        if (!strstr(err.msg, lengths[i].msg)) fail_msg("%s", err.msg);
        buf_deinit(&bytes);
    }
}

static void test_a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    struct buf bytes;
    struct radish_error err;
    build(&bytes, VALID, 42);

    assert_int_equal(open_copy(bytes.data, bytes.len, &err), RADISH_OK);
    for (size_t n = 0; n < bytes.len; n++)
        if (open_copy(bytes.data, n, &err) != RADISH_E_FORMAT) fail_msg("cut to %zu bytes", n);
    buf_deinit(&bytes);
}

static void test_random_damage_does_no_harm(void **state) {
    (void)state;
    const uint64_t seed = rng_seed_from_system();
    uint64_t counter = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 3000; round++) {
        static const char letters[] = "0123456789{}[],:\"\\-.eaFI\0\x80";
        struct buf bytes;
        struct radish_error err;
        build(&bytes, VALID, 42);
        for (int i = 0; i < 1 + round % 4; i++) {
            const size_t at = (size_t)(rng_u64(seed, counter++) % bytes.len);
            bytes.data[at] = letters[rng_u64(seed, counter++) % (sizeof letters - 1)];
        }
        (void)open_copy(bytes.data, bytes.len, &err);
        buf_deinit(&bytes);
    }
}

static void test_errors_of_a_file_name_it(void **state) {
    (void)state;
    char path[] = "/tmp/radish-test-XXXXXX";
    struct safetensors *file;
    struct radish_error err;
    struct buf bytes;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    build(&bytes, VALID, 42);

    spec_write_file(path, bytes.data, bytes.len);
    assert_int_equal(safetensors_open(path, &file, &err), RADISH_OK);
    const struct safetensors_tensor *t = safetensors_find(file, "b");
    safetensors_release(file, t->offset, t->n_bytes);
    assert_int_equal(t->data[5], 5);
    safetensors_close(file);
    spec_write_file(path, bytes.data, bytes.len - 1);
    assert_int_equal(safetensors_open(path, &file, &err), RADISH_E_FORMAT);
    assert_null(file);
    assert_memory_equal(err.msg, path, strlen(path));
    assert_string_equal(err.field, "s");
    unlink(path);
    assert_int_equal(safetensors_open(path, &file, &err), RADISH_E_NOT_FOUND);
    buf_deinit(&bytes);
}

static bool attempt_to_open(void *user) {
    const struct buf *bytes = user;
    struct safetensors *file;
    struct radish_error err = {0};
    const enum radish_status status =
        safetensors_open_memory((const uint8_t *)bytes->data, bytes->len, &file, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        assert_null(file);
        return false;
    }
    safetensors_close(file);
    return true;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    struct buf bytes;
    if (!alloc_fail_can()) skip();
    build(&bytes, VALID, 42);
    assert_true(alloc_fail_each(attempt_to_open, &bytes) >= 3);
    buf_deinit(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_sorted_and_found_with_their_data),
        cmocka_unit_test(test_a_header_padded_with_spaces_is_valid),
        cmocka_unit_test(test_each_fault_is_named_in_one_line),
        cmocka_unit_test(test_a_wrong_header_length_is_refused),
        cmocka_unit_test(test_a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_random_damage_does_no_harm),
        cmocka_unit_test(test_errors_of_a_file_name_it),
        cmocka_unit_test(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
