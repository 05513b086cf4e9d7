/* layer_run.c - the vocabulary of layer functions: each function records one operation over all
 * rows of the step, filling in what the layer does not care about (strides, pools, sequences,
 * epsilon).
 *
 * This is the seam where fusion happens: layer functions say what they mean once (Q, K and V of a
 * norm of x), and what goes to the device is a group, which a device computes by one kernel or by
 * several. The cost of the indirection is some ten stores an operation. */
#include "runner_int.h"

void run_norm(struct layer_run *run, struct rows x, const float *w, struct rows y) {
    const struct rmsnorm_args args = {
        .x = x.data,
        .w = w,
        .y = y.data,
        .n_rows = run->n_rows,
        .width = x.width,
        .x_stride = x.width,
        .y_stride = y.width,
        .eps = (float)run->config->norm_eps,
    };
    run->device->ops->rmsnorm(run->device, &args);
}

void run_norm_add(struct layer_run *run, struct rows x, const float *w, struct rows y) {
    const struct rmsnorm_args args = {
        .x = x.data,
        .w = w,
        .y = y.data,
        .n_rows = run->n_rows,
        .width = x.width,
        .x_stride = x.width,
        .y_stride = y.width,
        .eps = (float)run->config->norm_eps,
        .accumulate = true,
    };
    run->device->ops->rmsnorm(run->device, &args);
}

void run_head_norm(struct layer_run *run, struct rows x, const float *w) {
    uint32_t head_dim = run->config->head_dim;
    const struct rmsnorm_args args = {
        .x = x.data, /* rows lie close together, so heads are rows of their own */
        .w = w,
        .y = x.data,
        .n_rows = run->n_rows * (x.width / head_dim),
        .width = head_dim,
        .x_stride = head_dim,
        .y_stride = head_dim,
        .eps = (float)run->config->norm_eps,
    };
    run->device->ops->rmsnorm(run->device, &args);
}

static void multiply(struct layer_run *run, const struct weight *w, const float *bias,
                     struct rows x, struct rows y, bool accumulate) {
    const struct matmul_args args = {
        .w = w,
        .x = x.data,
        .bias = bias,
        .y = y.data,
        .n_rows = run->n_rows,
        .x_stride = x.width,
        .y_stride = y.width,
        .accumulate = accumulate,
    };
    run->device->ops->matmul(run->device, &args);
}

void run_linear(struct layer_run *run, const struct weight *w, const float *bias, struct rows x,
                struct rows y) {
    multiply(run, w, bias, x, y, /*accumulate=*/false);
}

void run_linear_add(struct layer_run *run, const struct weight *w, const float *bias, struct rows x,
                    struct rows y) {
    multiply(run, w, bias, x, y, /*accumulate=*/true);
}

void run_rope_kv_store(struct layer_run *run) {
    const struct model_config *config = run->config;
    const struct rope_kv_store_args args = {
        .q = run->q.data,
        .k = run->k.data,
        .v = run->v.data,
        .positions = run->positions,
        .slots = run->slots,
        .rope_table = run->rope_table,
        .k_pool = run->k_pool,
        .v_pool = run->v_pool,
        .n_rows = run->n_rows,
        .q_stride = run->q.width,
        .k_stride = run->k.width,
        .v_stride = run->v.width,
        .n_heads = config->n_heads[run->layer],
        .n_kv_heads = config->n_kv_heads[run->layer],
        .head_dim = config->head_dim,
        .v_head_dim = config->v_head_dim,
        .rotary_dim = config->has_rope[run->layer] ? config->rotary_dim : 0,
        .n_slots = run->n_slots,
        .n_positions = run->n_positions,
        .kv_dtype = (int32_t)run->kv_dtype,
        .is_interleaved = config->rope.pairing == ROPE_INTERLEAVED,
    };
    run->device->ops->rope_kv_store(run->device, &args);
}

/* Moves the rows that want logits to the front. */
static void keep_wanted(struct layer_run *run, struct rows x) {
    const struct keep_rows_args args = {.x = x.data,
                                        .rows = run->wanted_rows,
                                        .n_rows = run->n_wanted,
                                        .width = x.width,
                                        .stride = x.width};
    run->device->ops->keep_rows(run->device, &args);
}

/* In the last layer K and V of all rows are in the pool by now, and nobody will look at the other
 * rows again. */
static void drop_rows(struct layer_run *run) {
    if (run->layer + 1 < run->config->n_layers || run->n_wanted == run->n_rows) return;
    keep_wanted(run, run->x);
    keep_wanted(run, run->h);
    keep_wanted(run, run->q);
    run->n_rows = run->n_wanted;
    run->seqs = run->wanted_seqs;
    run->n_seqs = run->n_wanted_seqs;
}

void run_attention(struct layer_run *run) {
    const struct model_config *config = run->config;
    drop_rows(run);
    const struct attention_args args = {
        .q = run->q.data,
        .out = run->attn.data,
        .k_pool = run->k_pool,
        .v_pool = run->v_pool,
        .seqs = run->seqs,
        .n_seqs = run->n_seqs,
        .q_stride = run->q.width,
        .out_stride = run->attn.width,
        .n_heads = config->n_heads[run->layer],
        .n_kv_heads = config->n_kv_heads[run->layer],
        .head_dim = config->head_dim,
        .v_head_dim = config->v_head_dim,
        .n_slots = run->n_slots,
        .kv_dtype = (int32_t)run->kv_dtype,
        .scale = (float)config->attention_scale,
        .window = config->window[run->layer],
        .soft_cap = (float)config->attention_soft_cap,
    };
    run->device->ops->attention(run->device, &args);
}

struct source source_rows(struct rows x) {
    return (struct source){.x = x};
}

struct source source_norm(struct rows x, const float *w) {
    return (struct source){.x = x, .norm = MATMUL_NORM_RMS, .w = w};
}

struct source source_layer_norm(struct rows x, const float *w, const float *bias) {
    return (struct source){.x = x, .norm = MATMUL_NORM_LAYER, .w = w, .bias = bias};
}

/* A group without products. */
static struct matmul_group_args group_of(const struct layer_run *run, struct source source) {
    return (struct matmul_group_args){
        .x = source.norm == MATMUL_NORM_NONE ? source.x.data : run->h.data,
        .n_rows = run->n_rows,
        .n_in = source.x.width,
        .x_stride = source.x.width,
        .norm = (int32_t)source.norm,
        .norm_x = source.x.data,
        .norm_w = source.w,
        .norm_bias = source.bias,
        .norm_x_stride = source.x.width,
        .norm_eps = (float)run->config->norm_eps,
    };
}

static void add_product(struct matmul_group_args *args, const struct weight *w, const float *bias,
                        struct rows y) {
    args->products[args->n_products++] = (struct matmul_product){w, bias, y.data, y.width};
}

void run_qkv(struct layer_run *run, struct source x) {
    const struct layer_weights *w = run->w;
    struct matmul_group_args args = group_of(run, x);
    add_product(&args, w->q, w->q_bias, run->q);
    add_product(&args, w->k, w->k_bias, run->k);
    add_product(&args, w->v, w->v_bias, run->v);
    device_matmul_group(run->device, &args);
}

struct rows run_gate_up(struct layer_run *run, struct source x) {
    const struct layer_weights *w = run->w;
    const struct rows out = w->gate ? run->gate : run->up;
    struct matmul_group_args args = group_of(run, x);
    if (w->gate) add_product(&args, w->gate, w->gate_bias, run->gate);
    add_product(&args, w->up, w->up_bias, run->up);
    args.is_activated = true;
    args.n_out = out.width;
    args.activation = (int32_t)run->config->activation;
    device_matmul_group(run->device, &args);
    return out;
}
