/* rng.h - random numbers as a function, not a state: the value for (seed, counter) is the same
 * whoever asks and whenever. Sampling needs this: a token must not depend on what else is in the
 * batch. Threads: any. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include "radish.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits in which every bit
 * moves every other. */
static inline uint64_t rng_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* 64 random bits of stream `seed` at `counter`. The seed is mixed first, so that neighbouring seeds
 * are unrelated streams. */
static inline uint64_t rng_u64(uint64_t seed, uint64_t counter) {
    return rng_mix(rng_mix(seed + 0x9E3779B97F4A7C15u) + (counter + 1) * 0x9E3779B97F4A7C15u);
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_uniform(uint64_t seed, uint64_t counter) {
    return (double)(rng_u64(seed, counter) >> 11) * 0x1.0p-53;
}

uint64_t rng_seed_from_system(void); /* from the kernel, or the clock where it refuses */

#endif
