/* sim_trace.c - hazards of single accesses.
 *
 * Kernels of the variant `traced` (tests/metal/shim/msl-cc) tell of each load and store. Of those
 * that fall into a bound buffer a shadow keeps, for every two bytes, which dispatch wrote last and
 * which read last (or that there were several). An access that meets another dispatch's, one of the
 * two a write, while both may run at once (struct sim_region), is a hazard: whatever the host has
 * said about what it reads and writes, this is what the kernels do.
 *
 * Dispatches are numbered in the order of commits, so nothing is ever cleared: an entry of an
 * earlier region is simply too old. Cost: some ten times the time of a kernel that does little
 * else; four bytes of shadow for each byte touched. */
#include "sim_int.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { GRANULE_BYTES = 2 };
#define SEVERAL 0x80000000u

/* Two words for each granule: the last writer, the last reader | SEVERAL. */
struct mapped {
    uintptr_t from, to;
    _Atomic uint32_t *shadow;
    const struct msl_binding *binding;
};

static struct {
    struct mapped mapped[MSL_BINDINGS];
    uint32_t n_mapped;
    const struct sim_dispatch *dispatch;
    struct sim_region region;
    atomic_bool has_hazard; /* one is told of for each dispatch */
} now_running;
static atomic_bool is_on;

static void see(const void *at, size_t n, bool is_write);

static size_t shadow_bytes(const struct sim_buffer *b) {
    return (b->bytes / GRANULE_BYTES + 1) * 2 * sizeof(uint32_t);
}

void sim_trace_begin(const struct sim_dispatch *d, const struct sim_region *region) {
    now_running.n_mapped = 0;
    now_running.dispatch = d;
    now_running.region = *region;
    now_running.has_hazard = false;
    msl_tracer = see;
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        struct sim_buffer *b = d->bindings[i].buffer;
        if (!b || !sim_is_alive(b, d->bindings[i].serial)) continue;
        if (!b->shadow) {
            void *shadow = mmap(NULL, shadow_bytes(b), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (shadow == MAP_FAILED) continue;
            b->shadow = shadow;
        }
        const uintptr_t from = (uintptr_t)b->data;
        now_running.mapped[now_running.n_mapped++] =
            (struct mapped){from, from + b->bytes, (_Atomic uint32_t *)b->shadow,
                            &d->pipeline->kernel->bindings[i]};
    }
}

void sim_trace_end(void) {
    now_running.n_mapped = 0;
    now_running.dispatch = NULL;
}

bool sim_trace_is_on(void) {
    return is_on;
}

void sim_trace_drop(struct sim_buffer *b) {
    if (b->shadow) munmap(b->shadow, shadow_bytes(b));
    b->shadow = NULL;
}

static void tell(const struct mapped *m, uintptr_t at, const char *self, const char *other) {
    if (atomic_exchange(&now_running.has_hazard, true)) return;
    sim_hazard("%s %s byte %lu of the buffer at %u (%s), which another dispatch %s, and nothing "
               "orders them",
               now_running.dispatch->pipeline->kernel->name, self, at - m->from, m->binding->index,
               m->binding->name, other);
}

static void touch_granule(const struct mapped *m, uintptr_t at, bool is_write) {
    const struct sim_region *region = &now_running.region;
    const uint32_t self = (uint32_t)now_running.dispatch->seq;
    _Atomic uint32_t *const entry = &m->shadow[(at - m->from) / GRANULE_BYTES * 2];
    const uint32_t writer = atomic_load_explicit(&entry[0], memory_order_relaxed);
    const uint32_t readers = atomic_load_explicit(&entry[1], memory_order_relaxed);
    const uint32_t reader = readers & ~SEVERAL;
    const bool is_read_by_others =
        sim_is_concurrent(region, reader, self) || (readers & SEVERAL && reader == self);
    if (writer && sim_is_concurrent(region, writer, self))
        tell(m, at, is_write ? "writes" : "reads", "writes");
    if (is_write) {
        if (reader && is_read_by_others) tell(m, at, "writes", "reads");
        atomic_store_explicit(&entry[0], self, memory_order_relaxed);
    } else if (reader != self) {
        atomic_store_explicit(&entry[1], self | (reader && is_read_by_others ? SEVERAL : 0),
                              memory_order_relaxed);
    }
}

static void touch(uintptr_t at, size_t n, bool is_write) {
    for (uint32_t i = 0; i < now_running.n_mapped; i++) {
        const struct mapped *m = &now_running.mapped[i];
        if (at < m->from || at >= m->to) continue;
        for (size_t k = 0; k < n && at + k < m->to; k += GRANULE_BYTES)
            touch_granule(m, at + k, is_write);
        return;
    }
}

/* What traced kernels call (msl_rt.h). */
static void see(const void *at, size_t n, bool is_write) {
    if (!now_running.n_mapped) return;
    if (!atomic_load_explicit(&is_on, memory_order_relaxed)) is_on = true;
    touch((uintptr_t)at, n, is_write);
}
