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
#include "cache/kv_pool.h"

enum {
    POOL_CONTEXTS = 16,
    CONTEXT_UNKNOWN = 4096, /* where a model does not say what it was trained for */
    ROWS_MAX = 1 << 16      /* chunk, sequences, queue: beyond, memory for batches makes no sense */
};

struct flag_range {
    const char *flag;
    uint32_t *value;
    uint32_t fallback, max;
};

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
    if (options.mem_fraction_static == 0) options.mem_fraction_static = 0.5;
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
    if (!options.device) options.device = "cpu";
    *options_out = options;
    return RADISH_OK;
}

static double gb(uint64_t bytes) {
    return (double)bytes / 1e9;
}

/* What the runner, the samplers (20 bytes an id and thread) and the results of a block take. */
static enum radish_status plan_scratch(struct engine_plan *plan, const struct radish_model *model,
                                       const struct device *device, struct radish_error *err) {
    struct runner_plan runner;
    RADISH_TRY(runner_plan(&model->config, device, &plan->runner, &runner, err));
    plan->kv_slot_bytes = runner.kv_slot_bytes;
    plan->scratch_bytes =
        runner.scratch_bytes + (uint64_t)device_n_threads(device) * model->config.n_vocab * 20;
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
    if (asked <= plan->n_usable) return RADISH_OK;
    return error_set_field(
        err, RADISH_E_NOMEM, "context-length",
        "a context of %u tokens needs %.2f GB of KV, but the pool has %u slots (%.2f GB of the "
        "%.2f GB that weights and scratch leave): lower --context-length or raise --%s",
        asked, gb(plan->kv_slot_bytes * asked), plan->n_usable, gb(plan->kv_bytes),
        gb(left_bytes(plan)),
        plan->options.kv_tokens_max ? "max-total-tokens" : "mem-fraction-static");
}

enum radish_status plan_make(const struct radish_model *model, const struct device *device,
                             const struct radish_engine_options *options, uint64_t have_bytes,
                             struct engine_plan *plan_out, struct radish_error *err) {
    struct engine_plan plan = {.options = *options, .have_bytes = have_bytes};
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
        .kv_dtype = device_kv_dtype(options->kv_dtype, options->precision, config->dtype)};
    RADISH_TRY(weights_plan(model->file, config, device, &plan.weight_bytes, err));
    RADISH_TRY(plan_scratch(&plan, model, device, err));
    RADISH_TRY(plan_slots(&plan, err));
    RADISH_TRY(check_context(&plan, err));
    if (plan.n_usable < context) {
        plan.runner.context_tokens = plan.n_usable;
        RADISH_TRY(plan_scratch(&plan, model, device, err));
    }
    plan.scratch_bytes += (uint64_t)plan.runner.n_slots * sizeof(uint32_t); /* slot tables */
    *plan_out = plan;
    return RADISH_OK;
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
