/* bench.h - what the benchmarks of 'radish bench' share: how often a thing is measured, and how its
 * figures are printed.
 *
 * A measurement is taken several times; the median is the figure, with the smallest and the largest
 * beside it. Rows go to stdout at once, as a table or (--json) as one JSON object a line. Threads:
 * main thread only. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "radish.h"

#include "args.h"
#include "base/buf.h"

enum { BENCH_RUNS_MAX = 64 };

/* What is measured, and the figures so far. */
struct bench_row {
    const char *bench, *what; /* "radix", "match, slots in one run" */
    const char *size_name;    /* what `size` counts: "nodes" */
    uint64_t size;
    const char *unit; /* "ns/token" */
    double figures[BENCH_RUNS_MAX];
    uint32_t n_figures;
};

void bench_add(struct bench_row *row, double figure); /* at most BENCH_RUNS_MAX */

/* Prints the row and forgets its figures. -1, or an exit status after a message. */
int bench_print(struct bench_row *row, bool json);

/* Adds text to the end of a file. -1, or an exit status after a message. */
int bench_append_file(const char *path, const struct buf *text);

/* The benchmarks: -1, or an exit status after a message. */
int bench_radix(const struct args *args);
int bench_sched(const struct args *args);
int bench_kernels(const struct args *args);

#endif
