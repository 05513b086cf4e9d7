/* test_exp.c - exp and tanh of the CPU kernels against libm in double, over all exponents: the
 * vector forms have the bits of the scalar ones, which the tests of the kernels see. */
#include "kernel/cpu/scalar_exp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* |value - expected| in units of the last place of expected. */
static double count_ulps(float value, double expected) {
    int exponent;
    frexp(expected, &exponent);
    return fabs((double)value - expected) / ldexp(1.0, exponent - 24);
}

static void test_exp_is_right_to_two_units_in_the_last_place(void **state) {
    (void)state;
    double worst = 0;
    for (float x = -87.0f; x <= 88.0f; x += 0.0037f) {
        const double ulps = count_ulps(scalar_exp(x), exp((double)x));
        if (ulps > worst) worst = ulps;
    }
    printf("exp: %.2f units\n", worst);
    assert_true(worst <= 2.0);
}

static void test_exp_of_the_ends(void **state) {
    (void)state;
    assert_true(scalar_exp(0.0f) == 1.0f);
    assert_true(scalar_exp(-INFINITY) == 0.0f && scalar_exp(-88.0f) == 0.0f);
    assert_true(isfinite(scalar_exp(INFINITY)));
    assert_true(isnan(scalar_exp(NAN)));
}

static void test_tanh_is_right_to_three_units_in_the_last_place(void **state) {
    (void)state;
    double worst = 0;
    for (float x = 1e-30f; x < 20.0f; x *= 1.0013f) {
        const double ulps = count_ulps(scalar_tanh(x), tanh((double)x));
        const double mirrored = count_ulps(scalar_tanh(-x), tanh(-(double)x));
        if (ulps > worst) worst = ulps;
        if (mirrored > worst) worst = mirrored;
    }
    printf("tanh: %.2f units\n", worst);
    assert_true(worst <= 3.0);
}

static void test_tanh_of_the_ends(void **state) {
    (void)state;
    assert_true(scalar_tanh(0.0f) == 0.0f);
    assert_true(scalar_tanh(INFINITY) == 1.0f && scalar_tanh(-INFINITY) == -1.0f);
    assert_true(isnan(scalar_tanh(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_right_to_two_units_in_the_last_place),
        cmocka_unit_test(test_exp_of_the_ends),
        cmocka_unit_test(test_tanh_is_right_to_three_units_in_the_last_place),
        cmocka_unit_test(test_tanh_of_the_ends),
    };
    return cmocka_run_group_tests_name("exp", tests, NULL, NULL);
}
