/* cases.h - which golden vectors there are, and what the reference makes of them.
 *
 * Threads: one at a time. */
#ifndef METAL_CHECK_CASES_H
#define METAL_CHECK_CASES_H

#include "radish.h"

#include "vectors.h"

/* Every case with its inputs: the same on every machine. E_NOMEM. */
enum radish_status cases_make(struct vectors *vectors_out,
                              struct radish_error *err) RADISH_CHECK_RESULT;

/* Fills in what is expected, and the size "bound" of each case: the sum of absolute terms that a
 * row's tolerance is relative to. By the plain C kernels of the CPU in precision exact, and by
 * sample/ for draws. */
enum radish_status cases_expect(struct vectors *vectors,
                                struct radish_error *err) RADISH_CHECK_RESULT;

#endif
