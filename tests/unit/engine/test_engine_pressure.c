/* A pool for half of what is asked for: requests are sent back, some more than once, and nobody can
 * tell from any answer: ids, log probabilities, text and reason equal those of a pool with room for
 * all. And the line of the log that tools written for SGLang count. */
#include "test.h"

#include "engine_client.h"

#include "base/rng.h"

#include <pthread.h>
#include <unistd.h>

enum { CLIENTS = 16, N_NEW = 60, N_PROMPT_MAX = 60 };

static struct radish_model *model;
static struct radish_engine *engine;
static struct client *clients[CLIENTS], *free_ones[CLIENTS];
static int32_t prompts[CLIENTS][N_PROMPT_MAX];
static char stops[CLIENTS][8]; /* "" = none */

static int make_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_create();
        free_ones[i] = client_create();
        for (uint32_t j = 0; j < N_PROMPT_MAX; j++)
            prompts[i][j] = (int32_t)(rng_u64(77 + i, j) % 512);
    }
    return 0;
}

static int free_clients(void **state) {
    (void)state;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        client_destroy(clients[i]);
        client_destroy(free_ones[i]);
    }
    return 0;
}

/* Greedy and sampled, with every penalty, log probabilities, minimum lengths, several choices. */
static struct radish_request request_of(uint32_t i, const char **stop) {
    struct radish_request request = client_request(prompts[i], 10 + i * 7 % 50, N_NEW);
    if (i % 4) {
        request.sampling.temperature = 0.9f;
        request.sampling.top_p = 0.95f;
        request.sampling.top_k = i % 4 == 2 ? 30 : -1;
        request.sampling.seed = i;
        request.sampling.has_seed = true;
    }
    if (i % 3 == 0) request.sampling.repetition_penalty = 1.3f;
    if (i % 3 == 1) request.sampling.frequency_penalty = 0.7f;
    if (i % 3 == 2) request.sampling.presence_penalty = 0.9f;
    request.logprobs = true;
    request.n_top_logprobs = 3;
    request.prompt_logprobs = i % 5 == 0;
    request.n = i % 8 == 7 ? 2 : 1;
    if (*stops[i]) {
        *stop = stops[i];
        request.stop = stop;
        request.n_stop = 1;
        request.min_new_tokens = 5;
    }
    return request;
}

/* A request whose event holds the engine's thread back until the gate opens: so those that are
 * submitted meanwhile come in together, however the threads are scheduled. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *user, const struct radish_event *event) {
    (void)user;
    (void)event;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void close_gate(void) {
    static const int32_t prompt[] = {5};
    struct radish_request request = client_request(prompt, 1, 1);
    uint64_t id;
    request.on_event = wait_at_gate;
    pthread_mutex_lock(&gate);
    assert_int_equal(radish_engine_submit(engine, &request, &id, NULL), RADISH_OK);
}

/* Low ones first; when the first of them has 5 tokens the engine waits until the high ones are
 * there, too. */
static void submit_all(struct client **to, bool has_priorities) {
    if (!has_priorities) close_gate();
    if (has_priorities) pthread_mutex_lock(&gate);
    to[0]->gate = &gate;
    to[0]->gate_at_ids = has_priorities ? 5 : 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const char *stop;
        struct radish_error err;
        struct radish_request request = request_of(i, &stop);
        if (has_priorities) request.priority = i < CLIENTS / 2 ? 0 : 20;
        if (has_priorities && i == CLIENTS / 2) client_wait_tokens(to[0], 5);
        if (client_submit(to[i], engine, &request, &err) != RADISH_OK) fail_msg("%s", err.msg);
    }
    pthread_mutex_unlock(&gate);
    for (uint32_t i = 0; i < CLIENTS; i++) client_wait(to[i]);
    client_assert_baseline(engine);
}

static void assert_equal_answers(void) {
    for (uint32_t i = 0; i < CLIENTS; i++)
        for (uint32_t k = 0; k < clients[i]->n_choices; k++) {
            const struct client_choice *a = &clients[i]->choices[k], *b = &free_ones[i]->choices[k];
            assert_int_equal(a->n_ids, b->n_ids);
            assert_memory_equal(a->ids, b->ids, a->n_ids * sizeof *a->ids);
            assert_memory_equal(a->logprobs, b->logprobs, a->n_ids * sizeof *a->logprobs);
            assert_memory_equal(&a->top0, &b->top0, sizeof a->top0);
            assert_int_equal(a->text_len, b->text_len);
            assert_memory_equal(a->text, b->text, a->text_len);
            assert_int_equal(a->finish, b->finish);
            assert_string_equal(a->matched_stop, b->matched_stop);
        }
}

/* Text from the middle of an answer becomes a stop string of every other request. */
static void choose_stops(void) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < CLIENTS; i += 2) {
        const struct client_choice *choice = &free_ones[i]->choices[0];
        for (size_t at = choice->text_len / 2; at + 4 < choice->text_len && !*stops[i]; at++) {
            bool is_plain = true;
            for (size_t j = 0; j < 3; j++)
                is_plain &= choice->text[at + j] > ' ' && choice->text[at + j] < 127;
            if (is_plain) memcpy(stops[i], choice->text + at, 3);
        }
        n += *stops[i] != '\0';
    }
    assert_true(n >= 2);
}

/* What all answers are with room for everybody, in free_ones. */
static void run_free(void) {
    struct radish_engine_options options = {
        .n_threads = 2, .kv_tokens_max = 4000, .context_tokens = 256, .chunk_tokens = 40};
    struct radish_engine_info info;
    client_open_engine("llama", &options, &model, &engine);
    if (!*stops[1]) {
        submit_all(free_ones, false);
        choose_stops();
    }
    submit_all(free_ones, false);
    radish_engine_info(engine, &info);
    assert_int_equal(info.retractions_total, 0);
    uint32_t n_stopped = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) n_stopped += *free_ones[i]->choices[0].matched_stop != 0;
    assert_true(n_stopped >= 2);
    radish_engine_close(engine);
    radish_model_close(model);
}

static struct radish_engine_options tight_options(uint32_t page_tokens) {
    return (struct radish_engine_options){.n_threads = 2,
                                          .kv_tokens_max = 800, /* they need 1,700 at the end */
                                          .context_tokens = 256,
                                          .chunk_tokens = 40,
                                          .page_tokens = page_tokens,
                                          .schedule_conservativeness = 0.01};
}

/* All of them in a pool for half: they are sent back, and answer as in one with room. */
static void check_tight(const struct radish_engine_options *options) {
    struct radish_engine_info info;
    client_open_engine("llama", options, &model, &engine);
    submit_all(clients, false);
    radish_engine_info(engine, &info);
    assert_true(info.retractions_total > 2);
    assert_equal_answers();
    radish_engine_close(engine);
    radish_model_close(model);
}

static void test_twice_what_fits_gives_the_answers_of_a_pool_with_room(void **state) {
    (void)state;
    const uint32_t pages[] = {1, 4};
    run_free();
    for (uint32_t p = 0; p < 2; p++) {
        struct radish_engine_options options = tight_options(pages[p]);
        check_tight(&options);
    }
}

static void test_without_the_cache_they_come_back_as_well(void **state) {
    (void)state;
    struct radish_engine_options options = tight_options(1);
    options.is_cache_off = true;
    run_free();
    check_tight(&options);
}

static void test_those_who_give_way_to_higher_ones_answer_the_same(void **state) {
    (void)state;
    struct radish_engine_options options = tight_options(1);
    struct radish_engine_info info;
    options.schedule_conservativeness = 1;
    options.has_priorities = true;
    run_free();
    client_open_engine("llama", &options, &model, &engine);
    submit_all(clients, true);
    radish_engine_info(engine, &info);
    assert_true(info.preemptions_total > 0);
    assert_equal_answers();
    radish_engine_close(engine);
    radish_model_close(model);
}

static int saved_stderr = -1;

static int restore_stderr(void **state) {
    (void)state;
    fflush(stderr);
    if (saved_stderr >= 0) {
        dup2(saved_stderr, STDERR_FILENO);
        close(saved_stderr);
    }
    saved_stderr = -1;
    return 0;
}

/* What `run` writes to standard error, in a file of its own. */
static FILE *record(void (*run)(void)) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    radish_log_set_level(RADISH_LOG_INFO);
    run();
    restore_stderr(NULL);
    rewind(file);
    return file;
}

static uint64_t n_retracted;

static void run_tight(void) {
    struct radish_engine_options options = tight_options(1);
    struct radish_engine_info info;
    client_open_engine("llama", &options, &model, &engine);
    submit_all(clients, false);
    radish_engine_info(engine, &info);
    n_retracted = info.retractions_total;
    radish_engine_close(engine);
    radish_model_close(model);
}

static void test_the_log_counts_retractions_in_sglangs_words(void **state) {
    (void)state;
    FILE *file = record(run_tight);
    char line[1024], want[256];
    uint64_t n_logged = 0;
    while (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "KV cache pool is full.");
        unsigned n, n_gained;
        double before, after;
        if (!at) continue;
        assert_int_equal(sscanf(at,
                                "KV cache pool is full. Retract requests. #retracted_reqs: %u, "
                                "#new_tokens_gained: %u, #new_token_ratio: %lf -> %lf",
                                &n, &n_gained, &before, &after),
                         4);
        snprintf(want, sizeof want,
                 "KV cache pool is full. Retract requests. #retracted_reqs: %u, "
                 "#new_tokens_gained: %u, #new_token_ratio: %.4f -> %.4f\n",
                 n, n_gained, before, after);
        assert_string_equal(at, want);
        assert_true(n >= 1 && n_gained >= 1 && before > 0 && before <= 1);
        assert_true(after > 0 && after <= 1);
        n_logged += n;
    }
    fclose(file);
    assert_true(n_logged > 0);
    assert_int_equal(n_logged, n_retracted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twice_what_fits_gives_the_answers_of_a_pool_with_room),
        cmocka_unit_test(test_without_the_cache_they_come_back_as_well),
        cmocka_unit_test(test_those_who_give_way_to_higher_ones_answer_the_same),
        cmocka_unit_test_teardown(test_the_log_counts_retractions_in_sglangs_words, restore_stderr),
    };
    return cmocka_run_group_tests(tests, make_clients, free_clients);
}
