/* bench_kernels.c - radish bench kernels: what every operation costs on this machine, beside the
 * limits of the machine.
 *
 * The limits come first: how fast all threads together read memory and multiply (bench_peak.c).
 * Then each operation runs through the device as a model would call it, at the shapes of
 * Qwen3-0.6B; a row tells the time of one call, the bytes it must move at least, and what share of
 * the limits that is. Operands that a model reads once a step (weights, KV) come from memory, since
 * enough of them are used in turn that no cache holds them; activations are warm, as they are in a
 * model. A figure is the median of several samples, each long enough for the clock and short enough
 * to miss other programs. */
#include "bench_kernels.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/rng.h"
#include "bench.h"
#include "bench_onednn.h"
#include "command.h"
#include "kernel/cpu/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SAMPLES_MAX = 41, SAMPLES_MIN = 3, SAMPLE_NS = 500000, LONG_NS = 50000000 };
enum { KV_LEN_MAX = 8192, FFN = 3072, ROWS_MAX = 1024 };

/* ---- timing ---- */

static double time_sample(const struct timed *t, uint32_t n_calls) {
    const uint64_t begun = clock_ns();
    for (uint32_t i = 0; i < n_calls; i++) t->fn(t->user);
    return (double)(clock_ns() - begun) / n_calls;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void kernel_bench_time(struct timed *timed, uint32_t n, uint32_t budget_ms) {
    double samples[TIMED_MAX][SAMPLES_MAX], slowest_ns = 0;
    uint32_t n_calls[TIMED_MAX];
    for (uint32_t i = 0; i < n; i++) {
        time_sample(&timed[i], 1); /* to warm up */
        const double ns = time_sample(&timed[i], 1);
        n_calls[i] = ns < SAMPLE_NS ? (uint32_t)(SAMPLE_NS / (ns + 1)) + 1 : 1;
        if (ns * n_calls[i] > slowest_ns) slowest_ns = ns * n_calls[i];
    }
    uint32_t n_samples = (uint32_t)(budget_ms * 1e6 / slowest_ns);
    const uint32_t n_least = slowest_ns < LONG_NS ? 3 * SAMPLES_MIN : SAMPLES_MIN;
    if (n_samples < n_least) n_samples = n_least;
    if (n_samples > SAMPLES_MAX) n_samples = SAMPLES_MAX;
    for (uint32_t s = 0; s < n_samples; s++)
        for (uint32_t i = 0; i < n; i++) samples[i][s] = time_sample(&timed[i], n_calls[i]);
    for (uint32_t i = 0; i < n; i++) {
        qsort(samples[i], n_samples, sizeof *samples[i], compare_doubles);
        timed[i].median_ns = samples[i][n_samples / 2];
        timed[i].min_ns = samples[i][0];
    }
}

uint8_t *kernel_bench_matrix(enum dtype dtype, uint32_t n_out, uint32_t n_in) {
    uint64_t row_bytes;
    if (!dtype_row_bytes(dtype, n_in, &row_bytes)) return NULL;
    const size_t bytes = (size_t)row_bytes * n_out;
    uint8_t *data = malloc(bytes);
    if (!data) return NULL;
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(rng_u64(1, i / 8) >> i % 8 * 8);
    const size_t step = dtype_is_quantised(dtype) ? 1 : dtype_block_bytes(dtype);
    for (size_t i = step - 1; i < bytes; i += step)
        data[i] = (uint8_t)(step == 1 ? data[i] & 0xBF : (data[i] & 0x81) | 0x3C);
    return data;
}

/* ---- rows ---- */

bool kernel_bench_wants_dtype(const struct kernel_bench *b, enum dtype dtype, bool by_default) {
    return b->args->dtype ? !strcasecmp(b->args->dtype, dtype_name(dtype)) : by_default;
}

bool kernel_bench_wants_op(const struct kernel_bench *b, const char *op) {
    return !b->args->op || !strcmp(b->args->op, op);
}

/* The operand format (an index) that weights of a type are multiplied in. */
static uint32_t find_format(enum dtype dtype) {
    const enum pack_format format = pack_format_for(dtype, RADISH_PRECISION_FAST);
    return format == PACK_RAW ? 0 : (uint32_t)format - PACK_F32;
}

const struct kernel_row *kernel_bench_row(const struct kernel_bench *b, enum kernel_op op,
                                          enum dtype dtype) {
    char reason[160];
    return registry_find(&b->registry, op, 1u << find_format(dtype), /*shape=*/NULL, reason,
                         sizeof reason);
}

double kernel_bench_peak(const struct kernel_bench *b, enum kernel_op op, enum dtype dtype) {
    const struct kernel_row *row = kernel_bench_row(b, op, dtype);
    return row ? b->peak[row->isa][op == KERNEL_OP_MATMUL ? find_format(dtype) : 0] : 0;
}

/* The name of the kernel that computes a figure, from its operation and type. */
static const char *find_kernel(const struct kernel_bench *b, const struct kernel_figure *f) {
    for (enum kernel_op op = 0; op < KERNEL_OP_COUNT; op++) {
        if (strcmp(kernel_op_name(op), f->op) != 0) continue;
        for (int t = 0; t < RADISH_DTYPE_COUNT; t++) {
            if (strcmp(dtype_name((enum dtype)t), f->dtype) != 0) continue;
            const struct kernel_row *row = kernel_bench_row(b, op, (enum dtype)t);
            return row ? row->name : "";
        }
    }
    return "";
}

static void append_json(struct buf *line, const struct kernel_bench *b,
                        const struct kernel_figure *f, const double shown[4]) {
    buf_printf(line,
               "{\"bench\": \"kernels\", \"op\": \"%s\", \"kernel\": \"%s\", \"shape\": \"%s\", "
               "\"dtype\": \"%s\", \"T\": %u, \"ns\": %.0f, \"min_ns\": %.0f, \"bytes\": %.0f, "
               "\"gbs\": %.2f, \"read_percent\": %.1f, \"gops\": %.2f, \"peak_percent\": %.1f",
               f->op, find_kernel(b, f), f->shape, f->dtype, f->n_rows, f->ns, f->min_ns, f->bytes,
               shown[0], shown[1], shown[2], shown[3]);
    if (f->onednn_ns > 0)
        buf_printf(line, ", \"onednn_ns\": %.0f, \"of_onednn\": %.3f", f->onednn_ns, f->of_onednn);
    buf_printf(line, "%s}\n", f->extra ? f->extra : "");
}

static void append_csv(struct buf *line, const struct kernel_bench *b,
                       const struct kernel_figure *f, const double shown[4]) {
    buf_printf(line, "%s,%s,%s,%s,%u,%.0f,%.0f,%.0f,%.2f,%.1f,%.2f,%.1f,", f->op, find_kernel(b, f),
               f->shape, f->dtype, f->n_rows, f->ns, f->min_ns, f->bytes, shown[0], shown[1],
               shown[2], shown[3]);
    if (f->onednn_ns > 0) buf_printf(line, "%.0f,%.3f", f->onednn_ns, f->of_onednn);
    if (f->onednn_ns <= 0) buf_append_char(line, ',');
    const char *extra = f->extra ? f->extra + strspn(f->extra, " ") : "";
    buf_printf(line, *extra ? ",\"%s\"\n" : ",%s\n", extra);
}

static void append_text(struct buf *line, const struct kernel_bench *b,
                        const struct kernel_figure *f, const double shown[4]) {
    const char *kernel = find_kernel(b, f), *variant = strstr(kernel, "__");
    buf_printf(line,
               "%-13s %-18s %-5s %5u %12.0f ns %11.0f B %8.2f GB/s %6.1f %% %9.2f GOP/s %5.1f %%  "
               "%-10s",
               f->op, f->shape, f->dtype, f->n_rows, f->ns, f->bytes, shown[0], shown[1], shown[2],
               shown[3], variant ? variant + 2 : kernel);
    if (f->onednn_ns > 0)
        buf_printf(line, "  oneDNN %.0f ns, radish %.2f times as fast", f->onednn_ns, f->of_onednn);
    buf_printf(line, "%s\n", f->extra ? f->extra : "");
}

int kernel_bench_print(const struct kernel_bench *b, const struct kernel_figure *f) {
    const double gbs = f->bytes / f->ns, gops = f->ops / f->ns;
    const double shown[4] = {gbs, b->read_gbs > 0 ? 100 * gbs / b->read_gbs : 0, gops,
                             f->peak > 0 ? 100 * gops / f->peak : 0};
    struct buf line;
    buf_init(&line, 4096);
    if (b->args->json)
        append_json(&line, b, f, shown);
    else if (b->args->csv)
        append_csv(&line, b, f, shown);
    else
        append_text(&line, b, f, shown);
    const int rc = line.failed ? command_fail("out of memory") : command_write(line.data, line.len);
    buf_deinit(&line);
    return rc;
}

static const char csv_columns[] = "op,kernel,shape,dtype,T,ns,min_ns,bytes,gbs,read_percent,gops,"
                                  "peak_percent,onednn_ns,of_onednn,details\n";

static int print_limits(const struct kernel_bench *b) {
    const double *peak = b->peak[b->best_isa];
    struct buf text;
    buf_init(&text, 8192);
    buf_printf(
        &text,
        b->args->json  ? "{\"bench\": \"kernels\", \"threads\": %u, \"isa\": \"%s\", "
                         "\"read_gbs\": %.2f, \"f32_peak_gops\": %.1f, \"bf16_peak_gops\": "
                         "%.1f, \"i8_peak_gops\": %.1f, \"onednn\": \"%s\", \"kernels\": "
                         "\"%s\"}\n"
        : b->args->csv ? "# threads %u, isa %s, read_gbs %.2f, f32_peak_gops %.1f, bf16_peak_gops "
                         "%.1f, i8_peak_gops %.1f, onednn %s, kernels %s\n"
                       : "%u threads, %s: read %.2f GB/s, peaks f32 %.1f, bf16 %.1f, int8 %.1f "
                         "GOP/s; oneDNN: %s\n%s\n",
        device_n_threads(b->device), cpu_isa_name(b->best_isa), b->read_gbs, peak[0], peak[2],
        peak[3], b->args->beside ? onednn_describe() : "not measured", device_kernels(b->device));
    if (b->args->csv) buf_append_str(&text, csv_columns);
    const int rc = text.failed ? command_fail("out of memory") : command_write(text.data, text.len);
    buf_deinit(&text);
    return rc;
}

/* ---- the command ---- */

static int run_tables(const struct kernel_bench *b) {
    int rc = print_limits(b);
    if (rc < 0 && kernel_bench_wants_op(b, "rope_kv_store")) rc = bench_kernels_rope(b);
    if (rc < 0 && kernel_bench_wants_op(b, "matmul")) rc = bench_kernels_matmul(b);
    if (rc < 0 && kernel_bench_wants_op(b, "matmul_group")) rc = bench_kernels_group(b);
    if (rc < 0 && kernel_bench_wants_op(b, "attention")) rc = bench_kernels_attention(b);
    return rc < 0 ? bench_kernels_rows(b) : rc;
}

static int check_dtype(const struct command *command, const struct args *args) {
    bool is_known = false;
    for (int t = 0; t < RADISH_DTYPE_COUNT && !is_known; t++)
        is_known =
            !strcasecmp(args->dtype, dtype_name((enum dtype)t)) && dtype_can_read((enum dtype)t);
    if (!is_known)
        return args_refuse(command, "--dtype %.40s: must be one of %s", args->dtype,
                           dtype_readable_names());
    if (args->op && !strcmp(args->op, "prepare") &&
        (!strcasecmp(args->dtype, "F32") || !strcasecmp(args->dtype, "F16")))
        return args_refuse(command,
                           "--dtype %.40s: prepare is measured for BF16 and quantised "
                           "weights; others multiply rows as they are",
                           args->dtype);
    if (!args->op || !strncmp(args->op, "matmul", 6) || !strcmp(args->op, "embed") ||
        !strcmp(args->op, "prepare"))
        return -1;
    const bool is_kv = !strcmp(args->op, "rope_kv_store") || !strcmp(args->op, "attention");
    const char *dtypes = is_kv ? "F32, F16, BF16" : "F32";
    if (strcasestr(dtypes, args->dtype)) return -1;
    return args_refuse(command, "--dtype %.40s: %s is measured in %s", args->dtype, args->op,
                       dtypes);
}

static int check_names(const struct args *args) {
    const struct command *command = command_by_bit(COMMAND_BENCH);
    if (args->json && args->csv) return args_refuse(command, "--json and --csv: one of them");
    if (args->beside && args->op && strcmp(args->op, "matmul"))
        return args_refuse(command, "--beside onednn: only products are timed beside it, not %s",
                           args->op);
    if (args->beside && !onednn_describe())
        return args_refuse(command, "--beside onednn: this radish is built without oneDNN "
                                    "(cmake -DRADISH_ONEDNN=ON, package libdnnl-dev)");
    return args->dtype ? check_dtype(command, args) : -1;
}

int bench_kernels(const struct args *args) {
    struct kernel_bench b = {.args = args};
    struct radish_error err = {0};
    const struct device_options options = {.n_threads = args->engine.n_threads,
                                           .kernels = args->engine.kernels,
                                           .n_kernels = args->engine.n_kernels};
    int rc = check_names(args);
    if (rc >= 0) return rc;
    for (enum cpu_isa isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_has_isa(isa)) b.best_isa = isa;
    if (registry_init(&b.registry, KERNEL_FAMILY_CPU, options.kernels, options.n_kernels, &err) !=
            RADISH_OK ||
        device_open("cpu", &options, &b.device, &err) != RADISH_OK)
        return command_fail_open("", &err);
    if (b.device->ops->scratch_reserve(b.device, ROWS_MAX, FFN, KV_LEN_MAX, &err) == RADISH_OK) {
        b.read_gbs = peak_read_gbs(b.device);
        peak_measure(b.device, b.peak);
        rc = run_tables(&b);
    } else {
        rc = command_fail("%s", err.msg);
    }
    device_close(b.device);
    return rc;
}
