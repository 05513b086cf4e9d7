/* metrics.c - cells for what is counted, and the walk over the table that writes them.
 *
 * The problem: the engine counts in the middle of a step, for each token, while other threads read.
 * The idea: all cells are 64-bit atomics in one array made at create. Counting is a relaxed add;
 * observing is a search over some twenty bounds and two stores, since one thread alone observes in
 * a series; nobody takes a lock. A reader may see a time in the sum that is not in its bucket yet;
 * it never sees a bucket and a count that disagree, because the count is not stored but added up
 * from the buckets that are written.
 *
 *   cells   | REQUESTS false, true | TTFT <= .1, <= .2, ..., above, sum | ITL ... |
 *             first[METRIC_REQUESTS] first[METRIC_TTFT]
 *
 * The sum of a histogram is a double in such a cell. Buckets of latencies are those of SGLang, so
 * that its dashboards fit; waiting and stages, for which none were agreed, get finer ones, since
 * queues of a quiet server are short.
 *
 * Cost: under 0.1 us for a token's latency and about 1 ms for the engine's text of 19 KB, on a
 * machine that was busy otherwise (2026-11). */
#include "metrics.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "metrics_text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum metrics_store { STORE_KEPT, STORE_TOLD };

enum metrics_buckets { BUCKETS_NONE, BUCKETS_TTFT, BUCKETS_E2E, BUCKETS_ITL, BUCKETS_STAGE };

/* clang-format off */
#define TTFT_BOUNDS .1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400
/* clang-format on */
static const double ttft_bounds[] = {TTFT_BOUNDS};
static const double e2e_bounds[] = {TTFT_BOUNDS, 600, 1200, 1800, 2400};
static const double itl_bounds[] = {.002, .004, .006, .008, .010, .015, .020, .025,
                                    .030, .035, .040, .060, .080, .1,   .2,   .4,
                                    .6,   .8,   1,    2,    4,    6,    8};
static const double stage_bounds[] = {.001, .005, .01, .05, .1,  .2,  .5,  1,   2,
                                      5,    10,   20,  50,  100, 200, 500, 1000};

#define BOUNDS(array)                                                                              \
    { array, sizeof(array) / sizeof *(array) }
static const struct {
    const double *bounds; /* [n] */
    uint32_t n;
} buckets[] = {[BUCKETS_TTFT] = BOUNDS(ttft_bounds),
               [BUCKETS_E2E] = BOUNDS(e2e_bounds),
               [BUCKETS_ITL] = BOUNDS(itl_bounds),
               [BUCKETS_STAGE] = BOUNDS(stage_bounds)};

static const struct row {
    enum metrics_owner owner;
    enum metrics_kind kind;
    enum metrics_store store;
    const char *name;
    enum metrics_labels labels[2];
    enum metrics_buckets buckets;
    const char *help;
} rows[METRIC_COUNT] = {
#define METRIC(id, owner_, kind_, store_, name_, label_a, label_b, buckets_, help_)                \
    {.owner = METRICS_OWNER_##owner_,                                                              \
     .kind = METRICS_##kind_,                                                                      \
     .store = STORE_##store_,                                                                      \
     .name = name_,                                                                                \
     .labels = {METRICS_LABELS_##label_a, METRICS_LABELS_##label_b},                               \
     .buckets = BUCKETS_##buckets_,                                                                \
     .help = help_},
#include "metrics/metrics.def"
#undef METRIC
};

static const char *const label_names[METRICS_LABELS_COUNT] = {
    [METRICS_LABELS_SOURCE] = "cache_source", [METRICS_LABELS_STREAMING] = "is_streaming",
    [METRICS_LABELS_STAGE] = "stage",         [METRICS_LABELS_ENDPOINT] = "endpoint",
    [METRICS_LABELS_CODE] = "code",
};
static const char *const sources[] = {"device"};
static const char *const streamings[] = {"false", "true"};
static const char *const stages[] = {[METRICS_STAGE_WAITING] = "prefill_waiting",
                                     [METRICS_STAGE_PREFILL] = "prefill_forward",
                                     [METRICS_STAGE_DECODE] = "decode_forward"};

struct label_set {
    const char *const *values; /* [n]; of NONE one, that is not written */
    uint32_t n;
};

struct metrics {
    enum metrics_owner owner;
    struct label_set sets[METRICS_LABELS_COUNT];
    size_t first[METRIC_COUNT]; /* cell */
    _Atomic uint64_t *cells;
};

static bool is_kept(const struct metrics *m, enum metric id) {
    return rows[id].owner == m->owner && rows[id].store == STORE_KEPT;
}

/* Of one series: a count, or buckets, the one above all bounds, and the sum. */
static size_t n_cells(enum metric id) {
    return rows[id].kind == METRICS_HISTOGRAM ? buckets[rows[id].buckets].n + 2 : 1;
}

static uint32_t n_series(const struct metrics *m, enum metric id) {
    return m->sets[rows[id].labels[0]].n * m->sets[rows[id].labels[1]].n;
}

enum radish_status metrics_create(enum metrics_owner owner, const struct metrics_values *values,
                                  struct metrics **metrics_out, struct radish_error *err) {
    *metrics_out = NULL;
    struct metrics *m = mem_zalloc(1, sizeof *m);
    if (!m) return error_nomem(err);
    m->owner = owner;
    m->sets[METRICS_LABELS_NONE].n = 1;
    m->sets[METRICS_LABELS_SOURCE] = (struct label_set){sources, 1};
    m->sets[METRICS_LABELS_STREAMING] = (struct label_set){streamings, 2};
    m->sets[METRICS_LABELS_STAGE] = (struct label_set){stages, sizeof stages / sizeof *stages};
    if (values) {
        m->sets[METRICS_LABELS_ENDPOINT] =
            (struct label_set){values->endpoints, values->n_endpoints};
        m->sets[METRICS_LABELS_CODE] = (struct label_set){values->codes, values->n_codes};
    }
    size_t n = 0;
    for (enum metric id = 0; id < METRIC_COUNT; id++) {
        m->first[id] = n;
        if (is_kept(m, id)) n += n_series(m, id) * n_cells(id);
    }
    m->cells = mem_zalloc(n + 1, sizeof *m->cells);
    if (!m->cells) {
        metrics_destroy(m);
        return error_nomem(err);
    }
    *metrics_out = m;
    return RADISH_OK;
}

void metrics_destroy(struct metrics *m) {
    if (!m) return;
    free(m->cells);
    free(m);
}

static _Atomic uint64_t *series_cells(const struct metrics *m, enum metric id, uint32_t series) {
    RADISH_ASSERT(is_kept(m, id) && series < n_series(m, id));
    return m->cells + m->first[id] + series * n_cells(id);
}

void metrics_count(struct metrics *m, enum metric id, uint32_t series, uint64_t n) {
    atomic_fetch_add_explicit(series_cells(m, id, series), n, memory_order_relaxed);
}

static double load_double(const _Atomic uint64_t *cell) {
    uint64_t bits = atomic_load_explicit(cell, memory_order_relaxed);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void metrics_observe(struct metrics *m, enum metric id, uint32_t series, double seconds) {
    _Atomic uint64_t *cells = series_cells(m, id, series);
    uint32_t n = buckets[rows[id].buckets].n, at = 0;
    const double *bounds = buckets[rows[id].buckets].bounds;
    while (at < n && !(seconds <= bounds[at])) at++;
    double sum = load_double(&cells[n + 1]) + seconds;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    atomic_store_explicit(&cells[n + 1], bits, memory_order_relaxed);
    uint64_t n_before = atomic_load_explicit(&cells[at], memory_order_relaxed);
    atomic_store_explicit(&cells[at], n_before + 1, memory_order_relaxed);
}

/* ---- text ---- */

static void write_series(const struct metrics *m, enum metric id, uint32_t series,
                         const double *told, const char *labels, struct buf *out) {
    const struct row *row = &rows[id];
    if (row->store == STORE_TOLD) {
        metrics_text_sample(out, row->name, labels, told[id]);
        return;
    }
    const _Atomic uint64_t *cells = series_cells(m, id, series);
    if (row->kind != METRICS_HISTOGRAM) {
        uint64_t n = atomic_load_explicit(cells, memory_order_relaxed);
        metrics_text_sample(out, row->name, labels, (double)n);
        return;
    }
    uint64_t counts[sizeof itl_bounds / sizeof *itl_bounds + 1];
    uint32_t n = buckets[row->buckets].n;
    RADISH_INVARIANT(n < sizeof counts / sizeof *counts, "a histogram has %u bounds", n);
    for (uint32_t i = 0; i <= n; i++)
        counts[i] = atomic_load_explicit(&cells[i], memory_order_relaxed);
    metrics_text_histogram(out, row->name, labels, buckets[row->buckets].bounds, n, counts,
                           load_double(&cells[n + 1]));
}

/* Combinations of two sets are many, and most never happen. */
static bool is_left_out(const struct metrics *m, enum metric id, uint32_t series) {
    if (rows[id].store == STORE_TOLD || rows[id].labels[1] == METRICS_LABELS_NONE) return false;
    return !atomic_load_explicit(series_cells(m, id, series), memory_order_relaxed);
}

static void write_metric(const struct metrics *m, enum metric id, const double *told,
                         const char *labels, struct buf *scratch, struct buf *out) {
    const struct row *row = &rows[id];
    const struct label_set *a = &m->sets[row->labels[0]], *b = &m->sets[row->labels[1]];
    metrics_text_family(out, row->name, row->kind, row->help);
    for (uint32_t series = 0; series < a->n * b->n; series++) {
        if (is_left_out(m, id, series)) continue;
        buf_clear(scratch);
        buf_append_str(scratch, labels);
        if (a->values)
            metrics_text_label(scratch, label_names[row->labels[0]], a->values[series / b->n]);
        if (b->values)
            metrics_text_label(scratch, label_names[row->labels[1]], b->values[series % b->n]);
        write_series(m, id, series, told, scratch->data ? scratch->data : "", out);
        out->failed |= scratch->failed;
    }
}

void metrics_write(const struct metrics *m, const double *told, const char *labels,
                   struct buf *out) {
    struct buf scratch;
    buf_init(&scratch, 0);
    for (enum metric id = 0; id < METRIC_COUNT; id++)
        if (rows[id].owner == m->owner) write_metric(m, id, told, labels, &scratch, out);
    buf_deinit(&scratch);
}
