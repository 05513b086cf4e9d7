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

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SAMPLES_MAX = 41, SAMPLES_MIN = 3, SAMPLE_NS = 500000, LONG_NS = 50000000, BUDGET_MS = 60 };
enum { KV_LEN_MAX = 4096, HIDDEN = 1024, FFN = 3072, ROWS_MAX = 1024 };

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

/* ---- rows ---- */

bool kernel_bench_wants_dtype(const struct kernel_bench *b, enum dtype dtype, bool by_default) {
    return b->args->dtype ? !strcasecmp(b->args->dtype, dtype_name(dtype)) : by_default;
}

int kernel_bench_print(const struct kernel_bench *b, const struct kernel_figure *f) {
    const double gbs = f->bytes / f->ns, gops = f->ops / f->ns;
    const double of_read = b->read_gbs > 0 ? 100 * gbs / b->read_gbs : 0;
    const double of_peak = f->peak > 0 ? 100 * gops / f->peak : 0;
    char line[512];
    const int n = snprintf(
        line, sizeof line,
        b->args->json
            ? "{\"bench\": \"kernels\", \"op\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", "
              "\"T\": %u, \"ns\": %.0f, \"bytes\": %.0f, \"gbs\": %.2f, \"read_percent\": %.1f, "
              "\"gops\": %.2f, \"peak_percent\": %.1f%s}\n"
            : "%-9s %-18s %-5s %5u %12.0f ns %11.0f B %8.2f GB/s %6.1f %% %9.2f GOP/s %5.1f %%%s\n",
        f->op, f->shape, f->dtype, f->n_rows, f->ns, f->bytes, gbs, of_read, gops, of_peak,
        f->extra ? f->extra : "");
    return command_write(line, (size_t)n);
}

static int print_limits(const struct kernel_bench *b) {
    enum cpu_isa best = CPU_ISA_REF;
    for (enum cpu_isa isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_has_isa(isa)) best = isa;
    const double *peak = b->peak[best];
    char line[1024];
    const int n = snprintf(
        line, sizeof line,
        b->args->json
            ? "{\"bench\": \"kernels\", \"threads\": %u, \"isa\": \"%s\", \"read_gbs\": %.2f, "
              "\"f32_peak_gops\": %.1f, \"bf16_peak_gops\": %.1f, \"i8_peak_gops\": %.1f, "
              "\"kernels\": \"%.600s\"}\n"
            : "%u threads, %s: read %.2f GB/s, peaks f32 %.1f, bf16 %.1f, int8 %.1f "
              "GOP/s\n%.600s\n",
        device_n_threads(b->device), cpu_isa_name(best), b->read_gbs, peak[0], peak[2], peak[3],
        device_kernels(b->device));
    return command_write(line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* ---- operations row by row, and embed ---- */

struct rows_bench {
    struct device *device;
    struct rmsnorm_args norm;
    struct silu_mul_args silu;
    struct embed_args embed;
    int32_t *ids; /* [ROWS_MAX] */
    float *block; /* gate, up, out, norm's weights */
    size_t block_bytes;
};

static void end_step(struct device *device) {
    if (device->ops->step_submit(device) == RADISH_OK) (void)!device->ops->step_wait(device);
}

static void run_norm(void *user) {
    struct rows_bench *r = user;
    r->device->ops->step_begin(r->device);
    r->device->ops->rmsnorm(r->device, &r->norm);
    end_step(r->device);
}

static void run_silu(void *user) {
    struct rows_bench *r = user;
    r->device->ops->step_begin(r->device);
    r->device->ops->silu_mul(r->device, &r->silu);
    end_step(r->device);
}

static void run_embed(void *user) {
    struct rows_bench *r = user;
    for (uint32_t i = 0; i < r->embed.n_rows; i++) /* other rows of the matrix every time */
        r->ids[i] = (int32_t)(((uint32_t)r->ids[i] + 7919) % 16384);
    r->device->ops->step_begin(r->device);
    r->device->ops->embed(r->device, &r->embed);
    end_step(r->device);
}

static bool fill_rows(struct rows_bench *r, const struct kernel_bench *b) {
    const size_t n = (size_t)ROWS_MAX * FFN;
    r->device = b->device;
    r->block_bytes = (3 * n + FFN) * sizeof(float);
    r->block = mem_aligned_alloc(r->block_bytes);
    r->ids = calloc(ROWS_MAX, sizeof *r->ids);
    if (!r->block || !r->ids) return false;
    for (size_t i = 0; i < 3 * n + FFN; i++) r->block[i] = (float)(i % 503) / 251.0f - 1.0f;
    for (uint32_t i = 0; i < ROWS_MAX; i++) r->ids[i] = (int32_t)(i * 13 % 16384);
    float *gate = r->block, *up = gate + n, *out = up + n, *w = out + n;
    r->norm = (struct rmsnorm_args){
        .x = gate, .w = w, .y = out, .x_stride = HIDDEN, .y_stride = HIDDEN, .width = HIDDEN};
    r->norm.eps = 1e-6f;
    r->silu = (struct silu_mul_args){
        .gate = gate, .up = up, .out = out, .width = FFN, .in_stride = FFN, .out_stride = FFN};
    r->embed =
        (struct embed_args){.token_ids = r->ids, .out = out, .out_stride = HIDDEN, .scale = 1.0f};
    return true;
}

static bool wants_op(const struct kernel_bench *b, const char *op) {
    return !b->args->op || !strcmp(b->args->op, op);
}

static int run_row_ops(const struct kernel_bench *b, struct rows_bench *r) {
    const struct {
        const char *op, *shape, *dtype;
        void (*fn)(void *);
        uint32_t *n_rows;
        double bytes, ops; /* of a row */
    } ops[] = {
        {"rmsnorm", "1024", "f32", run_norm, &r->norm.n_rows, 8.0 * HIDDEN, 4.0 * HIDDEN},
        {"silu_mul", "3072", "f32", run_silu, &r->silu.n_rows, 12.0 * FFN, 0},
        {"embed", "16384 x 1024", "bf16", run_embed, &r->embed.n_rows, 6.0 * HIDDEN, 0},
    };
    int rc = -1;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!wants_op(b, ops[i].op) || (b->args->dtype && strcasecmp(b->args->dtype, ops[i].dtype)))
            continue;
        for (uint32_t n = 1; n <= ROWS_MAX && rc < 0; n *= 4) {
            struct timed timed = {.fn = ops[i].fn, .user = r};
            *ops[i].n_rows = n;
            kernel_bench_time(&timed, 1, BUDGET_MS / 3);
            const struct kernel_figure figure = {.op = ops[i].op,
                                                 .shape = ops[i].shape,
                                                 .dtype = ops[i].dtype,
                                                 .n_rows = n,
                                                 .ns = timed.median_ns,
                                                 .bytes = n * ops[i].bytes,
                                                 .ops = n * ops[i].ops,
                                                 .peak = b->peak[CPU_ISA_AVX2][0]};
            rc = kernel_bench_print(b, &figure);
        }
    }
    return rc;
}

/* The embedding is tied: gathered from the panels that are multiplied with. */
static int bench_row_ops(const struct kernel_bench *b) {
    struct rows_bench r = {0};
    struct radish_error err = {0};
    struct weight *w = NULL;
    uint16_t *matrix = calloc((size_t)16384 * HIDDEN, sizeof *matrix);
    const struct weight_desc desc = {.name = "embedding",
                                     .dtype = RADISH_DTYPE_BF16,
                                     .n_out = 16384,
                                     .n_in = HIDDEN,
                                     .data = matrix,
                                     .is_gathered = true,
                                     .is_multiplied = true};
    int rc = matrix && fill_rows(&r, b) ? -1 : command_fail("out of memory");
    if (rc < 0 && b->device->ops->weight_create(b->device, &desc, &w, &err) != RADISH_OK)
        rc = command_fail("%s", err.msg);
    r.embed.w = w;
    if (rc < 0) rc = run_row_ops(b, &r);
    b->device->ops->weight_destroy(b->device, w);
    mem_aligned_free(r.block, r.block_bytes);
    free(r.ids);
    free(matrix);
    return rc;
}

/* ---- the command ---- */

static int run_tables(const struct kernel_bench *b) {
    int rc = print_limits(b);
    if (rc < 0 && wants_op(b, "rope_kv_store")) rc = bench_kernels_rope(b);
    if (rc < 0 && wants_op(b, "matmul")) rc = bench_kernels_matmul(b);
    if (rc < 0 && wants_op(b, "attention")) rc = bench_kernels_attention(b);
    if (rc < 0 && (wants_op(b, "rmsnorm") || wants_op(b, "silu_mul") || wants_op(b, "embed")))
        rc = bench_row_ops(b);
    return rc;
}

static int check_names(const struct args *args) {
    static const struct {
        const char *op, *dtypes;
    } narrow[] = {{"rope_kv_store", "F32, F16, BF16"},
                  {"attention", "F32, F16, BF16"},
                  {"rmsnorm", "F32"},
                  {"silu_mul", "F32"},
                  {"embed", "BF16"}};
    const struct command *command = command_by_bit(COMMAND_BENCH);
    bool is_known = !args->dtype;
    for (int t = 0; t < RADISH_DTYPE_COUNT && !is_known; t++)
        is_known =
            !strcasecmp(args->dtype, dtype_name((enum dtype)t)) && dtype_can_read((enum dtype)t);
    if (!is_known)
        return args_refuse(command, "--dtype %.40s: must be one of %s", args->dtype,
                           dtype_readable_names());
    for (size_t i = 0; args->op && i < sizeof narrow / sizeof *narrow; i++)
        if (args->dtype && !strcmp(args->op, narrow[i].op) &&
            !strcasestr(narrow[i].dtypes, args->dtype))
            return args_refuse(command, "--dtype %.40s: %s is measured in %s", args->dtype,
                               args->op, narrow[i].dtypes);
    return -1;
}

int bench_kernels(const struct args *args) {
    struct kernel_bench b = {.args = args};
    struct radish_error err = {0};
    const struct device_options options = {.n_threads = args->engine.n_threads,
                                           .kernels = args->engine.kernels,
                                           .n_kernels = args->engine.n_kernels};
    int rc = check_names(args);
    if (rc >= 0) return rc;
    if (registry_init(&b.registry, options.kernels, options.n_kernels, &err) != RADISH_OK ||
        device_open("cpu", &options, &b.device, &err) != RADISH_OK)
        return command_fail_error("--kernel", &err);
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
