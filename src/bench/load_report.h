/* load_report.h - the figures of a run: from records to numbers, to a table for people, to JSON.
 *
 * Headings and keys are those of SGLang's bench_serving where the figure is the same. Threads:
 * one at a time. */
#ifndef BENCH_LOAD_REPORT_H
#define BENCH_LOAD_REPORT_H

#include "radish.h"

#include "base/buf.h"
#include "load_run.h"

/* X(figure, JSON key, heading, digits behind the point, higher is better: 1, lower: -1, neither: 0)
 * in the order of the table; a figure with a section's title begins that section. */
#define LOAD_FIGURE_TABLE(X)                                                                       \
    X(COMPLETED, "completed", "Successful requests:", 0, 0, NULL)                                  \
    X(FAILED, "failed", "Failed requests:", 0, 0, NULL)                                            \
    X(SHORT, "short_answers", "Shorter answers than asked for:", 0, 0, NULL)                       \
    X(DURATION, "duration", "Benchmark duration (s):", 2, -1, NULL)                                \
    X(INPUT, "total_input_tokens", "Total input tokens:", 0, 0, NULL)                              \
    X(OUTPUT, "total_output_tokens", "Total generated tokens:", 0, 0, NULL)                        \
    X(CACHED, "total_cached_tokens", "Total cached tokens:", 0, 0, NULL)                           \
    X(COMPUTED, "total_computed_tokens", "Total computed input tokens:", 0, 0, NULL)               \
    X(REQUEST_RATE, "request_throughput", "Request throughput (req/s):", 2, 1, NULL)               \
    X(INPUT_RATE, "input_throughput", "Input token throughput (tok/s):", 2, 1, NULL)               \
    X(OUTPUT_RATE, "output_throughput", "Output token throughput (tok/s):", 2, 1, NULL)            \
    X(TOTAL_RATE, "total_throughput", "Total token throughput (tok/s):", 2, 1, NULL)               \
    X(CONCURRENCY, "concurrency", "Concurrency:", 2, 0, NULL)                                      \
    X(HIT_RATE, "hit_rate", "Hit rate (%):", 2, 1, "Prefix Cache")                                 \
    X(HIT_CEILING, "hit_rate_ceiling", "Hit rate of an infinite tree (%):", 2, 0, NULL)            \
    X(E2E_MEAN, "mean_e2e_latency_ms", "Mean E2E Latency (ms):", 2, -1, "End-to-End Latency")      \
    X(E2E_MEDIAN, "median_e2e_latency_ms", "Median E2E Latency (ms):", 2, -1, NULL)                \
    X(E2E_P99, "p99_e2e_latency_ms", "P99 E2E Latency (ms):", 2, -1, NULL)                         \
    X(TTFT_MEAN, "mean_ttft_ms", "Mean TTFT (ms):", 2, -1, "Time to First Token")                  \
    X(TTFT_MEDIAN, "median_ttft_ms", "Median TTFT (ms):", 2, -1, NULL)                             \
    X(TTFT_P99, "p99_ttft_ms", "P99 TTFT (ms):", 2, -1, NULL)                                      \
    X(TTFT_MAX, "max_ttft_ms", "Max TTFT (ms):", 2, -1, NULL)                                      \
    X(TPOT_MEAN, "mean_tpot_ms", "Mean TPOT (ms):", 2, -1,                                         \
      "Time per Output Token (excl. 1st token)")                                                   \
    X(TPOT_MEDIAN, "median_tpot_ms", "Median TPOT (ms):", 2, -1, NULL)                             \
    X(TPOT_P99, "p99_tpot_ms", "P99 TPOT (ms):", 2, -1, NULL)                                      \
    X(ITL_MEAN, "mean_itl_ms", "Mean ITL (ms):", 2, -1, "Inter-Token Latency")                     \
    X(ITL_MEDIAN, "median_itl_ms", "Median ITL (ms):", 2, -1, NULL)                                \
    X(ITL_P95, "p95_itl_ms", "P95 ITL (ms):", 2, -1, NULL)                                         \
    X(ITL_P99, "p99_itl_ms", "P99 ITL (ms):", 2, -1, NULL)                                         \
    X(ITL_MAX, "max_itl_ms", "Max ITL (ms):", 2, -1, NULL)                                         \
    X(GAP_MEDIAN, "median_worst_gap_ms", "Median Worst Gap (ms):", 2, -1,                          \
      "Worst Gap of a Stream (between chunks)")                                                    \
    X(GAP_MAX, "max_worst_gap_ms", "Max Worst Gap (ms):", 2, -1, NULL)                             \
    X(DELAY_MAX, "max_start_delay_ms", "Max delay before sending (ms):", 2, 0, "Load Generator")   \
    X(SPREAD, "send_spread_ms", "First to last sent (ms):", 2, 0, NULL)                            \
    X(CPU, "generator_cpu_s", "CPU time (s):", 3, 0, NULL)                                         \
    X(TURN_MAX, "generator_turn_max_ms", "Longest turn (ms):", 2, 0, NULL)

#define LOAD_ROUNDS_MAX 64

enum load_figure {
#define LOAD_FIGURE_ENUM(name, key, heading, digits, better, section) LOAD_##name,
    LOAD_FIGURE_TABLE(LOAD_FIGURE_ENUM)
#undef LOAD_FIGURE_ENUM
        LOAD_FIGURE_COUNT
};

struct load_report {
    double figures[LOAD_FIGURE_COUNT];
    bool has[LOAD_FIGURE_COUNT]; /* false: the server does not tell, or nothing succeeded */
    uint32_t n_failures[LOAD_FAILURE_COUNT];
    char failure_example[200];        /* of the first that failed, or "" */
    bool counts_input, counts_output; /* by the server; else by words, by chunks */
    bool was_warm;                    /* more was cached than the run can have put there */
};

void load_report_make(const struct load_run *run, const struct load_target *target,
                      struct load_report *report_out);

/* What stands above the figures: {key, heading, text}. */
struct load_label {
    const char *key, *heading, *text;
};

/* The table of bench_serving. */
void load_report_table(const struct load_report *report, const struct load_label *labels,
                       size_t n_labels, struct buf *out);

/* One JSON object and a newline; with run, its requests too. */
void load_report_json(const struct load_report *report, const struct load_label *labels,
                      size_t n_labels, const struct load_run *run, struct buf *out);

/* Medians of several reports of each of several servers side by side, and how each compares with
 * the first: reports [n_targets][n_rounds]. */
void load_report_compare(const struct load_report *reports, const char *const *labels,
                         uint32_t n_targets, uint32_t n_rounds, struct buf *out);
/* The same as a JSON object and a newline. */
void load_report_compare_json(const struct load_report *reports, const char *const *labels,
                              uint32_t n_targets, uint32_t n_rounds, struct buf *out);

#endif
