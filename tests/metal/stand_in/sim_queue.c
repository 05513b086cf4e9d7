/* sim_queue.c - runs what has been committed, on a thread of the queue's own, as unkindly as Metal
 * allows.
 *
 *   commands 1: [d1 d2 | d3 d4 d5] f     commands 2: f [d6 | d7]
 *
 * Between two barriers (|) of a concurrent encoder dispatches are run last first: d2 d1 d5 d4 d3.
 * A dispatch that needs one before it without a barrier finds what was there before. Command
 * buffers run one after another here; on a GPU they may overlap unless a fence (f) or the host's
 * wait orders them, so their accesses are compared all the same.
 *
 * Hazards. What is compared is, first, bindings: two dispatches that may run at once, both of which
 * bind the same buffer at the same offset, one of them to write. (A binding has no length in Metal,
 * so those of other offsets in the same buffer are other things, as far as one can see here.)
 * Second, where the kernels were compiled to report their loads and stores, every access
 * (sim_trace.c). */
#include "sim_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STATUS_COMPLETED = 4, STATUS_ERROR = 5, CODE_INTERNAL = 1 };

struct sim_access {
    uint64_t seq, serial; /* the dispatch; the buffer's serial number */
    size_t offset;
    bool is_write;
    const char *kernel;
};

static _Atomic uint64_t n_dispatches = 1; /* over all queues: the next one's seq */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- hazards of bindings ---- */

static void remember(struct sim_queue *q, const struct sim_dispatch *d, uint32_t binding) {
    if (q->n_history == q->history_capacity) {
        q->history_capacity = q->history_capacity ? 2 * q->history_capacity : 1024;
        q->history = realloc(q->history, q->history_capacity * sizeof *q->history);
        if (!q->history) abort();
    }
    const struct sim_binding *b = &d->bindings[binding];
    q->history[q->n_history++] = (struct sim_access){
        .seq = d->seq,
        .serial = b->serial,
        .offset = b->offset,
        .is_write = !d->pipeline->kernel->bindings[binding].is_read_only,
        .kernel = d->pipeline->kernel->name,
    };
}

static void compare(struct sim_queue *q, const struct sim_dispatch *d, uint32_t binding,
                    const struct sim_region *region) {
    const struct sim_binding *b = &d->bindings[binding];
    const bool is_write = !d->pipeline->kernel->bindings[binding].is_read_only;
    for (size_t i = 0; i < q->n_history; i++) {
        const struct sim_access *a = &q->history[i];
        if (a->serial != b->serial || a->offset != b->offset || !(a->is_write || is_write) ||
            !sim_is_concurrent(region, a->seq, d->seq))
            continue;
        sim_hazard("%s %s, and %s %s at %u (%s), and nothing orders them", a->kernel,
                   a->is_write ? "writes" : "reads", d->pipeline->kernel->name,
                   is_write ? "writes" : "reads", d->pipeline->kernel->bindings[binding].index,
                   d->pipeline->kernel->bindings[binding].name);
        return;
    }
}

static void find_hazards(struct sim_queue *q, const struct sim_dispatch *d,
                         const struct sim_region *region) {
    for (uint32_t i = 0; i < d->n_bindings; i++)
        if (d->bindings[i].buffer) compare(q, d, i, region);
    for (uint32_t i = 0; i < d->n_bindings; i++)
        if (d->bindings[i].buffer) remember(q, d, i);
}

static void forget(struct sim_queue *q, uint64_t below) {
    size_t n = 0;
    for (size_t i = 0; i < q->n_history; i++)
        if (q->history[i].seq >= below) q->history[n++] = q->history[i];
    q->n_history = n;
}

/* ---- running ---- */

static bool run_one(const struct sim_dispatch *d, char *fault_out, size_t fault_bytes) {
    struct msl_run run = {
        .kernel = d->pipeline->kernel,
        .constants = d->pipeline->constants,
        .n_constants = d->pipeline->n_constants,
        .is_by_threads = d->is_by_threads,
    };
    memcpy(run.grid, d->grid, sizeof run.grid);
    memcpy(run.group, d->group, sizeof run.group);
    memcpy(run.shared_bytes, d->shared_bytes, sizeof run.shared_bytes);
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        const struct sim_binding *b = &d->bindings[i];
        const uint32_t index = run.kernel->bindings[i].index;
        if (b->buffer && !sim_is_alive(b->buffer, b->serial)) {
            snprintf(fault_out, fault_bytes, "%s: the buffer at %u (%s) was released",
                     run.kernel->name, index, run.kernel->bindings[i].name);
            sim_fault("%s", fault_out);
            return false;
        }
        if (b->buffer)
            run.buffers[index] = b->buffer->data + b->offset;
        else if (b->bytes)
            run.buffers[index] = b->bytes;
    }
    return msl_run(&run, fault_out, fault_bytes);
}

static bool fail(struct sim_commands *c, NSInteger code, const char *text) {
    c->status = STATUS_ERROR;
    c->error_code = code;
    snprintf(c->error_text, sizeof c->error_text, "%s", text);
    return false;
}

static bool run_region(struct sim_queue *q, struct sim_commands *c, size_t from, size_t to) {
    if (from == to) return true;
    struct sim_region region = {c->dispatches[from].seq, c->dispatches[to - 1].seq + 1,
                                c->other_first, c->first_seq};
    const bool is_in_order = c->is_serial || sim_settings()->is_forward;
    for (size_t n = 0; n < to - from; n++) {
        const struct sim_dispatch *d = &c->dispatches[is_in_order ? from + n : to - 1 - n];
        char fault[256] = "";
        if (d->is_broken) return fail(c, CODE_INTERNAL, "a dispatch was not to be run");
        if (!sim_is_alive(d->pipeline, d->pipeline_serial)) {
            sim_fault("dispatch of a pipeline that was released");
            return fail(c, CODE_INTERNAL, "no pipeline");
        }
        if (c->is_serial) region.first = d->seq, region.end = d->seq + 1;
        find_hazards(q, d, &region);
        sim_trace_begin(d, &region);
        const bool has_run = run_one(d, fault, sizeof fault);
        sim_trace_end();
        if (!has_run) {
            sim_fault("%s", fault);
            return fail(c, CODE_INTERNAL, fault);
        }
        sim_counters.dispatches++;
    }
    return true;
}

static bool is_to_fail(const struct sim_commands *c) {
    const struct sim_settings *s = sim_settings();
    const uint64_t n = c->n_of_reset;
    return s->fail_at && n >= s->fail_at && (!s->fail_times || n < s->fail_at + s->fail_times);
}

static const char *text_of(uint64_t code) {
    switch (code) {
    case 2: return "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)";
    case 8: return "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)";
    case 14:
        return "Impacting Interactivity "
               "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)";
    default: return "Internal Error (00000001:Internal Error)";
    }
}

/* One that is to fail stops half way: what it has written until then is there, as on a GPU. */
static void run_commands(struct sim_queue *q, struct sim_commands *c) {
    const bool fails = is_to_fail(c);
    const size_t n = fails ? c->n_dispatches / 2 : c->n_dispatches;
    forget(q, c->host_seen);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && !c->dispatches[end].is_barrier) end++;
        if (!run_region(q, c, i, end)) return;
        i = end + 1;
    }
    if (fails)
        fail(c, (NSInteger)sim_settings()->fail_code, text_of(sim_settings()->fail_code));
    else
        c->status = STATUS_COMPLETED;
}

static void delay(struct sim_queue *q) {
    const struct sim_settings *s = sim_settings();
    if (!s->delay_us) return;
    uint64_t us = s->delay_us;
    if (s->jitter) {
        q->rng = q->rng * 6364136223846793005u + 1442695040888963407u + s->jitter;
        us = (q->rng >> 33) % (2 * us + 1);
    }
    const struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    nanosleep(&t, NULL);
}

static void *serve(void *argument) {
    struct sim_queue *q = argument;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->first && !q->is_closing) pthread_cond_wait(&q->changed, &q->lock);
        struct sim_commands *c = q->first;
        if (!c) break;
        pthread_mutex_unlock(&q->lock);
        delay(q);
        c->start = now();
        run_commands(q, c);
        sim_commands_clear(c);
        c->end = now();
        pthread_mutex_lock(&q->lock);
        q->first = c->next;
        if (!q->first) q->last = NULL;
        c->is_done = true;
        pthread_cond_broadcast(&q->changed);
        sim_release(&c->base); /* before whoever waits goes on, and counts objects */
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- what commands ask of it ---- */

static void drop_queue(struct sim_object *o) {
    struct sim_queue *q = (void *)o;
    pthread_mutex_lock(&q->lock);
    if (q->first) sim_fault("the queue is released while command buffers run");
    q->is_closing = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    free(q->history);
}

void *sim_queue_make(void) {
    struct sim_queue *q = sim_make(SIM_MTLCommandQueue, sizeof *q, drop_queue);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->host_seen = n_dispatches; /* nothing of this queue's is running */
    if (pthread_create(&q->thread, NULL, serve, q)) abort();
    return q;
}

void sim_queue_commit(struct sim_queue *q, struct sim_commands *c) {
    pthread_mutex_lock(&q->lock);
    c->n_of_reset = ++sim_counters.commands;
    c->first_seq = n_dispatches;
    for (size_t i = 0; i < c->n_dispatches; i++)
        if (!c->dispatches[i].is_barrier) c->dispatches[i].seq = n_dispatches++;
    c->end_seq = n_dispatches;
    c->host_seen = c->other_first = q->host_seen;
    if (c->wait_fence && c->wait_fence->is_updated && c->wait_fence->seq > c->other_first)
        c->other_first = c->wait_fence->seq;
    /* A fence speaks for what came before its updater only if that waited for it in turn. */
    if (c->update_fence && c->other_first == c->first_seq) {
        c->update_fence->is_updated = true;
        c->update_fence->seq = n_dispatches;
    }
    sim_retain(&c->base);
    if (q->last)
        q->last->next = c;
    else
        q->first = c;
    q->last = c;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void sim_queue_wait(struct sim_queue *q, struct sim_commands *c) {
    pthread_mutex_lock(&q->lock);
    while (!c->is_done) pthread_cond_wait(&q->changed, &q->lock);
    if (c->end_seq > q->host_seen) q->host_seen = c->end_seq;
    pthread_mutex_unlock(&q->lock);
}
