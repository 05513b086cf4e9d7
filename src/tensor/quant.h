/* quant.h - the block formats of GGUF, one function each, for dtype.c's table only.
 *
 * Every function turns n_blocks whole blocks at src (no alignment needed) into floats at dst, with
 * the operations of ggml's reference code in its order, so that each value has the same bits. d, m
 * and dmin are f16, little-endian. Threads: any. */
#ifndef TENSOR_QUANT_H
#define TENSOR_QUANT_H

#include "dtype.h"

void quant_q4_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks); /* quant_q4.c */
void quant_q4_1_to_f32(const uint8_t *src, float *dst, size_t n_blocks);
void quant_q5_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks); /* quant_q5.c */
void quant_q5_1_to_f32(const uint8_t *src, float *dst, size_t n_blocks);
void quant_q8_0_to_f32(const uint8_t *src, float *dst, size_t n_blocks); /* quant_q8.c */
void quant_q2_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks); /* quant_q2_k.c ... */
void quant_q3_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks);
void quant_q4_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks); /* quant_q4_k.c */
void quant_q5_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks);
void quant_q6_k_to_f32(const uint8_t *src, float *dst, size_t n_blocks);

static inline uint16_t quant_load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t quant_load_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline float quant_load_f16(const uint8_t *p) {
    return dtype_f16_to_f32(quant_load_u16(p));
}

#endif
