/* test_pack.c - a plain matrix that is quantised while it is packed lies in memory as one that came
 * in blocks, bit for bit: every type, from every plain type, in every form, on a device too. */
#include "test.h"

#include "base/rng.h"
#include "kernel/cpu/pack.h"
#include "kernel/kernel.h"
#include "tensor/quantise.h"

#include <math.h>

enum { N_OUT = 37, N_IN = 512 };

static const enum dtype made[] = {RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q6_K, RADISH_DTYPE_Q5_K,
                                  RADISH_DTYPE_Q5_1, RADISH_DTYPE_Q5_0, RADISH_DTYPE_Q4_K,
                                  RADISH_DTYPE_Q4_1, RADISH_DTYPE_Q4_0};
static const enum dtype plain[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
enum { N_MADE = sizeof made / sizeof *made, N_PLAIN = sizeof plain / sizeof *plain };

static float numbers[N_OUT * N_IN];          /* as the file's type holds them */
static uint8_t file[N_OUT * N_IN * 4];       /* the same in that type */
static uint8_t blocks[N_OUT * N_IN * 2];     /* the same in the quantised type */
static uint8_t packed[2][N_OUT * N_IN * 12]; /* whole panels */

static void make_file(enum dtype dtype) {
    for (uint64_t i = 0; i < N_OUT * N_IN; i++) {
        float x = (float)(int64_t)(rng_u64(5, i) >> 40) / 8388608.0f - 1;
        uint16_t half = dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(x) : dtype_f32_to_bf16(x);
        if (dtype == RADISH_DTYPE_F32)
            memcpy(file + 4 * i, &x, 4);
        else
            memcpy(file + 2 * i, &half, 2);
    }
    dtype_to_f32(dtype, file, numbers, N_OUT * N_IN);
}

static void pack(struct weight *w, enum dtype dtype, enum dtype data_dtype, const void *data,
                 enum pack_format format, uint8_t *out) {
    const struct pack_source source = {data, data_dtype};
    assert_true(pack_layout(dtype, format, N_OUT, N_IN, w));
    assert_true(w->bytes <= sizeof *packed);
    memset(out, 0, sizeof *packed);
    w->data = out;
    for (uint32_t panel = 0; panel < w->n_panels; panel++)
        assert_true(pack_panel(w, &source, panel));
}

static void test_quantising_while_packing_gives_the_panels_of_blocks(void **state) {
    (void)state;
    for (size_t p = 0; p < N_PLAIN; p++) {
        make_file(plain[p]);
        for (size_t m = 0; m < N_MADE; m++) {
            const enum pack_format formats[] = {PACK_RAW,
                                                pack_format_for(made[m], RADISH_PRECISION_FAST),
                                                pack_format_for(made[m], RADISH_PRECISION_EXACT)};
            assert_true(quantise_row(made[m], numbers, N_OUT * N_IN, blocks));
            for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
                struct weight here, there;
                pack(&here, made[m], plain[p], file, formats[f], packed[0]);
                pack(&there, made[m], made[m], blocks, formats[f], packed[1]);
                assert_memory_equal(packed[0], packed[1], here.bytes);
                float row[N_IN], due[N_IN];
                pack_row_to_f32(&here, 35, row);
                dtype_to_f32(made[m], blocks + 35 * here.row_bytes, due, N_IN);
                assert_memory_equal(row, due, sizeof row);
            }
        }
    }
}

/* Decoding reads all weights once a token, so what they take in memory is what it costs. */
static void test_a_pack_is_hardly_larger_than_the_file(void **state) {
    (void)state;
    static const struct {
        enum dtype dtype;
        uint32_t thousandths; /* that it may be larger */
    } limits[] = {{RADISH_DTYPE_Q4_0, 0},  {RADISH_DTYPE_Q4_1, 0},  {RADISH_DTYPE_Q5_0, 0},
                  {RADISH_DTYPE_Q5_1, 0},  {RADISH_DTYPE_Q8_0, 0},  {RADISH_DTYPE_Q2_K, 0},
                  {RADISH_DTYPE_Q3_K, 37}, {RADISH_DTYPE_Q4_K, 28}, {RADISH_DTYPE_Q5_K, 23},
                  {RADISH_DTYPE_Q6_K, 10}};
    uint32_t n_types = 0;
    for (int t = 0; t < RADISH_DTYPE_COUNT; t++)
        n_types += pack_format_for((enum dtype)t, RADISH_PRECISION_FAST) == PACK_I8;
    assert_int_equal(n_types, sizeof limits / sizeof *limits);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct weight w;
        assert_true(pack_layout(limits[i].dtype, PACK_I8, 1024, 3072, &w));
        const uint64_t file_bytes = (uint64_t)w.row_bytes * w.n_out;
        if (w.bytes * 1000 > file_bytes * (1000 + limits[i].thousandths))
            fail_msg("%s: %zu bytes for %llu of the file", dtype_name(limits[i].dtype), w.bytes,
                     (unsigned long long)file_bytes);
    }
}

static void test_a_device_quantises_and_refuses_what_has_no_place(void **state) {
    (void)state;
    struct device *device;
    struct radish_error err = {0};
    struct weight *w;
    const struct device_options options = {.n_threads = 2};
    make_file(RADISH_DTYPE_F32);
    assert_int_equal(device_open("cpu", &options, &device, &err), RADISH_OK);
    struct weight_desc desc = {.name = "blk.0.ffn_up.weight",
                               .dtype = RADISH_DTYPE_Q4_0,
                               .n_out = N_OUT,
                               .n_in = N_IN,
                               .data = file,
                               .is_quantised_here = true,
                               .data_dtype = RADISH_DTYPE_F32,
                               .is_multiplied = true};
    assert_int_equal(device->ops->weight_create(device, &desc, &w, &err), RADISH_OK);
    float row[N_IN], due[N_IN];
    assert_true(quantise_row(RADISH_DTYPE_Q4_0, numbers, N_OUT * N_IN, blocks));
    pack_row_to_f32(w, N_OUT - 1, row);
    dtype_to_f32(RADISH_DTYPE_Q4_0, blocks + (N_OUT - 1) * (N_IN / 32 * 18), due, N_IN);
    assert_memory_equal(row, due, sizeof row);
    device->ops->weight_destroy(device, w);

    const float infinity = INFINITY;
    memcpy(file + 4 * (20 * N_IN + 77), &infinity, sizeof infinity);
    assert_int_equal(device->ops->weight_create(device, &desc, &w, &err), RADISH_E_UNSUPPORTED);
    assert_null(w);
    assert_string_equal(err.field, "blk.0.ffn_up.weight");
    assert_non_null(strstr(err.msg, "not finite, or too large for Q4_0"));
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantising_while_packing_gives_the_panels_of_blocks),
        cmocka_unit_test(test_a_pack_is_hardly_larger_than_the_file),
        cmocka_unit_test(test_a_device_quantises_and_refuses_what_has_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
