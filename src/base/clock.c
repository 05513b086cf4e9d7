/* clock.c - CLOCK_MONOTONIC in nanoseconds: never set back, unlike the time of day.
 *
 * 64 bits hold 584 years of them. Reading it costs about 25 ns (no system call on Linux), so that
 * the engine may ask several times a step. It stands still while the machine sleeps, which is what
 * time-outs want: a laptop that wakes up must not abort every request at once. */
#include "clock.h"

#include <time.h>

uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
