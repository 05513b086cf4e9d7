/* bench_compare.c - which of two functions is faster, when the machine is never quiet.
 *
 * A round is one slice of time for each function, side by side: some 30 microseconds, or one call
 * if that takes longer. What disturbs a machine lasts longer than that (another program's turn, a
 * change of clock), so it meets all functions of a round or none, and the ratio within a round is
 * worth more than the quotient of two figures of different seconds. Hundreds of rounds give a
 * median that a few bad ones do not move, and quartiles that say how much it is worth. Calls of a
 * millisecond and more are interrupted one by one all the same: for the ratio, rounds are left out
 * in which one of the two took more than 3/2 of its own lower quartile. Every second round goes
 * backwards, since who comes first finds other things in the caches than who follows.
 *
 * What runs on one thread is timed by that thread's own clock, which stands still while others have
 * the CPU (it costs 0.3 microseconds a look, the same for all).
 *
 * Why not the smallest time, as is usual: where a call writes to memory that no cache holds, the
 * smallest one is that which found it in a cache after all. It is reported beside the median. */
#include "bench_compare.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 401, ROUNDS_MIN = 7, ROUNDS_WANTED = 31 };
enum { SLICE_NS = 30000, CALLS_MAX = 1000, PATIENCE_MS = 1200 };

static uint64_t now_ns(bool on_one_thread) {
    struct timespec t;
    if (!on_one_thread || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return clock_ns();
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double time_slice(const struct compared *c, uint32_t n_calls, bool on_one_thread) {
    const uint64_t begun = now_ns(on_one_thread);
    for (uint32_t i = 0; i < n_calls; i++) c->fn(c->user);
    return (double)(now_ns(on_one_thread) - begun) / n_calls;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The calls of a slice, for each; returns what a round takes. */
static double size_slices(const struct compared *compared, uint32_t n, bool on_one_thread,
                          uint32_t *n_calls_out) {
    double round_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        time_slice(&compared[i], 1, on_one_thread); /* to warm up */
        const double ns = time_slice(&compared[i], 1, on_one_thread);
        n_calls_out[i] = ns < SLICE_NS ? (uint32_t)(SLICE_NS / (ns + 1)) + 1 : 1;
        if (n_calls_out[i] > CALLS_MAX) n_calls_out[i] = CALLS_MAX;
        round_ns += ns * n_calls_out[i];
    }
    return round_ns;
}

/* As many as the budget buys; where that is few, as many as patience does. */
static uint32_t count_rounds(double round_ns, double budget_ns) {
    double rounds = budget_ns / round_ns;
    if (rounds < ROUNDS_WANTED) {
        const double more = PATIENCE_MS * 1e6 / round_ns;
        if (more > rounds) rounds = more < ROUNDS_WANTED ? more : ROUNDS_WANTED;
    }
    if (rounds < ROUNDS_MIN) rounds = ROUNDS_MIN;
    return rounds < ROUNDS_MAX ? (uint32_t)rounds : ROUNDS_MAX;
}

/* sorted_out: ns in ascending order. */
static void find_times(struct compared *c, const double *ns, uint32_t n_rounds,
                       double *sorted_out) {
    memcpy(sorted_out, ns, n_rounds * sizeof *ns);
    qsort(sorted_out, n_rounds, sizeof *sorted_out, compare_doubles);
    c->median_ns = sorted_out[n_rounds / 2];
    c->min_ns = sorted_out[0];
}

/* Of the rounds in which neither took more than its limit, or of all, if those are too few. */
static void find_ratio(struct compared *c, const double *ns, double limit, const double *first_ns,
                       double first_limit, uint32_t n_rounds) {
    double ratios[ROUNDS_MAX];
    uint32_t n = 0;
    for (uint32_t r = 0; r < n_rounds; r++)
        if (ns[r] <= limit && first_ns[r] <= first_limit) ratios[n++] = ns[r] / first_ns[r];
    if (n < ROUNDS_MIN)
        for (n = 0; n < n_rounds; n++) ratios[n] = ns[n] / first_ns[n];
    qsort(ratios, n, sizeof *ratios, compare_doubles);
    c->ratio = ratios[n / 2];
    c->ratio_low = ratios[n / 4];
    c->ratio_high = ratios[n - 1 - n / 4];
}

void bench_compare(struct compared *compared, uint32_t n, uint32_t budget_ms, bool on_one_thread) {
    static double ns[COMPARED_MAX][ROUNDS_MAX]; /* too large for a stack */
    uint32_t n_calls[COMPARED_MAX];
    double limits[COMPARED_MAX], sorted[ROUNDS_MAX];
    const double round_ns = size_slices(compared, n, on_one_thread, n_calls);
    const uint32_t n_rounds = count_rounds(round_ns, budget_ms * 1e6 * n);
    for (uint32_t r = 0; r < n_rounds; r++) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t at = r % 2 ? n - 1 - i : i;
            ns[at][r] = time_slice(&compared[at], n_calls[at], on_one_thread);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        find_times(&compared[i], ns[i], n_rounds, sorted);
        limits[i] = 1.5 * sorted[n_rounds / 4];
    }
    for (uint32_t i = 0; i < n; i++)
        find_ratio(&compared[i], ns[i], limits[i], ns[0], limits[0], n_rounds);
}
