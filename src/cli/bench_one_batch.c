/* bench_one_batch.c - radish bench one-batch: what prefill and decode cost with nothing around
 * them.
 *
 * No server, no scheduler, no tree: B prompts are laid out in the KV pool by hand, computed in
 * steps of at most a chunk, and continued greedily together, one token each a step. What remains is
 * the model, the kernels and the pool's layout, so this is where a change of a kernel shows, and
 * what a server's figures are to be held against.
 *
 * The lines and the JSON keys are those of SGLang's bench_one_batch, so that scripts that read one
 * read the other: prefill throughput is input tokens by its time, decode throughput is of the
 * median step, the total counts input and output. The first token of an answer belongs to the
 * prefill: of N output tokens N - 1 are decode steps. Greedy sampling is inside the time.
 *
 * --correctness-test computes a few prompts in two parts and again in one, shows the logits of both
 * and says whether their bits agree, which is radish's promise. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "bench.h"
#include "command.h"
#include "one_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP_OUTPUT_MAX = 32, DECODE_LINES = 5, SHOWN_LOGITS = 6, CUT_USUAL = 4 };

/* Of one combination. */
struct figures {
    uint32_t batch_size, input_len, output_len;
    double prefill_s, decode_median_s, total_s;
};

/* ---- one combination ---- */

static double seconds_since(uint64_t begun_ns) {
    return (double)(clock_ns() - begun_ns) / 1e9;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int decode(struct one_batch *o, struct figures *f, double *times, bool is_loud) {
    uint32_t every = o->args->bench.log_decode_step, n = f->output_len - 1;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t begun = clock_ns();
        int rc = one_batch_decode(o);
        if (rc >= 0) return rc;
        times[i] = seconds_since(begun);
        f->total_s += times[i];
        if (is_loud && (i < DECODE_LINES || (every && i % every == 0)))
            printf("Decode %u. Batch size: %u, latency: %6.5f s, throughput: %9.2f token/s\n", i,
                   f->batch_size, times[i], f->batch_size / times[i]);
    }
    qsort(times, n, sizeof *times, compare_doubles);
    if (n) f->decode_median_s = (times[(n - 1) / 2] + times[n / 2]) / 2;
    return -1;
}

/* figures: the lengths on entry. */
static int run_once(struct one_batch *o, struct figures *f, bool is_loud) {
    double *times = mem_zalloc(f->output_len, sizeof *times);
    if (!times) return command_fail("out of memory");
    int rc = one_batch_begin(o, f->batch_size, f->input_len + f->output_len);
    for (uint32_t i = 0; i < o->n_seqs; i++) one_batch_set_prompt(o, i, f->input_len);
    if (rc < 0) {
        uint64_t begun = clock_ns();
        rc = one_batch_prefill(o);
        f->total_s = f->prefill_s = seconds_since(begun);
        if (is_loud && rc < 0)
            printf("Prefill. latency: %6.5f s, throughput: %9.2f token/s\n", f->prefill_s,
                   (double)f->batch_size * f->input_len / f->prefill_s);
        if (rc < 0) rc = decode(o, f, times, is_loud);
        one_batch_end(o, f->input_len + f->output_len);
    }
    free(times);
    return rc;
}

static double total_rate(const struct figures *f) {
    return ((double)f->input_len + f->output_len) * f->batch_size / f->total_s;
}

/* The JSON line; keys of a decode only where there was one. */
static int write_json(const struct one_batch *o, const struct figures *f, struct buf *out) {
    size_t len;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    double decode_s = f->decode_median_s;
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "run_name", o->args->bench.run_name);
    yyjson_mut_obj_add_uint(doc, root, "batch_size", f->batch_size);
    yyjson_mut_obj_add_uint(doc, root, "input_len", f->input_len);
    yyjson_mut_obj_add_uint(doc, root, "output_len", f->output_len);
    yyjson_mut_obj_add_real(doc, root, "prefill_latency", f->prefill_s);
    yyjson_mut_obj_add_real(doc, root, "prefill_throughput",
                            (double)f->batch_size * f->input_len / f->prefill_s);
    if (f->output_len > 1) {
        yyjson_mut_obj_add_real(doc, root, "median_decode_latency", decode_s);
        yyjson_mut_obj_add_real(doc, root, "median_decode_throughput", f->batch_size / decode_s);
    }
    yyjson_mut_obj_add_real(doc, root, "total_latency", f->total_s);
    yyjson_mut_obj_add_real(doc, root, "overall_throughput", total_rate(f));
    char *text = doc ? yyjson_mut_write(doc, 0, &len) : NULL;
    if (text) buf_printf(out, "%s\n", text);
    bool ok = text && !out->failed;
    free(text);
    yyjson_mut_doc_free(doc);
    return ok ? -1 : command_fail("out of memory");
}

static int report(const struct one_batch *o, const struct figures *f) {
    const struct args_bench *b = &o->args->bench;
    struct buf json;
    buf_init(&json, 0);
    int rc = write_json(o, f, &json);
    if (rc < 0 && b->result_path) rc = bench_append_file(b->result_path, &json);
    if (rc < 0 && o->args->json) rc = command_write(json.data, json.len);
    buf_deinit(&json);
    if (o->args->json || rc >= 0) return rc;
    if (f->output_len > 1)
        printf("Decode.  median latency: %6.5f s, median throughput: %9.2f token/s\n",
               f->decode_median_s, f->batch_size / f->decode_median_s);
    printf("Total. latency: %6.3f s, throughput: %9.2f token/s\n", f->total_s, total_rate(f));
    return command_write("", 0);
}

static int run_all(struct one_batch *o) {
    const struct args_bench *b = &o->args->bench;
    uint32_t n_warm = b->output_lens.items[0];
    struct figures warm = {.batch_size = b->batch_sizes.items[0],
                           .input_len = b->input_lens.items[0],
                           .output_len = n_warm < WARMUP_OUTPUT_MAX ? n_warm : WARMUP_OUTPUT_MAX};
    bool is_loud = !o->args->json;
    if (is_loud) puts("Warmup ...");
    int rc = run_once(o, &warm, is_loud);
    if (rc < 0 && is_loud) rc = command_write("Benchmark ...\n", 14);
    for (uint32_t i = 0; i < b->batch_sizes.n; i++)
        for (uint32_t j = 0; j < b->input_lens.n; j++)
            for (uint32_t k = 0; rc < 0 && k < b->output_lens.n; k++) {
                struct figures f = {.batch_size = b->batch_sizes.items[i],
                                    .input_len = b->input_lens.items[j],
                                    .output_len = b->output_lens.items[k]};
                rc = run_once(o, &f, is_loud);
                if (rc < 0) rc = report(o, &f);
            }
    return rc;
}

/* ---- the correctness test ---- */

static const char *const prompts_usual[] = {"The capital of France is",
                                            "The capital of the United Kingdom is",
                                            "Today is a sunny day and I like"};

static void show_logits(const struct one_batch *o, const char *what) {
    printf("\n%s\n", what);
    for (uint32_t i = 0; i < o->n_seqs; i++) {
        const float *row = o->kept_logits + (size_t)i * o->model->config.n_vocab;
        for (uint32_t k = 0; k < SHOWN_LOGITS && k < o->model->config.n_vocab; k++)
            printf("%s%.6g", k ? ", " : "  [", (double)row[k]);
        puts(", ...]");
    }
}

/* The first n_first tokens of each prompt (all but one at most), then the rest. */
static int prefill_in_parts(struct one_batch *o, uint32_t n_first) {
    for (uint32_t i = 0; i < o->n_seqs; i++) {
        uint32_t len = (uint32_t)o->prompt_lens[i];
        one_batch_set_prompt(o, i, n_first < len ? n_first : len > 1 ? len - 1 : 1);
    }
    int rc = one_batch_prefill(o);
    if (rc >= 0) return rc;
    show_logits(o, "prefill logits (first part):");
    for (uint32_t i = 0; i < o->n_seqs; i++) {
        uint32_t n_cached = o->seqs[i].n_cached, len = (uint32_t)o->prompt_lens[i];
        one_batch_set_prompt(o, i, len);
        o->seqs[i].n_cached = n_cached < len ? n_cached : len - 1;
    }
    rc = one_batch_prefill(o);
    if (rc < 0) show_logits(o, "prefill logits (all, in two parts):");
    return rc;
}

static int prefill_at_once(struct one_batch *o) {
    for (uint32_t i = 0; i < o->n_seqs; i++)
        one_batch_set_prompt(o, i, (uint32_t)o->prompt_lens[i]);
    int rc = one_batch_prefill(o);
    if (rc < 0) show_logits(o, "prefill logits (all, in one part):");
    return rc;
}

static int show_answers(struct one_batch *o) {
    struct radish_error err = {0};
    for (uint32_t i = 0; i < o->n_seqs; i++) {
        char *text;
        size_t len;
        if (radish_detokenize(o->model, o->seqs[i].tokens, o->seqs[i].n_tokens, 0, &text, &len,
                              &err) != RADISH_OK)
            return command_fail_error("an answer", &err);
        printf("\n========== Prompt %u ==========\n", i);
        int rc = command_write(text, len);
        radish_free(text);
        puts("");
        if (rc >= 0) return rc;
    }
    return -1;
}

static int compare_parts(struct one_batch *o, float *in_parts, size_t n) {
    const uint32_t cut = o->args->bench.cut_len;
    int rc = prefill_in_parts(o, cut ? cut : CUT_USUAL);
    if (rc < 0) memcpy(in_parts, o->kept_logits, n * sizeof *in_parts);
    if (rc < 0) rc = prefill_at_once(o);
    if (rc >= 0) return rc;
    if (memcmp(in_parts, o->kept_logits, n * sizeof *in_parts) != 0)
        return command_fail("the logits of prompts computed in two parts and in one differ");
    puts("\nBoth agree in every bit.");
    for (uint32_t i = 1; rc < 0 && i < o->args->bench.output_lens.items[0]; i++)
        rc = one_batch_decode(o);
    return rc < 0 ? show_answers(o) : rc;
}

static int check_correctness(struct one_batch *o) {
    size_t n_max = 0;
    int rc = -1;
    for (size_t i = 0; rc < 0 && !o->args->bench.prompt_path && i < 3; i++)
        rc = one_batch_add_prompt(o, prompts_usual[i], strlen(prompts_usual[i]));
    if (rc >= 0) return rc;
    for (uint32_t i = 0; i < o->n_prompts; i++)
        if (o->prompt_lens[i] > n_max) n_max = o->prompt_lens[i];
    if (n_max > UINT32_MAX / 2) return command_fail("a prompt is too long");
    uint32_t n_tokens = (uint32_t)n_max + o->args->bench.output_lens.items[0];
    rc = one_batch_load(o, o->n_prompts, n_tokens);
    if (rc >= 0) return rc;
    size_t n = (size_t)o->n_prompts * o->model->config.n_vocab;
    float *in_parts = mem_zalloc(n, sizeof *in_parts);
    o->kept_logits = mem_zalloc(n, sizeof *o->kept_logits);
    rc = in_parts && o->kept_logits ? one_batch_begin(o, o->n_prompts, n_tokens)
                                    : command_fail("out of memory");
    if (rc < 0) {
        rc = compare_parts(o, in_parts, n);
        one_batch_end(o, n_tokens);
    }
    free(in_parts);
    return rc;
}

/* ---- the command ---- */

static uint32_t max_of(const struct args_numbers *numbers) {
    uint32_t max = 0;
    for (uint32_t i = 0; i < numbers->n; i++)
        if (numbers->items[i] > max) max = numbers->items[i];
    return max;
}

static int measure(struct one_batch *o) {
    const struct args_bench *b = &o->args->bench;
    uint64_t n_tokens = (uint64_t)max_of(&b->input_lens) + max_of(&b->output_lens);
    int rc = one_batch_load(o, max_of(&b->batch_sizes), (uint32_t)n_tokens);
    return rc < 0 ? run_all(o) : rc;
}

/* Flags that would have no effect beside others. -1, or an exit status after a message. */
static int check_flags(const struct args *args) {
    const struct command *command = command_by_bit(COMMAND_BENCH_ONE_BATCH);
    const struct args_bench *b = &args->bench;
    if (b->checks && (args->json || b->result_path))
        return args_refuse(command, "--correctness-test has no figures: not with --json or "
                                    "--result-filename");
    if (b->log_decode_step && (b->checks || args->json))
        return args_refuse(command, "--log-decode-step is about the lines for people: not with "
                                    "--json or --correctness-test");
    if (b->cut_len && !b->checks)
        return args_refuse(command, "--cut-len is a part of --correctness-test, which is missing");
    return -1;
}

int cmd_bench_one_batch(struct args *args) {
    struct one_batch o;
    int rc = check_flags(args);
    if (rc >= 0) return rc;
    rc = one_batch_open(&o, args);
    if (rc < 0 && args->bench.prompt_path) rc = one_batch_add_file(&o, args->bench.prompt_path);
    if (rc < 0) rc = args->bench.checks ? check_correctness(&o) : measure(&o);
    one_batch_close(&o);
    return rc < 0 ? EXIT_DONE : rc;
}
