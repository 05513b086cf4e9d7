/* shadow.c - what a cached prefix gives must be what computing it gives.
 *
 * The problem: a cache that hands out wrong keys and values does not crash. It answers, a little or
 * entirely wrong, and only for those who hit; that is how the worst faults of such servers stayed
 * for months. The promise here is one of bits, so it can be tested in service, on real traffic:
 *
 *   request   cached | computed | first logits ------------------> sampled
 *                                     | hash of their bits, prompt copied
 *   hidden    computed, all of it     | first logits: the same hash, or an error
 *
 * The hidden request is a sequence like any other to scheduler and runner, but has no client: it
 * neither uses nor feeds the tree, no event tells of it, no counter of users' tokens or requests
 * sees it, and it ends with the one row of logits that it is for. It is the scheduler's background
 * sequence: last in the queue, last for chunks, first to go when slots run out. It is pushed only
 * while nobody waits, and when somebody does after a step it is taken out and begins anew later;
 * when slots ran out it is given up, and another hit will do.
 * There is one at a time; a request that comes by meanwhile is not checked, the next one is.
 *
 * The hash is FNV-1a over the row's 32-bit words: each step is a bijection of the state for a given
 * word, so rows that differ in one place never collide, and others do with 2^-64.
 *
 * Cost: a copy of the prompt and a pass over one row for one request in N, and computing its prompt
 * in full. Where the device does not promise bits this check is of no use; the CPU does. */
#include "engine/shadow.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "engine/engine_int.h"

#include <stdlib.h>
#include <string.h>

enum shadow_state {
    SHADOW_FREE,  /* counting hits */
    SHADOW_DUE,   /* a request was copied: to be pushed */
    SHADOW_PUSHED /* with the scheduler */
};

struct shadow {
    enum shadow_state state;
    uint32_t every, n_hits;
    struct engine_request request; /* hidden; its one choice is below */
    struct engine_choice choice;
    int32_t *prompt; /* [tokens_max] */

    /* What it is compared with. */
    uint64_t checked_id;
    uint32_t n_cached;
    uint64_t hash;
};

enum radish_status shadow_create(uint32_t every, uint32_t tokens_max, struct shadow **shadow_out,
                                 struct radish_error *err) {
    *shadow_out = NULL;
    if (!every) return RADISH_OK;
    struct shadow *shadow = mem_zalloc(1, sizeof *shadow);
    if (!shadow) return error_nomem(err);
    shadow->prompt = mem_alloc(tokens_max, sizeof *shadow->prompt);
    if (!shadow->prompt) {
        free(shadow);
        return error_nomem(err);
    }
    shadow->every = every;
    *shadow_out = shadow;
    return RADISH_OK;
}

void shadow_destroy(struct shadow *shadow) {
    if (!shadow) return;
    free(shadow->prompt);
    free(shadow);
}

static uint64_t hash_row(const float *logits, uint32_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &logits[i], sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

void shadow_look(struct radish_engine *engine, const struct engine_row *row) {
    struct shadow *shadow = engine->shadow;
    const struct engine_choice *choice = row->choice;
    const struct sched_seq *seq = &choice->seq;
    if (!shadow || !row->is_sampled || choice->idx || choice->n_output || choice->is_done ||
        !seq->n_prompt_cached || choice->request->is_hidden)
        return;
    if (shadow->n_hits < shadow->every) shadow->n_hits++;
    if (shadow->n_hits < shadow->every || shadow->state != SHADOW_FREE) return;
    shadow->n_hits = 0;
    shadow->state = SHADOW_DUE;
    shadow->checked_id = choice->request->id;
    shadow->n_cached = seq->n_prompt_cached;
    shadow->hash = hash_row(row->logits, engine->model->config.n_vocab);
    shadow->choice.seq.n_prompt = seq->n_prompt;
    memcpy(shadow->prompt, seq->prompt, seq->n_prompt * sizeof *shadow->prompt);
}

void shadow_begin(struct radish_engine *engine) {
    struct shadow *shadow = engine->shadow;
    if (!shadow || shadow->state != SHADOW_DUE) return;
    struct sched_stats stats;
    sched_stats(engine->sched, &stats);
    if (stats.n_seqs_queued) return;
    uint32_t n_prompt = shadow->choice.seq.n_prompt;
    shadow->request = (struct engine_request){
        .r = {.prompt = shadow->prompt, .n_prompt = n_prompt, .max_new_tokens = 1, .n = 1},
        .choices = &shadow->choice,
        .n_choices = 1,
        .is_hidden = true};
    shadow->choice = (struct engine_choice){.request = &shadow->request,
                                            .seq = {.prompt = shadow->prompt,
                                                    .n_prompt = n_prompt,
                                                    .max_new_tokens = 1,
                                                    .logits_from = n_prompt,
                                                    .is_cache_off = true,
                                                    .is_background = true,
                                                    .is_uncounted = true,
                                                    .priority = INT32_MIN,
                                                    .arrived_ns = clock_ns(),
                                                    .user = &shadow->choice}};
    shadow->state = SHADOW_PUSHED;
    sched_push(engine->sched, &shadow->choice.seq);
}

uint32_t shadow_n_running(const struct radish_engine *engine) {
    const struct shadow *shadow = engine->shadow;
    if (!shadow || shadow->state != SHADOW_PUSHED) return 0;
    enum sched_state state = shadow->choice.seq.state;
    return state == SCHED_SEQ_PREFILLING || state == SCHED_SEQ_DECODING;
}

uint32_t shadow_n_queued(const struct radish_engine *engine) {
    const struct shadow *shadow = engine->shadow;
    return shadow && shadow->state == SHADOW_PUSHED && shadow->choice.seq.state == SCHED_SEQ_QUEUED;
}

bool shadow_is_due(const struct radish_engine *engine) {
    return engine->shadow && engine->shadow->state == SHADOW_DUE;
}

void shadow_yield(struct radish_engine *engine) {
    struct shadow *shadow = engine->shadow;
    if (!shadow || shadow->state != SHADOW_PUSHED) return;
    if (shadow->choice.seq.n_retractions) {
        shadow_drop(engine);
        return;
    }
    struct sched_stats stats;
    sched_stats(engine->sched, &stats);
    if (stats.n_seqs_queued == shadow_n_queued(engine)) return;
    sched_remove(engine->sched, &shadow->choice.seq);
    shadow->state = SHADOW_DUE;
}

void shadow_compare(struct radish_engine *engine, const float *logits) {
    struct shadow *shadow = engine->shadow;
    engine->figures.totals.shadow_checks_total++;
    if (hash_row(logits, engine->model->config.n_vocab) != shadow->hash) {
        engine->figures.totals.shadow_failures_total++;
        log_error(
            "engine",
            "shadow check: the first logits of request %llu, with %u of %u prompt tokens from "
            "the cache, differ from those computed without it",
            (unsigned long long)shadow->checked_id, shadow->n_cached, shadow->choice.seq.n_prompt);
    }
    shadow_drop(engine);
}

void shadow_drop(struct radish_engine *engine) {
    struct shadow *shadow = engine->shadow;
    if (!shadow) return;
    if (shadow->state == SHADOW_PUSHED) sched_remove(engine->sched, &shadow->choice.seq);
    shadow->choice.is_done = true;
    shadow->state = SHADOW_FREE;
}
