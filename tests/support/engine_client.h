/* engine_client.h - a caller of the engine for tests: submits a request, collects what its events
 * say, and waits for the end. */
#ifndef ENGINE_CLIENT_H
#define ENGINE_CLIENT_H

#include "radish_report.h"

#include <pthread.h>

#define CLIENT_CHOICES_MAX 8
#define CLIENT_TOKENS_MAX  1024

struct client_choice {
    int32_t ids[CLIENT_TOKENS_MAX]; /* [n_ids] */
    float logprobs[CLIENT_TOKENS_MAX];
    uint32_t n_ids;
    uint32_t n_top;             /* of the last token */
    struct radish_logprob top0; /* best of the last token */
    uint32_t n_named;           /* of the last token */
    struct radish_logprob named[RADISH_LOGPROB_IDS_MAX];
    char text[16384]; /* [text_len] and a NUL */
    size_t text_len;
    enum radish_finish finish;
    enum radish_status status;
    int32_t matched_token;
    char matched_stop[256]; /* "" = none */
    struct radish_usage usage;
    uint32_t n_finals, n_events;
    bool is_valid; /* every event's text was valid UTF-8, prompt tokens came before output, ... */
};

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct radish_engine *engine;
    uint64_t request;
    uint32_t n_choices, n_ended;
    struct client_choice choices[CLIENT_CHOICES_MAX];
    struct radish_token prompt_tokens[CLIENT_TOKENS_MAX];  /* top and named are NULL */
    struct radish_logprob prompt_top0[CLIENT_TOKENS_MAX];  /* best of each; id -1: none */
    struct radish_logprob prompt_named[CLIENT_TOKENS_MAX]; /* the last named of each; id -1: none */
    uint32_t n_prompt_tokens;
    void *extra;           /* of the test: for an on_logits that needs more */
    uint32_t abort_at_ids; /* abort from the callback after this many tokens; 0 = never */
    /* After this many tokens the callback, and with it the engine, waits until it can lock gate. */
    uint32_t gate_at_ids;
    pthread_mutex_t *gate;
};

/* Opens model and engine; fails the running test when that does. `model` is a folder in
 * tests/data/models. */
void client_open_engine(const char *model, const struct radish_engine_options *options,
                        struct radish_model **model_out, struct radish_engine **engine_out);

struct client *client_create(void);
void client_destroy(struct client *client);

/* A request with neutral sampling at temperature 0 and `n_new` tokens; on_event and user are set by
 * client_submit(). */
struct radish_request client_request(const int32_t *prompt, size_t n_prompt, uint32_t n_new);

/* Forgets what was collected and submits. */
enum radish_status client_submit(struct client *client, struct radish_engine *engine,
                                 const struct radish_request *request, struct radish_error *err);
void client_wait(
    struct client *client); /* until every choice has ended; fails after four minutes */
/* Until the first choice has at least n tokens or has ended. */
void client_wait_tokens(struct client *client, uint32_t n);

/* Submit, expect OK, wait. */
void client_run(struct client *client, struct radish_engine *engine,
                const struct radish_request *request);

/* Until nothing runs or waits; then every slot must be free, or hold a prefix that nobody pins. */
void client_assert_baseline(struct radish_engine *engine);

#endif
