/* runner_int.h - what the runner shows to layer functions (llama.c, qwen3.c ...) and to its tests.
 *
 * A layer function is a straight line of run_...() calls, each one operation of the device over all
 * rows of the step. It sees activations as struct rows and weights by role; positions, slots,
 * pools and sequences stay in here. Threads: the engine's thread. */
#ifndef MODEL_RUNNER_INT_H
#define MODEL_RUNNER_INT_H

#include "runner.h"

#include "rope_table.h"

/* Activations of the step: [n_rows, width] f32 on the device, rows lie close together. */
struct rows {
    float *data;
    uint32_t width;
};

/* One step as its layers see it. The widths of q, k, v, attn, gate and up are those of the present
 * layer. */
struct layer_run {
    struct device *device;
    const struct model_config *config;
    const struct layer_weights *w;
    uint32_t layer;
    uint32_t
        n_rows; /* of the step; behind run_attention() of the last layer those that want logits */
    struct rows x;        /* the residual stream: hidden_dim wide; the layer adds to it */
    struct rows h;        /* what a norm made of it */
    struct rows q, k, v;  /* n_heads * head_dim, n_kv_heads * head_dim, n_kv_heads * v_head_dim */
    struct rows attn;     /* n_heads * v_head_dim */
    struct rows gate, up; /* ffn_dim */
    const int32_t *positions; /* [n_rows] device */
    const int32_t *slots;     /* [n_rows] device */
    const float *rope_table;  /* [n_positions, rotary_dim] device, of this layer */
    uint32_t n_positions, n_slots;
    enum dtype kv_dtype;
    void *k_pool, *v_pool;            /* of this layer, device */
    const struct attention_seq *seqs; /* [n_seqs] host */
    uint32_t n_seqs;
    /* Rows that want logits, ascending, and the same by sequence, as if there were no others. */
    const uint32_t *wanted_rows; /* [n_wanted] device */
    uint32_t n_wanted;
    const struct attention_seq *wanted_seqs; /* [n_wanted_seqs] host */
    uint32_t n_wanted_seqs;
};

/* What products read: rows as they are, or a norm of them, which then is in run->h afterwards. */
struct source {
    struct rows x;
    enum matmul_norm norm;
    const float *w, *bias; /* of the norm */
};
struct source source_rows(struct rows x);
struct source source_norm(struct rows x, const float *w); /* RMSNorm(x) * w */
/* LayerNorm(x) * w + bias; bias may be NULL. */
struct source source_layer_norm(struct rows x, const float *w, const float *bias);

/* y = RMSNorm(x) * w, over whole rows. */
void run_norm(struct layer_run *run, struct rows x, const float *w, struct rows y);
/* y += RMSNorm(x) * w */
void run_norm_add(struct layer_run *run, struct rows x, const float *w, struct rows y);
/* y = RMSNorm of each head of x, in place. */
void run_head_norm(struct layer_run *run, struct rows x, const float *w);
/* y = W x + bias; bias may be NULL. */
void run_linear(struct layer_run *run, const struct weight *w, const float *bias, struct rows x,
                struct rows y);
/* y += W x + bias */
void run_linear_add(struct layer_run *run, const struct weight *w, const float *bias, struct rows x,
                    struct rows y);
/* RoPE on q in place and on k; k and v go to the slots of these rows. */
void run_rope_kv_store(struct layer_run *run);
/* attn = attention of q over the pool. In the last layer only rows that want logits go on from
 * here: those of x, h and q move together, and there are no others any more. */
void run_attention(struct layer_run *run);
/* q, k, v = Q x, K x, V x with their biases. */
void run_qkv(struct layer_run *run, struct source x);
/* act(gate x) * up x, or act(up x) in families without a gate: what the down product reads. */
struct rows run_gate_up(struct layer_run *run, struct source x);

/* The layer functions named in arch.def. */
#define ARCH(name, layer, ...) void layer(struct layer_run *run);
#define TENSOR(...)
#include "arch.def"

/* Where the runner keeps the K (or V) of one slot of one layer: for tests that look or tamper. */
void *runner_slot_address(struct runner *runner, uint32_t layer, bool is_v, uint32_t slot,
                          size_t *bytes_out);

#endif
