/* pool_int.h - what pool.c decides about a machine, for its tests. */
#ifndef KERNEL_CPU_POOL_INT_H
#define KERNEL_CPU_POOL_INT_H

#include "pool.h"

#include "base/machine.h"

/* How a pool of n_threads behaves here. */
struct pool_manners {
    bool spins;     /* for a short while, before it sleeps */
    bool is_pinned; /* each worker but the first to a core of its own */
};

/* n_cores: how many cores of the affinity mask can be told apart; 0 where that is not known. */
struct pool_manners pool_decide(uint32_t n_threads, const struct machine *machine,
                                uint32_t n_cores);

#endif
