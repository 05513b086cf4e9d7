/* sim_commands.c - command buffers and encoders: what is encoded is recorded, and looked at.
 *
 * Nothing runs before commit. A dispatch takes what is bound at its kernel's indexes, as numbers
 * and unretained, as a command buffer with unretained references does; each object that it names
 * counts the flight, so that a release before the end is seen at the release. */
#include "sim_int.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 4096, SCOPE_BUFFERS = 1, DISPATCH_CONCURRENT = 1 };

/* ---- command buffers ---- */

static void land(struct sim_object *o, uint64_t serial) {
    if (sim_is_alive(o, serial)) o->n_flights--;
}

void sim_commands_clear(struct sim_commands *c) {
    for (size_t i = 0; i < c->n_dispatches; i++) {
        struct sim_dispatch *d = &c->dispatches[i];
        if (d->is_barrier) continue;
        land((void *)d->pipeline, d->pipeline_serial);
        for (uint32_t k = 0; k < d->n_bindings; k++) {
            if (d->bindings[k].buffer) land((void *)d->bindings[k].buffer, d->bindings[k].serial);
            free(d->bindings[k].bytes);
        }
        free(d->bindings);
    }
    free(c->dispatches);
    c->dispatches = NULL;
    c->n_dispatches = c->capacity = 0;
}

static void drop_commands(struct sim_object *o) {
    struct sim_commands *c = (void *)o;
    if (!c->is_committed) sim_fault("a command buffer is released that was never committed");
    sim_commands_clear(c);
    if (c->encoder) sim_release(&c->encoder->base);
}

id sim_queue_commands(id self, SEL selector) {
    (void)selector;
    if (++sim_counters.begun == sim_settings()->begin_fail_at) return NULL;
    struct sim_commands *c = sim_make(SIM_MTLCommandBuffer, sizeof *c, drop_commands);
    c->queue = (void *)self;
    return sim_autorelease(c);
}

void sim_queue_add_residency_set(id self, SEL selector, id set) {
    (void)self, (void)selector;
    sim_get(set, SIM_MTLResidencySet, "addResidencySet");
}

static void drop_encoder(struct sim_object *o) {
    struct sim_encoder *e = (void *)o;
    if (!e->is_ended) sim_fault("an encoder is released without endEncoding");
    for (uint32_t i = 0; i < MSL_BINDINGS; i++) free(e->bindings[i].bytes);
}

id sim_commands_encoder(id self, SEL selector, NSUInteger type) {
    (void)selector;
    struct sim_commands *c = (void *)self;
    if (c->is_committed) sim_fault("an encoder is asked of a committed command buffer");
    if (c->encoder) {
        sim_fault("a second encoder in a command buffer%s",
                  c->encoder->is_ended ? "" : ", while the first is open");
        return NULL;
    }
    struct sim_encoder *e = sim_make(SIM_MTLComputeCommandEncoder, sizeof *e, drop_encoder);
    e->commands = c;
    c->is_serial = type != DISPATCH_CONCURRENT;
    sim_retain(&e->base);
    c->encoder = e;
    return sim_autorelease(e);
}

/* What is resident while it runs is settled at its commit. */
static void check_residency(const struct sim_commands *c) {
    for (size_t i = 0; i < c->n_dispatches; i++)
        for (uint32_t k = 0; k < c->dispatches[i].n_bindings; k++) {
            const struct sim_binding *b = &c->dispatches[i].bindings[k];
            if (!b->buffer || !sim_is_alive(b->buffer, b->serial) || !b->buffer->is_unsettled)
                continue;
            sim_fault("commit: the residency set has a buffer that is named and was not committed");
            return;
        }
}

void sim_commands_commit(id self, SEL selector) {
    (void)selector;
    struct sim_commands *c = (void *)self;
    if (c->is_committed) {
        sim_fault("a command buffer is committed twice");
        return;
    }
    if (c->encoder && !c->encoder->is_ended) sim_fault("commit with an open encoder");
    check_residency(c);
    c->is_committed = true;
    sim_queue_commit(c->queue, c);
}

void sim_commands_wait(id self, SEL selector) {
    (void)selector;
    struct sim_commands *c = (void *)self;
    if (!c->is_committed) {
        sim_fault("waitUntilCompleted before commit: never ends on a Mac");
        return;
    }
    sim_queue_wait(c->queue, c);
}

/* Of a command buffer that the host has not waited for these would be read too early. */
static bool is_over(const struct sim_commands *c, const char *what) {
    pthread_mutex_lock(&c->queue->lock);
    const bool is_done = c->is_done;
    pthread_mutex_unlock(&c->queue->lock);
    if (!is_done) sim_fault("%s of a command buffer that has not ended", what);
    return is_done;
}

NSUInteger sim_commands_status(id self, SEL selector) {
    (void)selector;
    const struct sim_commands *c = (void *)self;
    return is_over(c, "status") ? c->status : 0;
}

id sim_commands_error(id self, SEL selector) {
    (void)selector;
    const struct sim_commands *c = (void *)self;
    if (!is_over(c, "error") || !*c->error_text) return NULL;
    return sim_make_error(c->error_code, c->error_text);
}

double sim_commands_gpu_start(id self, SEL selector) {
    (void)selector;
    const struct sim_commands *c = (void *)self;
    return is_over(c, "GPUStartTime") ? c->start : 0;
}

double sim_commands_gpu_end(id self, SEL selector) {
    (void)selector;
    const struct sim_commands *c = (void *)self;
    return is_over(c, "GPUEndTime") ? c->end : 0;
}

/* ---- encoders ---- */

static struct sim_encoder *open_encoder(id self, const char *what) {
    struct sim_encoder *e = (void *)self;
    if (!e->is_ended) return e;
    sim_fault("%s on an encoder that has ended", what);
    return NULL;
}

void sim_encoder_pipeline(id self, SEL selector, id pipeline) {
    (void)selector;
    struct sim_encoder *e = open_encoder(self, "setComputePipelineState");
    struct sim_pipeline *p =
        sim_get(pipeline, SIM_MTLComputePipelineState, "setComputePipelineState");
    if (!e || !p) return;
    e->pipeline = p;
    e->pipeline_serial = p->base.serial;
}

static struct sim_binding *binding_at(id self, NSUInteger index, const char *what) {
    struct sim_encoder *e = open_encoder(self, what);
    if (!e) return NULL;
    if (index >= MSL_BINDINGS) {
        sim_fault("%s at index %lu; the last is %u", what, index, MSL_BINDINGS - 1);
        return NULL;
    }
    struct sim_binding *b = &e->bindings[index];
    free(b->bytes);
    *b = (struct sim_binding){0};
    return b;
}

void sim_encoder_buffer(id self, SEL selector, id object, NSUInteger offset, NSUInteger index) {
    (void)selector;
    struct sim_binding *b = binding_at(self, index, "setBuffer");
    struct sim_buffer *buffer = sim_get(object, SIM_MTLBuffer, "setBuffer");
    if (!b || !buffer) return;
    if (offset >= buffer->bytes) {
        sim_fault("setBuffer: offset %lu is past the end of a buffer of %zu", offset,
                  buffer->bytes);
        return;
    }
    if (offset % 4) sim_fault("setBuffer: offset %lu is no multiple of 4", offset);
    b->buffer = buffer;
    b->serial = buffer->base.serial;
    b->offset = offset;
}

void sim_encoder_bytes(id self, SEL selector, const void *bytes, NSUInteger n, NSUInteger index) {
    (void)selector;
    struct sim_binding *b = binding_at(self, index, "setBytes");
    if (!n || n > BYTES_MAX) sim_fault("setBytes of %lu bytes; at most %d", n, BYTES_MAX);
    if (!b || !n) return;
    b->bytes = malloc(n);
    if (!b->bytes) abort();
    memcpy(b->bytes, bytes, n);
    b->n = n;
}

void sim_encoder_shared(id self, SEL selector, NSUInteger n, NSUInteger index) {
    (void)selector;
    struct sim_encoder *e = open_encoder(self, "setThreadgroupMemoryLength");
    if (!e) return;
    if (n % 16) sim_fault("setThreadgroupMemoryLength: %lu is no multiple of 16", n);
    if (index >= MSL_BINDINGS) {
        sim_fault("setThreadgroupMemoryLength at index %lu", index);
        return;
    }
    e->shared_bytes[index] = (uint32_t)n;
}

static struct sim_dispatch *record(struct sim_commands *c) {
    if (c->n_dispatches == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 64;
        c->dispatches = realloc(c->dispatches, c->capacity * sizeof *c->dispatches);
        if (!c->dispatches) abort();
    }
    struct sim_dispatch *d = &c->dispatches[c->n_dispatches++];
    *d = (struct sim_dispatch){0};
    return d;
}

static bool is_runnable(const struct sim_encoder *e, const struct sim_dispatch *d) {
    const char *name = e->pipeline->kernel->name;
    const uint64_t n = (uint64_t)d->group[0] * d->group[1] * d->group[2];
    const NSUInteger max = sim_pipeline_threads_max((id)(void *)e->pipeline, NULL);
    if (!n || !d->grid[0] || !d->grid[1] || !d->grid[2]) {
        sim_fault("%s: a dispatch of nothing", name);
        return false;
    }
    if (n > max) {
        sim_fault("%s: a threadgroup of %lu threads; this pipeline allows %lu", name, n, max);
        return false;
    }
    uint64_t shared = msl_kernel_shared_bytes(e->pipeline->kernel);
    for (uint32_t i = 0; i < MSL_BINDINGS; i++) shared += d->shared_bytes[i];
    if (shared > MSL_SHARED_MAX) {
        sim_fault("%s: %lu bytes of threadgroup memory; at most %u", name, shared, MSL_SHARED_MAX);
        return false;
    }
    return true;
}

/* Takes what the kernel's indexes have; false, and a fault, where one has nothing. */
static bool take_bindings(const struct sim_encoder *e, struct sim_dispatch *d) {
    const struct msl_kernel *kernel = e->pipeline->kernel;
    d->n_bindings = kernel->n_bindings;
    d->bindings = calloc(kernel->n_bindings + 1, sizeof *d->bindings);
    if (!d->bindings) abort();
    bool is_whole = true;
    for (uint32_t i = 0; i < kernel->n_bindings; i++) {
        const struct msl_binding *want = &kernel->bindings[i];
        if (want->kind == MSL_BINDING_SHARED) {
            if (d->shared_bytes[want->index]) continue;
            sim_fault("%s: threadgroup memory %u (%s) has no length", kernel->name, want->index,
                      want->name);
            is_whole = false;
            continue;
        }
        const struct sim_binding *have = &e->bindings[want->index];
        if (have->buffer) {
            if (!sim_is_alive(have->buffer, have->serial)) {
                sim_fault("%s: the buffer at %u (%s) has been released", kernel->name, want->index,
                          want->name);
                is_whole = false;
                continue;
            }
            d->bindings[i] = *have;
            have->buffer->base.n_flights++;
        } else if (have->bytes) {
            if (!want->is_read_only)
                sim_fault("%s: setBytes at %u (%s), which it writes", kernel->name, want->index,
                          want->name);
            d->bindings[i] = *have;
            d->bindings[i].bytes = malloc(have->n);
            if (!d->bindings[i].bytes) abort();
            memcpy(d->bindings[i].bytes, have->bytes, have->n);
        } else {
            sim_fault("%s: nothing is bound at %u (%s)", kernel->name, want->index, want->name);
            is_whole = false;
        }
    }
    return is_whole;
}

/* Metal keeps threadgroup memory lengths from pipeline to pipeline; what this kernel does not name
 * does not count. */
static void take_shared(const struct sim_encoder *e, struct sim_dispatch *d) {
    const struct msl_kernel *kernel = e->pipeline->kernel;
    for (uint32_t i = 0; i < kernel->n_bindings; i++)
        if (kernel->bindings[i].kind == MSL_BINDING_SHARED)
            d->shared_bytes[kernel->bindings[i].index] = e->shared_bytes[kernel->bindings[i].index];
}

static void dispatch(id self, struct mtl_size grid, struct mtl_size group, bool is_by_threads) {
    struct sim_encoder *e = open_encoder(self, "dispatch");
    if (!e) return;
    if (!e->pipeline || !sim_is_alive(e->pipeline, e->pipeline_serial)) {
        sim_fault("dispatch with %s pipeline", e->pipeline ? "a released" : "no");
        return;
    }
    struct sim_dispatch *d = record(e->commands);
    *d = (struct sim_dispatch){
        .pipeline = e->pipeline,
        .pipeline_serial = e->pipeline_serial,
        .is_by_threads = is_by_threads,
        .grid = {(uint32_t)grid.width, (uint32_t)grid.height, (uint32_t)grid.depth},
        .group = {(uint32_t)group.width, (uint32_t)group.height, (uint32_t)group.depth},
    };
    e->pipeline->base.n_flights++;
    take_shared(e, d);
    const bool is_whole = take_bindings(e, d);
    /* What cannot run stays in the record as a barrier does: its flights end with the others'. */
    if (!is_runnable(e, d) || !is_whole) d->is_broken = true;
}

void sim_encoder_dispatch_threads(id self, SEL selector, struct mtl_size grid,
                                  struct mtl_size group) {
    (void)selector;
    dispatch(self, grid, group, true);
}

void sim_encoder_dispatch_groups(id self, SEL selector, struct mtl_size n_groups,
                                 struct mtl_size group) {
    (void)selector;
    dispatch(self, n_groups, group, false);
}

void sim_encoder_barrier(id self, SEL selector, NSUInteger scope) {
    (void)selector;
    struct sim_encoder *e = open_encoder(self, "memoryBarrierWithScope");
    if (scope != SCOPE_BUFFERS) sim_fault("memoryBarrierWithScope: scope %lu", scope);
    if (!e) return;
    record(e->commands)->is_barrier = true;
    sim_counters.barriers++;
}

/* What a fence orders is settled at commit (sim_queue.c). */
void sim_encoder_wait_fence(id self, SEL selector, id object) {
    (void)selector;
    struct sim_encoder *e = open_encoder(self, "waitForFence");
    const struct sim_fence *fence = sim_get(object, SIM_MTLFence, "waitForFence");
    if (!e || !fence) return;
    if (e->commands->n_dispatches) sim_fault("waitForFence after work has been encoded");
    e->commands->wait_fence = fence;
}

void sim_encoder_update_fence(id self, SEL selector, id object) {
    (void)selector;
    struct sim_encoder *e = open_encoder(self, "updateFence");
    struct sim_fence *fence = sim_get(object, SIM_MTLFence, "updateFence");
    if (e && fence) e->commands->update_fence = fence;
}

void sim_encoder_end(id self, SEL selector) {
    (void)selector;
    struct sim_encoder *e = (void *)self;
    if (e->is_ended) sim_fault("endEncoding twice");
    e->is_ended = true;
}
