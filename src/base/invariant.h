/* invariant.h - what must be true, or radish has a bug.
 *
 * RADISH_ASSERT: checked in debug and test builds only; for what hurts nobody but us.
 * RADISH_INVARIANT: always checked; for what would give one user's KV to another if it were wrong:
 * slot ownership, pins, bounds of slot tables. Both print the place and abort. Never for faults of
 * the input: those are statuses (status.h). */
#ifndef BASE_INVARIANT_H
#define BASE_INVARIANT_H

#include "radish.h"

_Noreturn void invariant_failed(const char *expr, const char *file, int line, const char *fmt, ...)
    RADISH_PRINTF(4, 5);

/* RADISH_INVARIANT(cond, "slot %u is ...", slot) */
#define RADISH_INVARIANT(cond, ...)                                                                \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            invariant_failed(#cond, __FILE__, __LINE__, __VA_ARGS__);                              \
    } while (0)

#ifdef NDEBUG
#define RADISH_ASSERT(cond) ((void)sizeof(cond))
#else
#define RADISH_ASSERT(cond) RADISH_INVARIANT(cond, "assertion")
#endif

#endif
