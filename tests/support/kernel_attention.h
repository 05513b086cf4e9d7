/* kernel_attention.h - one problem of attention: a pool with scattered slots, a batch of sequences,
 * and what the result is in double arithmetic. */
#ifndef TESTS_KERNEL_ATTENTION_H
#define TESTS_KERNEL_ATTENTION_H

#include "kernel_check.h"

enum { ATTENTION_CASE_SEQS = 20 };

struct attention_case {
    const struct kernel_devices *devices;
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim;
    enum dtype dtype;
    uint32_t window;
    float soft_cap;
    uint32_t n_seqs, kv_len[ATTENTION_CASE_SEQS], n_rows[ATTENTION_CASE_SEQS];
    uint32_t n_shared[ATTENTION_CASE_SEQS]; /* first slots that are those of sequence 0 */
    /* made by prepare */
    uint32_t n_tokens, n_slots, q_stride, out_stride;
    uint32_t *slots[ATTENTION_CASE_SEQS];
    float *q, *k, *v; /* K and V of every slot after rounding, as floats */
    uint8_t *k_pool, *v_pool;
};

/* Makes operands where check_alloc() does; slot 0 is NaN, slots out of every window are none. */
void attention_case_prepare(struct attention_case *c);
void attention_case_release(struct attention_case *c);
/* The case's sequences, all rows in a row. */
void attention_case_list(const struct attention_case *c, struct attention_seq *seqs);
/* Arguments for them, but for `out`. */
struct attention_args attention_case_args(const struct attention_case *c,
                                          const struct attention_seq *seqs, uint32_t n_seqs);
/* Runs the given sequences; the result is [all tokens, out_stride], rows not asked for stay NaN.
 * Caller frees with check_free(). */
float *attention_case_run(const struct attention_case *c, struct device *device,
                          const struct attention_seq *seqs, uint32_t n_seqs);
/* First, last and some other rows of each sequence, all heads, within the row's tolerance. */
void attention_case_compare(const struct attention_case *c, const struct attention_seq *seqs,
                            uint32_t n_seqs, const float *out);

#endif
