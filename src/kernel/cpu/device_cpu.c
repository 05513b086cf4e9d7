/* device_cpu.c - the CPU as a device: memory is host memory, a step is a row of direct calls.
 *
 * Operations run at once, on the caller's thread and the compute pool, each over the parts that its
 * driver cuts (cpu_matmul.c, cpu_attention.c) or over rows (here). The kernel for an operation that
 * depends on a weight is fixed when the weight is created; the others are looked up in the registry
 * at every call, by dtype and head shape only, a few comparisons.
 *
 * Weights are repacked panel by panel on all threads, into few large mappings (weight_arena.c). All
 * scratch is reserved once, in one block:
 *
 *   [ shared: activations, or attention's items and partials ][ worker 0 ][ worker 1 ] ... */
#include "device_cpu.h"

#include "base/invariant.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "pack.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIAL_ROW_ELEMS = 8 * 1024, ROW_ITEMS_PER_THREAD = 4 };

static inline struct cpu_device *cpu_of(struct device *d) {
    return (struct cpu_device *)(void *)d;
}

static inline const struct cpu_device *cpu_of_const(const struct device *d) {
    return (const struct cpu_device *)(const void *)d;
}

/* ---- choice of kernels ---- */

static uint32_t kv_format(enum dtype dtype) {
    switch (dtype) {
    case RADISH_DTYPE_F32: return KERNEL_F32;
    case RADISH_DTYPE_F16: return KERNEL_F16;
    case RADISH_DTYPE_BF16: return KERNEL_BF16;
    default: return 0;
    }
}

static uint32_t weight_format(enum pack_format format) {
    switch (format) {
    case PACK_F32: return KERNEL_F32;
    case PACK_F16: return KERNEL_F16;
    case PACK_BF16: return KERNEL_BF16;
    case PACK_I8: return KERNEL_I8;
    default: return 0;
    }
}

/* The operand format that tells variants of the operation apart; 0: not one we read. */
static uint32_t find_format(const struct cpu_device *d, enum kernel_op op,
                            const struct kernel_shape *shape) {
    switch (op) {
    case KERNEL_OP_PREPARE:
    case KERNEL_OP_MATMUL:
        return weight_format(pack_format_for(shape->weight_dtype, d->base.precision));
    case KERNEL_OP_EMBED:
        return pack_format_for(shape->weight_dtype, d->base.precision) == PACK_RAW ? 0 : KERNEL_F32;
    case KERNEL_OP_ROPE_KV_STORE:
    case KERNEL_OP_ATTENTION: return kv_format(shape->kv_dtype);
    default: return KERNEL_F32;
    }
}

const struct kernel_row *cpu_choose(struct cpu_device *d, enum kernel_op op,
                                    const struct kernel_shape *shape) {
    char reason[120];
    const uint32_t format = find_format(d, op, shape);
    const struct kernel_row *row =
        registry_find(&d->base.registry, op, format, shape, reason, sizeof reason);
    if (reason[0]) device_base_note(&d->base, op, row, reason);
    RADISH_INVARIANT(row, "%s: %s (was supports() asked?)", kernel_op_name(op), reason);
    return row;
}

static bool check_heads(const struct kernel_shape *s, char *reason_out, size_t reason_bytes) {
    if (s->n_heads && s->n_kv_heads && s->n_heads % s->n_kv_heads == 0 && s->head_dim &&
        s->v_head_dim && s->rotary_dim <= s->head_dim && s->rotary_dim % 2 == 0 &&
        s->head_dim <= HEAD_DIM_MAX && s->v_head_dim <= HEAD_DIM_MAX)
        return true;
    snprintf(
        reason_out, reason_bytes,
        "%u heads, %u KV heads, head_dim %u and %u, rotary_dim %u: heads must be a multiple of "
        "KV heads, head_dim 1 to %d, rotary_dim even and at most head_dim",
        s->n_heads, s->n_kv_heads, s->head_dim, s->v_head_dim, s->rotary_dim, HEAD_DIM_MAX);
    return false;
}

static bool supports(struct device *device, enum kernel_op op, const struct kernel_shape *shape,
                     char *reason_out, size_t reason_bytes) {
    struct cpu_device *d = cpu_of(device);
    const bool has_heads = op == KERNEL_OP_ROPE_KV_STORE || op == KERNEL_OP_ATTENTION;
    if (reason_bytes) reason_out[0] = '\0';
    if (has_heads && !check_heads(shape, reason_out, reason_bytes)) return false;
    const uint32_t format = find_format(d, op, shape);
    if (!format) {
        snprintf(reason_out, reason_bytes, "%s does not read %s", kernel_op_name(op),
                 dtype_name(has_heads ? shape->kv_dtype : shape->weight_dtype));
        return false;
    }
    char reason[120];
    const struct kernel_row *row =
        registry_find(&d->base.registry, op, format, shape, reason, sizeof reason);
    if (!row) {
        snprintf(reason_out, reason_bytes, "%s", reason);
        return false;
    }
    /* A better kernel that is passed over is told at load, not at the first request. */
    if (reason[0]) device_base_note(&d->base, op, row, reason);
    return true;
}

/* ---- memory and weights ---- */

static enum radish_status allocate(struct device *device, size_t bytes, void **address_out,
                                   struct radish_error *err) {
    *address_out = mem_placed_alloc(bytes, &cpu_of(device)->base.pages);
    return *address_out ? RADISH_OK : error_nomem(err);
}

static void release(struct device *device, void *address, size_t bytes) {
    (void)device;
    mem_aligned_free(address, bytes);
}

static void upload(struct device *device, void *address, const void *host, size_t bytes) {
    (void)device;
    if (bytes) memcpy(address, host, bytes);
}

static void download(struct device *device, void *host, const void *address, size_t bytes) {
    (void)device;
    if (bytes) memcpy(host, address, bytes);
}

static enum pack_format desc_format(const struct cpu_device *d, const struct weight_desc *desc) {
    return desc->is_multiplied ? pack_format_for(desc->dtype, d->base.precision) : PACK_RAW;
}

static uint64_t weight_bytes(const struct device *device, const struct weight_desc *desc) {
    struct weight w;
    const enum pack_format format = desc_format(cpu_of_const(device), desc);
    return pack_layout(desc->dtype, format, desc->n_out, desc->n_in, &w) ? w.bytes : 0;
}

struct pack_run {
    struct weight *w;
    struct pack_source source;
    atomic_bool has_failed;
};

static void pack_item(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    struct pack_run *run = user;
    if (!pack_panel(run->w, &run->source, item))
        atomic_store_explicit(&run->has_failed, true, memory_order_relaxed);
}

static void weight_destroy(struct device *device, struct weight *w) {
    if (!w) return;
    weight_arena_give(&cpu_of(device)->weights, w->data);
    free(w);
}

static enum radish_status weight_create(struct device *device, const struct weight_desc *desc,
                                        struct weight **weight_out, struct radish_error *err) {
    struct cpu_device *d = cpu_of(device);
    const enum pack_format format = desc_format(d, desc);
    const struct kernel_shape shape = {
        .weight_dtype = desc->dtype, .n_out = desc->n_out, .n_in = desc->n_in};
    char reason[160];
    *weight_out = NULL;
    if (desc->is_multiplied && !supports(device, KERNEL_OP_MATMUL, &shape, reason, sizeof reason))
        return error_set(err, RADISH_E_UNSUPPORTED, "%s: %s", desc->name, reason);
    if (desc->is_gathered && !supports(device, KERNEL_OP_EMBED, &shape, reason, sizeof reason))
        return error_set(err, RADISH_E_UNSUPPORTED, "%s: %s", desc->name, reason);
    struct weight *w = malloc(sizeof *w);
    if (!w) return error_nomem(err);
    if (!pack_layout(desc->dtype, format, desc->n_out, desc->n_in, w)) {
        free(w);
        return error_set(err, RADISH_E_FORMAT, "%s: %u x %u is no valid %s matrix", desc->name,
                         desc->n_out, desc->n_in, dtype_name(desc->dtype));
    }
    w->data = weight_arena_take(&d->weights, w->bytes);
    if (!w->data) {
        free(w);
        return error_nomem(err);
    }
    if (desc->is_multiplied) w->matmul = cpu_choose(d, KERNEL_OP_MATMUL, &shape);
    if (desc->is_multiplied && format != PACK_F32 && format != PACK_F16)
        w->prepare = cpu_choose(d, KERNEL_OP_PREPARE, &shape);
    struct pack_run run = {
        .w = w, .source = {desc->data, desc->is_quantised_here ? desc->data_dtype : desc->dtype}};
    pool_run(d->base.pool, w->n_panels, pack_item, &run);
    if (atomic_load_explicit(&run.has_failed, memory_order_relaxed)) {
        weight_destroy(device, w);
        return error_set_field(err, RADISH_E_UNSUPPORTED, desc->name,
                               "numbers that are not finite, or too large for %s",
                               dtype_name(desc->dtype));
    }
    *weight_out = w;
    return RADISH_OK;
}

/* ---- scratch and steps ---- */

static size_t shared_bytes(const struct cpu_device *d, uint32_t rows_max, uint32_t width_max,
                           uint32_t kv_len_max) {
    const size_t matmul = cpu_matmul_scratch_bytes(rows_max, width_max);
    const size_t attention =
        cpu_attention_shared_bytes(pool_n_threads(d->base.pool), rows_max, kv_len_max);
    return ((matmul > attention ? matmul : attention) + 63) / 64 * 64;
}

static uint64_t scratch_bytes(const struct device *device, uint32_t rows_max, uint32_t width_max,
                              uint32_t kv_len_max) {
    const struct cpu_device *d = cpu_of_const(device);
    return shared_bytes(d, rows_max, width_max, kv_len_max) +
           (uint64_t)pool_n_threads(d->base.pool) * cpu_attention_worker_bytes();
}

static void free_scratch(struct cpu_device *d) {
    mem_aligned_free(d->scratch, d->scratch_bytes);
    d->scratch = NULL;
    d->scratch_bytes = d->activation_bytes = 0;
}

static enum radish_status scratch_reserve(struct device *device, uint32_t rows_max,
                                          uint32_t width_max, uint32_t kv_len_max,
                                          struct radish_error *err) {
    struct cpu_device *d = cpu_of(device);
    free_scratch(d);
    const size_t bytes = (size_t)scratch_bytes(device, rows_max, width_max, kv_len_max);
    d->scratch = mem_placed_alloc(bytes, &d->base.pages);
    if (!d->scratch) return error_nomem(err);
    d->scratch_bytes = bytes;
    d->activation_bytes = shared_bytes(d, rows_max, width_max, kv_len_max);
    d->worker_bytes = cpu_attention_worker_bytes();
    d->rows_max = rows_max;
    d->kv_len_max = kv_len_max;
    return RADISH_OK;
}

static void step_begin(struct device *device) {
    struct cpu_device *d = cpu_of(device);
    RADISH_ASSERT(!d->is_in_step);
    d->is_in_step = true;
}

static enum radish_status step_submit(struct device *device) {
    struct cpu_device *d = cpu_of(device);
    RADISH_ASSERT(d->is_in_step);
    d->is_in_step = false;
    return RADISH_OK;
}

static enum radish_status step_wait(struct device *device) {
    (void)device;
    return RADISH_OK;
}

/* ---- operations row by row ---- */

struct rows_run {
    cpu_rows_fn run;
    kernel_fn fn;
    const void *args;
    uint32_t n_rows, rows_per_item;
};

static void run_rows_item(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct rows_run *r = user;
    const uint32_t first = item * r->rows_per_item, left = r->n_rows - first;
    r->run(r->args, r->fn, first, first + (left < r->rows_per_item ? left : r->rows_per_item));
}

void cpu_run_rows(struct cpu_device *d, cpu_rows_fn run, kernel_fn fn, const void *args,
                  uint32_t n_rows, uint32_t width) {
    struct rows_run r = {run, fn, args, n_rows, n_rows};
    if (!n_rows) return;
    if ((uint64_t)n_rows * width < SERIAL_ROW_ELEMS) {
        run(args, fn, 0, n_rows);
        return;
    }
    const uint32_t n_wanted = ROW_ITEMS_PER_THREAD * pool_n_threads(d->base.pool);
    r.rows_per_item = (n_rows + n_wanted - 1) / n_wanted;
    pool_run(d->base.pool, (n_rows + r.rows_per_item - 1) / r.rows_per_item, run_rows_item, &r);
}

static void embed_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((embed_fn)fn)(args, first, end);
}

static void rmsnorm_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((rmsnorm_fn)fn)(args, first, end);
}

static void layernorm_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((layernorm_fn)fn)(args, first, end);
}

static void activate_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((activate_fn)fn)(args, first, end);
}

static void soft_cap_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((soft_cap_fn)fn)(args, first, end);
}

static void keep_columns(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((keep_rows_fn)fn)(args, first, end);
}

static void silu_mul_rows(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((silu_mul_fn)fn)(args, first, end);
}

static void embed(struct device *device, const struct embed_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {
        .weight_dtype = a->w->dtype, .n_out = a->w->n_out, .n_in = a->w->n_in};
    cpu_run_rows(d, embed_rows, cpu_choose(d, KERNEL_OP_EMBED, &shape)->fn, a, a->n_rows,
                 a->w->n_in);
}

static void rmsnorm(struct device *device, const struct rmsnorm_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    cpu_run_rows(d, rmsnorm_rows, cpu_choose(d, KERNEL_OP_RMSNORM, &shape)->fn, a, a->n_rows,
                 a->width);
}

static void layernorm(struct device *device, const struct layernorm_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    cpu_run_rows(d, layernorm_rows, cpu_choose(d, KERNEL_OP_LAYERNORM, &shape)->fn, a, a->n_rows,
                 a->width);
}

static void activate(struct device *device, const struct activate_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    cpu_run_rows(d, activate_rows, cpu_choose(d, KERNEL_OP_ACTIVATE, &shape)->fn, a, a->n_rows,
                 a->width);
}

static void soft_cap(struct device *device, const struct soft_cap_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    cpu_run_rows(d, soft_cap_rows, cpu_choose(d, KERNEL_OP_SOFT_CAP, &shape)->fn, a, a->n_rows,
                 a->width);
}

static void matmul(struct device *device, const struct matmul_args *a) {
    RADISH_INVARIANT(a->w->matmul, "%u x %u: made without is_multiplied", a->w->n_out, a->w->n_in);
    if (a->n_rows) cpu_matmul(cpu_of(device), a);
}

static void matmul_group(struct device *device, const struct matmul_group_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->n_in};
    ((matmul_group_fn)cpu_choose(d, KERNEL_OP_MATMUL_GROUP, &shape)->fn)(d, a);
}

static void keep_rows(struct device *device, const struct keep_rows_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    if (a->n_rows)
        cpu_run_rows(d, keep_columns, cpu_choose(d, KERNEL_OP_KEEP_ROWS, &shape)->fn, a, a->width,
                     a->n_rows);
}

static void silu_mul(struct device *device, const struct silu_mul_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.n_in = a->width};
    cpu_run_rows(d, silu_mul_rows, cpu_choose(d, KERNEL_OP_SILU_MUL, &shape)->fn, a, a->n_rows,
                 a->width);
}

static void rope_kv_store(struct device *device, const struct rope_kv_store_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.kv_dtype = (enum dtype)a->kv_dtype,
                                       .n_heads = a->n_heads,
                                       .n_kv_heads = a->n_kv_heads,
                                       .head_dim = a->head_dim,
                                       .v_head_dim = a->v_head_dim,
                                       .rotary_dim = a->rotary_dim,
                                       .is_interleaved = a->is_interleaved};
    cpu_rope_kv_store(d, cpu_choose(d, KERNEL_OP_ROPE_KV_STORE, &shape), a);
}

static void attention(struct device *device, const struct attention_args *a) {
    struct cpu_device *d = cpu_of(device);
    const struct kernel_shape shape = {.kv_dtype = (enum dtype)a->kv_dtype,
                                       .n_heads = a->n_heads,
                                       .n_kv_heads = a->n_kv_heads,
                                       .head_dim = a->head_dim,
                                       .v_head_dim = a->v_head_dim,
                                       .has_window = a->window > 0,
                                       .has_soft_cap = a->soft_cap > 0};
    if (a->n_seqs)
        cpu_attention(d, (attention_fn)cpu_choose(d, KERNEL_OP_ATTENTION, &shape)->fn, a);
}

/* ---- opening ---- */

static void close_device(struct device *device) {
    struct cpu_device *d = cpu_of(device);
    free_scratch(d);
    device_base_deinit(&d->base);
    free(d);
}

static const struct device_vtable vtable = {
    .name = "cpu",
    .has_host_memory = true,
    .supports = supports,
    .mem_alloc = allocate,
    .mem_free = release,
    .upload = upload,
    .download = download,
    .weight_bytes = weight_bytes,
    .weight_create = weight_create,
    .weight_destroy = weight_destroy,
    .scratch_bytes = scratch_bytes,
    .scratch_reserve = scratch_reserve,
    .step_begin = step_begin,
    .step_submit = step_submit,
    .step_wait = step_wait,
    .embed = embed,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .activate = activate,
    .soft_cap = soft_cap,
    .keep_rows = keep_rows,
    .matmul = matmul,
    .matmul_group = matmul_group,
    .silu_mul = silu_mul,
    .rope_kv_store = rope_kv_store,
    .attention = attention,
    .sample = NULL,
    .close = close_device,
};

/* Scripts look for the first of these lines, in other systems too. Rows of rope_kv_store take every
 * shape, so the choice is known before a model is. */
static void log_rope(const struct cpu_device *d) {
    char reason[120];
    const struct kernel_row *row = registry_find(&d->base.registry, KERNEL_OP_ROPE_KV_STORE,
                                                 KERNEL_F16, NULL, reason, sizeof reason);
    if (row && row->isa != CPU_ISA_REF && !cpu_rope_is_unfused(row))
        log_info("kernel", "Custom RoPE kernel enabled: %s", row->name);
    else
        log_info("kernel", "Custom RoPE kernel not in use: %s", row ? row->name : reason);
}

enum radish_status cpu_device_open(const struct device_options *options, struct device **device_out,
                                   struct radish_error *err) {
    struct cpu_device *d = calloc(1, sizeof *d);
    if (!d) return error_nomem(err);
    d->base.device.ops = &vtable;
    const enum radish_status status = device_base_init(&d->base, options, err);
    if (status != RADISH_OK) {
        free(d);
        return status;
    }
    d->weights.policy = d->base.pages;
    if (!cpu_has_isa(CPU_ISA_AVX2) && !cpu_has_isa(CPU_ISA_NEON))
        log_warn("kernel",
                 "this processor has neither AVX2 nor NEON: the plain C kernels are slow");
    log_rope(d);
    *device_out = &d->base.device;
    return RADISH_OK;
}
