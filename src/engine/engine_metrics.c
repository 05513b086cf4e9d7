/* engine_metrics.c - the engine's figures as Prometheus reads them.
 *
 * Gauges and totals are those of radish_engine_info(), copied at one moment and told to the writer;
 * histograms and what has labels are counted as it happens (figures.c) and only written here. So a
 * scrape takes the engine's lock for the time of a copy, and never waits for a step.
 *
 * Cost: see metrics.c. A step pays some 0.1 us for the copy of figures, and less than that for each
 * token. */
#include "engine/engine_int.h"

#include "base/status.h"
#include "metrics/metrics_text.h"

#include <string.h>

static void tell_state(const struct radish_engine_info *info, double *told) {
    uint64_t n_used = info->kv_slots_pinned + info->kv_slots_private;
    double usage = info->kv_slots_total ? (double)n_used / (double)info->kv_slots_total : 0;
    double running = (double)info->requests_running / (double)info->requests_running_max;
    told[METRIC_RUNNING] = info->requests_running;
    told[METRIC_QUEUED] = info->requests_queued;
    told[METRIC_RETRACTED] = info->requests_retracted;
    told[METRIC_WAITING] = info->requests_waiting;
    told[METRIC_USED_TOKENS] = told[METRIC_KV_USED] = (double)n_used;
    told[METRIC_TOKEN_USAGE] = usage;
    told[METRIC_UTILIZATION] = running > usage ? running : usage;
    told[METRIC_KV_TOTAL] = (double)info->kv_slots_total;
    told[METRIC_KV_AVAILABLE] = (double)info->kv_slots_free;
    told[METRIC_KV_EVICTABLE] = (double)info->kv_slots_evictable;
    told[METRIC_KV_PINNED] = (double)info->kv_slots_pinned;
    told[METRIC_KV_PRIVATE] = (double)info->kv_slots_private;
    told[METRIC_GEN_THROUGHPUT] = info->output_tokens_per_second;
    told[METRIC_CACHE_HIT_RATE] = info->cache_hit_rate;
    told[METRIC_NEW_TOKEN_RATIO] = info->new_token_ratio;
    told[METRIC_STALL] = info->stall_seconds_max;
}

static void tell_totals(const struct radish_engine_info *info, double *told) {
    told[METRIC_PROMPT_TOKENS] = (double)info->prompt_tokens_total;
    told[METRIC_GENERATION_TOKENS] = (double)info->output_tokens_total;
    told[METRIC_CACHED_TOKENS] = (double)info->cached_tokens_total;
    told[METRIC_COMPUTED_TOKENS] = (double)info->computed_tokens_total;
    told[METRIC_STEPS] = (double)info->steps_total;
    told[METRIC_ABORTED_REQUESTS] = (double)info->requests_aborted_total;
    told[METRIC_RETRACTED_REQUESTS] = (double)info->retractions_total;
    told[METRIC_RETRACTED_INPUT] = (double)info->retracted_input_tokens_total;
    told[METRIC_RETRACTED_OUTPUT] = (double)info->retracted_output_tokens_total;
    told[METRIC_PREEMPTIONS] = (double)info->preemptions_total;
    told[METRIC_TWIN_WAITS] = (double)info->waits_total;
    told[METRIC_MATCHED_TOKENS] = (double)info->match_tokens_total;
    told[METRIC_EVICTED_TOKENS] = (double)info->evicted_tokens_total;
    told[METRIC_EVICTED_LEAVES] = (double)info->evicted_leaves_total;
    told[METRIC_SPLITS] = (double)info->splits_total;
    told[METRIC_DUPLICATES] = (double)info->duplicate_tokens_total;
    told[METRIC_FLUSHES] = (double)info->flushes_total;
    told[METRIC_SHADOW_CHECKS] = (double)info->shadow_checks_total;
    told[METRIC_SHADOW_FAILURES] = (double)info->shadow_failures_total;
}

/* What was built and chosen, as labels of a metric that is always 1. */
static void write_build(const struct radish_engine_info *info, struct buf *labels,
                        struct buf *out) {
    bool is_exact = info->precision == RADISH_PRECISION_EXACT;
    metrics_text_label(labels, "version", RADISH_VERSION);
    metrics_text_label(labels, "device", info->device);
    metrics_text_label(labels, "isa", info->isa);
    metrics_text_label(labels, "precision", is_exact ? "exact" : "fast");
    metrics_text_label(labels, "kv_cache_dtype", info->kv_dtype);
    metrics_text_label(labels, "bit_class", info->bit_class);
    metrics_text_family(out, "radish:build_info", METRICS_GAUGE,
                        "The program and what it chose for this machine and model; always 1.");
    metrics_text_sample(out, "radish:build_info", labels->data ? labels->data : "", 1);
}

enum radish_status radish_engine_metrics(struct radish_engine *engine, const char *model_name,
                                         char **text_out, size_t *len_out,
                                         struct radish_error *err) {
    double told[METRIC_COUNT] = {0};
    struct radish_engine_info info;
    struct buf labels, out;
    *text_out = NULL;
    *len_out = 0;
    radish_engine_info(engine, &info);
    tell_state(&info, told);
    tell_totals(&info, told);
    buf_init(&labels, 0);
    buf_init(&out, 0);
    metrics_text_label(&labels, "model_name", model_name);
    metrics_write(engine->metrics, told, labels.data ? labels.data : "", &out);
    write_build(&info, &labels, &out);
    out.failed |= labels.failed;
    buf_deinit(&labels);
    *text_out = buf_take(&out, len_out);
    buf_deinit(&out);
    return *text_out ? RADISH_OK : error_nomem(err);
}
