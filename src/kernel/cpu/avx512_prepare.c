/* avx512_prepare.c - rows as matrix products read them, on 16 lanes: int8 blocks and bf16; the bits
 * of ref_prepare.c.
 *
 * A block of 32 activations is two vectors. The numbers are rounded to integers as in plain C, by
 * adding 1.5 * 2^23, of whose bits VPMOVDB takes the low bytes. What there is one of per block, the
 * largest magnitude, two divisions, sums of the integers (VPSADBW over bytes made unsigned), is
 * found for four blocks side by side in a short vector: one by one these took two thirds of the
 * time. Magnitudes, divisions and rounding are passes of their own over up to 2,048 inputs: in one,
 * a block is a chain of some hundred cycles, of which the processor holds one and a half. A number
 * that is not one passes through with the same bytes as in plain C, since it is left out of the
 * maximum in the same way: VMAXPS gives its second operand then. */
#include "cpu_activations.h"
#include "x86_bytes.h"

enum { SIDE_BY_SIDE = 4, AT_ONCE = 64 };

INLINE __m512 find_magnitudes(const float *x) {
    const __m512 low = _mm512_abs_ps(_mm512_loadu_ps(x));
    const __m512 high = _mm512_abs_ps(_mm512_loadu_ps(x + 16));
    return _mm512_max_ps(high, _mm512_max_ps(low, _mm512_setzero_ps()));
}

INLINE __m128i round_half(const float *x, __m512 inverse) {
    const __m512 magic = _mm512_set1_ps(INT_BASE);
    const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(x), inverse), magic);
    return _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted));
}

INLINE __m256i round_block(const float *x, float inverse) {
    const __m512 factor = _mm512_set1_ps(inverse);
    return _mm256_set_m128i(round_half(x + 16, factor), round_half(x, factor));
}

static void prepare_block(const struct weight *w, const float *x, struct act_block *block) {
    const float amax = act_amax(_mm512_reduce_max_ps(find_magnitudes(x)));
    const __m256i q = round_block(x, act_inverse(amax));
    int32_t sums[2];
    x86_sum_bytes(q, sums);
    _mm256_storeu_si256((__m256i *)(void *)block->q, q);
    act_finish_block(w, amax, sums, block);
}

/* The larger halves of a vector. */
INLINE __m256 halve(__m512 m) {
    const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(m), 1));
    return _mm256_max_ps(_mm512_castps512_ps256(m), high);
}

/* The largest of each of four vectors. */
INLINE __m128 find_four(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 ab = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_max_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 all =
        _mm256_max_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* Four blocks' sums of integers: [4] of the first halves, then [4] of the second. */
INLINE __m256i sum_four(const __m256i q[SIDE_BY_SIDE]) {
    const __m256i flip = _mm256_set1_epi8((char)-128), zero = _mm256_setzero_si256();
    __m256i quarters[SIDE_BY_SIDE], pairs[2];
    UNROLL for (int i = 0; i < SIDE_BY_SIDE; i++) {
        quarters[i] = _mm256_sad_epu8(_mm256_xor_si256(q[i], flip), zero);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        pairs[i] = _mm256_add_epi64(_mm256_unpacklo_epi64(quarters[2 * i], quarters[2 * i + 1]),
                                    _mm256_unpackhi_epi64(quarters[2 * i], quarters[2 * i + 1]));
    }
    const __m256 sums =
        _mm256_shuffle_ps(_mm256_castsi256_ps(pairs[0]), _mm256_castsi256_ps(pairs[1]), 0x88);
    return _mm256_sub_epi32(_mm256_castps_si256(sums), _mm256_set1_epi32(128 * ACT_BLOCK / 2));
}

/* act_finish_block() for four. */
INLINE void finish_four(const struct weight *w, __m128 amax, __m256i sums,
                        struct act_block *blocks) {
    const __m128i second = _mm256_extracti128_si256(sums, 1);
    const __m128i half = _mm256_castsi256_si128(sums);
    const __m128i first = w->form->block == ACT_BLOCK ? _mm_add_epi32(half, second) : half;
    const __m128i offset = _mm_set1_epi32((int32_t)w->form->offset);
    const __m128i base = _mm_set1_epi32(INT_BASE_BITS);
    const __m128 scale = _mm_div_ps(amax, _mm_set1_ps(127.0f));
    const __m128i start = _mm_sub_epi32(base, _mm_mullo_epi32(first, offset));
    const __m128i second_start = _mm_sub_epi32(base, _mm_mullo_epi32(second, offset));
    __m128 rows[SIDE_BY_SIDE] = {scale, _mm_castsi128_ps(start), _mm_castsi128_ps(second_start),
                                 _mm_mul_ps(_mm_cvtepi32_ps(first), scale)};
    float last[SIDE_BY_SIDE];
    _mm_storeu_ps(last, _mm_mul_ps(_mm_cvtepi32_ps(second), scale));
    _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
    UNROLL for (int i = 0; i < SIDE_BY_SIDE; i++) {
        memcpy(&blocks[i].scale, &rows[i], sizeof rows[i]); /* scale, both starts, a sum */
        blocks[i].sum[1] = last[i];
    }
}

/* maxima_out[4]: the largest magnitudes of four blocks. */
INLINE void measure_four(const float *x, float *maxima_out) {
    __m256 magnitudes[SIDE_BY_SIDE];
    UNROLL for (int i = 0; i < SIDE_BY_SIDE; i++) {
        magnitudes[i] = halve(find_magnitudes(x + i * ACT_BLOCK));
    }
    _mm_store_ps(maxima_out, find_four(magnitudes[0], magnitudes[1], magnitudes[2], magnitudes[3]));
}

/* act_amax() and act_inverse() for sixteen. */
INLINE void invert_sixteen(float *maxima, float *inverses_out) {
    const __m512 found = _mm512_load_ps(maxima);
    const __mmask16 is_number = _mm512_cmp_ps_mask(found, _mm512_set1_ps(ACT_NOTHING), _CMP_NLT_UQ);
    const __m512 amax = _mm512_maskz_mov_ps(is_number, found);
    _mm512_store_ps(maxima, amax);
    _mm512_store_ps(inverses_out, _mm512_maskz_div_ps(is_number, _mm512_set1_ps(127.0f), amax));
}

/* The same for blocks in tiles; at: the row of the tile. */
INLINE void finish_four_tiled(const struct weight *w, __m128 amax, __m256i sums, uint32_t at,
                              struct act_tile *tiles) {
    const __m128i all =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128 scale = _mm_div_ps(amax, _mm_set1_ps(127.0f));
    float scales[SIDE_BY_SIDE], scaled[SIDE_BY_SIDE];
    _mm_storeu_ps(scales, scale);
    _mm_storeu_ps(scaled, _mm_mul_ps(_mm_cvtepi32_ps(all), scale));
    UNROLL for (int i = 0; i < SIDE_BY_SIDE; i++) {
        tiles[i].scale[at] = scales[i];
        if (w->form->has_min) tiles[i].sum[at] = scaled[i];
    }
}

/* Where blocks of a row go: one of both, and in tiles to which row. */
struct row_place {
    struct act_block *blocks;
    struct act_tile *tiles;
    uint32_t at;
};

INLINE void round_four(const struct weight *w, const float *x, const float *maxima,
                       const float *inverses, const struct row_place *place, uint32_t b) {
    __m256i q[SIDE_BY_SIDE];
    UNROLL for (uint32_t i = 0; i < SIDE_BY_SIDE; i++) {
        int8_t *to = place->tiles ? place->tiles[b + i].q[place->at] : place->blocks[b + i].q;
        q[i] = round_block(x + i * ACT_BLOCK, inverses[i]);
        _mm256_storeu_si256((__m256i *)(void *)to, q[i]);
    }
    if (place->tiles)
        finish_four_tiled(w, _mm_load_ps(maxima), sum_four(q), place->at, place->tiles + b);
    else
        finish_four(w, _mm_load_ps(maxima), sum_four(q), place->blocks + b);
}

/* n_blocks blocks: a multiple of four, up to AT_ONCE. */
INLINE void prepare_blocks(const struct weight *w, const float *x, uint32_t n_blocks,
                           const struct row_place *place) {
    _Alignas(64) float maxima[AT_ONCE] = {0}, inverses[AT_ONCE];
    for (uint32_t b = 0; b < n_blocks; b += SIDE_BY_SIDE)
        measure_four(x + b * ACT_BLOCK, maxima + b);
    for (uint32_t b = 0; b < n_blocks; b += 16) invert_sixteen(maxima + b, inverses + b);
    for (uint32_t b = 0; b < n_blocks; b += SIDE_BY_SIDE)
        round_four(w, x + b * ACT_BLOCK, maxima + b, inverses + b, place, b);
}

void i8_prepare__avx512(const struct act_rows *rows, uint32_t row, const float *x) {
    const uint32_t n_blocks = rows->w->n_in / ACT_BLOCK;
    const bool is_tiled = row < rows->n_tiled;
    struct act_tile *tiles = is_tiled ? act_find_tile(rows, row) : NULL;
    struct act_block *blocks = is_tiled ? NULL : rows->blocks + (size_t)row * n_blocks;
    for (uint32_t b = 0, n; b < n_blocks; b += n) {
        n = n_blocks - b < AT_ONCE ? (n_blocks - b) / SIDE_BY_SIDE * SIDE_BY_SIDE : AT_ONCE;
        if (n) {
            const struct row_place place = {is_tiled ? NULL : blocks + b,
                                            is_tiled ? tiles + b : NULL, row % ACT_TILE_ROWS};
            prepare_blocks(rows->w, x + b * ACT_BLOCK, n, &place);
            continue;
        }
        n = 1;
        struct act_block local, *block = is_tiled ? &local : blocks + b;
        prepare_block(rows->w, x + b * ACT_BLOCK, block);
        if (is_tiled) act_put_block(block, row, tiles + b);
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
