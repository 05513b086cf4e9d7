/* request_build.c - from a caller's request to one that owns itself: every check, every copy and
 * every allocation happens here, on the caller's thread.
 *
 * The problem: the step path must not allocate and must not meet a surprise. So limits are checked
 * before anything is queued, with the field's name and the numbers, and all that a request will
 * ever need is taken at once: one arena (prompt, stop strings, biases, room for the output, rows of
 * prompt logprobs), a detokenizer and a stop matcher per choice. Room for the output is not
 * touched, so a request that may produce 100,000 tokens and produces ten costs ten.
 *
 * The field names are those of the HTTP API ("max_tokens", not max_new_tokens): what a person sees
 * must be what that person wrote. */
#include "engine/engine_int.h"

#include "base/mem.h"
#include "base/status.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static enum radish_status check_ids(const char *field, const int32_t *ids, size_t n,
                                    uint32_t n_vocab, struct radish_error *err) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return error_set_field(err, RADISH_E_INVALID, field,
                                   "%s: token %d is not in the vocabulary of %u", field, ids[i],
                                   n_vocab);
    return RADISH_OK;
}

static enum radish_status check_count(const char *field, uint64_t n, uint64_t max,
                                      struct radish_error *err) {
    if (n <= max) return RADISH_OK;
    return error_set_field(err, RADISH_E_LIMIT, field,
                           "%s: %llu is more than %llu, the most allowed", field,
                           (unsigned long long)n, (unsigned long long)max);
}

static enum radish_status check_length(const struct radish_engine *engine,
                                       const struct radish_request *r, struct radish_error *err) {
    uint32_t max = engine->tokens_max;
    if (!r->n_prompt)
        return error_set_field(err, RADISH_E_INVALID, "prompt", "the prompt must not be empty");
    if (r->n_prompt >= max)
        return error_set_field(err, RADISH_E_LIMIT, "prompt",
                               "the prompt has %zu tokens, but prompt and answer together can have "
                               "%u (context %u, KV pool %u)",
                               r->n_prompt, max, engine->plan.runner.context_tokens,
                               engine->plan.n_usable);
    if (r->has_max_new_tokens && (uint64_t)r->n_prompt + r->max_new_tokens > max)
        return error_set_field(err, RADISH_E_LIMIT, "max_tokens",
                               "the prompt has %zu tokens and max_tokens is %u, together more than "
                               "%u (context %u, KV pool %u)",
                               r->n_prompt, r->max_new_tokens, max,
                               engine->plan.runner.context_tokens, engine->plan.n_usable);
    uint64_t max_new = r->has_max_new_tokens ? r->max_new_tokens : max - r->n_prompt;
    if (r->min_new_tokens > max_new)
        return error_set_field(err, RADISH_E_INVALID, "min_tokens",
                               "min_tokens is %u, more than the %llu tokens that may be made",
                               r->min_new_tokens, (unsigned long long)max_new);
    return RADISH_OK;
}

static enum radish_status check_stops(const struct radish_request *r, struct radish_error *err) {
    RADISH_TRY(check_count("stop", r->n_stop, RADISH_STOP_MAX, err));
    for (uint32_t i = 0; i < r->n_stop; i++) {
        size_t len = r->stop[i] ? strlen(r->stop[i]) : 0;
        if (!len)
            return error_set_field(err, RADISH_E_INVALID, "stop",
                                   "a stop string must not be empty");
        if (len > RADISH_STOP_BYTES_MAX)
            return error_set_field(err, RADISH_E_LIMIT, "stop",
                                   "a stop string has %zu bytes, at most %d are allowed", len,
                                   RADISH_STOP_BYTES_MAX);
        if (utf8_valid_prefix(r->stop[i], len) != len)
            return error_set_field(err, RADISH_E_INVALID, "stop",
                                   "a stop string is not valid UTF-8");
    }
    return RADISH_OK;
}

static enum radish_status check(const struct radish_engine *engine, const struct radish_request *r,
                                struct radish_error *err) {
    uint32_t n_vocab = engine->model->config.n_vocab;
    if (!r->on_event)
        return error_set_field(err, RADISH_E_INVALID, "on_event", "on_event must be set");
    RADISH_TRY(check_length(engine, r, err));
    RADISH_TRY(check_ids("prompt", r->prompt, r->n_prompt, n_vocab, err));
    RADISH_TRY(check_count("n", r->n, RADISH_CHOICES_MAX, err));
    RADISH_TRY(check_count("namespace", r->namespace_len, RADISH_NAMESPACE_MAX, err));
    RADISH_TRY(check_count("stop_token_ids", r->n_stop_ids, RADISH_STOP_IDS_MAX, err));
    RADISH_TRY(check_ids("stop_token_ids", r->stop_ids, r->n_stop_ids, n_vocab, err));
    RADISH_TRY(check_count("top_logprobs", r->n_top_logprobs, RADISH_TOP_LOGPROBS_MAX, err));
    RADISH_TRY(check_count("logprob_ids", r->n_logprob_ids, RADISH_LOGPROB_IDS_MAX, err));
    RADISH_TRY(check_ids("logprob_ids", r->logprob_ids, r->n_logprob_ids, n_vocab, err));
    RADISH_TRY(check_count("shown_ids", r->n_shown_ids, RADISH_SHOWN_IDS_MAX, err));
    if (r->prompt_logprobs)
        RADISH_TRY(check_count("prompt_logprobs_from", r->prompt_logprobs_from, r->n_prompt, err));
    RADISH_TRY(check_stops(r, err));
    return sampling_check(&r->sampling, n_vocab, err);
}

static void *copy(struct arena *arena, const void *from, size_t n, size_t size) {
    size_t bytes;
    if (!mem_mul(n, size, &bytes)) return NULL;
    void *to = arena_alloc(arena, bytes ? bytes : 1);
    if (to && bytes) memcpy(to, from, bytes);
    return to;
}

/* Replaces what request->r points to by copies in the arena. */
static bool copy_inputs(struct engine_request *request) {
    struct radish_request *r = &request->r;
    struct arena *arena = &request->arena;
    const char **stop = arena_zalloc(arena, r->n_stop + 1, sizeof *stop);
    if (!stop) return false;
    for (uint32_t i = 0; i < r->n_stop; i++)
        if (!(stop[i] = arena_strndup(arena, r->stop[i], strlen(r->stop[i])))) return false;
    r->stop = stop;
    r->prompt = copy(arena, r->prompt, r->n_prompt, sizeof *r->prompt);
    r->namespace_key = copy(arena, r->namespace_key, r->namespace_len, 1);
    r->stop_ids = copy(arena, r->stop_ids, r->n_stop_ids, sizeof *r->stop_ids);
    r->shown_ids = copy(arena, r->shown_ids, r->n_shown_ids, sizeof *r->shown_ids);
    r->logprob_ids = copy(arena, r->logprob_ids, r->n_logprob_ids, sizeof *r->logprob_ids);
    r->sampling.logit_bias = copy(arena, r->sampling.logit_bias, r->sampling.n_logit_bias,
                                  sizeof *r->sampling.logit_bias);
    return r->prompt && r->namespace_key && r->stop_ids && r->shown_ids && r->logprob_ids &&
           r->sampling.logit_bias;
}

/* What must not be sampled before min_new_tokens: whatever would end the answer. */
static bool list_banned(struct engine_request *request, const struct radish_model *model) {
    struct radish_request *r = &request->r;
    if (!r->min_new_tokens) return true;
    uint32_t n_eos = r->ignore_eos ? 0 : model->n_eos_ids;
    int32_t *banned = arena_zalloc(&request->arena, n_eos + r->n_stop_ids + 1, sizeof *banned);
    if (!banned) return false;
    memcpy(banned, model->eos_ids, n_eos * sizeof *banned);
    memcpy(banned + n_eos, r->stop_ids, r->n_stop_ids * sizeof *banned);
    request->banned = banned;
    request->n_banned = n_eos + r->n_stop_ids;
    return true;
}

/* Room for what the rows of the prompt will tell: tokens [prompt_logprobs_from, n_prompt), and for
 * each its best alternatives and the ids that were named. */
static bool make_prompt_rows(struct engine_request *request) {
    struct radish_request *r = &request->r;
    if (!r->prompt_logprobs || r->prompt_logprobs_from == r->n_prompt) return true;
    struct arena *arena = &request->arena;
    size_t n = r->n_prompt - r->prompt_logprobs_from, n_each = r->n_top_logprobs + r->n_logprob_ids;
    request->n_prompt_tokens = (uint32_t)n;
    request->prompt_tokens = arena_zalloc(arena, n, sizeof *request->prompt_tokens);
    request->prompt_lists = arena_zalloc(arena, n * n_each + 1, sizeof *request->prompt_lists);
    if (!request->prompt_tokens || !request->prompt_lists) return false;
    for (size_t i = 0; i < n; i++)
        request->prompt_tokens[i].id = r->prompt[r->prompt_logprobs_from + i];
    return true;
}

/* Prompt rows from which on somebody wants to see the logits: the first choice computes them. */
static uint32_t first_logits_row(const struct radish_request *r, uint32_t choice_idx) {
    uint32_t n_prompt = (uint32_t)r->n_prompt;
    if (choice_idx) return n_prompt;
    uint32_t first = r->on_logits && r->logits_from < n_prompt ? r->logits_from : n_prompt;
    return r->prompt_logprobs && r->prompt_logprobs_from < first ? r->prompt_logprobs_from : first;
}

static enum radish_status make_choice(struct engine_request *request, uint32_t idx,
                                      const struct radish_model *model, struct radish_error *err) {
    const struct radish_request *r = &request->r;
    struct engine_choice *choice = &request->choices[idx];
    choice->request = request;
    choice->idx = idx;
    choice->output =
        arena_alloc(&request->arena, ((size_t)r->max_new_tokens + 1) * sizeof *choice->output);
    if (!choice->output) return error_nomem(err);
    choice->seq = (struct sched_seq){.prompt = r->prompt,
                                     .n_prompt = (uint32_t)r->n_prompt,
                                     .max_new_tokens = r->max_new_tokens,
                                     .output = choice->output,
                                     .logits_from = first_logits_row(r, idx),
                                     .is_cache_off = r->is_cache_off,
                                     .is_uncounted = r->is_uncounted,
                                     .priority = r->priority,
                                     .user = choice};
    RADISH_TRY(detok_stream_create(model->text->tokenizer, r->prompt, r->n_prompt,
                                   /*skip_special=*/!r->keep_special_tokens, &choice->detok, err));
    if (r->n_shown_ids) detok_stream_show(choice->detok, r->shown_ids, r->n_shown_ids);
    if (!r->n_stop) return RADISH_OK;
    return stop_match_create(r->stop, r->n_stop, &choice->stop, err);
}

enum radish_status request_build(const struct radish_engine *engine,
                                 const struct radish_request *given,
                                 struct engine_request **request_out, struct radish_error *err) {
    *request_out = NULL;
    RADISH_TRY(check(engine, given, err));
    struct engine_request *request = calloc(1, sizeof *request);
    if (!request) return error_nomem(err);
    arena_init(&request->arena, 0);
    request->r = *given;
    struct radish_request *r = &request->r;
    if (!r->n) r->n = 1;
    if (!r->has_max_new_tokens) r->max_new_tokens = engine->tokens_max - (uint32_t)r->n_prompt;
    request->choices = arena_zalloc(&request->arena, r->n, sizeof *request->choices);
    enum radish_status status = RADISH_OK;
    if (!request->choices || !copy_inputs(request) || !list_banned(request, engine->model) ||
        !make_prompt_rows(request))
        status = error_nomem(err);
    for (uint32_t i = 0; status == RADISH_OK && i < r->n; i++) {
        request->n_choices = i + 1;
        status = make_choice(request, i, engine->model, err);
    }
    if (status != RADISH_OK) {
        request_destroy(request);
        return status;
    }
    *request_out = request;
    return RADISH_OK;
}

void request_destroy(struct engine_request *request) {
    if (!request) return;
    for (uint32_t i = 0; i < request->n_choices; i++) {
        detok_stream_destroy(request->choices[i].detok);
        stop_match_destroy(request->choices[i].stop);
    }
    arena_deinit(&request->arena);
    free(request);
}

void request_set_seed(struct engine_request *request, uint64_t seed) {
    for (uint32_t i = 0; i < request->n_choices; i++) request->choices[i].seed = seed + i;
}
