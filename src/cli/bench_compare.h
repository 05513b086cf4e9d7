/* bench_compare.h - times functions against each other on a machine that others use as well.
 * Threads: main thread only. */
#ifndef CLI_BENCH_COMPARE_H
#define CLI_BENCH_COMPARE_H

#include "radish.h"

enum { COMPARED_MAX = 5 };

/* fn(user) does it once. */
struct compared {
    void (*fn)(void *user);
    void *user;
    double median_ns, min_ns; /* of one call */
    /* The time of a call to that of the first function in the same round: the median over rounds
     * that nothing interrupted, and the quartiles, between which half of them lie. */
    double ratio, ratio_low, ratio_high;
};

/* n functions in turns, for about `budget_ms` each, but for a few rounds at least. on_one_thread:
 * they do all their work on the calling thread. */
void bench_compare(struct compared *compared, uint32_t n, uint32_t budget_ms, bool on_one_thread);

#endif
