/* avx2_prepare.c - rows as matrix products read them, on 8 lanes: int8 blocks and bf16; the bits of
 * ref_prepare.c.
 *
 * As avx512_prepare.c with four vectors a block. The low bytes of the rounded numbers are made
 * signed again by shifts, so that two saturating packs lose nothing; the packs work within 128-bit
 * lanes, and one permutation at the end puts the groups of four into their order. */
#include "cpu_activations.h"
#include "x86_bytes.h"

enum { VECTORS = ACT_BLOCK / 8 };

INLINE float find_max(const __m256 x[VECTORS]) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 amax = _mm256_setzero_ps();
    /* The second operand is the result where the first one is no number. */
    for (int i = 0; i < VECTORS; i++) amax = _mm256_max_ps(_mm256_andnot_ps(sign, x[i]), amax);
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(amax), _mm256_extractf128_ps(amax, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

INLINE __m256i round_to_int(__m256 x, __m256 inverse) {
    const __m256 shifted = _mm256_add_ps(_mm256_mul_ps(x, inverse), _mm256_set1_ps(INT_BASE));
    return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 24), 24);
}

void i8_prepare__avx2(const struct act_rows *rows, uint32_t row, const float *x) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const uint32_t n_blocks = rows->w->n_in / ACT_BLOCK;
    const bool is_tiled = row < rows->n_tiled;
    struct act_tile *tile = is_tiled ? act_find_tile(rows, row) : NULL;
    struct act_block local, *block = is_tiled ? &local : rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++, x += ACT_BLOCK) {
        __m256 v[VECTORS];
        __m256i q[VECTORS];
        for (int i = 0; i < VECTORS; i++) v[i] = _mm256_loadu_ps(x + 8 * i);
        const float amax = act_amax(find_max(v));
        const __m256 inverse = _mm256_set1_ps(act_inverse(amax));
        for (int i = 0; i < VECTORS; i++) q[i] = round_to_int(v[i], inverse);
        const __m256i packed = _mm256_permutevar8x32_epi32(
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
            order);
        int32_t sums[2];
        x86_sum_bytes(packed, sums);
        _mm256_storeu_si256((__m256i *)(void *)block->q, packed);
        act_finish_block(rows->w, amax, sums, block);
        if (is_tiled)
            act_put_block(block, row, tile++);
        else
            block++;
    }
}

/* Eight floats as bf16 in the low halves. */
INLINE __m256i round_bits(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i raised = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(raised, quiet, is_nan), 16);
}

void bf16_prepare__avx2(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_in = rows->w->n_in, width = rows->width; /* a multiple of 32 */
    float *rounded = rows->rounded + (size_t)row * width;
    uint16_t *halves = rows->halves + (size_t)row * width;
    uint32_t k = 0;
    for (; n_in - k >= 16; k += 16) {
        const __m256i low = round_bits(_mm256_loadu_ps(x + k));
        const __m256i high = round_bits(_mm256_loadu_ps(x + k + 8));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(rounded + k), _mm256_slli_epi32(low, 16));
        _mm256_storeu_si256((__m256i *)(void *)(rounded + k + 8), _mm256_slli_epi32(high, 16));
        _mm256_storeu_si256((__m256i *)(void *)(halves + k), packed);
    }
    for (; k < width; k++) act_round(k < n_in ? x[k] : 0.0f, &rounded[k], &halves[k]);
}
