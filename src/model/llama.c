/* llama.c - one layer of the llama family: pre-norm attention with RoPE, then a pre-norm gated
 * feed-forward part.
 *
 *   x += O attention(rope(Q h), rope(K h), V h)    h = norm(x)
 *   x += down(act(gate h) * up h)                  h = norm(x)
 *
 * Serves llama, qwen2, mistral, phi3, granite and smollm3, with or without biases (a NULL bias is
 * none), MHA and GQA; windows and layers without RoPE are the configuration's. */
#include "runner_int.h"

void llama_layer(struct layer_run *run) {
    const struct layer_weights *w = run->w;

    run_qkv(run, source_norm(run->x, w->attn_norm));
    run_rope_kv_store(run);
    run_attention(run);
    run_linear_add(run, w->o, w->o_bias, run->attn, run->x);

    struct rows ffn = run_gate_up(run, source_norm(run->x, w->ffn_norm));
    run_linear_add(run, w->down, w->down_bias, ffn, run->x);
}
