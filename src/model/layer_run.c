/* layer_run.c - the vocabulary of layer functions: each function records one operation over all
 * rows of the step, filling in what the layer does not care about (strides, pools, sequences,
 * epsilon).
 *
 * This is the seam where fusion will happen: a device that has one kernel for, say, gate, up and
 * silu_mul gets its own run_...() here with a default made of the three, and layer functions say
 * what they mean once. The cost of the indirection is some ten stores an operation. */
#include "runner_int.h"

#include "base/invariant.h"

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

void run_layer_norm(struct layer_run *run, struct rows x, const float *w, const float *bias,
                    struct rows y) {
    const struct layernorm_args args = {
        .x = x.data,
        .w = w,
        .bias = bias,
        .y = y.data,
        .n_rows = run->n_rows,
        .width = x.width,
        .x_stride = x.width,
        .y_stride = y.width,
        .eps = (float)run->config->norm_eps,
    };
    run->device->ops->layernorm(run->device, &args);
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

void run_attention(struct layer_run *run) {
    const struct model_config *config = run->config;
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

void run_qkv(struct layer_run *run, struct rows x) {
    const struct layer_weights *w = run->w;
    run_linear(run, w->q, w->q_bias, x, run->q);
    run_linear(run, w->k, w->k_bias, x, run->k);
    run_linear(run, w->v, w->v_bias, x, run->v);
}

/* x = act(x) * up; up may be NULL. */
static void activate(struct layer_run *run, struct rows x, const float *up) {
    const struct activate_args args = {
        .x = x.data,
        .up = up,
        .out = x.data,
        .n_rows = run->n_rows,
        .width = x.width,
        .in_stride = x.width,
        .out_stride = x.width,
        .kind = (int32_t)run->config->activation,
    };
    run->device->ops->activate(run->device, &args);
}

static void multiply_by_silu(struct layer_run *run) {
    RADISH_ASSERT(run->gate.width == run->up.width);
    const struct silu_mul_args args = {
        .gate = run->gate.data,
        .up = run->up.data,
        .out = run->gate.data,
        .n_rows = run->n_rows,
        .width = run->gate.width,
        .in_stride = run->gate.width,
        .out_stride = run->gate.width,
    };
    run->device->ops->silu_mul(run->device, &args);
}

struct rows run_gate_up(struct layer_run *run, struct rows x) {
    const struct layer_weights *w = run->w;
    run_linear(run, w->up, w->up_bias, x, run->up);
    if (!w->gate) {
        activate(run, run->up, NULL);
        return run->up;
    }
    run_linear(run, w->gate, w->gate_bias, x, run->gate);
    if (run->config->activation == ACTIVATION_SILU)
        multiply_by_silu(run);
    else
        activate(run, run->gate, run->up.data);
    return run->gate;
}
