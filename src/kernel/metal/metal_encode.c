/* metal_encode.c - from an operation's dispatches to commands of Metal: pipelines, bindings,
 * barriers.
 *
 * Pipelines are compiled from (kernel, function constants) while a model loads, and found again by
 * that key in an open-addressed table, which only grows then. A step that wants one that is not
 * there has a bug in its operation's make function, and says so.
 *
 * A dispatch is collected (use, read, write, args) and sent as a whole when it is run, since only
 * then is it known whether a barrier, or a new command buffer, has to stand before it.
 *
 * Barriers. The encoder is concurrent: without a barrier, dispatches may run in any order and at
 * once, and buffers are untracked, so Metal adds none. Every dispatch says what it reads and
 * writes, in bytes; the ranges of all dispatches since the last barrier are kept, and a barrier is
 * put before one that would read what is written, or write what is touched:
 *
 *   q = Wq x, k = Wk x, v = Wv x   |  rope on q; k to its pool; v to its pool  |  attention  |  ...
 *        no barrier: all read x    |         none: they write apart            |
 *
 * A written schedule would do the same with less work (a comparison of each new range with the few
 * that are kept; some tens of nanoseconds a dispatch) but would have to be changed, and could be
 * wrong, with every layer's shape; this one cannot forget a barrier where a dispatch has told the
 * truth, and tests count that it has no more than it needs. The barriers of a step depend on its
 * operations alone, so they stand at the same places in every step. The list is bounded; when it
 * is full a barrier empties it. A new command buffer begins with an empty one: command buffers run
 * one after another (mtl.h). */
#include "metal_device.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pipelines ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* The value as bits; unions have bytes that nothing was written to. */
static uint32_t bits_of(const struct mtl_constant *c) {
    uint32_t bits = c->value.u;
    if (c->type == MTL_CONSTANT_BOOL) bits = c->value.b;
    return bits;
}

static uint64_t hash_key(const char *kernel, const struct mtl_constant *constants,
                         uint32_t n_constants) {
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, kernel, strlen(kernel));
    for (uint32_t i = 0; i < n_constants; i++) {
        const uint32_t key[3] = {constants[i].index, (uint32_t)constants[i].type,
                                 bits_of(&constants[i])};
        hash = hash_bytes(hash, key, sizeof key);
    }
    return hash;
}

static bool is_key(const struct metal_pipeline_entry *entry, const char *kernel,
                   const struct mtl_constant *constants, uint32_t n_constants) {
    if (entry->n_constants != n_constants || strcmp(entry->kernel, kernel) != 0) return false;
    for (uint32_t i = 0; i < n_constants; i++)
        if (entry->constants[i].index != constants[i].index ||
            entry->constants[i].type != constants[i].type ||
            bits_of(&entry->constants[i]) != bits_of(&constants[i]))
            return false;
    return true;
}

static void insert(struct metal_pipeline_entry **table, uint32_t room,
                   struct metal_pipeline_entry *entry) {
    uint32_t at = (uint32_t)entry->hash & (room - 1);
    while (table[at]) at = (at + 1) & (room - 1);
    table[at] = entry;
}

static bool grow(struct metal_device *d) {
    if (2 * d->n_pipelines < d->n_pipelines_room) return true;
    const uint32_t room = d->n_pipelines_room ? 2 * d->n_pipelines_room : 128;
    struct metal_pipeline_entry **table = mem_zalloc(room, sizeof(struct metal_pipeline_entry *));
    if (!table) return false;
    for (uint32_t i = 0; i < d->n_pipelines_room; i++)
        if (d->pipelines[i]) insert(table, room, d->pipelines[i]);
    free(d->pipelines);
    d->pipelines = table;
    d->n_pipelines_room = room;
    return true;
}

static struct metal_pipeline_entry *make(struct metal_device *d, const char *kernel,
                                         const struct mtl_constant *constants, uint32_t n_constants,
                                         struct radish_error *err) {
    struct metal_pipeline_entry *entry = grow(d) ? mem_zalloc(1, sizeof *entry) : NULL;
    if (!entry) {
        (void)error_nomem(err);
        return NULL;
    }
    snprintf(entry->kernel, sizeof entry->kernel, "%s", kernel);
    if (n_constants) memcpy(entry->constants, constants, n_constants * sizeof *constants);
    entry->n_constants = n_constants;
    entry->hash = hash_key(kernel, constants, n_constants);
    if (mtl_pipeline_create(d->mtl, kernel, constants, n_constants, &entry->pipeline, err) !=
        RADISH_OK) {
        free(entry);
        return NULL;
    }
    insert(d->pipelines, d->n_pipelines_room, entry);
    d->n_pipelines++;
    return entry;
}

const struct mtl_pipeline *metal_pipeline(struct metal_device *d, const char *kernel,
                                          const struct mtl_constant *constants,
                                          uint32_t n_constants, char *reason_out,
                                          size_t reason_bytes) {
    RADISH_INVARIANT(n_constants <= METAL_CONSTANTS_MAX && strlen(kernel) < METAL_NAME_BYTES,
                     "%s with %u constants", kernel, n_constants);
    const uint64_t hash = hash_key(kernel, constants, n_constants);
    for (uint32_t at = (uint32_t)hash; d->n_pipelines_room; at++) {
        const struct metal_pipeline_entry *entry = d->pipelines[at & (d->n_pipelines_room - 1)];
        if (!entry) break;
        if (entry->hash == hash && is_key(entry, kernel, constants, n_constants))
            return entry->pipeline;
    }
    RADISH_INVARIANT(!d->recording, "%s with these constants was not made at load", kernel);
    struct radish_error err = {0};
    const struct metal_pipeline_entry *entry = make(d, kernel, constants, n_constants, &err);
    if (!entry && reason_out) snprintf(reason_out, reason_bytes, "%s", err.msg);
    return entry ? entry->pipeline : NULL;
}

void metal_encode_deinit(struct metal_device *d) {
    for (uint32_t i = 0; i < d->n_pipelines_room; i++) {
        if (!d->pipelines[i]) continue;
        mtl_pipeline_destroy(d->pipelines[i]->pipeline);
        free(d->pipelines[i]);
    }
    free(d->pipelines);
    d->pipelines = NULL;
    d->n_pipelines = d->n_pipelines_room = 0;
}

/* ---- a dispatch is collected ---- */

void metal_use(struct metal_device *d, const struct mtl_pipeline *pipeline) {
    RADISH_INVARIANT(d->recording && pipeline, "a dispatch outside of a step, or without kernel");
    d->dispatch.pipeline = pipeline;
    d->dispatch.n_bindings = d->dispatch.n_shared = 0;
    d->dispatch.args_bytes = 0;
}

static void bind(struct metal_device *d, enum metal_binding_kind kind, uint32_t index,
                 const void *address, size_t bytes) {
    struct metal_dispatch *p = &d->dispatch;
    RADISH_INVARIANT(index < MTL_BINDINGS && p->n_bindings < MTL_BINDINGS, "binding %u", index);
    p->bindings[p->n_bindings++] = (struct metal_binding){kind, index, address, bytes};
}

void metal_read(struct metal_device *d, uint32_t index, const void *address, size_t bytes) {
    bind(d, METAL_BINDING_READ, index, address, bytes);
}

void metal_write(struct metal_device *d, uint32_t index, void *address, size_t bytes) {
    bind(d, METAL_BINDING_WRITE, index, address, bytes);
}

void metal_args(struct metal_device *d, uint32_t index, const void *args, size_t bytes) {
    struct metal_dispatch *p = &d->dispatch;
    RADISH_INVARIANT(bytes && bytes <= MTL_BYTES_MAX && bytes <= METAL_ARGS_ROOM - p->args_bytes,
                     "%zu bytes of arguments", bytes);
    uint8_t *copy = p->args_room + p->args_bytes;
    memcpy(copy, args, bytes);
    p->args_bytes += (bytes + 15) / 16 * 16;
    bind(d, METAL_BINDING_BYTES, index, copy, bytes);
}

void metal_shared(struct metal_device *d, uint32_t index, size_t bytes) {
    struct metal_dispatch *p = &d->dispatch;
    RADISH_INVARIANT(p->n_shared < 4 && bytes && bytes <= MTL_SHARED_MAX,
                     "%zu bytes of threadgroup memory", bytes);
    p->shared_index[p->n_shared] = index;
    p->shared_bytes[p->n_shared++] = (uint32_t)bytes;
}

/* ---- barriers ---- */

static bool has_conflict(const struct metal_device *d, const struct metal_binding *b) {
    for (uint32_t i = 0; i < d->n_hazards; i++) {
        const struct metal_hazard *h = &d->hazards[i];
        if (b->address < h->end && h->begin < b->address + b->bytes &&
            (h->is_write || b->kind == METAL_BINDING_WRITE))
            return true;
    }
    return false;
}

/* Keeps what is touched; a range that is there already, once. */
static void note(struct metal_device *d, const struct metal_binding *b) {
    const struct metal_hazard hazard = {b->address, b->address + b->bytes,
                                        b->kind == METAL_BINDING_WRITE};
    for (uint32_t i = 0; i < d->n_hazards; i++) {
        const struct metal_hazard *h = &d->hazards[i];
        if (h->begin <= hazard.begin && hazard.end <= h->end && h->is_write == hazard.is_write)
            return;
    }
    d->hazards[d->n_hazards++] = hazard;
}

static void put_barrier(struct metal_device *d, struct mtl_commands *commands) {
    const struct metal_dispatch *p = &d->dispatch;
    bool has_one = d->n_hazards + p->n_bindings > METAL_HAZARDS_MAX;
    for (uint32_t i = 0; i < p->n_bindings && !has_one; i++)
        has_one = p->bindings[i].kind != METAL_BINDING_BYTES && has_conflict(d, &p->bindings[i]);
    if (has_one) {
        mtl_barrier(commands);
        d->n_barriers++;
        d->n_hazards = 0;
    }
    for (uint32_t i = 0; i < p->n_bindings; i++)
        if (p->bindings[i].kind != METAL_BINDING_BYTES) note(d, &p->bindings[i]);
}

/* ---- and sent ---- */

static void send_bindings(struct metal_device *d, struct mtl_commands *commands) {
    const struct metal_dispatch *p = &d->dispatch;
    for (uint32_t i = 0; i < p->n_bindings; i++) {
        const struct metal_binding *b = &p->bindings[i];
        if (b->kind == METAL_BINDING_BYTES) {
            mtl_bind_bytes(commands, b->index, b->address, b->bytes);
            continue;
        }
        const struct metal_region *region = metal_find_region(d, b->address, b->bytes);
        RADISH_INVARIANT(region, "binding %u: %zu bytes at %p are in no buffer", b->index, b->bytes,
                         (const void *)b->address);
        mtl_bind(commands, b->index, region->buffer, (size_t)(b->address - region->base));
    }
    for (uint32_t i = 0; i < p->n_shared; i++)
        mtl_bind_shared(commands, p->shared_index[i], p->shared_bytes[i]);
}

typedef void (*dispatch_fn)(struct mtl_commands *commands, const uint32_t grid[3],
                            const uint32_t group[3]);

static void run(struct metal_device *d, dispatch_fn dispatch, const uint32_t grid[3],
                const uint32_t group[3]) {
    RADISH_INVARIANT(group[0] && group[1] && group[2] &&
                         (uint64_t)group[0] * group[1] * group[2] <=
                             mtl_pipeline_threads_max(d->dispatch.pipeline),
                     "a threadgroup of %u x %u x %u", group[0], group[1], group[2]);
    if (!grid[0] || !grid[1] || !grid[2]) return;
    struct mtl_commands *commands = metal_step_commands(d);
    if (!commands) return;
    put_barrier(d, commands);
    mtl_use(commands, d->dispatch.pipeline);
    send_bindings(d, commands);
    dispatch(commands, grid, group);
    d->n_dispatches++;
}

void metal_run_threads(struct metal_device *d, const uint32_t grid[3], const uint32_t group[3]) {
    run(d, mtl_dispatch_threads, grid, group);
}

void metal_run_groups(struct metal_device *d, const uint32_t n_groups[3], const uint32_t group[3]) {
    run(d, mtl_dispatch_groups, n_groups, group);
}
