/* quant_panel.h - how the quantised types lie in panels: the one table that says it, and what
 * follows from it. Kernels are made for each type with its row of the table as constants.
 *
 * A panel is PANEL_ROWS rows, chunk after chunk of their inputs: 64, or 256 where a block of the
 * file has scales in two levels; in Q8_0 32, with which one token was a tenth faster on a Zen 3. A
 * chunk:
 *
 *   supers   not with HALVES: f16 [16] d, and for types with a minimum f16 [16] m
 *   scales   [chunk / block], HALVES   f16 [16] d, likewise f16 [16] m
 *                             BYTES    i8 [16] sc, likewise i8 [16] mn
 *                             NIBBLES  u8 [16] sc in the low half, mn in the high one
 *   nothing  up to whole cache lines, where that is less than a hundredth of the chunk
 *   units    [chunk / 32], each 32 inputs: their first plane, then their second
 *
 *   weight = d * sc * (quant - offset) + m * mn      sc = mn = 1 for HALVES
 *
 * d * sc and m * mn are exact in f32 (11 and 7 bits), so the scale is the file's own. A quant is
 * cut into the bits of its planes, the low ones in the first. Planes are made of vectors u8
 * [16][4]: four inputs of each row. Group g is inputs 4g .. 4g + 3 of a unit; where they are in a
 * vector:
 *
 *   8 bits   all of vector g
 *   4 bits   vector g % 4, from bit 4 * (g / 4) on
 *   2 bits   vector g / 4, from bit 2 * (g % 4) on
 *   1 bit    the only vector, bit g
 *
 * So a group of 16 rows is one load, one shift and one mask of each plane, in vectors of any width:
 * half and quarter vectors hold 8 and 4 rows.
 *
 * Why chunks: scales far from their quants (behind all of a panel's, say) would be a stream of
 * their own for a product that waits for memory; between the quants, block by block, they would
 * push every second vector across a cache line. They come first because they are read first: one
 * token reads a chunk from its beginning to its end. */
#ifndef KERNEL_CPU_QUANT_PANEL_H
#define KERNEL_CPU_QUANT_PANEL_H

#include "tensor/dtype.h"

#include <string.h>

#define PANEL_ROWS    16 /* output rows of a panel: the lanes of the matmul kernels */
#define ACT_BLOCK     32 /* inputs that share a scale when activations are int8: those of a unit */
#define ACT_TILE_ROWS 16 /* tokens whose activations lie side by side for matrix units */
#define VECTOR_BYTES  (4 * PANEL_ROWS)
#define OPEN_UNITS    8 /* of an opened chunk: it stays in the first-level cache */
#define OPEN_BYTES    (OPEN_UNITS * (8 * VECTOR_BYTES + 4 * VECTOR_BYTES)) /* the largest */

enum scale_form { SCALES_HALVES, SCALES_BYTES, SCALES_NIBBLES, SCALES_FLOATS };

struct quant_form {
    uint32_t block;               /* inputs that share a scale: 32 or 16 */
    uint32_t bits;                /* of a quant, offset included */
    uint32_t low_bits, high_bits; /* in its planes: 8, 4 or 2; 0 to 2 */
    uint32_t offset;              /* what was added to the quants to make them unsigned */
    bool has_min;                 /* has minimums, and no offset */
    enum scale_form scales;
};

/* X(type, block, bits, low bits, high bits, offset, minimum, scales); in a file, with the
 * scales: 4.5, 5, 5.5, 6, 8.5, 2.625, 3.4375, 4.5, 5.5, 6.5625 bits a weight; here: 4.5, 5, 5.5,
 * 6, 8.5, 2.625, 3.5625, 4.625, 5.625, 6.625. */
#define QUANT_FORMS(X)                                                                             \
    X(Q4_0, 32, 4, 4, 0, 8, false, SCALES_HALVES)                                                  \
    X(Q4_1, 32, 4, 4, 0, 0, true, SCALES_HALVES)                                                   \
    X(Q5_0, 32, 5, 4, 1, 16, false, SCALES_HALVES)                                                 \
    X(Q5_1, 32, 5, 4, 1, 0, true, SCALES_HALVES)                                                   \
    X(Q8_0, 32, 8, 8, 0, 128, false, SCALES_HALVES)                                                \
    X(Q2_K, 16, 2, 2, 0, 0, true, SCALES_NIBBLES)                                                  \
    X(Q3_K, 16, 3, 2, 1, 4, false, SCALES_BYTES)                                                   \
    X(Q4_K, 32, 4, 4, 0, 0, true, SCALES_BYTES)                                                    \
    X(Q5_K, 32, 5, 4, 1, 0, true, SCALES_BYTES)                                                    \
    X(Q6_K, 16, 6, 4, 2, 32, false, SCALES_BYTES)

/* The row of a type; NULL: it is not quantised. */
static inline const struct quant_form *quant_form_find(enum dtype dtype) {
#define X(name, ...) [RADISH_DTYPE_##name] = {__VA_ARGS__},
    static const struct quant_form forms[RADISH_DTYPE_COUNT] = {QUANT_FORMS(X)};
#undef X
    return (unsigned)dtype < RADISH_DTYPE_COUNT && forms[dtype].block ? &forms[dtype] : NULL;
}

/* Largest quant, offset included. */
static inline uint32_t quant_max(const struct quant_form form) {
    return (1u << form.bits) - 1;
}

/* What a kernel makes of some inputs of a panel where many tokens want them: one chunk in which
 * quants are whole bytes and scales are f32, in the place of HALVES. */
static inline struct quant_form quant_opened(struct quant_form form) {
    form.low_bits = 8;
    form.high_bits = 0;
    form.scales = SCALES_FLOATS;
    return form;
}

/* ---- sizes and places, in bytes ---- */

static inline uint32_t quant_chunk_units(const struct quant_form form) {
    if (form.scales == SCALES_FLOATS) return OPEN_UNITS;
    return form.scales != SCALES_HALVES ? 8 : form.low_bits == 8 ? 1 : 2;
}

/* Inputs of a chunk. */
static inline uint32_t quant_chunk(const struct quant_form form) {
    return quant_chunk_units(form) * ACT_BLOCK;
}

static inline uint32_t quant_unit_bytes(const struct quant_form form) {
    return VECTOR_BYTES * (form.low_bits + form.high_bits);
}

/* The scales of a unit. */
static inline uint32_t quant_unit_scale_bytes(const struct quant_form form) {
    const uint32_t numbers = PANEL_ROWS * (ACT_BLOCK / form.block) * (form.has_min ? 2 : 1);
    if (form.scales == SCALES_NIBBLES) return numbers / 2;
    if (form.scales == SCALES_FLOATS) return 4 * numbers;
    return form.scales == SCALES_HALVES ? 2 * numbers : numbers;
}

static inline uint32_t quant_scales_at(const struct quant_form form) {
    const bool has_supers = form.scales == SCALES_BYTES || form.scales == SCALES_NIBBLES;
    return !has_supers ? 0 : PANEL_ROWS * 2 * (form.has_min ? 2 : 1);
}

static inline uint32_t quant_units_at(const struct quant_form form) {
    const uint32_t at =
        quant_scales_at(form) + quant_chunk_units(form) * quant_unit_scale_bytes(form);
    const uint32_t whole = (at + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES;
    const uint32_t quants = quant_chunk_units(form) * quant_unit_bytes(form);
    return (whole - at) * 100 < at + quants ? whole : at;
}

static inline uint32_t quant_chunk_bytes(const struct quant_form form) {
    return quant_units_at(form) + quant_chunk_units(form) * quant_unit_bytes(form);
}

/* ---- groups: which vector of a plane, and from which bit on ---- */

static inline uint32_t quant_low_vector(const struct quant_form form, uint32_t group) {
    return form.low_bits == 8 ? group : form.low_bits == 4 ? group % 4 : group / 4;
}

static inline uint32_t quant_low_shift(const struct quant_form form, uint32_t group) {
    return form.low_bits == 8 ? 0 : form.low_bits == 4 ? group / 4 * 4 : group % 4 * 2;
}

/* Counted from the unit's first vector. */
static inline uint32_t quant_high_vector(const struct quant_form form, uint32_t group) {
    return form.low_bits + (form.high_bits == 2 ? group / 4 : 0);
}

static inline uint32_t quant_high_shift(const struct quant_form form, uint32_t group) {
    return form.high_bits == 2 ? group % 4 * 2 : group;
}

/* ---- blocks: what is read of a scale block of a panel ---- */

struct quant_block {
    const uint8_t *unit;   /* of its quants */
    const uint8_t *scales; /* its own */
    const uint8_t *supers; /* of its chunk */
};

/* Block `part` of unit `unit` of a chunk. */
static inline struct quant_block quant_find_block(const struct quant_form form,
                                                  const uint8_t *chunk, size_t unit,
                                                  uint32_t part) {
    const uint32_t scale_bytes = quant_unit_scale_bytes(form);
    return (struct quant_block){.unit =
                                    chunk + quant_units_at(form) + unit * quant_unit_bytes(form),
                                .scales = chunk + quant_scales_at(form) + unit * scale_bytes +
                                          part * (scale_bytes * form.block / ACT_BLOCK),
                                .supers = chunk};
}

/* ---- one row at a time ---- */

/* The quants of a group as the bytes of a number, offset included; row: the unit's, at 4 * row. */
static inline uint32_t quant_get_group(const struct quant_form form, const uint8_t *row,
                                       uint32_t group) {
    const uint32_t ones = 0x01010101;
    uint32_t low, high;
    memcpy(&low, row + quant_low_vector(form, group) * VECTOR_BYTES, sizeof low);
    low = low >> quant_low_shift(form, group) & ones * ((1u << form.low_bits) - 1);
    if (!form.high_bits) return low;
    memcpy(&high, row + quant_high_vector(form, group) * VECTOR_BYTES, sizeof high);
    high = high >> quant_high_shift(form, group) & ones * ((1u << form.high_bits) - 1);
    return low | high << form.low_bits;
}

/* Writes them over zeros. */
static inline void quant_put_group(const struct quant_form form, uint8_t *row, uint32_t group,
                                   uint32_t quants) {
    const uint32_t ones = 0x01010101;
    uint8_t *at = row + quant_low_vector(form, group) * VECTOR_BYTES;
    uint32_t low, high;
    memcpy(&low, at, sizeof low);
    low |= (quants & ones * ((1u << form.low_bits) - 1)) << quant_low_shift(form, group);
    memcpy(at, &low, sizeof low);
    if (!form.high_bits) return;
    at = row + quant_high_vector(form, group) * VECTOR_BYTES;
    memcpy(&high, at, sizeof high);
    quants = quants >> form.low_bits & ones * ((1u << form.high_bits) - 1);
    high |= quants << quant_high_shift(form, group);
    memcpy(at, &high, sizeof high);
}

/* Scale (which = 0) or minimum (which = 1) of block `block` of a chunk's row. */
static inline float quant_get_scale(const struct quant_form form, const uint8_t *chunk,
                                    uint32_t row, uint32_t block, uint32_t which) {
    const uint8_t *scales = chunk + quant_scales_at(form) +
                            block * (quant_unit_scale_bytes(form) * form.block / ACT_BLOCK);
    const uint16_t *supers = (const void *)chunk;
    const uint32_t i = which * PANEL_ROWS + row;
    if (form.scales == SCALES_HALVES)
        return dtype_f16_to_f32(((const uint16_t *)(const void *)scales)[i]);
    const float super = dtype_f16_to_f32(supers[i]);
    if (form.scales == SCALES_BYTES) return super * (float)(int8_t)scales[i];
    return super * (float)(which ? scales[row] >> 4 : scales[row] & 15);
}

/* Writes both of a row: two levels, of which the one a type lacks is not looked at. */
static inline void quant_put_scale(const struct quant_form form, uint8_t *chunk, uint32_t row,
                                   uint32_t block, const uint16_t supers[2],
                                   const int8_t scales[2]) {
    uint8_t *dst = chunk + quant_scales_at(form) +
                   block * (quant_unit_scale_bytes(form) * form.block / ACT_BLOCK);
    uint16_t *halves = (void *)(form.scales == SCALES_HALVES ? dst : chunk);
    for (uint32_t which = 0; which < (form.has_min ? 2 : 1); which++) {
        halves[which * PANEL_ROWS + row] = supers[which];
        if (form.scales == SCALES_BYTES) dst[which * PANEL_ROWS + row] = (uint8_t)scales[which];
    }
    if (form.scales == SCALES_NIBBLES) dst[row] = (uint8_t)(scales[0] | scales[1] << 4);
}

#endif
