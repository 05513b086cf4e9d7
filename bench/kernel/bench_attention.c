/* bench_attention.c - speed of attention: decode in GB/s of K and V read, prefill in GFLOP/s, each
 * through scattered slots, through runs of slots and over contiguous buffers of a request's own.
 *
 * Usage: bench_attention [HEADS KV_HEADS HEAD_DIM [THREADS [KERNEL]]]; KERNEL as for --kernel
 * ("attention=ref"). Prints CSV. The three ways of reading the pool alternate within a run, so that
 * what disturbs one disturbs all; times are the best of RUNS, of_contiguous is the median of their
 * ratios within a run. Requests move through a pool that no cache holds, as the layers of a model
 * would, in huge pages, as a device allocates it: with pages of 4 KiB everything reads a tenth to a
 * third slower, single slots most (2026-11-30). With one thread the time is that of the thread on
 * its CPU: other programs cost it their share of the caches, not their turns.
 *
 *   contiguous  slots 0, 1, 2, ... from a request's first one: what a private buffer would be
 *   runs        runs of 32 slots, the runs in random order: a pool in use for a while
 *   scattered   every slot anywhere in the request's region: the worst case
 *   shared      as runs; all requests have the slots of the first one for the first 7/8 of their
 * keys */
#include "base/clock.h"
#include "base/mem.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { POOL_TOKENS = 40 * 1024, ROWS_MAX = 2048, RUNS = 9, RUN_LENGTH = 32, SEQS_MAX = 16 };
enum layout { CONTIGUOUS, RUNS_OF_SLOTS, SCATTERED, SHARED, N_LAYOUTS };
static const char *const layout_names[] = {"contiguous", "runs", "scattered", "shared"};

struct bench {
    struct device *device;
    uint32_t n_heads, n_kv_heads, head_dim;
    enum dtype dtype;
    float *q, *out;
    uint8_t *k_pool, *v_pool;
    uint32_t *slots[N_LAYOUTS]; /* [POOL_TOKENS] */
};

struct shape {
    const char *name;
    uint32_t n_seqs, n_rows, kv_len;
};

static uint32_t state = 1;
static uint32_t next_random(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state * n >> 32);
}

static void *allocate(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

/* Permutes units of `unit` slots inside regions of kv_len. */
static void shuffle_slots(uint32_t *slots, uint32_t kv_len, uint32_t unit) {
    for (uint32_t first = 0; first + kv_len <= POOL_TOKENS; first += kv_len) {
        for (uint32_t i = kv_len / unit; i-- > 1;) {
            const uint32_t j = next_random(i + 1);
            for (uint32_t u = 0; u < unit; u++) {
                uint32_t *a = &slots[first + i * unit + u], *b = &slots[first + j * unit + u];
                const uint32_t kept = *a;
                *a = *b;
                *b = kept;
            }
        }
    }
}

static void deal_slots(struct bench *b, const struct shape *s) {
    for (int l = 0; l < N_LAYOUTS; l++)
        for (uint32_t i = 0; i < POOL_TOKENS; i++) b->slots[l][i] = i;
    shuffle_slots(b->slots[RUNS_OF_SLOTS], s->kv_len, RUN_LENGTH);
    shuffle_slots(b->slots[SCATTERED], s->kv_len, 1);
    shuffle_slots(b->slots[SHARED], s->kv_len, RUN_LENGTH);
    const uint32_t n_shared = s->kv_len / 8 * 7, step = s->kv_len * s->n_seqs;
    for (uint32_t i = 0; i + s->kv_len <= POOL_TOKENS; i++)
        if (i % s->kv_len < n_shared)
            b->slots[SHARED][i] = b->slots[SHARED][i / step * step + i % s->kv_len];
}

static uint64_t now_ns(const struct bench *b) {
    if (device_n_threads(b->device) > 1) return clock_ns();
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One call per part of the pool that the sequences fit in; returns ns of a call. */
static double run_once(const struct bench *b, const struct shape *s, enum layout layout) {
    /* Long prefills are bound by arithmetic: one is enough. */
    const uint32_t n_regions = s->n_rows > 64 ? 1 : POOL_TOKENS / s->kv_len / s->n_seqs;
    struct attention_seq seqs[SEQS_MAX];
    const uint64_t start = now_ns(b);
    for (uint32_t r = 0; r < n_regions; r++) {
        for (uint32_t i = 0; i < s->n_seqs; i++)
            seqs[i] =
                (struct attention_seq){i * s->n_rows, s->n_rows, s->kv_len,
                                       b->slots[layout] + (size_t)(r * s->n_seqs + i) * s->kv_len};
        const uint32_t width = b->n_heads * b->head_dim;
        const struct attention_args args = {.q = b->q,
                                            .out = b->out,
                                            .k_pool = b->k_pool,
                                            .v_pool = b->v_pool,
                                            .seqs = seqs,
                                            .n_seqs = s->n_seqs,
                                            .q_stride = width,
                                            .out_stride = width,
                                            .n_heads = b->n_heads,
                                            .n_kv_heads = b->n_kv_heads,
                                            .head_dim = b->head_dim,
                                            .v_head_dim = b->head_dim,
                                            .n_slots = POOL_TOKENS,
                                            .kv_dtype = (int32_t)b->dtype,
                                            .scale = 0.1f};
        b->device->ops->attention(b->device, &args);
    }
    return (double)(now_ns(b) - start) / n_regions;
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double find_ratio(const double *ns, const double *contiguous_ns) {
    double ratios[RUNS];
    for (int run = 0; run < RUNS; run++) ratios[run] = ns[run] / contiguous_ns[run];
    qsort(ratios, RUNS, sizeof *ratios, compare_doubles);
    return ratios[RUNS / 2];
}

static void bench_shape(struct bench *b, const struct shape *s) {
    double ns[N_LAYOUTS][RUNS], best[N_LAYOUTS] = {1e30, 1e30, 1e30, 1e30};
    deal_slots(b, s);
    for (int run = 0; run < RUNS; run++) {
        for (int l = 0; l < N_LAYOUTS; l++) {
            ns[l][run] = run_once(b, s, (enum layout)l);
            if (ns[l][run] < best[l]) best[l] = ns[l][run];
        }
    }
    const double bytes = 2.0 * s->n_seqs * s->kv_len * b->n_kv_heads * b->head_dim *
                         (double)dtype_block_bytes(b->dtype);
    const double pairs = s->n_seqs * (s->n_rows * (double)(s->kv_len - s->n_rows) +
                                      s->n_rows * (s->n_rows + 1.0) / 2);
    for (int l = 0; l < N_LAYOUTS; l++) {
        if (l == SHARED && s->n_seqs == 1) continue;
        printf("%s,%s,%u,%u,%u,%s,%.1f,%.1f,%.1f,%.3f\n", dtype_name(b->dtype), s->name, s->n_seqs,
               s->n_rows, s->kv_len, layout_names[l], best[l] / 1000, bytes / best[l],
               4.0 * pairs * b->n_heads * b->head_dim / best[l], find_ratio(ns[l], ns[CONTIGUOUS]));
    }
    fflush(stdout);
}

static void fill_pool(struct bench *b) {
    const size_t n = (size_t)POOL_TOKENS * b->n_kv_heads * b->head_dim;
    const size_t elem = dtype_block_bytes(b->dtype);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)next_random(2001) / 1000.0f - 1.0f;
        const uint16_t h =
            b->dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(x) : dtype_f32_to_bf16(x);
        if (elem == 4) {
            ((float *)(void *)b->k_pool)[i] = x;
            ((float *)(void *)b->v_pool)[i] = -x;
        } else {
            ((uint16_t *)(void *)b->k_pool)[i] = h;
            ((uint16_t *)(void *)b->v_pool)[i] = h;
        }
    }
}

int main(int argc, char **argv) {
    static const struct shape shapes[] = {
        {"decode", 1, 1, 128},    {"decode", 1, 1, 2048},    {"decode", 1, 1, 8192},
        {"decode", 1, 1, 16384},  {"decode", 4, 1, 2048},    {"decode", 16, 1, 2048},
        {"prefill", 1, 16, 2048}, {"prefill", 1, 32, 32},    {"prefill", 4, 128, 128},
        {"prefill", 1, 512, 512}, {"prefill", 1, 512, 2048}, {"prefill", 1, 2048, 2048}};
    static const enum dtype dtypes[] = {RADISH_DTYPE_BF16, RADISH_DTYPE_F16, RADISH_DTYPE_F32};
    struct bench b = {.n_heads = argc > 3 ? (uint32_t)atoi(argv[1]) : 16,
                      .n_kv_heads = argc > 3 ? (uint32_t)atoi(argv[2]) : 8,
                      .head_dim = argc > 3 ? (uint32_t)atoi(argv[3]) : 128};
    const char *kernel = argc > 5 ? argv[5] : NULL;
    const struct device_options options = {.n_threads = argc > 4 ? (uint32_t)atoi(argv[4]) : 0,
                                           .kernels = &kernel,
                                           .n_kernels = kernel ? 1 : 0};
    const uint32_t width = b.n_heads * b.head_dim;
    struct radish_error err;
    if (device_open("cpu", &options, &b.device, &err) != RADISH_OK ||
        b.device->ops->scratch_reserve(b.device, ROWS_MAX, width, POOL_TOKENS, &err) != RADISH_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const size_t pool_bytes = (size_t)POOL_TOKENS * b.n_kv_heads * b.head_dim * sizeof(float);
    b.q = allocate((size_t)ROWS_MAX * width * sizeof *b.q);
    b.out = allocate((size_t)ROWS_MAX * width * sizeof *b.out);
    b.k_pool = mem_aligned_alloc(pool_bytes);
    b.v_pool = mem_aligned_alloc(pool_bytes);
    if (!b.k_pool || !b.v_pool) {
        fprintf(stderr, "no memory\n");
        return 1;
    }
    for (int l = 0; l < N_LAYOUTS; l++) b.slots[l] = allocate(POOL_TOKENS * sizeof(uint32_t));
    for (size_t i = 0; i < (size_t)ROWS_MAX * width; i++) b.q[i] = (float)(i % 17) / 8 - 1.0f;
    printf("# %s\ndtype,phase,seqs,rows,kv_len,slots,us,gbs,gflops,of_contiguous\n",
           device_kernels(b.device));
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
        b.dtype = dtypes[t];
        fill_pool(&b);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) bench_shape(&b, &shapes[i]);
    }
    for (int l = 0; l < N_LAYOUTS; l++) free(b.slots[l]);
    mem_aligned_free(b.v_pool, pool_bytes);
    mem_aligned_free(b.k_pool, pool_bytes);
    free(b.out), free(b.q);
    device_close(b.device);
    return 0;
}
