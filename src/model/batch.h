/* batch.h - one step's work: the only thing that policy (sched/) hands to computation (runner).
 *
 * Ragged: prefill chunks and decodes lie together, sequence after sequence, rows [0, n_tokens). All
 * arrays belong to whoever fills the batch and stay as they are until the step has ended. A plain
 * struct: no functions, no tensors.
 *
 *   rows     0 1 2 3 4 | 5 | 6 | 7 8 9        seqs: A prefill of 5, B and C decode, D chunk of 3
 *   position 0 1 2 3 4 | 9 | 70| 16 17 18     kv_len: 5, 10, 71, 19 */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include "radish.h"

/* Layers that share KV shape and window form a group with its own slots. */
#define BATCH_KV_GROUPS_MAX 4

struct batch_seq {
    uint32_t row_first;
    uint32_t n_rows; /* >= 1 */
    uint32_t kv_len; /* tokens with KV after this step; the rows are positions [kv_len - n_rows,
                        kv_len) */
    const uint32_t
        *kv_slots[BATCH_KV_GROUPS_MAX]; /* [kv_len] slot of every position, this step's included */
    uint32_t
        logits_first; /* rows [logits_first, n_rows) of this sequence want logits; n_rows: none */
    uint32_t logits_row; /* where its first logits row lands among the step's logits rows */
    void *user;          /* whose it is: for the filler and the sampler, not for the runner */
};

struct batch {
    uint32_t n_tokens;
    int32_t *token_ids; /* [n_tokens]; -1-x: what is drawn from logits row x of the step before */
    int32_t *positions; /* [n_tokens] */
    int32_t *slots[BATCH_KV_GROUPS_MAX]; /* [n_tokens] where this token's K and V go, per group; -1:
                                            nowhere */
    uint32_t n_groups;                   /* 1.. */
    uint32_t n_seqs;
    struct batch_seq *seqs; /* [n_seqs] */
    uint32_t n_logits_rows;
    uint32_t *logits_rows; /* [n_logits_rows] the batch row behind each logits row, ascending */
};

#endif
