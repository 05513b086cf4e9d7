/* engine.c - puts the parts together, owns the engine's thread, and is the door for other threads.
 *
 * Opening goes from cheap to dear, so that whatever is wrong is said early: options, device, memory
 * plan (which also asks the device for every operation of every layer), weights, runner, scheduler,
 * thread. Whatever a step needs is taken here; see engine_int.h for what belongs to which thread.
 *
 * A request's life: submit builds it (request_build.c) and puts it into the inbox; the engine's
 * thread takes it from there (engine_loop.c) and frees it after its last event. The table maps ids
 * to live requests for abort; it has a cell for every request that can be live: the queue's bound,
 * what can run, and one whose choices are partly through. */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

enum { TEXT_BYTES = 16 << 10 }; /* of one token, with what was held back: never more in practice */

static enum radish_status load(struct radish_engine *engine, struct radish_error *err) {
    const struct radish_engine_options *options = &engine->plan.options;
    const struct radish_model *model = engine->model;
    struct weights_options weights = engine->plan.weights;
    weights.on_progress = options->on_progress;
    weights.progress_user = options->progress_user;
    RADISH_TRY(
        weights_load(model->file, &model->config, engine->device, &weights, &engine->weights, err));
    RADISH_TRY(runner_create(&model->config, engine->weights, engine->device, &engine->plan.runner,
                             &engine->runner, err));
    RADISH_TRY(
        kv_events_init(&engine->kv_events, options, &engine->lock, &engine->namespaces, err));
    engine->plan.sched.kv.sink = kv_events_sink(&engine->kv_events);
    RADISH_TRY(sched_create(&engine->plan.sched, &engine->sched, err));
    engine->tokens_max = sched_tokens_max(engine->sched);
    return RADISH_OK;
}

static enum radish_status make_buffers(struct radish_engine *engine, struct radish_error *err) {
    const struct radish_engine_options *options = &engine->plan.options;
    uint32_t n_workers = device_n_threads(engine->device);
    engine->table_size = options->requests_queued_max + options->requests_running_max + 1;
    engine->table = mem_zalloc(engine->table_size, sizeof *engine->table);
    engine->cells_free = mem_zalloc(engine->table_size, sizeof *engine->cells_free);
    engine->rows = mem_zalloc(ENGINE_ROWS_MAX, sizeof *engine->rows);
    engine->row_copies =
        mem_zalloc((size_t)n_workers * engine->model->config.n_vocab, sizeof *engine->row_copies);
    engine->samplers = mem_zalloc(n_workers, sizeof *engine->samplers);
    buf_init(&engine->piece, 0);
    buf_init(&engine->text, 0);
    if (!engine->table || !engine->cells_free || !engine->rows || !engine->row_copies ||
        !engine->samplers || !buf_reserve(&engine->piece, TEXT_BYTES) ||
        !buf_reserve(&engine->text, TEXT_BYTES))
        return error_nomem(err);
    for (uint32_t i = 0; i < DEVICE_STEPS_MAX && runner_can_draw(engine->runner); i++) {
        engine->flights[i].draws =
            mem_zalloc(engine->plan.runner.logits_rows_max, sizeof *engine->flights[i].draws);
        if (!engine->flights[i].draws) return error_nomem(err);
    }
    for (uint32_t i = 0; i < engine->table_size; i++)
        engine->cells_free[engine->n_cells_free++] = engine->table_size - 1 - i;
    for (; engine->n_samplers < n_workers; engine->n_samplers++)
        RADISH_TRY(sampler_create(engine->model->config.n_vocab,
                                  &engine->samplers[engine->n_samplers], err));
    RADISH_TRY(metrics_create(METRICS_OWNER_ENGINE, NULL, &engine->metrics, err));
    RADISH_TRY(
        radix_watch_init(&engine->watch, options->explains_misses, !options->is_cache_off, err));
    return shadow_create(options->shadow_check, engine->tokens_max, &engine->shadow, err);
}

/* Signals are for the program's own threads. */
static enum radish_status start_thread(struct radish_engine *engine, struct radish_error *err) {
    engine->has_lock = !pthread_mutex_init(&engine->lock, NULL);
    engine->has_wake = !pthread_cond_init(&engine->wake, NULL);
    engine->has_answered = !pthread_cond_init(&engine->answered, NULL);
    if (!engine->has_lock || !engine->has_wake || !engine->has_answered) return error_nomem(err);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    engine->has_thread = !pthread_create(&engine->thread, NULL, engine_run, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!engine->has_thread)
        return error_set(err, RADISH_E_NOMEM, "the engine's thread could not be started");
    return RADISH_OK;
}

static void log_plan(const struct radish_engine *engine) {
    struct buf line;
    buf_init(&line, 0);
    plan_append_line(&engine->plan, engine->model, &line);
    log_info("engine", "%s: %s", engine->model->name, line.data ? line.data : "");
    buf_deinit(&line);
    if (engine->model->config.context_trained &&
        engine->plan.runner.context_tokens > engine->model->config.context_trained)
        log_warn("engine", "a context of %u tokens is asked for, but the model was trained for %u",
                 engine->plan.runner.context_tokens, engine->model->config.context_trained);
    else if (engine->plan.runner.context_tokens < engine->model->config.context_trained &&
             !engine->plan.options.context_tokens)
        log_warn("engine", "the context is %u tokens instead of %u: that is what fits the KV pool",
                 engine->plan.runner.context_tokens, engine->model->config.context_trained);
}

/* Whether the system gave what was asked for is only known when memory has been written: weights
 * are there, pool and scratch come as they are used. */
static void log_memory(const struct radish_engine *engine) {
    struct machine_usage usage;
    machine_read_usage(&usage);
    if (usage.anonymous_bytes)
        log_info("engine", "memory: %s; %.0f of %.0f MB resident are in huge pages so far",
                 device_memory(engine->device), (double)usage.anonymous_huge_bytes / 1e6,
                 (double)usage.anonymous_bytes / 1e6);
    else
        log_info("engine", "memory: %s", device_memory(engine->device));
}

static void log_start(const struct radish_engine *engine) {
    const struct engine_plan *plan = &engine->plan;
    uint64_t taken = plan->weight_bytes + plan->scratch_bytes + plan->kv_bytes;
    log_info("engine", "%s, %u threads, ISA %s, precision %s, bits: %s, kernels: %s",
             engine->plan.options.device, device_n_threads(engine->device),
             device_isa(engine->device),
             device_precision(engine->device) == RADISH_PRECISION_EXACT ? "exact" : "fast",
             device_bit_class(engine->device), device_kernels(engine->device));
    log_memory(engine);
    log_plain(RADISH_LOG_INFO, "KV pool initialized: %u slots x %u layers", plan->n_usable,
              engine->model->config.n_layers);
    log_plain(RADISH_LOG_INFO,
              "max_total_num_tokens=%u, chunked_prefill_size=%u, max_prefill_tokens=%u, "
              "max_running_requests=%u, context_len=%u, available_gpu_mem=%.2f GB",
              plan->n_usable, plan->options.chunk_tokens, plan->options.prefill_tokens_max,
              plan->options.requests_running_max, plan->runner.context_tokens,
              (double)(plan->have_bytes > taken ? plan->have_bytes - taken : 0) / 1e9);
}

static void init_seeds(struct radish_engine *engine) {
    engine->seed =
        engine->plan.options.has_seed ? engine->plan.options.seed : rng_seed_from_system();
    namespaces_init(&engine->namespaces, rng_seed_from_system());
}

enum radish_status radish_engine_open(struct radish_model *model,
                                      const struct radish_engine_options *given,
                                      struct radish_engine **engine_out, struct radish_error *err) {
    *engine_out = NULL;
    struct radish_engine_options options;
    RADISH_TRY(plan_options(given, &options, err));
    struct radish_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return error_nomem(err);
    engine->model = model;
    struct device_options device_options = {.n_threads = options.n_threads,
                                            .precision = options.precision,
                                            .kernels = options.kernels,
                                            .n_kernels = options.n_kernels,
                                            .huge_pages = options.huge_pages,
                                            .numa = options.numa};
    struct machine machine;
    machine_read(&machine);
    enum radish_status status = device_open(options.device, &device_options, &engine->device, err);
    if (status == RADISH_OK)
        status = plan_make(model, engine->device, &options, machine.memory_available_bytes,
                           &engine->plan, err);
    if (status == RADISH_OK) {
        log_plan(engine);
        status = load(engine, err);
    }
    if (status == RADISH_OK) status = make_buffers(engine, err);
    if (status == RADISH_OK) {
        init_seeds(engine);
        figures_init(engine);
        log_start(engine);
        status = start_thread(engine, err);
    }
    if (status != RADISH_OK) {
        radish_engine_close(engine);
        return status;
    }
    *engine_out = engine;
    return RADISH_OK;
}

void radish_engine_close(struct radish_engine *engine) {
    if (!engine) return;
    if (engine->has_thread) {
        pthread_mutex_lock(&engine->lock);
        engine->is_stopping = true;
        pthread_cond_signal(&engine->wake);
        pthread_mutex_unlock(&engine->lock);
        pthread_join(engine->thread, NULL);
    }
    if (engine->has_wake) pthread_cond_destroy(&engine->wake);
    if (engine->has_answered) pthread_cond_destroy(&engine->answered);
    if (engine->has_lock) pthread_mutex_destroy(&engine->lock);
    for (uint32_t i = 0; i < engine->n_samplers; i++) sampler_destroy(engine->samplers[i]);
    free(engine->samplers);
    buf_deinit(&engine->piece);
    buf_deinit(&engine->text);
    free(engine->rows);
    free(engine->row_copies);
    for (uint32_t i = 0; i < DEVICE_STEPS_MAX; i++) free(engine->flights[i].draws);
    free(engine->table);
    free(engine->cells_free);
    namespaces_deinit(&engine->namespaces);
    radix_watch_deinit(&engine->watch);
    shadow_destroy(engine->shadow);
    metrics_destroy(engine->metrics);
    sched_destroy(engine->sched);
    kv_events_deinit(&engine->kv_events);
    runner_destroy(engine->runner);
    weights_destroy(engine->weights);
    device_close(engine->device);
    free(engine);
}

/* Under the lock. A request whose namespace cannot be kept is served, but shares with nobody. */
static void set_namespace(struct radish_engine *engine, struct engine_request *request) {
    const struct radish_request *r = &request->r;
    bool is_known = namespaces_take(&engine->namespaces, r->namespace_key, r->namespace_len,
                                    &request->namespace_id);
    if (!is_known && !engine->has_warned_namespaces)
        log_warn("engine", "too many namespaces are in use: prefixes of new ones are not cached");
    if (!is_known) engine->has_warned_namespaces = true;
    for (uint32_t i = 0; i < request->n_choices; i++) {
        request->choices[i].seq.namespace_id = request->namespace_id;
        request->choices[i].seq.is_cache_off |= !is_known;
    }
}

/* Under the lock: gives the request its id and its seeds and puts it into the inbox. */
static void enqueue(struct radish_engine *engine, struct engine_request *request) {
    const struct radish_sampling *sampling = &request->r.sampling;
    request->cell = engine->cells_free[--engine->n_cells_free];
    request->id = ++engine->n_submitted * engine->table_size + request->cell;
    request->submitted_ns = clock_ns();
    request_set_seed(request, sampling->has_seed ? sampling->seed
                                                 : rng_u64(engine->seed, engine->n_seeded++));
    set_namespace(engine, request);
    engine->table[request->cell] = request;
    engine->n_queued++;
    engine->n_queued_tokens += request->r.n_prompt;
    *(engine->inbox_tail ? &engine->inbox_tail->next : &engine->inbox_head) = request;
    engine->inbox_tail = request;
    pthread_cond_signal(&engine->wake);
}

enum radish_status radish_engine_submit(struct radish_engine *engine,
                                        const struct radish_request *given, uint64_t *request_out,
                                        struct radish_error *err) {
    *request_out = 0;
    struct engine_request *request;
    RADISH_TRY(request_build(engine, given, &request, err));
    pthread_mutex_lock(&engine->lock);
    bool is_full =
        engine->n_queued >= engine->plan.options.requests_queued_max || !engine->n_cells_free;
    bool is_taken = !engine->is_stopping && !is_full;
    if (is_taken) {
        enqueue(engine, request);
        *request_out = request->id;
    }
    bool is_stopping = engine->is_stopping;
    pthread_mutex_unlock(&engine->lock);
    if (is_taken) return RADISH_OK;
    request_destroy(request);
    if (is_stopping) return error_set(err, RADISH_AGAIN, "the engine is stopping");
    return error_set(err, RADISH_AGAIN, "the queue is full: %u requests are waiting",
                     engine->plan.options.requests_queued_max);
}

/* Under the lock. */
static void mark_abort(struct radish_engine *engine, struct engine_request *request) {
    if (request->is_aborting) return;
    request->is_aborting = true;
    request->next_abort = engine->aborts;
    engine->aborts = request;
    pthread_cond_signal(&engine->wake);
}

void radish_engine_abort(struct radish_engine *engine, uint64_t id) {
    pthread_mutex_lock(&engine->lock);
    struct engine_request *request = engine->table[id % engine->table_size];
    if (request && request->id == id) mark_abort(engine, request);
    pthread_mutex_unlock(&engine->lock);
}

void radish_engine_abort_all(struct radish_engine *engine) {
    pthread_mutex_lock(&engine->lock);
    for (uint32_t cell = 0; cell < engine->table_size; cell++)
        if (engine->table[cell]) mark_abort(engine, engine->table[cell]);
    pthread_mutex_unlock(&engine->lock);
}
