/* test_metal_sample.c - draws on the device against the host's sampler: the same token for the same
 * row and the same random number, whatever limits there are.
 *
 * Rows are random, flat, full of ties, mostly -inf, of denormals and zeros of both signs, and as
 * wide as vocabularies are. The host takes its own random number, in double; the device is given it
 * as a float. So a draw may fall to the other side of a border between two tokens, if it lies
 * within the rounding of that float: then, and only then, the tokens may differ, which arithmetic
 * in double over a sorted row decides here. */
#include "base/rng.h"
#include "kernel_check.h"
#include "kernel_memory.h"
#include "sample/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BORDER 1e-5 /* of the mass */

enum { ROWS_MAX = 48, BORDERS_MAX = 2 };

enum kind { UNIFORM, PEAKED, TIES, FLAT, WIDE, MOSTLY_OFF, DENORMAL, N_KINDS };

struct rows {
    struct device *device;
    uint32_t n_rows, width, stride;
    float *logits; /* of the device */
    struct sample_draw *draws;
    int32_t *tokens;
    uint64_t seeds[ROWS_MAX];
};

static uint32_t n_draws, n_borders;

static struct device *open_device(void) {
    struct device *device =
        check_open_named(CHECK_METAL, NULL, /*n_threads=*/1, RADISH_PRECISION_FAST);
    check_memory_from(device);
    return device;
}

static void close_device(struct device *device) {
    check_memory_from(NULL);
    device_close(device);
}

static struct rows make_rows(struct device *device, uint32_t n_rows, uint32_t width) {
    struct rows r = {.device = device, .n_rows = n_rows, .width = width, .stride = width + 3};
    const struct kernel_shape shape = {.n_in = width};
    check_supports(device, KERNEL_OP_SAMPLE, &shape);
    r.logits = check_floats((size_t)n_rows * r.stride); /* padding is NaN */
    r.draws = check_alloc(n_rows * sizeof *r.draws);
    r.tokens = check_alloc((n_rows + 1) * sizeof *r.tokens);
    memset(r.tokens, 0x55, (n_rows + 1) * sizeof *r.tokens);
    return r;
}

static void free_rows(struct rows *r) {
    check_free(r->logits);
    check_free(r->draws);
    check_free(r->tokens);
}

static float *row_of(const struct rows *r, uint32_t row) {
    return r->logits + (size_t)row * r->stride;
}

static void run(const struct rows *r, uint32_t first, uint32_t n_rows) {
    const struct device_vtable *ops = r->device->ops;
    const struct sample_rows_args args = {.logits = row_of(r, first),
                                          .draws = r->draws + first,
                                          .tokens = r->tokens + first,
                                          .n_rows = n_rows,
                                          .width = r->width,
                                          .stride = r->stride};
    ops->step_begin(r->device);
    ops->sample(r->device, &args);
    assert_int_equal(ops->step_submit(r->device), RADISH_OK);
    assert_int_equal(ops->step_wait(r->device), RADISH_OK);
}

/* ---- rows ---- */

static float random_logit(enum kind kind, double x) {
    switch (kind) {
    case UNIFORM: return (float)(10 * x);
    case PEAKED: return (float)(-2 * log(1e-9 + x));
    case TIES: return (float)floor(6 * x);
    case FLAT: return 1.5f;
    case WIDE: return (float)(4e5 * (x - 0.5));
    case MOSTLY_OFF: return x < 0.9 ? -INFINITY : (float)x;
    default: return x < 0.3 ? -0.0f : x < 0.5 ? 0.0f : (float)((x - 0.7) * 1e-38);
    }
}

static void fill_row(const struct rows *r, uint32_t row, enum kind kind, uint64_t seed) {
    for (uint32_t i = 0; i < r->width; i++)
        row_of(r, row)[i] = random_logit(kind, rng_uniform(seed, i + 1));
    if (kind == MOSTLY_OFF) row_of(r, row)[seed % r->width] = 0.25f;
}

/* Limits of a draw: some of each, often none. */
static void choose_draw(const struct rows *r, uint32_t row, uint64_t seed) {
    static const float temperatures[] = {1, 0.7f, 0.01f, 100, 1e-5f, 2, 1e30f, 1e-7f};
    static const float top_ps[] = {1, 0.9f, 0.5f, 1e-6f, 0.95f, 0.1f, 0.999f, 1};
    const uint32_t top_ks[] = {r->width, 1, 2, 20, r->width / 2 + 1, r->width, 50, 300};
    const uint32_t k = top_ks[rng_u64(seed, 1u << 30) % 8];
    const float u = (float)rng_uniform(seed, 0);
    r->draws[row] = (struct sample_draw){
        .top_k = k < r->width ? k : r->width,
        .temperature = temperatures[rng_u64(seed, 2u << 30) % 8],
        .top_p = top_ps[rng_u64(seed, 3u << 30) % 8],
        .min_p = rng_u64(seed, 1) % 3 ? 0 : 0.05f,
        .u = u < 1 ? u : 0x1.fffffep-1f,
    };
}

/* ---- the host ---- */

static int32_t sample_on_host(const struct rows *r, uint32_t row) {
    const struct sample_draw *draw = &r->draws[row];
    const struct radish_sampling sampling = {.temperature = draw->temperature,
                                             .top_k = (int32_t)draw->top_k,
                                             .top_p = draw->top_p,
                                             .min_p = draw->min_p,
                                             .repetition_penalty = 1};
    const struct sample_args args = {.sampling = &sampling, .seed = r->seeds[row]};
    struct sampler *sampler = NULL;
    struct sample_result result;
    struct radish_error err = {0};
    float *logits = malloc(r->width * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(sampler_create(r->width, &sampler, &err), RADISH_OK);
    memcpy(logits, row_of(r, row), r->width * sizeof *logits);
    sampler_sample(sampler, logits, &args, &result);
    sampler_destroy(sampler);
    free(logits);
    return result.id;
}

struct ranked {
    float logit;
    int32_t id;
    double weight; /* 0: not kept */
};

static int compare_ranks(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int compare_ids(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether both tokens lie within BORDER of the draw, in double over the sorted row. */
static bool is_border(const struct rows *r, uint32_t row, int32_t a, int32_t b) {
    const struct sample_draw *draw = &r->draws[row];
    struct ranked *ranked = malloc(r->width * sizeof *ranked);
    assert_non_null(ranked);
    for (uint32_t i = 0; i < r->width; i++)
        ranked[i] = (struct ranked){row_of(r, row)[i], (int32_t)i, 0};
    qsort(ranked, r->width, sizeof *ranked, compare_ranks);
    double mass = 0, kept = 0;
    for (uint32_t i = 0; i < r->width && i < draw->top_k; i++) {
        ranked[i].weight =
            exp(((double)ranked[i].logit - (double)ranked->logit) / (double)draw->temperature);
        mass += ranked[i].weight;
    }
    for (uint32_t i = 0; i < r->width; i++) {
        const bool is_kept = kept < (double)draw->top_p * mass * (1 + BORDER) &&
                             ranked[i].weight >= (double)draw->min_p;
        kept += ranked[i].weight;
        if (!is_kept) ranked[i].weight = 0;
    }
    qsort(ranked, r->width, sizeof *ranked, compare_ids);
    double total = 0, before = 0;
    int n_near = 0;
    for (uint32_t i = 0; i < r->width; i++) total += ranked[i].weight;
    for (uint32_t i = 0; i < r->width; i++) {
        const double at = (double)draw->u * total, slack = BORDER * total;
        const bool is_near = at > before - slack && at < before + ranked[i].weight + slack;
        n_near += is_near && (ranked[i].id == a || ranked[i].id == b);
        before += ranked[i].weight;
    }
    free(ranked);
    return n_near == 2;
}

static void compare_row(const struct rows *r, uint32_t row, enum kind kind) {
    const int32_t expected = sample_on_host(r, row), token = r->tokens[row];
    const struct sample_draw *draw = &r->draws[row];
    n_draws++;
    if (token == expected) return;
    n_borders++;
    if (token >= 0 && (uint32_t)token < r->width && is_border(r, row, token, expected)) return;
    fail_msg("width %u, kind %d: token %d instead of %d (temperature %g, top_k %u, top_p %g, "
             "min_p %g, u %.9g)",
             r->width, kind, token, expected, (double)draw->temperature, draw->top_k,
             (double)draw->top_p, (double)draw->min_p, (double)draw->u);
}

static void check_width(struct device *device, uint32_t width, uint32_t n_rows) {
    struct rows r = make_rows(device, n_rows, width);
    for (uint32_t row = 0; row < n_rows; row++) {
        r.seeds[row] = rng_u64(check_seed(), (uint64_t)width << 32 | row);
        fill_row(&r, row, row % N_KINDS, r.seeds[row]);
        choose_draw(&r, row, r.seeds[row]);
    }
    run(&r, 0, n_rows);
    for (uint32_t row = 0; row < n_rows; row++) compare_row(&r, row, row % N_KINDS);
    assert_int_equal(r.tokens[n_rows], 0x55555555);
    free_rows(&r);
}

/* ---- tests ---- */

static void test_the_host_draws_the_same_token(void **state) {
    static const uint32_t widths[] = {1, 2, 31, 32, 33, 64, 97, 257, 1000, 2047, 4099, 12345};
    (void)state;
    struct device *device = open_device();
    n_draws = n_borders = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        check_width(device, widths[i], ROWS_MAX);
    close_device(device);
    print_message("%u draws, %u of them at a border\n", n_draws, n_borders);
    assert_true(n_borders <= BORDERS_MAX);
}

static void test_vocabularies_are_wide(void **state) {
    (void)state;
    struct device *device = open_device();
    check_width(device, 151936, N_KINDS);
    check_width(device, 262144, 2);
    close_device(device);
}

static void test_a_row_of_all_tokens_ends_with_the_last(void **state) {
    (void)state;
    struct device *device = open_device();
    struct rows r = make_rows(device, 3, 100000);
    static const float us[] = {0, 0.5f, 0x1.fffffep-1f};
    for (uint32_t row = 0; row < 3; row++) {
        fill_row(&r, row, FLAT, 0);
        r.draws[row] = (struct sample_draw){0, r.width, 1, 1, 0, us[row]};
    }

    run(&r, 0, 3);

    assert_int_equal(r.tokens[0], 0);
    assert_int_equal(r.tokens[1], 50000);
    assert_int_equal(r.tokens[2], 99999);
    free_rows(&r);
    close_device(device);
}

static void test_greedy_is_the_first_of_the_largest(void **state) {
    (void)state;
    struct device *device = open_device();
    struct rows r = make_rows(device, 4, 3000);
    for (uint32_t row = 0; row < 4; row++) {
        fill_row(&r, row, UNIFORM, row + 1);
        r.draws[row] = (struct sample_draw){0, 1, 1, 1, 0, 0.5f};
        row_of(&r, row)[1234] = row_of(&r, row)[2999] = 11;
    }
    row_of(&r, 1)[0] = 11;
    for (uint32_t i = 0; i < r.width; i++) row_of(&r, 2)[i] = i < 7 ? -INFINITY : -1e30f;
    for (uint32_t i = 0; i < r.width; i++) row_of(&r, 3)[i] = i % 2 ? 0.0f : -0.0f;

    run(&r, 0, 4);

    assert_int_equal(r.tokens[0], 1234);
    assert_int_equal(r.tokens[1], 0);
    assert_int_equal(r.tokens[2], 7);
    assert_int_equal(r.tokens[3], 0);
    free_rows(&r);
    close_device(device);
}

static void test_rows_without_a_choice_have_no_token(void **state) {
    static const float bad[] = {NAN, -NAN, INFINITY};
    (void)state;
    struct device *device = open_device();
    struct rows r = make_rows(device, 8, 700);
    for (uint32_t row = 0; row < 8; row++) {
        fill_row(&r, row, UNIFORM, row + 1);
        r.draws[row] = (struct sample_draw){0, row < 4 ? 1 : r.width, 1, 0.9f, 0, 0.5f};
        if (row % 4 < 3)
            row_of(&r, row)[row * 99] = bad[row % 4];
        else
            for (uint32_t i = 0; i < r.width; i++) row_of(&r, row)[i] = -INFINITY;
    }

    run(&r, 0, 8);

    for (uint32_t row = 0; row < 8; row++) assert_int_equal(r.tokens[row], -1);
    free_rows(&r);
    close_device(device);
}

static void test_rows_that_are_off_stay_as_they_are(void **state) {
    (void)state;
    struct device *device = open_device();
    struct rows r = make_rows(device, 3, 500);
    float *before = malloc(r.width * sizeof *before);
    assert_non_null(before);
    for (uint32_t row = 0; row < 3; row++) {
        fill_row(&r, row, UNIFORM, row + 9);
        r.draws[row] = (struct sample_draw){row == 1, 1, 1, 1, 0, 0};
    }
    memcpy(before, row_of(&r, 1), r.width * sizeof *before);

    run(&r, 0, 3);

    assert_int_equal(r.tokens[1], -1);
    assert_true(r.tokens[0] >= 0 && r.tokens[2] >= 0);
    check_same_bits(row_of(&r, 1), before, r.width * sizeof *before, "a row that is off");
    free(before);
    free_rows(&r);
    close_device(device);
}

static void test_a_row_alone_draws_what_it_draws_in_a_batch(void **state) {
    (void)state;
    struct device *device = open_device();
    struct rows r = make_rows(device, 9, 1531);
    int32_t together[9];
    for (uint32_t row = 0; row < 9; row++) {
        fill_row(&r, row, row % N_KINDS, row + 77);
        choose_draw(&r, row, row + 77);
    }

    run(&r, 0, 9);
    memcpy(together, r.tokens, sizeof together);
    for (uint32_t row = 0; row < 9; row++) run(&r, row, 1);

    for (uint32_t row = 0; row < 9; row++) assert_int_equal(r.tokens[row], together[row]);
    free_rows(&r);
    close_device(device);
}

static void test_rows_that_are_too_wide_are_refused(void **state) {
    (void)state;
    struct device *device = open_device();
    const struct kernel_shape shape = {.n_in = 524289};
    char reason[160] = "";

    assert_false(device->ops->supports(device, KERNEL_OP_SAMPLE, &shape, reason, sizeof reason));

    assert_non_null(strstr(reason, "524288"));
    close_device(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_host_draws_the_same_token),
        cmocka_unit_test(test_vocabularies_are_wide),
        cmocka_unit_test(test_a_row_of_all_tokens_ends_with_the_last),
        cmocka_unit_test(test_greedy_is_the_first_of_the_largest),
        cmocka_unit_test(test_rows_without_a_choice_have_no_token),
        cmocka_unit_test(test_rows_that_are_off_stay_as_they_are),
        cmocka_unit_test(test_a_row_alone_draws_what_it_draws_in_a_batch),
        cmocka_unit_test(test_rows_that_are_too_wide_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
