/* pool.c - fork and join hundreds of times per token, for less than a microsecond each when warm.
 *
 * A run is one record in the pool: function, items, and a counter from which workers take the next
 * item. Items are taken one by one, not dealt out, so that a worker which the system interrupts
 * delays one item only; no result depends on who does what, because work is never split along a
 * sum.
 *
 * One atomic word tells where a run stands: [ generation | open | workers inside ].
 *
 *   caller                                   worker
 *     write fn, n_items, next = 0              wait for a new generation (spin, then sleep)
 *     word = (generation + 1, open, 0)         if it is open: enter, inside += 1
 *     wake sleepers                            take items until none is left
 *     take items until none is left            inside -= 1; the last one out of a closed run wakes
 *     close; wait until nobody is inside         a sleeping caller
 *
 * The caller waits for those inside only. A worker that is still asleep, or has lost its CPU to
 * another program, finds the run closed and has cost nothing: on a busy machine two threads are
 * then not slower than one. (Historical note: waiting for every worker to check in halved the speed
 * of decoding on a machine whose second CPU was busy, 2026-11-29.)
 *
 * Both sides spin for a short while first: inside a step the next operation is there within
 * microseconds, and a sleep and a wake through the kernel would cost ten times that. Then they
 * sleep on a condition variable, so that an idle server uses no CPU. Under a CPU quota (containers)
 * nobody spins: spinning would burn the quota that the work needs; nor where threads outnumber the
 * CPUs, since then the spinner may hold the CPU of the one it waits for.
 *
 * A sleeper announces itself under the lock before it looks at the generation a last time, and who
 * changes the generation looks for sleepers after the change: one of the two sees the other
 * (sequentially consistent atomics), so no wake is lost. The same holds for the sleeping caller.
 *
 * Pinning: worker i sits on its own physical core of the affinity mask, only where there are enough
 * of them and at least four; otherwise the scheduler knows better (on two cores, two programs that
 * pin would fight over the second). Worker 0 is the caller's thread and is left alone.
 * Every worker copies the creator's floating-point environment at its start (pthreads do that by
 * themselves), so that all share one rounding mode and no denormals are flushed. */
#include "pool.h"

#include "base/machine.h"
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* About 30 us of pause instructions on current processors (measured 40-140 cycles each). */
enum { SPIN_ROUNDS = 1500, PIN_CORES_MIN = 4 };

#define RUN_OPEN   0x80000000u
#define RUN_INSIDE 0x7fffffffu

struct worker {
    struct pool *pool;
    pthread_t thread;
    uint32_t index;
    int cpu; /* -1 = not pinned */
};

struct pool {
    uint32_t n_threads;
    uint32_t n_started; /* worker threads running, for destroy */
    uint32_t spin_rounds;
    struct worker *workers; /* [n_threads], 0 unused */

    /* The current run; written by the caller while no worker is busy. */
    pool_fn fn;
    void *user;
    uint32_t n_items;
    char pad0[64];
    atomic_uint next_item;
    char pad1[64];
    _Atomic uint64_t run;   /* generation << 32 | RUN_OPEN | workers inside */
    atomic_uint n_sleeping; /* workers waiting for a generation */
    atomic_bool is_caller_sleeping, is_stopping;
    char pad2[64];

    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_items(struct pool *p, uint32_t worker) {
    for (;;) {
        const uint32_t item = atomic_fetch_add_explicit(&p->next_item, 1, memory_order_relaxed);
        if (item >= p->n_items) return;
        p->fn(p->user, item, worker);
    }
}

static inline bool is_new(uint64_t run, uint32_t seen) {
    return (uint32_t)(run >> 32) != seen;
}

/* Waits for a generation other than `seen`; returns the word that shows it. */
static uint64_t wait_for_run(struct pool *p, uint32_t seen) {
    for (uint32_t i = 0; i < p->spin_rounds; i++) {
        const uint64_t run = atomic_load_explicit(&p->run, memory_order_acquire);
        if (is_new(run, seen)) return run;
        relax();
    }
    uint64_t run;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->n_sleeping, 1);
    while (!is_new(run = atomic_load(&p->run), seen)) pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->n_sleeping, 1);
    pthread_mutex_unlock(&p->lock);
    return run;
}

static bool try_enter(struct pool *p, uint64_t run) {
    const uint32_t generation = (uint32_t)(run >> 32);
    while ((run & RUN_OPEN) && !is_new(run, generation))
        if (atomic_compare_exchange_weak(&p->run, &run, run + 1)) return true;
    return false;
}

static void leave(struct pool *p) {
    const uint64_t before = atomic_fetch_sub(&p->run, 1);
    if ((before & RUN_OPEN) || (before & RUN_INSIDE) != 1) return;
    if (!atomic_load(&p->is_caller_sleeping)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static void wait_for_workers(struct pool *p) {
    for (uint32_t i = 0; i < p->spin_rounds; i++) {
        if (!(atomic_load_explicit(&p->run, memory_order_acquire) & RUN_INSIDE)) return;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->is_caller_sleeping, true);
    while (atomic_load(&p->run) & RUN_INSIDE) pthread_cond_wait(&p->done, &p->lock);
    atomic_store(&p->is_caller_sleeping, false);
    pthread_mutex_unlock(&p->lock);
}

static void pin(int cpu) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    /* Not fatal: an unpinned worker computes the same. */
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
#else
    (void)cpu;
#endif
}

static void *work(void *arg) {
    const struct worker *w = arg;
    struct pool *p = w->pool;
    if (w->cpu >= 0) pin(w->cpu);
    uint32_t seen = 0;
    while (!atomic_load(&p->is_stopping)) {
        const uint64_t run = wait_for_run(p, seen);
        seen = (uint32_t)(run >> 32);
        if (!try_enter(p, run)) continue;
        take_items(p, w->index);
        leave(p);
    }
    return NULL;
}

/* Begins a generation, open or closed, and wakes who sleeps. */
static void begin_generation(struct pool *p, uint64_t flags) {
    const uint64_t generation = (atomic_load(&p->run) >> 32) + 1;
    atomic_store(&p->run, generation << 32 | flags);
    if (atomic_load(&p->n_sleeping) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, uint32_t n_items, pool_fn fn, void *user) {
    if (n_items <= 1 || p->n_threads == 1) {
        for (uint32_t item = 0; item < n_items; item++) fn(user, item, 0);
        return;
    }
    p->fn = fn;
    p->user = user;
    p->n_items = n_items;
    atomic_store_explicit(&p->next_item, 0, memory_order_relaxed);
    begin_generation(p, RUN_OPEN);
    take_items(p, 0);
    if (atomic_fetch_and(&p->run, ~(uint64_t)RUN_OPEN) & RUN_INSIDE) wait_for_workers(p);
}

#if defined(__linux__)
static bool read_number(const char *format, int cpu, int *number_out) {
    char path[128], text[32] = "";
    snprintf(path, sizeof path, format, cpu);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const bool has_line = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    *number_out = (int)strtol(text, NULL, 10);
    return has_line;
}

/* CPUs of the affinity mask, one per physical core, in ascending order; 0 when this cannot be told.
 */
static uint32_t list_cores(int *cpus, uint32_t n_max) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    int cores[CPU_SETSIZE], packages[CPU_SETSIZE];
    uint32_t n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < n_max; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &set)) continue;
        if (!read_number("/sys/devices/system/cpu/cpu%d/topology/core_id", cpu, &cores[n]) ||
            !read_number("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu,
                         &packages[n]))
            return 0;
        uint32_t i = 0;
        while (i < n && (cores[i] != cores[n] || packages[i] != packages[n])) i++;
        if (i == n) cpus[n++] = cpu;
    }
    return n;
}
#else
static uint32_t list_cores(int *cpus, uint32_t n_max) {
    (void)cpus, (void)n_max;
    return 0;
}
#endif

static enum radish_status start_workers(struct pool *p, struct radish_error *err) {
    int cpus[POOL_THREADS_MAX];
    const uint32_t n_cores = list_cores(cpus, POOL_THREADS_MAX);
    const bool is_pinned = p->n_threads <= n_cores && n_cores >= PIN_CORES_MIN && p->spin_rounds;
    for (uint32_t i = 1; i < p->n_threads; i++) {
        const int cpu = is_pinned ? cpus[i] : -1;
        p->workers[i] = (struct worker){.pool = p, .index = i, .cpu = cpu};
        const int failed = pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]);
        if (failed)
            return error_set(err, RADISH_E_IO, "cannot start compute thread %u of %u: %s", i,
                             p->n_threads, strerror(failed));
        p->n_started = i;
    }
    return RADISH_OK;
}

enum radish_status pool_create(uint32_t n_threads, struct pool **pool_out,
                               struct radish_error *err) {
    *pool_out = NULL;
    if (n_threads < 1 || n_threads > POOL_THREADS_MAX)
        return error_set_field(err, RADISH_E_INVALID, "--threads", "%u: must be 1 to %d", n_threads,
                               POOL_THREADS_MAX);
    struct pool *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    p->workers = calloc(n_threads, sizeof *p->workers);
    if (!p->workers) {
        free(p);
        return error_nomem(err);
    }
    struct machine machine;
    machine_read(&machine);
    p->n_threads = n_threads;
    p->spin_rounds = machine.cpu_quota > 0 || n_threads > machine.n_cpus_allowed ? 0 : SPIN_ROUNDS;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    const enum radish_status status = start_workers(p, err);
    if (status != RADISH_OK) {
        pool_destroy(p);
        return status;
    }
    *pool_out = p;
    return RADISH_OK;
}

void pool_destroy(struct pool *p) {
    if (!p) return;
    atomic_store(&p->is_stopping, true);
    begin_generation(p, 0);
    for (uint32_t i = 1; i <= p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

uint32_t pool_n_threads(const struct pool *p) {
    return p->n_threads;
}
