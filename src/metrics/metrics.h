/* metrics.h - counters and histograms of one owner, and their text: the table is metrics.def.
 *
 * Owns: one cell for each counter, bucket and sum, all made at create. Caller keeps: label values
 * given at create. Threads: any may count and write out at any time, without a lock; a histogram's
 * series has one thread that observes. Nothing but create and write allocates.
 *
 * What others know already (gauges, totals of the scheduler) is not stored here a second time, but
 * told whenever the text is written. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include "radish.h"

#include "base/buf.h"

enum metric {
#define METRIC(id, owner, kind, store, name, label_a, label_b, buckets, help) METRIC_##id,
#include "metrics/metrics.def"
#undef METRIC
    METRIC_COUNT
};

enum metrics_owner { METRICS_OWNER_ENGINE, METRICS_OWNER_SERVER };

/* Sets of label values. */
enum metrics_labels {
    METRICS_LABELS_NONE,
    METRICS_LABELS_SOURCE,    /* cache_source: "device" */
    METRICS_LABELS_STREAMING, /* is_streaming: false, true */
    METRICS_LABELS_STAGE,     /* stage: enum metrics_stage */
    METRICS_LABELS_ENDPOINT,  /* endpoint: given at create */
    METRICS_LABELS_CODE,      /* code: given at create */
    METRICS_LABELS_COUNT
};

enum metrics_stage { METRICS_STAGE_WAITING, METRICS_STAGE_PREFILL, METRICS_STAGE_DECODE };

struct metrics_values {
    const char *const *endpoints; /* [n_endpoints] */
    uint32_t n_endpoints;
    const char *const *codes; /* [n_codes] */
    uint32_t n_codes;
};

struct metrics;

/* values: NULL where the owner has no metric with such labels. E_NOMEM. */
enum radish_status metrics_create(enum metrics_owner owner, const struct metrics_values *values,
                                  struct metrics **metrics_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void metrics_destroy(struct metrics *m);

/* series: index of the label value; of two sets, of the first * number of the second + second. */
void metrics_count(struct metrics *m, enum metric id, uint32_t series, uint64_t n);
void metrics_observe(struct metrics *m, enum metric id, uint32_t series, double seconds);

/* Appends all metrics of the owner. told: [METRIC_COUNT], read where the table says TOLD. labels:
 * of every sample, as metrics_text_label() makes them. Series of two sets that never counted are
 * left out. */
void metrics_write(const struct metrics *m, const double *told, const char *labels,
                   struct buf *out);

#endif
