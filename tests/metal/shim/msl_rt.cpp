/* msl_rt.cpp - kernels found, checked and run.
 *
 * A threadgroup whose threads meet is a set of fibers on one OS thread. They run one after another,
 * each until it meets others or ends; what they meet at decides who goes on:
 *
 *   SIMD-group function   those of the SIMD-group that wait at the same place, once nobody of it
 *                         can run; where places differ, the first in the source, so that the two
 *                         ways of a branch have run when they join
 *   simdgroup_barrier     all 32, else a fault
 *   threadgroup_barrier   all of the threadgroup at the same place, else a fault
 *
 * A SIMD-group runs until all of it waits at a barrier before the next one does: together with the
 * order (forward, reverse, shuffled) that shows a barrier that is missing, as memory of the
 * threadgroup begins as NaN. Kernels whose threads never meet are called in a loop.
 *
 * Function constants are plain variables of the library, written before each run under a lock: so
 * pipelines of one kernel with different constants live side by side. OS threads take threadgroups
 * from a counter and are kept from run to run. What is wrong ends the run and is counted. */
#include "msl_rt.h"

#include "msl_core.h"

#include "msl_fiber.h"
#include "msl_math.h"
#include "msl_race.h"
#include "msl_simd.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

/* AddressSanitizer's frames are several times as large. */
constexpr size_t STACK_BYTES = 256 * 1024;
constexpr unsigned WORKERS_MAX = 16;

struct Kernel {
    msl_kernel head;
    msl::Thunk thunk;
    const void *const *uses;
    bool is_meeting;
    std::atomic<uint32_t> static_bytes{0};
    Kernel(const msl_kernel &h, msl::Thunk t, const void *const *u, bool m)
        : head(h), thunk(t), uses(u), is_meeting(m) {}
};

struct Value {
    const char *name, *file;
    uint32_t index;
    void *at;
    size_t bytes;
    msl_type type;
    bool is_set;
};

/* Function-local: registered by constructors of other files, in no order. */
std::vector<Kernel *> &kernels() {
    static std::vector<Kernel *> v;
    return v;
}
std::vector<Value> &values() {
    static std::vector<Value> v;
    return v;
}

enum class State { RUNS, SIMD, SIMD_BARRIER, BARRIER, ENDED };

struct Thread {
    msl::Fiber fiber;
    msl::Lane lane;
    State state;
    msl::Operation op;
    bool is_ordering; /* of a barrier: with mem_threadgroup */
    msl::Site site;
    size_t n_brought;
    unsigned char brought[msl::MEET_BYTES];
};

/* Threadgroup memory of a variable inside of a kernel. */
struct Shared {
    const void *key;
    void *at;
    size_t bytes;
};

enum class Order { FORWARD, REVERSE, SHUFFLE };

struct Options {
    Order order;
    uint32_t seed;
    bool is_flushing;
    unsigned n_workers;
};

struct Job {
    const Kernel *kernel;
    const struct msl_run *run;
    Options options;
    uint32_t n_groups[3], n_threads[3];
    uint64_t n_groups_all;
    std::atomic<uint64_t> next;
    std::atomic<bool> is_bad;
    std::mutex lock; /* of fault */
    char fault[256];
};

struct Worker {
    msl::Fiber main;
    std::vector<Thread> threads;    /* [n_threads] grown to the largest threadgroup */
    std::vector<msl::Meeting> simd; /* [n_threads / 32] */
    std::vector<uint32_t> order;    /* of threads; SIMD-groups stay together */
    std::vector<Shared> variables;
    msl::Races races; /* has regions in the variant `traced` only */
    msl::Arguments arguments;
    Job *job;
    char *stacks;
    size_t n_stacks;
    uint32_t n_threads, current;
    uint64_t group;
    std::thread thread; /* all but the first */
};

thread_local Worker *self;
std::atomic<unsigned> n_faults;
std::mutex run_lock;
bool is_fast_trig;

void say(Job &job, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say(Job &job, const char *format, ...) {
    std::lock_guard<std::mutex> hold(job.lock);
    if (job.is_bad.exchange(true)) return; /* the first is the one that matters */
    int n = snprintf(job.fault, sizeof job.fault, "%s: ", job.kernel->head.name);
    va_list args;
    va_start(args, format);
    vsnprintf(job.fault + n, sizeof job.fault - (size_t)n, format, args);
    va_end(args);
}

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

uint32_t shuffle_next(uint32_t &s) {
    s ^= s << 13;
    s ^= s >> 17;
    s ^= s << 5;
    return s;
}

void shuffle(uint32_t *at, uint32_t n, uint32_t &s) {
    for (uint32_t i = n; i > 1; i--) std::swap(at[i - 1], at[shuffle_next(s) % i]);
}

/* ---- a threadgroup of fibers ---- */

void enter() {
    msl::fiber_entered(self->main);
    Worker *w = self;
    w->job->kernel->thunk(w->arguments, w->threads[w->current].lane);
    w->threads[w->current].state = State::ENDED;
    msl::fiber_switch(w->threads[w->current].fiber, w->main, /*is_last=*/true);
    abort();
}

void wait_at(State state, msl::Site site) {
    Thread &t = self->threads[self->current];
    t.state = state;
    t.site = site;
    msl::fiber_switch(t.fiber, self->main, /*is_last=*/false);
}

void resume(Worker &w, uint32_t i) {
    w.current = i;
    msl::fiber_switch(w.main, w.threads[i].fiber, /*is_last=*/false);
}

bool is_before(const msl::Site &a, const msl::Site &b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
}

bool is_same(const Thread &a, const Thread &b) {
    if (a.state != b.state || a.op != b.op || a.site.line != b.site.line ||
        a.site.column != b.site.column)
        return false;
    return a.site.file == b.site.file || strcmp(a.site.file, b.site.file) == 0;
}

/* Lets those of threads [from, to) that wait at the first place of a SIMD-group go on. False:
 * nobody waits at one, or a fault. */
bool release_simd(Worker &w, uint32_t from, uint32_t to) {
    const Thread *first = nullptr;
    for (uint32_t i = from; i < to; i++) {
        const Thread &t = w.threads[i];
        if ((t.state == State::SIMD || t.state == State::SIMD_BARRIER) &&
            (!first || is_before(t.site, first->site)))
            first = &t;
    }
    if (!first) return false;
    msl::Meeting &m = w.simd[from / msl::SIMD_WIDTH];
    m.mask = 0;
    m.has_result = false;
    uint32_t n = 0, n_needed = first->op == msl::OP_MATRIX ? 32 : to - from;
    for (uint32_t i = from; i < to; i++) {
        const Thread &t = w.threads[i];
        if (!is_same(t, *first)) continue;
        memcpy(m.brought[i - from], t.brought, t.n_brought);
        m.mask |= 1u << (i - from);
        n++;
    }
    bool needs_all = first->state == State::SIMD_BARRIER || first->op == msl::OP_MATRIX;
    if (needs_all && n != n_needed) {
        say(*w.job, "%s at %s:%d reached by %u of %u threads of a SIMD-group",
            first->op == msl::OP_MATRIX ? "a product of matrices" : "simdgroup_barrier",
            base_name(first->site.file), first->site.line, n, n_needed);
        return false;
    }
    if (first->state == State::SIMD_BARRIER && first->is_ordering)
        w.races.simd_barrier(from / msl::SIMD_WIDTH);
    for (uint32_t i = from; i < to; i++)
        if (m.mask >> (i - from) & 1) w.threads[i].state = State::RUNS;
    return true;
}

/* Runs a SIMD-group until all of it waits at a barrier or has ended. */
void run_simd(Worker &w, uint32_t from, uint32_t to) {
    do
        for (uint32_t i = from; i < to; i++)
            if (w.threads[w.order[i]].state == State::RUNS) resume(w, w.order[i]);
    while (release_simd(w, from, to));
}

/* Whether all have met at a barrier and go on; false: all have ended, or a fault. */
bool release_barrier(Worker &w) {
    uint32_t n_ended = 0, n_there = 0;
    const Thread *first = nullptr;
    for (uint32_t i = 0; i < w.n_threads; i++) {
        const Thread &t = w.threads[i];
        n_ended += t.state == State::ENDED;
        if (t.state == State::BARRIER && !first) first = &t;
        n_there += first && is_same(t, *first);
    }
    if (!first) return false;
    if (n_there != w.n_threads) {
        say(*w.job, "threadgroup_barrier at %s:%d reached by %u of %u threads (%u have ended)",
            base_name(first->site.file), first->site.line, n_there, w.n_threads, n_ended);
        return false;
    }
    if (first->is_ordering) w.races.barrier();
    for (uint32_t i = 0; i < w.n_threads; i++) w.threads[i].state = State::RUNS;
    return true;
}

/* Order[i] for the threads of SIMD-group s is in [32 s, 32 s + 32); groups gives the order of
 * SIMD-groups. */
void order_threads(Worker &w, std::vector<uint32_t> &groups) {
    uint32_t n = w.n_threads, n_groups = (uint32_t)groups.size();
    uint32_t seed = (w.job->options.seed + 1) * 2654435761u + (uint32_t)w.group;
    Order order = w.job->options.order;
    if (!seed) seed = 1;
    for (uint32_t g = 0; g < n_groups; g++) {
        uint32_t from = g * msl::SIMD_WIDTH;
        uint32_t m = n - from < msl::SIMD_WIDTH ? n - from : (uint32_t)msl::SIMD_WIDTH;
        groups[g] = order == Order::REVERSE ? n_groups - 1 - g : g;
        for (uint32_t i = 0; i < m; i++)
            w.order[from + i] = from + (order == Order::REVERSE ? m - 1 - i : i);
        if (order == Order::SHUFFLE) shuffle(&w.order[from], m, seed);
    }
    if (order == Order::SHUFFLE) shuffle(groups.data(), n_groups, seed);
}

void run_fibers(Worker &w) {
    uint32_t n = w.n_threads;
    static thread_local std::vector<uint32_t> groups;
    groups.resize((n + msl::SIMD_WIDTH - 1) / msl::SIMD_WIDTH);
    order_threads(w, groups);
    for (uint32_t i = 0; i < n; i++) {
        Thread &t = w.threads[i];
        /* Stacks that began at multiples of a power of two would share a few lines of the cache. */
        t.fiber.stack = w.stacks + i * STACK_BYTES;
        t.fiber.stack_bytes = STACK_BYTES - i % 48 * 1088;
        t.state = State::RUNS;
        t.site = {"", 0, 0};
        msl::fiber_start(t.fiber, enter);
    }
    do
        for (uint32_t g : groups) {
            uint32_t from = g * msl::SIMD_WIDTH, to = from + msl::SIMD_WIDTH;
            run_simd(w, from, to < n ? to : n);
            if (w.job->is_bad) return;
        }
    while (release_barrier(w));
}

void run_loop(Worker &w) {
    uint32_t n = w.n_threads;
    static thread_local std::vector<uint32_t> all;
    all.resize(n);
    Order order = w.job->options.order;
    for (uint32_t i = 0; i < n; i++) all[i] = order == Order::REVERSE ? n - 1 - i : i;
    uint32_t seed = (w.job->options.seed + 1) * 2654435761u + (uint32_t)w.group;
    if (!seed) seed = 1;
    if (order == Order::SHUFFLE) shuffle(all.data(), n, seed);
    for (uint32_t i : all) {
        w.current = i;
        w.job->kernel->thunk(w.arguments, w.threads[i].lane);
    }
}

/* ---- a worker's threadgroups ---- */

void reserve(Worker &w, uint32_t n_threads) {
    if (w.threads.size() < n_threads) w.threads.resize(n_threads);
    if (w.order.size() < n_threads) w.order.resize(n_threads);
    uint32_t n_simd = (n_threads + msl::SIMD_WIDTH - 1) / msl::SIMD_WIDTH;
    if (w.simd.size() < n_simd) w.simd.resize(n_simd);
    if (w.n_stacks >= n_threads) return;
    if (w.stacks) munmap(w.stacks, w.n_stacks * STACK_BYTES);
    void *at = mmap(nullptr, n_threads * STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    w.stacks = static_cast<char *>(at);
    w.n_stacks = n_threads;
    /* What grows past a stack finds a page that is not there. */
    for (uint32_t i = 0; i < n_threads; i++) mprotect(w.stacks + i * STACK_BYTES, 4096, PROT_NONE);
}

/* What thread i of group g, of size[] threads, is told. */
void place(msl::Lane &lane, const Job &job, const uint32_t g[3], const uint32_t size[3],
           uint32_t i) {
    uint32_t n = size[0] * size[1] * size[2];
    uint32_t p[3] = {i % size[0], i / size[0] % size[1], i / size[0] / size[1]};
    for (int d = 0; d < 3; d++) {
        lane.thread_position_in_threadgroup[d] = p[d];
        lane.threadgroup_position_in_grid[d] = g[d];
        lane.thread_position_in_grid[d] = g[d] * job.run->group[d] + p[d];
        lane.threads_per_threadgroup[d] = size[d];
        lane.dispatch_threads_per_threadgroup[d] = job.run->group[d];
        lane.threadgroups_per_grid[d] = job.n_groups[d];
        lane.threads_per_grid[d] = job.n_threads[d];
        lane.thread_index_in_threadgroup[d] = i;
        lane.thread_index_in_simdgroup[d] = i % msl::SIMD_WIDTH;
        lane.simdgroup_index_in_threadgroup[d] = i / msl::SIMD_WIDTH;
        lane.simdgroups_per_threadgroup[d] = (n + msl::SIMD_WIDTH - 1) / msl::SIMD_WIDTH;
        lane.threads_per_simdgroup[d] = msl::SIMD_WIDTH;
    }
}

void run_group(Worker &w, uint64_t index) {
    const Job &job = *w.job;
    uint32_t g[3] = {(uint32_t)(index % job.n_groups[0]),
                     (uint32_t)(index / job.n_groups[0] % job.n_groups[1]),
                     (uint32_t)(index / job.n_groups[0] / job.n_groups[1])};
    uint32_t size[3];
    for (int d = 0; d < 3; d++) {
        uint32_t left = job.n_threads[d] - g[d] * job.run->group[d];
        size[d] = left < job.run->group[d] ? left : job.run->group[d];
    }
    w.group = index;
    w.n_threads = size[0] * size[1] * size[2];
    for (uint32_t i = 0; i < w.n_threads; i++) place(w.threads[i].lane, job, g, size, i);
    for (uint32_t s = 0; s < MSL_BINDINGS; s++)
        if (w.arguments.shared[s]) memset(w.arguments.shared[s], 0xff, job.run->shared_bytes[s]);
    for (Shared &v : w.variables) memset(v.at, 0xff, v.bytes);
    w.races.begin_group((w.n_threads + msl::SIMD_WIDTH - 1) / msl::SIMD_WIDTH);
    if (job.kernel->is_meeting)
        run_fibers(w);
    else
        run_loop(w);
}

void set_flush(bool is_flushing) {
#if defined(__x86_64__)
    unsigned bits = 0x8040; /* flush to zero, denormals are zero */
    _mm_setcsr(is_flushing ? _mm_getcsr() | bits : _mm_getcsr() & ~bits);
#elif defined(__aarch64__)
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    fpcr = is_flushing ? fpcr | 1ul << 24 : fpcr & ~(1ul << 24);
    asm volatile("msr fpcr, %0" : : "r"(fpcr));
#else
    (void)is_flushing;
#endif
}

/* Takes threadgroups until there are none. */
void work(Worker &w, Job &job) {
    const struct msl_run &run = *job.run;
    self = &w;
    w.job = &job;
    reserve(w, run.group[0] * run.group[1] * run.group[2]);
    w.arguments = {};
    for (uint32_t i = 0; i < MSL_BINDINGS; i++) {
        w.arguments.buffers[i] = run.buffers[i];
        if (run.shared_bytes[i])
            w.arguments.shared[i] = aligned_alloc(16, (run.shared_bytes[i] + 15u) & ~15u);
    }
    set_flush(job.options.is_flushing);
    for (uint64_t n; !job.is_bad && (n = job.next++) < job.n_groups_all;) {
        bool is_reverse = job.options.order == Order::REVERSE;
        run_group(w, is_reverse ? job.n_groups_all - 1 - n : n);
    }
    set_flush(false);
    for (Shared &v : w.variables) free(v.at);
    w.variables.clear();
    w.races.clear();
    for (uint32_t i = 0; i < MSL_BINDINGS; i++) free(w.arguments.shared[i]);
    self = nullptr;
}

/* ---- OS threads, kept ---- */

struct Pool {
    std::mutex lock;
    std::condition_variable wake, done;
    Job *job;
    uint64_t n_jobs;   /* given out */
    unsigned n_wanted; /* workers of this job, the caller among them */
    unsigned n_running;
    Worker workers[WORKERS_MAX];
    unsigned n_started = 1;
};

/* Never destroyed: its threads wait until the process ends. */
Pool &pool() {
    static Pool *p = new Pool();
    return *p;
}

void serve(Pool &p, unsigned me) {
    uint64_t n_seen = 0;
    for (;;) {
        std::unique_lock<std::mutex> hold(p.lock);
        p.wake.wait(hold, [&] { return p.n_jobs != n_seen; });
        n_seen = p.n_jobs;
        if (me >= p.n_wanted) continue;
        Job *job = p.job;
        hold.unlock();
        work(p.workers[me], *job);
        hold.lock();
        if (--p.n_running == 0) p.done.notify_one();
    }
}

void run_job(Job &job) {
    Pool &p = pool();
    uint64_t n_threads =
        job.n_groups_all * job.run->group[0] * job.run->group[1] * job.run->group[2];
    unsigned n = job.options.n_workers;
    if (n > job.n_groups_all) n = (unsigned)job.n_groups_all;
    if (n_threads < 256) n = 1; /* waking somebody takes longer */
    if (n > 1) {
        std::lock_guard<std::mutex> hold(p.lock);
        for (; p.n_started < n; p.n_started++) {
            unsigned me = p.n_started;
            p.workers[me].thread = std::thread([&p, me] { serve(p, me); });
            p.workers[me].thread.detach();
        }
        p.job = &job;
        p.n_wanted = n;
        p.n_running = n - 1;
        p.n_jobs++;
        p.wake.notify_all();
    }
    work(p.workers[0], job);
    if (n > 1) {
        std::unique_lock<std::mutex> hold(p.lock);
        p.done.wait(hold, [&] { return p.n_running == 0; });
        p.n_wanted = 0;
    }
}

/* ---- checks ---- */

const Kernel *kernel_of(const msl_kernel *head) {
    for (Kernel *k : kernels())
        if (&k->head == head) return k;
    return nullptr;
}

const char *check_constants(const Kernel &k, const msl_constant *constants, uint32_t n, char *text,
                            size_t bytes) {
    for (uint32_t i = 0; i < n; i++) {
        const Value *found = nullptr;
        for (const Value &v : values())
            if (v.index == constants[i].index) found = &v;
        /* One that no kernel has is not an error in Metal, but it is a wrong number here. */
        if (!found) {
            snprintf(text, bytes, "%s: there is no function constant %u", k.head.name,
                     constants[i].index);
            return text;
        }
        if (found->type != constants[i].type) {
            snprintf(text, bytes, "%s: function constant %u (%s) has another type", k.head.name,
                     constants[i].index, found->name);
            return text;
        }
    }
    for (const void *const *use = k.uses; *use; use++)
        for (const Value &v : values()) {
            bool is_given = v.at != *use;
            for (uint32_t i = 0; i < n; i++) is_given |= constants[i].index == v.index;
            if (is_given) continue;
            snprintf(text, bytes, "%s: function constant %u (%s) has no value", k.head.name,
                     v.index, v.name);
            return text;
        }
    return nullptr;
}

const char *check_bindings(const Kernel &k, const struct msl_run &run, char *text, size_t bytes) {
    uint64_t shared = k.static_bytes;
    for (uint32_t i = 0; i < MSL_BINDINGS; i++) shared += (run.shared_bytes[i] + 15u) & ~15u;
    if (shared > MSL_SHARED_MAX) {
        snprintf(text, bytes, "%s: %llu bytes of threadgroup memory", k.head.name,
                 (unsigned long long)shared);
        return text;
    }
    for (uint32_t i = 0; i < k.head.n_bindings; i++) {
        const msl_binding &b = k.head.bindings[i];
        bool is_buffer = b.kind == MSL_BINDING_BUFFER;
        if (is_buffer ? !run.buffers[b.index] : !run.shared_bytes[b.index]) {
            snprintf(text, bytes, "%s: %s %u (%s) is not bound", k.head.name,
                     is_buffer ? "buffer" : "threadgroup memory", b.index, b.name);
            return text;
        }
        if (is_buffer && reinterpret_cast<uintptr_t>(run.buffers[b.index]) % b.align) {
            snprintf(text, bytes, "%s: buffer %u (%s) is not aligned to %u bytes", k.head.name,
                     b.index, b.name, b.align);
            return text;
        }
    }
    return nullptr;
}

const char *check_grid(const Kernel &k, const struct msl_run &run, char *text, size_t bytes) {
    uint64_t n = (uint64_t)run.group[0] * run.group[1] * run.group[2];
    uint64_t grid = (uint64_t)run.grid[0] * run.grid[1] * run.grid[2];
    if (!n || n > k.head.threads_max || run.group[0] > MSL_THREADS_MAX ||
        run.group[1] > MSL_THREADS_MAX || run.group[2] > MSL_THREADS_MAX)
        snprintf(text, bytes, "%s: %llu threads in a threadgroup (1 to %u)", k.head.name,
                 (unsigned long long)n, k.head.threads_max);
    else if (!grid)
        snprintf(text, bytes, "%s: an empty grid", k.head.name);
    else
        return nullptr;
    return text;
}

Options read_options() {
    Options o = {Order::FORWARD, 0, false, 2};
    const char *order = getenv("MSL_ORDER"), *flush = getenv("MSL_FLUSH");
    const char *threads = getenv("MSL_THREADS"), *trig = getenv("MSL_FAST_TRIG");
    if (order && strcmp(order, "reverse") == 0) o.order = Order::REVERSE;
    if (order && strncmp(order, "shuffle", 7) == 0) {
        o.order = Order::SHUFFLE;
        o.seed = order[7] == ':' ? (uint32_t)strtoul(order + 8, nullptr, 10) : 1;
    }
    o.is_flushing = flush && flush[0] == '1';
    is_fast_trig = trig && trig[0] == '1';
    if (threads) o.n_workers = (unsigned)strtoul(threads, nullptr, 10);
    if (o.n_workers < 1) o.n_workers = 1;
    if (o.n_workers > WORKERS_MAX) o.n_workers = WORKERS_MAX;
    return o;
}

/* Gives the constants their values; the others are set to ones, in no way a useful value. */
void set_constants(const struct msl_run &run) {
    for (Value &v : values()) {
        v.is_set = false;
        memset(v.at, v.type == MSL_TYPE_BOOL ? 0 : 0xff, v.bytes);
        for (uint32_t i = 0; i < run.n_constants; i++)
            if (run.constants[i].index == v.index) {
                memcpy(v.at, &run.constants[i].value, v.bytes);
                v.is_set = true;
            }
    }
}

bool give_fault(const char *fault, char *out, size_t bytes) {
    fprintf(stderr, "msl: fault: %s\n", fault);
    n_faults++;
    if (out && bytes) snprintf(out, bytes, "%s", fault);
    return false;
}

} // namespace

/* Threadgroup memory as it is now; what comes later is added as it comes. At least one region, so
 * that this is done once. */
static void start_races(Worker &w) {
    for (uint32_t i = 0; i < MSL_BINDINGS; i++)
        if (w.arguments.shared[i]) w.races.add(w.arguments.shared[i], w.job->run->shared_bytes[i]);
    for (const Shared &v : w.variables) w.races.add(v.at, v.bytes);
    if (w.races.regions.empty()) w.races.add(nullptr, 0);
}

/* ---- what kernels call ---- */

namespace msl {
Register::Register(const msl_kernel &kernel, Thunk thunk, const void *const *uses,
                   bool is_meeting) {
    for (const Kernel *k : kernels())
        if (strcmp(k->head.name, kernel.name) == 0) {
            fprintf(stderr, "msl: two kernels are called %s\n", kernel.name);
            abort();
        }
    for (uint32_t i = 0; i < kernel.n_bindings; i++)
        for (uint32_t j = 0; j < i; j++)
            if (kernel.bindings[i].kind == kernel.bindings[j].kind &&
                kernel.bindings[i].index == kernel.bindings[j].index) {
                fprintf(stderr, "msl: %s: %s and %s have the same index\n", kernel.name,
                        kernel.bindings[j].name, kernel.bindings[i].name);
                abort();
            }
    kernels().push_back(new Kernel(kernel, thunk, uses, is_meeting));
}

Constant::Constant(const char *name, const char *file, uint32_t index, void *value, size_t bytes,
                   msl_type type) {
    /* A constant of a header is one in each file that includes it. */
    for (const Value &v : values())
        if (v.index == index && (strcmp(v.name, name) || strcmp(v.file, file)))
            fprintf(stderr, "msl: function constant %u is %s of %s and %s of %s\n", index, v.name,
                    base_name(v.file), name, base_name(file));
    values().push_back({name, file, index, value, bytes, type, false});
}

bool is_constant_set(const void *value) {
    for (const Value &v : values())
        if (v.at == value) return v.is_set;
    return false;
}

void *shared_variable(const void *key, size_t bytes) {
    for (const Shared &v : self->variables)
        if (v.key == key) return v.at;
    Shared v = {key, aligned_alloc(16, (bytes + 15) & ~(size_t)15), bytes};
    memset(v.at, 0xff, bytes);
    self->variables.push_back(v);
    if (!self->races.regions.empty()) self->races.add(v.at, bytes);
    Kernel *k = const_cast<Kernel *>(self->job->kernel);
    uint64_t all = 0, total = 0;
    for (const Shared &s : self->variables) all += (s.bytes + 15) & ~(size_t)15;
    if (k->static_bytes < all) k->static_bytes = (uint32_t)all;
    for (uint32_t b : self->job->run->shared_bytes) total += (b + 15u) & ~15u;
    if (all + total > MSL_SHARED_MAX)
        say(*self->job, "%llu bytes of threadgroup memory", (unsigned long long)(all + total));
    return v.at;
}

uint lane() {
    return self->current % SIMD_WIDTH;
}

Meeting &meet(Operation op, Site site, const void *bytes, size_t n) {
    Worker *w = self;
    Thread &t = w->threads[w->current];
    memcpy(t.brought, bytes, n);
    t.n_brought = n;
    t.op = op;
    wait_at(State::SIMD, site);
    return w->simd[w->current / SIMD_WIDTH];
}

void threadgroup_barrier(bool is_ordering, Site site) {
    Thread &t = self->threads[self->current];
    t.op = OP_REDUCE;
    t.is_ordering = is_ordering;
    wait_at(State::BARRIER, site);
}

void simdgroup_barrier(bool is_ordering, Site site) {
    Thread &t = self->threads[self->current];
    t.n_brought = 0;
    t.op = OP_REDUCE;
    t.is_ordering = is_ordering;
    wait_at(State::SIMD_BARRIER, site);
}

void see_shared(const void *at, size_t bytes, bool is_write) {
    Worker *w = self;
    if (!w || w->job->is_bad) return;
    if (w->races.regions.empty()) start_races(*w);
    Race race;
    if (!w->races.see(at, bytes, is_write, w->current, &race)) return;
    const Thread &t = w->threads[w->current];
    say(*w->job,
        "a race: thread %u %s what thread %u %s, byte %u of threadgroup block %u, no barrier "
        "between (it last met others at line %d)",
        w->current, is_write ? "writes" : "reads", race.other,
        race.other_writes ? "writes" : "reads", race.offset, race.region, t.site.line);
}

float fast_trig(float exact, float error_max) {
    if (!is_fast_trig) return exact;
    uint bits;
    memcpy(&bits, &exact, sizeof bits);
    return exact + (bits * 2654435761u >> 31 ? error_max : -error_max);
}
} // namespace msl

/* ---- what the stand-in calls ---- */

extern "C" {
size_t msl_kernel_count(void) {
    return kernels().size();
}

const struct msl_kernel *msl_kernel_at(size_t i) {
    return i < kernels().size() ? &kernels()[i]->head : nullptr;
}

const struct msl_kernel *msl_kernel_find(const char *name) {
    for (const Kernel *k : kernels())
        if (strcmp(k->head.name, name) == 0) return &k->head;
    return nullptr;
}

bool msl_kernel_check(const struct msl_kernel *kernel, const struct msl_constant *constants,
                      uint32_t n_constants, char *reason_out, size_t reason_bytes) {
    char text[256];
    const Kernel *k = kernel_of(kernel);
    const char *reason =
        k ? check_constants(*k, constants, n_constants, text, sizeof text) : "no such kernel";
    if (reason && reason_out && reason_bytes) snprintf(reason_out, reason_bytes, "%s", reason);
    return !reason;
}

uint32_t msl_kernel_shared_bytes(const struct msl_kernel *kernel) {
    const Kernel *k = kernel_of(kernel);
    return k ? k->static_bytes.load() : 0;
}

bool msl_run(const struct msl_run *run, char *fault_out, size_t fault_bytes) {
    char text[256];
    const Kernel *k = kernel_of(run->kernel);
    if (!k) return give_fault("no such kernel", fault_out, fault_bytes);
    std::lock_guard<std::mutex> hold(run_lock);
    const char *fault = check_constants(*k, run->constants, run->n_constants, text, sizeof text);
    if (!fault) fault = check_grid(*k, *run, text, sizeof text);
    if (!fault) fault = check_bindings(*k, *run, text, sizeof text);
    if (fault) return give_fault(fault, fault_out, fault_bytes);
    Job job = {};
    job.kernel = k;
    job.run = run;
    job.options = read_options();
    for (int d = 0; d < 3; d++) {
        uint32_t size = run->group[d];
        job.n_groups[d] = run->is_by_threads ? (run->grid[d] + size - 1) / size : run->grid[d];
        job.n_threads[d] = run->is_by_threads ? run->grid[d] : run->grid[d] * size;
    }
    job.n_groups_all = (uint64_t)job.n_groups[0] * job.n_groups[1] * job.n_groups[2];
    set_constants(*run);
    run_job(job);
    return job.is_bad ? give_fault(job.fault, fault_out, fault_bytes) : true;
}

unsigned msl_faults(void) {
    return n_faults;
}

void msl_faults_reset(void) {
    n_faults = 0;
}
}
