/* engine_ask.c - what other threads want of scheduler, tree and pool, which have no locks.
 *
 * The problem: a report of the tree, a flush or a snapshot touch what a step is using. The idea:
 * whoever wants something puts it, with his stack's address, on a list and sleeps; the engine's
 * thread works the list off between two steps, where nothing is half done, and wakes him.
 *
 *   engine_ask()          | lock |   the engine's thread, in engine_answer()
 *   fn, arg on the stack -> asks --> fn(engine, arg), outside of the lock
 *   sleeps on answered   <- is_done
 *
 * Why not a lock around the tree: then every step takes it for all of its length, and a reader
 * waits as long as here; but with it everybody who writes code for a step has to think of readers.
 *
 * A flush is an ask that may have to be patient: the cache is emptied only when nobody uses it, so
 * that nothing that runs has to be computed again. The engine's thread looks between steps whether
 * the last request has ended; it is never asleep while there is one, so it also minds the deadline.
 * What comes in behind the flush waits for it as for a step.
 *
 * Cost: one load a step when nobody asks. */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

static enum radish_status say_stopping(struct radish_error *err) {
    return error_set(err, RADISH_AGAIN, "the engine is stopping");
}

enum radish_status engine_ask(struct radish_engine *engine,
                              void (*fn)(struct radish_engine *engine, void *arg), void *arg) {
    struct engine_ask ask = {.fn = fn, .arg = arg, .status = RADISH_AGAIN};
    pthread_mutex_lock(&engine->lock);
    if (!engine->is_stopping) {
        *(engine->asks_tail ? &engine->asks_tail->next : &engine->asks_head) = &ask;
        engine->asks_tail = &ask;
        pthread_cond_signal(&engine->wake);
        while (!ask.is_done) pthread_cond_wait(&engine->answered, &engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return ask.status;
}

/* Those who ask meanwhile are answered after the next step. */
static void answer_asks(struct radish_engine *engine, struct engine_ask *asks,
                        enum radish_status status) {
    if (!asks) return;
    for (struct engine_ask *ask = asks; ask && status == RADISH_OK; ask = ask->next)
        ask->fn(engine, ask->arg);
    pthread_mutex_lock(&engine->lock);
    for (struct engine_ask *ask = asks, *next; ask; ask = next) {
        next = ask->next; /* it is gone once its thread sees that it is done */
        ask->status = status;
        ask->is_done = true;
    }
    pthread_cond_broadcast(&engine->answered);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- flush ---- */

/* True: it is decided. */
static bool try_flush(struct radish_engine *engine, struct engine_flush *flush) {
    if (engine->live_head) {
        if (clock_ns() < flush->deadline_ns) return false;
        struct sched_stats stats;
        sched_stats(engine->sched, &stats);
        flush->n_queued = stats.n_seqs_queued - shadow_n_queued(engine);
        flush->n_running = stats.n_seqs_running - shadow_n_running(engine);
        log_plain(RADISH_LOG_WARN,
                  "Cache not flushed because there are pending requests. #queue-req: %u, "
                  "#running-req: %u",
                  flush->n_queued, flush->n_running);
        return true;
    }
    shadow_drop(engine); /* it would compare with a hit that is no more */
    sched_reset(engine->sched);
    flush->status = RADISH_OK;
    engine->figures.totals.flushes_total++;
    log_plain(RADISH_LOG_INFO, "Cache flushed successfully!");
    return true;
}

static void answer_flush(struct radish_engine *engine, struct engine_flush *flush, bool goes_on) {
    if (!flush || (goes_on && !try_flush(engine, flush))) return;
    pthread_mutex_lock(&engine->lock);
    flush->is_done = true;
    engine->flush = NULL;
    pthread_cond_broadcast(&engine->answered);
    pthread_mutex_unlock(&engine->lock);
}

static uint64_t deadline_in(double seconds) {
    uint64_t now = clock_ns();
    if (!(seconds > 0)) return now;
    double ns = seconds * 1e9;
    return ns < (double)(UINT64_MAX - now) / 2 ? now + (uint64_t)ns : UINT64_MAX;
}

enum radish_status radish_engine_flush(struct radish_engine *engine, double timeout_seconds,
                                       struct radish_error *err) {
    struct engine_flush flush = {.deadline_ns = deadline_in(timeout_seconds),
                                 .status = RADISH_AGAIN};
    pthread_mutex_lock(&engine->lock);
    bool is_second = engine->flush != NULL, is_stopping = engine->is_stopping;
    if (!is_second && !is_stopping) {
        engine->flush = &flush;
        pthread_cond_signal(&engine->wake);
        while (!flush.is_done) pthread_cond_wait(&engine->answered, &engine->lock);
        is_stopping = engine->is_stopping;
    }
    pthread_mutex_unlock(&engine->lock);
    if (flush.status == RADISH_OK) return RADISH_OK;
    if (is_second) return error_set(err, RADISH_AGAIN, "another flush of the cache is waiting");
    if (!flush.n_queued && !flush.n_running && is_stopping) return say_stopping(err);
    return error_set(err, RADISH_AGAIN,
                     "the cache is not flushed because there are pending requests: %u queued, %u "
                     "running",
                     flush.n_queued, flush.n_running);
}

void engine_answer(struct radish_engine *engine, bool goes_on) {
    pthread_mutex_lock(&engine->lock);
    struct engine_ask *asks = engine->asks_head;
    struct engine_flush *flush = engine->flush;
    engine->asks_head = engine->asks_tail = NULL;
    pthread_mutex_unlock(&engine->lock);
    if (asks || flush) flight_end_all(engine);
    answer_asks(engine, asks, goes_on ? RADISH_OK : RADISH_AGAIN);
    answer_flush(engine, flush, goes_on);
}

/* ---- the report of the cache ---- */

static void make_report(struct radish_engine *engine, void *arg) {
    struct radish_radix_report *report = arg;
    radix_watch_report(&engine->watch, engine->sched, clock_ns(), report);
    report->eviction_policy = engine->plan.options.eviction_policy;
    report->schedule_policy = engine->plan.options.schedule_policy;
    report->page_tokens = engine->plan.options.page_tokens;
}

enum radish_status radish_engine_radix_report(struct radish_engine *engine,
                                              struct radish_radix_report *report_out,
                                              struct radish_error *err) {
    *report_out = (struct radish_radix_report){0};
    enum radish_status status = engine_ask(engine, make_report, report_out);
    return status == RADISH_OK ? status : say_stopping(err);
}
