/* load_report.c - figures of a run, by SGLang's definitions where it has them.
 *
 * Percentiles interpolate between neighbours, as numpy does. Times per token: a chunk may carry
 * several tokens (a server that streams every eighth, or that decodes ahead), so a gap between
 * chunks is shared by the tokens it brought: with T output tokens and G gaps, each gap counts as
 * gap x G / (T - 1) when T - 1 > G. The worst gap is never divided: it is what a reader sees.
 * Time per output token (TPOT) is (end - first) / (T - 1) of a request.
 *
 * Tokens are as the server counts; where it does not, input is estimated from words and output is
 * chunks, and the table says so. Cached tokens that a server does not tell are left out, not 0.
 *
 * The hit rate of an infinite tree: the share of each text, in bytes, that had been sent before in
 * the run, times its tokens, and what a prompt has besides its text (template, begin token); but
 * never all: one token of a prompt has to be computed. It is a ceiling for prefix caches to within
 * a token or two for each request, since tokens do not end where bytes stop to agree. A server that
 * is above it has had the texts before the run, which is said. */
#include "load_report.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct figure {
    const char *key, *heading;
    int digits, better;
    const char *section;
};

static const struct figure figures[LOAD_FIGURE_COUNT] = {
#define LOAD_FIGURE_ROW(name, key, heading, digits, better, section)                               \
    {key, heading, digits, better, section},
    LOAD_FIGURE_TABLE(LOAD_FIGURE_ROW)
#undef LOAD_FIGURE_ROW
};

/* Cached tokens a request may have above the ceiling by the estimate alone. */
enum { WARM_SLACK = 4 };

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values; n >= 1. */
static double percentile(const double *sorted, size_t n, double share) {
    double at = share * (double)(n - 1);
    size_t low = (size_t)at;
    if (low + 1 >= n) return sorted[n - 1];
    return sorted[low] + (sorted[low + 1] - sorted[low]) * (at - (double)low);
}

static void set(struct load_report *report, enum load_figure figure, double value) {
    report->figures[figure] = value;
    report->has[figure] = isfinite(value);
}

/* ---- sums ---- */

static double input_tokens(const struct load_record *record, const struct load_target *target) {
    if (record->has_prompt_tokens) return record->prompt_tokens;
    return record->prompt_words * target->tokens_per_word + target->tokens_fixed;
}

struct sums {
    double input, output, cached, shared, latency_s, delay_max_ms;
    uint64_t sent_first, sent_last;
    uint32_t n_done, n_failed, n_short, n_cached_known;
};

static void add_failure(struct load_report *report, const struct load_record *record) {
    report->n_failures[record->failure]++;
    if (report->failure_example[0]) return;
    struct buf text;
    buf_init(&text, 0);
    buf_printf(&text, "%s", load_failure_name(record->failure));
    if (record->failure == LOAD_FAILED_STATUS) buf_printf(&text, " %d", record->status);
    buf_printf(&text, ": %.160s", record->why);
    if (text.data) strncat(report->failure_example, text.data, sizeof report->failure_example - 1);
    buf_deinit(&text);
}

static void sum_up(const struct load_run *run, const struct load_target *target,
                   struct load_report *report, struct sums *s) {
    *s = (struct sums){.sent_first = UINT64_MAX};
    report->counts_input = report->counts_output = true;
    for (uint32_t i = 0; i < run->n_records; i++) {
        const struct load_record *record = &run->records[i];
        if (record->failure != LOAD_FINE) {
            add_failure(report, record);
            s->n_failed++;
            continue;
        }
        double n_input = input_tokens(record, target);
        double fixed = fmin(target->tokens_fixed, n_input);
        double shared = fixed;
        if (record->prompt_bytes)
            shared +=
                (n_input - fixed) * (double)record->shared_bytes / (double)record->prompt_bytes;
        s->n_done++;
        s->input += n_input;
        s->output += record->output_tokens;
        s->cached += record->cached_tokens;
        s->shared += fmin(shared, n_input - 1);
        s->n_cached_known += record->has_cached_tokens;
        s->n_short += record->output_tokens < record->output_tokens_wanted;
        s->latency_s += (double)(record->ended_ns - record->sent_ns) / 1e9;
        s->delay_max_ms = fmax(s->delay_max_ms, (double)(record->sent_ns - record->due_ns) / 1e6);
        if (record->sent_ns < s->sent_first) s->sent_first = record->sent_ns;
        if (record->sent_ns > s->sent_last) s->sent_last = record->sent_ns;
        report->counts_input &= record->has_prompt_tokens;
        report->counts_output &= record->has_output_tokens;
    }
}

static void set_totals(const struct load_run *run, const struct sums *s,
                       struct load_report *report) {
    double duration = (double)run->duration_ns / 1e9;
    set(report, LOAD_COMPLETED, s->n_done);
    set(report, LOAD_FAILED, s->n_failed);
    set(report, LOAD_CPU, (double)run->cpu_ns / 1e9);
    set(report, LOAD_TURN_MAX, (double)run->turn_ns_max / 1e6);
    if (!s->n_done || !(duration > 0)) return;
    set(report, LOAD_SHORT, s->n_short);
    set(report, LOAD_DURATION, duration);
    set(report, LOAD_INPUT, round(s->input));
    set(report, LOAD_OUTPUT, s->output);
    set(report, LOAD_REQUEST_RATE, s->n_done / duration);
    set(report, LOAD_INPUT_RATE, s->input / duration);
    set(report, LOAD_OUTPUT_RATE, s->output / duration);
    set(report, LOAD_TOTAL_RATE, (s->input + s->output) / duration);
    set(report, LOAD_CONCURRENCY, s->latency_s / duration);
    set(report, LOAD_HIT_CEILING, 100 * s->shared / s->input);
    set(report, LOAD_DELAY_MAX, s->delay_max_ms);
    set(report, LOAD_SPREAD, (double)(s->sent_last - s->sent_first) / 1e6);
    if (s->n_cached_known < s->n_done) return;
    set(report, LOAD_CACHED, s->cached);
    set(report, LOAD_COMPUTED, round(s->input - s->cached));
    set(report, LOAD_HIT_RATE, 100 * s->cached / s->input);
    report->was_warm = s->cached > s->shared + WARM_SLACK * s->n_done;
}

/* ---- distributions ---- */

/* Which of a distribution's figures there are; LOAD_FIGURE_COUNT: not this one. */
struct spread {
    enum load_figure mean, median, p95, p99, max;
};

static void set_spread(struct load_report *report, const struct spread *which, double *values,
                       size_t n) {
    double sum = 0;
    if (!n) return;
    qsort(values, n, sizeof *values, compare_doubles);
    for (size_t i = 0; i < n; i++) sum += values[i];
    const struct {
        enum load_figure figure;
        double value;
    } rows[] = {{which->mean, sum / (double)n},
                {which->median, percentile(values, n, 0.5)},
                {which->p95, percentile(values, n, 0.95)},
                {which->p99, percentile(values, n, 0.99)},
                {which->max, values[n - 1]}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].figure != LOAD_FIGURE_COUNT) set(report, rows[i].figure, rows[i].value);
}

static double worst_gap(const struct load_record *record) {
    double worst = 0;
    for (uint32_t i = 0; i + 1 < record->n_chunks; i++) worst = fmax(worst, record->gaps_ms[i]);
    return worst;
}

/* A request's value of kind `kind`, or a negative one: it has none. */
enum value_kind { VALUE_E2E, VALUE_TTFT, VALUE_TPOT, VALUE_GAP };

static double value_of(const struct load_record *record, enum value_kind kind) {
    if (kind == VALUE_E2E) return (double)(record->ended_ns - record->sent_ns) / 1e6;
    if (!record->n_chunks) return -1;
    if (kind == VALUE_TTFT) return (double)(record->first_ns - record->sent_ns) / 1e6;
    if (record->n_chunks < 2) return -1;
    if (kind == VALUE_GAP) return worst_gap(record);
    if (record->output_tokens < 2) return -1;
    return (double)(record->last_ns - record->first_ns) / 1e6 / (record->output_tokens - 1);
}

static void set_values(const struct load_run *run, struct load_report *report, enum value_kind kind,
                       const struct spread *which, double *values) {
    size_t n = 0;
    for (uint32_t i = 0; i < run->n_records; i++) {
        if (run->records[i].failure != LOAD_FINE) continue;
        double value = value_of(&run->records[i], kind);
        if (value >= 0) values[n++] = value;
    }
    set_spread(report, which, values, n);
}

static void set_token_gaps(const struct load_run *run, struct load_report *report, double *values) {
    static const struct spread which = {LOAD_ITL_MEAN, LOAD_ITL_MEDIAN, LOAD_ITL_P95, LOAD_ITL_P99,
                                        LOAD_ITL_MAX};
    size_t n = 0;
    for (uint32_t i = 0; i < run->n_records; i++) {
        const struct load_record *record = &run->records[i];
        if (record->failure != LOAD_FINE || record->n_chunks < 2) continue;
        uint32_t n_gaps = record->n_chunks - 1;
        double share = 1;
        if (record->output_tokens > record->n_chunks)
            share = (double)n_gaps / (record->output_tokens - 1);
        for (uint32_t g = 0; g < n_gaps; g++) values[n++] = record->gaps_ms[g] * share;
    }
    set_spread(report, &which, values, n);
}

void load_report_make(const struct load_run *run, const struct load_target *target,
                      struct load_report *report_out) {
    enum load_figure none = LOAD_FIGURE_COUNT;
    const struct spread e2e = {LOAD_E2E_MEAN, LOAD_E2E_MEDIAN, none, LOAD_E2E_P99, none};
    const struct spread ttft = {LOAD_TTFT_MEAN, LOAD_TTFT_MEDIAN, none, LOAD_TTFT_P99,
                                LOAD_TTFT_MAX};
    const struct spread tpot = {LOAD_TPOT_MEAN, LOAD_TPOT_MEDIAN, none, LOAD_TPOT_P99, none};
    const struct spread gap = {none, LOAD_GAP_MEDIAN, none, none, LOAD_GAP_MAX};
    struct sums sums;
    size_t n_values = run->n_records;
    *report_out = (struct load_report){0};
    sum_up(run, target, report_out, &sums);
    set_totals(run, &sums, report_out);
    for (uint32_t i = 0; i < run->n_records; i++) n_values += run->records[i].n_chunks;
    double *values = malloc(n_values * sizeof *values);
    if (!values) return;
    set_values(run, report_out, VALUE_E2E, &e2e, values);
    set_values(run, report_out, VALUE_TTFT, &ttft, values);
    set_values(run, report_out, VALUE_TPOT, &tpot, values);
    set_values(run, report_out, VALUE_GAP, &gap, values);
    set_token_gaps(run, report_out, values);
    free(values);
}

/* ---- table ---- */

enum { HEADING_WIDTH = 40, TABLE_WIDTH = 50 };

/* "------Title------", as wide as the table. */
static void append_rule(struct buf *out, const char *title, char line) {
    size_t n = strlen(title), left = n < TABLE_WIDTH ? (TABLE_WIDTH - n) / 2 : 0;
    for (size_t i = 0; i < left; i++) buf_append_char(out, line);
    buf_append_str(out, title);
    for (size_t i = left + n; i < TABLE_WIDTH; i++) buf_append_char(out, line);
    buf_append_char(out, '\n');
}

static void append_failures(const struct load_report *report, struct buf *out) {
    for (int i = LOAD_FINE + 1; i < LOAD_FAILURE_COUNT; i++)
        if (report->n_failures[i])
            buf_printf(out, "  %-*s %-10u\n", HEADING_WIDTH - 2,
                       load_failure_name((enum load_failure)i), report->n_failures[i]);
    if (report->failure_example[0]) buf_printf(out, "  first: %s\n", report->failure_example);
}

void load_report_table(const struct load_report *report, const struct load_label *labels,
                       size_t n_labels, struct buf *out) {
    append_rule(out, " Serving Benchmark Result ", '=');
    for (size_t i = 0; i < n_labels; i++)
        buf_printf(out, "%-*s %-10s\n", HEADING_WIDTH, labels[i].heading, labels[i].text);
    for (int i = 0; i < LOAD_FIGURE_COUNT; i++) {
        if (figures[i].section) append_rule(out, figures[i].section, '-');
        if (report->has[i])
            buf_printf(out, "%-*s %-10.*f\n", HEADING_WIDTH, figures[i].heading, figures[i].digits,
                       report->figures[i]);
        else
            buf_printf(out, "%-*s %-10s\n", HEADING_WIDTH, figures[i].heading, "not known");
        if (i == LOAD_FAILED) append_failures(report, out);
    }
    append_rule(out, "", '=');
    if (report->was_warm)
        buf_append_str(out, "The server had these texts before: take another --seed, or "
                            "--flush-cache.\n");
    if (!report->counts_input)
        buf_append_str(out, "The server does not count prompts: input is estimated from words.\n");
    if (!report->counts_output)
        buf_append_str(out, "The server does not count answers: output is counted in chunks.\n");
}

/* ---- comparison ---- */

struct range {
    double median, min, max;
    bool has;
};

static struct range find_range(const struct load_report *reports, uint32_t n_rounds, int figure) {
    double values[LOAD_ROUNDS_MAX];
    size_t n = 0;
    for (uint32_t i = 0; i < n_rounds && n < LOAD_ROUNDS_MAX; i++)
        if (reports[i].has[figure]) values[n++] = reports[i].figures[figure];
    if (!n) return (struct range){0};
    qsort(values, n, sizeof *values, compare_doubles);
    return (struct range){percentile(values, n, 0.5), values[0], values[n - 1], true};
}

/* How many times as good as the first: above 1 is better. 0: that makes no sense. */
static double find_ratio(struct range first, struct range other, int better) {
    if (!better || !first.has || !other.has || !(first.median > 0) || !(other.median > 0)) return 0;
    return better > 0 ? other.median / first.median : first.median / other.median;
}

void load_report_compare(const struct load_report *reports, const char *const *labels,
                         uint32_t n_targets, uint32_t n_rounds, struct buf *out) {
    buf_printf(out, "Median of %u rounds (smallest to largest); x = as good as %s\n", n_rounds,
               labels[0]);
    buf_printf(out, "%-*s", HEADING_WIDTH, "");
    for (uint32_t t = 0; t < n_targets; t++) buf_printf(out, "  %-34.34s", labels[t]);
    buf_append_char(out, '\n');
    for (int i = 0; i < LOAD_FIGURE_COUNT; i++) {
        struct range first = find_range(reports, n_rounds, i);
        buf_printf(out, "%-*s", HEADING_WIDTH, figures[i].heading);
        for (uint32_t t = 0; t < n_targets; t++) {
            struct range range = find_range(reports + (size_t)t * n_rounds, n_rounds, i);
            double ratio = t ? find_ratio(first, range, figures[i].better) : 0;
            struct buf cell;
            buf_init(&cell, 0);
            if (range.has)
                buf_printf(&cell, "%.*f (%.*f to %.*f)", figures[i].digits, range.median,
                           figures[i].digits, range.min, figures[i].digits, range.max);
            if (ratio > 0) buf_printf(&cell, " %.2fx", ratio);
            buf_printf(out, "  %-34s", cell.data ? cell.data : "not known");
            buf_deinit(&cell);
        }
        buf_append_char(out, '\n');
    }
}

/* ---- JSON ---- */

/* With as many digits as mean something. */
static void add_figure(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, bool has,
                       double value, int digits) {
    double unit = digits ? pow(10, digits + 3) : 1;
    if (!has)
        yyjson_mut_obj_add_null(doc, obj, key);
    else if (!digits)
        yyjson_mut_obj_add_sint(doc, obj, key, (int64_t)value);
    else
        yyjson_mut_obj_add_real(doc, obj, key, round(value * unit) / unit);
}

static void add_request(yyjson_mut_doc *doc, yyjson_mut_val *obj,
                        const struct load_record *record) {
    double sent_ms = (double)record->sent_ns / 1e6;
    add_figure(doc, obj, "sent_ms", record->ended_ns, sent_ms, 1);
    add_figure(doc, obj, "e2e_ms", record->ended_ns, value_of(record, VALUE_E2E), 1);
    add_figure(doc, obj, "ttft_ms", record->n_chunks, value_of(record, VALUE_TTFT), 1);
    add_figure(doc, obj, "input_tokens", record->has_prompt_tokens, record->prompt_tokens, 0);
    add_figure(doc, obj, "output_tokens", record->ended_ns, record->output_tokens, 0);
    add_figure(doc, obj, "cached_tokens", record->has_cached_tokens, record->cached_tokens, 0);
    if (record->failure != LOAD_FINE) {
        yyjson_mut_obj_add_str(doc, obj, "failure", load_failure_name(record->failure));
        yyjson_mut_obj_add_int(doc, obj, "status", record->status);
        yyjson_mut_obj_add_str(doc, obj, "error", record->why);
    }
    yyjson_mut_val *gaps = yyjson_mut_obj_add_arr(doc, obj, "gaps_ms");
    for (uint32_t g = 0; g + 1 < record->n_chunks; g++)
        yyjson_mut_arr_add_real(doc, gaps, round(record->gaps_ms[g] * 1e3) / 1e3);
}

static void append_document(yyjson_mut_doc *doc, struct buf *out) {
    size_t len = 0;
    char *text = doc ? yyjson_mut_write(doc, 0, &len) : NULL;
    if (text) {
        buf_append(out, text, len);
        buf_append_char(out, '\n');
    } else {
        out->failed = true;
    }
    free(text);
    yyjson_mut_doc_free(doc);
}

/* A document with an object; NULL: out of memory. */
static yyjson_mut_doc *new_document(yyjson_mut_val **root_out) {
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    *root_out = doc ? yyjson_mut_obj(doc) : NULL;
    if (doc) yyjson_mut_doc_set_root(doc, *root_out);
    return doc;
}

void load_report_json(const struct load_report *report, const struct load_label *labels,
                      size_t n_labels, const struct load_run *run, struct buf *out) {
    yyjson_mut_val *root;
    yyjson_mut_doc *doc = new_document(&root);
    for (size_t i = 0; i < n_labels; i++)
        yyjson_mut_obj_add_str(doc, root, labels[i].key, labels[i].text);
    for (int i = 0; i < LOAD_FIGURE_COUNT; i++)
        add_figure(doc, root, figures[i].key, report->has[i], report->figures[i],
                   figures[i].digits);
    yyjson_mut_val *failures = yyjson_mut_obj_add_obj(doc, root, "failures");
    for (int i = LOAD_FINE + 1; i < LOAD_FAILURE_COUNT; i++)
        if (report->n_failures[i])
            yyjson_mut_obj_add_uint(doc, failures, load_failure_name((enum load_failure)i),
                                    report->n_failures[i]);
    if (report->failure_example[0])
        yyjson_mut_obj_add_str(doc, root, "first_failure", report->failure_example);
    yyjson_mut_obj_add_bool(doc, root, "was_warm", report->was_warm);
    if (run) {
        yyjson_mut_val *requests = yyjson_mut_obj_add_arr(doc, root, "requests");
        for (uint32_t i = 0; i < run->n_records; i++)
            add_request(doc, yyjson_mut_arr_add_obj(doc, requests), &run->records[i]);
    }
    append_document(doc, out);
}

static void add_medians(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct load_report *first,
                        const struct load_report *reports, uint32_t n_rounds) {
    yyjson_mut_val *ratios = NULL;
    for (int i = 0; i < LOAD_FIGURE_COUNT; i++) {
        struct range range = find_range(reports, n_rounds, i);
        add_figure(doc, obj, figures[i].key, range.has, range.median, figures[i].digits);
        double ratio = find_ratio(find_range(first, n_rounds, i), range, figures[i].better);
        if (first == reports || !(ratio > 0)) continue;
        if (!ratios) ratios = yyjson_mut_obj_add_obj(doc, obj, "as_good_as_first");
        add_figure(doc, ratios, figures[i].key, true, ratio, 1);
    }
}

void load_report_compare_json(const struct load_report *reports, const char *const *labels,
                              uint32_t n_targets, uint32_t n_rounds, struct buf *out) {
    yyjson_mut_val *root;
    yyjson_mut_doc *doc = new_document(&root);
    yyjson_mut_obj_add_uint(doc, root, "rounds", n_rounds);
    yyjson_mut_val *medians = yyjson_mut_obj_add_arr(doc, root, "medians");
    for (uint32_t t = 0; t < n_targets; t++) {
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, medians);
        yyjson_mut_obj_add_str(doc, obj, "label", labels[t]);
        add_medians(doc, obj, reports, reports + (size_t)t * n_rounds, n_rounds);
    }
    append_document(doc, out);
}
