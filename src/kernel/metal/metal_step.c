/* metal_step.c - steps of a Metal device: command buffers, the memory of a step, and what happens
 * when the system ends one.
 *
 * A step is one command buffer with one encoder. The host's part of a step (encoding, some
 * microseconds a dispatch) is done while the step before it runs; so DEVICE_STEPS_MAX steps are
 * under way, each with its own memory for what the host writes while it records (slot tables,
 * lists of work), and they take turns:
 *
 *     begin A, submit A | begin B, submit B | wait A | begin A, submit A | wait B | ...
 *
 * A command buffer that takes too long or too much is ended by the system (the watchdog that keeps
 * the screen alive, mostly). That is no death: pieces are made smaller. wait says AGAIN for that
 * step and for those submitted after it, whose inputs were never made; from then on a command
 * buffer has half as many dispatches, and metal_shrink() tells operations to halve what one
 * dispatch does. The caller records the same operations again. After METAL_SHRINKS_MAX halvings the
 * device has failed. Steps read no memory that a failed one might leave in disorder but their own
 * results and KV slots, all of which are written again.
 *
 * Why not small command buffers from the start: the boundary between two costs some twenty
 * microseconds of the GPU (reported), a step has a few hundred dispatches, and all but long
 * prefills are far from the watchdog.
 *
 * Scratch is one allocation: the memory of each step, then a block that kernels use one after
 * another:   [ step 0 ][ step 1 ][ kernels ]. How long the slot tables of a step are is known at
 * start only as a bound that nobody reaches (every request with a full context; hundreds of
 * megabytes). So a step has room for what is usual, in the plan, and grows in the rare one that
 * needs more; what it has grown by, it keeps. */
#include "metal_device.h"

#include "base/invariant.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_ALIGN = 256, STEP_SPARE_BYTES = 64 * 1024 };

/* ---- scratch ---- */

static uint64_t align(uint64_t bytes) {
    return (bytes + STEP_ALIGN - 1) / STEP_ALIGN * STEP_ALIGN;
}

static uint64_t count_step_bytes(uint32_t rows_max, uint32_t kv_len_max) {
    return align(metal_attention_step_bytes(rows_max, kv_len_max)) + STEP_SPARE_BYTES;
}

static uint64_t count_kernel_bytes(uint32_t rows_max, uint32_t width_max, uint32_t kv_len_max) {
    return align(metal_attention_scratch_bytes(rows_max, width_max, kv_len_max)) + STEP_ALIGN;
}

uint64_t metal_scratch_bytes(const struct device *device, uint32_t rows_max, uint32_t width_max,
                             uint32_t kv_len_max) {
    (void)device;
    return DEVICE_STEPS_MAX * count_step_bytes(rows_max, kv_len_max) +
           count_kernel_bytes(rows_max, width_max, kv_len_max);
}

static void free_scratch(struct metal_device *d) {
    const size_t bytes = DEVICE_STEPS_MAX * d->step_bytes + d->scratch_room;
    for (uint32_t i = 0; i < DEVICE_STEPS_MAX; i++) {
        struct metal_step *step = &d->steps[i];
        for (uint32_t b = 1; b < step->n_blocks; b++)
            metal_free(&d->base.device, step->blocks[b].base, step->blocks[b].bytes);
        if (i == 0 && step->n_blocks) metal_free(&d->base.device, step->blocks[0].base, bytes);
        step->n_blocks = 0;
    }
    d->scratch = NULL;
    d->step_bytes = d->scratch_room = 0;
}

enum radish_status metal_scratch_reserve(struct device *device, uint32_t rows_max,
                                         uint32_t width_max, uint32_t kv_len_max,
                                         struct radish_error *err) {
    struct metal_device *d = metal_of(device);
    void *block;
    RADISH_INVARIANT(!d->recording && !d->n_pending, "scratch is reserved between steps");
    free_scratch(d);
    RADISH_TRY(metal_alloc(
        device, (size_t)metal_scratch_bytes(device, rows_max, width_max, kv_len_max), &block, err));
    d->step_bytes = (size_t)count_step_bytes(rows_max, kv_len_max);
    d->scratch_room = (size_t)count_kernel_bytes(rows_max, width_max, kv_len_max);
    for (uint32_t i = 0; i < DEVICE_STEPS_MAX; i++) {
        d->steps[i].blocks[0] =
            (struct metal_block){(uint8_t *)block + i * d->step_bytes, d->step_bytes};
        d->steps[i].n_blocks = 1;
    }
    d->scratch = (uint8_t *)block + DEVICE_STEPS_MAX * d->step_bytes;
    return RADISH_OK;
}

void *metal_scratch(struct metal_device *d, size_t bytes) {
    RADISH_INVARIANT(bytes <= d->scratch_room, "%zu bytes of scratch, of %zu", bytes,
                     d->scratch_room);
    return d->scratch;
}

size_t metal_scratch_room(const struct metal_device *d) {
    return d->scratch_room;
}

/* ---- memory of a step ---- */

/* What a step that has failed is given: nothing of it will run. */
struct metal_lost {
    struct metal_lost *next;
    uint64_t bytes[];
};

static void free_lost(struct metal_step *step) {
    while (step->lost) {
        struct metal_lost *next = step->lost->next;
        free(step->lost);
        step->lost = next;
    }
}

static void *lose(struct metal_step *step, size_t bytes) {
    struct metal_lost *lost = mem_alloc(1, sizeof *lost + bytes);
    RADISH_INVARIANT(lost, "out of memory for %zu bytes", bytes);
    lost->next = step->lost;
    step->lost = lost;
    step->has_failed = true;
    return lost->bytes;
}

/* Another block, of at least so many bytes; false: the step has failed. */
static bool grow(struct metal_device *d, struct metal_step *step, size_t bytes) {
    const size_t twice = 2 * step->blocks[step->n_blocks - 1].bytes;
    struct metal_block block = {.bytes = bytes > twice ? bytes : twice};
    struct radish_error err = {0};
    void *address;
    if (step->n_blocks == METAL_BLOCKS_MAX ||
        metal_alloc(&d->base.device, block.bytes, &address, &err) != RADISH_OK) {
        log_error("metal", "no memory for the slot tables of a step: %s", err.msg);
        return false;
    }
    log_info("metal", "the memory of a step grew by %.1f MB", (double)block.bytes / 1e6);
    block.base = address;
    step->blocks[step->n_blocks++] = block;
    return true;
}

void *metal_step_alloc(struct metal_device *d, size_t bytes) {
    struct metal_step *step = d->recording;
    RADISH_INVARIANT(step && step->n_blocks, "memory of a step outside of one");
    if (step->has_failed) return lose(step, bytes);
    while (bytes > step->blocks[step->block_idx].bytes - step->block_used) {
        if (step->block_idx + 1 == step->n_blocks && !grow(d, step, bytes))
            return lose(step, bytes);
        step->block_idx++;
        step->block_used = 0;
    }
    const struct metal_block *block = &step->blocks[step->block_idx];
    void *address = block->base + step->block_used;
    const size_t end = (size_t)align(step->block_used + bytes);
    step->block_used = end < block->bytes ? end : block->bytes;
    return address;
}

void *metal_step_share(struct metal_device *d, const void *key, size_t bytes, bool *is_new_out) {
    struct metal_step *step = d->recording;
    *is_new_out = false;
    for (uint32_t i = 0; i < step->n_shares; i++)
        if (step->shares[i].key == key) return step->shares[i].address;
    *is_new_out = true;
    RADISH_INVARIANT(step->n_shares < METAL_SHARES_MAX, "too many shares");
    void *address = metal_step_alloc(d, bytes);
    step->shares[step->n_shares].key = key;
    step->shares[step->n_shares++].address = address;
    return address;
}

/* ---- commands ---- */

static void commit(struct metal_device *d) {
    struct metal_step *step = d->recording;
    if (!d->commands) return;
    if (d->has_new_buffers) mtl_device_make_resident(d->mtl);
    d->has_new_buffers = false;
    mtl_commit(d->commands);
    step->commands[step->n_commands++] = d->commands;
    if (d->n_commands_dispatches > step->n_dispatches_max)
        step->n_dispatches_max = d->n_commands_dispatches;
    d->commands = NULL;
    d->n_commands_dispatches = 0;
    d->n_hazards = 0;
}

struct mtl_commands *metal_step_commands(struct metal_device *d) {
    struct metal_step *step = d->recording;
    RADISH_INVARIANT(step, "a dispatch outside of a step");
    if (d->n_commands_dispatches >= d->dispatches_max && step->n_commands + 1 < METAL_COMMANDS_MAX)
        commit(d);
    if (!d->commands && !step->has_failed) {
        d->commands = mtl_commands_begin(d->mtl);
        step->has_failed = !d->commands;
        if (step->has_failed) log_error("metal", "the system gives no command buffer");
        d->n_commands_dispatches = 0;
        d->n_hazards = 0;
    }
    /* What is behind a lost dispatch must not run either. */
    if (step->has_failed) return NULL;
    d->n_commands_dispatches++;
    return d->commands;
}

void metal_step_begin(struct device *device) {
    struct metal_device *d = metal_of(device);
    RADISH_INVARIANT(!d->recording && d->n_pending < DEVICE_STEPS_MAX,
                     "%u steps are not waited for", d->n_pending);
    struct metal_step *step = &d->steps[d->step_next];
    step->n_commands = step->n_dispatches_max = step->n_shares = 0;
    step->is_void = false;
    step->has_failed = d->failure != RADISH_OK; /* then nothing is encoded */
    step->block_idx = 0;
    step->block_used = 0;
    d->recording = step;
}

enum radish_status metal_step_submit(struct device *device) {
    struct metal_device *d = metal_of(device);
    struct metal_step *step = d->recording;
    RADISH_INVARIANT(step, "no step was begun");
    commit(d);
    d->recording = NULL;
    d->step_next = (d->step_next + 1) % DEVICE_STEPS_MAX;
    d->n_pending++;
    free_lost(step);
    if (step->has_failed && d->failure == RADISH_OK) d->failure = RADISH_E_NOMEM;
    return RADISH_OK;
}

/* Waits for all command buffers of the step; what the first that failed says. */
static enum radish_status wait_commands(struct metal_step *step, struct radish_error *err) {
    enum radish_status status = RADISH_OK;
    for (uint32_t i = 0; i < step->n_commands; i++) {
        struct radish_error one = {0};
        const enum radish_status s = mtl_commands_wait(step->commands[i], NULL, &one);
        if (s == RADISH_OK || status != RADISH_OK) continue;
        status = s;
        *err = one;
    }
    step->n_commands = 0;
    return status;
}

/* After a step that the system ended: smaller pieces, or the end. */
static enum radish_status shrink(struct metal_device *d, const struct metal_step *step,
                                 const struct radish_error *err) {
    if (d->shrink == METAL_SHRINKS_MAX) {
        log_error("metal", "a step was ended by the system however small its pieces: %s", err->msg);
        return d->failure = RADISH_E_INTERNAL;
    }
    d->shrink++;
    d->dispatches_max = step->n_dispatches_max / 2;
    if (d->dispatches_max < METAL_DISPATCHES_MIN) d->dispatches_max = METAL_DISPATCHES_MIN;
    for (uint32_t i = 0; i < d->n_pending; i++)
        d->steps[(d->step_next + DEVICE_STEPS_MAX - 1 - i) % DEVICE_STEPS_MAX].is_void = true;
    if (d->recording) d->recording->is_void = true;
    log_warn("metal",
             "a step was ended by the system (%s): from now on at most %u dispatches a command "
             "buffer, and pieces 1/%u as large",
             err->msg, d->dispatches_max, 1u << d->shrink);
    return RADISH_AGAIN;
}

enum radish_status metal_step_wait(struct device *device) {
    struct metal_device *d = metal_of(device);
    RADISH_INVARIANT(d->n_pending, "no step to wait for");
    struct metal_step *step =
        &d->steps[(d->step_next + DEVICE_STEPS_MAX - d->n_pending) % DEVICE_STEPS_MAX];
    struct radish_error err = {0};
    const bool is_void = step->is_void;
    const enum radish_status status = wait_commands(step, &err);
    d->n_pending--;
    if (d->failure != RADISH_OK) return d->failure;
    if (is_void) return RADISH_AGAIN; /* however it ended */
    if (status == RADISH_OK) return RADISH_OK;
    if (status == RADISH_AGAIN) return shrink(d, step, &err);
    log_error("metal", "a step failed: %s", err.msg);
    return d->failure = status;
}

uint32_t metal_shrink(const struct metal_device *d) {
    return d->shrink;
}

void metal_step_deinit(struct metal_device *d) {
    if (d->recording) (void)metal_step_submit(&d->base.device);
    while (d->n_pending) (void)metal_step_wait(&d->base.device);
    free_scratch(d);
}
