/* x86_bytes.h - sums of bytes, for the rows of AVX2 and wider that quantise.
 *
 * VPSADBW adds unsigned bytes: they are raised by 128 first, which is taken off the sums. */
#ifndef KERNEL_CPU_X86_BYTES_H
#define KERNEL_CPU_X86_BYTES_H

#include "cpu_kernel.h"
#include "tile_loops.h"

#include <immintrin.h>

/* Sums of both halves of 32 bytes. */
INLINE void x86_sum_bytes(__m256i q, int32_t sums[2]) {
    const __m256i raised = _mm256_xor_si256(q, _mm256_set1_epi8((char)-128));
    const __m256i quarters = _mm256_sad_epu8(raised, _mm256_setzero_si256());
    const __m128i low = _mm256_castsi256_si128(quarters);
    const __m128i high = _mm256_extracti128_si256(quarters, 1);
    const int32_t raised_by = 128 * ACT_BLOCK / 2;
    sums[0] = _mm_cvtsi128_si32(_mm_add_epi64(low, _mm_unpackhi_epi64(low, low))) - raised_by;
    sums[1] = _mm_cvtsi128_si32(_mm_add_epi64(high, _mm_unpackhi_epi64(high, high))) - raised_by;
}

#endif
