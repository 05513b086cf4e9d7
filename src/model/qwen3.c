/* qwen3.c - one layer of qwen3: llama's, with an RMSNorm over every head of Q and K before RoPE.
 *
 *   q = rope(norm(Q h)), k = rope(norm(K h)): the norms keep the scores of large models in range,
 *   which is why this family needs no QKV biases. head_dim is free: n_heads * head_dim need not be
 *   hidden_dim. */
#include "runner_int.h"

void qwen3_layer(struct layer_run *run) {
    const struct layer_weights *w = run->w;

    run_qkv(run, source_norm(run->x, w->attn_norm));
    run_head_norm(run, run->q, w->q_norm);
    run_head_norm(run, run->k, w->k_norm);
    run_rope_kv_store(run);
    run_attention(run);
    run_linear_add(run, w->o, w->o_bias, run->attn, run->x);

    struct rows ffn = run_gate_up(run, source_norm(run->x, w->ffn_norm));
    run_linear_add(run, w->down, w->down_bias, ffn, run->x);
}
