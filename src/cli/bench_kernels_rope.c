/* bench_kernels_rope.c - rope_kv_store in one pass, beside the same in four, beside a copy.
 *
 * Shapes and batches are those of the table that the system we follow has published (heads / KV
 * heads / head_dim), with the real one of Qwen3-0.6B, and T from 1, where decoding lives. The
 * unfused one is the registry's, as --kernel rope_kv_store=unfused would have it, called on the
 * same threads (threads of a second device would spin while the first one works). The floor moves
 * as many bytes at the same places and computes next to nothing: Q's row is read and written back,
 * the pool's rows are filled from the first bytes of K and V; with all threads or one, whichever is
 * faster.
 *
 * A call takes less than a microsecond at T = 1, and a few per cent are the question: the four are
 * timed in rounds of short slices, and what counts is their ratio within a round (bench_compare.c).
 * Q, K and V are warm, as the products before have left them; slots move on from call to call
 * through a pool that no cache holds, as they do from layer to layer of a model. */
#include "bench_kernels.h"

#include "base/log.h"
#include "base/mem.h"
#include "bench_compare.h"
#include "command.h"
#include "kernel/cpu/device_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_MAX = 1024, POSITION = 1000, BUDGET_MS = 12 };
enum { FUSED, UNFUSED, COPY_SERIAL, COPY_PARALLEL, N_COMPARED };
#define POOL_BYTES ((size_t)64 << 20)

struct rope_bench {
    const struct kernel_bench *b;
    struct cpu_device *device;
    struct registry unfused; /* its choices */
    const struct kernel_row *rows[2];
    struct rope_kv_store_args args;
    int32_t *slots;
    uint32_t n_slots, next_slot;
    size_t row_bytes; /* of a slot of K, and of V */
    float *block;     /* q, k, v, table, pools */
    size_t block_bytes;
};

/* This call's slots: those behind the last call's. */
static void move_on(struct rope_bench *r) {
    if (r->next_slot + r->args.n_rows > r->n_slots) r->next_slot = 1;
    r->args.slots = r->slots + r->next_slot;
    r->next_slot += r->args.n_rows;
}

static void run_fused(void *user) {
    struct rope_bench *r = user;
    move_on(r);
    cpu_rope_kv_store(r->device, r->rows[FUSED], &r->args);
}

static void run_unfused(void *user) {
    struct rope_bench *r = user;
    move_on(r);
    cpu_rope_kv_store(r->device, r->rows[UNFUSED], &r->args);
}

static void copy_row(const struct rope_bench *r, uint32_t row) {
    const struct rope_kv_store_args *a = &r->args;
    const size_t slot = (size_t)a->slots[row] * r->row_bytes;
    peak_touch(a->q + (size_t)row * a->q_stride, a->q_stride);
    peak_copy((char *)a->k_pool + slot, a->k + (size_t)row * a->k_stride, r->row_bytes);
    peak_copy((char *)a->v_pool + slot, a->v + (size_t)row * a->v_stride, r->row_bytes);
}

static void copy_serially(void *user) {
    struct rope_bench *r = user;
    move_on(r);
    for (uint32_t row = 0; row < r->args.n_rows; row++) copy_row(r, row);
}

static void copy_item(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct rope_bench *r = user;
    const uint32_t n = r->args.n_rows, n_items = 4 * device_n_threads(r->b->device);
    for (uint32_t row = n * item / n_items; row < n * (item + 1) / n_items; row++) copy_row(r, row);
}

static void copy_in_parallel(void *user) {
    struct rope_bench *r = user;
    move_on(r);
    device_parallel(r->b->device, 4 * device_n_threads(r->b->device), copy_item, r);
}

static int print_row(const struct rope_bench *r, const char *shape, enum dtype dtype,
                     const struct compared *c) {
    const struct rope_kv_store_args *a = &r->args;
    const struct compared *fused = &c[FUSED], *unfused = &c[UNFUSED];
    const double *serial_ns = &c[COPY_SERIAL].median_ns, *parallel_ns = &c[COPY_PARALLEL].median_ns;
    const double floor_ns = *serial_ns < *parallel_ns ? *serial_ns : *parallel_ns;
    char extra[300];
    snprintf(
        extra, sizeof extra,
        r->b->args->json
            ? ", \"fused_ns\": %.0f, \"unfused_ns\": %.0f, \"floor_ns\": %.0f, "
              "\"unfused_ratio\": %.4f, \"unfused_quartiles\": [%.4f, %.4f]"
            : "  fused %.0f, unfused %.0f, floor %.0f ns; unfused to fused %.3f (%.3f to %.3f)",
        fused->median_ns, unfused->median_ns, floor_ns, unfused->ratio, unfused->ratio_low,
        unfused->ratio_high);
    const double floats = 2.0 * a->q_stride + a->k_stride + a->v_stride;
    const struct kernel_figure figure = {
        .op = "rope_kv_store",
        .shape = shape,
        .dtype = dtype_name(dtype),
        .n_rows = a->n_rows,
        .ns = fused->median_ns,
        .min_ns = fused->min_ns,
        .bytes = a->n_rows * (floats * sizeof(float) + 2.0 * (double)r->row_bytes),
        .extra = extra};
    return kernel_bench_print(r->b, &figure);
}

static const struct kernel_row *find_row(const struct registry *registry, enum dtype dtype) {
    const uint32_t format = dtype == RADISH_DTYPE_F32   ? KERNEL_F32
                            : dtype == RADISH_DTYPE_F16 ? KERNEL_F16
                                                        : KERNEL_BF16;
    char reason[120];
    return registry_find(registry, KERNEL_OP_ROPE_KV_STORE, format, /*shape=*/NULL, reason,
                         sizeof reason);
}

static int run_shape(struct rope_bench *r, const char *shape, enum dtype dtype) {
    int rc = -1;
    r->rows[FUSED] = find_row(&r->b->registry, dtype);
    r->rows[UNFUSED] = find_row(&r->unfused, dtype);
    if (!r->rows[FUSED] || !r->rows[UNFUSED]) return command_fail("no rope_kv_store for the type");
    for (uint32_t n_rows = 1; n_rows <= T_MAX && rc < 0; n_rows *= 2) {
        struct compared compared[N_COMPARED] = {{.fn = run_fused, .user = r},
                                                {.fn = run_unfused, .user = r},
                                                {.fn = copy_serially, .user = r},
                                                {.fn = copy_in_parallel, .user = r}};
        r->args.n_rows = n_rows;
        bench_compare(compared, N_COMPARED, BUDGET_MS, device_n_threads(r->b->device) == 1);
        rc = print_row(r, shape, dtype, compared);
    }
    return rc;
}

/* Memory of a shape, all of it touched. */
static bool fill(struct rope_bench *r, uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                 enum dtype dtype) {
    const size_t q_row = (size_t)n_heads * head_dim, k_row = (size_t)n_kv_heads * head_dim;
    const size_t n_table = (size_t)(POSITION + T_MAX) * head_dim;
    const size_t n_floats = T_MAX * (q_row + 2 * k_row) + n_table;
    r->row_bytes = k_row * dtype_block_bytes(dtype);
    r->n_slots = (uint32_t)(POOL_BYTES / r->row_bytes);
    r->block_bytes = n_floats * sizeof(float) + 2 * POOL_BYTES;
    r->block = mem_aligned_alloc(r->block_bytes);
    int32_t *slots = malloc(((size_t)r->n_slots + T_MAX) * sizeof *slots);
    r->slots = slots;
    if (!r->block || !slots) return false;
    for (size_t i = 0; i < n_floats; i++) r->block[i] = (float)(i % 251) / 251.0f;
    for (uint32_t i = 0; i < r->n_slots; i++) slots[i] = (int32_t)i;
    for (uint32_t i = 0; i < T_MAX; i++) slots[r->n_slots + i] = (int32_t)(POSITION + i);
    char *pools = (char *)(r->block + n_floats);
    memset(pools, 1, 2 * POOL_BYTES);
    r->next_slot = 1;
    float *q = r->block, *k = q + T_MAX * q_row, *v = k + T_MAX * k_row;
    float *table = v + T_MAX * k_row;
    r->args = (struct rope_kv_store_args){.q = q,
                                          .k = k,
                                          .v = v,
                                          .positions = slots + r->n_slots,
                                          .rope_table = table,
                                          .k_pool = pools,
                                          .v_pool = pools + POOL_BYTES,
                                          .q_stride = (uint32_t)q_row,
                                          .k_stride = (uint32_t)k_row,
                                          .v_stride = (uint32_t)k_row,
                                          .n_heads = n_heads,
                                          .n_kv_heads = n_kv_heads,
                                          .head_dim = head_dim,
                                          .v_head_dim = head_dim,
                                          .rotary_dim = head_dim,
                                          .n_slots = r->n_slots,
                                          .n_positions = POSITION + T_MAX,
                                          .kv_dtype = (int32_t)dtype};
    /* A real table: the values of a rotation, so that Q and K turned in place stay as large. */
    for (size_t i = 0; i < n_table; i++) table[i] = i % head_dim < head_dim / 2 ? 0.8f : 0.6f;
    return true;
}

static int run_dtype(struct rope_bench *r, enum dtype dtype) {
    static const struct {
        const char *name;
        uint32_t n_heads, n_kv_heads, head_dim;
    } shapes[] = {{"32/8/128", 32, 8, 128}, {"16/2/64", 16, 2, 64}, {"16/8/128", 16, 8, 128}};
    int rc = -1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && rc < 0; i++) {
        rc = fill(r, shapes[i].n_heads, shapes[i].n_kv_heads, shapes[i].head_dim, dtype)
                 ? run_shape(r, shapes[i].name, dtype)
                 : command_fail("out of memory");
        mem_aligned_free(r->block, r->block_bytes);
        free(r->slots);
        r->block = NULL;
        r->slots = NULL;
    }
    return rc;
}

int bench_kernels_rope(const struct kernel_bench *b) {
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    static const char *const choice = "rope_kv_store=unfused";
    struct rope_bench r = {.b = b, .device = (struct cpu_device *)(void *)b->device};
    struct radish_error err = {0};
    if (registry_init(&r.unfused, KERNEL_FAMILY_CPU, &choice, 1, &err) != RADISH_OK) {
        if (b->args->op) return command_fail("rope_kv_store is not measured: %s", err.msg);
        log_warn("bench", "rope_kv_store is not measured: %s", err.msg);
        return -1;
    }
    int rc = -1;
    for (size_t i = 0; i < 3 && rc < 0; i++)
        if (kernel_bench_wants_dtype(b, dtypes[i], dtypes[i] == RADISH_DTYPE_BF16))
            rc = run_dtype(&r, dtypes[i]);
    return rc;
}
