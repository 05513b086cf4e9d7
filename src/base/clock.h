/* clock.h - monotonic time. Modules that decide by time take a clock function, so that tests can
 * give them a virtual one. Threads: any. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "radish.h"

typedef uint64_t (*clock_fn)(void *user); /* nanoseconds, never backwards */

uint64_t clock_ns(void);

#endif
