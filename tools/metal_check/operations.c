/* operations.c - from sizes and arrays with names to the arguments of an operation.
 *
 * The same code makes the vectors, on the reference, and repeats them, on the device under test: it
 * knows no device but by kernel.h. Every array is in memory of the device, except those that
 * operations read on the host (a weight's matrix, attention's sequences and slots). A file that was
 * damaged or is too old must not send a kernel past the end of an array: address() compares what a
 * call needs with what there is. */
#include "operations.h"

#include "base/mem.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64, WIDTH_MAX = 4096, KV_LEN_MAX = 4096, SEQS_MAX = 16 };

/* A case on its way. */
struct call {
    struct device *device;
    const struct vector_case *c;
    void *addresses[VECTOR_ARRAYS_MAX]; /* of the device; NULL: host memory is enough */
    struct weight *weight;
    struct attention_seq seqs[SEQS_MAX];
    bool is_short; /* an array does not hold what the sizes say */
};

static uint32_t size_of(const struct call *call, const char *name) {
    return vector_u32(call->c, name);
}

static float float_of(const struct call *call, const char *name) {
    return (float)vector_number(call->c, name);
}

/* Where an array of at least so many elements of the type is, on the device; NULL when there is
 * none of that name. */
static void *address(struct call *call, const char *name, enum dtype dtype, uint64_t n) {
    const struct vector_array *a = vector_find(call->c, name);
    if (!a) return NULL;
    if (a->dtype != dtype || a->n_bytes / dtype_block_bytes(dtype) < n) call->is_short = true;
    return call->addresses[a - call->c->arrays];
}

/* A row array of floats. */
static float *rows(struct call *call, const char *name, const char *stride) {
    return address(call, name, RADISH_DTYPE_F32,
                   (uint64_t)size_of(call, "n_rows") * size_of(call, stride));
}

static float *floats(struct call *call, const char *name, const char *n) {
    return address(call, name, RADISH_DTYPE_F32, size_of(call, n));
}

/* ---- one function an operation: arguments, and the call unless an array is short ---- */

static void run_embed(struct call *call) {
    const uint32_t n_rows = size_of(call, "n_rows");
    const struct embed_args args = {
        .w = call->weight,
        .token_ids = address(call, "token_ids", RADISH_DTYPE_I32, n_rows),
        .sampled = address(call, "sampled", RADISH_DTYPE_I32, 1),
        .out = rows(call, "out", "out_stride"),
        .n_rows = n_rows,
        .out_stride = size_of(call, "out_stride"),
        .scale = float_of(call, "scale"),
    };
    if (!call->is_short) call->device->ops->embed(call->device, &args);
}

static void run_rmsnorm(struct call *call) {
    const struct rmsnorm_args args = {
        .x = rows(call, "x", "x_stride"),
        .w = floats(call, "w", "width"),
        .y = rows(call, "y", "y_stride"),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .x_stride = size_of(call, "x_stride"),
        .y_stride = size_of(call, "y_stride"),
        .eps = float_of(call, "eps"),
        .accumulate = size_of(call, "accumulate"),
    };
    if (!call->is_short) call->device->ops->rmsnorm(call->device, &args);
}

static void run_layernorm(struct call *call) {
    const struct layernorm_args args = {
        .x = rows(call, "x", "x_stride"),
        .w = floats(call, "w", "width"),
        .bias = floats(call, "bias", "width"),
        .y = rows(call, "y", "y_stride"),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .x_stride = size_of(call, "x_stride"),
        .y_stride = size_of(call, "y_stride"),
        .eps = float_of(call, "eps"),
    };
    if (!call->is_short) call->device->ops->layernorm(call->device, &args);
}

static void run_matmul(struct call *call) {
    const struct matmul_args args = {
        .w = call->weight,
        .x = rows(call, "x", "x_stride"),
        .bias = floats(call, "bias", "n_out"),
        .y = rows(call, "y", "y_stride"),
        .n_rows = size_of(call, "n_rows"),
        .x_stride = size_of(call, "x_stride"),
        .y_stride = size_of(call, "y_stride"),
        .accumulate = size_of(call, "accumulate"),
    };
    if (!call->is_short) call->device->ops->matmul(call->device, &args);
}

/* RMSNorm, two products with the same matrix, SiLU of the one times the other. */
static void run_matmul_group(struct call *call) {
    const uint32_t y_stride = size_of(call, "y_stride");
    const struct matmul_group_args args = {
        .products = {{.w = call->weight, .y = rows(call, "y", "y_stride"), .y_stride = y_stride},
                     {.w = call->weight, .y = rows(call, "up", "y_stride"), .y_stride = y_stride}},
        .n_products = 2,
        .x = rows(call, "scratch", "x_stride"),
        .n_rows = size_of(call, "n_rows"),
        .n_in = size_of(call, "n_in"),
        .x_stride = size_of(call, "x_stride"),
        .norm = MATMUL_NORM_RMS,
        .norm_x = rows(call, "x", "x_stride"),
        .norm_w = floats(call, "w", "n_in"),
        .norm_x_stride = size_of(call, "x_stride"),
        .norm_eps = float_of(call, "eps"),
        .is_activated = true,
        .n_out = size_of(call, "n_out"),
        .activation = ACTIVATION_SILU,
    };
    if (!call->is_short) device_matmul_group(call->device, &args);
}

static void run_silu_mul(struct call *call) {
    const struct silu_mul_args args = {
        .gate = rows(call, "x", "in_stride"),
        .up = rows(call, "up", "in_stride"),
        .out = rows(call, "out", "out_stride"),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .in_stride = size_of(call, "in_stride"),
        .out_stride = size_of(call, "out_stride"),
    };
    if (!call->is_short) call->device->ops->silu_mul(call->device, &args);
}

static void run_activate(struct call *call) {
    const struct activate_args args = {
        .x = rows(call, "x", "in_stride"),
        .up = rows(call, "up", "in_stride"),
        .out = rows(call, "out", "out_stride"),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .in_stride = size_of(call, "in_stride"),
        .out_stride = size_of(call, "out_stride"),
        .kind = (int32_t)size_of(call, "kind"),
    };
    if (!call->is_short) call->device->ops->activate(call->device, &args);
}

static void run_soft_cap(struct call *call) {
    const struct soft_cap_args args = {
        .x = rows(call, "x", "stride"),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .stride = size_of(call, "stride"),
        .cap = float_of(call, "cap"),
    };
    if (!call->is_short) call->device->ops->soft_cap(call->device, &args);
}

static void run_keep_rows(struct call *call) {
    const uint32_t stride = size_of(call, "stride");
    const struct keep_rows_args args = {
        .x = address(call, "x", RADISH_DTYPE_F32, (uint64_t)size_of(call, "n_all") * stride),
        .rows = address(call, "rows", RADISH_DTYPE_U32, size_of(call, "n_rows")),
        .n_rows = size_of(call, "n_rows"),
        .width = size_of(call, "width"),
        .stride = stride,
    };
    if (!call->is_short) call->device->ops->keep_rows(call->device, &args);
}

static void run_rope(struct call *call) {
    const uint32_t n_rows = size_of(call, "n_rows"), n_kv_heads = size_of(call, "n_kv_heads");
    const uint32_t head_dim = size_of(call, "head_dim"), v_head_dim = size_of(call, "v_head_dim");
    const uint32_t n_slots = size_of(call, "n_slots"), n_positions = size_of(call, "n_positions");
    const enum dtype kv_dtype = vector_dtype(call->c, "kv_dtype");
    const uint64_t slot_heads = (uint64_t)n_slots * n_kv_heads;
    const struct rope_kv_store_args args = {
        .q = rows(call, "q", "q_stride"),
        .k = rows(call, "k", "k_stride"),
        .v = rows(call, "v", "v_stride"),
        .positions = address(call, "positions", RADISH_DTYPE_I32, n_rows),
        .slots = address(call, "slots", RADISH_DTYPE_I32, n_rows),
        .rope_table = address(call, "table", RADISH_DTYPE_F32,
                              (uint64_t)n_positions * size_of(call, "rotary_dim")),
        .k_pool = address(call, "k_pool", kv_dtype, slot_heads * head_dim),
        .v_pool = address(call, "v_pool", kv_dtype, slot_heads * v_head_dim),
        .n_rows = n_rows,
        .q_stride = size_of(call, "q_stride"),
        .k_stride = size_of(call, "k_stride"),
        .v_stride = size_of(call, "v_stride"),
        .n_heads = size_of(call, "n_heads"),
        .n_kv_heads = n_kv_heads,
        .head_dim = head_dim,
        .v_head_dim = v_head_dim,
        .rotary_dim = size_of(call, "rotary_dim"),
        .n_slots = n_slots,
        .n_positions = n_positions,
        .kv_dtype = (int32_t)kv_dtype,
        .is_interleaved = size_of(call, "is_interleaved"),
    };
    if (!call->is_short) call->device->ops->rope_kv_store(call->device, &args);
}

/* Sequences are 3 numbers each (first row, rows, KV length), and their slots one after another. */
static void read_seqs(struct call *call, uint32_t n_seqs) {
    const struct vector_array *seqs = vector_find(call->c, "seqs");
    const struct vector_array *slots = vector_find(call->c, "kv_slots");
    if (!seqs || !slots || n_seqs > SEQS_MAX || seqs->n_bytes / 12 < n_seqs) {
        call->is_short = true;
        return;
    }
    const uint32_t *numbers = (const uint32_t *)(const void *)seqs->data;
    const uint32_t *slot = (const uint32_t *)(const void *)slots->data;
    uint64_t n_slots = slots->n_bytes / sizeof *slot;
    for (uint32_t i = 0; i < n_seqs && !call->is_short; i++) {
        const uint32_t *n = &numbers[(size_t)i * 3];
        call->seqs[i] = (struct attention_seq){n[0], n[1], n[2], slot};
        if (n[2] > n_slots || (uint64_t)n[0] + n[1] > size_of(call, "n_rows"))
            call->is_short = true;
        else
            slot += n[2], n_slots -= n[2];
    }
}

static void run_attention(struct call *call) {
    const uint32_t n_seqs = size_of(call, "n_seqs"), n_slots = size_of(call, "n_slots");
    const uint32_t head_dim = size_of(call, "head_dim"), v_head_dim = size_of(call, "v_head_dim");
    const enum dtype kv_dtype = vector_dtype(call->c, "kv_dtype");
    const uint64_t slot_heads = (uint64_t)n_slots * size_of(call, "n_kv_heads");
    read_seqs(call, n_seqs);
    const struct attention_args args = {
        .q = rows(call, "q", "q_stride"),
        .out = rows(call, "out", "out_stride"),
        .k_pool = address(call, "k_pool", kv_dtype, slot_heads * head_dim),
        .v_pool = address(call, "v_pool", kv_dtype, slot_heads * v_head_dim),
        .seqs = call->seqs,
        .n_seqs = n_seqs,
        .q_stride = size_of(call, "q_stride"),
        .out_stride = size_of(call, "out_stride"),
        .n_heads = size_of(call, "n_heads"),
        .n_kv_heads = size_of(call, "n_kv_heads"),
        .head_dim = head_dim,
        .v_head_dim = v_head_dim,
        .n_slots = n_slots,
        .kv_dtype = (int32_t)kv_dtype,
        .scale = float_of(call, "scale"),
        .window = size_of(call, "window"),
        .soft_cap = float_of(call, "soft_cap"),
    };
    if (!call->is_short) call->device->ops->attention(call->device, &args);
}

/* A draw is 6 numbers, as struct sample_draw has them. */
static void run_sample(struct call *call) {
    const uint32_t n_rows = size_of(call, "n_rows");
    const uint64_t draws_bytes = n_rows * sizeof(struct sample_draw);
    const struct sample_rows_args args = {
        .logits = rows(call, "logits", "stride"),
        .draws = address(call, "draws", RADISH_DTYPE_U8, draws_bytes),
        .tokens = address(call, "tokens", RADISH_DTYPE_I32, n_rows),
        .n_rows = n_rows,
        .width = size_of(call, "width"),
        .stride = size_of(call, "stride"),
    };
    if (!call->is_short) call->device->ops->sample(call->device, &args);
}

/* NULL: rows are prepared inside matmul. */
static void (*const runs[KERNEL_OP_COUNT])(struct call *call) = {
    [KERNEL_OP_EMBED] = run_embed,         [KERNEL_OP_RMSNORM] = run_rmsnorm,
    [KERNEL_OP_LAYERNORM] = run_layernorm, [KERNEL_OP_MATMUL] = run_matmul,
    [KERNEL_OP_SILU_MUL] = run_silu_mul,   [KERNEL_OP_ACTIVATE] = run_activate,
    [KERNEL_OP_SOFT_CAP] = run_soft_cap,   [KERNEL_OP_KEEP_ROWS] = run_keep_rows,
    [KERNEL_OP_ROPE_KV_STORE] = run_rope,  [KERNEL_OP_ATTENTION] = run_attention,
    [KERNEL_OP_SAMPLE] = run_sample,       [KERNEL_OP_MATMUL_GROUP] = run_matmul_group,
};

/* ---- around it ---- */

enum radish_status operations_reserve(struct device *device, struct radish_error *err) {
    return device->ops->scratch_reserve(device, ROWS_MAX, WIDTH_MAX, KV_LEN_MAX, err);
}

static enum radish_status check_support(const struct call *call, struct radish_error *err) {
    const struct vector_case *c = call->c;
    const uint32_t n_in = vector_u32(c, "n_in");
    const struct kernel_shape shape = {
        .weight_dtype = vector_dtype(c, "weight_dtype"),
        .kv_dtype = vector_dtype(c, "kv_dtype"),
        .n_out = vector_u32(c, "n_out"),
        .n_in = n_in ? n_in : vector_u32(c, "width"),
        .n_heads = vector_u32(c, "n_heads"),
        .n_kv_heads = vector_u32(c, "n_kv_heads"),
        .head_dim = vector_u32(c, "head_dim"),
        .v_head_dim = vector_u32(c, "v_head_dim"),
        .rotary_dim = vector_u32(c, "rotary_dim"),
        .is_interleaved = vector_u32(c, "is_interleaved"),
        .has_window = vector_u32(c, "window"),
        .has_soft_cap = vector_number(c, "soft_cap") > 0,
    };
    /* A group may fall back to its parts. */
    static const enum kernel_op group[] = {KERNEL_OP_MATMUL_GROUP, KERNEL_OP_RMSNORM,
                                           KERNEL_OP_MATMUL, KERNEL_OP_SILU_MUL};
    struct device *device = call->device;
    const bool is_group = c->op == KERNEL_OP_MATMUL_GROUP;
    char reason[160] = "";
    bool is_supported = runs[c->op] && (c->op != KERNEL_OP_SAMPLE || device->ops->sample);
    for (uint32_t i = 0; is_supported && i < (is_group ? 4 : 1); i++)
        is_supported = device->ops->supports(device, is_group ? group[i] : c->op, &shape, reason,
                                             sizeof reason);
    if (is_supported) return RADISH_OK;
    return error_set(err, RADISH_E_UNSUPPORTED, "case %s: %s", c->name,
                     *reason ? reason : "not an operation of this device");
}

static enum radish_status make_weight(struct call *call, struct radish_error *err) {
    const struct vector_array *matrix = vector_find(call->c, "matrix");
    uint64_t row_bytes = 0;
    const struct weight_desc desc = {
        .name = call->c->name,
        .dtype = vector_dtype(call->c, "weight_dtype"),
        .n_out = size_of(call, "n_out"),
        .n_in = size_of(call, "n_in"),
        .data = matrix ? matrix->data : NULL,
        .is_gathered = call->c->op == KERNEL_OP_EMBED,
        .is_multiplied = call->c->op != KERNEL_OP_EMBED,
    };
    if (!matrix) return RADISH_OK;
    if (!desc.n_out || !dtype_row_bytes(desc.dtype, desc.n_in, &row_bytes) ||
        matrix->n_bytes / desc.n_out < row_bytes)
        return error_set(err, RADISH_E_FORMAT, "case %s: its matrix is short", call->c->name);
    return call->device->ops->weight_create(call->device, &desc, &call->weight, err);
}

/* Arrays that operations read in host memory. */
static bool is_on_host(const struct vector_array *a) {
    return !strcmp(a->name, "matrix") || !strcmp(a->name, "seqs") || !strcmp(a->name, "kv_slots");
}

static enum radish_status upload(struct call *call, struct radish_error *err) {
    struct device *device = call->device;
    for (uint32_t i = 0; i < call->c->n_arrays; i++) {
        const struct vector_array *a = &call->c->arrays[i];
        if (is_on_host(a) || !a->n_bytes) continue;
        RADISH_TRY(device->ops->mem_alloc(device, a->n_bytes, &call->addresses[i], err));
        device->ops->upload(device, call->addresses[i], a->data, a->n_bytes);
    }
    return make_weight(call, err);
}

static enum radish_status run_step(struct call *call, uint8_t *const results[VECTOR_ARRAYS_MAX],
                                   struct radish_error *err) {
    struct device *device = call->device;
    device->ops->step_begin(device);
    runs[call->c->op](call);
    enum radish_status status = device->ops->step_submit(device);
    if (status == RADISH_OK) status = device->ops->step_wait(device);
    if (status != RADISH_OK)
        return error_set(err, status, "case %s: the step failed: %s", call->c->name,
                         radish_status_sentence(status));
    if (call->is_short)
        return error_set(err, RADISH_E_FORMAT, "case %s: an array is short", call->c->name);
    for (uint32_t i = 0; i < call->c->n_arrays; i++) {
        const struct vector_array *a = &call->c->arrays[i];
        if (a->is_out) device->ops->download(device, results[i], call->addresses[i], a->n_bytes);
    }
    return RADISH_OK;
}

enum radish_status operations_run(struct device *device, const struct vector_case *c,
                                  uint8_t *const results[VECTOR_ARRAYS_MAX],
                                  struct radish_error *err) {
    struct call call = {.device = device, .c = c};
    RADISH_TRY(check_support(&call, err));
    enum radish_status status = upload(&call, err);
    if (status == RADISH_OK) status = run_step(&call, results, err);
    for (uint32_t i = 0; i < c->n_arrays; i++)
        if (call.addresses[i])
            device->ops->mem_free(device, call.addresses[i], c->arrays[i].n_bytes);
    if (call.weight) device->ops->weight_destroy(device, call.weight);
    return status;
}
