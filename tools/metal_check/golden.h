/* golden.h - the golden vectors repeated on the Metal device, kernel by kernel.
 *
 * Threads: one at a time. */
#ifndef METAL_CHECK_GOLDEN_H
#define METAL_CHECK_GOLDEN_H

#include "radish.h"

/* Repeats the vectors of the file with every row of ops.def for Metal that has cases there, and
 * prints a line for each. Returns how many rows failed; -1: nothing could be run, and why was
 * printed. */
int golden_check(const char *path);

/* Makes the file. Prints why not. */
bool golden_make(const char *path);

#endif
