/* cpu_kernel.h - what a kernel variant of the CPU is given: the part of an operation that one
 * worker does at one time. For the files of kernel/cpu and the kernel tests only.
 *
 * The cpu_*.c files (drivers) cut an operation into parts, prepare shared inputs and run the parts
 * over the compute pool; the ref_*, avx2_* and avx512_* files (variants, rows of ops.def) compute a
 * part. How an operation is cut never changes a result: every output is made by one part, in an
 * order of operations that ops.def's bit class fixes. Threads: a part is done by one worker;
 * everything it reads is constant meanwhile. */
#ifndef KERNEL_CPU_CPU_KERNEL_H
#define KERNEL_CPU_CPU_KERNEL_H

#include "radish.h"

#include "kernel/kernel_args.h"
#include "quant_panel.h"
#include "tensor/dtype.h"

/* ---- weights ---- */

/* Pairs of inputs that BF16 panels and their activations are filled up to. */
#define PAIRS_BLOCK  16
#define HEAD_DIM_MAX 512 /* supports() refuses larger heads: sizes attention's scratch */
#define ATTN_QUERIES 64  /* most (token, head) pairs of an attention part */
#define ATTN_SPANS   (2 * ATTN_QUERIES + 1)
#define ATTN_BLOCK   64 /* spans of a query meet at multiples of it */
/* Floats from query to query of a part's scores: not a multiple of 4 KiB, whose lines would share
 * a few sets of a cache. */
#define ATTN_SCORE_STRIDE (ATTENTION_SEGMENT + 16)
#define ATTN_TILE_FLOATS  (ATTN_BLOCK * HEAD_DIM_MAX)

/* How a matrix lies in device memory. RAW is the file's own form, for matrices that are only
 * gathered. The others are panels of PANEL_ROWS rows (rows past n_out are zero), all inputs of a
 * panel one after another (r: row in the panel, k: input):
 *   F32   [n_in][16] floats
 *   F16   [n_in][16] halves
 *   BF16  [n_in / 2][16][2] halves: inputs 2i and 2i + 1 of a row side by side, so that one mask
 * and one shift of a vector give the floats of two inputs, and BF16 instructions read it as it is;
 *         inputs past n_in, up to the next multiple of 32, are zeros
 *   I8    quantised: unsigned bytes, cut into planes of as many bits as they have (quant_panel.h)
 */
enum pack_format { PACK_RAW, PACK_F32, PACK_F16, PACK_BF16, PACK_I8, PACK_FORMAT_COUNT };

struct kernel_row;

struct weight {
    enum pack_format format;
    enum dtype dtype; /* in the file */
    uint32_t n_out, n_in;
    uint32_t n_panels;
    size_t panel_bytes;
    uint8_t *data; /* panels [n_panels][panel_bytes], or raw rows [n_out][row_bytes] */
    size_t bytes;
    size_t row_bytes;                 /* RAW */
    const struct quant_form *form;    /* I8 */
    const struct kernel_row *matmul;  /* the variant chosen for it, or NULL when only gathered */
    const struct kernel_row *prepare; /* what it needs of rows; NULL: as they are */
};

/* Pairs of inputs in a BF16 panel. */
static inline size_t panel_pairs(const struct weight *w) {
    return ((size_t)w->n_in + 2 * PAIRS_BLOCK - 1) / (2 * PAIRS_BLOCK) * PAIRS_BLOCK;
}

/* ---- matmul ---- */

/* 1.5 * 2^23. Floats around it are 1 apart: adding it to a float rounds that to an integer, to
 * even, and an integer up to 2^22 added to its bits gives the bits of INT_BASE plus the integer. */
#define INT_BASE      12582912.0f
#define INT_BASE_BITS 0x4B400000

/* 32 activations as int8 with one scale s = max|x| / 127; q = x / s, rounded to even. The integer
 * dot product of a scale block starts from `start`, so that what comes out are the bits of
 * INT_BASE + dot, and fma(that, d, -INT_BASE * d) is float(dot) * d, rounded once: -INT_BASE * d is
 * exact, for a scale has no more than 18 bits. |dot| <= 32 * 255 * 127 < 2^22. */
struct act_block {
    int8_t q[ACT_BLOCK];
    float scale;
    int32_t start[2]; /* per scale block of the weight: INT_BASE_BITS - offset * (sum of its q) */
    float sum[2];     /* scale * (sum of the block's q) */
};

/* The same of 16 rows side by side, as matrix units load them. */
struct act_tile {
    int8_t q[ACT_TILE_ROWS][ACT_BLOCK];
    float scale[ACT_TILE_ROWS];
    float sum[ACT_TILE_ROWS]; /* for types with a minimum */
};

/* Activations as a matmul kernel reads them, for all rows of the call. */
struct activations {
    const float *x; /* F32, F16, BF16 panels: [n_rows, x_stride], for BF16 rounded to bf16 */
    uint32_t x_stride;
    const uint16_t *halves;         /* BF16 panels: the same as bf16, [n_rows, x_stride] */
    const struct act_block *blocks; /* I8 panels: [n_rows, n_in / 32], rows from n_tiled on */
    const struct act_tile *tiles;   /* and for AMX [n_tiled / 16, n_in / 32], the rows before */
    uint32_t n_tiled;               /* a multiple of 16; 0: no tiles */
};

/* Rows [row_first, row_first + n_rows) times panels [panel_first, panel_first + n_panels). */
struct matmul_part {
    const struct weight *w;
    struct activations a;
    float *y;          /* [rows, y_stride] */
    const float *bias; /* [n_out] or NULL */
    uint32_t y_stride;
    uint32_t row_first, n_rows, panel_first, n_panels;
    bool accumulate;
    const uint8_t *next; /* weights that the same worker probably reads next, worth asking for */
    size_t next_bytes;
};

/* Writes the 16 sums of one panel for one row to y, adding bias and the old value as asked. */
static inline void matmul_store(const struct matmul_part *p, uint32_t row, uint32_t panel,
                                const float sums[PANEL_ROWS]) {
    const uint32_t first = panel * PANEL_ROWS, left = p->w->n_out - first;
    const uint32_t n = left < PANEL_ROWS ? left : PANEL_ROWS;
    float *y = p->y + (size_t)row * p->y_stride + first;
    for (uint32_t i = 0; i < n; i++) {
        const float sum = p->bias ? sums[i] + p->bias[first + i] : sums[i];
        y[i] = p->accumulate ? y[i] + sum : sum;
    }
}

/* ---- attention ---- */

/* Keys of a segment as some queries of a part find them: by one slot table. Spans that queries
 * share (a common prefix) begin and end at blocks wherever another one meets them; those of a query
 * follow each other in ascending order. query_first counts within a KV head. */
struct attention_span {
    const uint32_t *slots;       /* of the segment's positions */
    uint32_t key_first, key_end; /* positions it holds, counted from the segment's first */
    uint32_t query_first, n_queries;
};

/* Queries of some neighbouring KV heads against the keys of one segment: of each head
 * n_queries / n_kv_heads, one head after another. Query i sees keys [key_first[i], key_end[i]),
 * counted from the segment's first position; an empty range gives max -INFINITY, sum 0, acc 0. */
struct attention_part {
    const void *k_pool, *v_pool; /* at the first KV head: slot s begins s * stride elements on */
    size_t k_stride, v_stride;
    enum dtype kv_dtype;
    uint32_t head_dim, v_head_dim;
    uint32_t n_kv_heads, n_queries, n_spans;
    struct attention_span spans[ATTN_SPANS];
    const float *q; /* [n_queries, head_dim] */
    uint32_t key_first[ATTN_QUERIES], key_end[ATTN_QUERIES];
    float scale, soft_cap;
    float *max, *sum; /* [n_queries] out */
    float *acc;       /* [n_queries, v_head_dim] out, not divided by the sum */
    float *scores;    /* [n_queries, ATTN_SCORE_STRIDE] scratch */
    float *tile;      /* [ATTN_TILE_FLOATS] scratch, 64-byte aligned */
    /* Keys that the same worker probably reads next, worth fetching: [n_next_keys], at the first
     * KV head of that part. */
    const void *next_k_pool;
    const uint32_t *next_slots;
    uint32_t n_next_keys;
};

/* ---- variants: declared from ops.def ---- */

struct cpu_device; /* device_cpu.h */
struct act_rows;   /* cpu_activations.h */

#define KERNEL_PARAMS_EMBED     const struct embed_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_RMSNORM   const struct rmsnorm_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_LAYERNORM const struct layernorm_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_ACTIVATE  const struct activate_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_SOFT_CAP  const struct soft_cap_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_KEEP_ROWS const struct keep_rows_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_PREPARE   const struct act_rows *rows, uint32_t row, const float *x
#define KERNEL_PARAMS_MATMUL    const struct matmul_part *part
/* The whole operation: what variants differ in is how it is cut. */
#define KERNEL_PARAMS_MATMUL_GROUP struct cpu_device *d, const struct matmul_group_args *args
#define KERNEL_PARAMS_SILU_MUL     const struct silu_mul_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_ROPE_KV_STORE                                                                \
    const struct rope_kv_store_args *args, uint32_t first, uint32_t end
#define KERNEL_PARAMS_ATTENTION const struct attention_part *part

typedef void (*embed_fn)(KERNEL_PARAMS_EMBED);
typedef void (*rmsnorm_fn)(KERNEL_PARAMS_RMSNORM);
typedef void (*layernorm_fn)(KERNEL_PARAMS_LAYERNORM);
typedef void (*activate_fn)(KERNEL_PARAMS_ACTIVATE);
typedef void (*soft_cap_fn)(KERNEL_PARAMS_SOFT_CAP);
typedef void (*keep_rows_fn)(KERNEL_PARAMS_KEEP_ROWS); /* columns [first, end) */
typedef void (*prepare_fn)(KERNEL_PARAMS_PREPARE);     /* one row: x[n_in] */
typedef void (*matmul_fn)(KERNEL_PARAMS_MATMUL);
typedef void (*matmul_group_fn)(KERNEL_PARAMS_MATMUL_GROUP);
typedef void (*silu_mul_fn)(KERNEL_PARAMS_SILU_MUL);
typedef void (*rope_kv_store_fn)(KERNEL_PARAMS_ROPE_KV_STORE);
typedef void (*attention_fn)(KERNEL_PARAMS_ATTENTION);

#define KERNEL(name, op, isa, formats, accepts, bit_class, tolerance, text)                        \
    void name(KERNEL_PARAMS_##op);
#include "kernel/ops.def"

#endif
