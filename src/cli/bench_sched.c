/* bench_sched.c - what the scheduler costs a step, with 1, 32 and 256 sequences running.
 *
 * The model is a stub that computes nothing: a step is filled, ended, and every sequence gets its
 * next token, as the engine does it, so the figure is all that scheduler, tree, table and pool take
 * from a step of decodes. Beside it, what admission costs: a queue whose requests have all of a
 * trunk of 1,000 tokens in the tree, admitted, computed and removed. */
#include "bench.h"

#include "base/clock.h"
#include "command.h"
#include "sched/sched.h"

#include <stdlib.h>

enum { SEQS_MAX = 256, TOKENS = 4096, PROMPT = 200, TRUNK = 1000, STEPS = 64, RUNS = 31 };

struct bench {
    struct sched *s;
    struct sched_seq seqs[SEQS_MAX];
    int32_t *tokens; /* [SEQS_MAX, TOKENS] prompt and answer of each */
    bool json;
    struct bench_row row;
};

static int open_sched(struct bench *b, uint32_t page_slots, uint32_t n_rows) {
    struct radish_error err;
    struct sched_options options = {.kv = {.n_slots = SEQS_MAX * TOKENS + page_slots,
                                           .page_slots = page_slots,
                                           .n_rows = n_rows,
                                           .context_tokens = TOKENS},
                                    .chunk_tokens = 512,
                                    .prefill_tokens_max = SEQS_MAX * TOKENS,
                                    .policy = SCHED_POLICY_LPM,
                                    .conservativeness = 1,
                                    .stall_ns_max = 250000000};
    if (sched_create(&options, &b->s, &err) != RADISH_OK) return command_fail("%s", err.msg);
    return -1;
}

static void push(struct bench *b, uint32_t i, uint32_t n_prompt, uint32_t n_new) {
    int32_t *tokens = b->tokens + (size_t)i * TOKENS;
    b->seqs[i] = (struct sched_seq){.prompt = tokens,
                                    .n_prompt = n_prompt,
                                    .output = tokens + n_prompt,
                                    .max_new_tokens = n_new,
                                    .logits_from = n_prompt,
                                    .arrived_ns = clock_ns()};
    sched_push(b->s, &b->seqs[i]);
}

/* One step; whoever has a token more to come gets it, the others end. False: nothing was left. */
static bool step(struct bench *b, struct sched_step *step_out) {
    const struct batch *batch = sched_fill(b->s, clock_ns(), step_out);
    if (!batch->n_tokens) return false;
    sched_step_end(b->s, /*duration_ns=*/1000000);
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        struct sched_seq *seq = batch->seqs[i].user;
        if (seq->state != SCHED_SEQ_DECODING) continue;
        if (seq->n_output + 1 < seq->max_new_tokens)
            sched_append(b->s, seq, seq->output[seq->n_output]);
        else
            sched_remove(b->s, seq);
    }
    return true;
}

static int print_row(struct bench *b, const char *what, const char *size_name, uint64_t size,
                     const char *unit) {
    b->row.bench = "sched";
    b->row.what = what;
    b->row.size_name = size_name;
    b->row.size = size;
    b->row.unit = unit;
    return bench_print(&b->row, b->json);
}

static int run_decodes(struct bench *b, uint32_t n_seqs, uint32_t page_slots) {
    int rc = open_sched(b, page_slots, n_seqs);
    struct sched_step info;
    if (rc >= 0) return rc;
    for (uint32_t i = 0; i < n_seqs; i++) push(b, i, PROMPT, TOKENS - PROMPT);
    do step(b, &info);
    while (info.n_decode_seqs < n_seqs || info.n_prefill_tokens);
    for (uint32_t run = 0; run < RUNS; run++) {
        uint64_t begun = clock_ns();
        for (uint32_t i = 0; i < STEPS; i++) step(b, &info);
        bench_add(&b->row, (double)(clock_ns() - begun) / STEPS / 1e3);
    }
    for (uint32_t i = 0; i < n_seqs; i++) sched_remove(b->s, &b->seqs[i]);
    sched_destroy(b->s);
    return print_row(b, page_slots > 1 ? "a step of decodes, pages of 16" : "a step of decodes",
                     "running", n_seqs, "us/step");
}

/* Requests with the same trunk, of which all but one token is in the tree. */
static int run_admissions(struct bench *b) {
    int rc = open_sched(b, 1, SEQS_MAX);
    struct sched_step info;
    if (rc >= 0) return rc;
    for (uint32_t i = 1; i < SEQS_MAX; i++)
        for (uint32_t t = 0; t < TRUNK; t++) b->tokens[(size_t)i * TOKENS + t] = b->tokens[t];
    push(b, 0, TRUNK, 1);
    while (step(b, &info)) {}
    for (uint32_t run = 0; run < RUNS; run++) {
        uint64_t begun = clock_ns();
        for (uint32_t i = 0; i < SEQS_MAX; i++) push(b, i, TRUNK, 1);
        while (step(b, &info)) {}
        bench_add(&b->row, (double)(clock_ns() - begun) / SEQS_MAX / 1e3);
    }
    sched_destroy(b->s);
    return print_row(b, "a warm request, from push to end", "cached", TRUNK - 1, "us");
}

int bench_sched(const struct args *args) {
    static const uint32_t n_seqs[] = {1, 32, 256};
    struct bench *b = calloc(1, sizeof *b);
    int32_t *tokens = calloc((size_t)SEQS_MAX * TOKENS, sizeof *tokens);
    int rc = b && tokens ? -1 : command_fail("out of memory");
    if (rc < 0) {
        b->tokens = tokens;
        b->json = args->json;
        for (uint32_t i = 0; i < SEQS_MAX * TOKENS; i++)
            tokens[i] = (int32_t)((i / TOKENS * 7919 + i * 31) % 32000);
    }
    for (uint32_t i = 0; rc < 0 && i < 3; i++) rc = run_decodes(b, n_seqs[i], 1);
    if (rc < 0) rc = run_decodes(b, SEQS_MAX, 16);
    if (rc < 0) rc = run_admissions(b);
    free(tokens);
    free(b);
    return rc;
}
