/* postnorm.c - one layer of olmo2 and exaone4: norms after each part only.
 *
 *   x += norm(O attention(rope(norm(Q x)), rope(norm(K x)), V x))
 *   x += norm(down(act(gate x) * up x))
 *
 * olmo2 norms Q and K over all heads at once, exaone4 every head. The residual stream is read as it
 * is, so it must not grow: that is what the norms before adding see to. */
#include "runner_int.h"

#include "arch.h"

static void norm_qk(struct layer_run *run) {
    const struct layer_weights *w = run->w;
    if (run->config->arch->flags & ARCH_WIDE_QK_NORM) {
        run_norm(run, run->q, w->q_norm, run->q);
        run_norm(run, run->k, w->k_norm, run->k);
    } else {
        run_head_norm(run, run->q, w->q_norm);
        run_head_norm(run, run->k, w->k_norm);
    }
}

void postnorm_layer(struct layer_run *run) {
    const struct layer_weights *w = run->w;

    run_qkv(run, source_rows(run->x));
    norm_qk(run);
    run_rope_kv_store(run);
    run_attention(run);
    run_linear(run, w->o, w->o_bias, run->attn, run->h);
    run_norm_add(run, run->h, w->attn_post_norm, run->x);

    struct rows ffn = run_gate_up(run, source_rows(run->x));
    run_linear(run, w->down, w->down_bias, ffn, run->h);
    run_norm_add(run, run->h, w->ffn_post_norm, run->x);
}
