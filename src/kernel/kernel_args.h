/* kernel_args.h - the arguments of every operation, one struct each, read by C, CUDA and Metal
 * alike.
 *
 * Pointers are device addresses: on the CPU plain pointers, on CUDA what cuMemAlloc gave; Metal
 * finds (buffer, offset) of an address among its few allocations. Only `struct attention_seq`
 * arrays and flags are host memory (said where). Activations are float32, row-major, strides in
 * elements. Nothing here owns anything; all is borrowed until the step has ended. */
#ifndef KERNEL_KERNEL_ARGS_H
#define KERNEL_KERNEL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weight; /* a matrix prepared by a device: its weight_create entry */

/* out[r] = row token_ids[r] of the matrix, as f32. A negative id -1-x stands for sampled[x], or for
 * id 0 where sampled[x] is -1: nothing was drawn, and nobody wants that row. Ids are < n_out rows
 * of w (the caller checks). */
struct embed_args {
    const struct weight *w;   /* [n_vocab, width] */
    const int32_t *token_ids; /* [n_rows] */
    const int32_t *sampled;   /* tokens of the previous step, or NULL when no id is negative */
    float *out;               /* [n_rows, out_stride] */
    uint32_t n_rows, out_stride;
    float scale; /* out is multiplied by it; 1 = not */
};

/* y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * w; with accumulate y[r] += that */
struct rmsnorm_args {
    const float *x; /* [n_rows, x_stride] */
    const float *w; /* [width] */
    float *y;       /* [n_rows, y_stride]; may be x */
    uint32_t n_rows, width, x_stride, y_stride;
    float eps;
    bool accumulate; /* then y is not x */
};

/* y[r] = (x[r] - mean) / sqrt(mean((x[r] - mean)^2) + eps) * w (+ bias), mean that of the row */
struct layernorm_args {
    const float *x;    /* [n_rows, x_stride] */
    const float *w;    /* [width] */
    const float *bias; /* [width] or NULL */
    float *y;          /* [n_rows, y_stride]; may be x */
    uint32_t n_rows, width, x_stride, y_stride;
    float eps;
};

/* y[r] = W x[r] (+ bias); with accumulate y[r] += that, rounded after the whole product. */
struct matmul_args {
    const struct weight *w; /* [n_out, n_in] */
    const float *x;         /* [n_rows, x_stride] */
    const float *bias;      /* [n_out] or NULL */
    float *y;               /* [n_rows, y_stride]; not x */
    uint32_t n_rows, x_stride, y_stride;
    bool accumulate;
};

/* One product of a group. */
struct matmul_product {
    const struct weight *w; /* [n_out, n_in] */
    const float *bias;      /* [n_out] or NULL */
    float *y;               /* [n_rows, y_stride]; not x */
    uint32_t y_stride;
};

enum matmul_norm { MATMUL_NORM_NONE, MATMUL_NORM_RMS, MATMUL_NORM_LAYER };

/* Products that read the same rows, with what stands before and behind them:
 *   1. with a norm: x[r] = norm(norm_x[r]), as rmsnorm or layernorm
 *   2. y_i[r] = W_i x[r] (+ bias_i) for every product
 *   3. is_activated: y_0[r] = act(y_0[r]) (* y_1[r], where there are two products); y_1 may then
 *      hold anything
 * The bits are those of the operations one after another. */
#define MATMUL_GROUP_MAX 3
struct matmul_group_args {
    struct matmul_product products[MATMUL_GROUP_MAX];
    uint32_t n_products;
    float *x; /* [n_rows, x_stride]; read, and with a norm written before */
    uint32_t n_rows, n_in, x_stride;
    int32_t norm;           /* enum matmul_norm */
    const float *norm_x;    /* [n_rows, norm_x_stride]; may be x */
    const float *norm_w;    /* [n_in] */
    const float *norm_bias; /* [n_in] or NULL; MATMUL_NORM_LAYER only */
    uint32_t norm_x_stride;
    float norm_eps;
    bool is_activated;  /* then at most two products, of one y_stride ... */
    uint32_t n_out;     /* ... and so many rows each */
    int32_t activation; /* enum activation */
};

/* out[r] = silu(gate[r]) * up[r], silu(x) = x / (1 + exp(-x)) */
struct silu_mul_args {
    const float *gate, *up; /* [n_rows, in_stride] */
    float *out;             /* [n_rows, out_stride]; may be gate */
    uint32_t n_rows, width, in_stride, out_stride;
};

enum activation {
    ACTIVATION_SILU,      /* x / (1 + exp(-x)) */
    ACTIVATION_GELU,      /* x / 2 * (1 + erf(x / sqrt 2)) */
    ACTIVATION_GELU_TANH, /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
    ACTIVATION_RELU2      /* max(x, 0)^2 */
};

/* out[r] = act(x[r]) (* up[r]) */
struct activate_args {
    const float *x;  /* [n_rows, in_stride] */
    const float *up; /* [n_rows, in_stride] or NULL */
    float *out;      /* [n_rows, out_stride]; may be x */
    uint32_t n_rows, width, in_stride, out_stride;
    int32_t kind; /* enum activation */
};

/* x[i] = x[rows[i]] for i in [0, n_rows), in place: rows ascend and rows[i] >= i, so that none is
 * overwritten before it has moved. Columns do not depend on each other. */
struct keep_rows_args {
    float *x;             /* [rows, stride] */
    const uint32_t *rows; /* [n_rows] */
    uint32_t n_rows, width, stride;
};

/* x[r] = cap * tanh(x[r] / cap), in place */
struct soft_cap_args {
    float *x; /* [n_rows, stride] */
    uint32_t n_rows, width, stride;
    float cap; /* > 0 */
};

/* RoPE on Q in place; RoPE on K, rounded to the pool's dtype, to k_pool[slot]; V to v_pool[slot].
 * slot -1 writes nothing; no two rows name the same slot (the caller checks, and that none is
 * padding). Rotation over the first rotary_dim of head_dim: (x, y) -> (x cos - y sin,
 * x sin + y cos), pairs (d, d + rotary_dim/2) or (2d, 2d+1); the tail is copied. */
struct rope_kv_store_args {
    float *q;     /* [n_rows, q_stride], heads of head_dim one after another */
    float *k, *v; /* [n_rows, k_stride], [n_rows, v_stride]; afterwards k may hold anything */
    const int32_t *positions; /* [n_rows] >= 0, < rows of the table */
    const int32_t *slots;     /* [n_rows] */
    const float
        *rope_table; /* [positions, rotary_dim]: cos of the rotary_dim/2 pairs, then their sin */
    void *k_pool, *v_pool; /* [n_slots, n_kv_heads, head_dim], [n_slots, n_kv_heads, v_head_dim] of
                              kv_dtype */
    uint32_t n_rows, q_stride, k_stride, v_stride;
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim, rotary_dim;
    uint32_t n_slots, n_positions; /* rows of the pool, rows of the table */
    int32_t kv_dtype;              /* enum dtype: F32, F16 or BF16 */
    bool is_interleaved;
};

/* One sequence of a ragged batch. Host memory; a device that records copies it, slots included, at
 * the call. Within a step the same array has the same contents. */
struct attention_seq {
    uint32_t row_first, n_rows;
    uint32_t kv_len; /* this step's rows included: row r is position kv_len - n_rows + r and sees
                        keys [0, that position] */
    const uint32_t *slots; /* [kv_len] host memory */
};

/* out[row, head] = softmax(scale * q k^T, causal) v over the pool, read through the slot table.
 * Keys in segments of ATTENTION_SEGMENT absolute positions, each with its own (max, sum,
 * accumulator), merged left to right. */
#define ATTENTION_SEGMENT 1024
struct attention_args {
    const float *q; /* [n_tokens, q_stride] */
    float *out;     /* [n_tokens, out_stride], heads of v_head_dim */
    const void *k_pool, *v_pool;
    const struct attention_seq *seqs; /* [n_seqs] */
    uint32_t n_seqs, q_stride, out_stride;
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim, n_slots;
    int32_t kv_dtype;
    float scale;
    uint32_t window; /* keys [pos - window + 1, pos] only; 0 = all */
    float soft_cap;  /* scores become cap * tanh(score / cap); 0 = not */
};

/* What is drawn from one row of logits; the limits are those of sample/sampler.h. */
struct sample_draw {
    uint32_t is_off;   /* nothing: the host samples from this row */
    uint32_t top_k;    /* 1: the first of the largest; >= width: no limit */
    float temperature; /* > 0 */
    float top_p;       /* (0, 1] */
    float min_p;       /* [0, 1] */
    float u;           /* [0, 1): where in what is kept, in order of ids, the draw falls */
};

/* tokens[r] = a draw from logits[r]; -1: the row holds NaN or +inf, or no number above -inf, or is
 * off. logits may hold anything afterwards, except in rows that are off. */
struct sample_rows_args {
    float *logits;                   /* [n_rows, stride] */
    const struct sample_draw *draws; /* [n_rows] device */
    int32_t *tokens;                 /* [n_rows] device */
    uint32_t n_rows, width, stride;
};

#endif
