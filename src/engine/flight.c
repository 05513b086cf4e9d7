/* flight.c - steps in flight: which rows the device samples itself, and when the next step may be
 * begun before this one has ended.
 *
 * The problem: between two steps the host samples, makes text, sends events and fills the next
 * batch, and a device that is not the CPU stands still meanwhile. What the host needs of a step is
 * one number a stream, and what the device needs of the host for the next step is the same number:
 * so the device draws it and reads it back itself, and the host hears of it later.
 *
 *   device   | step N            | step N+1          | step N+2
 *   host     | fill, record N+1  | end N: text, events, fill, record N+2 | end N+1 ...
 *
 *   flight_begin():  the batch (negative ids name rows of the step before), a draw for each row
 *   flight_end():    wait, sched_step_end(), output_take()
 *
 * A row is drawn by the device when the token depends on the row and a few numbers: not with
 * penalties, a bias, tokens that are banned so far, logprobs, or n choices that share it, and not
 * for who wants to see the logits. Such a row is the host's; a step with one of them leads nothing:
 * it is ended before the next is filled. Which rows those are is not a matter of what else is in
 * the batch, nor of whether steps overlap.
 *
 * What is decided late costs a row: a stream that ends at an end token or a stop string has one
 * more token in the step behind, which the scheduler left to nobody. An abort, a timeout, a flush
 * and whoever asks for figures wait until nothing is in flight (flight_end_all()). So does a
 * retraction: sched_can_fill_ahead() is false when one would be needed.
 *
 * A device that does not record its steps runs them at the call: then every step is begun and ended
 * before the next, by the same functions.
 *
 * If the device fails, all that was in flight ends with an error, and nothing of it joins the tree.
 */
#include "engine/engine_int.h"

#include "base/clock.h"
#include "base/invariant.h"
#include "base/log.h"
#include "base/rng.h"

#define GREEDY_BELOW 1e-6f /* as sample/ has it */

/* Whether what is sampled next depends on more than logits, temperature and limits. */
static bool has_rules(const struct engine_choice *choice, uint32_t n_output) {
    const struct radish_request *r = &choice->request->r;
    const struct radish_sampling *s = &r->sampling;
    return r->logprobs || s->repetition_penalty != 1 || s->presence_penalty != 0 ||
           s->frequency_penalty != 0 || s->n_logit_bias ||
           (n_output < r->min_new_tokens && choice->request->n_banned);
}

/* Whether somebody wants to see this row of logits, or more than one token comes of it. */
static bool is_looked_at(const struct radish_engine *engine, const struct engine_choice *choice,
                         uint32_t position) {
    const struct engine_request *request = choice->request;
    const struct sched_seq *seq = &choice->seq;
    bool is_first = !seq->n_output && !seq->n_pending;
    if (request->is_hidden || (is_first && request->n_choices > 1)) return true;
    if (is_first && engine->shadow && seq->n_prompt_cached) return true;
    return request->r.on_logits && position >= seq->logits_from && position < seq->n_prompt;
}

/* The draw for one row; is_off: the host's. */
static struct sample_draw make_draw(const struct radish_engine *engine,
                                    const struct engine_choice *choice, uint32_t position) {
    const struct radish_sampling *s = &choice->request->r.sampling;
    const struct sched_seq *seq = &choice->seq;
    const uint32_t n_output = seq->n_output + seq->n_pending;
    const bool is_sampled =
        position + 1 == seq->n_prompt + n_output && choice->request->r.max_new_tokens > 0;
    if (!is_sampled || is_looked_at(engine, choice, position) || has_rules(choice, n_output))
        return (struct sample_draw){.is_off = 1};
    const bool is_greedy = s->temperature < GREEDY_BELOW;
    return (struct sample_draw){
        .top_k = is_greedy      ? 1
                 : s->top_k > 0 ? (uint32_t)s->top_k
                                : UINT32_MAX,
        .temperature = is_greedy ? 1 : s->temperature,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .u = (float)(rng_u64(choice->seed, n_output) >> 40) * 0x1p-24f,
    };
}

static void make_draws(const struct radish_engine *engine, struct engine_flight *flight) {
    uint32_t row = 0;
    flight->has_host_rows = !flight->draws && flight->batch->n_logits_rows;
    for (uint32_t i = 0; i < flight->batch->n_seqs && flight->draws; i++) {
        const struct batch_seq *seq = &flight->batch->seqs[i];
        const struct engine_choice *choice = ((const struct sched_seq *)seq->user)->user;
        for (uint32_t at = seq->logits_first; at < seq->n_rows; at++, row++) {
            flight->draws[row] = make_draw(engine, choice, seq->kv_len - seq->n_rows + at);
            flight->has_host_rows |= flight->draws[row].is_off != 0;
        }
    }
}

void flight_begin(struct radish_engine *engine, const struct batch *batch,
                  const struct sched_step *step, uint64_t begun_ns) {
    RADISH_INVARIANT(engine->n_flights < DEVICE_STEPS_MAX, "%u steps are in flight",
                     engine->n_flights);
    struct engine_flight *flight =
        &engine->flights[(engine->oldest_flight + engine->n_flights++) % DEVICE_STEPS_MAX];
    flight->batch = batch;
    flight->step = *step;
    flight->begun_ns = begun_ns;
    make_draws(engine, flight);
    flight->status = runner_submit(engine->runner, batch, flight->draws);
}

bool flight_can_lead(const struct radish_engine *engine) {
    if (engine->n_flights != 1 || engine->plan.options.is_overlap_off ||
        !runner_can_run_ahead(engine->runner))
        return false;
    const struct engine_flight *flight = &engine->flights[engine->oldest_flight];
    return flight->status == RADISH_OK && !flight->has_host_rows &&
           sched_can_fill_ahead(engine->sched);
}

static void fail_all(struct radish_engine *engine, enum radish_status status) {
    log_error("engine", "the device failed: %s", radish_status_sentence(status));
    sched_step_fail(engine->sched);
    for (; engine->n_flights; engine->n_flights--) {
        output_fail(engine, &engine->flights[engine->oldest_flight], status);
        engine->oldest_flight = (engine->oldest_flight + 1) % DEVICE_STEPS_MAX;
    }
}

void flight_end(struct radish_engine *engine) {
    struct engine_flight *flight = &engine->flights[engine->oldest_flight];
    enum radish_status status = flight->status;
    if (status == RADISH_OK) status = runner_wait(engine->runner);
    const uint64_t ended_ns = clock_ns();
    const uint64_t begun_ns =
        flight->begun_ns > engine->step_ended_ns ? flight->begun_ns : engine->step_ended_ns;
    engine->step_ended_ns = ended_ns;
    if (status == RADISH_OK) {
        sched_step_end(engine->sched, ended_ns - begun_ns);
        status = output_take(engine, flight);
    }
    if (status != RADISH_OK) {
        fail_all(engine, status);
        return;
    }
    engine->oldest_flight = (engine->oldest_flight + 1) % DEVICE_STEPS_MAX;
    engine->n_flights--;
    /* With another step in flight the device did not wait for any of this. */
    if (!engine->n_flights) sched_step_more(engine->sched, clock_ns() - ended_ns);
    figures_add_step(engine, &flight->step,
                     flight->batch->n_tokens - flight->step.n_uncounted_tokens, begun_ns,
                     clock_ns());
}

void flight_end_all(struct radish_engine *engine) {
    while (engine->n_flights) flight_end(engine);
}
