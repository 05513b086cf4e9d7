/* bench_pool.c - what it costs to fork and join, by how long the pool had nothing to do before.
 *
 * A run of one empty item per thread is timed after a pause: short pauses find workers that still
 * spin, long ones workers that sleep in the system. A run does not wait for a worker that is late,
 * so two times are told: until the run was over (what an operation pays), and until the last
 * worker to take part in a run of items that wait for each other began (how long a sleeper needs to
 * be there). "cpu" is the processor time of the whole process over the pause, in units of one CPU:
 * the price of spinning.
 *
 * bench_pool [THREADS [ROUNDS]]: CSV on stdout, medians and the 90th percentile. Nothing else
 * should run. */
#include "base/clock.h"
#include "base/machine.h"
#include "kernel/cpu/pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 100000 };

struct meeting {
    atomic_uint n_there;
    uint32_t n_wanted;
};

static void do_nothing(void *user, uint32_t item, uint32_t worker) {
    (void)user, (void)item, (void)worker;
}

/* Every item waits for all others, so every worker has to come. */
static void meet(void *user, uint32_t item, uint32_t worker) {
    struct meeting *m = user;
    (void)item, (void)worker;
    atomic_fetch_add(&m->n_there, 1);
    while (atomic_load(&m->n_there) < m->n_wanted) {}
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The caller's own waiting should cost no processor time where it can sleep. */
static void pause_us(uint32_t us) {
    const uint64_t end = clock_ns() + us * 1000u;
    if (us >= 200) {
        const struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
        nanosleep(&t, NULL);
    }
    while (clock_ns() < end) {}
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void measure(struct pool *pool, uint32_t us, uint32_t n_rounds, uint64_t *empty,
                    uint64_t *met) {
    const uint32_t n_threads = pool_n_threads(pool);
    uint64_t paused_ns = 0, burnt_ns = 0;
    for (uint32_t i = 0; i < n_rounds; i++) {
        struct meeting m = {.n_wanted = n_threads};
        uint64_t cpu = cpu_ns(), begin = clock_ns();
        pause_us(us);
        paused_ns += clock_ns() - begin;
        burnt_ns += cpu_ns() - cpu;
        begin = clock_ns();
        pool_run(pool, n_threads, do_nothing, NULL);
        empty[i] = clock_ns() - begin;
        pause_us(us);
        begin = clock_ns();
        pool_run(pool, n_threads, meet, &m);
        met[i] = clock_ns() - begin;
    }
    qsort(empty, n_rounds, sizeof *empty, compare);
    qsort(met, n_rounds, sizeof *met, compare);
    printf("%u,%u,%u,%.2f,%.2f,%.2f,%.2f,%.2f\n", n_threads, us, n_rounds,
           (double)empty[n_rounds / 2] / 1e3, (double)empty[n_rounds * 9 / 10] / 1e3,
           (double)met[n_rounds / 2] / 1e3, (double)met[n_rounds * 9 / 10] / 1e3,
           paused_ns ? (double)burnt_ns / (double)paused_ns : 0);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const uint32_t pauses_us[] = {0, 5, 20, 50, 100, 200, 1000, 10000};
    static uint64_t empty[ROUNDS_MAX], met[ROUNDS_MAX];
    struct machine machine;
    struct radish_error err;
    struct pool *pool;
    machine_read(&machine);
    const long n_threads = argc > 1 ? atol(argv[1]) : machine_threads_default(&machine);
    const long n_rounds = argc > 2 ? atol(argv[2]) : 2000;
    if (n_rounds < 1 || n_rounds > ROUNDS_MAX ||
        pool_create((uint32_t)n_threads, &pool, &err) != RADISH_OK) {
        fprintf(stderr, "bench_pool: threads 1 to %d, rounds 1 to %d\n", POOL_THREADS_MAX,
                ROUNDS_MAX);
        return 2;
    }
    printf("threads,pause_us,rounds,run_us,run_p90_us,met_us,met_p90_us,pause_cpus\n");
    for (size_t i = 0; i < sizeof pauses_us / sizeof *pauses_us; i++) {
        const long n = pauses_us[i] >= 1000 ? n_rounds / 10 + 1 : n_rounds;
        measure(pool, pauses_us[i], (uint32_t)n, empty, met);
    }
    pool_destroy(pool);
    return 0;
}
