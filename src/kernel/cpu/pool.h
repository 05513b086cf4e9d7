/* pool.h - the compute pool: persistent threads that run the parts of one operation together.
 *
 * Owns: n_threads - 1 threads; the caller of pool_run() is worker 0. Threads: one caller at a time.
 * Invariants: (1) every item of a run is done exactly once, by one worker; (2) when pool_run()
 * returns, all writes of all items are visible to the caller; (3) an idle pool uses no CPU. */
#ifndef KERNEL_CPU_POOL_H
#define KERNEL_CPU_POOL_H

#include "radish.h"

struct pool;

#define POOL_THREADS_MAX 512

/* n_threads in 1..POOL_THREADS_MAX. E_NOMEM; E_IO when the system gives no more threads. */
enum radish_status pool_create(uint32_t n_threads, struct pool **pool_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;
void pool_destroy(struct pool *pool);
uint32_t pool_n_threads(const struct pool *pool);

/* fn(user, item, worker) for every item in [0, n_items); which worker does which item is open.
 * worker < n_threads. Must not be called from within fn. */
typedef void (*pool_fn)(void *user, uint32_t item, uint32_t worker);
void pool_run(struct pool *pool, uint32_t n_items, pool_fn fn, void *user);

/* Within fn: the item that the next free worker takes; n_items or more: none is left. Out of date
 * once it is read, so only good for guesses at what to fetch early. */
uint32_t pool_next_item(const struct pool *pool);

#endif
