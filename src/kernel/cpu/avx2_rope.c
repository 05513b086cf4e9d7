/* avx2_rope.c - rope_kv_store on 8 lanes: the algorithm is in lanes_rope.h, this file says what a
 * vector is and how it is rounded to the pool's dtype.
 *
 * f16 by VCVTPS2PH, whose result is dtype_f32_to_f16() for every float. bf16 by integers, as
 * dtype_f32_to_bf16(): add half of the last place, and one more where that place is odd; NaNs are
 * so rare that one test for two vectors decides whether they get their own treatment. */
#include "avx2_exp.h"
#include "cpu_kernel.h"
#include "tile_loops.h"

#include <string.h>

enum { LANES = 8 };
typedef __m256 vec;

#define vec_load  _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_mul   _mm256_mul_ps
#define vec_add   _mm256_add_ps
#define vec_sub   _mm256_sub_ps

INLINE vec vec_load_n(const float *p, uint32_t n) {
    return _mm256_maskload_ps(p, avx2_mask(n));
}

INLINE void vec_store_n(float *p, uint32_t n, vec x) {
    _mm256_maskstore_ps(p, avx2_mask(n), x);
}

INLINE vec vec_swap(vec x) {
    return _mm256_permute_ps(x, 0xb1);
}

/* bf16 in the low half of each lane. */
INLINE __m256i round_bf16(vec x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
}

INLINE __m256i keep_nan(vec x, __m256i rounded) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
}

/* x and y as 16 halves of bf16. */
INLINE __m256i to_bf16(vec x, vec y) {
    __m256i low = round_bf16(x), high = round_bf16(y);
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_UNORD_Q)), 0)) {
        low = keep_nan(x, low);
        high = keep_nan(y, high);
    }
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}

INLINE __m128i to_half(vec x, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_F16) return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_castsi256_si128(to_bf16(x, x));
}

/* Both in order, 32 bytes. */
INLINE __m256i to_halves(vec x, vec y, enum dtype dtype) {
    if (dtype == RADISH_DTYPE_BF16) return to_bf16(x, y);
    return _mm256_setr_m128i(to_half(x, dtype), to_half(y, dtype));
}

INLINE void store_one(void *pool, size_t at, enum dtype dtype, vec x) {
    if (dtype == RADISH_DTYPE_F32)
        _mm256_storeu_ps((float *)pool + at, x);
    else
        _mm_storeu_si128((__m128i *)(void *)((uint16_t *)pool + at), to_half(x, dtype));
}

INLINE void store_two(void *pool, size_t at, enum dtype dtype, vec x, vec y) {
    if (dtype == RADISH_DTYPE_F32) {
        store_one(pool, at, dtype, x);
        store_one(pool, at + LANES, dtype, y);
    } else {
        _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)pool + at), to_halves(x, y, dtype));
    }
}

INLINE void store_n(void *pool, size_t at, enum dtype dtype, vec x, uint32_t n) {
    if (dtype == RADISH_DTYPE_F32) {
        vec_store_n((float *)pool + at, n, x);
        return;
    }
    uint16_t halves[LANES];
    _mm_storeu_si128((__m128i *)(void *)halves, to_half(x, dtype));
    memcpy((uint16_t *)pool + at, halves, n * sizeof *halves);
}

#include "lanes_rope.h"

void kv_f32_rope_kv_store__avx2(const struct rope_kv_store_args *a, uint32_t first, uint32_t end) {
    find_body(a)(a, first, end);
}

/* The same loops, called for one thing at a time (cpu_rope.c). */
void kv_f32_rope_kv_store__avx2_unfused(const struct rope_kv_store_args *a, uint32_t first,
                                        uint32_t end) {
    find_body(a)(a, first, end);
}
