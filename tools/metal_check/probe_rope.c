/* probe_rope.c - rope_kv_store on Metal in its variants, beside each other.
 *
 * Shapes are those of the table that the system we follow has published (heads / KV heads /
 * head_dim), with the real one of Qwen3-0.6B, as in `radish bench kernels`. A step records as many
 * calls as a model has layers, each on Q, K and V of the one before, so that a barrier stands
 * between them as it does in a model; a call's time is the step's, divided: launches and barriers
 * included, and the step's own begin and end shared by all. Slots move on through the pool. Every
 * variant is another device, since a device has its kernels for life; all are measured before the
 * next shape, in turns, so that clocks which rise and fall meet all of them. */
#include "probe.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "device_int.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_VARIANTS = 4, N_SLOTS = 8192, N_POSITIONS = 4096, T_MAX = 512, TRIES_MAX = 31 };

static const char *const variants[N_VARIANTS] = {"rope_kv_store=metal", "rope_kv_store=metal_h1",
                                                 "rope_kv_store=metal_one",
                                                 "rope_kv_store=metal_unfused"};

struct shape {
    uint32_t n_heads, n_kv_heads, head_dim;
};

/* A device with the arrays of one shape. */
struct bench {
    struct device *device;
    struct rope_kv_store_args args;
    void *blocks[8]; /* of the device */
    size_t block_bytes[8];
    uint32_t n_blocks, next_slot;
};

static void *add_block(struct bench *b, size_t bytes, struct radish_error *err) {
    void *address = NULL;
    if (b->device->ops->mem_alloc(b->device, bytes, &address, err) != RADISH_OK) return NULL;
    b->blocks[b->n_blocks] = address;
    b->block_bytes[b->n_blocks++] = bytes;
    return address;
}

static void free_blocks(struct bench *b) {
    while (b->n_blocks) {
        b->n_blocks--;
        b->device->ops->mem_free(b->device, b->blocks[b->n_blocks], b->block_bytes[b->n_blocks]);
    }
}

/* The values of a rotation, the same at every position, so that what is turned stays as large. */
static enum radish_status upload_inputs(struct bench *b, void *table, void *ids,
                                        struct radish_error *err) {
    const struct device_vtable *ops = b->device->ops;
    const uint32_t width = b->args.rotary_dim;
    const size_t n_table = (size_t)N_POSITIONS * width, n_ids = N_SLOTS + N_POSITIONS;
    float *values = mem_alloc(n_table, sizeof *values);
    int32_t *numbers = mem_alloc(n_ids, sizeof *numbers);
    const bool is_ok = values && numbers;
    for (size_t i = 0; is_ok && i < n_table; i++) values[i] = i % width < width / 2 ? 0.8f : 0.6f;
    for (int32_t i = 0; is_ok && i < N_SLOTS + N_POSITIONS; i++)
        numbers[i] = i < N_SLOTS ? i : i - N_SLOTS;
    if (is_ok) {
        ops->upload(b->device, table, values, n_table * sizeof *values);
        ops->upload(b->device, ids, numbers, n_ids * sizeof *numbers);
    }
    free(values);
    free(numbers);
    return is_ok ? RADISH_OK : error_nomem(err);
}

static enum radish_status prepare(struct bench *b, const struct shape *s, enum dtype dtype,
                                  struct radish_error *err) {
    const uint32_t q_row = s->n_heads * s->head_dim, k_row = s->n_kv_heads * s->head_dim;
    const size_t pool_bytes = (size_t)N_SLOTS * k_row * dtype_block_bytes(dtype);
    char reason[160] = "";
    const struct kernel_shape shape = {.kv_dtype = dtype,
                                       .n_heads = s->n_heads,
                                       .n_kv_heads = s->n_kv_heads,
                                       .head_dim = s->head_dim,
                                       .v_head_dim = s->head_dim,
                                       .rotary_dim = s->head_dim};
    if (!b->device->ops->supports(b->device, KERNEL_OP_ROPE_KV_STORE, &shape, reason,
                                  sizeof reason))
        return error_set(err, RADISH_E_UNSUPPORTED, "%s", reason);
    float *q = add_block(b, (size_t)T_MAX * q_row * sizeof(float), err);
    float *k = q ? add_block(b, (size_t)T_MAX * k_row * sizeof(float), err) : NULL;
    float *v = k ? add_block(b, (size_t)T_MAX * k_row * sizeof(float), err) : NULL;
    void *table = v ? add_block(b, (size_t)N_POSITIONS * s->head_dim * sizeof(float), err) : NULL;
    void *ids = table ? add_block(b, (N_SLOTS + N_POSITIONS) * sizeof(int32_t), err) : NULL;
    void *k_pool = ids ? add_block(b, pool_bytes, err) : NULL;
    void *v_pool = k_pool ? add_block(b, pool_bytes, err) : NULL;
    if (!v_pool) return err->status;
    b->args = (struct rope_kv_store_args){.q = q,
                                          .k = k,
                                          .v = v,
                                          .positions = (const int32_t *)ids + N_SLOTS,
                                          .slots = ids,
                                          .rope_table = table,
                                          .k_pool = k_pool,
                                          .v_pool = v_pool,
                                          .q_stride = q_row,
                                          .k_stride = k_row,
                                          .v_stride = k_row,
                                          .n_heads = s->n_heads,
                                          .n_kv_heads = s->n_kv_heads,
                                          .head_dim = s->head_dim,
                                          .v_head_dim = s->head_dim,
                                          .rotary_dim = s->head_dim,
                                          .n_slots = N_SLOTS,
                                          .n_positions = N_POSITIONS,
                                          .kv_dtype = (int32_t)dtype};
    return upload_inputs(b, table, ids, err);
}

/* A step of n_calls; microseconds a call. */
static enum radish_status run_step(struct bench *b, uint32_t n_calls, double *us_out,
                                   struct radish_error *err) {
    struct rope_kv_store_args args = b->args;
    const struct device_vtable *ops = b->device->ops;
    const uint64_t began = clock_ns();
    ops->step_begin(b->device);
    for (uint32_t i = 0; i < n_calls; i++) {
        if (b->next_slot + args.n_rows > N_SLOTS) b->next_slot = 0;
        args.slots = b->args.slots + b->next_slot;
        b->next_slot += args.n_rows;
        ops->rope_kv_store(b->device, &args);
    }
    enum radish_status status = ops->step_submit(b->device);
    if (status == RADISH_OK) status = ops->step_wait(b->device);
    *us_out = (double)(clock_ns() - began) / 1e3 / n_calls;
    return status == RADISH_OK ? RADISH_OK
                               : error_set(err, status, "%s", radish_status_sentence(status));
}

/* One line: a shape, a dtype, a number of tokens, all variants. */
static enum radish_status measure(struct bench benches[N_VARIANTS], const char *name,
                                  uint32_t n_rows, bool is_short, struct radish_error *err) {
    double us[N_VARIANTS][TRIES_MAX];
    const uint32_t n_tries = is_short ? 1 : TRIES_MAX, n_calls = is_short ? 2 : 28;
    for (uint32_t i = 0; i < n_tries; i++)
        for (int v = 0; v < N_VARIANTS; v++) {
            benches[v].args.n_rows = n_rows;
            RADISH_TRY(run_step(&benches[v], n_calls, &us[v][i], err));
        }
    printf("  %-9s %-4s %4u %9.1f", name, dtype_name((enum dtype)benches[0].args.kv_dtype), n_rows,
           probe_median(us[0], n_tries));
    for (int v = 1; v < N_VARIANTS; v++) printf(" %9.1f", probe_median(us[v], n_tries));
    printf("\n");
    fflush(stdout);
    return RADISH_OK;
}

static enum radish_status run_shape(struct bench benches[N_VARIANTS], const struct shape *s,
                                    enum dtype dtype, bool is_short, struct radish_error *err) {
    static const uint32_t counts[] = {1, 7, 32, T_MAX};
    enum radish_status status = RADISH_OK;
    char name[24];
    snprintf(name, sizeof name, "%u/%u/%u", s->n_heads, s->n_kv_heads, s->head_dim);
    for (int v = 0; v < N_VARIANTS && status == RADISH_OK; v++)
        status = prepare(&benches[v], s, dtype, err);
    for (uint32_t i = 0; i < (is_short ? 2 : 4) && status == RADISH_OK; i++)
        status = measure(benches, name, counts[i], is_short, err);
    for (int v = 0; v < N_VARIANTS; v++) free_blocks(&benches[v]);
    return status;
}

bool probe_rope(bool is_short) {
    static const struct shape shapes[] = {{32, 8, 128}, {16, 2, 64}, {16, 8, 128}};
    static const enum dtype dtypes[] = {RADISH_DTYPE_BF16, RADISH_DTYPE_F16, RADISH_DTYPE_F32};
    struct bench benches[N_VARIANTS] = {0};
    struct radish_error err = {0};
    enum radish_status status = RADISH_OK;
    for (int v = 0; v < N_VARIANTS && status == RADISH_OK; v++) {
        const struct device_options options = {
            .n_threads = 1, .kernels = &variants[v], .n_kernels = 1};
        status = device_open(METAL_DEVICE_NAME, &options, &benches[v].device, &err);
        if (status == RADISH_OK)
            status = benches[v].device->ops->scratch_reserve(benches[v].device, T_MAX, 32 * 128, 64,
                                                             &err);
    }
    printf("  us a call                  the trio  one head  one grid   unfused\n");
    for (int i = 0; i < (is_short ? 1 : 3) && status == RADISH_OK; i++)
        for (int k = 0; k < (is_short ? 2 : 3) && status == RADISH_OK; k++)
            status = run_shape(benches, &shapes[k], dtypes[i], is_short, &err);
    for (int v = 0; v < N_VARIANTS; v++)
        if (benches[v].device) device_close(benches[v].device);
    if (status != RADISH_OK) printf("  failed: %s\n", err.msg);
    return status == RADISH_OK;
}
