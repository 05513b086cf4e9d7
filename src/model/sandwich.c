/* sandwich.c - one layer of glm4, gemma2 and gemma3: a norm before and a norm after each part.
 *
 *   x += norm(O attention(rope(Q h), rope(K h), V h))    h = norm(x)
 *   x += norm(down(act(gate h) * up h))                  h = norm(x)
 *
 * gemma3 also norms every head of Q and K before RoPE. Windows, soft caps and the scale of scores
 * are options of attention; gemma's norms multiply by 1 + w, which loading has made w. h is free
 * once a part has read it and takes the part's output until the second norm has added it. */
#include "runner_int.h"

void sandwich_layer(struct layer_run *run) {
    const struct layer_weights *w = run->w;

    run_qkv(run, source_norm(run->x, w->attn_norm));
    if (w->q_norm) run_head_norm(run, run->q, w->q_norm);
    if (w->k_norm) run_head_norm(run, run->k, w->k_norm);
    run_rope_kv_store(run);
    run_attention(run);
    run_linear(run, w->o, w->o_bias, run->attn, run->h);
    run_norm_add(run, run->h, w->attn_post_norm, run->x);

    struct rows ffn = run_gate_up(run, source_norm(run->x, w->ffn_norm));
    run_linear(run, w->down, w->down_bias, ffn, run->h);
    run_norm_add(run, run->h, w->ffn_post_norm, run->x);
}
