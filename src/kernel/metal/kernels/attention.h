/* attention.h - what both attention kernels have: the shape of a head, and how a score is bent.
 * MSL; after metal_stdlib. */
#ifndef KERNEL_METAL_ATTENTION_H
#define KERNEL_METAL_ATTENTION_H

#include "attention_args.h"
#include "unroll.h"

constant uint ATTN_HEAD_DIM [[function_constant(ATTENTION_CONSTANT_HEAD_DIM)]];
constant uint ATTN_V_HEAD_DIM [[function_constant(ATTENTION_CONSTANT_V_HEAD_DIM)]];
constant bool ATTN_HAS_SOFT_CAP [[function_constant(ATTENTION_CONSTANT_HAS_SOFT_CAP)]];

/* "No key yet" instead of -infinity: all arithmetic stays finite, so it holds under fast math, too.
 */
#define ATTN_LOWEST (-1e30f)

static float attn_bend(float score, float score_scale) {
    return ATTN_HAS_SOFT_CAP ? metal::precise::tanh(score) * score_scale : score;
}

#endif
