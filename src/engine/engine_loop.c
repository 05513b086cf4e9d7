/* engine_loop.c - the engine's thread: one hand-over, one step, over and over.
 *
 * The problem: callers come from many threads, while scheduler, pool and runner know only one. The
 * idea: everything that crosses goes through one short critical section per step, hand_over(): new
 * requests and aborts in, finished requests and figures out. Inside a step no lock is held, so
 * callbacks may call back into the engine; between steps nothing can be missed: an abort takes
 * effect within one step in whatever phase its request is.
 *
 *   hand_over():  lock
 *                 dead requests leave the table; figures go out
 *                 sleep while there is nothing to do
 *                 inbox and aborts come in
 *                 unlock; the memory of the dead is freed
 *   then:         push new choices, end aborted and late ones, engine_answer(), sched_fill(),
 *                 flight_begin(), flight_end() of the step before or of this one (flight.c), log,
 *                 KV events out
 *
 * An idle engine sleeps on a condition variable and uses no processor. With nothing running but
 * something queued it never sleeps: the head of the queue can always be admitted then.
 *
 * Timeouts are the same for all requests, and live ones are in order of submission, so only the
 * oldest is looked at. */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"

#include <stdlib.h>

#define NS_PER_SECOND 1e9

/* Under the lock: requests that got their last event leave the table and the abort list. */
static void forget_dead(struct radish_engine *engine) {
    for (struct engine_request *dead = engine->dead; dead; dead = dead->next) {
        if (dead->is_aborting) {
            struct engine_request **link = &engine->aborts;
            while (*link && *link != dead) link = &(*link)->next_abort;
            if (*link) *link = dead->next_abort;
        }
        if (!dead->is_admitted) {
            engine->n_queued--;
            engine->n_queued_tokens -= dead->r.n_prompt;
        }
        namespaces_give(&engine->namespaces, dead->namespace_id);
        engine->table[dead->cell] = NULL;
        engine->cells_free[engine->n_cells_free++] = dead->cell;
    }
    engine->n_queued -= engine->n_admitted;
    engine->n_queued_tokens -= engine->n_admitted_tokens;
    engine->n_admitted = 0;
    engine->n_admitted_tokens = 0;
}

/* False: the engine is to stop. */
static bool hand_over(struct radish_engine *engine, struct engine_request **new_out,
                      struct engine_request **aborts_out) {
    pthread_mutex_lock(&engine->lock);
    forget_dead(engine);
    figures_publish(engine, clock_ns());
    namespaces_sweep(&engine->namespaces, sched_radix(engine->sched));
    struct engine_request *dead = engine->dead;
    engine->dead = NULL;
    while (!engine->is_stopping && !engine->inbox_head && !engine->aborts &&
           !engine_is_asked(engine) && sched_is_idle(engine->sched) && !shadow_is_due(engine) &&
           !dead && !engine->n_flights)
        pthread_cond_wait(&engine->wake, &engine->lock);
    *new_out = engine->inbox_head;
    *aborts_out = engine->aborts;
    engine->inbox_head = engine->inbox_tail = NULL;
    engine->aborts = NULL;
    bool goes_on = !engine->is_stopping;
    pthread_mutex_unlock(&engine->lock);
    while (dead) {
        struct engine_request *next = dead->next;
        request_destroy(dead);
        dead = next;
    }
    return goes_on;
}

static void begin(struct radish_engine *engine, struct engine_request *request) {
    request->next = NULL;
    request->live_prev = engine->live_tail;
    request->live_next = NULL;
    *(engine->live_tail ? &engine->live_tail->live_next : &engine->live_head) = request;
    engine->live_tail = request;
    for (uint32_t i = 0; i < request->n_choices; i++) {
        request->choices[i].seq.arrived_ns = request->submitted_ns;
        request->choices[i].seq.is_uncounted = request->r.is_uncounted;
    }
    sched_push(engine->sched, &request->choices[0].seq); /* the others start from its first row */
}

static void end_request(struct radish_engine *engine, struct engine_request *request,
                        enum radish_status status) {
    uint32_t n = request->n_choices; /* the request is dead, not freed, after its last choice */
    for (uint32_t i = 0; i < n; i++)
        if (!request->choices[i].is_done)
            output_end(engine, &request->choices[i], RADISH_FINISH_ABORT, status);
}

static bool is_late(const struct radish_engine *engine, const struct engine_request *request,
                    uint64_t now_ns) {
    double timeout = engine->plan.options.request_timeout_seconds;
    return timeout > 0 && (double)(now_ns - request->submitted_ns) >= timeout * NS_PER_SECOND;
}

static void end_late(struct radish_engine *engine) {
    uint64_t now = clock_ns();
    if (!engine->live_head || !is_late(engine, engine->live_head, now)) return;
    flight_end_all(engine);
    while (engine->live_head && is_late(engine, engine->live_head, now))
        end_request(engine, engine->live_head, RADISH_E_TIMEOUT);
}

/* Aborts wait for the steps in flight, in which some of these requests may end by themselves: those
 * are dead, and freed by the next hand-over. */
static void end_aborted(struct radish_engine *engine, struct engine_request *aborts) {
    if (aborts) flight_end_all(engine);
    for (struct engine_request *next; aborts; aborts = next) {
        next = aborts->next_abort;
        end_request(engine, aborts, RADISH_E_ABORTED);
    }
}

/* Requests whose first choice has been admitted are no longer queued. */
static void count_admitted(struct radish_engine *engine, const struct sched_step *step,
                           uint64_t now_ns) {
    for (uint32_t i = 0; i < step->n_new_seqs; i++) {
        struct engine_choice *choice = step->admitted[i]->user;
        if (choice->request->is_hidden) continue;
        choice->request->is_admitted = true;
        engine->n_admitted++;
        engine->n_admitted_tokens += choice->request->r.n_prompt;
        figures_admit(engine, choice->request, now_ns);
        if (!choice->seq.is_uncounted)
            radix_watch_add(&engine->watch, engine->model, choice->request->id, &choice->seq,
                            now_ns);
    }
}

static double per_second(uint64_t n, uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? (double)n * NS_PER_SECOND / (double)(to_ns - from_ns) : 0;
}

/* The lines that tools written for SGLang parse. */
static void log_step(struct radish_engine *engine, const struct sched_step *step) {
    if (step->n_retracted_seqs)
        log_plain(RADISH_LOG_INFO,
                  "KV cache pool is full. Retract requests. #retracted_reqs: %u, "
                  "#new_tokens_gained: %u, #new_token_ratio: %.4f -> %.4f",
                  step->n_retracted_seqs, step->n_slots_regained, step->new_token_ratio_before,
                  step->new_token_ratio);
    engine->log_input_tokens += step->n_prefill_tokens;
    engine->log_decode_steps += step->n_decode_seqs > 0;
    bool is_decode_due = engine->log_decode_steps >= engine->plan.options.decode_log_interval;
    if (!step->n_prefill_seqs && !is_decode_due) return;
    struct sched_stats stats;
    sched_stats(engine->sched, &stats);
    uint32_t n_queued = stats.n_seqs_queued - shadow_n_queued(engine);
    uint64_t now = clock_ns(), n_output = engine->figures.totals.output_tokens_total;
    uint32_t n_used = stats.n_slots_usable - stats.n_slots_free - stats.n_slots_evictable;
    double usage = (double)n_used / (double)stats.n_slots_usable;
    if (step->n_prefill_seqs) {
        log_plain(RADISH_LOG_INFO,
                  "Prefill batch, #new-seq: %u, #new-token: %u, #cached-token: %u, token usage: "
                  "%.2f, #running-req: %u, #queue-req: %u, cuda graph: False, input throughput "
                  "(token/s): %.2f",
                  step->n_prefill_seqs, step->n_prefill_tokens, step->n_cached_tokens, usage,
                  step->n_decode_seqs, n_queued,
                  per_second(engine->log_input_tokens, engine->log_prefill_ns, now));
        engine->log_prefill_ns = now;
        engine->log_input_tokens = 0;
    }
    if (is_decode_due) {
        log_plain(RADISH_LOG_INFO,
                  "Decode batch, #running-req: %u, #token: %u, token usage: %.2f, cuda graph: "
                  "False, gen throughput (token/s): %.2f, #queue-req: %u",
                  step->n_decode_seqs, n_used, usage,
                  per_second(n_output - engine->log_output_tokens, engine->log_decode_ns, now),
                  n_queued);
        engine->log_decode_ns = now;
        engine->log_output_tokens = n_output;
        engine->log_decode_steps = 0;
    }
}

static void step(struct radish_engine *engine) {
    struct sched_step step;
    shadow_begin(engine); /* first: what it pushes may be a reason not to lead */
    if (engine->n_flights && !flight_can_lead(engine)) flight_end(engine);
    uint64_t begun_ns = clock_ns();
    const struct batch *batch = sched_fill(engine->sched, begun_ns, &step);
    RADISH_INVARIANT(batch->n_tokens || sched_is_idle(engine->sched) || engine->n_flights,
                     "sequences are waiting, but none can run");
    if (!batch->n_tokens) {
        flight_end_all(engine);
        return;
    }
    count_admitted(engine, &step, begun_ns);
    flight_begin(engine, batch, &step, begun_ns);
    if (engine->n_flights > 1 || !flight_can_lead(engine)) flight_end(engine);
    shadow_yield(engine);
    log_step(engine, &step);
}

void *engine_run(void *user) {
    struct radish_engine *engine = user;
    engine->log_prefill_ns = engine->log_decode_ns = clock_ns();
    for (bool goes_on = true; goes_on;) {
        struct engine_request *new, *aborts, *next;
        goes_on = hand_over(engine, &new, &aborts);
        for (; new; new = next) {
            next = new->next;
            begin(engine, new);
        }
        end_aborted(engine, aborts);
        end_late(engine);
        engine_answer(engine, goes_on);
        if (goes_on) step(engine);
        kv_events_send(&engine->kv_events);
    }
    flight_end_all(engine);
    shadow_drop(engine);
    for (struct engine_request *r = engine->live_head, *next; r; r = next) {
        next = r->live_next;
        end_request(engine, r, RADISH_E_ABORTED);
    }
    pthread_mutex_lock(&engine->lock);
    RADISH_INVARIANT(!engine->inbox_head, "a request came in after the engine had stopped");
    forget_dead(engine);
    figures_publish(engine, clock_ns());
    pthread_mutex_unlock(&engine->lock);
    for (struct engine_request *dead = engine->dead, *next; dead; dead = next) {
        next = dead->next;
        request_destroy(dead);
    }
    engine->dead = NULL;
    return NULL;
}
