/* bench.c - figures as rows: median, smallest, largest, in columns or as JSON.
 *
 * Names of benchmarks and units are our own words without quotes or backslashes, so JSON needs no
 * escaping. Rows are written one by one, so that a long benchmark shows that it is alive. */
#include "bench.h"

#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_add(struct bench_row *row, double figure) {
    if (row->n_figures < BENCH_RUNS_MAX) row->figures[row->n_figures++] = figure;
}

static int compare_figures(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_print(struct bench_row *row, bool json) {
    struct buf line;
    uint32_t n = row->n_figures;
    if (!n) return -1;
    qsort(row->figures, n, sizeof *row->figures, compare_figures);
    double median = (row->figures[(n - 1) / 2] + row->figures[n / 2]) / 2;
    buf_init(&line, 4096);
    buf_printf(&line,
               json ? "{\"bench\": \"%s\", \"what\": \"%s\", \"%s\": %llu, \"unit\": \"%s\", "
                      "\"median\": %.4g, \"min\": %.4g, \"max\": %.4g, \"runs\": %u}\n"
                    : "%-6s %-40s %8s %8llu  %-9s %10.4g  (%.4g to %.4g, %u runs)\n",
               row->bench, row->what, row->size_name, (unsigned long long)row->size, row->unit,
               median, row->figures[0], row->figures[n - 1], n);
    row->n_figures = 0;
    int rc = line.failed ? command_fail("out of memory") : command_write(line.data, line.len);
    buf_deinit(&line);
    return rc;
}

int bench_append_file(const char *path, const struct buf *text) {
    FILE *file = fopen(path, "a");
    bool ok = file && fwrite(text->data, 1, text->len, file) == text->len;
    int error = errno;
    if (file && fclose(file)) ok = false, error = errno;
    return ok ? -1 : command_fail("%s: %s", path, strerror(error));
}
