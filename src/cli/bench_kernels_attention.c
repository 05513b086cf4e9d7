/* bench_kernels_attention.c - attention at Qwen3-0.6B's heads: what reading through slots costs.
 *
 * The same work through three slot tables over one pool:
 *
 *   contiguous  each request's slots in a row: its memory is that of a private buffer [keys, KV
 *               heads, head_dim], the twin that slots are held against
 *   runs        runs of 32 slots in random order, as a pool gives them after a while
 *   scattered   every slot anywhere: the worst case, which a pool of pages of one slot may come to
 *
 * They are timed in the same rounds (bench_compare.c). Beside them the slots of the first and the
 * last table are read and nothing else, key block by key block like attention does it: what memory
 * itself takes for single slots cannot be had back by any kernel. Bytes are K and V read once per
 * request, or per tile of queries in a prefill; requests move on from call to call through a pool
 * that no cache holds, as they do from layer to layer of a model. */
#include "bench_kernels.h"

#include "base/mem.h"
#include "base/rng.h"
#include "bench_compare.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_HEADS = 16, N_KV_HEADS = 8, HEAD_DIM = 128, POOL_TOKENS = 40 * 1024 };
enum { SEQS_MAX = 16, QUERIES_MAX = 512, RUN = 32, ATTENTION_MS = 150 };
enum { LAYOUT_CONTIGUOUS, LAYOUT_RUNS, LAYOUT_SCATTERED, N_LAYOUTS };
enum { READ_CONTIGUOUS = N_LAYOUTS, READ_SCATTERED, N_COMPARED };
enum { READ_KEYS = 64, READ_AHEAD = 8 }; /* keys of a block, slots asked for beforehand */

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
    struct layout layouts[N_LAYOUTS];
    uint32_t next; /* where in the pool the next call's requests begin */
    float *q, *out;
    char *pool;
    size_t pool_bytes, slot_bytes; /* of K, and of V */
};

static void place_requests(const struct layout *layout) {
    struct attention_bench *a = layout->bench;
    const uint32_t kv_len = a->seqs[0].kv_len;
    for (uint32_t i = 0; i < a->args.n_seqs; i++) {
        if (a->next + kv_len > POOL_TOKENS) a->next = 0;
        a->seqs[i].slots = layout->slots + a->next;
        a->next += kv_len;
    }
}

static void run_attention(void *user) {
    const struct layout *layout = user;
    struct attention_bench *a = layout->bench;
    place_requests(layout);
    a->device->ops->step_begin(a->device);
    a->device->ops->attention(a->device, &a->args);
    if (a->device->ops->step_submit(a->device) == RADISH_OK)
        (void)!a->device->ops->step_wait(a->device);
}

/* Some slots of K or V, one after another. */
static void read_slots(const struct attention_bench *a, const char *pool, const uint32_t *slots,
                       uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t ahead = slots[i + READ_AHEAD < n ? i + READ_AHEAD : n - 1];
        __builtin_prefetch(pool + ahead * a->slot_bytes);
        peak_read(pool + slots[i] * a->slot_bytes, a->slot_bytes);
    }
}

/* A block of keys of one request: K, then V. */
static void read_item(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct attention_bench *a = user;
    const uint32_t n_blocks = a->seqs[0].kv_len / READ_KEYS;
    const uint32_t *slots = a->seqs[item / n_blocks].slots + item % n_blocks * READ_KEYS;
    read_slots(a, a->pool, slots, READ_KEYS);
    read_slots(a, a->pool + a->pool_bytes, slots, READ_KEYS);
}

static void run_read(void *user) {
    const struct layout *layout = user;
    struct attention_bench *a = layout->bench;
    place_requests(layout);
    device_parallel(a->device, a->args.n_seqs * (a->seqs[0].kv_len / READ_KEYS), read_item, a);
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
    for (int l = 0; l < N_LAYOUTS; l++) {
        uint32_t *slots = malloc(POOL_TOKENS * sizeof *slots);
        if (!slots) return false;
        a->layouts[l] = (struct layout){a, slots};
        for (uint32_t i = 0; i < POOL_TOKENS; i++)
            slots[i] = l == LAYOUT_RUNS ? runs[i / RUN] * RUN + i % RUN : i;
        if (l == LAYOUT_SCATTERED) shuffle(slots, POOL_TOKENS, 3);
    }
    return true;
}

static bool fill(struct attention_bench *a, enum dtype dtype) {
    const size_t width = N_KV_HEADS * HEAD_DIM, n_q = (size_t)QUERIES_MAX * N_HEADS * HEAD_DIM;
    a->slot_bytes = width * dtype_block_bytes(dtype);
    a->pool_bytes = POOL_TOKENS * a->slot_bytes;
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

static int print_case(const struct kernel_bench *b, const struct attention_bench *a,
                      enum dtype dtype, const struct compared *c) {
    const uint32_t n_seqs = a->args.n_seqs, n_rows = a->seqs[0].n_rows, kv_len = a->seqs[0].kv_len;
    const struct compared *runs = &c[LAYOUT_RUNS], *scattered = &c[LAYOUT_SCATTERED];
    char shape[40], extra[400];
    snprintf(shape, sizeof shape, "%ux%u at %u", n_seqs, n_rows, kv_len - n_rows);
    snprintf(extra, sizeof extra,
             b->args->json
                 ? ", \"contiguous_ns\": %.0f, \"runs_ns\": %.0f, \"scattered_ns\": %.0f, "
                   "\"runs_ratio\": %.4f, \"runs_quartiles\": [%.4f, %.4f], \"scattered_ratio\": "
                   "%.4f, \"scattered_quartiles\": [%.4f, %.4f], \"read_contiguous_ns\": %.0f, "
                   "\"read_scattered_ns\": %.0f"
                 : "  contiguous %.0f, runs %.0f, scattered %.0f ns; to contiguous: runs %.3f "
                   "(%.3f to %.3f), scattered %.3f (%.3f to %.3f); read only %.0f, %.0f ns",
             c[LAYOUT_CONTIGUOUS].median_ns, runs->median_ns, scattered->median_ns, runs->ratio,
             runs->ratio_low, runs->ratio_high, scattered->ratio, scattered->ratio_low,
             scattered->ratio_high, c[READ_CONTIGUOUS].median_ns, c[READ_SCATTERED].median_ns);
    /* Query row i sees kv_len - n_rows + i + 1 keys. */
    const double keys = n_rows * (kv_len - n_rows + (n_rows + 1) / 2.0);
    const struct kernel_figure figure = {.op = "attention",
                                         .shape = shape,
                                         .dtype = dtype_name(dtype),
                                         .n_rows = n_seqs * n_rows,
                                         .ns = runs->median_ns,
                                         .min_ns = runs->min_ns,
                                         .bytes = 2.0 * n_seqs * kv_len * (double)a->slot_bytes,
                                         .ops = 4.0 * n_seqs * keys * N_HEADS * HEAD_DIM,
                                         .peak = kernel_bench_peak(b, KERNEL_OP_ATTENTION, dtype),
                                         .extra = extra};
    return kernel_bench_print(b, &figure);
}

static int run_case(const struct kernel_bench *b, struct attention_bench *a, enum dtype dtype,
                    const uint32_t size[3]) {
    struct compared compared[N_COMPARED];
    a->args.n_seqs = size[0];
    for (uint32_t i = 0; i < size[0]; i++)
        a->seqs[i] =
            (struct attention_seq){.row_first = i * size[1], .n_rows = size[1], .kv_len = size[2]};
    for (int l = 0; l < N_LAYOUTS; l++)
        compared[l] = (struct compared){.fn = run_attention, .user = &a->layouts[l]};
    compared[READ_CONTIGUOUS] =
        (struct compared){.fn = run_read, .user = &a->layouts[LAYOUT_CONTIGUOUS]};
    compared[READ_SCATTERED] =
        (struct compared){.fn = run_read, .user = &a->layouts[LAYOUT_SCATTERED]};
    bench_compare(compared, N_COMPARED, ATTENTION_MS, device_n_threads(b->device) == 1);
    return print_case(b, a, dtype, compared);
}

static int run_dtype(const struct kernel_bench *b, enum dtype dtype) {
    /* Sequences, rows of each, keys. */
    static const uint32_t sizes[][3] = {{1, 1, 512},  {1, 1, 2048},  {4, 1, 2048},
                                        {16, 1, 512}, {16, 1, 2048}, {1, 1, 8192},
                                        {4, 1, 8192}, {1, 512, 512}, {1, 512, 2560}};
    struct attention_bench *a = calloc(1, sizeof *a);
    if (!a) return command_fail("out of memory");
    a->device = b->device;
    int rc = fill(a, dtype) ? -1 : command_fail("out of memory");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && rc < 0; i++)
        rc = run_case(b, a, dtype, sizes[i]);
    for (int l = 0; l < N_LAYOUTS; l++) free(a->layouts[l].slots);
    mem_aligned_free(a->pool, 2 * a->pool_bytes);
    free(a->q), free(a->out), free(a);
    return rc;
}

int bench_kernels_attention(const struct kernel_bench *b) {
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    int rc = -1;
    for (size_t i = 0; i < 3 && rc < 0; i++)
        if (kernel_bench_wants_dtype(b, dtypes[i], dtypes[i] == RADISH_DTYPE_BF16))
            rc = run_dtype(b, dtypes[i]);
    return rc;
}
