/* metrics_text.c - what a Prometheus server reads, byte by byte.
 *
 *   # HELP sglang:queue_time_seconds From a request's submission ...
 *   # TYPE sglang:queue_time_seconds histogram
 *   sglang:queue_time_seconds_bucket{model_name="m",le="0.1"} 3
 *   sglang:queue_time_seconds_bucket{model_name="m",le="+Inf"} 4        cumulative
 *   sglang:queue_time_seconds_sum{model_name="m"} 0.52
 *   sglang:queue_time_seconds_count{model_name="m"} 4                   == the +Inf bucket
 *
 * A label's value may be any text (a model's name is a path that somebody chose): backslash, quote
 * and line feed are escaped, and what is no UTF-8 is replaced, since one bad byte makes a scraper
 * refuse the whole page. Numbers are written with as few digits as give the same double back. */
#include "metrics_text.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"gauge", "counter", "histogram"};

static void append_escaped(struct buf *out, const char *text, bool has_quotes) {
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            buf_append_str(out, "\\\\");
        else if (*c == '\n')
            buf_append_str(out, "\\n");
        else if (*c == '"' && has_quotes)
            buf_append_str(out, "\\\"");
        else
            buf_append_char(out, *c);
    }
}

void metrics_text_family(struct buf *out, const char *name, enum metrics_kind kind,
                         const char *help) {
    buf_printf(out, "# HELP %s ", name);
    append_escaped(out, help, /*has_quotes=*/false);
    buf_printf(out, "\n# TYPE %s %s\n", name, kind_names[kind]);
}

void metrics_text_label(struct buf *out, const char *name, const char *value) {
    struct buf valid;
    buf_init(&valid, 0);
    size_t len = strlen(value);
    for (size_t at = 0; at < len;) {
        size_t n = utf8_valid_prefix(value + at, len - at);
        buf_append(&valid, value + at, n);
        at += n;
        if (at == len) break;
        buf_append_utf8(&valid, 0xFFFD);
        at++;
    }
    buf_printf(out, "%s%s=\"", out->len ? "," : "", name);
    append_escaped(out, valid.data ? valid.data : "", /*has_quotes=*/true);
    buf_append_char(out, '"');
    out->failed |= valid.failed;
    buf_deinit(&valid);
}

static void append_number(struct buf *out, double value) {
    char text[40];
    if (!isfinite(value)) value = 0;
    if (fabs(value) < 1e15 && value == (double)(int64_t)value) {
        buf_printf(out, "%" PRId64, (int64_t)value);
        return;
    }
    for (int digits = 15; digits <= 17; digits += 2) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    buf_append_str(out, text);
}

static void append_series(struct buf *out, const char *name, const char *suffix,
                          const char *labels) {
    buf_printf(out, *labels ? "%s%s{%s} " : "%s%s%s ", name, suffix, labels);
}

void metrics_text_sample(struct buf *out, const char *name, const char *labels, double value) {
    append_series(out, name, "", labels);
    append_number(out, value);
    buf_append_char(out, '\n');
}

void metrics_text_histogram(struct buf *out, const char *name, const char *labels,
                            const double *bounds, uint32_t n_bounds, const uint64_t *counts,
                            double sum) {
    uint64_t n = 0;
    for (uint32_t i = 0; i <= n_bounds; i++) {
        n += counts[i];
        buf_printf(out, "%s_bucket{%s%sle=\"", name, labels, *labels ? "," : "");
        if (i < n_bounds)
            append_number(out, bounds[i]);
        else
            buf_append_str(out, "+Inf");
        buf_printf(out, "\"} %" PRIu64 "\n", n);
    }
    append_series(out, name, "_sum", labels);
    append_number(out, sum);
    buf_append_char(out, '\n');
    append_series(out, name, "_count", labels);
    buf_printf(out, "%" PRIu64 "\n", n);
}
