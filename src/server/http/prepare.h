/* prepare.h - the threads that turn a request's body into a running generation, or an
 * answer.
 *
 * Owns: its threads and its queue, which is as long as there are connections. Threads: any may
 * push. */
#ifndef SERVER_PREPARE_H
#define SERVER_PREPARE_H

#include "radish.h"

struct exchange;
struct prepare;

enum radish_status prepare_open(uint32_t n_threads, struct prepare **prepare_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* Finishes what is queued, then ends the threads. NULL is fine. */
void prepare_close(struct prepare *p);

/* Takes a reference of its own and runs the exchange's handler on a preparing thread. */
void prepare_push(struct prepare *p, struct exchange *ex);

#endif
