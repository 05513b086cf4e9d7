/* model_session.c - the shortest scheduler there is: all sequences in step, slots from a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model_session.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 512, CONTEXT_MAX = 512 };

static void must(enum radish_status status, const struct radish_error *err) {
    if (status != RADISH_OK) fail_msg("%s: %s", radish_status_name(status), err->msg);
}

void session_open(const char *path, const struct session_options *options,
                  struct session *session_out) {
    struct radish_error err = {0};
    const struct device_options device_options = {
        .n_threads = options->n_threads,
        .precision = options->precision,
        .kernels = options->kernels,
        .n_kernels = options->n_kernels,
    };
    memset(session_out, 0, sizeof *session_out);
    must(model_file_open(path, /*text_only_ok=*/false, &session_out->file, &err), &err);
    must(config_read(session_out->file, &session_out->config, &err), &err);
    must(device_open(options->device ? options->device : "cpu", &device_options,
                     &session_out->device, &err),
         &err);
    must(weights_load(session_out->file, &session_out->config, session_out->device,
                      &options->weights, &session_out->weights, &err),
         &err);
    const struct runner_options runner_options = {
        .tokens_max = TOKENS_MAX,
        .seqs_max = SESSION_SEQS_MAX,
        .logits_rows_max = TOKENS_MAX,
        .context_tokens = CONTEXT_MAX,
        .n_slots = options->n_slots ? options->n_slots : 512,
        .page_size = options->page_size,
        .kv_dtype = device_kv_dtype(RADISH_KV_AUTO, options->precision, session_out->config.dtype),
    };
    session_out->n_slots = runner_options.n_slots;
    struct runner_plan plan; /* asks the device for all that it will have to do */
    must(runner_plan(&session_out->config, session_out->device, &runner_options, &plan, &err),
         &err);
    must(runner_create(&session_out->config, session_out->weights, session_out->device,
                       &runner_options, &session_out->runner, &err),
         &err);
}

void session_close(struct session *session) {
    runner_destroy(session->runner);
    weights_destroy(session->weights);
    device_close(session->device);
    model_file_close(session->file);
    memset(session, 0, sizeof *session);
}

/* The i-th slot of an order; slot 0 is padding. */
static void deal_slots(uint32_t n_slots, enum session_slots order, uint32_t *slots) {
    for (uint32_t i = 0; i + 1 < n_slots; i++)
        slots[i] = order == SESSION_SLOTS_BACKWARDS ? n_slots - 1 - i : i + 1;
    if (order != SESSION_SLOTS_SHUFFLED) return;
    for (uint32_t i = n_slots - 2; i > 0; i--) {
        uint32_t j = (uint32_t)(rng_u64(7, i) % (i + 1)), slot = slots[i];
        slots[i] = slots[j];
        slots[j] = slot;
    }
}

struct step {
    int32_t token_ids[TOKENS_MAX], positions[TOKENS_MAX], slots[TOKENS_MAX];
    uint32_t logits_rows[TOKENS_MAX];
    uint32_t seq_of_row[TOKENS_MAX];
    struct batch_seq seqs[SESSION_SEQS_MAX];
    struct batch batch;
};

static void add_rows(struct step *step, struct session_seq *seqs, uint32_t seq_idx, uint32_t done,
                     uint32_t n) {
    struct batch *batch = &step->batch;
    const struct session_seq *seq = &seqs[seq_idx];
    batch->seqs[batch->n_seqs++] = (struct batch_seq){
        .row_first = batch->n_tokens,
        .n_rows = n,
        .kv_len = done + n,
        .kv_slots = {seq->slots},
        .logits_row = batch->n_logits_rows,
    };
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = batch->n_tokens++;
        assert_true(row < TOKENS_MAX);
        step->token_ids[row] = seq->tokens[done + i];
        step->positions[row] = (int32_t)(done + i);
        step->slots[row] = (int32_t)seq->slots[done + i];
        step->seq_of_row[row] = seq_idx;
        step->logits_rows[batch->n_logits_rows++] = row;
    }
}

static void collect(struct session *session, const struct step *step, struct session_seq *seqs) {
    uint32_t n_vocab = session->config.n_vocab;
    for (uint32_t first = 0; first < step->batch.n_logits_rows; first += RUNNER_LOGITS_ROWS) {
        uint32_t n = step->batch.n_logits_rows - first;
        float *logits;
        if (n > RUNNER_LOGITS_ROWS) n = RUNNER_LOGITS_ROWS;
        assert_int_equal(runner_logits(session->runner, first, n, &logits), RADISH_OK);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t row = first + i;
            float *out = seqs[step->seq_of_row[row]].logits;
            memcpy(out + (size_t)step->positions[row] * n_vocab, logits + (size_t)i * n_vocab,
                   n_vocab * sizeof(float));
        }
    }
}

void session_run(struct session *session, struct session_seq *seqs, uint32_t n_seqs, uint32_t chunk,
                 enum session_slots order) {
    static struct step step; /* 10 KB of arrays; tests are single-threaded */
    uint32_t *slots = calloc(session->n_slots, sizeof *slots), n_used = 0, done = 0;
    assert_non_null(slots);
    deal_slots(session->n_slots, order, slots);
    for (uint32_t s = 0; s < n_seqs; s++) {
        seqs[s].slots = calloc(seqs[s].n_tokens, sizeof *slots);
        assert_non_null(seqs[s].slots);
    }
    for (bool is_done = false; !is_done; done += chunk) {
        step.batch = (struct batch){.token_ids = step.token_ids,
                                    .positions = step.positions,
                                    .slots = {step.slots},
                                    .n_groups = 1,
                                    .seqs = step.seqs,
                                    .logits_rows = step.logits_rows};
        is_done = true;
        for (uint32_t s = 0; s < n_seqs; s++) {
            if (done >= seqs[s].n_tokens) continue;
            uint32_t n = seqs[s].n_tokens - done;
            if (chunk && n > chunk) n = chunk;
            for (uint32_t i = 0; i < n; i++) seqs[s].slots[done + i] = slots[n_used++];
            assert_true(n_used < session->n_slots);
            add_rows(&step, seqs, s, done, n);
            if (done + n < seqs[s].n_tokens) is_done = false;
        }
        assert_int_equal(runner_step(session->runner, &step.batch), RADISH_OK);
        collect(session, &step, seqs);
    }
    free(slots);
}

void session_free_slots(struct session_seq *seqs, uint32_t n_seqs) {
    for (uint32_t s = 0; s < n_seqs; s++) {
        free(seqs[s].slots);
        seqs[s].slots = NULL;
    }
}
