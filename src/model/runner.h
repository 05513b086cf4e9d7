/* runner.h - a batch in, logits out: embed, layers, final norm, logits. Owns the KV pool's memory
 * and all scratch; nothing is allocated after create.
 *
 * Slots are ids from cache/kv_pool; the runner only knows how many there are. Threads: the engine's
 * thread. */
#ifndef MODEL_RUNNER_H
#define MODEL_RUNNER_H

#include "radish.h"

#include "kernel/kernel.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/weights.h"

#define RUNNER_LOGITS_ROWS 64 /* logits are made in blocks of at most this many rows */

struct runner_options {
    uint32_t tokens_max; /* rows of a batch */
    uint32_t seqs_max;
    uint32_t logits_rows_max; /* rows of a batch that want logits */
    uint32_t context_tokens;  /* positions [0, context_tokens) */
    uint32_t n_slots;         /* rows of the pool, padding page included */
    uint32_t page_size; /* slots [0, page_size) are the padding page and never named; 0 means 1 */
    enum dtype kv_dtype;
    uint32_t n_drawn; /* ids [n_drawn, n_vocab) are never drawn; 0: all may be */
};

struct runner_plan {
    uint64_t scratch_bytes; /* activations, logits, kernels' scratch, RoPE table */
    uint64_t kv_slot_bytes; /* one token's K and V in all layers */
};

/* What create will take (n_slots is not looked at), and whether the device can do every operation
 * of every layer: E_UNSUPPORTED names layer and operation. */
enum radish_status runner_plan(const struct model_config *config, struct device *device,
                               const struct runner_options *options, struct runner_plan *plan_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;

struct runner;

/* config, weights and device are borrowed for the runner's life. */
enum radish_status runner_create(const struct model_config *config, const struct weights *weights,
                                 struct device *device, const struct runner_options *options,
                                 struct runner **runner_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;
void runner_destroy(struct runner *runner);

/* Runs the batch through all layers: K and V are in their slots when its step has been waited for,
 * and the hidden rows that want logits are kept. draws: [n_logits_rows], what the device draws from
 * each row; or NULL, nothing (where runner_can_draw() is false, always). batch and draws stay as
 * they are until the step has been waited for. Where runner_can_run_ahead(), a second step may be
 * submitted before the first has been waited for; its token ids may name what that one draws. */
enum radish_status runner_submit(struct runner *runner, const struct batch *batch,
                                 const struct sample_draw *draws) RADISH_CHECK_RESULT;
/* Waits for the oldest step. After a failure none is in flight. */
enum radish_status runner_wait(struct runner *runner) RADISH_CHECK_RESULT;
/* Both, without draws. */
enum radish_status runner_step(struct runner *runner,
                               const struct batch *batch) RADISH_CHECK_RESULT;
bool runner_can_run_ahead(const struct runner *runner); /* the device records its steps */
bool runner_can_draw(const struct runner *runner);      /* it has an operation for that */

/* What was drawn from logits row `row` of the step last waited for, which had draws; -1: nothing,
 * as sample_rows_args says. */
int32_t runner_token(const struct runner *runner, uint32_t row);

/* Logits of logits rows [row, row + n), n <= RUNNER_LOGITS_ROWS, of the step last waited for, in
 * host memory: [n, n_vocab] f32, borrowed until the next call or step; the caller may write to them
 * (sampling does). No step may be in flight. */
enum radish_status runner_logits(struct runner *runner, uint32_t row, uint32_t n,
                                 float **logits_out) RADISH_CHECK_RESULT;

#endif
