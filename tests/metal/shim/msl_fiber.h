/* msl_fiber.h - stacks that take turns on one OS thread.
 *
 * Owns: its stack. A fiber runs from fiber_switch() until it switches back; one that never gets to
 * its end is simply started anew. On x86-64 and 64-bit Arm a switch is a few instructions,
 * elsewhere ucontext. AddressSanitizer is told of each. Threads: a fiber belongs to one OS thread
 * while it runs. */
#ifndef MSL_FIBER_H
#define MSL_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace msl {
struct Fiber {
#if defined(__x86_64__) || defined(__aarch64__)
    void *sp;
#else
    ucontext_t context;
#endif
    char *stack; /* [stack_bytes], nullptr: the OS thread's own */
    size_t stack_bytes;
    void *fake_stack;        /* AddressSanitizer's */
    const void *asan_bottom; /* of the OS thread's stack, where it is known */
    size_t asan_bytes;
};

/* Makes the fiber begin at entry(), which never returns. */
void fiber_start(Fiber &fiber, void (*entry)());
/* Leaves `from`, which is running, for `to`; comes back when somebody switches to `from`.
 * is_last: `from` will not be switched to again. */
void fiber_switch(Fiber &from, Fiber &to, bool is_last);
/* The first thing entry() does: `main` is where it was started from. */
void fiber_entered(Fiber &main);
} // namespace msl

#endif
