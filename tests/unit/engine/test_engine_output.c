/* What a request's options do to its answer, on a tiny model with random weights: each test fails
 * if the option did nothing. */
#include "test.h"

#include "engine_client.h"

#include "base/rng.h"
#include "engine/model_int.h"
#include "text/detok_stream.h"
#include "text/tokenizer.h"

#include <math.h>

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *client, *other;
static const int32_t prompt[] = {5, 70, 300, 12, 44, 260, 9, 101};
enum { N_PROMPT = sizeof prompt / sizeof *prompt, N_NEW = 40 };

static int open_all(void **state) {
    (void)state;
    struct radish_engine_options options = {
        .n_threads = 2, .kv_tokens_max = 4096, .context_tokens = 512, .chunk_tokens = 16};
    client_open_engine("llama", &options, &model, &engine);
    client = client_create();
    other = client_create();
    return 0;
}

static int close_all(void **state) {
    (void)state;
    client_assert_baseline(engine);
    radish_engine_close(engine);
    radish_model_close(model);
    client_destroy(client);
    client_destroy(other);
    return 0;
}

static struct radish_request greedy(void) {
    return client_request(prompt, N_PROMPT, N_NEW);
}

static struct radish_request sampled(uint64_t seed) {
    struct radish_request request = greedy();
    request.sampling.temperature = 1;
    request.sampling.seed = seed;
    request.sampling.has_seed = true;
    return request;
}

static bool is_same(const struct client_choice *a, const struct client_choice *b) {
    return a->n_ids == b->n_ids && !memcmp(a->ids, b->ids, a->n_ids * sizeof *a->ids);
}

static const struct client_choice *answer(void) {
    return &client->choices[0];
}

static void test_an_answer_has_its_length_text_and_usage(void **state) {
    (void)state;
    struct radish_request request = greedy();

    client_run(client, engine, &request);

    assert_int_equal(answer()->n_ids, N_NEW);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    assert_int_equal(answer()->usage.prompt_tokens, N_PROMPT);
    assert_int_equal(answer()->usage.cached_tokens, 0);
    assert_int_equal(answer()->usage.output_tokens, N_NEW);
}

static void test_text_is_decode_of_all_minus_decode_of_the_prompt(void **state) {
    (void)state;
    struct radish_request request = sampled(3);
    client_run(client, engine, &request);
    int32_t all[N_PROMPT + N_NEW];
    memcpy(all, prompt, sizeof prompt);
    memcpy(all + N_PROMPT, answer()->ids, N_NEW * sizeof *all);
    char *before, *whole;
    size_t n_before, n_whole;
    assert_int_equal(radish_detokenize(model, all, N_PROMPT, 0, &before, &n_before, NULL), 0);
    assert_int_equal(radish_detokenize(model, all, N_PROMPT + N_NEW, 0, &whole, &n_whole, NULL), 0);

    /* A character that the prompt leaves incomplete belongs to the answer. */
    size_t shared = 0;
    while (shared < n_before && shared < n_whole && before[shared] == whole[shared]) shared++;
    assert_true(shared + 12 >= n_before);
    assert_string_equal(answer()->text, whole + shared);
    radish_free(before);
    radish_free(whole);
}

static void test_greedy_is_what_top_k_top_p_and_min_p_come_down_to(void **state) {
    (void)state;
    struct radish_request request = greedy();
    client_run(other, engine, &request);
    request = sampled(1);
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));

    request.sampling.top_k = 1;
    client_run(client, engine, &request);
    assert_true(is_same(answer(), &other->choices[0]));
    request.sampling.top_k = -1;
    request.sampling.top_p = 1e-6f;
    client_run(client, engine, &request);
    assert_true(is_same(answer(), &other->choices[0]));
    request.sampling.top_p = 1;
    request.sampling.min_p = 1;
    client_run(client, engine, &request);
    assert_true(is_same(answer(), &other->choices[0]));
}

static void test_temperature_changes_the_draws(void **state) {
    (void)state;
    struct radish_request request = sampled(1);
    client_run(other, engine, &request);
    request.sampling.temperature = 0.01f;
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));
}

static uint32_t n_distinct(const struct client_choice *choice) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < choice->n_ids; i++) {
        bool is_new = true;
        for (uint32_t j = 0; j < i; j++) is_new &= choice->ids[j] != choice->ids[i];
        n += is_new;
    }
    return n;
}

static void test_each_penalty_keeps_tokens_from_coming_back(void **state) {
    (void)state;
    /* A favourite that wins every time unless it is penalised. */
    struct radish_logit_bias bias = {77, 0};
    struct radish_request request = greedy();
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    bias.bias = 30;
    client_run(client, engine, &request);
    assert_int_equal(n_distinct(answer()), 1);

    request.sampling.n_logit_bias = 0;
    client_run(other, engine, &request);
    request.sampling.frequency_penalty = 2;
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));
    assert_true(n_distinct(answer()) >= n_distinct(&other->choices[0]));
    request.sampling.frequency_penalty = 0;
    request.sampling.presence_penalty = 2;
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));
    request.sampling.presence_penalty = 0;
    request.sampling.repetition_penalty = 2;
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));
    assert_true(n_distinct(answer()) >= n_distinct(&other->choices[0]));
}

static void test_logit_bias_bans_a_token(void **state) {
    (void)state;
    struct radish_request request = greedy();
    client_run(client, engine, &request);
    struct radish_logit_bias bias = {answer()->ids[0], -1000};
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;

    client_run(client, engine, &request);

    for (uint32_t i = 0; i < answer()->n_ids; i++) assert_int_not_equal(answer()->ids[i], bias.id);
}

static void test_seeds_agree_differ_and_unseeded_requests_differ(void **state) {
    (void)state;
    struct radish_request request = sampled(42);
    client_run(other, engine, &request);
    client_run(client, engine, &request);
    assert_true(is_same(answer(), &other->choices[0]));

    request = sampled(43);
    client_run(client, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));

    request.sampling.has_seed = false;
    client_run(client, engine, &request);
    client_run(other, engine, &request);
    assert_false(is_same(answer(), &other->choices[0]));
}

static void test_n_choices_are_n_requests_with_the_next_seeds(void **state) {
    (void)state;
    struct radish_request request = sampled(100);
    request.n = 4;
    client_run(client, engine, &request);
    request.n = 1;
    for (uint32_t i = 0; i < 4; i++) {
        request.sampling.seed = 100 + i;
        client_run(other, engine, &request);
        assert_true(is_same(&client->choices[i], &other->choices[0]));
        assert_string_equal(client->choices[i].text, other->choices[0].text);
        for (uint32_t j = 0; j < i; j++)
            assert_false(is_same(&client->choices[i], &client->choices[j]));
    }
}

static void test_logprobs_are_of_the_models_own_distribution(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.logprobs = true;
    request.n_top_logprobs = 3;
    client_run(client, engine, &request);
    assert_int_equal(answer()->n_top, 3);
    assert_int_equal(answer()->top0.id, answer()->ids[N_NEW - 1]);
    assert_true(answer()->top0.logprob == answer()->logprobs[N_NEW - 1]);
    float plain = answer()->logprobs[0];
    assert_true(plain < 0 && plain > -10);

    /* A bias forces a token; its logprob stays what the model thinks of it. */
    struct radish_logit_bias bias = {answer()->ids[0], 50};
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    request.sampling.temperature = 0.2f;
    client_run(client, engine, &request);
    assert_int_equal(answer()->ids[1], bias.id);
    assert_true(answer()->logprobs[0] == plain);
}

static void test_prompt_logprobs_come_once_and_agree_with_generation(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.logprobs = true;
    client_run(other, engine, &request);
    int32_t all[N_PROMPT + N_NEW];
    memcpy(all, prompt, sizeof prompt);
    memcpy(all + N_PROMPT, other->choices[0].ids, N_NEW * sizeof *all);

    request = client_request(all, N_PROMPT + N_NEW, 0);
    request.prompt_logprobs = true;
    client_run(client, engine, &request);

    assert_int_equal(client->n_prompt_tokens, N_PROMPT + N_NEW);
    assert_false(client->prompt_tokens[0].has_logprob);
    assert_int_equal(answer()->n_ids, 0);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    for (uint32_t i = 0; i < N_NEW; i++) {
        assert_true(client->prompt_tokens[N_PROMPT + i].has_logprob);
        assert_int_equal(client->prompt_tokens[N_PROMPT + i].id, all[N_PROMPT + i]);
        assert_true(client->prompt_tokens[N_PROMPT + i].logprob == other->choices[0].logprobs[i]);
    }
}

static void test_named_ids_have_the_logprobs_that_they_have_when_chosen(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.logprobs = true;
    client_run(other, engine, &request);
    const struct client_choice *plain = &other->choices[0];
    const int32_t named[] = {0, 511, plain->ids[N_NEW - 1]};
    request.logprob_ids = named;
    request.n_logprob_ids = 3;
    client_run(client, engine, &request);
    assert_true(is_same(answer(), plain));
    assert_int_equal(answer()->n_named, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(answer()->named[i].id, named[i]);
    assert_true(answer()->named[2].logprob == plain->logprobs[N_NEW - 1]);
    assert_true(answer()->named[0].logprob < answer()->named[2].logprob);

    /* Over the vocabulary, 64 at a time, probabilities add up to one. */
    double sum = 0;
    int32_t part[RADISH_LOGPROB_IDS_MAX];
    request.logprob_ids = part;
    request.n_logprob_ids = RADISH_LOGPROB_IDS_MAX;
    for (int32_t first = 0; first < 512; first += RADISH_LOGPROB_IDS_MAX) {
        for (int32_t i = 0; i < RADISH_LOGPROB_IDS_MAX; i++) part[i] = first + i;
        client_run(client, engine, &request);
        for (int32_t i = 0; i < RADISH_LOGPROB_IDS_MAX; i++)
            sum += exp((double)answer()->named[i].logprob);
    }
    assert_true(fabs(sum - 1) < 1e-4);
}

static void test_prompt_logprobs_from_a_token_on_are_the_tail_of_all_of_them(void **state) {
    (void)state;
    static const uint32_t froms[] = {0, 1, N_PROMPT - 2, N_PROMPT - 1, N_PROMPT};
    static const int32_t named[] = {7, 300};
    struct radish_request request = greedy();
    request.prompt_logprobs = true;
    request.n_top_logprobs = 2;
    request.logprob_ids = named;
    request.n_logprob_ids = 2;
    client_run(other, engine, &request);
    assert_int_equal(other->n_prompt_tokens, N_PROMPT);
    for (uint32_t i = 0; i < sizeof froms / sizeof *froms; i++) {
        request.prompt_logprobs_from = froms[i];
        client_run(client, engine, &request);
        assert_true(is_same(answer(), &other->choices[0]));
        assert_int_equal(client->n_prompt_tokens, N_PROMPT - froms[i]);
        for (uint32_t j = 0; j < client->n_prompt_tokens; j++) {
            const struct radish_token *want = &other->prompt_tokens[froms[i] + j];
            assert_int_equal(client->prompt_tokens[j].id, want->id);
            assert_int_equal(client->prompt_tokens[j].has_logprob, j > 0);
            if (!j) continue;
            assert_true(client->prompt_tokens[j].logprob == want->logprob);
            assert_memory_equal(&client->prompt_top0[j], &other->prompt_top0[froms[i] + j],
                                sizeof *client->prompt_top0);
            assert_memory_equal(&client->prompt_named[j], &other->prompt_named[froms[i] + j],
                                sizeof *client->prompt_named);
            assert_int_equal(client->prompt_named[j].id, 300);
        }
    }
}

static struct {
    size_t n_rows;
    bool is_ordered;
    int32_t best_of_last;
} seen; /* written by the engine's thread until the final event */

static void see_logits(void *user, size_t row, size_t n_rows, size_t n_vocab, const float *logits) {
    (void)user;
    seen.is_ordered &= row == seen.n_rows;
    seen.n_rows += n_rows;
    const float *last = logits + (n_rows - 1) * n_vocab;
    seen.best_of_last = 0;
    for (size_t i = 1; i < n_vocab; i++)
        if (last[i] > last[seen.best_of_last]) seen.best_of_last = (int32_t)i;
}

static void test_on_logits_sees_every_prompt_row_in_order(void **state) {
    (void)state;
    seen.is_ordered = true;
    seen.n_rows = 0;
    int32_t long_prompt[150];
    for (int32_t i = 0; i < 150; i++) long_prompt[i] = i * 3;
    struct radish_request request = client_request(long_prompt, 150, 1);
    request.on_logits = see_logits;

    client_run(client, engine, &request);

    assert_true(seen.is_ordered);
    assert_int_equal(seen.n_rows, 150);
    assert_int_equal(answer()->ids[0], seen.best_of_last);
}

/* A piece of the plain answer that spans a token border and occurs nowhere before. */
static void find_stop(const struct client_choice *plain, char *stop_out, size_t *at_out) {
    char *text;
    size_t len;
    for (uint32_t n = 8; n < plain->n_ids; n++) {
        assert_int_equal(radish_detokenize(model, plain->ids, n, 0, &text, &len, NULL), 0);
        bool is_border = len >= 3 && len + 3 < plain->text_len && !memcmp(text, plain->text, len);
        radish_free(text);
        if (!is_border) continue;
        bool is_ascii = true;
        for (size_t i = len - 3; i < len + 3; i++)
            is_ascii &= plain->text[i] >= ' ' && plain->text[i] < 127;
        if (!is_ascii) continue;
        memcpy(stop_out, plain->text + len - 3, 6);
        stop_out[6] = '\0';
        *at_out = (size_t)(strstr(plain->text, stop_out) - plain->text);
        return;
    }
    fail_msg("no border with plain letters around it");
}

static void test_a_stop_string_ends_across_token_borders(void **state) {
    (void)state;
    struct radish_request request = sampled(7);
    request.max_new_tokens = 200;
    client_run(other, engine, &request);
    char stop[8];
    size_t at = 0;
    find_stop(&other->choices[0], stop, &at);
    const char *stops[] = {"never in there, surely", stop};
    request.stop = stops;
    request.n_stop = 2;

    client_run(client, engine, &request);

    assert_int_equal(answer()->finish, RADISH_FINISH_STOP);
    assert_string_equal(answer()->matched_stop, stop);
    assert_int_equal(answer()->matched_token, -1);
    assert_int_equal(answer()->text_len, at);
    assert_memory_equal(answer()->text, other->choices[0].text, at);
    assert_true(answer()->n_ids < 200);
    request.include_stop = true;
    client_run(client, engine, &request);
    assert_int_equal(answer()->text_len, at + strlen(stop));

    /* Held back text comes out when no stop string follows. */
    stops[1] = "}never";
    request.include_stop = false;
    client_run(client, engine, &request);
    assert_string_equal(answer()->text, other->choices[0].text);
}

/* ---- stop strings at random */

/* shown_out[k]: how many bytes of the answer's text the first k tokens give when no stop string
 * holds any back. */
static void measure_shown(const struct client_choice *plain, size_t *shown_out) {
    struct detok_stream *stream;
    struct buf text = {0};
    assert_int_equal(detok_stream_create(model->text->tokenizer, prompt, N_PROMPT,
                                         /*skip_special=*/false, &stream, NULL),
                     RADISH_OK);
    for (uint32_t k = 0; k < plain->n_ids; k++) {
        shown_out[k] = text.len;
        detok_stream_push(stream, plain->ids[k], &text);
    }
    shown_out[plain->n_ids] = text.len;
    assert_memory_equal(text.data, plain->text, text.len);
    detok_stream_destroy(stream);
    buf_deinit(&text);
}

static size_t skip_to_character(const char *text, size_t at) {
    while ((text[at] & 0xC0) == 0x80) at++;
    return at;
}

/* Some part of the text, of whole characters and without a NUL. False: there is none at hand. */
static bool draw_stop(const char *text, size_t len, uint64_t seed, uint64_t *at, char *stop_out) {
    size_t from = skip_to_character(text, rng_u64(seed, (*at)++) % len);
    size_t to = skip_to_character(text, from + 1 + rng_u64(seed, (*at)++) % 9);
    if (from >= len || to > len || memchr(text + from, '\0', to - from)) return false;
    memcpy(stop_out, text + from, to - from);
    stop_out[to - from] = '\0';
    return true;
}

/* The stop string that is complete first in text, of those the longest, and where. */
static size_t find_first_stop(const char *text, size_t len, const char *const *stops, uint32_t n,
                              uint32_t *idx_out) {
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < n; i++) {
            size_t stop_len = strlen(stops[i]);
            if (stop_len > end || memcmp(text + end - stop_len, stops[i], stop_len) != 0) continue;
            if (stop_len <= longest) continue;
            longest = stop_len;
            *idx_out = i;
        }
        if (longest) return end;
    }
    fail_msg("no stop string is in the text");
    return 0;
}

static void expect_stopped(const struct client_choice *plain, const struct radish_request *request,
                           const size_t *shown) {
    uint32_t idx = 0, n_tokens = 0;
    size_t end =
        find_first_stop(plain->text, plain->text_len, request->stop, request->n_stop, &idx);
    size_t start = end - strlen(request->stop[idx]);
    while (n_tokens < plain->n_ids && shown[n_tokens] < end) n_tokens++;

    client_run(client, engine, request);

    size_t len = request->include_stop ? end : start;
    assert_int_equal(answer()->finish, RADISH_FINISH_STOP);
    assert_string_equal(answer()->matched_stop, request->stop[idx]);
    assert_int_equal(answer()->matched_token, -1);
    assert_int_equal(answer()->text_len, len);
    assert_memory_equal(answer()->text, plain->text, len);
    assert_true(answer()->is_valid);
    /* Decided with the token that completes it; all tokens up to it have been told of. */
    assert_int_equal(answer()->n_ids, n_tokens);
    assert_int_equal(answer()->usage.output_tokens, n_tokens);
    assert_memory_equal(answer()->ids, plain->ids, n_tokens * sizeof *plain->ids);
    for (uint32_t i = 0; i < n_tokens; i++)
        assert_true(answer()->logprobs[i] == plain->logprobs[i]);
}

static void test_random_stop_strings_end_at_their_first_occurrence(void **state) {
    uint64_t seed = 41, at = 0;
    uint32_t n_runs = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (uint64_t draw = 0; draw < 10; draw++) {
        struct radish_request request = sampled(seed + draw);
        size_t shown[121];
        request.max_new_tokens = 120;
        request.logprobs = true;
        client_run(other, engine, &request);
        const struct client_choice *plain = &other->choices[0];
        measure_shown(plain, shown);
        for (int round = 0; round < 12; round++) {
            char data[4][64];
            const char *stops[4];
            uint32_t n = 0, n_wanted = 1 + (uint32_t)(rng_u64(seed, at++) % 4);
            for (uint32_t i = 0; i < n_wanted; i++) {
                stops[n] = data[n];
                n += draw_stop(plain->text, shown[120], seed, &at, data[n]);
            }
            if (!n) continue;
            request.stop = stops;
            request.n_stop = n;
            request.include_stop = round % 2;
            expect_stopped(plain, &request, shown);
            n_runs++;
        }
    }
    assert_true(n_runs > 80);
}

static void test_a_stop_string_does_not_begin_in_the_prompt(void **state) {
    (void)state;
    struct radish_request request = sampled(7);
    client_run(other, engine, &request);
    const char *plain = other->choices[0].text;
    char *before, stop[64];
    size_t n_before;
    assert_int_equal(radish_detokenize(model, prompt, N_PROMPT, 0, &before, &n_before, NULL), 0);
    size_t from = n_before - 1, to = skip_to_character(plain, 4);
    while ((before[from] & 0xC0) == 0x80) from--;
    snprintf(stop, sizeof stop, "%s%.*s", before + from, (int)to, plain);
    radish_free(before);
    assert_null(strstr(plain, stop));
    const char *const stops[] = {stop};
    request.stop = stops;
    request.n_stop = 1;

    client_run(client, engine, &request);

    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    assert_string_equal(answer()->text, plain);
}

static void test_a_special_token_s_text_is_a_stop_string_where_it_is_shown(void **state) {
    (void)state;
    int32_t special = -1;
    for (int32_t id = 0; id < 512 && special < 0; id++)
        if (tokenizer_is_special(model->text->tokenizer, id)) special = id;
    assert_true(special >= 0);
    size_t len;
    const char *content = tokenizer_content(model->text->tokenizer, special, &len);
    char stop[128];
    snprintf(stop, sizeof stop, "%.*s", (int)len, content);
    const char *const stops[] = {stop};
    struct radish_logit_bias bias = {special, 1000};
    struct radish_request request = greedy();
    request.max_new_tokens = 3;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    request.stop = stops;
    request.n_stop = 1;

    client_run(client, engine, &request);
    assert_int_equal(answer()->n_ids, 1);
    assert_int_equal(answer()->text_len, 0);
    assert_string_equal(answer()->matched_stop, stop);

    request.include_stop = true;
    client_run(client, engine, &request);
    assert_string_equal(answer()->text, stop);

    request.keep_special_tokens = false;
    client_run(client, engine, &request);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    assert_int_equal(answer()->n_ids, 3);
    assert_int_equal(answer()->text_len, 0);
}

static void test_the_most_and_longest_stop_strings_change_nothing_when_absent(void **state) {
    (void)state;
    struct radish_request request = sampled(5);
    client_run(other, engine, &request);
    char data[RADISH_STOP_MAX][RADISH_STOP_BYTES_MAX + 1];
    const char *stops[RADISH_STOP_MAX + 1];
    for (int i = 0; i < RADISH_STOP_MAX; i++) {
        /* Begins as the text does. */
        memset(data[i], 'a' + i, RADISH_STOP_BYTES_MAX);
        size_t n = skip_to_character(other->choices[0].text, (size_t)i);
        memcpy(data[i], other->choices[0].text, n);
        data[i][RADISH_STOP_BYTES_MAX] = '\0';
        stops[i] = data[i];
    }
    stops[RADISH_STOP_MAX] = "one too many";
    request.stop = stops;
    request.n_stop = RADISH_STOP_MAX;

    client_run(client, engine, &request);
    assert_string_equal(answer()->text, other->choices[0].text);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);

    struct radish_error err;
    request.n_stop++;
    assert_int_equal(client_submit(client, engine, &request, &err), RADISH_E_LIMIT);
    assert_string_equal(err.field, "stop");
}

static void test_a_stop_id_ends_and_its_text_is_not_shown(void **state) {
    (void)state;
    struct radish_request request = greedy();
    client_run(other, engine, &request);
    uint32_t at = 0;
    while (at < 5 || other->choices[0].ids[at] == other->choices[0].ids[0]) at++;
    int32_t stop_id = other->choices[0].ids[at];
    for (uint32_t i = 0; i < at; i++)
        if (other->choices[0].ids[i] == stop_id) at = i;
    request.stop_ids = &stop_id;
    request.n_stop_ids = 1;

    client_run(client, engine, &request);

    assert_int_equal(answer()->finish, RADISH_FINISH_STOP);
    assert_int_equal(answer()->matched_token, stop_id);
    assert_int_equal(answer()->n_ids, at + 1);
    assert_int_equal(answer()->usage.output_tokens, at + 1);
    char *text;
    size_t len;
    assert_int_equal(radish_detokenize(model, answer()->ids, at, 0, &text, &len, NULL), 0);
    assert_string_equal(answer()->text, text);
    radish_free(text);

    request.min_new_tokens = at + 3;
    client_run(client, engine, &request);
    for (uint32_t i = 0; i < at + 3; i++) assert_int_not_equal(answer()->ids[i], stop_id);
    assert_true(answer()->n_ids >= at + 3);
}

/* The model's own end token, forced by a bias. */
static void test_end_tokens_end_unless_ignored_and_wait_for_min_new_tokens(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.ignore_eos = false;
    int32_t eos = -1;
    for (int32_t id = 0; id < 512 && eos < 0; id++) {
        struct radish_logit_bias bias = {id, 1000};
        request.sampling.logit_bias = &bias;
        request.sampling.n_logit_bias = 1;
        request.max_new_tokens = 2;
        client_run(client, engine, &request);
        if (answer()->finish == RADISH_FINISH_STOP) eos = answer()->matched_token;
    }
    assert_true(eos >= 0);
    struct radish_logit_bias bias = {eos, 1000};
    request.sampling.logit_bias = &bias;
    request.max_new_tokens = N_NEW;

    client_run(client, engine, &request);
    assert_int_equal(answer()->n_ids, 1);
    assert_int_equal(answer()->text_len, 0);
    request.min_new_tokens = 6;
    client_run(client, engine, &request);
    assert_int_equal(answer()->n_ids, 7);
    assert_int_equal(answer()->matched_token, eos);
    request.min_new_tokens = 0;
    request.ignore_eos = true;
    client_run(client, engine, &request);
    assert_int_equal(answer()->n_ids, N_NEW);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    request.stop_ids = &eos; /* asked for by the client: still ends */
    request.n_stop_ids = 1;
    client_run(client, engine, &request);
    assert_int_equal(answer()->n_ids, 1);
}

static void test_special_tokens_are_shown_on_request_only(void **state) {
    (void)state;
    int32_t special = -1;
    char *text;
    size_t len;
    for (int32_t id = 0; id < 512 && special < 0; id++) {
        assert_int_equal(
            radish_detokenize(model, &id, 1, RADISH_DETOKENIZE_SKIP, &text, &len, NULL), 0);
        if (!len) special = id;
        radish_free(text);
    }
    assert_true(special >= 0);
    struct radish_logit_bias bias = {special, 1000};
    struct radish_request request = greedy();
    request.max_new_tokens = 3;
    request.sampling.logit_bias = &bias;
    request.sampling.n_logit_bias = 1;
    client_run(client, engine, &request);
    assert_true(answer()->text_len > 0);
    request.keep_special_tokens = false;
    client_run(client, engine, &request);
    assert_int_equal(answer()->text_len, 0);
}

static void test_without_a_limit_the_context_ends_the_answer(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.has_max_new_tokens = false;
    request.max_new_tokens = 0;
    client_run(client, engine, &request);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    assert_int_equal(answer()->n_ids, 512 - N_PROMPT);
}

static void test_no_new_tokens_computes_the_prompt_and_ends(void **state) {
    (void)state;
    struct radish_request request = greedy();
    request.max_new_tokens = 0;
    struct radish_engine_info before, after;
    radish_engine_info(engine, &before);
    client_run(client, engine, &request);
    client_assert_baseline(engine);
    radish_engine_info(engine, &after);
    assert_int_equal(answer()->n_ids, 0);
    assert_int_equal(answer()->n_events, 1);
    assert_int_equal(answer()->finish, RADISH_FINISH_LENGTH);
    assert_int_equal(after.prompt_tokens_total - before.prompt_tokens_total, N_PROMPT);
}

static void test_chunks_do_not_change_an_answer(void **state) {
    (void)state;
    int32_t long_prompt[300];
    for (int32_t i = 0; i < 300; i++) long_prompt[i] = (i * 7 + 3) % 512;
    struct radish_request request = client_request(long_prompt, 300, 20);
    client_run(other, engine, &request);
    struct radish_engine_options options = {
        .n_threads = 1, .kv_tokens_max = 600, .page_tokens = 4, .chunk_tokens = 300};
    struct radish_model *model2;
    struct radish_engine *engine2;
    client_open_engine("llama", &options, &model2, &engine2);

    client_run(client, engine2, &request);

    assert_true(is_same(answer(), &other->choices[0]));
    client_assert_baseline(engine2);
    radish_engine_close(engine2);
    radish_model_close(model2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_has_its_length_text_and_usage),
        cmocka_unit_test(test_text_is_decode_of_all_minus_decode_of_the_prompt),
        cmocka_unit_test(test_greedy_is_what_top_k_top_p_and_min_p_come_down_to),
        cmocka_unit_test(test_temperature_changes_the_draws),
        cmocka_unit_test(test_each_penalty_keeps_tokens_from_coming_back),
        cmocka_unit_test(test_logit_bias_bans_a_token),
        cmocka_unit_test(test_seeds_agree_differ_and_unseeded_requests_differ),
        cmocka_unit_test(test_n_choices_are_n_requests_with_the_next_seeds),
        cmocka_unit_test(test_logprobs_are_of_the_models_own_distribution),
        cmocka_unit_test(test_prompt_logprobs_come_once_and_agree_with_generation),
        cmocka_unit_test(test_named_ids_have_the_logprobs_that_they_have_when_chosen),
        cmocka_unit_test(test_prompt_logprobs_from_a_token_on_are_the_tail_of_all_of_them),
        cmocka_unit_test(test_on_logits_sees_every_prompt_row_in_order),
        cmocka_unit_test(test_a_stop_string_ends_across_token_borders),
        cmocka_unit_test(test_random_stop_strings_end_at_their_first_occurrence),
        cmocka_unit_test(test_a_stop_string_does_not_begin_in_the_prompt),
        cmocka_unit_test(test_a_special_token_s_text_is_a_stop_string_where_it_is_shown),
        cmocka_unit_test(test_the_most_and_longest_stop_strings_change_nothing_when_absent),
        cmocka_unit_test(test_a_stop_id_ends_and_its_text_is_not_shown),
        cmocka_unit_test(test_end_tokens_end_unless_ignored_and_wait_for_min_new_tokens),
        cmocka_unit_test(test_special_tokens_are_shown_on_request_only),
        cmocka_unit_test(test_without_a_limit_the_context_ends_the_answer),
        cmocka_unit_test(test_no_new_tokens_computes_the_prompt_and_ends),
        cmocka_unit_test(test_chunks_do_not_change_an_answer),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
