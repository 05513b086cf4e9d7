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
 * sleep on the word itself (park.c), so that an idle server uses no CPU. Under a CPU quota
 * (containers) nobody spins: spinning would burn the quota that the work needs; nor where threads
 * outnumber the CPUs, since then the spinner may hold the CPU of the one it waits for.
 *
 * Spinning is bounded by time, not by rounds: a pause instruction takes 40 cycles on one processor
 * and 140 on the next. The bound is about what a wake-up costs (bench_pool), which is never worse
 * than twice the best choice made in hindsight. After the first few microseconds the spinner also
 * offers its CPU at each look (sched_yield): on a busy machine the one it waits for may be on the
 * same CPU, ready to run, and would get it only when the spinner sleeps. Where nobody else wants
 * the CPU that is a short system call. (Measured with two threads on two CPUs under a load of 20:
 * a fork and join 0.4 instead of 57 us, decoding 1.35 times as fast; 2026-11-30.)
 *
 * Pinning: worker i sits on its own physical core of the affinity mask, only where there are enough
 * of them and at least four; otherwise the scheduler knows better (on two cores, two programs that
 * pin would fight over the second). Worker 0 is the caller's thread and is left alone.
 * Every worker copies the creator's floating-point environment at its start (pthreads do that by
 * themselves), so that all share one rounding mode and no denormals are flushed. */
#include "pool_int.h"

#include "base/clock.h"
#include "base/status.h"
#include "park.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* SPIN_NS: a wake-up took 10 to 70 us on a virtual machine of two cores (2026-11-30).
 * SPIN_ALONE_NS: longer than most gaps inside a step, short beside what an operation takes. The
 * clock is looked at once in SPIN_ROUNDS pauses. */
enum { SPIN_NS = 50000, SPIN_ALONE_NS = 4000, SPIN_ROUNDS = 32, PIN_CORES_MIN = 4 };

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
    struct pool_manners manners;
    struct worker *workers; /* [n_threads], 0 unused */

    /* The current run; written by the caller while no worker is busy. */
    pool_fn fn;
    void *user;
    uint32_t n_items;
    char pad0[64];
    atomic_uint next_item;
    char pad1[64];
    _Atomic uint64_t run; /* generation << 32 | RUN_OPEN | workers inside */
    char pad2[64];
    struct park workers_parked, caller_parked;
    atomic_bool is_stopping;
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

static uint32_t read_generation(void *user) {
    struct pool *p = user;
    return (uint32_t)(atomic_load(&p->run) >> 32);
}

static uint32_t read_inside(void *user) {
    struct pool *p = user;
    return (uint32_t)atomic_load(&p->run);
}

/* The halves of the word, for the system to compare: nothing here reads them by these addresses. */
static void *half_of(struct pool *p, bool is_upper) {
    const bool is_second = is_upper == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    return (char *)&p->run + (is_second ? sizeof(uint32_t) : 0);
}

typedef bool (*is_over_fn)(uint64_t run, uint32_t seen);

/* Spins until is_over(word, seen) or the time is up; returns the word. */
static uint64_t spin(struct pool *p, is_over_fn is_over, uint32_t seen) {
    uint64_t run = atomic_load_explicit(&p->run, memory_order_acquire);
    if (!p->manners.spins || is_over(run, seen)) return run;
    const uint64_t begin = clock_ns();
    uint64_t now = begin;
    do {
        if (now - begin > SPIN_ALONE_NS) sched_yield();
        for (uint32_t i = 0; i < SPIN_ROUNDS; i++) {
            relax();
            run = atomic_load_explicit(&p->run, memory_order_acquire);
            if (is_over(run, seen)) return run;
        }
        now = clock_ns();
    } while (now - begin < SPIN_NS);
    return run;
}

/* Waits for a generation other than `seen`; returns the word that shows it. */
static uint64_t wait_for_run(struct pool *p, uint32_t seen) {
    uint64_t run = spin(p, is_new, seen);
    while (!is_new(run, seen)) {
        park_wait(&p->workers_parked, half_of(p, /*is_upper=*/true), seen, read_generation, p);
        run = atomic_load(&p->run);
    }
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
    park_wake(&p->caller_parked, half_of(p, /*is_upper=*/false));
}

static bool is_left(uint64_t run, uint32_t seen) {
    (void)seen;
    return !(run & RUN_INSIDE);
}

/* The run is closed, so the lower half of the word is the number inside. */
static void wait_for_workers(struct pool *p) {
    uint64_t run = spin(p, is_left, 0);
    while (!is_left(run, 0)) {
        park_wait(&p->caller_parked, half_of(p, /*is_upper=*/false), (uint32_t)run, read_inside, p);
        run = atomic_load(&p->run);
    }
}

static void pin(int cpu) {
#if defined(__linux__)
    const size_t n = (size_t)cpu + 1, bytes = CPU_ALLOC_SIZE(n);
    cpu_set_t *set = CPU_ALLOC(n);
    if (!set) return;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    /* Not fatal: an unpinned worker computes the same. */
    (void)pthread_setaffinity_np(pthread_self(), bytes, set);
    CPU_FREE(set);
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
    park_wake(&p->workers_parked, half_of(p, /*is_upper=*/true));
}

void pool_run(struct pool *p, uint32_t n_items, pool_fn fn, void *user) {
    if (n_items <= 1 || p->n_threads == 1) {
        for (uint32_t item = 0; item < n_items; item++) {
            atomic_store_explicit(&p->next_item, item + 1, memory_order_relaxed);
            fn(user, item, 0);
        }
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

struct pool_manners pool_decide(uint32_t n_threads, const struct machine *machine,
                                uint32_t n_cores) {
    const bool has_cpus = machine->cpu_quota <= 0 && n_threads <= machine->n_cpus_allowed;
    return (struct pool_manners){
        .spins = has_cpus,
        .is_pinned = has_cpus && n_cores >= PIN_CORES_MIN && n_threads <= n_cores,
    };
}

static enum radish_status start_workers(struct pool *p, struct radish_error *err) {
    uint32_t cpus[POOL_THREADS_MAX];
    const uint32_t n_cores = machine_list_cores(cpus, POOL_THREADS_MAX);
    struct machine machine;
    machine_read(&machine);
    p->manners = pool_decide(p->n_threads, &machine, n_cores);
    for (uint32_t i = 1; i < p->n_threads; i++) {
        const int cpu = p->manners.is_pinned ? (int)cpus[i] : -1;
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
        return error_set_field(err, RADISH_E_INVALID, "--threads", "--threads %u: must be 1 to %d",
                               n_threads, POOL_THREADS_MAX);
    struct pool *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    p->workers = calloc(n_threads, sizeof *p->workers);
    if (!p->workers) {
        free(p);
        return error_nomem(err);
    }
    p->n_threads = n_threads;
    park_init(&p->workers_parked);
    park_init(&p->caller_parked);
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
    park_deinit(&p->caller_parked);
    park_deinit(&p->workers_parked);
    free(p->workers);
    free(p);
}

uint32_t pool_n_threads(const struct pool *p) {
    return p->n_threads;
}

uint32_t pool_next_item(const struct pool *p) {
    return atomic_load_explicit(&p->next_item, memory_order_relaxed);
}
