/* output.c - logits to tokens, tokens to text, text to events, and when an answer ends.
 *
 * A step leaves logits rows, in blocks of at most RUNNER_LOGITS_ROWS. Each belongs to a choice and
 * is either a row of its prompt (somebody wants its logprobs or the logits themselves) or the one
 * sampled from:
 *
 *   rows of a block:  prompt row of A | prompt row of A | sampled A | sampled B | sampled C
 *                     logprob of the next prompt token  | one sampler per worker, all at once
 *
 * Where the device samples (flight.c says which rows), the token is there already, and its logits
 * are not fetched. Sampling is a function of the row and the request, so here it runs on all
 * compute threads; what follows is per choice and short, and runs in order on the engine's thread:
 *
 *   token -> detok_stream -> stop_match -> event to the callback, then sched_append() or the end
 *
 * The order in which an end is looked for is SGLang's: length, end token, stop string; with one
 * difference: a stop string that is complete with the last token allowed ends the answer with STOP,
 * since its text is cut there. The text of an end token is not shown (with include_stop it is).
 * Before min_new_tokens nothing ends an answer: end tokens are not sampled, and stop strings are
 * not looked for.
 *
 * Of n choices the first computes the prompt. Its last row is the first row of all of them:
 *
 *   sampled A0 | sampled A1 | sampled A2      one row of logits; a copy each, as sampling changes
 * it
 *
 * and then A1 and A2 are given to the scheduler with one token of output, to go on behind a prompt
 * that is in the tree.
 *
 * A row of NaN ends its request with an error and leaves the others alone.
 *
 * Nothing here allocates: buffers are kept, and a request's memory is freed after the step. */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/status.h"

#include <string.h>

static bool is_end_token(const struct radish_engine *engine, const struct radish_request *r,
                         int32_t id) {
    for (uint32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == id) return true;
    if (r->ignore_eos) return false;
    for (uint32_t i = 0; i < engine->model->n_eos_ids; i++)
        if (engine->model->eos_ids[i] == id) return true;
    return false;
}

/* Sends an event; one that ends the choice gives back all it holds first, so that a caller that
 * sees the end also sees the slots free. */
static void send(struct radish_engine *engine, struct engine_choice *choice,
                 struct radish_event *event) {
    struct engine_request *request = choice->request;
    event->request = request->id;
    event->choice_idx = choice->idx;
    event->text = engine->text.data ? engine->text.data : "";
    event->text_len = engine->text.len;
    event->usage = (struct radish_usage){.prompt_tokens = (uint32_t)request->r.n_prompt,
                                         .cached_tokens = request->choices[0].seq.n_prompt_cached,
                                         .output_tokens = choice->n_output,
                                         .retractions = choice->seq.n_retractions};
    if (event->finish != RADISH_FINISH_NONE) {
        sched_remove(engine->sched, &choice->seq);
        choice->is_done = true;
        request->n_choices_done++;
        request->is_aborted |= event->finish == RADISH_FINISH_ABORT;
        if (request->n_choices_done == request->n_choices) figures_end(engine, request);
    }
    request->r.on_event(request->r.user, event);
    if (request->n_choices_done < request->n_choices) return;

    *(request->live_prev ? &request->live_prev->live_next : &engine->live_head) =
        request->live_next;
    *(request->live_next ? &request->live_next->live_prev : &engine->live_tail) =
        request->live_prev;
    request->next = engine->dead;
    engine->dead = request;
}

/* Moves what the detokenizer gave through the stop matcher to engine->text. Returns the index of
 * the stop string found, or -1. */
static int show_piece(struct radish_engine *engine, struct engine_choice *choice, bool is_last) {
    const struct radish_request *r = &choice->request->r;
    const char *piece = engine->piece.data ? engine->piece.data : "";
    int found = -1;
    if (choice->stop && choice->n_output >= r->min_new_tokens) {
        found =
            stop_match_push(choice->stop, piece, engine->piece.len, r->include_stop, &engine->text);
        if (is_last && found < 0) stop_match_finish(choice->stop, &engine->text);
    } else {
        buf_append(&engine->text, piece, engine->piece.len);
    }
    return found;
}

static void end_choice(struct radish_engine *engine, struct engine_choice *choice,
                       enum radish_finish finish, enum radish_status status) {
    buf_clear(&engine->piece);
    buf_clear(&engine->text);
    detok_stream_finish(choice->detok, &engine->piece);
    show_piece(engine, choice, /*is_last=*/true);
    struct radish_event event = {.finish = finish, .status = status, .matched_token = -1};
    send(engine, choice, &event);
}

static bool has_started(const struct engine_choice *choice) {
    return choice->seq.state != SCHED_SEQ_IDLE;
}

void output_end(struct radish_engine *engine, struct engine_choice *choice,
                enum radish_finish finish, enum radish_status status) {
    struct engine_request *request = choice->request;
    if (request->is_hidden) {
        shadow_drop(engine);
        return;
    }
    uint32_t n_choices = choice->idx == 0 ? request->n_choices : 1;
    end_choice(engine, choice, finish, status);
    for (uint32_t i = 1; i < n_choices; i++)
        if (!has_started(&request->choices[i]))
            end_choice(engine, &request->choices[i], finish, status);
}

/* The token just sampled is to be followed by another. */
static void go_on(struct radish_engine *engine, struct engine_choice *choice, int32_t id) {
    if (has_started(choice)) {
        sched_append(engine->sched, &choice->seq, id);
    } else {
        choice->seq.n_output = choice->n_output;
        sched_push(engine->sched, &choice->seq);
    }
}

/* A choice has a new token: its text, its event, and whether it goes on. */
static void take_token(struct radish_engine *engine, struct engine_choice *choice,
                       const struct sample_result *result) {
    const struct radish_request *r = &choice->request->r;
    int32_t id = result->id;
    choice->output[choice->n_output++] = id;
    figures_add_token(engine, choice);
    bool is_length = choice->n_output >= r->max_new_tokens;
    bool is_end = is_end_token(engine, r, id);
    buf_clear(&engine->piece);
    buf_clear(&engine->text);
    if (!is_end || r->include_stop) detok_stream_push(choice->detok, id, &engine->piece);
    if (is_end || is_length) detok_stream_finish(choice->detok, &engine->piece);
    int stop_idx = show_piece(engine, choice, is_end || is_length);

    struct radish_token token = {.id = id,
                                 .logprob = result->logprob,
                                 .top = result->top,
                                 .n_top = result->n_top,
                                 .named = result->named,
                                 .n_named = result->n_named,
                                 .has_logprob = r->logprobs};
    struct radish_event event = {.tokens = &token, .n_tokens = 1, .matched_token = -1};
    if (stop_idx >= 0) {
        event.finish = RADISH_FINISH_STOP;
        event.matched_stop = r->stop[stop_idx];
    } else if (is_length) {
        event.finish = RADISH_FINISH_LENGTH;
    } else if (is_end) {
        event.finish = RADISH_FINISH_STOP;
        event.matched_token = id;
    }
    send(engine, choice, &event);
    if (event.finish == RADISH_FINISH_NONE) go_on(engine, choice, id);
}

static bool is_prompt_row(const struct engine_row *row) {
    return row->position >= row->choice->seq.logits_from &&
           row->position < row->choice->seq.n_prompt;
}

/* Whether the row belongs to the prompt's tokens whose logprobs are wanted. */
static bool has_prompt_token(const struct engine_row *row) {
    const struct engine_request *request = row->choice->request;
    return is_prompt_row(row) && request->n_prompt_tokens &&
           row->position >= request->r.prompt_logprobs_from;
}

/* One row, on any worker. */
static void sample_row(void *user, uint32_t item, uint32_t worker) {
    struct radish_engine *engine = user;
    struct engine_row *row = &engine->rows[item];
    const struct engine_choice *choice = row->choice;
    const struct radish_request *r = &choice->request->r;
    struct sampler *sampler = engine->samplers[worker];
    if (choice->is_done || row->is_drawn) return;
    bool is_short = choice->n_output < r->min_new_tokens;
    struct sample_args args = {.sampling = &r->sampling,
                               .seed = choice->seed,
                               .prompt = r->prompt,
                               .n_prompt = r->n_prompt,
                               .output = choice->output,
                               .n_output = choice->n_output,
                               .banned = choice->request->banned,
                               .n_banned = is_short ? choice->request->n_banned : 0,
                               .n_sampled = engine->model->info.n_tokens,
                               .wants_logprob = r->logprobs,
                               .n_top = r->n_top_logprobs,
                               .named = r->logprob_ids,
                               .n_named = r->n_logprob_ids};
    if (has_prompt_token(row) && row->position + 1 < r->n_prompt)
        sampler_logprobs(sampler, row->logits, r->prompt[row->position + 1], &args, &row->result);
    if (!row->is_sampled || choice->request->is_hidden) return;
    float *logits = row->logits;
    if (row->is_shared) {
        size_t n_vocab = engine->model->config.n_vocab;
        logits = engine->row_copies + worker * n_vocab;
        memcpy(logits, row->logits, n_vocab * sizeof *logits);
    }
    sampler_sample(sampler, logits, &args, &row->result);
}

static void keep_prompt_logprob(struct engine_row *row) {
    struct engine_request *request = row->choice->request;
    const struct sample_result *result = &row->result;
    uint32_t n_top_max = request->r.n_top_logprobs;
    uint32_t idx = row->position + 1 - request->r.prompt_logprobs_from;
    struct radish_token *token = &request->prompt_tokens[idx];
    struct radish_logprob *top =
        request->prompt_lists + (size_t)idx * (n_top_max + request->r.n_logprob_ids);
    memcpy(top, result->top, result->n_top * sizeof *top);
    memcpy(top + n_top_max, result->named, result->n_named * sizeof *top);
    token->logprob = result->logprob;
    token->has_logprob = true;
    token->top = top;
    token->n_top = result->n_top;
    token->named = top + n_top_max;
    token->n_named = result->n_named;
}

static void send_prompt_tokens(struct radish_engine *engine, struct engine_choice *choice) {
    buf_clear(&engine->text);
    struct radish_event event = {.matched_token = -1,
                                 .prompt_tokens = choice->request->prompt_tokens,
                                 .n_prompt_tokens = choice->request->n_prompt_tokens};
    send(engine, choice, &event);
}

static void fail_row(struct radish_engine *engine, struct engine_choice *choice) {
    log_error("engine",
              "request %llu: the logits hold no finite number: is the model's file damaged?",
              (unsigned long long)choice->request->id);
    output_end(engine, choice, RADISH_FINISH_ERROR, RADISH_E_INTERNAL);
}

static void take_row(struct radish_engine *engine, struct engine_row *row) {
    struct engine_choice *choice = row->choice;
    const struct radish_request *r = &choice->request->r;
    if (choice->is_done) return;
    if (has_prompt_token(row)) {
        bool is_last = row->position + 1 >= r->n_prompt;
        if (!is_last && row->result.status != RADISH_OK) {
            fail_row(engine, choice);
            return;
        }
        if (!is_last) keep_prompt_logprob(row);
        if (is_last) send_prompt_tokens(engine, choice);
    }
    if (!row->is_sampled) return;
    if (choice->request->is_hidden)
        shadow_compare(engine, row->logits);
    else if (row->result.status != RADISH_OK)
        fail_row(engine, choice);
    else
        take_token(engine, choice, &row->result);
}

/* Hands the logits of prompt rows to whoever asked for them, a run of rows at a time. */
static void show_logits(const struct radish_engine *engine, uint32_t n_rows) {
    for (uint32_t i = 0, n; i < n_rows; i += n) {
        const struct engine_row *row = &engine->rows[i];
        const struct radish_request *r = &row->choice->request->r;
        n = 1;
        if (!is_prompt_row(row) || !r->on_logits || row->choice->is_done || !row->logits) continue;
        while (i + n < n_rows && engine->rows[i + n].choice == row->choice &&
               is_prompt_row(&engine->rows[i + n]))
            n++;
        r->on_logits(r->user, row->position, n, engine->model->config.n_vocab, row->logits);
    }
}

/* Where the walk over a batch's logits rows stands. */
struct row_cursor {
    uint32_t seq_idx, row; /* of the sequence */
};

/* The token that the device drew, as the sampler would tell it. */
static void read_draw(const struct radish_engine *engine, uint32_t logits_row,
                      struct sample_result *result_out) {
    result_out->id = runner_token(engine->runner, logits_row);
    result_out->status = result_out->id < 0 ? RADISH_E_INTERNAL : RADISH_OK;
    result_out->logprob = 0;
}

/* Appends what becomes of one row of logits to engine->rows; returns how many there are then. */
static uint32_t add_owners(struct radish_engine *engine, struct engine_choice *choice,
                           float *logits, uint32_t position, uint32_t n_rows) {
    struct engine_request *request = choice->request;
    const struct sched_seq *seq = &choice->seq;
    bool is_sampled =
        position + 1 == seq->n_prompt + seq->n_output && request->r.max_new_tokens > 0;
    bool is_shared = is_sampled && request->n_choices > 1 && !has_started(&request->choices[1]) &&
                     !request->choices[1].is_done;
    uint32_t n = is_shared ? request->n_choices : 1;
    for (uint32_t i = 0; i < n; i++) {
        struct engine_row *row = &engine->rows[n_rows + i];
        row->choice = is_shared ? &request->choices[i] : choice;
        row->logits = logits;
        row->position = position;
        row->is_sampled = is_sampled;
        row->is_drawn = false;
        row->is_shared = is_shared;
        row->result.status = RADISH_OK;
        row->result.n_top = row->result.n_named = 0;
    }
    return n_rows + n;
}

/* Names the owners of logits rows [first, first + n); logits: theirs, or NULL. Rows of a sequence
 * that ended while they were computed have none. */
static uint32_t find_owners(struct radish_engine *engine, const struct engine_flight *flight,
                            float *logits, uint32_t first, uint32_t n, struct row_cursor *cursor) {
    const size_t n_vocab = engine->model->config.n_vocab;
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++, cursor->row++) {
        const struct batch_seq *seq = &flight->batch->seqs[cursor->seq_idx];
        while (seq->logits_first + cursor->row >= seq->n_rows) {
            seq = &flight->batch->seqs[++cursor->seq_idx];
            cursor->row = 0;
        }
        if (!seq->user) continue;
        uint32_t position = seq->kv_len - seq->n_rows + seq->logits_first + cursor->row;
        struct engine_row *row = &engine->rows[n_rows];
        n_rows = add_owners(engine, ((struct sched_seq *)seq->user)->user,
                            logits ? logits + i * n_vocab : NULL, position, n_rows);
        row->is_drawn = flight->draws && !flight->draws[first + i].is_off;
        if (row->is_drawn) read_draw(engine, first + i, &row->result);
    }
    return n_rows;
}

/* Whether the host must see one of logits rows [first, first + n). */
static bool is_seen(const struct engine_flight *flight, uint32_t first, uint32_t n) {
    for (uint32_t i = first; i < first + n; i++)
        if (!flight->draws || flight->draws[i].is_off) return true;
    return false;
}

void output_fail(struct radish_engine *engine, const struct engine_flight *flight,
                 enum radish_status status) {
    for (uint32_t i = 0; i < flight->batch->n_seqs; i++) {
        const struct sched_seq *seq = flight->batch->seqs[i].user;
        struct engine_choice *choice = seq ? seq->user : NULL;
        if (choice && !choice->is_done) output_end(engine, choice, RADISH_FINISH_ERROR, status);
    }
}

enum radish_status output_take(struct radish_engine *engine, const struct engine_flight *flight) {
    const struct batch *batch = flight->batch;
    struct row_cursor cursor = {0};
    for (uint32_t first = 0, n; first < batch->n_logits_rows; first += n) {
        n = batch->n_logits_rows - first;
        if (n > RUNNER_LOGITS_ROWS) n = RUNNER_LOGITS_ROWS;
        float *logits = NULL;
        if (is_seen(flight, first, n)) RADISH_TRY(runner_logits(engine->runner, first, n, &logits));
        uint32_t n_rows = find_owners(engine, flight, logits, first, n, &cursor);
        show_logits(engine, n_rows);
        for (uint32_t i = 0; i < n_rows; i++) shadow_look(engine, &engine->rows[i]);
        device_parallel(engine->device, n_rows, sample_row, engine);
        engine->figures.output_ns = clock_ns();
        for (uint32_t i = 0; i < n_rows; i++) take_row(engine, &engine->rows[i]);
    }
    /* Who wants no token ends with the chunk that completes its prompt: this one's, not one that
     * runs ahead. */
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct sched_seq *seq = batch->seqs[i].user;
        struct engine_choice *choice = seq ? seq->user : NULL;
        if (choice && !choice->is_done && batch->seqs[i].kv_len == seq->n_prompt &&
            !choice->request->r.max_new_tokens)
            output_end(engine, choice, RADISH_FINISH_LENGTH, RADISH_OK);
    }
    return RADISH_OK;
}
