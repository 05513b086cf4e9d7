/* test_registry.c - the table of kernels, the choice among them, and what a device says about it.
 */
#include "kernel/registry.h"

#include "kernel/cpu/cpu_features.h"
#include "kernel/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct registry make_registry(const char *choice) {
    struct registry r;
    struct radish_error err = {0};
    if (registry_init(&r, KERNEL_FAMILY_CPU, &choice, choice ? 1 : 0, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
    return r;
}

static const char *find_name(const struct registry *r, enum kernel_op op, uint32_t format,
                             const struct kernel_shape *shape) {
    static char reason[160];
    const struct kernel_row *row = registry_find(r, op, format, shape, reason, sizeof reason);
    return row ? row->name : "none";
}

static void test_every_name_follows_the_pattern_and_is_unique(void **state) {
    (void)state;
    uint32_t n;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_CPU, &n);
    for (uint32_t i = 0; i < n; i++) {
        char op[64] = "_";
        strcat(strcat(op, kernel_op_name(rows[i].op)), "__");
        assert_non_null(strstr(rows[i].name, op));
        /* The variant is named after what it needs; more may follow, as in ref32. */
        const char *isa = cpu_isa_name(rows[i].isa);
        assert_memory_equal(strstr(rows[i].name, "__") + 2, isa, strlen(isa));
        assert_true(rows[i].formats != 0 && rows[i].tolerance < 1e-4);
        for (uint32_t j = 0; j < i; j++) assert_string_not_equal(rows[i].name, rows[j].name);
    }
}

/* On the CPU the sampler of sample/ draws, not a kernel. */
static void test_every_operation_has_a_plain_c_kernel_for_every_format(void **state) {
    (void)state;
    for (enum kernel_op op = 0; op < KERNEL_OP_SAMPLE; op++) {
        char choice[64] = "";
        strcat(strcat(choice, kernel_op_name(op)), "=ref");
        const struct registry r = make_registry(choice);
        const bool is_kv = op == KERNEL_OP_ATTENTION || op == KERNEL_OP_ROPE_KV_STORE;
        /* f32 and f16 weights read rows as they are: nothing is prepared. */
        const uint32_t first = op == KERNEL_OP_PREPARE ? 2 : 0;
        for (uint32_t f = first; f < (is_kv ? 3 : KERNEL_FORMATS); f++)
            assert_non_null(strstr(find_name(&r, op, 1u << f, NULL), "__ref"));
    }
}

/* Products of bf16 have two classes, of which a machine uses one (device_bit_class()). */
static void test_every_bit_class_of_an_operation_and_format_has_a_plain_variant(void **state) {
    (void)state;
    uint32_t n;
    const struct kernel_row *rows = registry_rows(KERNEL_FAMILY_CPU, &n);
    for (uint32_t i = 0; i < n; i++) {
        bool has_plain = false, may_differ = rows[i].formats == KERNEL_BF16;
        for (uint32_t j = 0; j < n; j++) {
            if (rows[i].op != rows[j].op || !(rows[i].formats & rows[j].formats)) continue;
            const bool is_same = !strcmp(rows[i].bit_class, rows[j].bit_class);
            has_plain = has_plain || (is_same && rows[j].isa == CPU_ISA_REF);
            if (!may_differ && rows[j].formats != KERNEL_BF16) assert_true(is_same);
        }
        if (!has_plain) fail_msg("%s has no plain variant", rows[i].name);
    }
}

static void test_the_best_variant_the_processor_can_run_is_chosen(void **state) {
    (void)state;
    const struct registry r = make_registry(NULL);
    const char *name = find_name(&r, KERNEL_OP_MATMUL, KERNEL_BF16, NULL);
    const char *expected = cpu_has_isa(CPU_ISA_AMX)          ? "bf16_f32_matmul__amx"
                           : cpu_has_isa(CPU_ISA_AVX512BF16) ? "bf16_f32_matmul__avx512bf16"
                           : cpu_has_isa(CPU_ISA_AVX512)     ? "bf16_f32_matmul__avx512"
                           : cpu_has_isa(CPU_ISA_AVX2)       ? "bf16_f32_matmul__avx2"
                           : cpu_has_isa(CPU_ISA_NEONBF16)   ? "bf16_f32_matmul__neonbf16"
                           : cpu_has_isa(CPU_ISA_NEON)       ? "bf16_f32_matmul__neon"
                                                             : "bf16_f32_matmul__ref";
    assert_string_equal(name, expected);
}

static void test_a_forced_variant_is_chosen_for_its_operation_only(void **state) {
    (void)state;
    const struct registry automatic = make_registry(NULL), forced = make_registry("matmul=ref");
    assert_string_equal(find_name(&forced, KERNEL_OP_MATMUL, KERNEL_I8, NULL),
                        "i8_f32_matmul__ref");
    assert_string_equal(find_name(&forced, KERNEL_OP_MATMUL, KERNEL_F32, NULL),
                        "f32_f32_matmul__ref");
    assert_string_equal(find_name(&forced, KERNEL_OP_ATTENTION, KERNEL_F16, NULL),
                        find_name(&automatic, KERNEL_OP_ATTENTION, KERNEL_F16, NULL));
}

static void test_a_full_name_forces_only_the_formats_it_reads(void **state) {
    (void)state;
    const struct registry automatic = make_registry(NULL);
    const struct registry forced = make_registry("matmul=bf16_f32_matmul__ref");
    assert_string_equal(find_name(&forced, KERNEL_OP_MATMUL, KERNEL_BF16, NULL),
                        "bf16_f32_matmul__ref");
    assert_string_equal(find_name(&forced, KERNEL_OP_MATMUL, KERNEL_F16, NULL),
                        find_name(&automatic, KERNEL_OP_MATMUL, KERNEL_F16, NULL));
}

static void test_unfused_forces_the_best_variant_that_is(void **state) {
    (void)state;
    static const enum cpu_isa isas[] = {CPU_ISA_AVX512, CPU_ISA_AVX2, CPU_ISA_NEON};
    size_t best = 0;
    while (best < 3 && !cpu_has_isa(isas[best])) best++;
    if (best == 3) skip();
    char fused[64] = "kv_f32_rope_kv_store__", unfused[64];
    strcat(fused, cpu_isa_name(isas[best]));
    strcat(strcpy(unfused, fused), "_unfused");
    const struct registry r = make_registry("rope_kv_store=unfused"),
                          automatic = make_registry(NULL);
    for (uint32_t f = 0; f < 3; f++) {
        assert_string_equal(find_name(&r, KERNEL_OP_ROPE_KV_STORE, 1u << f, NULL), unfused);
        assert_string_equal(find_name(&automatic, KERNEL_OP_ROPE_KV_STORE, 1u << f, NULL), fused);
    }
}

/* A group of products has no plain C variant of its own that is fused: ref and unfused are one. */
static void test_ref_switches_the_fusion_of_products_off(void **state) {
    (void)state;
    static const char *const choices[] = {"matmul_group=ref", "matmul_group=unfused",
                                          "matmul_group=any_f32_matmul_group__ref_unfused"};
    const struct registry automatic = make_registry(NULL);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct registry r = make_registry(choices[i]);
        assert_string_equal(find_name(&r, KERNEL_OP_MATMUL_GROUP, KERNEL_F32, NULL),
                            "any_f32_matmul_group__ref_unfused");
    }
    assert_string_equal(find_name(&automatic, KERNEL_OP_MATMUL_GROUP, KERNEL_F32, NULL),
                        "any_f32_matmul_group__ref_fused");
}

static void test_unknown_choices_are_refused_with_the_list(void **state) {
    (void)state;
    static const char *const choices[] = {"matmul=fast",  "matmul=", "matmul=f32_rmsnorm__ref",
                                          "embed=avx512", "matmul",  "=ref",
                                          "conv=ref",     "",        "matmulx=ref"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct registry r;
        struct radish_error err = {0};
        assert_int_equal(registry_init(&r, KERNEL_FAMILY_CPU, &choices[i], 1, &err),
                         RADISH_E_UNSUPPORTED);
        assert_string_equal(err.field, "--kernel");
        if (i < 3) assert_non_null(strstr(err.msg, "this machine has ref, ref32"));
        if (i > 3) assert_non_null(strstr(err.msg, "rope_kv_store"));
    }
}

static void test_a_shape_that_the_best_kernel_lacks_falls_back_with_a_reason(void **state) {
    (void)state;
    if (!cpu_has_isa(CPU_ISA_AVX2) && !cpu_has_isa(CPU_ISA_NEON)) skip();
    const struct registry r = make_registry(NULL);
    struct kernel_shape shape = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 20, .v_head_dim = 20};
    char reason[160];

    const struct kernel_row *row =
        registry_find(&r, KERNEL_OP_ATTENTION, KERNEL_F16, &shape, reason, sizeof reason);

    assert_string_equal(row->name, "kv_f32_attention__ref");
    assert_non_null(strstr(reason, "not f16_f32_attention__"));
    assert_non_null(strstr(reason, "20"));
    shape.head_dim = 1000;
    assert_null(registry_find(&r, KERNEL_OP_ATTENTION, KERNEL_F16, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "1000"));
}

static struct device *open_device(const char *choice, enum radish_precision precision) {
    const struct device_options options = {
        .n_threads = 1, .precision = precision, .kernels = &choice, .n_kernels = choice ? 1 : 0};
    struct device *device;
    struct radish_error err = {0};
    if (device_open("cpu", &options, &device, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return device;
}

static void test_a_device_tells_its_kernels_and_why(void **state) {
    (void)state;
    struct device *device = open_device("attention=ref", RADISH_PRECISION_EXACT);
    assert_non_null(strstr(device_kernels(device), "attention=kv_f32_attention__ref"));
    assert_non_null(strstr(device_kernels(device), "embed=any_f32_embed__ref"));
    assert_non_null(strstr(device_kernels_report(device), "forced by --kernel"));
    assert_non_null(strstr(device_kernels_report(device), "kseq_i8"));
    assert_string_equal(device_bit_class(device), "cpu-exact-2");
    assert_int_equal(device_n_threads(device), 1);
    assert_int_equal(device_precision(device), RADISH_PRECISION_EXACT);
    device_close(device);
}

static void test_a_kernel_that_is_passed_over_is_told_once_when_it_is_asked_for(void **state) {
    (void)state;
    if (!cpu_has_isa(CPU_ISA_AVX2) && !cpu_has_isa(CPU_ISA_NEON)) skip();
    const struct kernel_shape shape = {.kv_dtype = RADISH_DTYPE_F16,
                                       .n_heads = 2,
                                       .n_kv_heads = 1,
                                       .head_dim = 20,
                                       .v_head_dim = 20};
    struct device *device = open_device(NULL, RADISH_PRECISION_FAST);
    char reason[160];
    assert_null(strstr(device_kernels_report(device), "not f16_f32_attention__"));

    for (int i = 0; i < 2; i++)
        assert_true(
            device->ops->supports(device, KERNEL_OP_ATTENTION, &shape, reason, sizeof reason));

    const char *told = strstr(device_kernels_report(device), "not f16_f32_attention__");
    assert_non_null(told);
    assert_null(strstr(told + 1, "not f16_f32_attention__"));
    device_close(device);
}

static void test_unknown_devices_and_kernels_are_refused_at_open(void **state) {
    (void)state;
    const char *choice = "matmul=nothing";
    const struct device_options plain = {.n_threads = 1};
    const struct device_options forced = {.n_threads = 1, .kernels = &choice, .n_kernels = 1};
    struct device *device;
    struct radish_error err;
    assert_int_equal(device_open("tpu", &plain, &device, &err), RADISH_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "tpu"));
    assert_null(device);
    assert_int_equal(device_open("cpu", &forced, &device, &err), RADISH_E_UNSUPPORTED);
    assert_null(device);
}

static void test_supports_refuses_what_no_kernel_reads_and_says_so(void **state) {
    (void)state;
    struct device *device = open_device(NULL, RADISH_PRECISION_FAST);
    struct kernel_shape shape = {.weight_dtype = RADISH_DTYPE_I32,
                                 .kv_dtype = RADISH_DTYPE_F16,
                                 .n_out = 16,
                                 .n_in = 64,
                                 .n_heads = 9,
                                 .n_kv_heads = 3,
                                 .head_dim = 64,
                                 .v_head_dim = 64,
                                 .rotary_dim = 64};
    char reason[160];
    assert_false(device->ops->supports(device, KERNEL_OP_MATMUL, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "I32"));
    shape.weight_dtype = RADISH_DTYPE_Q4_K;
    for (enum kernel_op op = 0; op < KERNEL_OP_SAMPLE; op++)
        assert_true(device->ops->supports(device, op, &shape, reason, sizeof reason));
    assert_false(device->ops->supports(device, KERNEL_OP_SAMPLE, &shape, reason, sizeof reason));
    shape.kv_dtype = RADISH_DTYPE_Q8_0;
    assert_false(device->ops->supports(device, KERNEL_OP_ATTENTION, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "Q8_0"));
    shape.kv_dtype = RADISH_DTYPE_F16;
    shape.n_kv_heads = 2;
    assert_false(device->ops->supports(device, KERNEL_OP_ATTENTION, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "9 heads"));
    device_close(device);
}

static void test_weights_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const uint8_t data[4096];
    struct device *device = open_device(NULL, RADISH_PRECISION_FAST);
    const char *name = "blk.0.attn_q.weight";
    const struct weight_desc bad[] = {
        {.dtype = RADISH_DTYPE_Q4_0, .n_out = 4, .n_in = 33, .is_multiplied = true},
        {.dtype = RADISH_DTYPE_I32, .n_out = 4, .n_in = 32, .is_multiplied = true},
        {.dtype = RADISH_DTYPE_F32, .n_out = 0, .n_in = 32, .is_multiplied = true},
        {.dtype = RADISH_DTYPE_I32, .n_out = 4, .n_in = 32, .is_gathered = true},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weight_desc desc = bad[i];
        struct weight *w;
        struct radish_error err = {0};
        desc.name = name;
        desc.data = data;
        assert_int_not_equal(device->ops->weight_create(device, &desc, &w, &err), RADISH_OK);
        assert_null(w);
        assert_non_null(strstr(err.msg, name));
    }
    device_close(device);
}

static void test_the_kv_dtype_of_auto_follows_precision_and_model(void **state) {
    (void)state;
    const enum dtype bf16 = RADISH_DTYPE_BF16, f16 = RADISH_DTYPE_F16, f32 = RADISH_DTYPE_F32;
    assert_int_equal(device_kv_dtype(RADISH_KV_AUTO, RADISH_PRECISION_EXACT, bf16), f32);
    assert_int_equal(device_kv_dtype(RADISH_KV_AUTO, RADISH_PRECISION_FAST, bf16), bf16);
    assert_int_equal(device_kv_dtype(RADISH_KV_AUTO, RADISH_PRECISION_FAST, f32), f16);
    assert_int_equal(device_kv_dtype(RADISH_KV_F32, RADISH_PRECISION_FAST, bf16), f32);
    assert_int_equal(device_kv_dtype(RADISH_KV_F16, RADISH_PRECISION_EXACT, bf16), f16);
    assert_int_equal(device_kv_dtype(RADISH_KV_BF16, RADISH_PRECISION_EXACT, f32), bf16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_follows_the_pattern_and_is_unique),
        cmocka_unit_test(test_every_operation_has_a_plain_c_kernel_for_every_format),
        cmocka_unit_test(test_every_bit_class_of_an_operation_and_format_has_a_plain_variant),
        cmocka_unit_test(test_the_best_variant_the_processor_can_run_is_chosen),
        cmocka_unit_test(test_a_forced_variant_is_chosen_for_its_operation_only),
        cmocka_unit_test(test_a_full_name_forces_only_the_formats_it_reads),
        cmocka_unit_test(test_unfused_forces_the_best_variant_that_is),
        cmocka_unit_test(test_ref_switches_the_fusion_of_products_off),
        cmocka_unit_test(test_unknown_choices_are_refused_with_the_list),
        cmocka_unit_test(test_a_shape_that_the_best_kernel_lacks_falls_back_with_a_reason),
        cmocka_unit_test(test_a_device_tells_its_kernels_and_why),
        cmocka_unit_test(test_a_kernel_that_is_passed_over_is_told_once_when_it_is_asked_for),
        cmocka_unit_test(test_unknown_devices_and_kernels_are_refused_at_open),
        cmocka_unit_test(test_supports_refuses_what_no_kernel_reads_and_says_so),
        cmocka_unit_test(test_weights_that_cannot_be_are_refused),
        cmocka_unit_test(test_the_kv_dtype_of_auto_follows_precision_and_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
