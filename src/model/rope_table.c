/* rope_table.c - rotary position embedding as a table.
 *
 * RoPE turns pair i of a head by the angle position * inv_freq[i]. Models differ only in inv_freq
 * (and in a factor on cos and sin), so whoever has a table of cos and sin needs one kernel for all
 * of them: default, linear, llama3, yarn and longrope scaling, partial rotation, both pairings.
 *
 * Why not in the kernel: float angles are wrong by 0.008 at position 131,071 (a float holds 24
 * bits, the angle needs 17 of them before the point), and every backend's sin differs. In double on
 * the host the angle is good to 1e-11, and all devices see the same numbers. Rows are made when a
 * position is first served: at most 512 sincos a row, once per position of the model's life, far
 * below the cost of the token that asks. The price is n_positions * rotary_dim floats of reserved
 * memory (64 MB for 131,072 x 128), touched only as far as it is filled.
 *
 * The formulas are those of transformers' modeling_rope_utils, in double where it uses float32. */
#include "rope_table.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 64 };

#define PI 3.14159265358979323846

static double clamp(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* llama3: long waves are slowed by factor, short ones left alone, those between are mixed. */
static double scale_llama3(const struct rope_config *rope, double inv_freq) {
    double wavelength = 2 * PI / inv_freq;
    double turns = (double)rope->context_original / wavelength;
    if (turns < rope->low_freq_factor) return inv_freq / rope->factor;
    if (turns > rope->high_freq_factor) return inv_freq;
    double smooth =
        (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * inv_freq / rope->factor + smooth * inv_freq;
}

/* yarn: the pair index at which a wave makes `turns` turns within the original context. */
static double yarn_pair(const struct rope_config *rope, uint32_t rotary_dim, double turns) {
    return rotary_dim * log((double)rope->context_original / (turns * 2 * PI)) /
           (2 * log(rope->theta));
}

static void scale_yarn(const struct rope_config *rope, uint32_t rotary_dim, double *inv_freq) {
    double low = yarn_pair(rope, rotary_dim, rope->beta_fast);
    double high = yarn_pair(rope, rotary_dim, rope->beta_slow);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < rotary_dim - 1 ? high : rotary_dim - 1;
    if (low == high) high += 0.001; /* as transformers, against a division by zero */
    for (uint32_t i = 0; i < rotary_dim / 2; i++) {
        double interpolated = clamp((i - low) / (high - low), 0, 1);
        inv_freq[i] = inv_freq[i] / rope->factor * interpolated + inv_freq[i] * (1 - interpolated);
    }
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double find_attention_factor(const struct rope_config *rope) {
    if (rope->kind != ROPE_YARN && rope->kind != ROPE_LONGROPE) return 1;
    if (rope->attention_factor > 0) return rope->attention_factor;
    if (rope->kind == ROPE_LONGROPE) {
        if (rope->factor <= 1 || rope->context_original < 2) return 1;
        return sqrt(1 + log(rope->factor) / log(rope->context_original));
    }
    if (rope->mscale > 0 && rope->mscale_all_dim > 0)
        return yarn_mscale(rope->factor, rope->mscale) /
               yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1);
}

void rope_frequencies(const struct rope_config *rope, uint32_t rotary_dim, uint32_t context_tokens,
                      double *inv_freq_out, double *attention_factor_out) {
    uint32_t n_pairs = rotary_dim / 2;
    RADISH_ASSERT(n_pairs <= ROPE_PAIRS_MAX);
    for (uint32_t i = 0; i < n_pairs; i++)
        inv_freq_out[i] = pow(rope->theta, -2.0 * i / rotary_dim);

    if (rope->kind == ROPE_LINEAR)
        for (uint32_t i = 0; i < n_pairs; i++) inv_freq_out[i] /= rope->factor;
    if (rope->kind == ROPE_LLAMA3)
        for (uint32_t i = 0; i < n_pairs; i++)
            inv_freq_out[i] = scale_llama3(rope, inv_freq_out[i]);
    if (rope->kind == ROPE_YARN) scale_yarn(rope, rotary_dim, inv_freq_out);

    bool is_long = rope->kind == ROPE_LONGROPE && context_tokens > rope->context_original;
    const double *factors = is_long ? rope->freq_factors_long : rope->freq_factors;
    for (uint32_t i = 0; i < rope->n_freq_factors && i < n_pairs; i++)
        inv_freq_out[i] /= factors[i];
    *attention_factor_out = find_attention_factor(rope);
}

uint64_t rope_table_bytes(uint32_t rotary_dim, uint32_t n_positions) {
    uint64_t n, bytes;
    if (!mem_mul_u64(rotary_dim, (uint64_t)n_positions + BLOCK_ROWS, &n)) return UINT64_MAX;
    return mem_mul_u64(n, sizeof(float), &bytes) ? bytes : UINT64_MAX;
}

enum radish_status rope_table_init(struct rope_table *table, struct device *device,
                                   const struct rope_config *rope, uint32_t rotary_dim,
                                   uint32_t n_positions, struct radish_error *err) {
    memset(table, 0, sizeof *table);
    size_t row_bytes = rotary_dim * sizeof(float), bytes;
    if (!mem_mul(row_bytes, n_positions, &bytes)) return error_nomem(err);
    float *block = mem_alloc(BLOCK_ROWS, row_bytes);
    if (!block) return error_nomem(err);
    void *address = NULL;
    enum radish_status status = device->ops->mem_alloc(device, bytes, &address, err);
    if (status != RADISH_OK) {
        free(block);
        return status;
    }
    table->device = device;
    table->address = address;
    table->block = block;
    table->n_positions = n_positions;
    table->rotary_dim = rotary_dim;
    rope_frequencies(rope, rotary_dim, n_positions, table->inv_freq, &table->attention_factor);
    return RADISH_OK;
}

void rope_table_deinit(struct rope_table *table) {
    if (!table || !table->device) return;
    size_t bytes = (size_t)table->n_positions * table->rotary_dim * sizeof(float);
    table->device->ops->mem_free(table->device, table->address, bytes);
    free(table->block);
    memset(table, 0, sizeof *table);
}

static void make_row(const struct rope_table *table, uint32_t position, float *row) {
    uint32_t n_pairs = table->rotary_dim / 2;
    for (uint32_t i = 0; i < n_pairs; i++) {
        double angle = position * table->inv_freq[i];
        row[i] = (float)(cos(angle) * table->attention_factor);
        row[n_pairs + i] = (float)(sin(angle) * table->attention_factor);
    }
}

void rope_table_fill(struct rope_table *table, uint32_t n) {
    RADISH_INVARIANT(n <= table->n_positions, "position %u, context %u", n, table->n_positions);
    size_t row_elems = table->rotary_dim;
    while (table->n_filled < n) {
        uint32_t first = table->n_filled, rows = n - first;
        if (rows > BLOCK_ROWS) rows = BLOCK_ROWS;
        for (uint32_t i = 0; i < rows; i++)
            make_row(table, first + i, table->block + i * row_elems);
        table->device->ops->upload(table->device, table->address + first * row_elems, table->block,
                                   rows * row_elems * sizeof(float));
        table->n_filled = first + rows;
    }
}
