/* bench_kernels_matmul.c - matrix products of Qwen3-0.6B's shapes, and attention at its heads.
 *
 * Products: enough matrices are used in turn that no cache holds them, so that one token reads
 * memory, as in a model; bytes are those of the weights as they are packed, and of the activations.
 * The peak is that of the instruction set and operands which the kernel in use works with. Where
 * radish is built with oneDNN, its product of the same shape is timed in turns with ours.
 *
 * Attention: the same work through three slot tables over one pool. "contiguous": each request's
 * slots in a row, as a private buffer would have them; "runs": runs of 32 in random order, as a
 * pool gives them after a while; "scattered": every slot anywhere. Bytes are K and V read once per
 * request, or per tile of queries in a prefill. */
#include "bench_kernels.h"

#include "base/mem.h"
#include "base/rng.h"
#include "bench_onednn.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRICES_MAX = 256, MATMUL_MS = 150, ATTENTION_MS = 120, LOGITS_ROWS = 64 };
#define WEIGHT_BYTES ((uint64_t)192 << 20) /* of all matrices used in turn */

/* ---- products ---- */

struct matmul_bench {
    struct device *device;
    struct weight *weights[MATRICES_MAX];
    uint32_t n_weights, next;
    struct matmul_args args;
    struct onednn_product *peer; /* or NULL */
};

static void run_matmul(void *user) {
    struct matmul_bench *m = user;
    m->args.w = m->weights[m->next++ % m->n_weights];
    m->device->ops->step_begin(m->device);
    m->device->ops->matmul(m->device, &m->args);
    if (m->device->ops->step_submit(m->device) == RADISH_OK)
        (void)!m->device->ops->step_wait(m->device);
}

/* Random bytes, of which the top byte of every number makes it small and no denormal. */
static uint8_t *make_matrix(enum dtype dtype, uint32_t n_out, uint32_t n_in) {
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

/* The operand format (an index) that products with such weights are computed in. */
static uint32_t format_index(enum dtype dtype) {
    switch (dtype) {
    case RADISH_DTYPE_F32: return 0;
    case RADISH_DTYPE_F16: return 1;
    case RADISH_DTYPE_BF16: return 2;
    case RADISH_DTYPE_Q4_0:
    case RADISH_DTYPE_Q4_1:
    case RADISH_DTYPE_Q4_K: return 4;
    default: return 3;
    }
}

static double peak_of(const struct kernel_bench *b, enum dtype dtype) {
    char reason[160];
    const uint32_t f = format_index(dtype);
    const struct kernel_row *row =
        registry_find(&b->registry, KERNEL_OP_MATMUL, 1u << f, NULL, reason, sizeof reason);
    return row ? b->peak[row->isa][f] : 0;
}

static int run_batches(const struct kernel_bench *b, struct matmul_bench *m, enum dtype dtype,
                       const char *shape, uint32_t n_out, uint32_t n_in, uint64_t weight_bytes) {
    static const uint32_t batches[] = {1, 4, 16, 32, 64, 128, 512};
    const bool is_output = n_out > 100000; /* logits are made in blocks */
    int rc = -1;
    for (size_t i = 0; i < sizeof batches / sizeof *batches && rc < 0; i++) {
        const uint32_t n = batches[i];
        if (is_output && n > LOGITS_ROWS) break;
        struct timed timed[2] = {{.fn = run_matmul, .user = m},
                                 {.fn = onednn_product_run, .user = m->peer}};
        const bool has_peer = m->peer && onednn_product_set_rows(m->peer, n);
        char extra[80] = "";
        m->args.n_rows = n;
        kernel_bench_time(timed, has_peer ? 2 : 1, MATMUL_MS);
        if (has_peer)
            snprintf(extra, sizeof extra,
                     b->args->json ? ", \"onednn_ns\": %.0f" : "  oneDNN %.0f ns",
                     timed[1].median_ns);
        const struct kernel_figure figure = {.op = "matmul",
                                             .shape = shape,
                                             .dtype = dtype_name(dtype),
                                             .n_rows = n,
                                             .ns = timed[0].median_ns,
                                             .bytes = (double)weight_bytes +
                                                      4.0 * n * ((double)n_out + n_in),
                                             .ops = 2.0 * n * n_out * n_in,
                                             .peak = peak_of(b, dtype),
                                             .extra = extra};
        rc = kernel_bench_print(b, &figure);
    }
    return rc;
}

static int create_weights(struct matmul_bench *m, const struct weight_desc *desc,
                          uint64_t *bytes_out) {
    struct radish_error err = {0};
    *bytes_out = m->device->ops->weight_bytes(m->device, desc);
    const uint64_t n = *bytes_out ? WEIGHT_BYTES / *bytes_out + 1 : 1;
    const uint32_t n_wanted = n < MATRICES_MAX ? (uint32_t)n : MATRICES_MAX;
    for (; m->n_weights < n_wanted; m->n_weights++)
        if (m->device->ops->weight_create(m->device, desc, &m->weights[m->n_weights], &err) !=
            RADISH_OK)
            return command_fail("%s", err.msg);
    return -1;
}

static int run_shape(const struct kernel_bench *b, enum dtype dtype, uint32_t n_out,
                     uint32_t n_in) {
    struct matmul_bench m = {.device = b->device};
    char shape[32];
    uint64_t bytes = 0;
    snprintf(shape, sizeof shape, "%u x %u", n_out, n_in);
    uint8_t *data = make_matrix(dtype, n_out, n_in);
    const size_t n_x = (size_t)512 * n_in, n_y = (size_t)512 * (n_out < 100000 ? n_out : 20000);
    float *x = malloc(n_x * sizeof *x), *y = malloc(n_y * sizeof *y);
    const struct weight_desc desc = {.name = shape,
                                     .dtype = dtype,
                                     .n_out = n_out,
                                     .n_in = n_in,
                                     .data = data,
                                     .is_multiplied = true};
    int rc = data && x && y ? create_weights(&m, &desc, &bytes) : command_fail("out of memory");
    if (rc < 0) {
        for (size_t i = 0; i < n_x; i++) x[i] = (float)(i % 17) - 8.0f;
        memset(y, 0, n_y * sizeof *y);
        m.peer = onednn_product_create(b->device, dtype, n_out, n_in, n_out < 100000 ? 512 : 64,
                                       WEIGHT_BYTES);
        m.args = (struct matmul_args){.x = x, .y = y, .x_stride = n_in, .y_stride = n_out};
        rc = run_batches(b, &m, dtype, shape, n_out, n_in, bytes);
    }
    for (uint32_t i = 0; i < m.n_weights; i++)
        b->device->ops->weight_destroy(b->device, m.weights[i]);
    onednn_product_destroy(m.peer);
    free(y), free(x), free(data);
    return rc;
}

int bench_kernels_matmul(const struct kernel_bench *b) {
    static const struct {
        uint32_t n_out, n_in;
    } shapes[] = {{2048, 1024}, {1024, 1024}, {1024, 2048},
                  {3072, 1024}, {1024, 3072}, {151936, 1024}};
    int rc = -1;
    for (int t = 0; t < RADISH_DTYPE_COUNT && rc < 0; t++) {
        const enum dtype dtype = (enum dtype)t;
        const bool is_usual = dtype == RADISH_DTYPE_BF16 || dtype == RADISH_DTYPE_Q8_0 ||
                              dtype == RADISH_DTYPE_Q4_0 || dtype == RADISH_DTYPE_Q4_K;
        if (!dtype_can_read(dtype) || !kernel_bench_wants_dtype(b, dtype, is_usual)) continue;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && rc < 0; i++)
            rc = run_shape(b, dtype, shapes[i].n_out, shapes[i].n_in);
    }
    return rc;
}

/* ---- attention ---- */

enum { N_HEADS = 16, N_KV_HEADS = 8, HEAD_DIM = 128, POOL_TOKENS = 40 * 1024 };
enum { SEQS_MAX = 16, QUERIES_MAX = 512, RUN = 32, LAYOUTS = 3 };

struct attention_bench;

/* One way of placing requests in the pool. */
struct layout {
    struct attention_bench *bench;
    uint32_t *slots; /* [POOL_TOKENS] */
};

struct attention_bench {
    struct device *device;
    struct attention_seq seqs[SEQS_MAX];
    struct attention_args args;
    struct layout layouts[LAYOUTS]; /* contiguous, runs, scattered */
    uint32_t next;                  /* where in the pool the next call's requests begin */
    float *q, *out;
    char *pool;
    size_t pool_bytes; /* of K, and of V */
};

static void run_attention(void *user) {
    const struct layout *layout = user;
    struct attention_bench *a = layout->bench;
    const uint32_t kv_len = a->seqs[0].kv_len, n = a->args.n_seqs;
    for (uint32_t i = 0; i < n; i++) {
        if (a->next + kv_len > POOL_TOKENS) a->next = 0;
        a->seqs[i].slots = layout->slots + a->next;
        a->next += kv_len;
    }
    a->device->ops->step_begin(a->device);
    a->device->ops->attention(a->device, &a->args);
    if (a->device->ops->step_submit(a->device) == RADISH_OK)
        (void)!a->device->ops->step_wait(a->device);
}

static void shuffle(uint32_t *slots, uint32_t n, uint64_t stream) {
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = (uint32_t)(rng_u64(stream, i) % (i + 1)), kept = slots[i];
        slots[i] = slots[j];
        slots[j] = kept;
    }
}

static bool fill_layouts(struct attention_bench *a) {
    uint32_t runs[POOL_TOKENS / RUN];
    for (uint32_t i = 0; i < POOL_TOKENS / RUN; i++) runs[i] = i;
    shuffle(runs, POOL_TOKENS / RUN, 2);
    for (int l = 0; l < LAYOUTS; l++) {
        uint32_t *slots = malloc(POOL_TOKENS * sizeof *slots);
        if (!slots) return false;
        a->layouts[l] = (struct layout){a, slots};
        for (uint32_t i = 0; i < POOL_TOKENS; i++)
            slots[i] = l == 1 ? runs[i / RUN] * RUN + i % RUN : i;
        if (l == 2) shuffle(slots, POOL_TOKENS, 3);
    }
    return true;
}

static bool fill_attention(struct attention_bench *a, enum dtype dtype) {
    const size_t width = N_KV_HEADS * HEAD_DIM, n_q = (size_t)QUERIES_MAX * N_HEADS * HEAD_DIM;
    a->pool_bytes = POOL_TOKENS * width * dtype_block_bytes(dtype);
    a->pool = mem_aligned_alloc(2 * a->pool_bytes);
    a->q = malloc(n_q * sizeof *a->q);
    a->out = malloc(n_q * sizeof *a->out);
    if (!a->pool || !a->q || !a->out || !fill_layouts(a)) return false;
    for (size_t i = 0; i < n_q; i++) a->q[i] = (float)(i % 19) / 19.0f - 0.5f;
    /* 0x3c3c: a small number in f32, f16 and bf16. */
    memset(a->pool, 0x3c, 2 * a->pool_bytes);
    a->args = (struct attention_args){.q = a->q,
                                      .out = a->out,
                                      .k_pool = a->pool,
                                      .v_pool = a->pool + a->pool_bytes,
                                      .seqs = a->seqs,
                                      .q_stride = N_HEADS * HEAD_DIM,
                                      .out_stride = N_HEADS * HEAD_DIM,
                                      .n_heads = N_HEADS,
                                      .n_kv_heads = N_KV_HEADS,
                                      .head_dim = HEAD_DIM,
                                      .v_head_dim = HEAD_DIM,
                                      .n_slots = POOL_TOKENS,
                                      .kv_dtype = (int32_t)dtype,
                                      .scale = 0.0883883f};
    return true;
}

static int run_case(const struct kernel_bench *b, struct attention_bench *a, enum dtype dtype,
                    uint32_t n_seqs, uint32_t n_rows, uint32_t kv_len) {
    struct timed timed[LAYOUTS];
    char shape[40], extra[160];
    for (uint32_t i = 0; i < n_seqs; i++)
        a->seqs[i] =
            (struct attention_seq){.row_first = i * n_rows, .n_rows = n_rows, .kv_len = kv_len};
    a->args.n_seqs = n_seqs;
    for (int l = 0; l < LAYOUTS; l++)
        timed[l] = (struct timed){.fn = run_attention, .user = &a->layouts[l]};
    kernel_bench_time(timed, LAYOUTS, ATTENTION_MS);
    snprintf(shape, sizeof shape, "%ux%u at %u", n_seqs, n_rows, kv_len - n_rows);
    snprintf(extra, sizeof extra,
             b->args->json ? ", \"contiguous_ns\": %.0f, \"runs_ns\": %.0f, \"scattered_ns\": %.0f"
                           : "  contiguous %.0f, runs %.0f, scattered %.0f",
             timed[0].median_ns, timed[1].median_ns, timed[2].median_ns);
    /* Query row i sees kv_len - n_rows + i + 1 keys. */
    const double keys = n_rows * (kv_len - n_rows + (n_rows + 1) / 2.0);
    const struct kernel_figure figure = {
        .op = "attention",
        .shape = shape,
        .dtype = dtype_name(dtype),
        .n_rows = n_seqs * n_rows,
        .ns = timed[1].median_ns,
        .bytes = 2.0 * n_seqs * kv_len * N_KV_HEADS * HEAD_DIM * dtype_block_bytes(dtype),
        .ops = 4.0 * n_seqs * keys * N_HEADS * HEAD_DIM,
        .peak = b->peak[cpu_has_isa(CPU_ISA_AVX512) ? CPU_ISA_AVX512 : CPU_ISA_AVX2][0],
        .extra = extra};
    return kernel_bench_print(b, &figure);
}

static int run_attention_dtype(const struct kernel_bench *b, enum dtype dtype) {
    static const struct {
        uint32_t n_seqs, n_rows, kv_len;
    } cases[] = {{1, 1, 512},   {1, 1, 2048},  {4, 1, 2048},  {16, 1, 512},
                 {16, 1, 2048}, {1, 512, 512}, {1, 512, 2048}};
    struct attention_bench *a = calloc(1, sizeof *a);
    if (!a) return command_fail("out of memory");
    a->device = b->device;
    int rc = fill_attention(a, dtype) ? -1 : command_fail("out of memory");
    for (size_t i = 0; i < sizeof cases / sizeof *cases && rc < 0; i++)
        rc = run_case(b, a, dtype, cases[i].n_seqs, cases[i].n_rows, cases[i].kv_len);
    for (int l = 0; l < LAYOUTS; l++) free(a->layouts[l].slots);
    mem_aligned_free(a->pool, 2 * a->pool_bytes);
    free(a->q), free(a->out), free(a);
    return rc;
}

int bench_kernels_attention(const struct kernel_bench *b) {
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    int rc = -1;
    for (size_t i = 0; i < 3 && rc < 0; i++)
        if (kernel_bench_wants_dtype(b, dtypes[i], dtypes[i] == RADISH_DTYPE_BF16))
            rc = run_attention_dtype(b, dtypes[i]);
    return rc;
}
