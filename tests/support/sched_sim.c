/* sched_sim.c - see sched_sim.h. Answers are verified as they are made: token by token against the
 * hash of the request's own tokens, never against what the pool holds. */
#include "sched_sim.h"

#include "test.h"

#include "base/rng.h"

struct sched_options sim_options(void) {
    return (struct sched_options){.kv = {.n_slots = 1025,
                                         .page_slots = 1,
                                         .n_rows = 8,
                                         .context_tokens = 512,
                                         .policy = RADIX_POLICY_LRU},
                                  .chunk_tokens = 64,
                                  .prefill_tokens_max = 16384,
                                  .policy = SCHED_POLICY_FCFS,
                                  .conservativeness = 1,
                                  .preemption_threshold = 10,
                                  .seed = 1};
}

static void make_flight(const struct sched_options *options, struct sim_flight *flight) {
    uint32_t n_rows = options->kv.n_rows, tokens_max = options->chunk_tokens + n_rows;
    flight->slots = calloc((size_t)n_rows * options->kv.context_tokens, sizeof *flight->slots);
    flight->owners = calloc(tokens_max, sizeof *flight->owners);
    flight->positions = calloc(tokens_max, sizeof *flight->positions);
    assert_true(flight->slots && flight->owners && flight->positions);
}

static void free_flight(struct sim_flight *flight) {
    free(flight->slots);
    free(flight->owners);
    free(flight->positions);
}

void sim_open(const struct sched_options *options, struct sim *sim_out) {
    struct radish_error err;
    *sim_out = (struct sim){.options = *options, .checks_all = true, .cost = {.token = 1000}};
    if (sched_create(options, &sim_out->s, &err) != RADISH_OK) fail_msg("%s", err.msg);
    sim_out->kv = calloc(options->kv.n_slots, sizeof *sim_out->kv);
    assert_non_null(sim_out->kv);
    for (uint32_t i = 0; i < 3; i++) make_flight(options, &sim_out->flights[i]);
    sim_out->now_ns = 1000000000;
}

void sim_close(struct sim *sim) {
    assert_true(sched_is_idle(sim->s) && !sim->n_flights);
    for (uint32_t i = 0; i < 3; i++) free_flight(&sim->flights[i]);
    sim_assert_baseline(sim);
    sched_flush(sim->s);
    struct sched_stats stats;
    sched_stats(sim->s, &stats);
    assert_int_equal(stats.n_slots_free, stats.n_slots_usable);
    assert_true(sched_check(sim->s));
    sched_destroy(sim->s);
    free(sim->kv);
}

void sim_assert_baseline(const struct sim *sim) {
    struct sched_stats stats;
    sched_stats(sim->s, &stats);
    assert_int_equal(stats.n_slots_free + stats.n_slots_evictable, stats.n_slots_usable);
    assert_true(sched_check(sim->s));
}

void sim_prompt(struct sim_request *request, uint64_t trunk, uint32_t n_trunk, uint64_t own,
                uint32_t n_prompt, uint32_t max_new_tokens) {
    assert_true(n_prompt + max_new_tokens <= SIM_TOKENS_MAX);
    memset(request, 0, sizeof *request);
    for (uint32_t i = 0; i < n_prompt; i++)
        request->tokens[i] = (int32_t)(rng_u64(i < n_trunk ? trunk : own, i) % SIM_VOCAB);
    request->n_wanted = max_new_tokens;
    request->seq = (struct sched_seq){.prompt = request->tokens,
                                      .n_prompt = n_prompt,
                                      .output = request->tokens + n_prompt,
                                      .max_new_tokens = max_new_tokens,
                                      .logits_from = n_prompt,
                                      .user = request};
}

void sim_push(struct sim *sim, struct sim_request *request) {
    if (!request->seq.arrived_ns) request->seq.arrived_ns = sim->now_ns;
    request->is_live = true;
    request->n_output = request->seq.n_output;
    sched_push(sim->s, &request->seq);
}

static void end(struct sim *sim, struct sim_request *request) {
    sched_remove(sim->s, &request->seq);
    assert_int_equal(request->seq.state, SCHED_SEQ_DONE);
    request->is_live = false;
    if (sim->on_end) sim->on_end(sim, request);
}

void sim_abort(struct sim *sim, struct sim_request *request) {
    end(sim, request);
    if (sim->checks_all) assert_true(sched_check(sim->s));
}

static uint64_t hash_start(const struct sim_request *request) {
    return rng_mix(request->seq.namespace_id + 77);
}

static uint64_t hash_more(uint64_t hash, int32_t token) {
    return rng_mix(hash + (uint64_t)token + 0x9E3779B97F4A7C15u);
}

static uint64_t hash_of(const struct sim_request *request, uint32_t n) {
    uint64_t hash = hash_start(request);
    for (uint32_t i = 0; i < n; i++) hash = hash_more(hash, request->tokens[i]);
    return hash;
}

/* The row's token: told, or drawn from the logits of the step before, from this request's row. */
static void check_token(const struct sim *sim, const struct sim_request *request, int32_t token_id,
                        uint32_t position) {
    if (token_id >= 0) {
        assert_int_equal(token_id, request->tokens[position]);
        return;
    }
    uint32_t row = (uint32_t)(-1 - token_id);
    const struct sim_flight *before = &sim->flights[0];
    assert_true(row < before->n_logits_rows);
    assert_ptr_equal(before->owners[row], request);
    assert_int_equal(before->positions[row] + 1, position);
}

/* Reads the KV of all earlier positions, writes that of its rows. */
static void compute_seq(struct sim *sim, const struct batch *batch, const struct batch_seq *seq,
                        const uint32_t *slots) {
    struct sched_seq *owner = seq->user;
    uint32_t first = seq->kv_len - seq->n_rows;
    if (!owner) {
        for (uint32_t i = first; i < seq->kv_len; i++) sim->kv[slots[i]] = ~(uint64_t)0;
        sim->n_dropped += seq->n_rows;
        return;
    }
    struct sim_request *request = owner->user;
    uint64_t hash = hash_start(request);
    for (uint32_t i = 0; i < seq->kv_len; i++) {
        uint32_t slot = slots[i];
        hash = hash_more(hash, request->tokens[i]);
        if (i < first) {
            if (sim->kv[slot] != hash)
                fail_msg("position %u of %u reads slot %u, which holds somebody else's KV", i,
                         seq->kv_len, slot);
            continue;
        }
        uint32_t row = seq->row_first + i - first;
        assert_int_equal(batch->positions[row], i);
        check_token(sim, request, batch->token_ids[row], i);
        assert_int_equal(batch->slots[0][row], slot);
        assert_in_range(slot, sim->options.kv.page_slots, sim->options.kv.n_slots - 1);
        sim->kv[slot] = hash;
    }
    request->n_computed += seq->n_rows;
}

/* The promises of batch.h about rows and logits rows. */
static void check_shape(const struct sim *sim, const struct batch *batch) {
    uint32_t row = 0, logits_row = 0;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        const struct sched_seq *owner = seq->user;
        assert_int_equal(seq->row_first, row);
        assert_true(seq->n_rows >= 1);
        assert_int_equal(seq->kv_len, owner->n_cached);
        assert_int_equal(seq->logits_row, logits_row);
        for (uint32_t r = seq->logits_first; r < seq->n_rows; r++)
            assert_int_equal(batch->logits_rows[logits_row++], row + r);
        row += seq->n_rows;
    }
    assert_int_equal(row, batch->n_tokens);
    assert_int_equal(logits_row, batch->n_logits_rows);
    assert_in_range(batch->n_tokens, 0, sim->options.chunk_tokens + sim->options.kv.n_rows);
    assert_in_range(sim->step.n_prefill_tokens, 0, sim->options.chunk_tokens);
}

static uint64_t step_ns(struct sim *sim, const struct sim_flight *flight) {
    double ns = sim->cost.base + sim->cost.decode * flight->step.n_decode_seqs;
    for (uint32_t i = flight->step.n_decode_seqs; i < flight->batch->n_seqs; i++) {
        const struct batch_seq *seq = &flight->batch->seqs[i];
        double depth = (double)seq->kv_len - (double)seq->n_rows / 2;
        ns += seq->n_rows * (sim->cost.token + sim->cost.depth * depth);
    }
    ns *= 1 + sim->cost.noise * rng_uniform(9, sim->n_random++);
    return ns > 1 ? (uint64_t)ns : 1;
}

static void take_token(struct sim *sim, struct sim_request *request, uint32_t position) {
    uint32_t n_known = request->seq.n_prompt + request->seq.n_output;
    assert_int_equal(position + 1, n_known);
    int32_t token = (int32_t)(hash_of(request, n_known) % SIM_VOCAB);
    request->tokens[n_known] = token;
    request->n_output++;
    if (request->n_output == 1)
        request->first_ns = sim->now_ns;
    else if (sim->now_ns - request->last_ns > request->gap_ns_max)
        request->gap_ns_max = sim->now_ns - request->last_ns;
    request->last_ns = sim->now_ns;
    if (request->n_output >= request->n_wanted || request->n_output >= request->seq.max_new_tokens)
        end(sim, request);
    else
        sched_append(sim->s, &request->seq, token);
}

static void take_logits(struct sim *sim, const struct batch_seq *seq) {
    struct sched_seq *owner = seq->user;
    struct sim_request *request = owner->user;
    bool is_complete = seq->kv_len == owner->n_prompt + owner->n_output;
    bool is_sampled = is_complete && owner->max_new_tokens;
    for (uint32_t r = seq->logits_first; r < seq->n_rows; r++) {
        uint32_t position = seq->kv_len - seq->n_rows + r;
        if (position >= owner->logits_from && position < owner->n_prompt) {
            assert_int_equal(position, owner->logits_from + request->n_logits_rows);
            request->n_logits_rows++;
        } else {
            assert_true(is_sampled && r + 1 == seq->n_rows);
        }
    }
    if (is_sampled) {
        assert_true(seq->logits_first < seq->n_rows);
        take_token(sim, request, seq->kv_len - 1);
    } else if (is_complete) {
        end(sim, request);
    }
}

static void begin_flight(struct sim *sim, const struct batch *batch) {
    struct sim_flight *flight = &sim->flights[1 + sim->n_flights++];
    uint32_t n = 0;
    flight->batch = batch;
    flight->n_logits_rows = batch->n_logits_rows;
    flight->step = sim->step;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        memcpy(flight->slots + n, seq->kv_slots[0], seq->kv_len * sizeof *flight->slots);
        n += seq->kv_len;
        for (uint32_t r = seq->logits_first; r < seq->n_rows; r++) {
            uint32_t row = seq->logits_row + r - seq->logits_first;
            flight->owners[row] = ((struct sched_seq *)seq->user)->user;
            flight->positions[row] = seq->kv_len - seq->n_rows + r;
        }
    }
}

static void end_flight(struct sim *sim) {
    struct sim_flight *flight = &sim->flights[1], before = sim->flights[0];
    const struct batch *batch = flight->batch;
    for (uint32_t i = 0, n = 0; i < batch->n_seqs; i++) {
        compute_seq(sim, batch, &batch->seqs[i], flight->slots + n);
        n += batch->seqs[i].kv_len;
    }
    sim->n_steps++;
    sim->n_computed += batch->n_tokens;
    uint64_t ns = step_ns(sim, flight);
    sim->now_ns += ns;
    sched_step_end(sim->s, ns);
    if (sim->checks_all) assert_true(sched_check(sim->s));
    for (uint32_t i = 0; i < batch->n_seqs; i++)
        if (batch->seqs[i].user) take_logits(sim, &batch->seqs[i]);
    if (sim->checks_all) assert_true(sched_check(sim->s));
    sim->flights[0] = sim->flights[1];
    sim->flights[1] = sim->flights[2];
    sim->flights[2] = before;
    sim->n_flights--;
}

static bool leads(struct sim *sim) {
    if (!sim->n_flights || !sim->runs_ahead || !sched_can_fill_ahead(sim->s)) return false;
    return !sim->lead_1_in || rng_u64(10, sim->n_random++) % sim->lead_1_in;
}

bool sim_step(struct sim *sim) {
    if (sim->n_flights && !leads(sim)) end_flight(sim);
    const struct batch *batch = sched_fill(sim->s, sim->now_ns, &sim->step);
    if (sim->checks_all) assert_true(sched_check(sim->s));
    sim->n_retracted += sim->step.n_retracted_seqs;
    sim->n_preempted += sim->step.n_preempted_seqs;
    /* Whoever waits, something moves. */
    assert_true(batch->n_tokens || sched_is_idle(sim->s) || sim->n_flights);
    if (batch->n_tokens) {
        check_shape(sim, batch);
        sim->n_ahead += sim->n_flights;
        begin_flight(sim, batch);
    } else if (!sim->n_flights) {
        return false;
    }
    if (sim->n_flights > 1 || !sim->runs_ahead || !batch->n_tokens) end_flight(sim);
    return true;
}

void sim_drain(struct sim *sim, uint32_t n_steps_max) {
    for (uint32_t n = 0; sim_step(sim); n++) assert_true(n < n_steps_max);
}
