/* The sampler against a slow twin that sorts the whole row, and each rule by what it must change.
 */
#include "test.h"

#include "alloc_fail.h"
#include "base/rng.h"
#include "base/status.h"
#include "sample/sampler.h"

#include <float.h>
#include <math.h>

enum { VOCAB = 1000 };

static struct sampler *sampler;
static float row[VOCAB];

static int open_sampler(void **state) {
    (void)state;
    return sampler_create(VOCAB, &sampler, NULL) != RADISH_OK;
}

static int close_sampler(void **state) {
    (void)state;
    sampler_destroy(sampler);
    return 0;
}

static void fill_row(uint64_t seed, double spread) {
    for (uint32_t i = 0; i < VOCAB; i++)
        row[i] = (float)((rng_uniform(seed, i) + rng_uniform(seed, i + VOCAB)) * spread);
    for (uint32_t i = 0; i < VOCAB; i += 37) row[i] = row[(i + 100) % VOCAB]; /* ties */
}

static struct radish_sampling neutral(void) {
    struct radish_sampling sampling = {
        .temperature = 1, .top_k = -1, .top_p = 1, .repetition_penalty = 1};
    return sampling;
}

static struct sample_result sample(const struct sample_args *args) {
    static float copy[VOCAB];
    struct sample_result result;
    memcpy(copy, row, sizeof row);
    sampler_sample(sampler, copy, args, &result);
    return result;
}

static int32_t sample_id(const struct sample_args *args) {
    struct sample_result result = sample(args);
    assert_int_equal(result.status, RADISH_OK);
    return result.id;
}

/* ---- a slow twin
 * ----------------------------------------------------------------------------------------------------
 */

struct ranked {
    double logit;
    int32_t id;
};

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

/* Probability of every id after temperature, top_k, top_p and min_p, by a sort. */
static void distribution(const struct radish_sampling *sampling, double *p_out) {
    static struct ranked ranked[VOCAB];
    double mass = 0, before = 0, kept = 0;
    for (int32_t i = 0; i < VOCAB; i++) ranked[i] = (struct ranked){(double)row[i], i};
    qsort(ranked, VOCAB, sizeof *ranked, compare_ranked);
    uint32_t n = sampling->top_k > 0 && sampling->top_k < VOCAB ? (uint32_t)sampling->top_k : VOCAB;
    memset(p_out, 0, VOCAB * sizeof *p_out);
    for (uint32_t i = 0; i < n; i++)
        mass += exp((ranked[i].logit - ranked[0].logit) / (double)sampling->temperature);
    for (uint32_t i = 0; i < n; i++) {
        double w = exp((ranked[i].logit - ranked[0].logit) / (double)sampling->temperature);
        if (before < (double)sampling->top_p * mass && w >= (double)sampling->min_p)
            p_out[ranked[i].id] = w;
        before += w;
    }
    for (uint32_t i = 0; i < VOCAB; i++) kept += p_out[i];
    for (uint32_t i = 0; i < VOCAB; i++) p_out[i] /= kept;
}

/* Walks the twin's distribution with the same random number. */
static void test_every_draw_agrees_with_a_sort_of_the_whole_row(void **state) {
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    static double p[VOCAB];
    uint32_t n_close = 0;
    for (uint32_t round = 0; round < 400; round++) {
        fill_row(seed + round, round % 3 == 0 ? 20 : 5);
        struct radish_sampling sampling = neutral();
        uint64_t r = rng_u64(seed, round);
        if (r & 1) sampling.top_k = 1 + (int32_t)(r >> 8 & 127);
        if (r & 2) sampling.top_p = 0.05f + 0.9f * (float)(r >> 16 & 255) / 256;
        if (r & 4) sampling.min_p = 0.2f * (float)(r >> 24 & 255) / 256;
        if (r & 8) sampling.temperature = 0.2f + (float)(r >> 32 & 255) / 100;
        struct sample_args args = {.sampling = &sampling, .seed = seed, .n_output = round};
        static int32_t output[VOCAB];
        args.output = output;
        int32_t id = sample_id(&args);

        distribution(&sampling, p);
        double u = rng_uniform(seed, round), walked = 0;
        bool is_close = false;
        int32_t want = -1;
        for (int32_t i = 0; i < VOCAB; i++) {
            if (p[i] == 0) continue;
            walked += p[i];
            is_close |= fabs(walked - u) < 1e-5; /* the twin counts in doubles */
            if (want < 0 && walked > u) want = i;
        }
        n_close += is_close && id != want;
        if (!is_close && id != want)
            fail_msg(
                "round %u: %d, but the twin says %d (temperature %g, top_k %d, top_p %g, min_p %g)",
                round, id, want, (double)sampling.temperature, sampling.top_k,
                (double)sampling.top_p, (double)sampling.min_p);
    }
    assert_in_range(n_close, 0, 8);
}

static void test_draws_follow_the_distribution(void **state) {
    (void)state;
    fill_row(7, 6);
    static double p[VOCAB];
    static uint32_t counts[VOCAB];
    memset(counts, 0, sizeof counts);
    struct radish_sampling sampling = neutral();
    distribution(&sampling, p);
    enum { DRAWS = 20000 };
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct sample_args args = {.sampling = &sampling, .seed = i};
        counts[sample_id(&args)]++;
    }
    double chi2 = 0, rest_p = 0, rest_n = 0;
    uint32_t n_cells = 1;
    for (uint32_t i = 0; i < VOCAB; i++) {
        double want = p[i] * DRAWS;
        if (want < 10) {
            rest_p += want;
            rest_n += counts[i];
            continue;
        }
        chi2 += (counts[i] - want) * (counts[i] - want) / want;
        n_cells++;
    }
    chi2 += (rest_n - rest_p) * (rest_n - rest_p) / rest_p;
    assert_true(chi2 < n_cells + 5 * sqrt(2.0 * n_cells));
}

/* ---- each rule
 * ------------------------------------------------------------------------------------------------------
 */

static void test_greedy_takes_the_lowest_id_of_the_best(void **state) {
    (void)state;
    fill_row(1, 5);
    row[400] = row[20] = row[900] = 50;
    struct radish_sampling sampling = neutral();
    struct sample_args args = {.sampling = &sampling};

    sampling.temperature = 0;
    assert_int_equal(sample_id(&args), 20);
    sampling.temperature = 1e-7f;
    assert_int_equal(sample_id(&args), 20);
    sampling.temperature = 1;
    sampling.top_k = 1;
    assert_int_equal(sample_id(&args), 20);
}

/* The ids that 3,000 seeds give. */
static uint32_t support(const struct radish_sampling *sampling, bool seen[VOCAB]) {
    uint32_t n = 0;
    memset(seen, 0, VOCAB * sizeof *seen);
    for (uint32_t i = 0; i < 3000; i++) {
        struct sample_args args = {.sampling = sampling, .seed = i};
        int32_t id = sample_id(&args);
        n += !seen[id];
        seen[id] = true;
    }
    return n;
}

static void test_top_k_top_p_and_min_p_each_cut_the_tail(void **state) {
    (void)state;
    bool seen[VOCAB];
    fill_row(2, 3);
    struct radish_sampling sampling = neutral();
    assert_true(support(&sampling, seen) > 300);

    sampling.top_k = 5;
    assert_int_equal(support(&sampling, seen), 5);
    sampling = neutral();
    sampling.top_p = 0.05f;
    assert_in_range(support(&sampling, seen), 2, 40);
    sampling = neutral();
    sampling.min_p = 0.9f;
    assert_in_range(support(&sampling, seen), 1, 40);
    float best = row[0];
    for (uint32_t i = 1; i < VOCAB; i++) best = fmaxf(best, row[i]);
    for (uint32_t i = 0; i < VOCAB; i++) /* exp(-0.1) > 0.9 > exp(-0.11) */
        if (seen[i]) assert_true(row[i] > best - 0.11f);
    sampling.top_p = 1e-6f;
    assert_int_equal(support(&sampling, seen), 1);
}

static void test_ties_at_the_cut_keep_the_lower_ids(void **state) {
    (void)state;
    bool seen[VOCAB];
    for (uint32_t i = 0; i < VOCAB; i++) row[i] = 1;
    struct radish_sampling sampling = neutral();
    sampling.top_k = 7;
    assert_int_equal(support(&sampling, seen), 7);
    for (uint32_t i = 0; i < 7; i++) assert_true(seen[i]);

    sampling = neutral();
    sampling.top_p = 0.0105f; /* 10.5 of 1,000 equal ones: eleven */
    assert_int_equal(support(&sampling, seen), 11);
    for (uint32_t i = 0; i < 11; i++) assert_true(seen[i]);
}

static void test_temperature_sharpens_and_flattens(void **state) {
    (void)state;
    bool seen[VOCAB];
    fill_row(3, 6);
    struct radish_sampling sampling = neutral();
    uint32_t n = support(&sampling, seen);
    sampling.temperature = 0.1f;
    assert_true(support(&sampling, seen) < n / 2);
    sampling.temperature = 10;
    assert_true(support(&sampling, seen) > n);
}

static void test_penalties_change_what_they_say(void **state) {
    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) row[i] = -10;
    row[1] = 4;
    row[2] = 3.5f;
    row[3] = 3;
    const int32_t prompt[] = {1, 1, 1}, output[] = {2, 2, 3};
    struct radish_sampling sampling = neutral();
    sampling.temperature = 0;
    struct sample_args args = {
        .sampling = &sampling, .prompt = prompt, .n_prompt = 3, .output = output, .n_output = 3};
    assert_int_equal(sample_id(&args), 1);

    sampling.repetition_penalty = 1.2f; /* 3.33, 2.92, 2.5: all are hit once, however often seen */
    assert_int_equal(sample_id(&args), 1);
    args.n_output = 0; /* 3.33, 3.5: the prompt counts for repetition */
    assert_int_equal(sample_id(&args), 2);
    args.n_output = 3;

    sampling = neutral();
    sampling.temperature = 0;
    row[2] = 4.5f;
    assert_int_equal(sample_id(&args), 2);
    sampling.presence_penalty = 1; /* 4, 3.5, 2: output only */
    assert_int_equal(sample_id(&args), 1);
    sampling.presence_penalty = 0;
    sampling.frequency_penalty = 0.4f; /* 4, 4.5 - 0.8, 2.6 */
    assert_int_equal(sample_id(&args), 1);
    sampling.frequency_penalty = 0.2f; /* 4, 4.5 - 0.4 */
    assert_int_equal(sample_id(&args), 2);
    sampling.frequency_penalty = 0;
    sampling.presence_penalty = -2; /* 4, 6.5, 5 */
    assert_int_equal(sample_id(&args), 2);
    sampling.presence_penalty = 0;
    args.n_output = 0;
    sampling.repetition_penalty = 0.5f;
    row[2] = 5; /* 8, 5: below 1 it rewards */
    assert_int_equal(sample_id(&args), 1);
}

static void test_the_smallest_repetition_penalty_leaves_a_finite_row(void **state) {
    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) row[i] = 1;
    row[7] = row[9] = 5; /* both become the largest number there is */
    struct radish_sampling sampling = neutral();
    sampling.repetition_penalty = FLT_TRUE_MIN;
    const int32_t prompt[] = {9, 7};
    struct sample_args args = {.sampling = &sampling, .prompt = prompt, .n_prompt = 2};
    for (args.seed = 0; args.seed < 20; args.seed++) {
        int32_t id = sample_id(&args);
        assert_true(id == 7 || id == 9);
    }
    sampling.temperature = 0;
    assert_int_equal(sample_id(&args), 7);
}

static void test_a_negative_logit_gets_more_negative_by_repetition(void **state) {
    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) row[i] = -10;
    row[1] = -1;
    row[2] = -1.5f;
    struct radish_sampling sampling = neutral();
    sampling.temperature = 0;
    sampling.repetition_penalty = 2;
    const int32_t prompt[] = {1};
    struct sample_args args = {.sampling = &sampling, .prompt = prompt, .n_prompt = 1};
    assert_int_equal(sample_id(&args), 2);
}

static void test_counts_do_not_leak_into_the_next_row(void **state) {
    (void)state;
    fill_row(4, 5);
    struct radish_sampling sampling = neutral();
    sampling.temperature = 0;
    struct sample_args args = {.sampling = &sampling};
    int32_t best = sample_id(&args);
    const int32_t output[] = {best, best, best};
    sampling.frequency_penalty = 2;
    struct sample_args other = {.sampling = &sampling, .output = output, .n_output = 3};
    assert_int_not_equal(sample_id(&other), best);

    assert_int_equal(sample_id(&args), best);
}

static void test_logit_bias_forces_and_bans_and_banned_ids_never_come(void **state) {
    (void)state;
    fill_row(5, 5);
    struct radish_sampling sampling = neutral();
    sampling.temperature = 0;
    struct sample_args args = {.sampling = &sampling};
    int32_t best = sample_id(&args);

    struct radish_logit_bias bias[] = {{123, 100}, {best, -100}};
    sampling.logit_bias = bias;
    sampling.n_logit_bias = 2;
    assert_int_equal(sample_id(&args), 123);
    args.banned = (int32_t[]){123};
    args.n_banned = 1;
    int32_t next = sample_id(&args);
    assert_true(next != 123 && next != best);
    sampling.n_logit_bias = 0;
    args.n_banned = 0;
    args.n_sampled = (uint32_t)best; /* ids from here on have no text */
    assert_true(!best || sample_id(&args) < best);
}

static void test_a_draw_depends_on_seed_and_output_index_only(void **state) {
    (void)state;
    fill_row(6, 5);
    struct radish_sampling sampling = neutral();
    const int32_t output[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t n_same_seed = 0, n_same_index = 0;
    for (uint32_t i = 0; i < 50; i++) {
        struct sample_args a = {.sampling = &sampling, .seed = i, .output = output, .n_output = 3};
        struct sample_args other_seed = a, other_index = a;
        other_seed.seed = i + 1;
        other_index.n_output = 4;
        int32_t id = sample_id(&a);
        assert_int_equal(sample_id(&a), id);
        n_same_seed += sample_id(&other_seed) == id;
        n_same_index += sample_id(&other_index) == id;
    }
    assert_in_range(n_same_seed, 0, 10);
    assert_in_range(n_same_index, 0, 10);
}

static void test_logprobs_are_of_the_raw_row(void **state) {
    (void)state;
    fill_row(8, 5);
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < VOCAB; i++) max = fmax(max, (double)row[i]);
    for (uint32_t i = 0; i < VOCAB; i++) sum += exp((double)row[i] - max);
    struct radish_logit_bias bias[] = {{55, 90}};
    struct radish_sampling sampling = neutral();
    sampling.temperature = 0.3f;
    sampling.logit_bias = bias;
    sampling.n_logit_bias = 1;
    const int32_t named[] = {VOCAB - 1, 55};
    struct sample_args args = {
        .sampling = &sampling, .wants_logprob = true, .n_top = 20, .named = named, .n_named = 2};

    struct sample_result result = sample(&args), direct;

    assert_int_equal(result.id, 55);
    assert_true(fabs((double)result.logprob - ((double)row[55] - max - log(sum))) < 1e-5);
    assert_int_equal(result.n_top, 20);
    static struct ranked ranked[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) ranked[i] = (struct ranked){(double)row[i], i};
    qsort(ranked, VOCAB, sizeof *ranked, compare_ranked);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(result.top[i].id, ranked[i].id);
        assert_true(fabs((double)result.top[i].logprob - (ranked[i].logit - max - log(sum))) <
                    1e-5);
    }
    assert_int_equal(result.n_named, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(result.named[i].id, named[i]);
        assert_true(fabs((double)result.named[i].logprob -
                         ((double)row[named[i]] - max - log(sum))) < 1e-5);
    }
    args.n_top = 3;
    sampler_logprobs(sampler, row, 55, &args, &direct);
    assert_int_equal(direct.n_top, 3);
    assert_memory_equal(direct.named, result.named, 2 * sizeof *result.named);
    assert_true(direct.logprob == result.logprob);
    assert_int_equal(direct.top[2].id, ranked[2].id);
}

static void test_a_row_that_holds_no_answer_is_an_error(void **state) {
    (void)state;
    struct radish_sampling sampling = neutral();
    struct sample_args args = {.sampling = &sampling, .wants_logprob = true, .n_top = 5};
    struct sample_result result;
    const float bad[] = {NAN, -NAN, INFINITY};
    for (uint32_t i = 0; i < 3; i++) {
        fill_row(9, 5);
        row[VOCAB - 1] = bad[i];
        assert_int_equal(sample(&args).status, RADISH_E_INTERNAL);
        sampler_logprobs(sampler, row, 0, &(struct sample_args){.n_top = 5}, &result);
        assert_int_equal(result.status, RADISH_E_INTERNAL);
    }
    for (uint32_t i = 0; i < VOCAB; i++) row[i] = -INFINITY;
    assert_int_equal(sample(&args).status, RADISH_E_INTERNAL);
    row[5] = 1;
    assert_int_equal(sample_id(&args), 5);
    args.banned = (int32_t[]){5};
    args.n_banned = 1;
    assert_int_equal(sample(&args).status, RADISH_E_INTERNAL);
}

static void test_huge_logits_and_temperatures_stay_finite(void **state) {
    (void)state;
    fill_row(10, 5);
    row[3] = 3e38f;
    row[4] = -3e38f;
    struct radish_sampling sampling = neutral();
    sampling.top_p = 0.9f;
    struct sample_args args = {.sampling = &sampling, .wants_logprob = true, .n_top = 2};
    assert_int_equal(sample_id(&args), 3);
    fill_row(10, 5);
    sampling.temperature = 3e38f;
    assert_in_range(sample_id(&args), 0, VOCAB - 1);
}

static void test_limits_name_the_field(void **state) {
    (void)state;
    struct radish_logit_bias outside = {VOCAB, 1}, nan_bias = {1, NAN};
    struct radish_sampling good = neutral();
    struct radish_error err;
    assert_int_equal(sampling_check(&good, VOCAB, &err), RADISH_OK);
    struct {
        const char *field;
        struct radish_sampling sampling;
    } cases[20];
    uint32_t n = 0;
#define CASE(member, value)                                                                        \
    cases[n].field = #member;                                                                      \
    cases[n].sampling = good;                                                                      \
    cases[n++].sampling.member = value
    CASE(temperature, -0.1f);
    CASE(temperature, NAN);
    CASE(temperature, INFINITY);
    CASE(top_k, 0);
    CASE(top_k, -2);
    CASE(top_p, 0);
    CASE(top_p, 1.01f);
    CASE(top_p, NAN);
    CASE(min_p, -0.1f);
    CASE(min_p, 1.1f);
    CASE(repetition_penalty, 0);
    CASE(repetition_penalty, 2.1f);
    CASE(presence_penalty, 2.1f);
    CASE(presence_penalty, NAN);
    CASE(frequency_penalty, -2.1f);
    CASE(logit_bias, &outside);
    CASE(logit_bias, &nan_bias);
#undef CASE
    for (uint32_t i = 0; i < n; i++) {
        if (cases[i].sampling.logit_bias) cases[i].sampling.n_logit_bias = 1;
        assert_int_equal(sampling_check(&cases[i].sampling, VOCAB, &err), RADISH_E_INVALID);
        assert_string_equal(err.field, cases[i].field);
        assert_non_null(strstr(err.msg, cases[i].field));
    }
    good.n_logit_bias = RADISH_LOGIT_BIAS_MAX + 1;
    assert_int_equal(sampling_check(&good, VOCAB, &err), RADISH_E_LIMIT);
}

static bool attempt_create(void *user) {
    (void)user;
    struct sampler *s;
    enum radish_status status = sampler_create(100, &s, NULL);
    sampler_destroy(s);
    return status == RADISH_OK;
}

static void test_sampling_allocates_nothing_and_creation_survives_failures(void **state) {
    (void)state;
    if (!alloc_fail_can()) skip();
    assert_in_range(alloc_fail_each(attempt_create, NULL), 4, 8);
    fill_row(11, 5);
    struct radish_sampling sampling = neutral();
    sampling.top_k = 50;
    sampling.top_p = 0.9f;
    sampling.repetition_penalty = 1.1f;
    const int32_t output[] = {1, 2};
    struct sample_args args = {
        .sampling = &sampling, .output = output, .n_output = 2, .wants_logprob = true, .n_top = 20};
    alloc_fail_count = 0;
    alloc_fail_at = SIZE_MAX;
    struct sample_result result = sample(&args);
    alloc_fail_at = 0;
    assert_int_equal(alloc_fail_count, 0);
    assert_int_equal(result.status, RADISH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_draw_agrees_with_a_sort_of_the_whole_row),
        cmocka_unit_test(test_draws_follow_the_distribution),
        cmocka_unit_test(test_greedy_takes_the_lowest_id_of_the_best),
        cmocka_unit_test(test_top_k_top_p_and_min_p_each_cut_the_tail),
        cmocka_unit_test(test_ties_at_the_cut_keep_the_lower_ids),
        cmocka_unit_test(test_temperature_sharpens_and_flattens),
        cmocka_unit_test(test_penalties_change_what_they_say),
        cmocka_unit_test(test_the_smallest_repetition_penalty_leaves_a_finite_row),
        cmocka_unit_test(test_a_negative_logit_gets_more_negative_by_repetition),
        cmocka_unit_test(test_counts_do_not_leak_into_the_next_row),
        cmocka_unit_test(test_logit_bias_forces_and_bans_and_banned_ids_never_come),
        cmocka_unit_test(test_a_draw_depends_on_seed_and_output_index_only),
        cmocka_unit_test(test_logprobs_are_of_the_raw_row),
        cmocka_unit_test(test_a_row_that_holds_no_answer_is_an_error),
        cmocka_unit_test(test_huge_logits_and_temperatures_stay_finite),
        cmocka_unit_test(test_limits_name_the_field),
        cmocka_unit_test(test_sampling_allocates_nothing_and_creation_survives_failures),
    };
    return cmocka_run_group_tests(tests, open_sampler, close_sampler);
}
