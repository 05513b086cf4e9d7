/* rng.c - the one place that asks the system for randomness: seeds of requests that name none.
 *
 * Everything else about random numbers is arithmetic and lives in the header. Seeds must differ
 * from each other, also between two servers started in the same second; they need not be secret, so
 * that the clock and the process id are a tolerable substitute where /dev/urandom cannot be opened
 * (a sandbox, no descriptor left). */
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
