/* attention_args.h - what metal_attention.c tells the attention kernels; read by C and MSL.
 *
 * Rows are counted from the first row that a dispatch reads and writes: q and out are bound there,
 * so that dispatches over different rows touch different memory. Slots of all sequences lie in one
 * array: key t of a sequence is in slots[slot_first + t]. */
#ifndef KERNEL_METAL_ATTENTION_ARGS_H
#define KERNEL_METAL_ATTENTION_ARGS_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

/* Keys [key_first, key_end) of a row: all that it sees, or one of its blocks. */
struct attention_task {
    uint32_t row; /* of the batch */
    uint32_t slot_first;
    uint32_t key_first, key_end;
};

/* A row whose blocks are the tasks [task_first, task_first + n_tasks). */
struct attention_merge {
    uint32_t row; /* of the batch */
    uint32_t task_first, n_tasks;
};

/* Up to ATTENTION_TILE_ROWS rows of one sequence. */
struct attention_tile {
    uint32_t row, n_rows; /* of the batch */
    uint32_t position;    /* of the first row */
    uint32_t slot_first;
};

/* Scores are in units of log2: q.k * q_scale, or with a soft cap tanh(q.k * q_scale) *
 * score_scale. */
struct attention_numbers {
    float q_scale, score_scale;
    uint32_t q_stride, out_stride; /* elements from row to row */
    uint32_t n_heads, n_kv_heads;
    uint32_t n_slots;    /* of the pools */
    uint32_t window;     /* 0 = all */
    uint32_t row_first;  /* of the batch: row 0 of q and out */
    uint32_t task_first; /* of the list of tasks: partial 0 */
};

#define ATTENTION_TILE_ROWS    32
#define ATTENTION_TILE_THREADS 128
#define ATTENTION_ROW_THREADS  256 /* of attn_decode, at most */
#define ATTENTION_LANE_FLOATS  32  /* what a lane of attn_decode holds of all its heads */

/* Indexes of function constants. */
#define ATTENTION_CONSTANT_HEAD_DIM     300
#define ATTENTION_CONSTANT_V_HEAD_DIM   301
#define ATTENTION_CONSTANT_HAS_SOFT_CAP 302
#define ATTENTION_CONSTANT_HEADS        303
#define ATTENTION_CONSTANT_TILE_KEYS    304
#define ATTENTION_CONSTANT_TILE_PAD     305

#endif
