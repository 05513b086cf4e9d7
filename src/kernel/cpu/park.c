/* park.c - sleeping and waking for the compute pool.
 *
 * On Linux the word itself is what one sleeps on (futex): the system compares it once more under
 * its own lock before it puts the thread to sleep. With a condition variable every sleeper that
 * wakes takes the mutex first, one after another, and the last of 15 waits for 14 turns; here they
 * all run at once. Elsewhere there are the mutex and the condition variable.
 *
 * Either way a sleeper counts itself before its last look at the word, and a waker looks at the
 * count after its change: one of the two sees the other (sequentially consistent), so that the
 * usual case, in which all still spin, is one load and no system call. */
#include "park.h"

#if defined(__linux__)

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void park_init(struct park *park) {
    atomic_init(&park->n_waiting, 0);
}

void park_deinit(struct park *park) {
    (void)park;
}

void park_wait(struct park *park, void *address, uint32_t seen, park_read_fn read, void *user) {
    atomic_fetch_add(&park->n_waiting, 1);
    /* Whatever it returns (changed already, a signal, woken): the caller looks again. */
    if (read(user) == seen) syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&park->n_waiting, 1);
}

void park_wake(struct park *park, void *address) {
    if (atomic_load(&park->n_waiting))
        syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

void park_init(struct park *park) {
    atomic_init(&park->n_waiting, 0);
    pthread_mutex_init(&park->lock, NULL);
    pthread_cond_init(&park->changed, NULL);
}

void park_deinit(struct park *park) {
    pthread_cond_destroy(&park->changed);
    pthread_mutex_destroy(&park->lock);
}

void park_wait(struct park *park, void *address, uint32_t seen, park_read_fn read, void *user) {
    (void)address;
    pthread_mutex_lock(&park->lock);
    atomic_fetch_add(&park->n_waiting, 1);
    if (read(user) == seen) pthread_cond_wait(&park->changed, &park->lock);
    atomic_fetch_sub(&park->n_waiting, 1);
    pthread_mutex_unlock(&park->lock);
}

void park_wake(struct park *park, void *address) {
    (void)address;
    if (!atomic_load(&park->n_waiting)) return;
    pthread_mutex_lock(&park->lock);
    pthread_cond_broadcast(&park->changed);
    pthread_mutex_unlock(&park->lock);
}

#endif
