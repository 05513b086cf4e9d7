/* status.h - results of functions: enum radish_status, and how a reason travels with it.
 *
 * Fault of the input: a status and a filled struct radish_error. Not now: RADISH_AGAIN, no message.
 * Our bug: invariant.h. Threads: any. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "radish.h"

/* Hands a failure up when nothing is held here. */
#define RADISH_TRY(expr)                                                                           \
    do {                                                                                           \
        enum radish_status try_status_ = (expr);                                                   \
        if (try_status_ != RADISH_OK) return try_status_;                                          \
    } while (0)

/* Fills *err (may be NULL) and returns `status`, so that a failure is one line: return
 * error_set(err, RADISH_E_..., "..."). The field and offset are cleared. */
enum radish_status error_set(struct radish_error *err, enum radish_status status, const char *fmt,
                             ...) RADISH_PRINTF(3, 4);

/* The same, naming the field (request field, tensor, flag) at fault. */
enum radish_status error_set_field(struct radish_error *err, enum radish_status status,
                                   const char *field, const char *fmt, ...) RADISH_PRINTF(4, 5);

/* The same, with the byte offset in the input. */
enum radish_status error_set_at(struct radish_error *err, enum radish_status status,
                                uint64_t offset, const char *fmt, ...) RADISH_PRINTF(4, 5);

/* Puts "prefix: " before the message of an error that is handed up: file names, tensor names. Keeps
 * the status. */
void error_prefix(struct radish_error *err, const char *fmt, ...) RADISH_PRINTF(2, 3);

/* The one way to say that an allocation failed. */
enum radish_status error_nomem(struct radish_error *err);

#endif
