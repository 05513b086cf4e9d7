/* ep_health_generate.c - GET /health_generate: does a token come out?
 *
 * /health says that the process takes requests; a wedged device or a step that never ends is only
 * seen by asking for a token. So a request of one token goes through the engine. It is not counted
 * in any figure, and it neither uses nor feeds the prefix cache, so a health check every second
 * leaves no trace. Any output is a sign of life, as SGLang has it: where streams advance, a full
 * queue does not make a server ill.
 *
 * The endpoint needs no key, so it is bounded by construction: the threads that wait for the engine
 * are few, and each has one such request under way. Its deadline counts from when the request came
 * in: those who queue behind a dead engine are told in the same time. Waiting is by looking, every
 * few milliseconds, because the end can come from four sides (the event, other output, the client,
 * a stop), of which only one could signal. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "exchange.h"

#include <stdlib.h>
#include <time.h>

enum { TIMEOUT_SECONDS = 20, LOOK_MS = 2 };

/* Shared by the waiting thread and the engine's; whoever lets go last frees it. */
struct probe {
    _Atomic bool has_output;
    _Atomic uint32_t n_refs;
};

static void unref(struct probe *probe) {
    if (atomic_fetch_sub(&probe->n_refs, 1) == 1) free(probe);
}

static void on_event(void *user, const struct radish_event *event) {
    struct probe *probe = user;
    if (event->n_tokens) atomic_store(&probe->has_output, true);
    if (event->finish) unref(probe);
}

/* *request_out is 0 where the queue is full: then only other output can tell. */
static enum radish_status submit(struct exchange *ex, struct probe *probe, uint64_t *request_out,
                                 struct radish_error *err) {
    static const int32_t prompt[] = {0};
    struct radish_request request = {.prompt = prompt,
                                     .n_prompt = 1,
                                     .n = 1,
                                     .has_max_new_tokens = true,
                                     .max_new_tokens = 1,
                                     .ignore_eos = true,
                                     .is_cache_off = true,
                                     .is_uncounted = true,
                                     .on_event = on_event,
                                     .user = probe};
    radish_sampling_init(&request.sampling);
    request.sampling.temperature = 0;
    atomic_fetch_add(&probe->n_refs, 1);
    enum radish_status status =
        radish_engine_submit(ex->server->engine, &request, request_out, err);
    if (status) unref(probe);
    return status == RADISH_AGAIN ? RADISH_OK : status;
}

static bool has_progress(struct exchange *ex, uint64_t steps_before) {
    struct radish_engine_info info;
    radish_engine_info(ex->server->engine, &info);
    return info.steps_total != steps_before;
}

/* True: output came. */
static bool wait_for_output(struct exchange *ex, const struct probe *probe, uint64_t steps_before) {
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
    uint64_t deadline_ns = ex->begun_ns + TIMEOUT_SECONDS * UINT64_C(1000000000);
    for (;;) {
        if (atomic_load(&probe->has_output) || has_progress(ex, steps_before)) return true;
        if (clock_ns() >= deadline_ns || exchange_is_gone(ex)) return false;
        if (atomic_load(&ex->server->is_stopping)) return false;
        nanosleep(&pause, NULL);
    }
}

enum radish_status ep_health_generate(struct exchange *ex, struct radish_error *err) {
    struct server *server = ex->server;
    struct radish_engine_info info;
    struct probe *probe = mem_zalloc(1, sizeof *probe);
    uint64_t request = 0;
    if (!probe) return error_nomem(err);
    atomic_store(&probe->n_refs, 1);
    radish_engine_info(server->engine, &info);
    enum radish_status status = submit(ex, probe, &request, err);
    bool is_alive = !status && wait_for_output(ex, probe, info.steps_total);
    if (request) radish_engine_abort(server->engine, request);
    unref(probe);
    if (status) return status;
    if (!is_alive && atomic_load(&server->is_stopping)) {
        ex->error_code = "server_stopping";
        return error_set(err, RADISH_AGAIN, "the server is stopping");
    }
    if (!is_alive) {
        log_error("server", "/health_generate: no token came for %d seconds", TIMEOUT_SECONDS);
        return error_set(err, RADISH_AGAIN, "no token came for %d seconds", TIMEOUT_SECONDS);
    }
    ex->reply.status = 200;
    buf_printf(&ex->reply.body, "{\"status\":\"ok\",\"seconds\":%.6f}",
               (double)(clock_ns() - ex->begun_ns) / 1e9);
    return RADISH_OK;
}
