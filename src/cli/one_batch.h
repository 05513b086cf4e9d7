/* one_batch.h - a batch of sequences on model and KV pool with nothing around them: no server, no
 * scheduler, no tree.
 *
 * Owns: model, device, weights, runner, pool, and the sequences' tokens and slots. A function that
 * can fail returns -1, or an exit status after a message, as commands do. Threads: main thread
 * only. */
#ifndef CLI_ONE_BATCH_H
#define CLI_ONE_BATCH_H

#include "radish.h"

#include "args.h"
#include "cache/kv_pool.h"
#include "engine/plan.h"
#include "model/runner.h"
#include "model/weights.h"
#include "sample/sampler.h"

/* One sequence of the batch. */
struct one_seq {
    int32_t *tokens;   /* [tokens_max] prompt, then answer */
    uint32_t *slots;   /* [tokens_max, in whole pages] */
    uint32_t n_prompt; /* of tokens */
    uint32_t n_cached; /* of tokens, with KV */
    uint32_t n_tokens; /* with those sampled */
};

struct one_batch {
    struct args *args;
    struct radish_model *model;
    struct radish_engine_options options;
    struct engine_plan plan;
    struct device *device;
    struct weights *weights;
    struct runner *runner;
    struct kv_pool *pool;
    struct sampler *sampler;
    struct batch batch;
    struct one_seq *seqs;          /* [seqs_max] */
    uint32_t seqs_max, tokens_max; /* tokens: prompt and answer of one sequence */
    uint32_t n_seqs;               /* in use */
    int32_t **prompts;             /* [n_prompts] ids of texts */
    size_t *prompt_lens;
    uint32_t n_prompts;
    float *kept_logits; /* NULL, or [n_seqs, n_vocab]: the last logits of each, as computed */
};

/* Opens the model and its text side; then prompts may be added; then the rest is loaded, for at
 * most seqs_max sequences of tokens_max tokens. one_batch_close() is due in every case. */
int one_batch_open(struct one_batch *o, struct args *args);
int one_batch_add_prompt(struct one_batch *o, const char *text, size_t len);
int one_batch_add_file(struct one_batch *o, const char *path); /* a prompt from each line */
int one_batch_load(struct one_batch *o, uint32_t seqs_max, uint32_t tokens_max);
void one_batch_close(struct one_batch *o);

/* n_seqs sequences with slots for n_tokens each; end gives the slots back. */
int one_batch_begin(struct one_batch *o, uint32_t n_seqs, uint32_t n_tokens);
void one_batch_end(struct one_batch *o, uint32_t n_tokens);

/* Sequence i has to compute a prompt of n tokens: ids at random, or of a text, repeated. */
void one_batch_set_prompt(struct one_batch *o, uint32_t i, uint32_t n);

/* Computes all prompts, up to each one's first token of output, in steps of at most a chunk. */
int one_batch_prefill(struct one_batch *o);
/* One token more for every sequence. */
int one_batch_decode(struct one_batch *o);

#endif
