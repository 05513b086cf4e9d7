/* layernorm.c - one layer of the families that subtract the mean: stablelm, nemotron, gpt_neox, phi
 * and cohere2.
 *
 *   x += O attention(rope(Q h), rope(K h), V h)    h = norm(x)
 *   x += down(act(gate h) * up h)                  h = norm(x), by another norm
 *
 * Parallel (gpt_neox, phi, cohere2, some stablelm): both lines read the same x. Then gate and up
 * come before the first line adds to x; families with one norm a layer use the first h again,
 * which attention leaves as it is. Without a gate (nemotron, gpt_neox, phi) the second line is
 * down(act(up h)). So five families differ in which weights are there, and one function serves
 * them. */
#include "runner_int.h"

void layernorm_layer(struct layer_run *run) {
    const struct layer_weights *w = run->w;
    bool is_parallel = run->config->is_parallel;
    struct source ffn_source = source_rows(run->h); /* the first h, still there */
    if (w->ffn_norm) ffn_source = source_layer_norm(run->x, w->ffn_norm, w->ffn_norm_bias);

    run_qkv(run, source_layer_norm(run->x, w->attn_norm, w->attn_norm_bias));
    run_rope_kv_store(run);
    run_attention(run);
    if (!is_parallel) run_linear_add(run, w->o, w->o_bias, run->attn, run->x);
    struct rows ffn = run_gate_up(run, ffn_source);
    if (is_parallel) run_linear_add(run, w->o, w->o_bias, run->attn, run->x);
    run_linear_add(run, w->down, w->down_bias, ffn, run->x);
}
