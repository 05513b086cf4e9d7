/* avx512_prepare.c - rows as matrix products read them, on 16 lanes: int8 blocks and bf16; the bits
 * of ref_prepare.c.
 *
 * A block of 32 activations is two vectors. The largest magnitude is found lane by lane, then in
 * halves; the numbers are rounded to integers as in plain C, by adding 1.5 * 2^23, of whose bits
 * VPMOVDB takes the low bytes. The sum of the integers comes from VPSADBW over bytes made unsigned.
 * A number that is not one passes through with the same bytes as in plain C, since it is left out
 * of the maximum in the same way: VMAXPS gives its second operand then. */
#include "cpu_activations.h"
#include "x86_bytes.h"

INLINE float find_max(__m512 low, __m512 high) {
    const __m512 zero = _mm512_setzero_ps();
    const __m512 amax = _mm512_max_ps(_mm512_abs_ps(high), _mm512_max_ps(_mm512_abs_ps(low), zero));
    return _mm512_reduce_max_ps(amax);
}

INLINE __m128i round_half(__m512 x, __m512 inverse) {
    const __m512 magic = _mm512_set1_ps(ACT_MAGIC);
    const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(x, inverse), magic);
    return _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted));
}

void i8_prepare__avx512(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_blocks = rows->w->n_in / ACT_BLOCK;
    struct act_block *block = rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++, block++, x += ACT_BLOCK) {
        const __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        const float amax = act_amax(find_max(low, high));
        const __m512 inverse = _mm512_set1_ps(act_inverse(amax));
        const __m128i q_low = round_half(low, inverse), q_high = round_half(high, inverse);
        const __m256i q = _mm256_set_m128i(q_high, q_low);
        int32_t sums[2];
        x86_sum_bytes(q, sums);
        _mm256_storeu_si256((__m256i *)(void *)block->q, q);
        act_finish_block(rows->w, amax, sums, block);
    }
}

INLINE __m512i round_bits(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i raised = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_srli_epi32(_mm512_mask_mov_epi32(raised, is_nan, quiet), 16);
}

void bf16_prepare__avx512(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_in = rows->w->n_in, width = rows->width; /* a multiple of 32 */
    float *rounded = rows->rounded + (size_t)row * width;
    uint16_t *halves = rows->halves + (size_t)row * width;
    for (uint32_t k = 0; k < width; k += 16) {
        const uint32_t left = n_in > k ? n_in - k : 0;
        const __mmask16 mask = left < 16 ? (__mmask16)((1u << left) - 1) : (__mmask16)0xffff;
        const __m512i half = round_bits(_mm512_maskz_loadu_ps(mask, x + k));
        _mm512_storeu_si512(rounded + k, _mm512_slli_epi32(half, 16));
        _mm256_storeu_si256((__m256i *)(void *)(halves + k), _mm512_cvtepi32_epi16(half));
    }
}
