/* metrics_text.h - Prometheus' text format, version 0.0.4, into a buffer.
 *
 * A family is a comment of two lines and its samples; labels are built apart, once, and given to
 * every sample. Owns nothing. Threads: one at a time per buffer. Failure sticks to the buffer. */
#ifndef METRICS_METRICS_TEXT_H
#define METRICS_METRICS_TEXT_H

#include "radish.h"

#include "base/buf.h"

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metrics_kind { METRICS_GAUGE, METRICS_COUNTER, METRICS_HISTOGRAM };

/* # HELP and # TYPE. */
void metrics_text_family(struct buf *out, const char *name, enum metrics_kind kind,
                         const char *help);

/* name="value", with a comma before it if out is not empty. What is no UTF-8 in value becomes
 * U+FFFD. */
void metrics_text_label(struct buf *out, const char *name, const char *value);

/* A value that is not finite is written as 0: a figure that cannot be told is none. labels: as
 * metrics_text_label() made them, or "". */
void metrics_text_sample(struct buf *out, const char *name, const char *labels, double value);

/* counts[n_bounds + 1]: values at most bounds[i], and not in a bucket before; the last is of those
 * above all bounds. Ends in +Inf, _sum and _count. */
void metrics_text_histogram(struct buf *out, const char *name, const char *labels,
                            const double *bounds, uint32_t n_bounds, const uint64_t *counts,
                            double sum);

#endif
