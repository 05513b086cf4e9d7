/* one_batch.c - prefill and decode by hand, for 'radish bench one-batch'.
 *
 * The scheduler's part is played by two loops: a prefill step takes rows of the prompts in order
 * until a chunk is full, a decode step takes one row of every sequence. Slots are taken for all of
 * a sequence at once, so they lie in runs, as they do in a server that is not full. Loading follows
 * the engine's order: device, memory plan, weights, runner; the pool is sized for the batch unless
 * its size was given. */
#include "one_batch.h"

#include "base/file_map.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/rng.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_IDS = 10000, PROMPT_FILE_MAX = 64 << 20 };

/* ---- sizes ---- */

static uint32_t slots_of(const struct one_batch *o, uint32_t n_tokens) {
    uint32_t page = o->options.page_tokens;
    return (n_tokens + page - 1) / page * page;
}

/* Why there is no plan. Sizes that come from the batch are not to be changed by flags nobody gave:
 * then the advice at the end of the message is another one. */
static int fail_plan(const struct one_batch *o, const struct radish_error *err) {
    const struct radish_engine_options *given = &o->args->engine;
    const bool has_pool = given->kv_tokens_max || given->mem_fraction_static > 0;
    const bool is_ours = (!has_pool && !strcmp(err->field, "max-total-tokens")) ||
                         (!given->context_tokens && !strcmp(err->field, "context-length"));
    const char *advice = is_ours ? strrchr(err->msg, ':') : NULL;
    if (!advice) return command_fail_error(o->args->model, err);
    return command_fail("a batch of %u with %u tokens each: %.*s: %smake the batch or its lengths "
                        "smaller",
                        o->seqs_max, o->tokens_max, (int)(advice - err->msg), err->msg,
                        !has_pool              ? ""
                        : given->kv_tokens_max ? "raise --max-total-tokens or "
                                               : "raise --mem-fraction-static or ");
}

/* Sizes the pool for the largest combination, unless its size was given. */
static int make_plan(struct one_batch *o) {
    struct args *args = o->args;
    struct radish_error err = {0};
    struct machine machine;
    uint64_t need = (uint64_t)o->seqs_max * slots_of(o, o->tokens_max);
    bool is_given = args->engine.kv_tokens_max || args->engine.mem_fraction_static > 0;
    uint64_t floor = (uint64_t)KV_POOL_USABLE_MIN + o->options.page_tokens;
    machine_read(&machine);
    if (o->options.context_tokens && o->options.context_tokens < o->tokens_max)
        return command_fail("%u tokens of input and output need a longer --context-length than %u",
                            o->tokens_max, o->options.context_tokens);
    if (!o->options.context_tokens) o->options.context_tokens = o->tokens_max;
    o->options.requests_running_max = o->seqs_max;
    if (!is_given) {
        const uint64_t context = slots_of(o, o->options.context_tokens);
        o->options.kv_tokens_max = need > context ? need : context;
        if (o->options.kv_tokens_max < floor) o->options.kv_tokens_max = floor;
    }
    enum radish_status status =
        plan_make(o->model, o->device, &o->options, machine.memory_available_bytes, &o->plan, &err);
    if (status == RADISH_OK && o->plan.n_usable >= need) return -1;
    if (status == RADISH_OK)
        return command_fail("a batch of %u with %u tokens each needs %llu slots, but the KV pool "
                            "has %u: raise --%s or make the batch smaller",
                            o->seqs_max, o->tokens_max, (unsigned long long)need, o->plan.n_usable,
                            args->engine.kv_tokens_max ? "max-total-tokens"
                                                       : "mem-fraction-static");
    return fail_plan(o, &err);
}

static bool make_buffers(struct one_batch *o) {
    uint32_t rows = o->plan.runner.tokens_max;
    o->batch.token_ids = mem_zalloc(rows, sizeof *o->batch.token_ids);
    o->batch.positions = mem_zalloc(rows, sizeof *o->batch.positions);
    o->batch.slots[0] = mem_zalloc(rows, sizeof *o->batch.slots[0]);
    o->batch.seqs = mem_zalloc(o->seqs_max, sizeof *o->batch.seqs);
    o->batch.logits_rows = mem_zalloc(rows, sizeof *o->batch.logits_rows);
    o->batch.n_groups = 1;
    o->seqs = mem_zalloc(o->seqs_max, sizeof *o->seqs);
    if (!o->batch.token_ids || !o->batch.positions || !o->batch.slots[0] || !o->batch.seqs ||
        !o->batch.logits_rows || !o->seqs)
        return false;
    for (uint32_t i = 0; i < o->seqs_max; i++) {
        struct one_seq *seq = &o->seqs[i];
        seq->tokens = mem_zalloc(o->tokens_max, sizeof *seq->tokens);
        seq->slots = mem_zalloc(slots_of(o, o->tokens_max), sizeof *seq->slots);
        if (!seq->tokens || !seq->slots) return false;
    }
    return true;
}

int one_batch_open(struct one_batch *o, struct args *args) {
    struct radish_error err = {0};
    *o = (struct one_batch){.args = args};
    int rc = command_open_model(args, &o->model);
    if (rc >= 0) return rc;
    if (plan_options(&args->engine, &o->options, &err) == RADISH_OK) return -1;
    command_fail_error("", &err);
    return EXIT_USAGE;
}

int one_batch_load(struct one_batch *o, uint32_t seqs_max, uint32_t tokens_max) {
    struct radish_error err = {0};
    o->seqs_max = seqs_max;
    o->tokens_max = tokens_max;
    struct device_options device = {.n_threads = o->options.n_threads,
                                    .precision = o->options.precision,
                                    .kernels = o->options.kernels,
                                    .n_kernels = o->options.n_kernels,
                                    .huge_pages = o->options.huge_pages,
                                    .numa = o->options.numa};
    if (device_open(o->options.device, &device, &o->device, &err) != RADISH_OK)
        return command_fail_open("", &err);
    int rc = make_plan(o);
    if (rc >= 0) return rc;
    const struct model_config *config = &o->model->config;
    enum radish_status status =
        weights_load(o->model->file, config, o->device, &o->plan.weights, &o->weights, &err);
    if (status == RADISH_OK)
        status = runner_create(config, o->weights, o->device, &o->plan.runner, &o->runner, &err);
    if (status == RADISH_OK)
        status = kv_pool_create(o->plan.runner.n_slots, o->options.page_tokens, &o->pool, &err);
    if (status == RADISH_OK) status = sampler_create(config->n_vocab, &o->sampler, &err);
    if (status != RADISH_OK) return command_fail_error(o->args->model, &err);
    return make_buffers(o) ? -1 : command_fail("out of memory");
}

void one_batch_close(struct one_batch *o) {
    for (uint32_t i = 0; o->seqs && i < o->seqs_max; i++) {
        free(o->seqs[i].tokens);
        free(o->seqs[i].slots);
    }
    for (uint32_t i = 0; i < o->n_prompts; i++) radish_free(o->prompts[i]);
    free(o->prompts);
    free(o->prompt_lens);
    free(o->seqs);
    free(o->kept_logits);
    free(o->batch.token_ids);
    free(o->batch.positions);
    free(o->batch.slots[0]);
    free(o->batch.seqs);
    free(o->batch.logits_rows);
    sampler_destroy(o->sampler);
    kv_pool_destroy(o->pool);
    runner_destroy(o->runner);
    weights_destroy(o->weights);
    device_close(o->device);
    radish_model_close(o->model);
}

/* ---- prompts ---- */

int one_batch_add_prompt(struct one_batch *o, const char *text, size_t len) {
    struct radish_error err = {0};
    int32_t **prompts = realloc(o->prompts, (o->n_prompts + 1) * sizeof *prompts);
    if (prompts) o->prompts = prompts;
    size_t *lens = realloc(o->prompt_lens, (o->n_prompts + 1) * sizeof *lens);
    if (lens) o->prompt_lens = lens;
    if (!prompts || !lens) return command_fail("out of memory");
    if (radish_tokenize(o->model, text, len, RADISH_TOKENIZE_SPECIAL, &prompts[o->n_prompts],
                        &lens[o->n_prompts], &err) != RADISH_OK)
        return command_fail_error("a prompt", &err);
    if (lens[o->n_prompts])
        o->n_prompts++;
    else
        radish_free(prompts[o->n_prompts]);
    return -1;
}

int one_batch_add_file(struct one_batch *o, const char *path) {
    struct radish_error err = {0};
    char *text;
    size_t len;
    int rc = -1;
    if (file_read(path, PROMPT_FILE_MAX, &text, &len, &err) != RADISH_OK)
        return command_fail_error(path, &err);
    for (size_t at = 0; rc < 0 && at < len;) {
        size_t n = strcspn(text + at, "\r\n");
        if (n) rc = one_batch_add_prompt(o, text + at, n);
        at += n + 1;
    }
    free(text);
    return rc < 0 && !o->n_prompts ? command_fail("%s: has no prompts", path) : rc;
}

void one_batch_set_prompt(struct one_batch *o, uint32_t i, uint32_t n) {
    struct one_seq *seq = &o->seqs[i];
    uint32_t n_ids = o->model->config.n_vocab < RANDOM_IDS ? o->model->config.n_vocab : RANDOM_IDS;
    seq->n_prompt = seq->n_tokens = n;
    seq->n_cached = 0;
    for (uint32_t t = 0; t < n; t++)
        if (o->n_prompts)
            seq->tokens[t] = o->prompts[i % o->n_prompts][t % o->prompt_lens[i % o->n_prompts]];
        else
            seq->tokens[t] = (int32_t)(rng_u64(o->args->bench.seed + i, t) % n_ids);
}

/* ---- steps ---- */

int one_batch_begin(struct one_batch *o, uint32_t n_seqs, uint32_t n_tokens) {
    o->n_seqs = n_seqs;
    for (uint32_t i = 0; i < o->n_seqs; i++)
        if (kv_pool_take(o->pool, slots_of(o, n_tokens), 0, o->seqs[i].slots) != RADISH_OK)
            return command_fail("the KV pool has too few slots");
    return -1;
}

void one_batch_end(struct one_batch *o, uint32_t n_tokens) {
    for (uint32_t i = 0; i < o->n_seqs; i++)
        kv_pool_give(o->pool, o->seqs[i].slots, slots_of(o, n_tokens));
}

/* n rows of a sequence; the last wants logits when it is the last that is known. */
static void add_rows(struct one_batch *o, uint32_t i, uint32_t n) {
    struct batch *batch = &o->batch;
    struct one_seq *seq = &o->seqs[i];
    uint32_t first = batch->n_tokens;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t position = seq->n_cached + r;
        batch->token_ids[first + r] = seq->tokens[position];
        batch->positions[first + r] = (int32_t)position;
        batch->slots[0][first + r] = (int32_t)seq->slots[position];
    }
    seq->n_cached += n;
    bool is_last = seq->n_cached == seq->n_tokens;
    uint32_t n_silent = is_last ? n - 1 : n;
    batch->seqs[batch->n_seqs++] = (struct batch_seq){.row_first = first,
                                                      .n_rows = n,
                                                      .kv_len = seq->n_cached,
                                                      .kv_slots = {seq->slots},
                                                      .logits_first = n_silent,
                                                      .logits_row = batch->n_logits_rows,
                                                      .user = seq};
    for (uint32_t r = n_silent; r < n; r++) batch->logits_rows[batch->n_logits_rows++] = first + r;
    batch->n_tokens += n;
}

/* The token each complete sequence of the step goes on with. */
static int sample_step(struct one_batch *o) {
    struct radish_sampling greedy;
    struct sample_args args = {.sampling = &greedy};
    struct sample_result result;
    size_t n_vocab = o->model->config.n_vocab;
    radish_sampling_init(&greedy);
    greedy.temperature = 0;
    for (uint32_t first = 0, n; first < o->batch.n_logits_rows; first += n) {
        float *logits;
        uint32_t left = o->batch.n_logits_rows - first;
        n = left < RUNNER_LOGITS_ROWS ? left : RUNNER_LOGITS_ROWS;
        if (runner_logits(o->runner, first, n, &logits) != RADISH_OK)
            return command_fail("the device failed");
        for (uint32_t i = 0; i < o->batch.n_seqs; i++) {
            const struct batch_seq *it = &o->batch.seqs[i];
            struct one_seq *seq = it->user;
            if (it->logits_first == it->n_rows || it->logits_row < first ||
                it->logits_row >= first + n)
                continue;
            float *row = logits + (size_t)(it->logits_row - first) * n_vocab;
            if (o->kept_logits)
                memcpy(o->kept_logits + (size_t)(seq - o->seqs) * n_vocab, row,
                       n_vocab * sizeof *row);
            sampler_sample(o->sampler, row, &args, &result);
            if (result.status != RADISH_OK) return command_fail("the logits are not finite");
            seq->tokens[seq->n_tokens++] = result.id;
        }
    }
    return -1;
}

static int run_step(struct one_batch *o) {
    if (runner_step(o->runner, &o->batch) != RADISH_OK) return command_fail("the device failed");
    return sample_step(o);
}

static bool is_complete(const struct one_batch *o) {
    for (uint32_t i = 0; i < o->n_seqs; i++)
        if (o->seqs[i].n_tokens == o->seqs[i].n_prompt) return false;
    return true;
}

/* A step over all sequences: each may compute its tokens up to the prompt's end, or all it has. */
static int run_rows(struct one_batch *o, bool is_prefill) {
    uint32_t room = is_prefill ? o->options.chunk_tokens : o->n_seqs;
    o->batch.n_tokens = o->batch.n_seqs = o->batch.n_logits_rows = 0;
    for (uint32_t i = 0; i < o->n_seqs && room; i++) {
        const struct one_seq *seq = &o->seqs[i];
        uint32_t end = is_prefill ? seq->n_prompt : seq->n_tokens;
        uint32_t n = end - (seq->n_cached < end ? seq->n_cached : end);
        if (n > room) n = room;
        if (n) add_rows(o, i, n);
        room -= n;
    }
    return run_step(o);
}

int one_batch_prefill(struct one_batch *o) {
    int rc = -1;
    while (rc < 0 && !is_complete(o)) rc = run_rows(o, /*is_prefill=*/true);
    return rc;
}

int one_batch_decode(struct one_batch *o) {
    return run_rows(o, /*is_prefill=*/false);
}
