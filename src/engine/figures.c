/* figures.c - the engine's numbers: collected without a lock, read without waiting.
 *
 * The problem: whoever watches a server asks most when it is busiest, and must not wait for a step
 * then, nor make one wait. The idea: the engine's thread keeps all figures in a struct of its own
 * and copies it, some hundred bytes, under the lock that it takes once a step in any case; readers
 * copy that. So figures are one step old, and belong together: what a reader sees was true at one
 * moment.
 *
 *   sched, radix --> totals --once a step, under the lock--> engine->info --> radish_engine_info()
 *
 * Two figures are rates, and a rate needs a stretch of time:
 *
 *   cache_hit_rate             cached / all prompt tokens of the last FIGURES_WINDOW_STEPS steps
 *                              that had any. Decodes do not touch it: it says how the cache does,
 *                              not what happened last. (The system we follow takes one prefill
 *                              batch, and zero after a decode.)
 *   output_tokens_per_second   over a second or more of work; idle time does not count, but a
 *                              figure older than RATE_OLD_NS is not told by an idle engine. */
#include "engine/figures.h"

#include "base/clock.h"
#include "engine/engine_int.h"

#define RATE_NS     1000000000u /* measured over at least so long, or until there is no work */
#define RATE_MIN_NS 1000000u    /* less says nothing */
#define RATE_OLD_NS 3000000000u

void figures_init(struct radish_engine *engine) {
    const struct engine_plan *plan = &engine->plan;
    const struct radish_engine_options *options = &plan->options;
    const struct device *device = engine->device;
    uint64_t taken = plan->weight_bytes + plan->scratch_bytes + plan->kv_bytes;
    engine->figures.totals = (struct radish_engine_info){
        .context_tokens = plan->runner.context_tokens,
        .requests_running_max = options->requests_running_max,
        .requests_queued_max = options->requests_queued_max,
        .chunk_tokens = options->chunk_tokens,
        .prefill_tokens_max = options->prefill_tokens_max,
        .page_tokens = options->page_tokens,
        .weight_bytes = plan->weight_bytes,
        .scratch_bytes = plan->scratch_bytes,
        .kv_bytes = plan->kv_bytes,
        .kv_slot_bytes = plan->kv_slot_bytes,
        .memory_available_bytes = plan->have_bytes > taken ? plan->have_bytes - taken : 0,
        .has_cache = !options->is_cache_off,
        .has_priorities = options->has_priorities,
        .n_threads = device_n_threads(device),
        .precision = device_precision(device),
        .device = options->device,
        .isa = device_isa(device),
        .bit_class = device_bit_class(device),
        .kv_dtype = dtype_name(plan->runner.kv_dtype),
        .quantization = options->quantization,
        .kernels = device_kernels(device),
        .kernels_report = device_kernels_report(device)};
    figures_publish(engine, clock_ns()); /* no other thread has the engine yet */
}

static void add_to_window(struct figures *f, const struct sched_step *step) {
    uint32_t at = f->window_next;
    if (!step->n_prompt_tokens) return;
    f->n_window_prompt += step->n_prompt_tokens - f->window[at].n_prompt;
    f->n_window_cached += step->n_cached_tokens - f->window[at].n_cached;
    f->window[at].n_prompt = step->n_prompt_tokens;
    f->window[at].n_cached = step->n_cached_tokens;
    f->window_next = (at + 1) % FIGURES_WINDOW_STEPS;
    f->totals.cache_hit_rate = (double)f->n_window_cached / (double)f->n_window_prompt;
}

/* The rate since the mark, which goes on from here. */
static void measure_rate(struct figures *f, uint64_t now_ns) {
    uint64_t n = f->totals.output_tokens_total - f->mark_tokens;
    if (now_ns - f->mark_ns >= RATE_MIN_NS) {
        f->totals.output_tokens_per_second = (double)n * 1e9 / (double)(now_ns - f->mark_ns);
        f->rate_ns = now_ns;
    }
    f->mark_ns = now_ns;
    f->mark_tokens = f->totals.output_tokens_total;
}

void figures_add_step(struct radish_engine *engine, const struct sched_step *step, uint32_t n_rows,
                      uint64_t begun_ns, uint64_t now_ns) {
    struct figures *f = &engine->figures;
    f->totals.steps_total++;
    f->totals.prompt_tokens_total += step->n_prompt_tokens;
    f->totals.cached_tokens_total += step->n_cached_tokens;
    f->totals.computed_tokens_total += n_rows;
    add_to_window(f, step);
    if (!f->mark_ns) f->mark_ns = begun_ns;
    if (now_ns - f->mark_ns >= RATE_NS) measure_rate(f, now_ns);
}

/* ---- requests ---- */

static double seconds(uint64_t from_ns, uint64_t to_ns) {
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

void figures_admit(struct radish_engine *engine, struct engine_request *request, uint64_t now_ns) {
    double waited = seconds(request->submitted_ns, now_ns);
    request->admitted_ns = now_ns;
    if (request->r.is_uncounted) return;
    metrics_observe(engine->metrics, METRIC_QUEUE_TIME, 0, waited);
    metrics_observe(engine->metrics, METRIC_STAGES, METRICS_STAGE_WAITING, waited);
}

void figures_add_token(struct radish_engine *engine, struct engine_choice *choice) {
    struct engine_request *request = choice->request;
    struct figures *f = &engine->figures;
    uint64_t now_ns = f->output_ns;
    if (request->r.is_uncounted) return;
    f->totals.output_tokens_total++;
    if (!request->first_token_ns) {
        request->first_token_ns = now_ns;
        metrics_observe(engine->metrics, METRIC_TTFT, 0, seconds(request->submitted_ns, now_ns));
        metrics_observe(engine->metrics, METRIC_STAGES, METRICS_STAGE_PREFILL,
                        seconds(request->admitted_ns, now_ns));
    } else if (choice->last_token_ns) {
        double gap = seconds(choice->last_token_ns, now_ns);
        metrics_observe(engine->metrics, METRIC_ITL, 0, gap);
        if (gap > f->totals.stall_seconds_max) f->totals.stall_seconds_max = gap;
    }
    choice->last_token_ns = now_ns;
}

void figures_end(struct radish_engine *engine, const struct engine_request *request) {
    uint64_t now_ns = clock_ns();
    if (request->r.is_uncounted) return;
    engine->figures.totals.requests_total++;
    engine->figures.totals.requests_aborted_total += request->is_aborted;
    metrics_count(engine->metrics, METRIC_REQUESTS, request->r.is_streamed, 1);
    metrics_observe(engine->metrics, METRIC_E2E, 0, seconds(request->submitted_ns, now_ns));
    if (request->first_token_ns)
        metrics_observe(engine->metrics, METRIC_STAGES, METRICS_STAGE_DECODE,
                        seconds(request->first_token_ns, now_ns));
}

/* ---- for others ---- */

static void add_tree(const struct radix *radix, struct radish_engine_info *info) {
    struct radix_summary summary;
    radix_summary(radix, &summary);
    info->matches_total = summary.n_matches;
    info->match_tokens_total = summary.n_tokens_asked;
    info->evicted_tokens_total = summary.n_tokens_evicted;
    info->evicted_leaves_total = summary.n_leaves_evicted;
    info->splits_total = summary.n_splits;
    info->duplicate_tokens_total = summary.n_duplicates;
}

void figures_publish(struct radish_engine *engine, uint64_t now_ns) {
    struct figures *f = &engine->figures;
    struct radish_engine_info *info = &f->totals;
    struct sched_stats stats;
    sched_stats(engine->sched, &stats);
    info->kv_slots_total = stats.n_slots_usable;
    info->kv_slots_free = stats.n_slots_free;
    info->kv_slots_evictable = stats.n_slots_evictable;
    info->kv_slots_pinned = stats.n_slots_pinned;
    info->kv_slots_private = stats.n_slots_private;
    info->requests_running = stats.n_seqs_running - shadow_n_running(engine);
    info->requests_waiting = stats.n_seqs_waiting;
    info->requests_retracted = stats.n_seqs_sent_back;
    info->new_token_ratio = stats.new_token_ratio;
    info->retractions_total = stats.n_retracted_total;
    info->retracted_input_tokens_total = stats.n_retracted_input_tokens;
    info->retracted_output_tokens_total = stats.n_retracted_output_tokens;
    info->preemptions_total = stats.n_preempted_total;
    info->waits_total = stats.n_waits_total;
    if (sched_radix(engine->sched)) add_tree(sched_radix(engine->sched), info);
    if (f->mark_ns && sched_is_idle(engine->sched) && !engine->n_flights) {
        measure_rate(f, now_ns);
        f->mark_ns = 0;
    }
    engine->info = *info;
    engine->rate_ns = f->rate_ns;
}

void radish_engine_info(struct radish_engine *engine, struct radish_engine_info *info_out) {
    pthread_mutex_lock(&engine->lock);
    *info_out = engine->info;
    info_out->requests_queued = engine->n_queued;
    info_out->queued_tokens = engine->n_queued_tokens;
    uint64_t rate_ns = engine->rate_ns;
    pthread_mutex_unlock(&engine->lock);
    if (!info_out->requests_running && clock_ns() - rate_ns > RATE_OLD_NS)
        info_out->output_tokens_per_second = 0;
}
