/* rng.c - the one place that asks the system for randomness: seeds of requests that name none. */
#include "rng.h"

#include "clock.h"

#include <stdio.h>
#include <unistd.h>

uint64_t rng_seed_from_system(void) {
    uint64_t seed = 0;
    FILE *f = fopen("/dev/urandom", "rb");
    bool is_read = f && fread(&seed, sizeof seed, 1, f) == 1;
    if (f) fclose(f);
    return is_read ? seed : rng_mix(clock_ns() ^ (uint64_t)getpid() << 32);
}
