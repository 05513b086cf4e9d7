/* invariant.c - the end of the process when an invariant is broken: going on could serve one user's
 * KV to another.
 *
 * abort() and not exit(): no handler runs on state that is known to be wrong, and the core file
 * shows where it happened. The line goes to stderr directly, past the log's level, since this is
 * the one message nobody may have switched off. */
#include "invariant.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void invariant_failed(const char *expr, const char *file, int line, const char *fmt,
                                ...) {
    va_list args;
    fprintf(stderr, "radish: bug: %s:%d: not true: %s: ", file, line, expr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
