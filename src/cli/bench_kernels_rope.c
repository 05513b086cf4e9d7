/* bench_kernels_rope.c - rope_kv_store in one pass, beside the same in four, beside a copy.
 *
 * Shapes and batches are those of the table that the system we follow has published (heads / KV
 * heads / head_dim), with the real one of Qwen3-0.6B, and T from 1, where decoding lives. The
 * unfused one is the registry's: --kernel rope_kv_store=unfused. The floor moves as many bytes at
 * the same places and computes next to nothing: Q's row is read and written back, the pool's rows
 * are filled from the first bytes of K and V; with all threads or one, whichever is faster.
 *
 * Q, K and V are warm, as the products before have left them; slots move on from call to call
 * through a pool that no cache holds, as they do from layer to layer of a model. */
#include "bench_kernels.h"

#include "base/mem.h"
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_MAX = 1024, POSITION = 1000, BUDGET_MS = 12 };
#define POOL_BYTES ((size_t)64 << 20)

struct rope_bench {
    const struct kernel_bench *b;
    struct device *unfused;
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

static void run_on(struct rope_bench *r, struct device *device) {
    move_on(r);
    device->ops->step_begin(device);
    device->ops->rope_kv_store(device, &r->args);
    if (device->ops->step_submit(device) != RADISH_OK) return;
    (void)!device->ops->step_wait(device);
}

static void run_fused(void *user) {
    struct rope_bench *r = user;
    run_on(r, r->b->device);
}

static void run_unfused(void *user) {
    struct rope_bench *r = user;
    run_on(r, r->unfused);
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
                     const struct timed timed[4]) {
    const struct timed *fused = &timed[0], *unfused = &timed[1];
    const double floor_ns =
        timed[2].median_ns < timed[3].median_ns ? timed[2].median_ns : timed[3].median_ns;
    char line[400];
    const int n =
        snprintf(line, sizeof line,
                 r->b->args->json
                     ? "{\"bench\": \"kernels\", \"op\": \"rope_kv_store\", \"shape\": \"%s\", "
                       "\"dtype\": \"%s\", \"T\": %u, \"fused_ns\": %.0f, \"unfused_ns\": %.0f, "
                       "\"floor_ns\": %.0f, \"fused_min_ns\": %.0f, \"unfused_min_ns\": %.0f}\n"
                     : "rope_kv_store %-10s %-5s %5u  %10.0f %10.0f %10.0f %8.0f %8.0f\n",
                 shape, dtype_name(dtype), r->args.n_rows, fused->median_ns, unfused->median_ns,
                 floor_ns, fused->min_ns, unfused->min_ns);
    return command_write(line, (size_t)n);
}

static int run_shape(struct rope_bench *r, const char *shape, enum dtype dtype) {
    int rc = -1;
    for (uint32_t n_rows = 1; n_rows <= T_MAX && rc < 0; n_rows *= 2) {
        struct timed timed[4] = {{.fn = run_fused, .user = r},
                                 {.fn = run_unfused, .user = r},
                                 {.fn = copy_serially, .user = r},
                                 {.fn = copy_in_parallel, .user = r}};
        r->args.n_rows = n_rows;
        kernel_bench_time(timed, 4, BUDGET_MS);
        rc = print_row(r, shape, dtype, timed);
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
    const struct device_options options = {
        .n_threads = device_n_threads(b->device), .kernels = &choice, .n_kernels = 1};
    struct rope_bench r = {.b = b};
    struct radish_error err = {0};
    if (device_open("cpu", &options, &r.unfused, &err) != RADISH_OK)
        return command_fail_error("--kernel", &err);
    static const char head[] = "op            shape      dtype     T    fused_ns unfused_ns   "
                               "floor_ns    (min)    (min)\n";
    int rc = b->args->json ? -1 : command_write(head, sizeof head - 1);
    for (size_t i = 0; i < 3 && rc < 0; i++)
        if (kernel_bench_wants_dtype(b, dtypes[i], dtypes[i] == RADISH_DTYPE_BF16))
            rc = run_dtype(&r, dtypes[i]);
    device_close(r.unfused);
    return rc;
}
