/* probe.h - what surrounds kernels, and RoPE's variants, measured.
 *
 * Threads: one at a time. Each prints its figures and returns false, with a line that says why,
 * when it could not. is_short: a few repetitions of small sizes, to see that it works. */
#ifndef METAL_CHECK_PROBE_H
#define METAL_CHECK_PROBE_H

#include "radish.h"

/* The device; an empty command buffer, 1,000 tiny dispatches, reading memory: Metal alone. */
bool probe_metal(bool is_short);

/* rope_kv_store: the trio, one head a thread, one dispatch, unfused; at the shapes of the system we
 * follow. */
bool probe_rope(bool is_short);

/* The median of what was measured, which it sorts. n > 0. */
double probe_median(double *x, uint32_t n);

#endif
