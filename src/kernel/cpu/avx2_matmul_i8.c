/* avx2_matmul_i8.c - integer matrix products on AVX2: every quantised weight type, class kseq_i8.
 *
 *   dot  = sum over a scale block of w[n, k] * a[r, k]      unsigned quants times int8, exact
 *   y[r, n] = fma(float(dot - offset * sum a), d[n] * s[r], y[r, n])      blocks ascending
 *
 * A vector of weights is 8 output rows times 4 inputs, a panel two of them; the 4 activations are
 * broadcast. VPMADDUBSW multiplies bytes and adds pairs into 16 bits with saturation, so how many
 * groups of 4 inputs may be added up in 16 bits depends on the largest quant: |a| <= 127, two
 * products per lane and group:
 *
 *   quants up to   15   31   63   255
 *   groups          8    4    2    -         15 * 127 * 2 * 8 = 30,480 < 32,768
 *
 * Then VPMADDWD by ones widens to 32 bits. For quants up to 255 (Q8_0) a single pair would
 * overflow: they become signed again (xor 128), and |w| times sign(a, w) fits: 128 * 127 * 2 =
 * 32,512. A weight of -128 is right too, since its magnitude is an unsigned byte. (Activations are
 * never -128.) All of this is exact, so it gives the bits of the plain C kernel.
 *
 * The tile is MR tokens times one panel; the sums of blocks stay in registers or, from MR 4 on,
 * partly on the stack, touched once per block. Per block of 32 inputs and token: 16 multiplies of
 * 32 bytes and about 12 other operations. */
#include "cpu_kernel.h"

#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { MR_MAX = 6, GROUP_BYTES = 4 * PANEL_ROWS };

/* What is known at compile time about a weight type. */
struct i8_kind {
    int block;      /* inputs that share a scale */
    int run_groups; /* groups added in 16 bits; 0: signed bytes, each group widened */
    bool has_min;
};

INLINE __m256i broadcast4(const int8_t *a) {
    int32_t quad;
    memcpy(&quad, a, sizeof quad);
    return _mm256_set1_epi32(quad);
}

/* Adds `run` groups of 4 inputs of one panel to the 32-bit sums of mr tokens. */
INLINE void add_run(const uint8_t *w, const int8_t *const *a, int k, const int run, const int mr,
                    __m256i low32[MR_MAX], __m256i high32[MR_MAX]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low[MR_MAX], high[MR_MAX];
    UNROLL for (int g = 0; g < run; g++) {
        const __m256i *at = (const __m256i *)(const void *)(w + g * GROUP_BYTES);
        const __m256i w_low = _mm256_load_si256(at), w_high = _mm256_load_si256(at + 1);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256i quad = broadcast4(a[m] + k + g * 4);
            const __m256i p_low = _mm256_maddubs_epi16(w_low, quad);
            const __m256i p_high = _mm256_maddubs_epi16(w_high, quad);
            low[m] = g ? _mm256_add_epi16(low[m], p_low) : p_low;
            high[m] = g ? _mm256_add_epi16(high[m], p_high) : p_high;
        }
    }
    UNROLL for (int m = 0; m < mr; m++) {
        low32[m] = _mm256_add_epi32(low32[m], _mm256_madd_epi16(low[m], ones));
        high32[m] = _mm256_add_epi32(high32[m], _mm256_madd_epi16(high[m], ones));
    }
}

/* The same for one group of quants up to 255. */
INLINE void add_signed_group(const uint8_t *w, const int8_t *const *a, int k, const int mr,
                             __m256i low32[MR_MAX], __m256i high32[MR_MAX]) {
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8((char)-128);
    const __m256i *at = (const __m256i *)(const void *)w;
    const __m256i w_low = _mm256_xor_si256(_mm256_load_si256(at), flip);
    const __m256i w_high = _mm256_xor_si256(_mm256_load_si256(at + 1), flip);
    const __m256i size_low = _mm256_abs_epi8(w_low), size_high = _mm256_abs_epi8(w_high);
    UNROLL for (int m = 0; m < mr; m++) {
        const __m256i quad = broadcast4(a[m] + k);
        const __m256i p_low = _mm256_maddubs_epi16(size_low, _mm256_sign_epi8(quad, w_low));
        const __m256i p_high = _mm256_maddubs_epi16(size_high, _mm256_sign_epi8(quad, w_high));
        low32[m] = _mm256_add_epi32(low32[m], _mm256_madd_epi16(p_low, ones));
        high32[m] = _mm256_add_epi32(high32[m], _mm256_madd_epi16(p_high, ones));
    }
}

INLINE void multiply_tile(const struct matmul_part *p, const struct i8_kind kind, uint32_t row,
                          uint32_t panel, const int mr) {
    const struct weight *w = p->w;
    const uint32_t n_blocks = w->n_in / (uint32_t)kind.block, n_scales = w->n_in / ACT_BLOCK;
    const uint8_t *data = w->data + (size_t)panel * w->panel_bytes;
    const int8_t *a[MR_MAX];
    const float *scale[MR_MAX], *sum[MR_MAX];
    const int32_t *shift[MR_MAX];
    __m256 low[MR_MAX], high[MR_MAX];
    UNROLL for (int m = 0; m < mr; m++) {
        const size_t r = row + (uint32_t)m;
        a[m] = p->a.q + r * w->n_in;
        scale[m] = p->a.scale + r * n_scales;
        shift[m] = p->a.shift + r * n_blocks;
        sum[m] = p->a.sum + r * n_blocks;
        low[m] = high[m] = _mm256_setzero_ps();
    }
    for (uint32_t b = 0; b < n_blocks; b++, data += w->block_bytes) {
        __m256i low32[MR_MAX], high32[MR_MAX];
        const int k = (int)b * kind.block;
        UNROLL for (int m = 0; m < mr; m++)
            /* Q8_0 quants are signed again: nothing to take off. */
            low32[m] = high32[m] =
                kind.run_groups ? _mm256_set1_epi32(-shift[m][b]) : _mm256_setzero_si256();
        const int step = kind.run_groups ? kind.run_groups : 1;
        UNROLL for (int g = 0; g < kind.block / 4; g += step) {
            if (kind.run_groups)
                add_run(data + g * GROUP_BYTES, a, k + g * 4, step, mr, low32, high32);
            else
                add_signed_group(data + g * GROUP_BYTES, a, k + g * 4, mr, low32, high32);
        }
        const float *d = (const float *)(const void *)(data + kind.block * PANEL_ROWS);
        const __m256 d_low = _mm256_load_ps(d), d_high = _mm256_load_ps(d + 8);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256 s = _mm256_broadcast_ss(&scale[m][b * (uint32_t)kind.block / ACT_BLOCK]);
            low[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(low32[m]), _mm256_mul_ps(d_low, s), low[m]);
            high[m] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(high32[m]), _mm256_mul_ps(d_high, s), high[m]);
        }
        if (!kind.has_min) continue;
        const __m256 m_low = _mm256_load_ps(d + PANEL_ROWS);
        const __m256 m_high = _mm256_load_ps(d + PANEL_ROWS + 8);
        UNROLL for (int m = 0; m < mr; m++) {
            const __m256 s = _mm256_broadcast_ss(&sum[m][b]);
            low[m] = _mm256_fmadd_ps(m_low, s, low[m]);
            high[m] = _mm256_fmadd_ps(m_high, s, high[m]);
        }
    }
    UNROLL for (int m = 0; m < mr; m++) {
        float sums[PANEL_ROWS];
        _mm256_storeu_ps(sums, low[m]);
        _mm256_storeu_ps(sums + 8, high[m]);
        matmul_store(p, row + (uint32_t)m, panel, sums);
    }
}

INLINE void multiply(const struct matmul_part *p, const struct i8_kind kind) {
    for (uint32_t panel = p->panel_first; panel < p->panel_first + p->n_panels; panel++) {
        const uint32_t end = p->row_first + p->n_rows;
        uint32_t row = p->row_first;
        for (; end - row >= MR_MAX; row += MR_MAX) multiply_tile(p, kind, row, panel, MR_MAX);
        switch (end - row) {
        case 1: multiply_tile(p, kind, row, panel, 1); break;
        case 2: multiply_tile(p, kind, row, panel, 2); break;
        case 3: multiply_tile(p, kind, row, panel, 3); break;
        case 4: multiply_tile(p, kind, row, panel, 4); break;
        case 5: multiply_tile(p, kind, row, panel, 5); break;
        default: break;
        }
    }
}

/* One function per kind, so that each is compiled by itself. */
static void multiply_q4(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 8, false});
}

static void multiply_q4_min(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 8, true});
}

static void multiply_q5(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 4, false});
}

static void multiply_q5_min(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 4, true});
}

static void multiply_q8(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){32, 0, false});
}

static void multiply_q3_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 4, false});
}

static void multiply_q2_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 4, true});
}

static void multiply_q6_k(const struct matmul_part *p) {
    multiply(p, (struct i8_kind){16, 2, false});
}

void i8_f32_matmul__avx2(const struct matmul_part *p) {
    const struct weight *w = p->w;
    if (w->block == 16)
        w->has_min ? multiply_q2_k(p) : w->quant_max > 31 ? multiply_q6_k(p) : multiply_q3_k(p);
    else if (w->quant_max > 31)
        multiply_q8(p);
    else if (w->quant_max > 15)
        w->has_min ? multiply_q5_min(p) : multiply_q5(p);
    else
        w->has_min ? multiply_q4_min(p) : multiply_q4(p);
}
