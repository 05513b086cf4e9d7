/* park.h - a thread sleeps while a word holds a value.
 *
 * Owns: what the system needs for it. Threads: any number sleep and wake.
 * Invariant: no wake is lost. Who changes the word and then calls park_wake() wakes everybody who
 * was about to sleep on the old value, or they see the new one. The word may be one half of a
 * larger atomic; changes and the looks at it must be sequentially consistent. */
#ifndef KERNEL_CPU_PARK_H
#define KERNEL_CPU_PARK_H

#include "radish.h"

#include <pthread.h>
#include <stdatomic.h>

struct park {
    atomic_uint n_waiting;
#if !defined(__linux__)
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
};

void park_init(struct park *park);
void park_deinit(struct park *park); /* nobody sleeps in it */

/* Reads the word that is slept on. */
typedef uint32_t (*park_read_fn)(void *user);

/* Returns when read(user) is not `seen`, or sooner: call it in a loop. address: of the 32 bits that
 * read() returns. */
void park_wait(struct park *park, void *address, uint32_t seen, park_read_fn read, void *user);

/* After the change. Costs a load where nobody sleeps. */
void park_wake(struct park *park, void *address);

#endif
