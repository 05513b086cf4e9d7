/* test_msl_pass.c - the pre-pass over Metal source: what it writes, and what it refuses where.
 *
 * Whether the C++ is right is for the compiler and the tests of kernels to say; here are the
 * pieces, one by one, and messages with their places. */
#include "test.h"

#include "base/buf.h"
#include "msl_pass.h"

#include <unistd.h>

#define PRAGMAS                                                                                    \
    "#pragma METAL fp math_mode(safe)\n#pragma METAL fp contract(off)\n# 1 \"k.metal\" 1\n"

struct result {
    enum radish_status status;
    struct buf cpp, errors;
};

static struct result translate(const char *source) {
    struct result r = {0};
    struct radish_error err = {0};
    r.status = msl_translate(source, strlen(source), &r.cpp, &r.errors, &err);
    return r;
}

static void result_deinit(struct result *r) {
    buf_deinit(&r->cpp);
    buf_deinit(&r->errors);
}

static void gives(const char *source, const char *part) {
    char text[4096];
    snprintf(text, sizeof text, PRAGMAS "%s", source);
    struct result r = translate(text);
    if (r.status != RADISH_OK) fail_msg("%s", r.errors.data);
    if (!strstr(r.cpp.data, part)) fail_msg("no '%s' in: %s", part, r.cpp.data);
    result_deinit(&r);
}

static void refuses(const char *source, const char *message) {
    char text[4096];
    snprintf(text, sizeof text, PRAGMAS "%s", source);
    struct result r = translate(text);
    assert_int_equal(r.status, RADISH_E_FORMAT);
    assert_non_null(r.errors.data);
    if (!strstr(r.errors.data, message)) fail_msg("no '%s' in: %s", message, r.errors.data);
    result_deinit(&r);
}

static void address_spaces_become_macros(void **state) {
    (void)state;
    gives("static float f(const device float *x) { return x[0]; }",
          "static float f(const MSL_device float *x)");
    gives("static void f(threadgroup float *x, thread float4 &y) { }",
          "f(MSL_threadgroup float *x, MSL_thread float4 &y)");
    gives("static int device_of(int devices) { return devices; }", "int device_of(int devices)");
}

static void literals_are_floats(void **state) {
    (void)state;
    gives("constant float a = 1.0;", "a = 1.0f;");
    gives("constant float a = .5e-3;", "a = .5e-3f;");
    gives("constant float a = 1e5;", "a = 1e5f;");
    gives("constant float a = 0x1p-3;", "a = 0x1p-3f;");
    gives("constant float a = 0x1e5;", "a = 0x1e5;");
    gives("constant half a = 1.5h;", "a = half(1.5f);");
    gives("constant float a = 2.f;", "a = 2.f;");
}

static void vectors_are_made_by_a_function(void **state) {
    (void)state;
    gives("static float4 f(half4 h) { return float4(h); }", "return msl_make<float4>(h);");
    gives("static float4 f(half4 h) { return static_cast<float4>(h); }",
          "return msl_make<float4>(h);");
    gives("static float4 f(float4 float4_like) { return float4_like; }", "return float4_like;");
}

static void constants_of_functions_are_registered(void **state) {
    (void)state;
    gives("constant uint N [[function_constant(3)]];", "MSL_FC( uint, N,3)");
    gives("constant uint N [[function_constant(3)]];\nconstant uint HALF = N / 2;",
          "#define HALF (( uint)( N / 2))");
    gives("constant float t[2] = {1.0, 2.0};", "static MSL_constant float t[2] = {1.0f, 2.0f};");
    gives("static constant float t[1] = {1.0};", "static MSL_constant float t[1]");
}

static void threadgroup_variables_are_references(void **state) {
    (void)state;
    gives("kernel void k(device float *x [[buffer(0)]]) { threadgroup float s[4][2]; x[0] = 1; }",
          "typedef  float s_shared_t[4][2]; MSL_SHARED(s_shared_t, s);");
    gives("kernel void k(device float *x [[buffer(0)]]) { threadgroup int a[4], b; x[0] = 1; }",
          "MSL_SHARED(a_shared_t, a); typedef  int b_shared_t; MSL_SHARED(b_shared_t, b);");
    gives("static float f(threadgroup float *s) { threadgroup float *t = s; return t[0]; }",
          "MSL_threadgroup float *t = s;");
    refuses("static void f() { threadgroup float s[4]; }",
            "k.metal:1: a threadgroup variable outside of a kernel");
    refuses("kernel void k(device float *x [[buffer(0)]]) { threadgroup float s[4] = {}; }",
            "without a value");
}

static void kernels_are_called_as_they_say(void **state) {
    (void)state;
    static const char source[] =
        "template <typename T> [[max_total_threads_per_threadgroup(64)]]\n"
        "kernel void k(constant uint &n [[buffer(I_N)]], const device T *x [[buffer(1)]],\n"
        "  device T *y [[buffer(2)]], threadgroup float *s [[threadgroup(0)]],\n"
        "  uint i [[thread_position_in_grid]]) { y[i] = x[i]; }\n"
        "template [[host_name(\"k_\" \"f32\")]] kernel decltype(k<float>) k<float>;\n";
    gives(source, "k<float>(msl::Ref{A.buffers[I_N]}, msl::Ptr{A.buffers[1]}, "
                  "msl::Ptr{A.buffers[2]}, msl::Ptr{A.shared[0]}, "
                  "msl::Position{L.thread_position_in_grid});");
    gives(source, "{MSL_BINDING_BUFFER, msl::index_of<(I_N)>(), true, true, "
                  "msl::param_align<0>(k<float>), \"n\"}");
    gives(source, "{MSL_BINDING_BUFFER, msl::index_of<(2)>(), false, false, "
                  "msl::param_align<2>(k<float>), \"y\"}");
    gives(source, "{\"k_\" \"f32\", \"k.metal\", 2, msl_bindings_0, 4, 64}");
    gives(source, "void k(MSL_constant uint &n, const MSL_device T *x,\n");
    gives(source, "template decltype(k<float>) k<float>;"); /* where spaces are only checked */
}

static void what_a_kernel_reaches_is_found_through_functions(void **state) {
    (void)state;
    static const char source[] =
        "constant uint A [[function_constant(0)]];\n"
        "constant uint B [[function_constant(1)]];\n"
        "constant uint C [[function_constant(2)]];\n"
        "constant uint D [[function_constant(3)]];\n"
        "constant uint TWICE = B * 2;\n"
        "static uint inner(uint x) { return x + TWICE; }\n"
        "static uint outer(uint x) { return inner(x) + simd_sum(x); }\n"
        "static uint alone(uint x) { return x + C; }\n"
        "kernel void k(device uint *x [[buffer(0)]]) { x[0] = outer(A); }\n"
        "kernel void m(device uint *x [[buffer(0)]]) {\n"
        "  x[0] = alone(1) + (is_function_constant_defined(D) ? D : 0); }\n";
    gives(source, "msl_uses_0[] = {&A, &B, nullptr};");
    gives(source, "msl_thunk_0, msl_uses_0, true);");
    gives(source, "msl_uses_1[] = {&C, nullptr};");
    gives(source, "msl_thunk_1, msl_uses_1, false);");
}

static void lines_stay_where_they_were(void **state) {
    (void)state;
    static const char source[] = "constant float a = 1.0;\n"
                                 "kernel void k(device float *x [[\nbuffer(0)]],\n uint i\n"
                                 " [[thread_position_in_grid]]) {\n"
                                 "  x[i] = a; }\n";
    char text[1024];
    snprintf(text, sizeof text, PRAGMAS "%s", source);
    struct result r = translate(text);
    assert_int_equal(r.status, RADISH_OK);
    const char *start = strstr(r.cpp.data, "#line 1 \"k.metal\"\n");
    assert_non_null(start);
    size_t line = 0;
    for (const char *at = start; at < strstr(start, "x[i] = a"); at++) line += *at == '\n';
    assert_int_equal(line, 6);
    result_deinit(&r);
}

static void what_kernels_may_not_use_is_refused(void **state) {
    (void)state;
    refuses("\n\nstatic double f() { return 1; }", "k.metal:3: double is not for kernels");
    refuses("static float f() { return 1.0L; }", "1.0L is a long double");
    refuses("static void f() { goto end; end: return; }", "goto");
    refuses("namespace a { }", "namespace");
    refuses("static long long f() { return 1; }", "long long");
    refuses("static void f() { auto g = [&](int x) { return x; }; }", "lambdas");
    refuses("kernel void k(device float *x) { }", "has one attribute, not 0");
    refuses("kernel void k(device float *x [[buffer(0)]], uint i) { }", "has one attribute");
    refuses("kernel void k(device float *x [[buffer]]) { }", "an attribute without an index");
    refuses("kernel void k(device float *x [[stage_in]]) { }", "not known: stage_in");
    refuses("kernel void k(threadgroup float *x [[buffer(0)]]) { }", "device or constant memory");
    refuses("kernel void k(device float *x [[threadgroup(0)]]) { }", "threadgroup memory");
    refuses("kernel void k(thread float *x [[buffer(0)]]) { }", "device or constant memory");
    refuses("constant int N [[function_constant(1)]];\nconstant int N [[function_constant(2)]];",
            "k.metal:2: N is a constant already");
    refuses("template [[host_name(\"x\")]] kernel decltype(k<float>) k<float>;", "k is no kernel");
    refuses("kernel int k(device float *x [[buffer(0)]]) { }", "expected kernel void");
    refuses("static void f() { (; }", "brackets are not balanced");
}

static void a_file_has_to_ask_for_exact_arithmetic(void **state) {
    (void)state;
    struct result r = translate("# 1 \"k.metal\"\n#pragma METAL fp math_mode(safe)\nint x;\n");
    assert_int_equal(r.status, RADISH_E_FORMAT);
    assert_non_null(strstr(r.errors.data, "contract(off)"));
    result_deinit(&r);
    r = translate("# 1 \"k.metal\"\nint f() { return 1; }\n" PRAGMAS);
    assert_int_equal(r.status, RADISH_E_FORMAT);
    assert_non_null(strstr(r.errors.data, "contract(off)"));
    result_deinit(&r);
}

static void a_byte_that_begins_nothing_is_an_error_with_a_place(void **state) {
    (void)state;
    static const char source[] = "# 7 \"k.metal\"\nint x;\n  \x01\n";
    struct buf cpp = {0}, errors = {0};
    struct radish_error err = {0};
    assert_int_equal(msl_translate(source, strlen(source), &cpp, &errors, &err), RADISH_E_FORMAT);
    assert_string_equal(err.msg, "k.metal:8: no token begins with byte 0x01");
    buf_deinit(&cpp);
    buf_deinit(&errors);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_flat_text_has_each_file_once(void **state) {
    (void)state;
    char folder[] = "/tmp/msl_flat_XXXXXX", path[4][64];
    static const char *const names[4] = {"a.metal", "b.metal", "one.h", "two.h"};
    static const char *const texts[4] = {"#include <metal_stdlib>\n#include \"one.h\"\nint a;\n",
                                         "# include \"two.h\"\n#include \"one.h\"\nint b;",
                                         "#include \"two.h\"\nint one;\n", "int two;\n"};
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 4; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
        write_text(path[i], texts[i]);
    }
    struct msl_flat flat;
    struct radish_error err = {0};
    msl_flat_init(&flat);
    assert_int_equal(msl_flat_add(&flat, path[0], &err), RADISH_OK);
    assert_int_equal(msl_flat_add(&flat, path[1], &err), RADISH_OK);
    assert_string_equal(flat.text.data, "#line 1 \"a.metal\"\n#include <metal_stdlib>\n"
                                        "#line 1 \"one.h\"\n#line 1 \"two.h\"\nint two;\n"
                                        "#line 2 \"one.h\"\nint one;\n"
                                        "#line 3 \"a.metal\"\nint a;\n"
                                        "#line 1 \"b.metal\"\n#line 2 \"b.metal\"\n"
                                        "#line 3 \"b.metal\"\nint b;\n");
    unlink(path[3]);
    msl_flat_deinit(&flat);
    msl_flat_init(&flat);
    assert_int_equal(msl_flat_add(&flat, path[0], &err), RADISH_E_IO);
    assert_non_null(strstr(err.msg, "two.h: cannot be opened"));
    msl_flat_deinit(&flat);
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_spaces_become_macros),
        cmocka_unit_test(literals_are_floats),
        cmocka_unit_test(vectors_are_made_by_a_function),
        cmocka_unit_test(constants_of_functions_are_registered),
        cmocka_unit_test(threadgroup_variables_are_references),
        cmocka_unit_test(kernels_are_called_as_they_say),
        cmocka_unit_test(what_a_kernel_reaches_is_found_through_functions),
        cmocka_unit_test(lines_stay_where_they_were),
        cmocka_unit_test(what_kernels_may_not_use_is_refused),
        cmocka_unit_test(a_file_has_to_ask_for_exact_arithmetic),
        cmocka_unit_test(a_byte_that_begins_nothing_is_an_error_with_a_place),
        cmocka_unit_test(a_flat_text_has_each_file_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
