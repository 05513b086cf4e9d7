/* engine_client.c - the callback copies, the test thread waits. Each client has its own lock, so
 * that many can be under way at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine_client.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void client_open_engine(const char *model, const struct radish_engine_options *options,
                        struct radish_model **model_out, struct radish_engine **engine_out) {
    char path[512];
    struct radish_error err;
    snprintf(path, sizeof path, "%s%s", *model == '/' ? "" : TEST_DATA "/models/", model);
    if (radish_model_open(path, NULL, model_out, &err) != RADISH_OK) fail_msg("%s", err.msg);
    if (radish_engine_open(*model_out, options, engine_out, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
}

struct client *client_create(void) {
    struct client *client = calloc(1, sizeof *client);
    assert_non_null(client);
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->changed, NULL);
    return client;
}

void client_destroy(struct client *client) {
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

struct radish_request client_request(const int32_t *prompt, size_t n_prompt, uint32_t n_new) {
    struct radish_request request = {.prompt = prompt,
                                     .n_prompt = n_prompt,
                                     .has_max_new_tokens = true,
                                     .max_new_tokens = n_new,
                                     .ignore_eos = true,
                                     .keep_special_tokens = true};
    radish_sampling_init(&request.sampling);
    request.sampling.temperature = 0;
    return request;
}

static void take_prompt(struct client *client, const struct radish_event *event) {
    client->choices[0].is_valid &= client->choices[0].n_ids == 0 && !client->n_prompt_tokens;
    client->n_prompt_tokens = event->n_prompt_tokens;
    for (uint32_t i = 0; i < event->n_prompt_tokens && i < CLIENT_TOKENS_MAX; i++) {
        const struct radish_token *token = &event->prompt_tokens[i];
        const struct radish_logprob none = {.id = -1};
        client->prompt_tokens[i] = *token;
        client->prompt_tokens[i].top = client->prompt_tokens[i].named = NULL;
        client->prompt_top0[i] = token->n_top ? token->top[0] : none;
        client->prompt_named[i] = token->n_named ? token->named[token->n_named - 1] : none;
    }
}

static void take_tokens(struct client_choice *choice, const struct radish_event *event) {
    for (uint32_t i = 0; i < event->n_tokens; i++) {
        const struct radish_token *token = &event->tokens[i];
        if (choice->n_ids < CLIENT_TOKENS_MAX) {
            choice->ids[choice->n_ids] = token->id;
            choice->logprobs[choice->n_ids] = token->logprob;
        }
        choice->n_ids++;
        choice->n_top = token->n_top;
        if (token->n_top) choice->top0 = token->top[0];
        choice->n_named = token->n_named;
        if (token->n_named)
            memcpy(choice->named, token->named, token->n_named * sizeof *choice->named);
    }
    choice->is_valid &= utf8_valid_prefix(event->text, event->text_len) == event->text_len;
    choice->is_valid &= choice->text_len + event->text_len < sizeof choice->text;
    if (!choice->is_valid) return;
    memcpy(choice->text + choice->text_len, event->text, event->text_len);
    choice->text_len += event->text_len;
    choice->text[choice->text_len] = '\0';
}

static void on_event(void *user, const struct radish_event *event) {
    struct client *client = user;
    pthread_mutex_lock(&client->lock);
    struct radish_engine *engine = client->engine;
    struct client_choice *choice = &client->choices[event->choice_idx % CLIENT_CHOICES_MAX];
    choice->n_events++;
    choice->is_valid &= !choice->n_finals && event->choice_idx < client->n_choices;
    if (event->n_prompt_tokens) take_prompt(client, event);
    take_tokens(choice, event);
    choice->usage = event->usage;
    if (event->finish != RADISH_FINISH_NONE) {
        choice->n_finals++;
        choice->finish = event->finish;
        choice->status = event->status;
        choice->matched_token = event->matched_token;
        snprintf(choice->matched_stop, sizeof choice->matched_stop, "%s",
                 event->matched_stop ? event->matched_stop : "");
        client->n_ended++;
    }
    bool aborts = client->abort_at_ids && choice->n_ids == client->abort_at_ids;
    bool waits = client->gate_at_ids && choice->n_ids == client->gate_at_ids;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    if (aborts) radish_engine_abort(engine, event->request);
    if (!waits) return;
    pthread_mutex_lock(client->gate);
    pthread_mutex_unlock(client->gate);
}

enum radish_status client_submit(struct client *client, struct radish_engine *engine,
                                 const struct radish_request *request, struct radish_error *err) {
    struct radish_request mine = *request;
    mine.on_event = on_event;
    mine.user = client;
    client->engine = engine;
    client->n_choices = mine.n ? mine.n : 1;
    client->n_ended = client->n_prompt_tokens = 0;
    memset(client->choices, 0, sizeof client->choices);
    for (uint32_t i = 0; i < CLIENT_CHOICES_MAX; i++) client->choices[i].is_valid = true;
    return radish_engine_submit(engine, &mine, &client->request, err);
}

static void wait_for(struct client *client, bool (*is_reached)(const struct client *, uint32_t),
                     uint32_t n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 240;
    pthread_mutex_lock(&client->lock);
    bool is_reached_now;
    while (!(is_reached_now = is_reached(client, n)))
        if (pthread_cond_timedwait(&client->changed, &client->lock, &end)) break;
    pthread_mutex_unlock(&client->lock);
    assert_true(is_reached_now);
}

static bool has_ended(const struct client *client, uint32_t n) {
    (void)n;
    return client->n_ended >= client->n_choices;
}

static bool has_tokens(const struct client *client, uint32_t n) {
    return client->choices[0].n_ids >= n || client->n_ended;
}

void client_wait(struct client *client) {
    wait_for(client, has_ended, 0);
    for (uint32_t i = 0; i < client->n_choices; i++) {
        assert_int_equal(client->choices[i].n_finals, 1);
        assert_true(client->choices[i].is_valid);
    }
}

void client_wait_tokens(struct client *client, uint32_t n) {
    wait_for(client, has_tokens, n);
}

void client_run(struct client *client, struct radish_engine *engine,
                const struct radish_request *request) {
    struct radish_error err;
    if (client_submit(client, engine, request, &err) != RADISH_OK) fail_msg("%s", err.msg);
    client_wait(client);
}

void client_assert_baseline(struct radish_engine *engine) {
    struct radish_engine_info info;
    for (uint32_t i = 0; i < 6000; i++) {
        radish_engine_info(engine, &info);
        bool is_back = info.kv_slots_free + info.kv_slots_evictable == info.kv_slots_total;
        if (!info.requests_running && !info.requests_queued && is_back)
            break; /* hidden ones have ended, too */
        usleep(10000);
    }
    assert_int_equal(info.requests_running, 0);
    assert_int_equal(info.requests_queued, 0);
    assert_int_equal(info.kv_slots_free + info.kv_slots_evictable, info.kv_slots_total);
}
