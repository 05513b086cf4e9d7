/* ref_rows.c - the operations that work row by row, in plain C: embed, keep_rows, rmsnorm, silu_mul
 * and rope_kv_store. The specification of their bits; where a vector variant exists it must equal
 * them.
 *
 *   embed          out[r, i] = scale * w[id_r, i]
 *   keep_rows      x[r, i] = x[rows_r, i]
 *   rmsnorm        y[r, i] = x[r, i] / sqrt(mean_i(x[r, i]^2) + eps) * w[i]
 *   silu_mul       out[r, i] = gate[r, i] / (1 + exp(-gate[r, i])) * up[r, i]
 *   rope_kv_store  (x, y) -> (x cos - y sin, x sin + y cos) for the pairs of Q and K; K and V are
 *                  rounded to the pool's dtype and stored at the row's slot
 *
 * Nothing here adds along a row except rmsnorm, which uses 16 partial sums so that vectors of 4, 8
 * and 16 lanes can give the same bits. The rotation multiplies and adds with separate roundings:
 * the compiler may vectorise that on any processor without changing it. A matrix that is both
 * gathered and multiplied (a tied embedding) exists only as panels; embed reads its rows out of
 * them, 4 bytes of every 64, which costs a cache line per 4 inputs, once per token.
 *
 * Slots and positions are checked by the driver (cpu_rope.c). */
#include "base/invariant.h"
#include "cpu_kernel.h"
#include "pack.h"
#include "scalar_exp.h"

#include <string.h>

void any_f32_embed__ref(const struct embed_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        int32_t id = a->token_ids[r];
        if (id < 0) id = a->sampled[-1 - id];
        if (id < 0) id = 0; /* nothing was drawn there */
        RADISH_INVARIANT(id >= 0 && (uint32_t)id < a->w->n_out, "token id %d of %u", id,
                         a->w->n_out);
        float *out = a->out + (size_t)r * a->out_stride;
        pack_row_to_f32(a->w, (uint32_t)id, out);
        if (a->scale != 1.0f)
            for (uint32_t i = 0; i < a->w->n_in; i++) out[i] *= a->scale;
    }
}

void f32_keep_rows__ref(const struct keep_rows_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = 0; r < a->n_rows; r++)
        if (a->rows[r] != r)
            memcpy(a->x + (size_t)r * a->stride + first,
                   a->x + (size_t)a->rows[r] * a->stride + first, (end - first) * sizeof *a->x);
}

void f32_rmsnorm__ref(const struct rmsnorm_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *x = a->x + (size_t)r * a->x_stride;
        float *y = a->y + (size_t)r * a->y_stride;
        float sums[16] = {0};
        for (uint32_t i = 0; i < a->width; i++) sums[i % 16] = fmaf(x[i], x[i], sums[i % 16]);
        const float mean = scalar_sum16(sums) / (float)a->width;
        const float inverse = 1.0f / sqrtf(mean + a->eps);
        for (uint32_t i = 0; i < a->width; i++) {
            const float normed = x[i] * inverse * a->w[i];
            y[i] = a->accumulate ? y[i] + normed : normed;
        }
    }
}

void f32_silu_mul__ref(const struct silu_mul_args *a, uint32_t first, uint32_t end) {
    for (uint32_t r = first; r < end; r++) {
        const float *gate = a->gate + (size_t)r * a->in_stride;
        const float *up = a->up + (size_t)r * a->in_stride;
        float *out = a->out + (size_t)r * a->out_stride;
        for (uint32_t i = 0; i < a->width; i++) out[i] = scalar_silu(gate[i]) * up[i];
    }
}

/* dst[0, n) = src[0, n) rotated over its first rotary_dim elements; dst may be src. */
static void rotate(const float *src, float *dst, uint32_t n, uint32_t rotary_dim,
                   bool is_interleaved, const float *table) {
    const uint32_t half = rotary_dim / 2;
    const uint32_t step = is_interleaved ? 2 : 1, distance = is_interleaved ? 1 : half;
    const float *cosines = table, *sines = table + half;
    for (uint32_t d = 0; d < half; d++) {
        const float x = src[d * step], y = src[d * step + distance];
        dst[d * step] = x * cosines[d] - y * sines[d];
        dst[d * step + distance] = x * sines[d] + y * cosines[d];
    }
    if (dst != src) memcpy(dst + rotary_dim, src + rotary_dim, (n - rotary_dim) * sizeof *dst);
}

static void store(void *pool, size_t at, enum dtype dtype, const float *src, uint32_t n) {
    if (dtype == RADISH_DTYPE_F32) {
        memcpy((float *)pool + at, src, n * sizeof *src);
        return;
    }
    uint16_t *dst = (uint16_t *)pool + at;
    if (dtype == RADISH_DTYPE_F16)
        for (uint32_t i = 0; i < n; i++) dst[i] = dtype_f32_to_f16(src[i]);
    else
        for (uint32_t i = 0; i < n; i++) dst[i] = dtype_f32_to_bf16(src[i]);
}

void kv_f32_rope_kv_store__ref(const struct rope_kv_store_args *a, uint32_t first, uint32_t end) {
    float rotated[HEAD_DIM_MAX];
    for (uint32_t r = first; r < end; r++) {
        const int32_t slot = a->slots[r];
        const float *table = a->rope_table + (size_t)a->positions[r] * a->rotary_dim;
        for (uint32_t h = 0; h < a->n_heads; h++) {
            float *q = a->q + (size_t)r * a->q_stride + (size_t)h * a->head_dim;
            rotate(q, q, a->head_dim, a->rotary_dim, a->is_interleaved, table);
        }
        if (slot < 0) continue;
        for (uint32_t h = 0; h < a->n_kv_heads; h++) {
            const float *k = a->k + (size_t)r * a->k_stride + (size_t)h * a->head_dim;
            const float *v = a->v + (size_t)r * a->v_stride + (size_t)h * a->v_head_dim;
            const size_t at = (size_t)slot * a->n_kv_heads + h;
            rotate(k, rotated, a->head_dim, a->rotary_dim, a->is_interleaved, table);
            store(a->k_pool, at * a->head_dim, (enum dtype)a->kv_dtype, rotated, a->head_dim);
            store(a->v_pool, at * a->v_head_dim, (enum dtype)a->kv_dtype, v, a->v_head_dim);
        }
    }
}
