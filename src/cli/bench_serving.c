/* bench_serving.c - radish bench serving: load on a server, ours or another, and what came of it.
 *
 * The work is src/bench's; here flags become options, servers take turns, and reports are printed.
 * With several servers each round sends the same texts to each of them in turn (A B A B), so that
 * what the machine does beside hits all alike, and the medians are compared at the end. Each round
 * has texts of its own, or the second would measure the first one's cache; whoever wants cold
 * caches in every respect says --flush-cache.
 *
 * A failed request is never only a smaller number: it is listed by its kind, and the exit status
 * is 1. */
#include "bench.h"
#include "bench/load_dialog.h"
#include "bench/load_report.h"
#include "bench/load_run.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_LABELS = 8, WARMUP_TOKENS = 32, PROMPTS_USUAL = 32 };

struct serving {
    const struct args *args;
    const struct command *command;
    struct load_target targets[ARGS_PATTERNS_MAX];
    char urls[ARGS_PATTERNS_MAX][512];
    const char *labels[ARGS_PATTERNS_MAX];
    uint32_t n_targets;
    struct load_report *reports; /* [n_targets, n_rounds] */
    bool has_failed;             /* some request */
};

static const char *const endpoint_names[] = {"completions", "chat", "generate"};
static const char *const workload_names[] = {"random",     "shared-prefix", "multi-turn",
                                             "agent-tree", "cold-fan-out",  "trace"};

/* ---- options ---- */

static int check_flags(struct serving *s) {
    const struct args_bench *b = &s->args->bench;
    struct radish_error err = {0};
    enum workload_kind kind = (enum workload_kind)b->workload;
    if (!b->urls.n) return args_refuse(s->command, "--url is missing: which server?");
    if (b->labels.n && b->labels.n != b->urls.n)
        return args_refuse(s->command, "%u --url, but %u --label", b->urls.n, b->labels.n);
    if ((kind == WORKLOAD_TRACE) != (b->trace_path != NULL))
        return args_refuse(s->command, "--workload trace and --trace FILE go together");
    if (b->request_rate > 0 && (kind == WORKLOAD_TRACE || kind == WORKLOAD_COLD_FAN_OUT))
        return args_refuse(s->command, "--request-rate: when requests of %s come is fixed",
                           workload_names[kind]);
    if (b->has_details && !s->args->json && !b->result_path)
        return args_refuse(s->command, "--output-details needs --json or --output-file");
    if (b->extra_body && load_body_check(b->extra_body, &err) != RADISH_OK)
        return args_refuse(s->command, "--extra-request-body: %s", err.msg);
    return -1;
}

static int set_targets(struct serving *s) {
    const struct args_bench *b = &s->args->bench;
    for (; s->n_targets < b->urls.n; s->n_targets++) {
        uint32_t i = s->n_targets;
        const char *url = b->urls.items[i];
        size_t n = strlen(url);
        while (n && url[n - 1] == '/') n--;
        if (n > 3 && !strncmp(url + n - 3, "/v1", 3)) n -= 3;
        if (n >= sizeof s->urls[i] || (strncmp(url, "http://", 7) && strncmp(url, "https://", 8)))
            return args_refuse(s->command,
                               "--url wants something like http://127.0.0.1:30000, "
                               "not '%.80s'",
                               url);
        snprintf(s->urls[i], sizeof s->urls[i], "%.*s", (int)n, url);
        s->labels[i] = b->labels.n ? b->labels.items[i] : s->urls[i];
        s->targets[i] = (struct load_target){.url = s->urls[i],
                                             .label = s->labels[i],
                                             .endpoint = (enum load_endpoint)b->endpoint,
                                             .timeout_seconds = b->timeout_seconds,
                                             .extra = b->extra_body};
        if (b->model_name)
            snprintf(s->targets[i].model, sizeof s->targets[i].model, "%s", b->model_name);
    }
    return -1;
}

static struct workload_options workload_options(const struct serving *s,
                                                const struct load_target *target, uint32_t round) {
    const struct args_bench *b = &s->args->bench;
    enum workload_kind kind = (enum workload_kind)b->workload;
    uint32_t n_usual = kind == WORKLOAD_TRACE ? 0 : PROMPTS_USUAL;
    return (struct workload_options){.kind = kind,
                                     .n_requests = b->n_prompts ? b->n_prompts : n_usual,
                                     .n_groups = b->n_groups,
                                     .n_per_group = b->n_per_group,
                                     .depth = b->depth,
                                     .fan_out = b->fan_out,
                                     .prefix_tokens = b->prefix_tokens,
                                     .input_tokens = b->input_tokens,
                                     .output_tokens = b->output_tokens,
                                     .range_ratio = b->range_ratio,
                                     .request_rate = b->request_rate,
                                     .trace_path = b->trace_path,
                                     .trace_scale = b->trace_scale,
                                     .trace_speed = b->trace_speed,
                                     .seed = b->seed * LOAD_ROUNDS_MAX + round,
                                     .words_per_token = 1 / target->tokens_per_word};
}

/* ---- output ---- */

/* Writes the text and empties it. */
static int flush(struct buf *text) {
    int rc = text->failed ? command_fail("out of memory") : command_write(text->data, text->len);
    buf_clear(text);
    return rc;
}

static int print_report(struct serving *s, const struct load_target *target, uint32_t round,
                        const struct load_report *report, const struct load_run *run) {
    const struct args_bench *b = &s->args->bench;
    char rate[32] = "inf", concurrency[16] = "not set", rounds[32], words[96];
    if (b->request_rate > 0) snprintf(rate, sizeof rate, "%g", b->request_rate);
    if (b->workload == WORKLOAD_TRACE) snprintf(rate, sizeof rate, "trace");
    if (b->n_concurrent_max) snprintf(concurrency, sizeof concurrency, "%u", b->n_concurrent_max);
    snprintf(rounds, sizeof rounds, "%u of %u", round + 1, b->n_rounds);
    snprintf(words, sizeof words, "%.3f, and %.0f per prompt%s", target->tokens_per_word,
             target->tokens_fixed, target->is_calibrated ? "" : " (assumed)");
    const struct load_label labels[N_LABELS] = {
        {"backend", "Backend:", target->label},
        {"endpoint", "Endpoint:", endpoint_names[target->endpoint]},
        {"model", "Model:", target->model},
        {"workload", "Workload:", workload_names[b->workload]},
        {"round", "Round:", rounds},
        {"request_rate", "Traffic request rate:", rate},
        {"max_concurrency", "Max request concurrency:", concurrency},
        {"tokens_per_word", "Tokens per word:", words},
    };
    struct buf text, json;
    buf_init(&text, 0);
    buf_init(&json, 0);
    load_report_json(report, labels, N_LABELS, b->has_details ? run : NULL, &json);
    load_report_table(report, labels, N_LABELS, &text);
    int rc = json.failed || text.failed ? command_fail("out of memory") : -1;
    if (rc < 0 && b->result_path) rc = bench_append_file(b->result_path, &json);
    if (rc < 0) rc = flush(s->args->json ? &json : &text);
    buf_deinit(&text);
    buf_deinit(&json);
    return rc;
}

static void show_progress(void *user, uint32_t n_done, uint32_t n_all) {
    const struct load_target *target = user;
    fprintf(stderr, "\r%.40s: %u of %u requests ", target->label, n_done, n_all);
    if (n_done == n_all) fprintf(stderr, "\r%79s\r", "");
}

/* ---- rounds ---- */

static int run_workload(struct serving *s, struct load_target *target,
                        const struct workload_options *options, struct load_run *run_out) {
    const struct args_bench *b = &s->args->bench;
    struct radish_error err = {0};
    struct workload workload;
    struct load_options load = {.n_concurrent_max = b->n_concurrent_max,
                                .ignores_eos = !b->ignore_eos,
                                .progress_user = target};
    if (isatty(STDERR_FILENO)) load.on_progress = show_progress;
    *run_out = (struct load_run){0};
    enum radish_status status = workload_make(options, &workload, &err);
    if (status == RADISH_OK) status = load_run_make(target, &workload, &load, run_out, &err);
    workload_deinit(&workload);
    return status == RADISH_OK ? -1 : command_fail_error("", &err);
}

/* A few short requests, so that the first one counted does not pay for what is done once. */
static int warm_up(struct serving *s, struct load_target *target) {
    struct workload_options options = workload_options(s, target, 0);
    struct load_run run;
    if (!s->args->bench.n_warmup) return -1;
    options.kind = WORKLOAD_RANDOM;
    options.n_requests = s->args->bench.n_warmup;
    options.n_groups = options.n_per_group = options.depth = options.fan_out = 1;
    options.input_tokens = options.output_tokens = WARMUP_TOKENS;
    options.request_rate = 0;
    options.seed = ~options.seed;
    int rc = run_workload(s, target, &options, &run);
    for (uint32_t i = 0; rc < 0 && i < run.n_records; i++)
        if (run.records[i].failure != LOAD_FINE)
            rc = command_fail("%s: warm-up failed: %s", target->label, run.records[i].why);
    load_run_deinit(&run);
    return rc;
}

static int run_round(struct serving *s, uint32_t t, uint32_t round) {
    struct load_target *target = &s->targets[t];
    struct workload_options options = workload_options(s, target, round);
    struct load_report *report = &s->reports[t * s->args->bench.n_rounds + round];
    struct radish_error err = {0};
    struct load_run run = {0};
    if (s->args->bench.flushes_cache && load_target_flush(target, &err) != RADISH_OK)
        return command_fail_error("--flush-cache", &err);
    int rc = run_workload(s, target, &options, &run);
    if (rc < 0) {
        load_report_make(&run, target, report);
        s->has_failed |= report->figures[LOAD_FAILED] > 0;
        rc = print_report(s, target, round, report, &run);
    }
    load_run_deinit(&run);
    return rc;
}

static int compare(const struct serving *s) {
    struct buf text;
    uint32_t n_rounds = s->args->bench.n_rounds;
    if (s->n_targets < 2 && n_rounds < 2) return -1;
    buf_init(&text, 0);
    if (s->args->json)
        load_report_compare_json(s->reports, s->labels, s->n_targets, n_rounds, &text);
    else
        load_report_compare(s->reports, s->labels, s->n_targets, n_rounds, &text);
    int rc = flush(&text);
    buf_deinit(&text);
    return rc;
}

static int run_all(struct serving *s) {
    const struct args_bench *b = &s->args->bench;
    struct radish_error err = {0};
    int rc = -1;
    http_driver_raise_limits();
    s->reports = calloc((size_t)s->n_targets * b->n_rounds, sizeof *s->reports);
    if (!s->reports) return command_fail("out of memory");
    for (uint32_t t = 0; rc < 0 && t < s->n_targets; t++) {
        if (load_target_open(&s->targets[t], b->api_key, &err) != RADISH_OK)
            rc = command_fail_error("", &err);
        if (rc < 0) rc = warm_up(s, &s->targets[t]);
    }
    for (uint32_t round = 0; rc < 0 && round < b->n_rounds; round++)
        for (uint32_t t = 0; rc < 0 && t < s->n_targets; t++) rc = run_round(s, t, round);
    if (rc < 0) rc = compare(s);
    for (uint32_t t = 0; t < s->n_targets; t++) load_target_close(&s->targets[t]);
    free(s->reports);
    if (rc < 0 && s->has_failed && !b->allows_errors) return EXIT_FAILED;
    return rc;
}

int cmd_bench_serving(struct args *args) {
    struct serving *s = calloc(1, sizeof *s);
    if (!s) return command_fail("out of memory");
    s->args = args;
    s->command = command_by_bit(COMMAND_BENCH_SERVING);
    int rc = args->model ? args_refuse(s->command, "'%.80s' is one argument too many", args->model)
                         : check_flags(s);
    if (rc < 0) rc = set_targets(s);
    if (rc < 0) rc = run_all(s);
    free(s);
    return rc < 0 ? EXIT_DONE : rc;
}
