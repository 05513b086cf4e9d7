/* avx2_vec.h - what a vector is to the texts that serve every width (lanes_rows.h,
 * lanes_attention.h), on 8 lanes.
 *
 * Included by avx2_*.c only. */
#ifndef KERNEL_CPU_AVX2_VEC_H
#define KERNEL_CPU_AVX2_VEC_H

#include "avx2_exp.h"
#include "tile_loops.h"

#include <immintrin.h>

enum { LANES = 8 };
typedef __m256 vec;

#define vec_set1  _mm256_set1_ps
#define vec_load  _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_add   _mm256_add_ps
#define vec_sub   _mm256_sub_ps
#define vec_mul   _mm256_mul_ps
#define vec_div   _mm256_div_ps
#define vec_fma   _mm256_fmadd_ps
#define vec_max   _mm256_max_ps
#define vec_exp   avx2_exp
#define vec_tanh  avx2_tanh

#endif
