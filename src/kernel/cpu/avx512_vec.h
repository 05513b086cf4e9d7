/* avx512_vec.h - what a vector is to the texts that serve every width (lanes_rows.h,
 * lanes_attention.h), on 16 lanes.
 *
 * Included by avx512_*.c only. */
#ifndef KERNEL_CPU_AVX512_VEC_H
#define KERNEL_CPU_AVX512_VEC_H

#include "avx512_exp.h"
#include "tile_loops.h"

#include <immintrin.h>

enum { LANES = 16 };
typedef __m512 vec;

#define vec_set1  _mm512_set1_ps
#define vec_load  _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_add   _mm512_add_ps
#define vec_sub   _mm512_sub_ps
#define vec_mul   _mm512_mul_ps
#define vec_div   _mm512_div_ps
#define vec_fma   _mm512_fmadd_ps
#define vec_max   _mm512_max_ps
#define vec_exp   avx512_exp
#define vec_tanh  avx512_tanh

#endif
