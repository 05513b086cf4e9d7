/* bench_kernels_rows.c - the operations that work row by row, at the widths of Qwen3-0.6B.
 *
 * Activations are warm, as they are in a model, so these may beat the memory's limit; only embed
 * reads memory: other rows of the vocabulary at every call, out of the panels of a tied embedding
 * or, "raw", from a matrix that is only gathered. soft_cap is measured as on logits, activate as
 * GELU times a gate, layernorm with a bias, keep_rows moves every second row, prepare makes rows
 * what the products of a type read. T counts tokens; the norm of Q's heads has 16 rows a token.
 *
 * Bytes are those of the rows read and written (of the weights of a norm none: they stay in the
 * first cache). Operations are counted in the formulas of scalar_exp.h and scalar_gelu.h, an FMA as
 * two, a division as one; they are held against the peak of FMAs, which is not to be had: a
 * division takes as long as eight and more. */
#include "bench_kernels.h"

#include "base/mem.h"
#include "command.h"
#include "kernel/cpu/cpu_activations.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HIDDEN = 1024, FFN = 3072, N_HEADS = 16, HEAD_DIM = 128, N_VOCAB = 151936 };
enum { ROWS_MAX = 1024, LOGITS_ROWS_MAX = 64, ROWS_MS = 20 };
/* Operations of an element: of exp, of x / (1 + exp(-x)), of GELU with erf, of tanh by both ways.
 */
enum { EXP_OPS = 22, SILU_OPS = EXP_OPS + 3, GELU_OPS = EXP_OPS + 26, TANH_OPS = EXP_OPS + 17 };

struct rows_bench {
    struct device *device;
    struct rmsnorm_args norm, head_norm;
    struct layernorm_args layernorm;
    struct silu_mul_args silu;
    struct activate_args activate;
    struct soft_cap_args cap;
    struct keep_rows_args keep;
    struct embed_args embed;
    struct act_rows prepared;
    uint32_t n_prepared;
    int32_t *ids;   /* [ROWS_MAX] */
    uint32_t *kept; /* [ROWS_MAX] */
    float *block;   /* in, gate, out, a norm's weights and bias */
    size_t block_bytes;
};

static void end_step(struct device *device) {
    if (device->ops->step_submit(device) == RADISH_OK) (void)!device->ops->step_wait(device);
}

/* run_OP(user): one step with the operation alone. */
#define RUN(name, entry, args)                                                                     \
    static void name(void *user) {                                                                 \
        struct rows_bench *r = user;                                                               \
        r->device->ops->step_begin(r->device);                                                     \
        r->device->ops->entry(r->device, &r->args);                                                \
        end_step(r->device);                                                                       \
    }
RUN(run_norm, rmsnorm, norm)
RUN(run_head_norm, rmsnorm, head_norm)
RUN(run_layernorm, layernorm, layernorm)
RUN(run_silu, silu_mul, silu)
RUN(run_activate, activate, activate)
RUN(run_cap, soft_cap, cap)
RUN(run_keep, keep_rows, keep)
RUN(gather, embed, embed)
#undef RUN

static void run_embed(void *user) {
    struct rows_bench *r = user;
    for (uint32_t i = 0; i < r->embed.n_rows; i++)
        r->ids[i] = (int32_t)(((uint32_t)r->ids[i] + 7919) % N_VOCAB);
    gather(user);
}

static bool fill(struct rows_bench *r, struct device *device) {
    const size_t n_x = (size_t)LOGITS_ROWS_MAX * N_VOCAB, n = (size_t)ROWS_MAX * FFN;
    const size_t n_block = n_x + 2 * n + 2 * FFN;
    r->device = device;
    r->block_bytes = n_block * sizeof(float);
    r->block = mem_aligned_alloc(r->block_bytes);
    r->ids = calloc(ROWS_MAX, sizeof *r->ids);
    r->kept = calloc(ROWS_MAX, sizeof *r->kept);
    if (!r->block || !r->ids || !r->kept) return false;
    for (size_t i = 0; i < n_block; i++) r->block[i] = (float)(i % 503) / 251.0f - 1.0f;
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        r->ids[i] = (int32_t)(i * 131 % N_VOCAB);
        r->kept[i] = 2 * i + 1;
    }
    float *x = r->block, *gate = x + n_x, *out = gate + n, *w = out + n, *bias = w + FFN;
    r->norm = (struct rmsnorm_args){.x = x,
                                    .w = w,
                                    .y = out,
                                    .x_stride = HIDDEN,
                                    .y_stride = HIDDEN,
                                    .width = HIDDEN,
                                    .eps = 1e-6f};
    r->head_norm = r->norm;
    r->head_norm.x_stride = r->head_norm.y_stride = r->head_norm.width = HEAD_DIM;
    r->layernorm = (struct layernorm_args){.x = x,
                                           .w = w,
                                           .bias = bias,
                                           .y = out,
                                           .x_stride = HIDDEN,
                                           .y_stride = HIDDEN,
                                           .width = HIDDEN,
                                           .eps = 1e-5f};
    r->silu = (struct silu_mul_args){
        .gate = x, .up = gate, .out = out, .width = FFN, .in_stride = FFN, .out_stride = FFN};
    r->activate = (struct activate_args){.x = x,
                                         .up = gate,
                                         .out = out,
                                         .width = FFN,
                                         .in_stride = FFN,
                                         .out_stride = FFN,
                                         .kind = ACTIVATION_GELU};
    r->cap = (struct soft_cap_args){.x = x, .width = N_VOCAB, .stride = N_VOCAB, .cap = 30.0f};
    r->keep = (struct keep_rows_args){.x = x, .rows = r->kept, .width = HIDDEN, .stride = HIDDEN};
    r->embed =
        (struct embed_args){.token_ids = r->ids, .out = out, .out_stride = HIDDEN, .scale = 1.0f};
    return true;
}

/* A row operation at one width. */
struct row_case {
    const char *op, *shape;
    void (*fn)(void *);
    uint32_t *n_rows;
    uint32_t rows_a_token, tokens_max;
    double bytes, ops; /* of a token */
};

static int run_case(const struct kernel_bench *b, struct rows_bench *r, const struct row_case *c,
                    enum dtype dtype) {
    int rc = -1;
    for (uint32_t n = 1; n <= c->tokens_max && rc < 0; n *= 4) {
        struct timed timed = {.fn = c->fn, .user = r};
        *c->n_rows = n * c->rows_a_token;
        kernel_bench_time(&timed, 1, ROWS_MS);
        const struct kernel_figure figure = {.op = c->op,
                                             .shape = c->shape,
                                             .dtype = dtype_name(dtype),
                                             .n_rows = n,
                                             .ns = timed.median_ns,
                                             .min_ns = timed.min_ns,
                                             .bytes = n * c->bytes,
                                             .ops = n * c->ops,
                                             .peak = b->peak[b->best_isa][0]};
        rc = kernel_bench_print(b, &figure);
    }
    return rc;
}

static int run_f32_cases(const struct kernel_bench *b, struct rows_bench *r) {
    const struct row_case cases[] = {
        {"rmsnorm", "1024", run_norm, &r->norm.n_rows, 1, ROWS_MAX, 8.0 * HIDDEN, 4.0 * HIDDEN},
        {"rmsnorm", "16 x 128", run_head_norm, &r->head_norm.n_rows, N_HEADS, ROWS_MAX,
         8.0 * N_HEADS * HEAD_DIM, 4.0 * N_HEADS * HEAD_DIM},
        {"layernorm", "1024", run_layernorm, &r->layernorm.n_rows, 1, ROWS_MAX, 8.0 * HIDDEN,
         8.0 * HIDDEN},
        {"silu_mul", "3072", run_silu, &r->silu.n_rows, 1, ROWS_MAX, 12.0 * FFN,
         (SILU_OPS + 1.0) * FFN},
        {"activate", "3072", run_activate, &r->activate.n_rows, 1, ROWS_MAX, 12.0 * FFN,
         (GELU_OPS + 1.0) * FFN},
        {"soft_cap", "151936", run_cap, &r->cap.n_rows, 1, LOGITS_ROWS_MAX, 8.0 * N_VOCAB,
         (TANH_OPS + 2.0) * N_VOCAB},
        {"keep_rows", "1024", run_keep, &r->keep.n_rows, 1, ROWS_MAX, 8.0 * HIDDEN, 0},
    };
    int rc = -1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && rc < 0; i++)
        if (kernel_bench_wants_op(b, cases[i].op)) rc = run_case(b, r, &cases[i], RADISH_DTYPE_F32);
    return rc;
}

/* ---- prepare: rows of activations as products read them ---- */

/* One of so many parts of the rows as there are threads. */
static void prepare_part(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    struct rows_bench *r = user;
    const uint32_t first = item * ACT_TILE_ROWS, left = r->n_prepared - first;
    const uint32_t end = first + (left < ACT_TILE_ROWS ? left : ACT_TILE_ROWS);
    for (uint32_t row = first; row < end; row++)
        activations_prepare(&r->prepared, row, r->norm.x + (size_t)row * HIDDEN);
}

static void run_prepare(void *user) {
    struct rows_bench *r = user;
    const uint32_t n_items = (r->n_prepared + ACT_TILE_ROWS - 1) / ACT_TILE_ROWS;
    activations_place(r->prepared.w, r->n_prepared, (uint8_t *)r->norm.y, &r->prepared);
    if (n_items == 1)
        prepare_part(r, 0, 0);
    else
        device_parallel(r->device, n_items, prepare_part, r);
}

static int run_prepare_of(const struct kernel_bench *b, struct rows_bench *r, enum dtype dtype) {
    struct radish_error err = {0};
    struct weight *w = NULL;
    uint8_t *matrix = kernel_bench_matrix(dtype, PANEL_ROWS, HIDDEN);
    const struct weight_desc desc = {.name = "prepare",
                                     .dtype = dtype,
                                     .n_out = PANEL_ROWS,
                                     .n_in = HIDDEN,
                                     .data = matrix,
                                     .is_multiplied = true};
    int rc = matrix ? -1 : command_fail("out of memory");
    if (rc < 0 && b->device->ops->weight_create(b->device, &desc, &w, &err) != RADISH_OK)
        rc = command_fail("%s", err.msg);
    free(matrix);
    if (rc < 0 && activations_bytes(w, 1)) { /* else rows are read as they are */
        const struct row_case c = {"prepare",
                                   "1024",
                                   run_prepare,
                                   &r->n_prepared,
                                   1,
                                   ROWS_MAX,
                                   4.0 * HIDDEN + (double)activations_bytes(w, ROWS_MAX) / ROWS_MAX,
                                   0};
        r->prepared.w = w;
        rc = run_case(b, r, &c, dtype);
    }
    b->device->ops->weight_destroy(b->device, w);
    return rc;
}

/* ---- embed ---- */

static int run_embed_of(const struct kernel_bench *b, struct rows_bench *r, enum dtype dtype,
                        uint64_t row_bytes, bool is_tied) {
    struct radish_error err = {0};
    struct weight *w = NULL;
    void *matrix = calloc(N_VOCAB, (size_t)row_bytes);
    const struct weight_desc desc = {.name = "embedding",
                                     .dtype = dtype,
                                     .n_out = N_VOCAB,
                                     .n_in = HIDDEN,
                                     .data = matrix,
                                     .is_gathered = true,
                                     .is_multiplied = is_tied};
    const struct row_case embed = {"embed",
                                   is_tied ? "151936 x 1024" : "raw 151936 x 1024",
                                   run_embed,
                                   &r->embed.n_rows,
                                   1,
                                   ROWS_MAX,
                                   (double)row_bytes + 4.0 * HIDDEN,
                                   0};
    int rc = matrix ? -1 : command_fail("out of memory");
    if (rc < 0 && b->device->ops->weight_create(b->device, &desc, &w, &err) != RADISH_OK)
        rc = command_fail("%s", err.msg);
    free(matrix);
    r->embed.w = w;
    if (rc < 0) rc = run_case(b, r, &embed, dtype);
    b->device->ops->weight_destroy(b->device, w);
    return rc;
}

/* What depends on the type of a weight. */
static int run_typed_cases(const struct kernel_bench *b, struct rows_bench *r) {
    int rc = -1;
    for (int t = 0; t < RADISH_DTYPE_COUNT && rc < 0; t++) {
        const enum dtype dtype = (enum dtype)t;
        const bool is_usual = dtype == RADISH_DTYPE_BF16 || dtype == RADISH_DTYPE_Q8_0;
        uint64_t row_bytes;
        if (!dtype_can_read(dtype) || !kernel_bench_wants_dtype(b, dtype, is_usual) ||
            !dtype_row_bytes(dtype, HIDDEN, &row_bytes))
            continue;
        if (kernel_bench_wants_op(b, "prepare")) rc = run_prepare_of(b, r, dtype);
        if (!kernel_bench_wants_op(b, "embed")) continue;
        if (rc < 0) rc = run_embed_of(b, r, dtype, row_bytes, /*is_tied=*/true);
        if (rc < 0) rc = run_embed_of(b, r, dtype, row_bytes, /*is_tied=*/false);
    }
    return rc;
}

int bench_kernels_rows(const struct kernel_bench *b) {
    struct rows_bench r = {0};
    int rc = fill(&r, b->device) ? -1 : command_fail("out of memory");
    if (rc < 0 && kernel_bench_wants_dtype(b, RADISH_DTYPE_F32, true)) rc = run_f32_cases(b, &r);
    if (rc < 0) rc = run_typed_cases(b, &r);
    mem_aligned_free(r.block, r.block_bytes);
    free(r.ids);
    free(r.kept);
    return rc;
}
