/* avx512_rope.c - rope_kv_store on 16 lanes: the algorithm is in lanes_rope.h, this file says what
 * a vector is and how it is rounded to the pool's dtype.
 *
 * As avx2_rope.c; tails are masked, which costs nothing here. VCVTNEPS2BF16 is not used where there
 * is one: it takes denormals for zeros, dtype_f32_to_bf16() does not. Two vectors of halves are
 * stored as one, a whole line: as two stores f16 took up to 1.29 times as long. */
#include "avx512_exp.h"
#include "cpu_kernel.h"
#include "tile_loops.h"

enum { LANES = 16 };
typedef __m512 vec;

#define vec_load  _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_mul   _mm512_mul_ps
#define vec_add   _mm512_add_ps
#define vec_sub   _mm512_sub_ps

INLINE vec vec_load_n(const float *p, uint32_t n) {
    return _mm512_maskz_loadu_ps(avx512_mask(n), p);
}

INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    _mm512_mask_storeu_ps(p, avx512_mask(n), x);
}

INLINE vec vec_swap(vec x) {
    return _mm512_permute_ps(x, 0xb1);
}

/* bf16 in the high half of each lane. */
INLINE __m512i round_bf16(vec x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(_mm512_add_epi32(bits, half), is_nan, bits,
                                _mm512_set1_epi32(0x400000));
}

INLINE __m256i to_half(vec x, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F16) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_bf16(x), 16));
}

/* Both in order, 64 bytes. */
INLINE __m512i to_halves(vec x, vec y, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F16)
        return _mm512_inserti64x4(_mm512_castsi256_si512(to_half(x, dtype)), to_half(y, dtype), 1);
    const __m512i odd = /* halves of both vectors */
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(round_bf16(x), odd, round_bf16(y));
}

INLINE void store_one(void *pool, size_t at, enum dtype dtype, vec x) {
    if (dtype == RADISH_DTYPE_F32)
        _mm512_storeu_ps((float *)pool + at, x);
    else
        _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)pool + at), to_half(x, dtype));
}

INLINE void store_two(void *pool, size_t at, enum dtype dtype, vec x, vec y) {
    if (dtype == RADISH_DTYPE_F32) {
        store_one(pool, at, dtype, x);
        store_one(pool, at + LANES, dtype, y);
    } else {
        _mm512_storeu_si512((uint16_t *)pool + at, to_halves(x, y, dtype));
    }
}

INLINE void store_n(void *pool, size_t at, enum dtype dtype, vec x, uint32_t n) {
    if (dtype == RADISH_DTYPE_F32)
        vec_store_n((float *)pool + at, n, x);
    else
        _mm256_mask_storeu_epi16((uint16_t *)pool + at, avx512_mask(n), to_half(x, dtype));
}

#include "lanes_rope.h"

void kv_f32_rope_kv_store__avx512(const struct rope_kv_store_args *a, uint32_t first,
                                  uint32_t end) {
    find_body(a)(a, first, end);
}

/* The same loops, called for one thing at a time (cpu_rope.c). */
void kv_f32_rope_kv_store__avx512_unfused(const struct rope_kv_store_args *a, uint32_t first,
                                          uint32_t end) {
    find_body(a)(a, first, end);
}
