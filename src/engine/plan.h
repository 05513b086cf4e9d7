/* plan.h - the one hard memory budget: what a model will take on this machine, before any of it is
 * taken.
 *
 * Owns nothing. Threads: any. */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include "radish.h"

#include "base/buf.h"
#include "engine/model_int.h"
#include "kernel/kernel.h"
#include "model/runner.h"
#include "model/weights.h"
#include "sched/sched.h"

struct engine_plan {
    struct radish_engine_options options; /* every default filled in */
    struct weights_options weights;
    struct weights_sizes weights_sizes;
    struct runner_options runner; /* n_slots includes the padding page */
    struct sched_options sched;
    uint64_t have_bytes; /* memory available at start */
    uint64_t weight_bytes;
    uint64_t kv_slot_bytes, kv_bytes; /* of one slot and of all, bookkeeping included */
    uint64_t scratch_bytes;           /* runner, scheduler, samplers */
    uint32_t n_usable;                /* slots */
};

/* Fills in the defaults of `given` (may be NULL). E_INVALID names the flag whose value makes no
 * sense. */
enum radish_status plan_options(const struct radish_engine_options *given,
                                struct radish_engine_options *options_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* options: from plan_options(). have_bytes: memory that may be used, where the device does not know
 * better (its memory_available). Also checks that the device can do all of the model. E_NOMEM names
 * need, have and the flag to change; the error of a model that cannot be served. */
enum radish_status plan_make(const struct radish_model *model, struct device *device,
                             const struct radish_engine_options *options, uint64_t have_bytes,
                             struct engine_plan *plan_out,
                             struct radish_error *err) RADISH_CHECK_RESULT;

/* "BF16 123.4 MB, F32 0.1 MB, of 123.5 MB in the file": on the device, by type. */
void plan_append_weights(const struct engine_plan *plan, struct buf *out);

/* "weights 0.14 GB, KV pool 131072 slots x 30 layers (0.75 GB), scratch 0.05 GB, have 22.1 GB" */
void plan_append_line(const struct engine_plan *plan, const struct radish_model *model,
                      struct buf *out);

#endif
