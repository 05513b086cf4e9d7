/* test_gguf.c - GGUF files that are right: every type of value, both versions, typed reads, arrays,
 * alignment, the conformance files; and allocation failures. */
#include "test.h"

#include "alloc_fail.h"
#include "format/gguf.h"
#include "format_gguf_spec.h"

#include <math.h>
#include <unistd.h>

static struct gguf *open_spec(const struct gguf_spec *spec, struct buf *bytes) {
    struct gguf *gguf;
    struct radish_error err = {0};
    gguf_spec_build(spec, bytes);
    if (gguf_open_memory((const uint8_t *)bytes->data, bytes->len, &gguf, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    return gguf;
}

static void test_tensors_are_where_the_table_says(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_version(gguf), 3);
    assert_int_equal(gguf_n_tensors(gguf), 3);
    const struct gguf_tensor *b = gguf_tensor(gguf, 1);
    assert_string_equal(b->name.data, "b.weight");
    assert_int_equal(b->name.len, 8);
    assert_int_equal(b->dtype, RADISH_DTYPE_Q8_0);
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dims[0], 64);
    assert_int_equal(b->dims[1], 2);
    assert_int_equal(b->n_bytes, 136);
    assert_int_equal(b->offset, bytes.len - 234 + 64);
    assert_ptr_equal(b->data, bytes.data + b->offset);
    assert_int_equal(b->data[1], (uint8_t)(65 * 7));
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_version_2_is_read_as_well(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    spec.version = 2;

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_version(gguf), 2);
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_the_alignment_key_moves_the_data(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    gguf_spec_add_u32(&spec, "general.alignment", 8);
    spec.alignment = 8;
    spec.tensors[1].offset = 48;
    spec.tensors[2].offset = 184;
    spec.data_bytes = 194;

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_tensor(gguf, 2)->offset, bytes.len - 10);
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_metadata_alone_is_a_valid_file(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    spec.n_tensors = 0;
    spec.data_bytes = 0;
    spec.alignment = 1;

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_n_tensors(gguf), 0);
    assert_int_equal(gguf_n_values(gguf), 1);
    assert_string_equal(gguf_key(gguf, 0), "general.architecture");
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_every_scalar_type_keeps_its_value(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint32_t type;
        uint8_t bytes[8];
        size_t n;
    } rows[] = {
        {"u8", GGUF_U8, {0xFF}, 1},
        {"i8", GGUF_I8, {0xFF}, 1},
        {"u16", GGUF_U16, {0xFE, 0xFF}, 2},
        {"i16", GGUF_I16, {0xFE, 0xFF}, 2},
        {"u32", GGUF_U32, {0xFD, 0xFF, 0xFF, 0xFF}, 4},
        {"i32", GGUF_I32, {0xFD, 0xFF, 0xFF, 0xFF}, 4},
        {"u64", GGUF_U64, {0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 8},
        {"i64", GGUF_I64, {0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 8},
        {"f32", GGUF_F32, {0, 0, 0x20, 0xC0}, 4},
        {"f64", GGUF_F64, {0, 0, 0, 0, 0, 0, 0x04, 0xC0}, 8},
        {"yes", GGUF_BOOL, {1}, 1},
        {"no", GGUF_BOOL, {0}, 1},
    };
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        gguf_spec_add(&spec, rows[i].key, rows[i].type, rows[i].bytes, rows[i].n);

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_find(gguf, "u8")->u, 255);
    assert_int_equal(gguf_find(gguf, "i8")->i, -1);
    assert_int_equal(gguf_find(gguf, "u16")->u, 65534);
    assert_int_equal(gguf_find(gguf, "i16")->i, -2);
    assert_int_equal(gguf_find(gguf, "u32")->u, 4294967293u);
    assert_int_equal(gguf_find(gguf, "i32")->i, -3);
    assert_true(gguf_find(gguf, "u64")->u == UINT64_MAX - 3);
    assert_int_equal(gguf_find(gguf, "i64")->i, -4);
    assert_true(gguf_find(gguf, "f32")->f == -2.5);
    assert_true(gguf_find(gguf, "f64")->f == -2.5);
    assert_int_equal(gguf_find(gguf, "yes")->u, 1);
    assert_int_equal(gguf_find(gguf, "no")->u, 0);
    assert_null(gguf_find(gguf, "maybe"));
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_typed_reads_take_any_width_that_fits(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    struct radish_error err;
    gguf_spec_init(&spec);
    gguf_spec_add(&spec, "small", GGUF_U8, "\x07", 1);
    gguf_spec_add(&spec, "long", GGUF_I64, "\x07\0\0\0\0\0\0\0", 8);
    gguf_spec_add(&spec, "large", GGUF_U64, "\0\0\0\0\1\0\0\0", 8);
    gguf_spec_add(&spec, "negative", GGUF_I32, "\xFF\xFF\xFF\xFF", 4);
    gguf_spec_add(&spec, "float", GGUF_F32, "\0\0\x20\x40", 4);
    gguf_spec_add(&spec, "bool", GGUF_BOOL, "\1", 1);
    struct gguf *gguf = open_spec(&spec, &bytes);
    uint32_t u = 99;
    double d = 99;
    bool b = false;
    struct gguf_str s = {"kept", 4};

    assert_int_equal(gguf_get_u32(gguf, "absent", &u, &err), RADISH_OK);
    assert_int_equal(u, 99);
    assert_int_equal(gguf_get_u32(gguf, "small", &u, &err), RADISH_OK);
    assert_int_equal(u, 7);
    assert_int_equal(gguf_get_u32(gguf, "long", &u, &err), RADISH_OK);
    assert_int_equal(u, 7);
    assert_int_equal(gguf_get_u32(gguf, "large", &u, &err), RADISH_E_FORMAT);
    assert_string_equal(err.field, "large");
    assert_int_equal(gguf_get_u32(gguf, "negative", &u, &err), RADISH_E_FORMAT);
    assert_non_null(strstr(err.msg, "'negative' is -1"));
    assert_int_equal(gguf_get_u32(gguf, "float", &u, &err), RADISH_E_FORMAT);
    assert_string_equal(err.msg, "key 'float' is of type float32, but must be an integer");
    assert_int_equal(gguf_get_u32(gguf, "bool", &u, &err), RADISH_E_FORMAT);
    assert_int_equal(u, 7);
    assert_int_equal(gguf_get_f64(gguf, "float", &d, &err), RADISH_OK);
    assert_true(d == 2.5);
    assert_int_equal(gguf_get_f64(gguf, "negative", &d, &err), RADISH_OK);
    assert_true(d == -1.0);
    assert_int_equal(gguf_get_f64(gguf, "bool", &d, &err), RADISH_E_FORMAT);
    assert_int_equal(gguf_get_bool(gguf, "bool", &b, &err), RADISH_OK);
    assert_true(b);
    assert_int_equal(gguf_get_bool(gguf, "small", &b, &err), RADISH_E_FORMAT);
    assert_int_equal(gguf_get_str(gguf, "small", &s, &err), RADISH_E_FORMAT);
    assert_int_equal(s.len, 4);
    assert_int_equal(gguf_get_str(gguf, "general.architecture", &s, &err), RADISH_OK);
    assert_int_equal(s.len, 5);
    assert_memory_equal(s.data, "llama", 5);
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_arrays_give_their_elements(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    gguf_spec_add(&spec, "ints", GGUF_ARRAY, "\3\0\0\0\3\0\0\0\0\0\0\0\xFF\xFF\x05\0\0\x80", 18);
    gguf_spec_add(&spec, "floats", GGUF_ARRAY, "\6\0\0\0\2\0\0\0\0\0\0\0\0\0\x80\x3F\0\0\x20\xC0",
                  20);
    gguf_spec_add(&spec, "bools", GGUF_ARRAY, "\7\0\0\0\2\0\0\0\0\0\0\0\0\1", 14);
    gguf_spec_add(&spec, "huge", GGUF_ARRAY,
                  "\12\0\0\0\1\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 20);
    gguf_spec_add(&spec, "strings", GGUF_ARRAY,
                  "\10\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0",
                  39);
    gguf_spec_add(&spec, "none", GGUF_ARRAY, "\10\0\0\0\0\0\0\0\0\0\0\0", 12);
    struct gguf *gguf = open_spec(&spec, &bytes);

    const struct gguf_value *v = gguf_find(gguf, "ints");
    assert_int_equal(v->array.n, 3);
    assert_true(gguf_is_int(v->array.elem_type));
    assert_int_equal(gguf_array_i64(v, 0), -1);
    assert_int_equal(gguf_array_i64(v, 1), 5);
    assert_int_equal(gguf_array_i64(v, 2), -32768);
    v = gguf_find(gguf, "floats");
    assert_false(gguf_is_int(v->array.elem_type));
    assert_true(gguf_array_f64(v, 0) == 1.0 && gguf_array_f64(v, 1) == -2.5);
    v = gguf_find(gguf, "bools");
    assert_true(gguf_is_int(v->array.elem_type));
    assert_int_equal(gguf_array_i64(v, 1), 1);
    assert_true(gguf_array_i64(gguf_find(gguf, "huge"), 0) == INT64_MAX);
    v = gguf_find(gguf, "strings");
    assert_int_equal(v->array.n, 3);
    assert_int_equal(v->array.strs[0].len, 2);
    assert_memory_equal(v->array.strs[0].data, "ab", 2);
    assert_int_equal(v->array.strs[1].len, 0);
    assert_memory_equal(v->array.strs[2].data, "\0", 1);
    assert_int_equal(gguf_find(gguf, "none")->array.n, 0);
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_types_that_cannot_be_read_are_listed(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    gguf_spec_init(&spec);
    spec.tensors[1].type = 39; /* MXFP4, 17 bytes a block */

    struct gguf *gguf = open_spec(&spec, &bytes);

    assert_int_equal(gguf_tensor(gguf, 1)->dtype, RADISH_DTYPE_MXFP4);
    assert_false(dtype_can_read(gguf_tensor(gguf, 1)->dtype));
    assert_int_equal(gguf_tensor(gguf, 1)->n_bytes, 4 * 17);
    gguf_close(gguf);
    buf_deinit(&bytes);
}

static void test_a_file_on_disk_is_mapped_and_named_in_errors(void **state) {
    (void)state;
    char path[] = "/tmp/radish-test-XXXXXX";
    struct gguf_spec spec;
    struct buf bytes;
    struct gguf *gguf;
    struct radish_error err;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gguf_spec_init(&spec);
    gguf_spec_build(&spec, &bytes);

    spec_write_file(path, bytes.data, bytes.len);
    assert_int_equal(gguf_open(path, &gguf, &err), RADISH_OK);
    assert_int_equal(gguf_n_tensors(gguf), 3);
    gguf_release(gguf, gguf_tensor(gguf, 0)->offset, gguf_tensor(gguf, 0)->n_bytes);
    assert_int_equal(gguf_tensor(gguf, 0)->data[1], 7);
    gguf_close(gguf);
    spec_write_file(path, bytes.data, bytes.len - 1);
    assert_int_equal(gguf_open(path, &gguf, &err), RADISH_E_FORMAT);
    assert_null(gguf);
    assert_memory_equal(err.msg, path, strlen(path));
    assert_non_null(strstr(err.msg, "c.bias"));
    spec_write_file(path, "", 0);
    assert_int_equal(gguf_open(path, &gguf, &err), RADISH_E_FORMAT);
    assert_non_null(strstr(err.msg, "not a GGUF file"));
    unlink(path);
    assert_int_equal(gguf_open(path, &gguf, &err), RADISH_E_NOT_FOUND);
    buf_deinit(&bytes);
}

static bool attempt_to_open(void *user) {
    const struct buf *bytes = user;
    struct gguf *gguf;
    struct radish_error err = {0};
    const enum radish_status status =
        gguf_open_memory((const uint8_t *)bytes->data, bytes->len, &gguf, &err);
    if (status != RADISH_OK) {
        assert_int_equal(status, RADISH_E_NOMEM);
        assert_null(gguf);
        return false;
    }
    gguf_close(gguf);
    return true;
}

static void test_each_failed_allocation_is_reported_without_a_leak(void **state) {
    (void)state;
    struct gguf_spec spec;
    struct buf bytes;
    if (!alloc_fail_can()) skip();
    gguf_spec_init(&spec);
    gguf_spec_add(&spec, "strings", GGUF_ARRAY, "\10\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a", 21);
    gguf_spec_build(&spec, &bytes);

    assert_true(alloc_fail_each(attempt_to_open, &bytes) >= 4);
    buf_deinit(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_where_the_table_says),
        cmocka_unit_test(test_version_2_is_read_as_well),
        cmocka_unit_test(test_the_alignment_key_moves_the_data),
        cmocka_unit_test(test_metadata_alone_is_a_valid_file),
        cmocka_unit_test(test_every_scalar_type_keeps_its_value),
        cmocka_unit_test(test_typed_reads_take_any_width_that_fits),
        cmocka_unit_test(test_arrays_give_their_elements),
        cmocka_unit_test(test_types_that_cannot_be_read_are_listed),
        cmocka_unit_test(test_a_file_on_disk_is_mapped_and_named_in_errors),
        cmocka_unit_test(test_each_failed_allocation_is_reported_without_a_leak),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
