/* cases.c - the inputs of the golden vectors.
 *
 * A handful of cases for each operation, small and ragged: the point is not to test the kernels
 * once more (that is done on Linux, over every shape, against double arithmetic) but to see whether
 * another compiler and another machine make the same of them. So each case goes another way through
 * a kernel: every type of weight in few and in many rows, every pool, both pairings, a window, a
 * soft cap, sequences that share a step. Numbers come from base/rng.h, by name of the case. */
#include "cases.h"

#include "base/rng.h"
#include "base/status.h"
#include "tensor/quantise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The case that is being made. */
struct maker {
    struct vectors *vectors;
    struct vector_case *c;
    uint64_t seed, counter;
    bool failed; /* out of memory */
};

static void begin(struct maker *m, enum kernel_op op, const char *variant) {
    m->c = &m->vectors->cases[m->vectors->n_cases++];
    *m->c = (struct vector_case){.op = op};
    snprintf(m->c->name, sizeof m->c->name, "%s.%s", kernel_op_name(op), variant);
    vector_set(m->c, "op", "%s", kernel_op_name(op));
    m->seed = 0;
    m->counter = 0;
    for (const char *s = m->c->name; *s; s++) m->seed = m->seed * 31 + (unsigned char)*s;
}

static void set(struct maker *m, const char *name, uint32_t value) {
    vector_set(m->c, name, "%u", value);
}

static void set_number(struct maker *m, const char *name, double value) {
    vector_set(m->c, name, "%.9g", value);
}

static float random_number(struct maker *m, float scale) {
    return (float)(2 * rng_uniform(m->seed, m->counter++) - 1) * scale;
}

static void *add(struct maker *m, const char *name, enum dtype dtype, size_t n, bool is_out) {
    void *data = vector_add(m->c, name, dtype, n * dtype_block_bytes(dtype), is_out);
    if (!data) m->failed = true;
    return data;
}

/* Numbers in (-scale, scale). */
static float *add_floats(struct maker *m, const char *name, size_t n, float scale, bool is_out) {
    float *data = add(m, name, RADISH_DTYPE_F32, n, is_out);
    for (size_t i = 0; data && i < n; i++) data[i] = random_number(m, scale);
    return data;
}

static void add_ids(struct maker *m, const char *name, enum dtype dtype, const int32_t *ids,
                    size_t n) {
    int32_t *data = add(m, name, dtype, n, /*is_out=*/false);
    if (data) memcpy(data, ids, n * sizeof *ids);
}

/* Plain numbers as f16 or bf16. */
static void round_to(enum dtype dtype, const float *src, uint16_t *dst, size_t n) {
    for (size_t i = 0; i < n; i++)
        dst[i] = dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(src[i]) : dtype_f32_to_bf16(src[i]);
}

/* Blocks of a type that nothing here makes of numbers: any bytes, with scales of ordinary size. */
static void fill_blocks(struct maker *m, enum dtype dtype, uint8_t *dst, size_t n_bytes) {
    const size_t block = dtype_block_bytes(dtype);
    const uint16_t scale = dtype_f32_to_f16(0.01f);
    for (size_t i = 0; i < n_bytes; i++) dst[i] = (uint8_t)rng_u64(m->seed, m->counter++);
    for (size_t i = 0; i + block <= n_bytes; i += block) {
        if (dtype == RADISH_DTYPE_Q2_K) memcpy(dst + i + block - 4, &scale, sizeof scale);
        memcpy(dst + i + block - 2, &scale, sizeof scale);
    }
}

enum { ROW_MAX = 512 };

/* The matrix of a weight, and its sizes. */
static void add_matrix(struct maker *m, enum dtype dtype, uint32_t n_out, uint32_t n_in) {
    uint64_t row_bytes = 0;
    (void)dtype_row_bytes(dtype, n_in, &row_bytes);
    const bool is_plain = !dtype_is_quantised(dtype);
    vector_set(m->c, "weight_dtype", "%s", dtype_name(dtype));
    set(m, "n_out", n_out);
    set(m, "n_in", n_in);
    uint8_t *data = add(m, "matrix", is_plain ? dtype : RADISH_DTYPE_U8,
                        is_plain ? (size_t)n_out * n_in : n_out * (size_t)row_bytes, false);
    for (uint32_t r = 0; data && r < n_out; r++) {
        float row[ROW_MAX];
        uint8_t *dst = data + r * row_bytes;
        for (uint32_t i = 0; i < n_in; i++) row[i] = random_number(m, 0.5f);
        if (dtype == RADISH_DTYPE_F32)
            memcpy(dst, row, row_bytes);
        else if (is_plain)
            round_to(dtype, row, (uint16_t *)(void *)dst, n_in);
        else if (!quantise_type_name(dtype) || !quantise_row(dtype, row, n_in, dst))
            fill_blocks(m, dtype, dst, row_bytes);
    }
}

/* ---- rows ---- */

static void make_embed(struct maker *m, enum dtype dtype) {
    static const int32_t ids[] = {6, -2, 0}, sampled[] = {1, 5};
    const uint32_t width = dtype_block_elems(dtype) > 80 ? 256 : 64;
    begin(m, KERNEL_OP_EMBED, dtype_name(dtype));
    set(m, "n_rows", 3);
    set(m, "out_stride", width + 3);
    set_number(m, "scale", dtype == RADISH_DTYPE_BF16 ? 2.5 : 1);
    add_matrix(m, dtype, 7, width);
    add_ids(m, "token_ids", RADISH_DTYPE_I32, ids, 3);
    add_ids(m, "sampled", RADISH_DTYPE_I32, sampled, 2);
    add_floats(m, "out", (size_t)3 * (width + 3), 1, true);
}

static void make_norm(struct maker *m, enum kernel_op op, const char *variant, uint32_t width,
                      bool has_more) {
    const uint32_t n_rows = 2, stride = width + 5;
    begin(m, op, variant);
    set(m, "n_rows", n_rows);
    set(m, "width", width);
    set(m, "x_stride", stride);
    set(m, "y_stride", stride);
    set_number(m, "eps", 1e-6);
    set(m, "accumulate", has_more && op == KERNEL_OP_RMSNORM);
    add_floats(m, "x", (size_t)n_rows * stride, 3, false);
    add_floats(m, "w", width, 1, false);
    if (has_more && op == KERNEL_OP_LAYERNORM) add_floats(m, "bias", width, 1, false);
    add_floats(m, "y", (size_t)n_rows * stride, 1, true);
}

static void make_activation(struct maker *m, enum kernel_op op, const char *variant, uint32_t kind,
                            bool has_up) {
    const uint32_t n_rows = 3, width = 77, stride = 80;
    begin(m, op, variant);
    set(m, "n_rows", n_rows);
    set(m, "width", width);
    set(m, "in_stride", stride);
    set(m, "out_stride", width);
    set(m, "kind", kind);
    add_floats(m, "x", (size_t)n_rows * stride, 9, false);
    if (has_up) add_floats(m, "up", (size_t)n_rows * stride, 2, false);
    add_floats(m, "out", (size_t)n_rows * width, 1, true);
}

static void make_rows(struct maker *m) {
    static const int32_t rows[] = {1, 2, 5};
    make_norm(m, KERNEL_OP_RMSNORM, "narrow", 80, false);
    make_norm(m, KERNEL_OP_RMSNORM, "accumulate", 519, true);
    make_norm(m, KERNEL_OP_LAYERNORM, "plain", 80, false);
    make_norm(m, KERNEL_OP_LAYERNORM, "bias", 519, true);
    make_activation(m, KERNEL_OP_SILU_MUL, "rows", ACTIVATION_SILU, true);
    make_activation(m, KERNEL_OP_ACTIVATE, "silu", ACTIVATION_SILU, true);
    make_activation(m, KERNEL_OP_ACTIVATE, "gelu", ACTIVATION_GELU, false);
    make_activation(m, KERNEL_OP_ACTIVATE, "gelu_tanh", ACTIVATION_GELU_TANH, true);
    make_activation(m, KERNEL_OP_ACTIVATE, "relu2", ACTIVATION_RELU2, false);
    begin(m, KERNEL_OP_SOFT_CAP, "rows");
    set(m, "n_rows", 2);
    set(m, "width", 77);
    set(m, "stride", 80);
    set_number(m, "cap", 30);
    add_floats(m, "x", 2 * 80, 90, true);
    begin(m, KERNEL_OP_KEEP_ROWS, "rows");
    set(m, "n_all", 6);
    set(m, "n_rows", 3);
    set(m, "width", 33);
    set(m, "stride", 35);
    add_ids(m, "rows", RADISH_DTYPE_U32, rows, 3);
    add_floats(m, "x", 6 * 35, 1, true);
}

/* ---- products ---- */

static uint32_t inputs_of(enum dtype dtype) {
    if (dtype_block_elems(dtype) > 80) return 256;
    return dtype_block_elems(dtype) == 32 ? 96 : 83;
}

static void make_matmul(struct maker *m, enum dtype dtype, uint32_t n_rows, bool has_more) {
    const uint32_t n_in = inputs_of(dtype);
    const uint32_t n_out = has_more ? 37 : 19;
    char variant[24];
    snprintf(variant, sizeof variant, "%s.%u", dtype_name(dtype), n_rows);
    begin(m, KERNEL_OP_MATMUL, variant);
    set(m, "n_rows", n_rows);
    set(m, "x_stride", n_in + 1);
    set(m, "y_stride", n_out + 2);
    set(m, "accumulate", has_more);
    add_matrix(m, dtype, n_out, n_in);
    add_floats(m, "x", (size_t)n_rows * (n_in + 1), 1, false);
    if (has_more) add_floats(m, "bias", n_out, 1, false);
    add_floats(m, "y", (size_t)n_rows * (n_out + 2), 1, true);
}

static void make_group(struct maker *m, enum dtype dtype, uint32_t n_rows) {
    const uint32_t n_in = inputs_of(dtype), n_out = 35;
    char variant[24];
    snprintf(variant, sizeof variant, "%s.%u", dtype_name(dtype), n_rows);
    begin(m, KERNEL_OP_MATMUL_GROUP, variant);
    set(m, "n_rows", n_rows);
    set(m, "x_stride", n_in);
    set(m, "y_stride", n_out);
    set_number(m, "eps", 1e-5);
    add_matrix(m, dtype, n_out, n_in);
    add_floats(m, "x", (size_t)n_rows * n_in, 1, false);
    add_floats(m, "w", n_in, 1, false);
    (void)add(m, "scratch", RADISH_DTYPE_F32, (size_t)n_rows * n_in, false);
    (void)add(m, "up", RADISH_DTYPE_F32, (size_t)n_rows * n_out, false);
    add_floats(m, "y", (size_t)n_rows * n_out, 1, true);
}

/* Types of which many rows are tried, too: what products of matrices do differs by the block. */
static bool is_common(enum dtype dtype) {
    return !dtype_is_quantised(dtype) || dtype == RADISH_DTYPE_Q8_0 || dtype == RADISH_DTYPE_Q4_0 ||
           dtype == RADISH_DTYPE_Q4_K || dtype == RADISH_DTYPE_Q6_K;
}

/* ---- RoPE ---- */

static void add_pool(struct maker *m, const char *name, enum dtype dtype, size_t n, bool is_out) {
    if (dtype == RADISH_DTYPE_F32) {
        add_floats(m, name, n, 1, is_out);
        return;
    }
    uint16_t *data = add(m, name, dtype, n, is_out);
    for (size_t i = 0; data && i < n; i++) {
        const float x = random_number(m, 1);
        round_to(dtype, &x, &data[i], 1);
    }
}

static void make_rope(struct maker *m, enum dtype dtype, uint32_t head_dim, uint32_t rotary_dim,
                      bool is_interleaved) {
    enum { N_ROWS = 4, N_HEADS = 4, N_KV_HEADS = 2, N_SLOTS = 5, N_POSITIONS = 4 };
    static const int32_t positions[N_ROWS] = {0, 3, 1, 2}, slots[N_ROWS] = {4, -1, 1, 0};
    const uint32_t v_head_dim = is_interleaved ? head_dim - 16 : head_dim;
    char variant[24];
    snprintf(variant, sizeof variant, "%s.%u", dtype_name(dtype), head_dim);
    begin(m, KERNEL_OP_ROPE_KV_STORE, variant);
    set(m, "n_rows", N_ROWS);
    set(m, "n_heads", N_HEADS);
    set(m, "n_kv_heads", N_KV_HEADS);
    set(m, "head_dim", head_dim);
    set(m, "v_head_dim", v_head_dim);
    set(m, "rotary_dim", rotary_dim);
    set(m, "q_stride", N_HEADS * head_dim + 2);
    set(m, "k_stride", N_KV_HEADS * head_dim);
    set(m, "v_stride", N_KV_HEADS * v_head_dim + 1);
    set(m, "n_slots", N_SLOTS);
    set(m, "n_positions", N_POSITIONS);
    set(m, "is_interleaved", is_interleaved);
    vector_set(m->c, "kv_dtype", "%s", dtype_name(dtype));
    add_floats(m, "q", N_ROWS * (N_HEADS * head_dim + 2), 2, true);
    add_floats(m, "k", N_ROWS * N_KV_HEADS * head_dim, 2, false);
    add_floats(m, "v", N_ROWS * (N_KV_HEADS * v_head_dim + 1), 2, false);
    add_ids(m, "positions", RADISH_DTYPE_I32, positions, N_ROWS);
    add_ids(m, "slots", RADISH_DTYPE_I32, slots, N_ROWS);
    float *table = add_floats(m, "table", N_POSITIONS * rotary_dim, 1, false);
    for (uint32_t i = 0; table && i < N_POSITIONS * rotary_dim; i++) {
        const uint32_t row = i / rotary_dim, at = i % rotary_dim, half = rotary_dim / 2;
        /* An angle by the tangent of its half: the same on every machine, with no libm. */
        const double t = row * 0.7 / (1 + at % half);
        table[i] = (float)((at < half ? 1 - t * t : 2 * t) / (1 + t * t));
    }
    add_pool(m, "k_pool", dtype, (size_t)N_SLOTS * N_KV_HEADS * head_dim, true);
    add_pool(m, "v_pool", dtype, (size_t)N_SLOTS * N_KV_HEADS * v_head_dim, true);
}

/* ---- attention ---- */

struct attention_case {
    const char *variant;
    enum dtype dtype;
    uint32_t n_heads, n_kv_heads, head_dim, n_slots, window;
    double soft_cap;
    uint32_t seqs[3][3]; /* first row, rows, KV length */
    uint32_t n_seqs, n_rows;
};

/* Slots jump about, and sequences may share them. */
static void add_slots(struct maker *m, const struct attention_case *a) {
    uint32_t total = 0, at = 0;
    for (uint32_t i = 0; i < a->n_seqs; i++) total += a->seqs[i][2];
    uint32_t *slots = add(m, "kv_slots", RADISH_DTYPE_U32, total, false);
    for (uint32_t i = 0; slots && i < a->n_seqs; i++)
        for (uint32_t k = 0; k < a->seqs[i][2]; k++) slots[at++] = (k * 7 + i + 1) % a->n_slots;
    uint32_t *seqs = add(m, "seqs", RADISH_DTYPE_U32, 3 * (size_t)a->n_seqs, false);
    if (seqs) memcpy(seqs, a->seqs, a->n_seqs * sizeof *a->seqs);
}

static void make_attention(struct maker *m, const struct attention_case *a) {
    begin(m, KERNEL_OP_ATTENTION, a->variant);
    set(m, "n_rows", a->n_rows);
    set(m, "n_seqs", a->n_seqs);
    set(m, "n_heads", a->n_heads);
    set(m, "n_kv_heads", a->n_kv_heads);
    set(m, "head_dim", a->head_dim);
    set(m, "v_head_dim", a->head_dim);
    set(m, "q_stride", a->n_heads * a->head_dim);
    set(m, "out_stride", a->n_heads * a->head_dim);
    set(m, "n_slots", a->n_slots);
    set(m, "window", a->window);
    set_number(m, "soft_cap", a->soft_cap);
    set_number(m, "scale", 1 / sqrt(a->head_dim));
    vector_set(m->c, "kv_dtype", "%s", dtype_name(a->dtype));
    const size_t row = (size_t)a->n_heads * a->head_dim;
    add_floats(m, "q", a->n_rows * row, 3, false);
    add_floats(m, "out", a->n_rows * row, 1, true);
    const size_t pool = (size_t)a->n_slots * a->n_kv_heads * a->head_dim;
    add_pool(m, "k_pool", a->dtype, pool, false);
    add_pool(m, "v_pool", a->dtype, pool, false);
    add_slots(m, a);
}

static const struct attention_case attention_cases[] = {
    {"F32.decode", RADISH_DTYPE_F32, 2, 1, 64, 37, 0, 0, {{0, 1, 35}, {1, 1, 1}}, 2, 2},
    {"F16.decode", RADISH_DTYPE_F16, 4, 1, 128, 41, 0, 0, {{0, 1, 40}, {1, 1, 33}}, 2, 2},
    {"BF16.decode", RADISH_DTYPE_BF16, 3, 1, 80, 41, 20, 0, {{0, 1, 40}, {1, 1, 7}}, 2, 2},
    /* The pool is small, and the slots come round many times. */
    {"F16.long", RADISH_DTYPE_F16, 2, 1, 64, 43, 0, 0, {{0, 1, 2100}}, 1, 1},
    {"F32.prefill", RADISH_DTYPE_F32, 2, 1, 64, 31, 0, 50, {{0, 9, 30}}, 1, 9},
    {"F16.prefill", RADISH_DTYPE_F16, 2, 1, 64, 43, 0, 0, {{0, 9, 42}, {9, 1, 30}}, 2, 10},
    {"BF16.prefill", RADISH_DTYPE_BF16, 2, 2, 48, 35, 11, 0, {{0, 17, 34}}, 1, 17},
};

/* ---- sampling ---- */

static void make_sample(struct maker *m) {
    enum { N_ROWS = 7, WIDTH = 601 };
    struct sample_draw draws[N_ROWS] = {
        {0, 1, 1.0f, 1.0f, 0, 0},     {0, WIDTH, 0.8f, 1.0f, 0, 0}, {0, 20, 1.0f, 1.0f, 0, 0},
        {0, WIDTH, 1.5f, 0.9f, 0, 0}, {0, 40, 0.6f, 0.95f, 0, 0},   {0, WIDTH, 1.0f, 1.0f, 0.1f, 0},
        {1, WIDTH, 1.0f, 1.0f, 0, 0},
    };
    for (uint32_t i = 0; i < N_ROWS; i++) draws[i].u = (float)rng_uniform(i, 0);
    begin(m, KERNEL_OP_SAMPLE, "rows");
    set(m, "n_rows", N_ROWS);
    set(m, "width", WIDTH);
    set(m, "stride", WIDTH);
    add_floats(m, "logits", N_ROWS * WIDTH, 7, false);
    uint8_t *data = add(m, "draws", RADISH_DTYPE_U8, sizeof draws, false);
    if (data) memcpy(data, draws, sizeof draws);
    (void)add(m, "tokens", RADISH_DTYPE_I32, N_ROWS, true);
}

enum radish_status cases_make(struct vectors *vectors_out, struct radish_error *err) {
    static const enum dtype weights[] = {RADISH_DTYPE_F32,  RADISH_DTYPE_F16,  RADISH_DTYPE_BF16,
                                         RADISH_DTYPE_Q8_0, RADISH_DTYPE_Q4_0, RADISH_DTYPE_Q4_1,
                                         RADISH_DTYPE_Q5_0, RADISH_DTYPE_Q5_1, RADISH_DTYPE_Q2_K,
                                         RADISH_DTYPE_Q3_K, RADISH_DTYPE_Q4_K, RADISH_DTYPE_Q5_K,
                                         RADISH_DTYPE_Q6_K};
    static const enum dtype pools[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    struct maker m = {.vectors = vectors_out};
    vectors_out->n_cases = 0;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        make_embed(&m, weights[i]);
        make_matmul(&m, weights[i], 2, false);
        if (is_common(weights[i])) make_matmul(&m, weights[i], 9, true);
    }
    make_group(&m, RADISH_DTYPE_Q8_0, 2);
    make_group(&m, RADISH_DTYPE_BF16, 9);
    make_rows(&m);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        make_rope(&m, pools[i], 64, 64, false);
        make_rope(&m, pools[i], 80, 32, true);
    }
    for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++)
        make_attention(&m, &attention_cases[i]);
    make_sample(&m);
    if (!m.failed) return RADISH_OK;
    vectors_deinit(vectors_out);
    return error_nomem(err);
}
