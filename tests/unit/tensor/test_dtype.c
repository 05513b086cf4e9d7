/* test_dtype.c - the table of element types, and the 16-bit floats: all 65,536 values of each, and
 * float32 around every rounding border; against the processor's own conversion where it has one. */
#include "test.h"

#include "base/rng.h"
#include "tensor/dtype.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void test_names_and_ids_lead_back_to_the_type(void **state) {
    (void)state;
    enum dtype dtype;
#define X(name, text, gguf_id, safetensors_name, block_elems, block_bytes)                         \
    assert_string_equal(dtype_name(RADISH_DTYPE_##name), text);                                    \
    assert_int_equal(dtype_block_elems(RADISH_DTYPE_##name), block_elems);                         \
    assert_int_equal(dtype_block_bytes(RADISH_DTYPE_##name), block_bytes);                         \
    assert_int_equal(dtype_is_quantised(RADISH_DTYPE_##name), block_elems > 1);                    \
    if (gguf_id != UINT32_MAX) {                                                                   \
        assert_true(dtype_from_gguf(gguf_id, &dtype));                                             \
        assert_int_equal(dtype, RADISH_DTYPE_##name);                                              \
        assert_string_equal(dtype_gguf_name(gguf_id), text);                                       \
    }                                                                                              \
    if (*safetensors_name) {                                                                       \
        assert_true(dtype_from_safetensors(safetensors_name, &dtype));                             \
        assert_int_equal(dtype, RADISH_DTYPE_##name);                                              \
        assert_string_equal(dtype_safetensors_name(dtype), safetensors_name);                      \
    }
#include "tensor/dtype.def"
#undef X
}

static void test_unknown_types_are_not_found(void **state) {
    (void)state;
    enum dtype dtype;
    assert_false(dtype_from_gguf(4, &dtype));
    assert_false(dtype_from_gguf(99, &dtype));
    assert_false(dtype_from_gguf(UINT32_MAX, &dtype));
    assert_false(dtype_from_safetensors("", &dtype));
    assert_false(dtype_from_safetensors("f32", &dtype));
    assert_string_equal(dtype_gguf_name(31), "Q4_0_4_4");
    assert_null(dtype_gguf_name(99));
    assert_null(dtype_safetensors_name(RADISH_DTYPE_Q4_K));
}

static void test_the_readable_types_are_those_that_are_named(void **state) {
    (void)state;
    char names[200] = "";
    for (int i = 0; i < RADISH_DTYPE_COUNT; i++) {
        if (!dtype_can_read((enum dtype)i)) continue;
        if (*names) strcat(names, ", ");
        strcat(names, dtype_name((enum dtype)i));
    }
    assert_string_equal(names, dtype_readable_names());
}

static void test_row_sizes_are_whole_blocks_and_do_not_overflow(void **state) {
    (void)state;
    uint64_t bytes = 1;
    assert_true(dtype_row_bytes(RADISH_DTYPE_Q4_K, 512, &bytes));
    assert_int_equal(bytes, 288);
    assert_false(dtype_row_bytes(RADISH_DTYPE_Q4_K, 500, &bytes));
    assert_int_equal(bytes, 0);
    assert_true(dtype_row_bytes(RADISH_DTYPE_F32, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(dtype_row_bytes(RADISH_DTYPE_F32, UINT64_MAX / 2, &bytes));
}

/* The definition, in double: sign, 2^(e - 15) * 1.m, or 2^-24 * m. */
static void test_every_f16_has_the_value_of_its_definition(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        const float f = dtype_f16_to_f32((uint16_t)h);
        double due = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        if (exponent == 31) due = mantissa ? (double)NAN : (double)INFINITY;
        assert_int_equal(signbit(f) != 0, h >> 15);
        if (isnan(due))
            assert_true(isnan(f));
        else
            assert_true(fabs((double)f) == due);
        if (!isnan(due)) assert_int_equal(dtype_f32_to_f16(f), h);
        if (isnan(due)) assert_int_equal(dtype_f32_to_f16(f), h | 0x200);
    }
}

static void test_f32_to_f16_rounds_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    /* Between every two neighbours: just below the middle, the middle, just above. */
    for (uint32_t h = 0; h < 0x7C00; h++) {
        const uint32_t a = bits_of(dtype_f16_to_f32((uint16_t)h));
        /* Above the largest number the next one would be 2^16, which is where infinity begins. */
        const float next = h == 0x7BFF ? 65536.0f : dtype_f16_to_f32((uint16_t)(h + 1));
        const float middle = (float)(((double)float_of(a) + (double)next) / 2);
        const uint32_t m = bits_of(middle);
        assert_int_equal(dtype_f32_to_f16(float_of(m - 1)), h);
        assert_int_equal(dtype_f32_to_f16(middle), h + (h & 1));
        assert_int_equal(dtype_f32_to_f16(float_of(m + 1)), h + 1);
        assert_int_equal(dtype_f32_to_f16(-middle), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(dtype_f32_to_f16(3.4e38f), 0x7C00);
    assert_int_equal(dtype_f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(dtype_f32_to_f16(1e-45f), 0);
    assert_int_equal(dtype_f32_to_f16(float_of(0x7F800001)), 0x7E00);
    assert_int_equal(dtype_f32_to_f16(float_of(0xFFFFFFFF)), 0xFFFF);
}

static void test_f32_to_bf16_rounds_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint32_t u = h << 16;
        const bool is_nan = (h & 0x7FFF) > 0x7F80;
        assert_int_equal(bits_of(dtype_bf16_to_f32((uint16_t)h)), u);
        if (is_nan) {
            assert_int_equal(dtype_f32_to_bf16(float_of(u)), h | 0x40);
            continue;
        }
        assert_int_equal(dtype_f32_to_bf16(float_of(u)), h);
        if ((h & 0x7FFF) == 0x7F80) continue; /* infinity has no upper neighbour */
        assert_int_equal(dtype_f32_to_bf16(float_of(u | 0x7FFF)), h);
        assert_int_equal(dtype_f32_to_bf16(float_of(u | 0x8000)), h + (h & 1));
        assert_int_equal(dtype_f32_to_bf16(float_of(u | 0x8001)), h + 1);
    }
    /* A NaN whose payload is only in the lower half must not become infinity. */
    assert_int_equal(dtype_f32_to_bf16(float_of(0x7F800001)), 0x7FC0);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware_f16(float f) {
    return (uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float hardware_f32(uint16_t h) {
    return _cvtsh_ss(h);
}

static void test_f16_conversions_equal_the_processors(void **state) {
    (void)state;
    const uint64_t seed = rng_seed_from_system();
    if (!__builtin_cpu_supports("avx2")) skip();
    for (uint32_t h = 0; h < 65536; h++)
        assert_int_equal(bits_of(dtype_f16_to_f32((uint16_t)h)),
                         bits_of(hardware_f32((uint16_t)h)));
    for (uint64_t i = 0; i < 2000000; i++) {
        const float f = float_of((uint32_t)rng_u64(seed, i));
        if (dtype_f32_to_f16(f) != hardware_f16(f))
            fail_msg("%08x (seed %llu)", bits_of(f), (unsigned long long)seed);
    }
}
#endif

static void test_plain_types_are_read_from_any_address(void **state) {
    (void)state;
    uint8_t bytes[1 + 3 * 4];
    float out[3];
    const float values[3] = {1.5f, -0.0f, 3.25e-20f};

    memcpy(bytes + 1, values, sizeof values);
    dtype_to_f32(RADISH_DTYPE_F32, bytes + 1, out, 3);
    assert_memory_equal(out, values, sizeof values);
    const uint16_t halves[3] = {0x3C00, 0xC000, 0x0001};
    memcpy(bytes + 1, halves, sizeof halves);
    dtype_to_f32(RADISH_DTYPE_F16, bytes + 1, out, 3);
    assert_true(out[0] == 1.0f && out[1] == -2.0f && out[2] == 0x1p-24f);
    const uint16_t brains[3] = {0x3F80, 0xC000, 0x0001};
    memcpy(bytes + 1, brains, sizeof brains);
    dtype_to_f32(RADISH_DTYPE_BF16, bytes + 1, out, 3);
    assert_true(out[0] == 1.0f && out[1] == -2.0f && bits_of(out[2]) == 0x10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_ids_lead_back_to_the_type),
        cmocka_unit_test(test_unknown_types_are_not_found),
        cmocka_unit_test(test_the_readable_types_are_those_that_are_named),
        cmocka_unit_test(test_row_sizes_are_whole_blocks_and_do_not_overflow),
        cmocka_unit_test(test_every_f16_has_the_value_of_its_definition),
        cmocka_unit_test(test_f32_to_f16_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(test_f32_to_bf16_rounds_to_the_nearest_and_ties_to_even),
#if defined(__x86_64__)
        cmocka_unit_test(test_f16_conversions_equal_the_processors),
#endif
        cmocka_unit_test(test_plain_types_are_read_from_any_address),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
