/* plan.c - sizes the KV pool from what weights and scratch leave, or says why it cannot.
 *
 *   have:  weights | scratch |                left                     |
 *                             KV pool = fraction | stays free: page cache |
 *
 * The problem: a server that finds out under load that memory is short has already failed somebody.
 * So everything is counted before anything is loaded, and a plan that does not fit is refused with
 * the three things a person needs: what is needed, what there is, and which flag changes it.
 *
 * The pool is mem_fraction_static (half, on a CPU) of what is left, but no more than POOL_CONTEXTS
 * whole contexts: beyond that memory does more good as page cache. kv_tokens_max replaces both. The
 * context is the trained length, or what fits if that is less; a context that was asked for is
 * never cut.
 *
 * Scratch depends on the context (RoPE table, attention partials): it is planned for the context
 * asked or trained first, and again after a cut, when it can only have become smaller. */
#include "engine/plan.h"

#include "base/mem.h"
#include "base/status.h"
#include "engine/kv_events.h"
#include "tensor/quantise.h"

#include <string.h>

enum {
    POOL_CONTEXTS = 16,
    CONTEXT_UNKNOWN = 4096, /* where a model does not say what it was trained for */
    ROWS_MAX = 1 << 16,     /* chunk, sequences, queue: beyond, memory for batches makes no sense */
    SLOTS_MANY = 1 << 20,   /* to measure what a slot costs where tables grow by doubling */
    SLOT_SLACK_BYTES = 16,  /* and how far above that measure it may be */
    PREEMPTION_THRESHOLD = 10 /* priorities nearer than that wait for each other; SGLang's number */
};

struct flag_range {
    const char *flag;
    uint32_t *value;
    uint32_t fallback, max;
};

static enum radish_status find_name(const char *flag, const char *name, const char *const *names,
                                    uint32_t n_names, uint32_t *idx_out, struct radish_error *err) {
    struct buf all;
    buf_init(&all, 0);
    for (*idx_out = 0; *idx_out < n_names; ++*idx_out) {
        if (strcmp(name, names[*idx_out]) == 0) return RADISH_OK;
        buf_printf(&all, "%s%s", *idx_out ? ", " : "", names[*idx_out]);
    }
    *idx_out = 0;
    enum radish_status status =
        error_set_field(err, RADISH_E_INVALID, flag, "--%s: '%s' is not one of %s", flag, name,
                        all.data ? all.data : "its values");
    buf_deinit(&all);
    return status;
}

#define PLAN_NAME(suffix, name) name,
static const char *const schedule_names[] = {SCHED_POLICY_TABLE(PLAN_NAME)};
static const char *const eviction_names[] = {RADIX_POLICY_TABLE(PLAN_NAME)};
#undef PLAN_NAME

static enum radish_status read_policies(const struct radish_engine_options *options,
                                        struct sched_options *sched_out, struct radish_error *err) {
    uint32_t idx;
    *sched_out = (struct sched_options){0};
    RADISH_TRY(find_name("schedule-policy", options->schedule_policy, schedule_names,
                         SCHED_POLICY_COUNT, &idx, err));
    sched_out->policy = (enum sched_policy)idx;
    RADISH_TRY(find_name("radix-eviction-policy", options->eviction_policy, eviction_names,
                         RADIX_POLICY_COUNT, &idx, err));
    sched_out->kv.policy = (enum radix_policy)idx;
    return RADISH_OK;
}

/* Only the quantising part; the other options of loading are the caller's. */
static enum radish_status read_quantization(const char *name, struct weights_options *weights_out,
                                            struct radish_error *err) {
    *weights_out = (struct weights_options){.is_quantised = name != NULL};
    if (!name || quantise_type_find(name, &weights_out->quant_dtype)) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, "quantization",
                           "--quantization: '%.40s' is not one of %s", name, quantise_type_names());
}

/* A GPU's limit is its own already; on a CPU other programs want some of what is free. */
static bool is_gpu(const char *device) {
    return !strncmp(device, "metal", 5);
}

enum radish_status plan_options(const struct radish_engine_options *given,
                                struct radish_engine_options *options_out,
                                struct radish_error *err) {
    struct radish_engine_options options = {0};
    if (given) options = *given;
    struct flag_range ranges[] = {
        {"page-size", &options.page_tokens, 1, 4096},
        {"max-running-requests", &options.requests_running_max, 256, ROWS_MAX},
        {"max-queued-requests", &options.requests_queued_max, 1024, ROWS_MAX},
        {"chunked-prefill-size", &options.chunk_tokens, 512, ROWS_MAX},
        {"max-prefill-tokens", &options.prefill_tokens_max, 16384, INT32_MAX},
        {"decode-log-interval", &options.decode_log_interval, 40, INT32_MAX},
        {"context-length", &options.context_tokens, 0, INT32_MAX},
        {"threads", &options.n_threads, 0, 4096},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (!*ranges[i].value) *ranges[i].value = ranges[i].fallback;
        if (*ranges[i].value > ranges[i].max)
            return error_set_field(err, RADISH_E_INVALID, ranges[i].flag,
                                   "--%s must be at most %u, not %u", ranges[i].flag, ranges[i].max,
                                   *ranges[i].value);
    }
    if (!options.device) options.device = "cpu";
    if (options.mem_fraction_static == 0)
        options.mem_fraction_static = is_gpu(options.device) ? 0.85 : 0.5;
    if (!(options.mem_fraction_static > 0 && options.mem_fraction_static <= 1))
        return error_set_field(err, RADISH_E_INVALID, "mem-fraction-static",
                               "--mem-fraction-static must be in (0, 1], not %g",
                               options.mem_fraction_static);
    if (!(options.request_timeout_seconds >= 0))
        return error_set_field(err, RADISH_E_INVALID, "request-timeout",
                               "--request-timeout must not be negative");
    if (options.n_kernels > RADISH_KERNEL_OVERRIDES_MAX)
        return error_set_field(err, RADISH_E_INVALID, "kernel", "at most %d kernels can be forced",
                               RADISH_KERNEL_OVERRIDES_MAX);
    if (options.schedule_conservativeness == 0) options.schedule_conservativeness = 1;
    if (!(options.schedule_conservativeness > 0 && options.schedule_conservativeness <= 100))
        return error_set_field(err, RADISH_E_INVALID, "schedule-conservativeness",
                               "--schedule-conservativeness must be in (0, 100], not %g",
                               options.schedule_conservativeness);
    if (!options.stall_ms_max) options.stall_ms_max = 250;
    if (options.stall_ms_max < -1)
        return error_set_field(err, RADISH_E_INVALID, "max-stall-ms",
                               "--max-stall-ms must not be negative");
    if (!options.eviction_policy) options.eviction_policy = "lru";
    if (!options.schedule_policy) options.schedule_policy = "lpm";
    struct sched_options policies;
    RADISH_TRY(read_policies(&options, &policies, err));
    options.schedule_policy = schedule_names[policies.policy]; /* those of the caller may go */
    options.eviction_policy = eviction_names[policies.kv.policy];
    struct weights_options weights;
    if (options.quantization && !strcmp(options.quantization, "none")) options.quantization = NULL;
    RADISH_TRY(read_quantization(options.quantization, &weights, err));
    if (options.quantization) options.quantization = quantise_type_name(weights.quant_dtype);
    if (options.shadow_check && options.is_cache_off)
        return error_set_field(err, RADISH_E_INVALID, "shadow-check",
                               "--shadow-check checks the cache, which --disable-radix-cache "
                               "switches off: give one of them");
    if (options.on_kv_events && options.is_cache_off)
        return error_set_field(err, RADISH_E_INVALID, "kv-events-config",
                               "--kv-events-config tells of the cache, which "
                               "--disable-radix-cache switches off: give one of them");
    *options_out = options;
    return RADISH_OK;
}

static double gb(uint64_t bytes) {
    return (double)bytes / 1e9;
}

/* Slots are the pool's, once that is known. */
static struct kv_cache_options cache_options(const struct engine_plan *plan) {
    return (struct kv_cache_options){.n_slots = plan->runner.n_slots,
                                     .page_slots = plan->options.page_tokens,
                                     .n_rows = plan->options.requests_running_max,
                                     .context_tokens = plan->runner.context_tokens,
                                     .is_tree_off = plan->options.is_cache_off,
                                     .is_announced = plan->options.on_kv_events != NULL};
}

/* What the runner and the samplers take (20 bytes an id and thread, and a copy of a row), and the
 * slot tables. What tree and pool take for each slot is counted as part of the slot. */
static enum radish_status plan_scratch(struct engine_plan *plan, const struct radish_model *model,
                                       struct device *device, struct radish_error *err) {
    struct runner_plan runner;
    RADISH_TRY(runner_plan(&model->config, device, &plan->runner, &runner, err));
    struct kv_cache_options cache = cache_options(plan);
    uint64_t n_slots = cache.n_slots = plan->runner.context_tokens, bytes = kv_cache_bytes(&cache);
    cache.n_slots = SLOTS_MANY;
    uint64_t many_bytes = kv_cache_bytes(&cache);
    cache.n_slots = 2 * SLOTS_MANY;
    uint64_t per_slot = (kv_cache_bytes(&cache) - many_bytes) / SLOTS_MANY + 1;
    plan->kv_slot_bytes = runner.kv_slot_bytes + per_slot + SLOT_SLACK_BYTES;
    plan->scratch_bytes =
        runner.scratch_bytes + (uint64_t)device_n_threads(device) * model->config.n_vocab * 24 +
        (bytes > per_slot * n_slots ? bytes - per_slot * n_slots : 0) +
        (plan->options.shadow_check ? 4 * (uint64_t)n_slots : 0) + kv_events_bytes(&plan->options);
    return RADISH_OK;
}

static uint64_t left_bytes(const struct engine_plan *plan) {
    uint64_t taken = plan->weight_bytes + plan->scratch_bytes;
    return plan->have_bytes > taken ? plan->have_bytes - taken : 0;
}

static enum radish_status check_minimum(const struct engine_plan *plan, struct radish_error *err) {
    uint64_t kv_min = plan->kv_slot_bytes * (KV_POOL_USABLE_MIN + plan->options.page_tokens);
    uint64_t need = plan->weight_bytes + plan->scratch_bytes + kv_min;
    if (need <= plan->have_bytes) return RADISH_OK;
    return error_set_field(
        err, RADISH_E_NOMEM, "model",
        "the model needs at least %.2f GB (weights %.2f, scratch %.2f, KV of %d tokens %.2f), but "
        "%.2f GB are available: take a smaller model, or lower --context-length or "
        "--chunked-prefill-size",
        gb(need), gb(plan->weight_bytes), gb(plan->scratch_bytes), KV_POOL_USABLE_MIN, gb(kv_min),
        gb(plan->have_bytes));
}

/* Slots, padding page included, in whole pages. */
static enum radish_status plan_slots(struct engine_plan *plan, struct radish_error *err) {
    const struct radish_engine_options *options = &plan->options;
    uint64_t page = options->page_tokens, left = left_bytes(plan), n_usable, n_wanted;
    RADISH_TRY(check_minimum(plan, err));
    if (options->kv_tokens_max) {
        n_wanted = n_usable = options->kv_tokens_max / page * page;
        uint64_t need;
        if (n_usable > INT32_MAX - page ||
            !mem_mul_u64(n_usable + page, plan->kv_slot_bytes, &need) || need > left)
            return error_set_field(
                err, RADISH_E_NOMEM, "max-total-tokens",
                "a KV pool of %llu tokens needs %.2f GB, but weights and scratch leave %.2f of "
                "%.2f GB: lower --max-total-tokens",
                (unsigned long long)options->kv_tokens_max,
                gb(plan->kv_slot_bytes) * (double)options->kv_tokens_max, gb(left),
                gb(plan->have_bytes));
    } else {
        double bytes = (double)left * options->mem_fraction_static;
        n_wanted = (uint64_t)(bytes / (double)plan->kv_slot_bytes);
        uint64_t n_max = (uint64_t)POOL_CONTEXTS * plan->runner.context_tokens;
        if (n_max < KV_POOL_USABLE_MIN + page) n_max = KV_POOL_USABLE_MIN + page;
        if (n_wanted > n_max) n_wanted = n_max;
        if (n_wanted > INT32_MAX / 2) n_wanted = INT32_MAX / 2;
        n_usable = n_wanted / page * page;
        if (n_usable + page > left / plan->kv_slot_bytes) n_usable -= n_usable ? page : 0;
    }
    if (n_usable < KV_POOL_USABLE_MIN)
        return error_set_field(
            err, RADISH_E_NOMEM,
            options->kv_tokens_max ? "max-total-tokens" : "mem-fraction-static",
            "the KV pool would have %llu slots, at least %d are needed: raise --%s",
            (unsigned long long)n_usable, KV_POOL_USABLE_MIN,
            options->kv_tokens_max ? "max-total-tokens" : "mem-fraction-static");
    plan->n_usable = (uint32_t)n_usable;
    plan->runner.n_slots = (uint32_t)(n_usable + page);
    plan->kv_bytes = plan->kv_slot_bytes * plan->runner.n_slots;
    return RADISH_OK;
}

static enum radish_status check_context(const struct engine_plan *plan, struct radish_error *err) {
    uint32_t asked = plan->options.context_tokens;
    if (asked == 1)
        return error_set_field(err, RADISH_E_INVALID, "context-length",
                               "--context-length 1 has no room for a prompt and an answer");
    if (asked <= plan->n_usable) return RADISH_OK;
    return error_set_field(
        err, RADISH_E_NOMEM, "context-length",
        "a context of %u tokens needs %.2f GB of KV, but the pool has %u slots (%.2f GB of the "
        "%.2f GB that weights and scratch leave): lower --context-length or raise --%s",
        asked, gb(plan->kv_slot_bytes * asked), plan->n_usable, gb(plan->kv_bytes),
        gb(left_bytes(plan)),
        plan->options.kv_tokens_max ? "max-total-tokens" : "mem-fraction-static");
}

/* What the scheduler is created with, once the pool's size is known. */
static void plan_sched(struct engine_plan *plan) {
    const struct radish_engine_options *options = &plan->options;
    struct sched_options *sched = &plan->sched;
    enum radix_policy policy = sched->kv.policy;
    sched->kv = cache_options(plan);
    sched->kv.policy = policy;
    sched->chunk_tokens = options->chunk_tokens;
    sched->prefill_tokens_max = options->prefill_tokens_max;
    sched->conservativeness = options->schedule_conservativeness;
    sched->has_priorities = options->has_priorities;
    sched->preemption_threshold = PREEMPTION_THRESHOLD;
    sched->stall_ns_max =
        options->stall_ms_max > 0 ? (uint64_t)options->stall_ms_max * 1000000u : 0;
    sched->seed = options->seed;
}

enum radish_status plan_make(const struct radish_model *model, struct device *device,
                             const struct radish_engine_options *options, uint64_t have_bytes,
                             struct engine_plan *plan_out, struct radish_error *err) {
    struct engine_plan plan = {.options = *options, .have_bytes = have_bytes};
    if (device->ops->memory_available) plan.have_bytes = device->ops->memory_available(device);
    *plan_out = plan;
    if (model->config_status != RADISH_OK) {
        if (err) *err = model->config_error;
        return model->config_status;
    }
    const struct model_config *config = &model->config;
    uint32_t context = options->context_tokens   ? options->context_tokens
                       : config->context_trained ? config->context_trained
                                                 : CONTEXT_UNKNOWN;
    uint32_t rows = options->chunk_tokens + options->requests_running_max;
    plan.runner = (struct runner_options){
        .tokens_max = rows,
        .seqs_max = options->requests_running_max,
        .logits_rows_max = rows,
        .context_tokens = context,
        .page_size = options->page_tokens,
        .kv_dtype = device_kv_dtype(options->kv_dtype, options->precision, config->dtype),
        .n_drawn = model->info.n_tokens < config->n_vocab ? model->info.n_tokens : 0};
    RADISH_TRY(read_quantization(options->quantization, &plan.weights, err));
    RADISH_TRY(weights_plan(model->file, config, device, &plan.weights, &plan.weights_sizes, err));
    plan.weight_bytes = plan.weights_sizes.bytes;
    RADISH_TRY(plan_scratch(&plan, model, device, err));
    RADISH_TRY(plan_slots(&plan, err));
    RADISH_TRY(check_context(&plan, err));
    if (plan.n_usable < context) {
        plan.runner.context_tokens = plan.n_usable;
        RADISH_TRY(plan_scratch(&plan, model, device, err));
    }
    RADISH_TRY(read_policies(options, &plan.sched, err));
    plan_sched(&plan);
    *plan_out = plan;
    return RADISH_OK;
}

void plan_append_weights(const struct engine_plan *plan, struct buf *out) {
    const struct weights_sizes *sizes = &plan->weights_sizes;
    for (int i = 0; i < RADISH_DTYPE_COUNT; i++)
        if (sizes->dtype_bytes[i])
            buf_printf(out, "%s %.2f MB, ", dtype_name((enum dtype)i),
                       (double)sizes->dtype_bytes[i] / 1e6);
    buf_printf(out, "of %.2f MB in the file", (double)sizes->file_bytes / 1e6);
}

void plan_append_line(const struct engine_plan *plan, const struct radish_model *model,
                      struct buf *out) {
    buf_printf(out,
               "weights %.2f GB, KV pool %u slots x %u layers (%s, %.2f GB), scratch %.2f GB, have "
               "%.1f GB",
               gb(plan->weight_bytes), plan->n_usable, model->config.n_layers,
               dtype_name(plan->runner.kv_dtype), gb(plan->kv_bytes), gb(plan->scratch_bytes),
               gb(plan->have_bytes));
}
