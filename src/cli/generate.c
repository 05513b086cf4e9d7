/* generate.c - a mailbox between the engine's thread and a command.
 *
 *   engine thread: on_event -> lock, append text and ids, note the end, signal, unlock
 *   command:       generate_wait -> lock, wait for text or the end, take the text, unlock -> print
 *
 * The buffer has no limit of its own: it holds at most one answer, which the context bounds. An
 * allocation that fails in the callback is not lost: it ends the request as an error. Waiting is
 * done in slices, because a signal handler cannot signal a condition variable and Ctrl-C has to be
 * noticed. */
#include "generate.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct generate {
    struct radish_engine *engine;
    uint64_t request;
    generate_logits_fn on_logits;
    void *logits_user;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct buf text; /* not yet taken */
    struct buf ids;  /* int32_t each */
    bool ended;
    enum radish_finish finish;
    enum radish_status status;
    struct radish_usage usage;
    uint64_t start_ns, first_ns, end_ns;
};

static void take_event(void *user, const struct radish_event *event) {
    struct generate *g = user;
    pthread_mutex_lock(&g->lock);
    if (event->text_len) buf_append(&g->text, event->text, event->text_len);
    for (uint32_t i = 0; i < event->n_tokens; i++)
        buf_append(&g->ids, &event->tokens[i].id, sizeof event->tokens[i].id);
    if (event->n_tokens && !g->first_ns) g->first_ns = clock_ns();
    g->usage = event->usage;
    if (event->finish != RADISH_FINISH_NONE) {
        g->finish = event->finish;
        g->status = event->status;
        g->end_ns = clock_ns();
        g->ended = true;
    }
    pthread_cond_signal(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void take_logits(void *user, size_t row, size_t n_rows, size_t n_vocab,
                        const float *logits) {
    struct generate *g = user;
    g->on_logits(g->logits_user, row, n_rows, n_vocab, logits);
}

static void free_all(struct generate *g) {
    buf_deinit(&g->text);
    buf_deinit(&g->ids);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

enum radish_status generate_start(struct radish_engine *engine, struct radish_request request,
                                  generate_logits_fn on_logits, void *logits_user,
                                  struct generate **g_out, struct radish_error *err) {
    *g_out = NULL;
    struct generate *g = calloc(1, sizeof *g);
    if (!g) return error_nomem(err);
    g->engine = engine;
    g->on_logits = on_logits;
    g->logits_user = logits_user;
    buf_init(&g->text, 0);
    buf_init(&g->ids, 0);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);

    request.on_event = take_event;
    request.on_logits = on_logits ? take_logits : NULL;
    request.user = g;
    g->start_ns = clock_ns();
    enum radish_status status = radish_engine_submit(engine, &request, &g->request, err);
    if (status != RADISH_OK) {
        free_all(g);
        return status;
    }
    *g_out = g;
    return RADISH_OK;
}

bool generate_wait(struct generate *g, unsigned milliseconds, struct buf *text) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;

    pthread_mutex_lock(&g->lock);
    while (!g->text.len && !g->ended)
        if (pthread_cond_timedwait(&g->changed, &g->lock, &until) == ETIMEDOUT) break;
    bool goes_on = !g->ended || g->text.len;
    buf_append(text, g->text.data, g->text.len);
    buf_remove_front(&g->text, g->text.len);
    pthread_mutex_unlock(&g->lock);
    return goes_on;
}

void generate_stop(struct generate *g) {
    radish_engine_abort(g->engine, g->request);
}

void generate_result(const struct generate *g, struct generate_result *result_out) {
    bool lost = g->text.failed || g->ids.failed;
    *result_out = (struct generate_result){
        .finish = lost ? RADISH_FINISH_ERROR : g->finish,
        .status = lost ? RADISH_E_NOMEM : g->status,
        .usage = g->usage,
        .ids = (const int32_t *)(const void *)g->ids.data,
        .n_ids = g->ids.len / sizeof(int32_t),
        .first_seconds = g->first_ns ? (double)(g->first_ns - g->start_ns) / 1e9 : 0.0,
        .total_seconds = (double)(g->end_ns - g->start_ns) / 1e9,
    };
}

void generate_destroy(struct generate *g) {
    struct buf rest;
    if (!g) return;
    buf_init(&rest, 0);
    if (!g->ended) generate_stop(g);
    while (generate_wait(g, 1000, &rest)) buf_clear(&rest);
    buf_deinit(&rest);
    free_all(g);
}

const char *generate_finish_name(enum radish_finish finish) {
    static const char *const names[] = {"none", "stop", "length", "abort", "error"};
    return (unsigned)finish < sizeof names / sizeof *names ? names[finish] : "error";
}

const char *generate_failure(const struct generate_result *result) {
    return result->status == RADISH_E_INTERNAL
               ? "computing the answer failed: the error in the log says why"
               : radish_status_sentence(result->status);
}

double generate_tokens_per_second(const struct generate_result *result) {
    double seconds = result->total_seconds - result->first_seconds;
    if (result->n_ids < 2 || seconds <= 0) return 0.0;
    return (double)(result->n_ids - 1) / seconds;
}
