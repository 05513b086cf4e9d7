/* test_gguf_broken.c - GGUF files with one thing wrong: each ends in one line that names what is at
 * fault, at a cost bounded by the file's size. Then all cuts and all flips of a valid one, in
 * blocks of exactly their size, so that AddressSanitizer sees a read past the end. */
#include "test.h"

#include "base/rng.h"
#include "format/gguf.h"
#include "format_gguf_spec.h"

static void put_str(struct gguf_spec *s, const char *key, uint64_t claimed) {
    struct buf b;
    buf_init(&b, 0);
    spec_put_uint(&b, claimed, 8);
    buf_append_str(&b, "abc");
    gguf_spec_add(s, key, GGUF_STR, b.data, b.len);
    buf_deinit(&b);
}

static void put_array(struct gguf_spec *s, uint32_t elem_type, uint64_t n) {
    struct buf b;
    buf_init(&b, 0);
    spec_put_uint(&b, elem_type, 4);
    spec_put_uint(&b, n, 8);
    buf_append_str(&b, "abcdefgh");
    gguf_spec_add(s, "array", GGUF_ARRAY, b.data, b.len);
    buf_deinit(&b);
}

/* clang-format off */
static void wrong_magic(struct gguf_spec *s) { memcpy(s->magic, "GGML", 4); }
static void version_1(struct gguf_spec *s) { s->version = 1; }
static void version_4(struct gguf_spec *s) { s->version = 4; }
static void version_0(struct gguf_spec *s) { s->version = 0; }
static void big_endian(struct gguf_spec *s) { s->version = 3u << 24; }
static void many_tensors(struct gguf_spec *s) { s->n_tensors_claimed = 1000; }
static void all_tensors(struct gguf_spec *s) { s->n_tensors_claimed = UINT64_MAX - 3; }
static void many_values(struct gguf_spec *s) { s->n_values_claimed = UINT64_MAX / 2; }
static void one_more_value(struct gguf_spec *s) { s->n_values_claimed = 1; }
static void one_more_tensor(struct gguf_spec *s) { s->n_tensors_claimed = 1; }
static void long_key(struct gguf_spec *s) { s->values[0].key_len = 1u << 30; }
static void endless_key(struct gguf_spec *s) { s->values[0].key_len = UINT64_MAX; }
static void empty_key(struct gguf_spec *s) { s->values[0].key = ""; s->values[0].key_len = 0; }
static void nul_in_key(struct gguf_spec *s) { s->values[0].key = "a\0b"; s->values[0].key_len = 3; s->values[0].has_nul = true; }
static void same_key(struct gguf_spec *s) { gguf_spec_add_u32(s, "twice", 1); gguf_spec_add_u32(s, "twice", 2); }
static void unknown_type(struct gguf_spec *s) { gguf_spec_add(s, "odd.key", 13, "", 0); }
static void bool_of_2(struct gguf_spec *s) { gguf_spec_add(s, "flag", GGUF_BOOL, "\2", 1); }
static void bool_array_of_2(struct gguf_spec *s) { gguf_spec_add(s, "flags", GGUF_ARRAY, "\7\0\0\0\2\0\0\0\0\0\0\0\1\2", 14); }
static void long_string(struct gguf_spec *s) { put_str(s, "text", 1u << 30); }
static void endless_string(struct gguf_spec *s) { put_str(s, "text", UINT64_MAX); }
static void nested_array(struct gguf_spec *s) { put_array(s, GGUF_ARRAY, 1); }
static void array_of_unknown(struct gguf_spec *s) { put_array(s, 77, 1); }
static void long_array(struct gguf_spec *s) { put_array(s, GGUF_U32, 1u << 30); }
static void overflowing_array(struct gguf_spec *s) { put_array(s, GGUF_U64, (UINT64_MAX >> 3) + 2); }
static void long_string_array(struct gguf_spec *s) { put_array(s, GGUF_STR, 1u << 30); }
static void string_in_array_too_long(struct gguf_spec *s) { put_array(s, GGUF_STR, 1); }
static void alignment_0(struct gguf_spec *s) { gguf_spec_add_u32(s, "general.alignment", 0); }
static void alignment_24(struct gguf_spec *s) { gguf_spec_add_u32(s, "general.alignment", 24); }
static void alignment_text(struct gguf_spec *s) { gguf_spec_add_str(s, "general.alignment", "32"); }
static void alignment_huge(struct gguf_spec *s) { gguf_spec_add_u32(s, "general.alignment", 1u << 31); }
static void long_name(struct gguf_spec *s) { s->tensors[1].name_len = 1u << 20; }
static void empty_name(struct gguf_spec *s) { s->tensors[1].name = ""; s->tensors[1].name_len = 0; }
static void same_name(struct gguf_spec *s) { s->tensors[1].name = "a.weight"; s->tensors[1].name_len = 8; }
static void no_dims(struct gguf_spec *s) { s->tensors[1].n_dims = 0; }
static void five_dims(struct gguf_spec *s) { s->tensors[1].n_dims = 5; }
static void endless_dims(struct gguf_spec *s) { s->tensors[1].n_dims = UINT32_MAX; }
static void zero_dim(struct gguf_spec *s) { s->tensors[1].dims[1] = 0; }
static void overflowing_shape(struct gguf_spec *s) { s->tensors[1].dims[0] = (uint64_t)1 << 62; s->tensors[1].dims[1] = 8; }
static void overflowing_bytes(struct gguf_spec *s) { s->tensors[0].dims[0] = (uint64_t)1 << 62; s->tensors[0].dims[1] = 1; }
static void large_shape(struct gguf_spec *s) { s->tensors[1].dims[1] = 1u << 20; }
static void cut_block(struct gguf_spec *s) { s->tensors[1].dims[0] = 50; }
static void unknown_dtype(struct gguf_spec *s) { s->tensors[1].type = 99; }
static void withdrawn_dtype(struct gguf_spec *s) { s->tensors[1].type = 31; }
static void crooked_offset(struct gguf_spec *s) { s->tensors[1].offset = 65; }
static void far_offset(struct gguf_spec *s) { s->tensors[1].offset = 1u << 20; }
static void endless_offset(struct gguf_spec *s) { s->tensors[1].offset = UINT64_MAX - 31; }
static void overlap(struct gguf_spec *s) { s->tensors[1].offset = 32; }
static void same_offset(struct gguf_spec *s) { s->tensors[2].offset = 64; }
static void short_data(struct gguf_spec *s) { s->data_bytes = 233; }
static void no_data(struct gguf_spec *s) { s->data_bytes = 0; }
static void no_padding(struct gguf_spec *s) { s->data_bytes = 0; s->alignment = 1; }

static const struct {
    const char *what;
    void (*bend)(struct gguf_spec *spec);
    enum radish_status status;
    const char *msg; /* a part of it */
    const char *field;
} rows[] = {
    {"wrong magic", wrong_magic, RADISH_E_FORMAT, "not a GGUF file", ""},
    {"version 1", version_1, RADISH_E_FORMAT, "version 1; radish reads versions 2 and 3", ""},
    {"version 4", version_4, RADISH_E_FORMAT, "version 4", ""},
    {"version 0", version_0, RADISH_E_FORMAT, "version 0", ""},
    {"big-endian", big_endian, RADISH_E_FORMAT, "big-endian", ""},
    {"1,000 tensors claimed", many_tensors, RADISH_E_FORMAT, "1003 tensors claimed", ""},
    {"wrapping number of tensors", all_tensors, RADISH_E_FORMAT, "tensors claimed", ""},
    {"absurd number of keys", many_values, RADISH_E_FORMAT, "keys claimed", ""},
    {"one key too many", one_more_value, RADISH_E_FORMAT, "a tensor's name claims", ""},
    {"one tensor too many", one_more_tensor, RADISH_E_FORMAT, "tensor's name", ""},
    {"long key", long_key, RADISH_E_FORMAT, "a metadata key claims 1073741824 bytes", ""},
    {"endless key", endless_key, RADISH_E_FORMAT, "a metadata key claims", ""},
    {"empty key", empty_key, RADISH_E_FORMAT, "a metadata key of 0 bytes", ""},
    {"NUL in a key", nul_in_key, RADISH_E_FORMAT, "a metadata key of 3 bytes", ""},
    {"the same key twice", same_key, RADISH_E_FORMAT, "key 'twice' occurs twice", "twice"},
    {"unknown type", unknown_type, RADISH_E_FORMAT, "key 'odd.key': unknown metadata type 13", "odd.key"},
    {"bool of 2", bool_of_2, RADISH_E_FORMAT, "key 'flag': a bool is 2", "flag"},
    {"bool array with a 2", bool_array_of_2, RADISH_E_FORMAT, "key 'flags': a bool is 2", "flags"},
    {"string past the end", long_string, RADISH_E_FORMAT, "key 'text': the string claims 1073741824 bytes", "text"},
    {"endless string", endless_string, RADISH_E_FORMAT, "key 'text': the string claims", "text"},
    {"nested array", nested_array, RADISH_E_FORMAT, "key 'array': an array of arrays", "array"},
    {"array of an unknown type", array_of_unknown, RADISH_E_FORMAT, "unknown metadata type 77", "array"},
    {"array past the end", long_array, RADISH_E_FORMAT, "1073741824 elements of uint32 claimed", "array"},
    {"overflowing array", overflowing_array, RADISH_E_FORMAT, "elements of uint64 claimed", "array"},
    {"strings past the end", long_string_array, RADISH_E_FORMAT, "1073741824 strings claimed", "array"},
    {"a string of an array past the end", string_in_array_too_long, RADISH_E_FORMAT, "key 'array': element 0: a string claims", "array"},
    {"alignment 0", alignment_0, RADISH_E_FORMAT, "general.alignment is 0", "general.alignment"},
    {"alignment 24", alignment_24, RADISH_E_FORMAT, "general.alignment is 24", "general.alignment"},
    {"alignment of a wrong type", alignment_text, RADISH_E_FORMAT, "'general.alignment' is of type string", "general.alignment"},
    {"alignment beyond the file", alignment_huge, RADISH_E_FORMAT, "ends before its tensor data", ""},
    {"long tensor name", long_name, RADISH_E_FORMAT, "a tensor's name claims 1048576 bytes", ""},
    {"empty tensor name", empty_name, RADISH_E_FORMAT, "a tensor's name of 0 bytes", ""},
    {"the same tensor twice", same_name, RADISH_E_FORMAT, "tensor 'a.weight' occurs twice", "a.weight"},
    {"no dimensions", no_dims, RADISH_E_FORMAT, "'b.weight' has 0 dimensions", "b.weight"},
    {"five dimensions", five_dims, RADISH_E_FORMAT, "'b.weight' has 5 dimensions", "b.weight"},
    {"endless dimensions", endless_dims, RADISH_E_FORMAT, "'b.weight' has 4294967295 dimensions", "b.weight"},
    {"a dimension of 0", zero_dim, RADISH_E_FORMAT, "'b.weight': dimension 1 is 0", "b.weight"},
    {"overflowing shape", overflowing_shape, RADISH_E_FORMAT, "'b.weight': dimension 1 is 8", "b.weight"},
    {"overflowing size", overflowing_bytes, RADISH_E_FORMAT, "'a.weight'", "a.weight"},
    {"shape larger than the file", large_shape, RADISH_E_FORMAT, "'b.weight': 71303168 bytes at offset 64 run past the end", "b.weight"},
    {"row of no whole blocks", cut_block, RADISH_E_FORMAT, "rows of 50 elements are no whole blocks of Q8_0", "b.weight"},
    {"unknown element type", unknown_dtype, RADISH_E_UNSUPPORTED, "'b.weight': element type 99 is not supported; supported are F32, F16", "b.weight"},
    {"withdrawn element type", withdrawn_dtype, RADISH_E_UNSUPPORTED, "element type 31 Q4_0_4_4 is not supported", "b.weight"},
    {"offset not aligned", crooked_offset, RADISH_E_FORMAT, "'b.weight': offset 65 is not aligned to 32", "b.weight"},
    {"offset past the end", far_offset, RADISH_E_FORMAT, "at offset 1048576 run past the end", "b.weight"},
    {"overflowing offset", endless_offset, RADISH_E_FORMAT, "run past the end", "b.weight"},
    {"overlap", overlap, RADISH_E_FORMAT, "tensors 'a.weight' and 'b.weight' overlap", "b.weight"},
    {"the same place", same_offset, RADISH_E_FORMAT, "overlap", ""},
    {"one byte of data missing", short_data, RADISH_E_FORMAT, "'c.bias': 10 bytes at offset 224 run past the end", "c.bias"},
    {"no data at all", no_data, RADISH_E_FORMAT, "'a.weight': 48 bytes at offset 0 run past the end", "a.weight"},
    {"no padding either", no_padding, RADISH_E_FORMAT, "ends before its tensor data", ""},
};
/* clang-format on */

/* Keeps the compiler from leaving out reads. */
static volatile unsigned sink;

/* Opens a copy that is exactly n bytes long. */
static enum radish_status open_copy(const void *bytes, size_t n, struct radish_error *err) {
    struct gguf *gguf;
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    *err = (struct radish_error){0};
    const enum radish_status status = gguf_open_memory(copy, n, &gguf, err);
    assert_true((status == RADISH_OK) == (gguf != NULL));
    assert_int_equal(err->status, status);
    if (gguf) { /* every tensor's bytes can be read */
        unsigned sum = 0;
        for (size_t i = 0; i < gguf_n_tensors(gguf); i++) {
            const struct gguf_tensor *t = gguf_tensor(gguf, i);
            for (uint64_t j = 0; j < t->n_bytes; j++) sum += t->data[j];
        }
        sink = sum;
    }
    gguf_close(gguf);
    free(copy);
    return status;
}

static void test_each_fault_is_named_in_one_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gguf_spec spec;
        struct buf bytes;
        struct radish_error err;
        gguf_spec_init(&spec);
        rows[i].bend(&spec);
        gguf_spec_build(&spec, &bytes);
        const enum radish_status status = open_copy(bytes.data, bytes.len, &err);
        if (status != rows[i].status || !strstr(err.msg, rows[i].msg))
            fail_msg("%s: %s: %s", rows[i].what, radish_status_name(status), err.msg);
        if (*rows[i].field && strcmp(err.field, rows[i].field) != 0)
            fail_msg("%s: the field is '%s'", rows[i].what, err.field);
        assert_null(strchr(err.msg, '\n'));
        buf_deinit(&bytes);
    }
}

static void build_rich(struct buf *bytes) {
    struct gguf_spec spec;
    gguf_spec_init(&spec);
    gguf_spec_add_u32(&spec, "general.alignment", 32);
    gguf_spec_add(&spec, "ints", GGUF_ARRAY, "\3\0\0\0\3\0\0\0\0\0\0\0\xFF\xFF\x05\0\0\x80", 18);
    gguf_spec_add(&spec, "strings", GGUF_ARRAY,
                  "\10\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0", 29);
    gguf_spec_add(&spec, "flag", GGUF_BOOL, "\1", 1);
    gguf_spec_build(&spec, bytes);
}

static void test_a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    struct buf bytes;
    struct radish_error err;
    build_rich(&bytes);

    assert_int_equal(open_copy(bytes.data, bytes.len, &err), RADISH_OK);
    for (size_t n = 0; n < bytes.len; n++) {
        if (open_copy(bytes.data, n, &err) != RADISH_E_FORMAT) fail_msg("cut to %zu bytes", n);
        assert_true(strlen(err.msg) > 10);
        if (err.offset > bytes.len) fail_msg("cut to %zu bytes: offset %d", n, (int)err.offset);
    }
    buf_deinit(&bytes);
}

static void test_any_byte_may_have_any_value(void **state) {
    (void)state;
    struct buf bytes;
    struct radish_error err;
    build_rich(&bytes);

    for (size_t i = 0; i < bytes.len - 234; i++) {
        const char kept = bytes.data[i];
        for (int value = 0; value < 256; value += value < 4 || value > 250 ? 1 : 13) {
            bytes.data[i] = (char)value;
            (void)open_copy(bytes.data, bytes.len, &err);
        }
        bytes.data[i] = kept;
    }
    buf_deinit(&bytes);
}

static void test_random_damage_does_no_harm(void **state) {
    (void)state;
    const uint64_t seed = rng_seed_from_system();
    struct buf bytes;
    struct radish_error err;
    uint64_t counter = 0;
    printf("seed %llu\n", (unsigned long long)seed);

    for (int round = 0; round < 3000; round++) {
        build_rich(&bytes);
        for (int i = 0; i < 1 + round % 5; i++) {
            const size_t at = (size_t)(rng_u64(seed, counter++) % (bytes.len - 8));
            const uint64_t shift = rng_u64(seed, counter++) % 64;
            const uint64_t value = rng_u64(seed, counter++) >> shift;
            memcpy(bytes.data + at, &value, 8);
        }
        (void)open_copy(bytes.data, bytes.len, &err);
        buf_deinit(&bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fault_is_named_in_one_line),
        cmocka_unit_test(test_a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_any_byte_may_have_any_value),
        cmocka_unit_test(test_random_damage_does_no_harm),
    };
    return cmocka_run_group_tests_name("gguf_broken", tests, NULL, NULL);
}
