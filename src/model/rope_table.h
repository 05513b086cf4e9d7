/* rope_table.h - cos and sin of every position served so far, made on the host in double, kept on
 * the device as float.
 *
 * Row p: cos of the rotary_dim / 2 pairs, then their sin, both times the attention factor that yarn
 * and longrope ask for. Owns: the device memory. The device must outlive it. Threads: the engine's
 * thread. */
#ifndef MODEL_ROPE_TABLE_H
#define MODEL_ROPE_TABLE_H

#include "radish.h"

#include "kernel/kernel.h"
#include "model/config.h"

/* Inverse frequencies [rotary_dim / 2] and the factor for cos and sin, as transformers computes
 * them, in double. context_tokens: how many positions will be served; longrope chooses by it. */
void rope_frequencies(const struct rope_config *rope, uint32_t rotary_dim, uint32_t context_tokens,
                      double *inv_freq_out, double *attention_factor_out);

struct rope_table {
    struct device *device;
    float *address;       /* device: [n_positions, rotary_dim] */
    float *block;         /* host: rows on their way to the device */
    uint32_t n_positions; /* the context */
    uint32_t n_filled;    /* rows [0, n_filled) are there */
    uint32_t rotary_dim;
    double attention_factor;
    double inv_freq[ROPE_PAIRS_MAX];
};

/* What init will take; UINT64_MAX when it does not fit. */
uint64_t rope_table_bytes(uint32_t rotary_dim, uint32_t n_positions);

/* E_NOMEM. On failure *table needs no deinit. */
enum radish_status rope_table_init(struct rope_table *table, struct device *device,
                                   const struct rope_config *rope, uint32_t rotary_dim,
                                   uint32_t n_positions,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void rope_table_deinit(struct rope_table *table);

/* Makes sure that rows [0, n) are there; n <= n_positions. Allocates nothing. */
void rope_table_fill(struct rope_table *table, uint32_t n);

#endif
