/* hub_rate.h - how fast bytes have been coming lately. Threads: one at a time. */
#ifndef HUB_RATE_H
#define HUB_RATE_H

#include "radish.h"

enum { HUB_RATE_SAMPLES = 32 };

struct hub_rate {
    struct {
        uint64_t ns, bytes;
    } samples[HUB_RATE_SAMPLES]; /* a ring */
    uint32_t n, next;
};

/* `bytes` in all have come until now. Kept when the last sample is a quarter of a second old. */
void hub_rate_add(struct hub_rate *rate, uint64_t now_ns, uint64_t bytes);

/* Bytes per second over the last 8 seconds; 0 = not known yet. */
double hub_rate_bytes_per_second(const struct hub_rate *rate, uint64_t now_ns, uint64_t bytes);

#endif
