/* device_metal.c - Apple's Metal as a device: opening, the choice of kernels, the vtable.
 *
 * What is different from the CPU: operations are recorded and run after the step was submitted
 * (metal_step.c, metal_encode.c); memory is shared with the host and weights stay in the mapped
 * file (metal_memory.c); the kernels are rows KERNEL_METAL of ops.def, each a pair of functions, of
 * which one makes pipelines and one encodes. supports() calls the first, so that everything that
 * could be missing (a shape, a feature of the GPU, a kernel that its compiler refuses) is known
 * while the model loads, by layer.
 *
 * What is not different: steps, ragged batches, slot tables, the pool, all that is decided outside.
 * Bits: on the CPU a token has the same bits alone or in a batch; here products and attention cut
 * their sums by the number of rows, as each form is fast for its own, and the bit class says so.
 *
 * All of this has run on Linux, on a stand-in for Metal (tests/metal), and not on an Apple GPU. */
#include "metal_device.h"

#include "base/invariant.h"
#include "base/log.h"
#include "base/status.h"
#include "metal_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum radish_precision metal_precision(const struct metal_device *d) {
    return d->base.precision;
}

/* ---- choice of kernels ---- */

static uint32_t plain_format(enum dtype dtype) {
    switch (dtype) {
    case RADISH_DTYPE_F32: return KERNEL_F32;
    case RADISH_DTYPE_F16: return KERNEL_F16;
    case RADISH_DTYPE_BF16: return KERNEL_BF16;
    default: return 0;
    }
}

/* The operand format that tells rows of the operation apart; 0: not one we read. */
static uint32_t find_format(enum kernel_op op, const struct kernel_shape *shape) {
    switch (op) {
    case KERNEL_OP_EMBED:
    case KERNEL_OP_MATMUL:
        if (plain_format(shape->weight_dtype)) return plain_format(shape->weight_dtype);
        return dtype_can_read(shape->weight_dtype) && dtype_is_quantised(shape->weight_dtype)
                   ? KERNEL_I8
                   : 0;
    case KERNEL_OP_ROPE_KV_STORE:
    case KERNEL_OP_ATTENTION: return plain_format(shape->kv_dtype);
    default: return KERNEL_F32;
    }
}

static const struct kernel_row *choose(struct metal_device *d, enum kernel_op op,
                                       const struct kernel_shape *shape) {
    char reason[120];
    const struct kernel_row *row =
        registry_find(&d->base.registry, op, find_format(op, shape), shape, reason, sizeof reason);
    if (reason[0]) device_base_note(&d->base, op, row, reason);
    RADISH_INVARIANT(row, "%s: %s (was supports() asked?)", kernel_op_name(op), reason);
    return row;
}

static bool check_heads(const struct kernel_shape *s, char *reason_out, size_t reason_bytes) {
    if (s->n_heads && s->n_kv_heads && s->n_heads % s->n_kv_heads == 0 && s->head_dim &&
        s->v_head_dim && s->rotary_dim <= s->head_dim && s->rotary_dim % 2 == 0)
        return true;
    snprintf(reason_out, reason_bytes,
             "%u heads, %u KV heads, head_dim %u and %u, rotary_dim %u: heads must be a multiple "
             "of KV heads, rotary_dim even and at most head_dim",
             s->n_heads, s->n_kv_heads, s->head_dim, s->v_head_dim, s->rotary_dim);
    return false;
}

bool metal_supports(struct device *device, enum kernel_op op, const struct kernel_shape *shape,
                    char *reason_out, size_t reason_bytes) {
    struct metal_device *d = metal_of(device);
    const bool has_heads = op == KERNEL_OP_ROPE_KV_STORE || op == KERNEL_OP_ATTENTION;
    if (reason_bytes) reason_out[0] = '\0';
    if (has_heads && !check_heads(shape, reason_out, reason_bytes)) return false;
    const uint32_t format = find_format(op, shape);
    if (!format) {
        snprintf(reason_out, reason_bytes, "%s does not read %s", kernel_op_name(op),
                 dtype_name(has_heads ? shape->kv_dtype : shape->weight_dtype));
        return false;
    }
    char reason[160] = "";
    const struct kernel_row *row =
        registry_find(&d->base.registry, op, format, shape, reason, sizeof reason);
    if (row && ((metal_make_fn)row->make)(d, shape, reason, sizeof reason)) return true;
    snprintf(reason_out, reason_bytes, "%s", reason);
    return false;
}

/* ---- operations ---- */

/* Defines the vtable's entry that encodes the chosen row, where there is anything to do. */
#define METAL_OPERATION(name, OP, n, ...)                                                          \
    static void name(struct device *device, const METAL_ARGS_##OP *a) {                            \
        typedef void (*encode_fn)(struct metal_device * d, const METAL_ARGS_##OP *args);           \
        struct metal_device *d = metal_of(device);                                                 \
        const struct kernel_shape shape = {__VA_ARGS__};                                           \
        if (n) ((encode_fn)choose(d, KERNEL_OP_##OP, &shape)->fn)(d, a);                           \
    }

METAL_OPERATION(embed, EMBED, a->n_rows, .weight_dtype = a->w->dtype, .n_out = a->w->n_out,
                .n_in = a->w->n_in)
METAL_OPERATION(rmsnorm, RMSNORM, a->n_rows, .n_in = a->width)
METAL_OPERATION(layernorm, LAYERNORM, a->n_rows, .n_in = a->width)
METAL_OPERATION(matmul, MATMUL, a->n_rows, .weight_dtype = a->w->dtype, .n_out = a->w->n_out,
                .n_in = a->w->n_in)
METAL_OPERATION(matmul_group, MATMUL_GROUP, a->n_rows, .n_in = a->n_in)
METAL_OPERATION(silu_mul, SILU_MUL, a->n_rows, .n_in = a->width)
METAL_OPERATION(activate, ACTIVATE, a->n_rows, .n_in = a->width)
METAL_OPERATION(soft_cap, SOFT_CAP, a->n_rows, .n_in = a->width)
METAL_OPERATION(keep_rows, KEEP_ROWS, a->n_rows, .n_in = a->width)
METAL_OPERATION(sample, SAMPLE, a->n_rows, .n_in = a->width)
METAL_OPERATION(rope_kv_store, ROPE_KV_STORE, a->n_rows, .kv_dtype = (enum dtype)a->kv_dtype,
                .n_heads = a->n_heads, .n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
                .v_head_dim = a->v_head_dim, .rotary_dim = a->rotary_dim,
                .is_interleaved = a->is_interleaved)
METAL_OPERATION(attention, ATTENTION, a->n_seqs, .kv_dtype = (enum dtype)a->kv_dtype,
                .n_heads = a->n_heads, .n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
                .v_head_dim = a->v_head_dim, .has_window = a->window > 0,
                .has_soft_cap = a->soft_cap > 0)

/* ---- opening ---- */

static void close_device(struct device *device) {
    struct metal_device *d = metal_of(device);
    metal_step_deinit(d);
    metal_encode_deinit(d);
    metal_memory_deinit(d);
    mtl_device_close(d->mtl);
    device_base_deinit(&d->base);
    free(d);
}

static const struct device_vtable vtable = {
    .name = METAL_DEVICE_NAME,
    .is_recorded = true,
    .supports = metal_supports,
    .memory_available = metal_memory_available,
    .mem_alloc = metal_alloc,
    .mem_free = metal_free,
    .upload = metal_upload,
    .download = metal_download,
    .host_map = metal_host_map,
    .weight_bytes = metal_weight_bytes,
    .weight_create = metal_weight_create,
    .weight_destroy = metal_weight_destroy,
    .weight_is_mapped = metal_weight_is_mapped,
    .scratch_bytes = metal_scratch_bytes,
    .scratch_reserve = metal_scratch_reserve,
    .step_begin = metal_step_begin,
    .step_submit = metal_step_submit,
    .step_wait = metal_step_wait,
    .embed = embed,
    .rmsnorm = rmsnorm,
    .layernorm = layernorm,
    .matmul = matmul,
    .matmul_group = matmul_group,
    .silu_mul = silu_mul,
    .activate = activate,
    .soft_cap = soft_cap,
    .keep_rows = keep_rows,
    .rope_kv_store = rope_kv_store,
    .attention = attention,
    .sample = sample,
    .close = close_device,
};

/* Scripts look for the first of these lines, in other systems too. */
static void log_rope(const struct metal_device *d) {
    char reason[160];
    const struct kernel_row *row = registry_find(&d->base.registry, KERNEL_OP_ROPE_KV_STORE,
                                                 KERNEL_F16, NULL, reason, sizeof reason);
    if (row && !strstr(row->name, "_unfused"))
        log_info("kernel", "Custom RoPE kernel enabled: %s", row->name);
    else
        log_info("kernel", "Custom RoPE kernel not in use: %s", row ? row->name : reason);
}

static void describe(struct metal_device *d) {
    const struct mtl_info *info = mtl_device_info(d->mtl);
    snprintf(d->base.memory, sizeof d->base.memory,
             "shared storage of %s, working set %.2f GB, buffers of at most %.2f GB%s", info->name,
             (double)info->working_set_bytes / 1e9, (double)info->buffer_bytes_max / 1e9,
             info->has_residency ? ", kept resident" : "");
    log_info("metal", "%s", d->base.memory);
    if (!strcmp(METAL_DEVICE_NAME, "metal-sim"))
        log_warn("metal", "this is a stand-in for Metal on the CPU, to verify radish with; it is "
                          "not meant to be used");
}

enum radish_status metal_device_open(const struct device_options *options,
                                     struct device **device_out, struct radish_error *err) {
    *device_out = NULL;
    struct metal_device *d = calloc(1, sizeof *d);
    if (!d) return error_nomem(err);
    d->base.device.ops = &vtable;
    d->base.family = KERNEL_FAMILY_METAL;
    d->dispatches_max = METAL_DISPATCHES_MAX;
    enum radish_status status = mtl_device_open(&d->mtl, err);
    if (status == RADISH_OK) status = device_base_init(&d->base, options, err);
    if (status != RADISH_OK) {
        mtl_device_close(d->mtl);
        free(d);
        return status;
    }
    describe(d);
    log_rope(d);
    *device_out = &d->base.device;
    return RADISH_OK;
}
