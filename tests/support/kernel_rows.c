/* kernel_rows.c - embed, rmsnorm, silu_mul and rope_kv_store against double arithmetic, and bit for
 * bit across variants, threads and batches. */
#include "base/mem.h"
#include "kernel/cpu/unpack.h"
#include "kernel_check.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const uint32_t widths[] = {1, 7, 8, 15, 16, 17, 31, 32, 64, 100, 576, 2049};
enum { N_WIDTHS = sizeof widths / sizeof *widths };
static const uint32_t batches[] = {1, 3, 21};
enum { N_BATCHES = sizeof batches / sizeof *batches };

static void finish_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

/* ---- embed ---- */

static void check_gather(struct device *device, enum dtype dtype, bool is_multiplied, float scale) {
    enum { N_VOCAB = 37, N_ROWS = 40 };
    const uint32_t width = dtype_is_quantised(dtype) ? 2 * dtype_block_elems(dtype) : 45;
    const uint32_t stride = width + 3;
    uint8_t *data = check_matrix(dtype, N_VOCAB, width, 11);
    struct weight *w = check_weight(device, dtype, N_VOCAB, width, data, true, is_multiplied);
    float *out = check_floats((size_t)N_ROWS * stride), *expected = check_floats(width);
    int32_t ids[N_ROWS];
    const int32_t sampled[2] = {36, 5};
    for (int32_t i = 0; i < N_ROWS; i++) ids[i] = i < 2 ? -1 - i : (i * 7) % N_VOCAB;
    const struct embed_args args = {w, ids, sampled, out, N_ROWS, stride, scale};

    device->ops->step_begin(device);
    device->ops->embed(device, &args);
    finish_step(device);

    uint64_t row_bytes;
    assert_true(dtype_row_bytes(dtype, width, &row_bytes));
    for (uint32_t r = 0; r < N_ROWS; r++) {
        const int32_t id = ids[r] < 0 ? sampled[-1 - ids[r]] : ids[r];
        dtype_to_f32(dtype, data + (size_t)id * row_bytes, expected, width);
        if (scale != 1.0f)
            for (uint32_t i = 0; i < width; i++) expected[i] *= scale;
        check_same_bits(out + (size_t)r * stride, expected, width * sizeof *out, dtype_name(dtype));
        assert_true(isnan(out[(size_t)r * stride + width]));
    }
    device->ops->weight_destroy(device, w);
    free(expected), free(out), free(data);
}

void check_embed(const struct kernel_row *row) {
    for (int precision = 0; precision < 2; precision++) {
        struct kernel_devices devices;
        check_open(row, (enum radish_precision)precision, &devices);
        for (int t = 0; t < RADISH_DTYPE_COUNT; t++) {
            struct unpack_type type;
            const enum dtype dtype = (enum dtype)t;
            if (dtype > RADISH_DTYPE_BF16 && !unpack_find_type(dtype, &type)) continue;
            check_gather(devices.two, dtype, false, 1.0f);
            check_gather(devices.two, dtype, true, 1.0f);
            check_gather(devices.one, dtype, true, 24.5f);
        }
        check_close(&devices);
    }
}

/* ---- rmsnorm ---- */

static void run_rmsnorm(struct device *device, const float *x, const float *w, float *y,
                        uint32_t n_rows, uint32_t width, uint32_t stride) {
    const struct rmsnorm_args args = {x, w, y, n_rows, width, stride, stride, 1e-5f};
    device->ops->step_begin(device);
    device->ops->rmsnorm(device, &args);
    finish_step(device);
}

static void check_norm(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width) {
    const uint32_t stride = width + 2;
    const size_t n = (size_t)n_rows * stride, bytes = n * sizeof(float);
    float *x = check_floats(n), *w = check_floats(width), *y = check_floats(n),
          *other = check_floats(n);
    for (uint32_t r = 0; r < n_rows; r++) check_fill(x + (size_t)r * stride, width, 21 + r, 4.0f);
    check_fill(w, width, 20, 2.0f);

    run_rmsnorm(devices->one, x, w, y, n_rows, width, stride);

    for (uint32_t r = 0; r < n_rows; r++) {
        const float *row = x + (size_t)r * stride;
        double sum = 0;
        for (uint32_t i = 0; i < width; i++) sum += (double)row[i] * (double)row[i];
        const double inverse = 1.0 / sqrt(sum / width + 1e-5);
        for (uint32_t i = 0; i < width; i++) {
            const double expected = (double)row[i] * inverse * (double)w[i];
            check_close_to((double)y[(size_t)r * stride + i], expected,
                           devices->row->tolerance * fabs(expected), "rmsnorm", i);
        }
        assert_true(isnan(y[(size_t)r * stride + width]));
    }
    run_rmsnorm(devices->two, x, w, other, n_rows, width, stride);
    check_same_bits(other, y, bytes, "two threads");
    run_rmsnorm(devices->ref, x, w, other, n_rows, width, stride);
    check_same_bits(other, y, bytes, "plain C");
    const size_t last = (size_t)(n_rows - 1) * stride;
    run_rmsnorm(devices->two, x + last, w, x + last, 1, width, stride); /* alone, in place */
    check_same_bits(x + last, y + last, width * sizeof *x, "a row alone, in place");
    free(other), free(y), free(w), free(x);
}

void check_rmsnorm(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_norm(&devices, batches[b], widths[i]);
    check_close(&devices);
}

/* ---- silu_mul ---- */

static void run_silu(struct device *device, const float *gate, const float *up, float *out,
                     uint32_t n_rows, uint32_t width, uint32_t stride) {
    const struct silu_mul_args args = {gate, up, out, n_rows, width, stride, stride};
    device->ops->step_begin(device);
    device->ops->silu_mul(device, &args);
    finish_step(device);
}

static void check_silu(const struct kernel_devices *devices, uint32_t n_rows, uint32_t width) {
    static const float edges[] = {0.0f, -0.0f, 87.0f, -87.0f, -88.5f, 100.0f, -100.0f, 1e30f};
    const uint32_t stride = width + 1;
    const size_t n = (size_t)n_rows * stride, bytes = n * sizeof(float);
    float *gate = check_floats(n), *up = check_floats(n), *out = check_floats(n),
          *other = check_floats(n);
    for (uint32_t r = 0; r < n_rows; r++) {
        check_fill(gate + (size_t)r * stride, width, 31 + r, 30.0f);
        check_fill(up + (size_t)r * stride, width, 3100 + r, 2.0f);
    }
    for (uint32_t i = 0; i < width && i < 8; i++) gate[i] = edges[i];

    run_silu(devices->one, gate, up, out, n_rows, width, stride);

    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < width; i++) {
            const size_t at = (size_t)r * stride + i;
            const double g = (double)gate[at];
            const double expected = g / (1.0 + exp(-g)) * (double)up[at];
            check_close_to((double)out[at], expected,
                           devices->row->tolerance * fabs(expected) + 1e-35, "silu_mul", at);
        }
        assert_true(isnan(out[(size_t)r * stride + width]));
    }
    run_silu(devices->two, gate, up, other, n_rows, width, stride);
    check_same_bits(other, out, bytes, "two threads");
    run_silu(devices->ref, gate, up, other, n_rows, width, stride);
    check_same_bits(other, out, bytes, "plain C");
    const size_t last = (size_t)(n_rows - 1) * stride;
    run_silu(devices->two, gate + last, up + last, gate + last, 1, width, stride);
    check_same_bits(gate + last, out + last, width * sizeof *out, "a row alone, in place");
    free(other), free(out), free(up), free(gate);
}

void check_silu_mul(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int b = 0; b < N_BATCHES; b++)
        for (int i = 0; i < N_WIDTHS; i++) check_silu(&devices, batches[b], widths[i]);
    check_close(&devices);
}

/* ---- rope_kv_store ---- */

enum { ROPE_ROWS = 7, ROPE_SLOTS = 12, ROPE_POSITIONS = 131072 };
static const int32_t rope_positions[ROPE_ROWS] = {0, 1, 4095, 131071, 77, 77, 1000};
static const int32_t rope_slots[ROPE_ROWS] = {1, 11, 5, 4, -1, 7, 2};

struct rope_case {
    const struct kernel_devices *devices;
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim, rotary_dim;
    enum dtype dtype;
    bool is_interleaved;
    float *table, *q, *k, *v;
    uint32_t q_stride, k_stride, v_stride;
    size_t k_bytes, v_bytes; /* of the pools */
};

struct rope_result {
    float *q;
    uint8_t *k_pool, *v_pool;
};

static double pool_value(const void *pool, enum dtype dtype, size_t i) {
    float value;
    dtype_to_f32(dtype, (const uint8_t *)pool + i * dtype_block_bytes(dtype), &value, 1);
    return (double)value;
}

static struct rope_result run_rope(const struct rope_case *c, struct device *device, uint32_t first,
                                   uint32_t n_rows) {
    struct rope_result out = {malloc((size_t)ROPE_ROWS * c->q_stride * sizeof(float)),
                              malloc(c->k_bytes), malloc(c->v_bytes)};
    assert_true(out.q && out.k_pool && out.v_pool);
    memcpy(out.q, c->q, (size_t)ROPE_ROWS * c->q_stride * sizeof(float));
    memset(out.k_pool, 0xA5, c->k_bytes);
    memset(out.v_pool, 0x5A, c->v_bytes);
    const struct rope_kv_store_args args = {.q = out.q + (size_t)first * c->q_stride,
                                            .k = c->k + (size_t)first * c->k_stride,
                                            .v = c->v + (size_t)first * c->v_stride,
                                            .positions = rope_positions + first,
                                            .slots = rope_slots + first,
                                            .rope_table = c->table,
                                            .k_pool = out.k_pool,
                                            .v_pool = out.v_pool,
                                            .n_rows = n_rows,
                                            .q_stride = c->q_stride,
                                            .k_stride = c->k_stride,
                                            .v_stride = c->v_stride,
                                            .n_heads = c->n_heads,
                                            .n_kv_heads = c->n_kv_heads,
                                            .head_dim = c->head_dim,
                                            .v_head_dim = c->v_head_dim,
                                            .rotary_dim = c->rotary_dim,
                                            .n_slots = ROPE_SLOTS,
                                            .n_positions = ROPE_POSITIONS,
                                            .kv_dtype = (int32_t)c->dtype,
                                            .is_interleaved = c->is_interleaved};
    device->ops->step_begin(device);
    device->ops->rope_kv_store(device, &args);
    finish_step(device);
    return out;
}

static void free_rope(struct rope_result *r) {
    free(r->q), free(r->k_pool), free(r->v_pool);
}

/* Element d of a head after rotation, in double, and the size of the terms it is made of. */
static double rotated(const struct rope_case *c, const float *head, uint32_t d, const float *table,
                      double *size_out) {
    const uint32_t half = c->rotary_dim / 2;
    *size_out = 0;
    if (d >= c->rotary_dim) return (double)head[d];
    const uint32_t pair = c->is_interleaved ? d / 2 : d % half;
    const bool is_second = c->is_interleaved ? d % 2 : d >= half;
    const double x = (double)head[c->is_interleaved ? 2 * pair : pair];
    const double y = (double)head[c->is_interleaved ? 2 * pair + 1 : pair + half];
    const double cosine = (double)table[pair], sine = (double)table[half + pair];
    *size_out = fabs(x) + fabs(y);
    return is_second ? x * sine + y * cosine : x * cosine - y * sine;
}

static void compare_rope(const struct rope_case *c, const struct rope_result *r) {
    const double tolerance = c->devices->row->tolerance;
    const double rounding = c->dtype == RADISH_DTYPE_F32   ? 0
                            : c->dtype == RADISH_DTYPE_F16 ? 0x1p-11
                                                           : 0x1p-8;
    for (uint32_t row = 0; row < ROPE_ROWS; row++) {
        const float *table = c->table + (size_t)rope_positions[row] * c->rotary_dim;
        double size;
        for (uint32_t i = 0; i < c->n_heads * c->head_dim; i++) {
            const size_t at = (size_t)row * c->q_stride + i;
            const double expected =
                rotated(c, c->q + at - i % c->head_dim, i % c->head_dim, table, &size);
            check_close_to((double)r->q[at], expected, tolerance * size, "q", at);
        }
        if (rope_slots[row] < 0) continue;
        for (uint32_t i = 0; i < c->n_kv_heads * c->head_dim; i++) {
            const float *head = c->k + (size_t)row * c->k_stride + i - i % c->head_dim;
            const double expected = rotated(c, head, i % c->head_dim, table, &size);
            const size_t at = (size_t)rope_slots[row] * c->n_kv_heads * c->head_dim + i;
            check_close_to(pool_value(r->k_pool, c->dtype, at), expected,
                           tolerance * size + rounding * fabs(expected) + 1e-7, "k", at);
        }
        for (uint32_t i = 0; i < c->n_kv_heads * c->v_head_dim; i++) {
            const size_t at = (size_t)rope_slots[row] * c->n_kv_heads * c->v_head_dim + i;
            const double expected = (double)c->v[(size_t)row * c->v_stride + i];
            check_close_to(pool_value(r->v_pool, c->dtype, at), expected,
                           rounding * fabs(expected) + (rounding > 0 ? 1e-7 : 0), "v", at);
        }
    }
}

static void check_untouched_slots(const struct rope_case *c, const struct rope_result *r) {
    for (int32_t slot = 0; slot < ROPE_SLOTS; slot++) {
        bool is_named = false;
        for (int i = 0; i < ROPE_ROWS; i++) is_named |= rope_slots[i] == slot;
        const size_t k = c->k_bytes / ROPE_SLOTS, v = c->v_bytes / ROPE_SLOTS;
        for (size_t i = 0; i < k && !is_named; i++)
            assert_int_equal(r->k_pool[(size_t)slot * k + i], 0xA5);
        for (size_t i = 0; i < v && !is_named; i++)
            assert_int_equal(r->v_pool[(size_t)slot * v + i], 0x5A);
    }
}

static void compare_rope_bits(const struct rope_case *c, const struct rope_result *expected) {
    struct device *const devices[] = {c->devices->two, c->devices->ref};
    const size_t q_row = c->q_stride * sizeof(float);
    for (int i = 0; i < 2; i++) {
        struct rope_result r = run_rope(c, devices[i], 0, ROPE_ROWS);
        check_same_bits(r.q, expected->q, ROPE_ROWS * q_row, "q: threads or plain C");
        check_same_bits(r.k_pool, expected->k_pool, c->k_bytes, "k: threads or plain C");
        check_same_bits(r.v_pool, expected->v_pool, c->v_bytes, "v: threads or plain C");
        free_rope(&r);
    }
    struct rope_result alone = run_rope(c, c->devices->one, 3, 1);
    const size_t k_slot = c->k_bytes / ROPE_SLOTS, v_slot = c->v_bytes / ROPE_SLOTS;
    check_same_bits((char *)alone.q + 3 * q_row, (char *)expected->q + 3 * q_row, q_row, "q alone");
    check_same_bits(alone.k_pool + 4 * k_slot, expected->k_pool + 4 * k_slot, k_slot, "k alone");
    check_same_bits(alone.v_pool + 4 * v_slot, expected->v_pool + 4 * v_slot, v_slot, "v alone");
    free_rope(&alone);
}

static void fill_table(const struct rope_case *c) {
    for (int r = 0; r < ROPE_ROWS; r++) {
        float *row = c->table + (size_t)rope_positions[r] * c->rotary_dim;
        for (uint32_t d = 0; d < c->rotary_dim / 2; d++) {
            const double angle = rope_positions[r] * pow(10000.0, -2.0 * d / c->rotary_dim);
            row[d] = (float)cos(angle);
            row[c->rotary_dim / 2 + d] = (float)sin(angle);
        }
    }
}

static void check_rope(struct rope_case c) {
    const size_t elem_bytes = dtype_block_bytes(c.dtype);
    const size_t table_bytes = (size_t)ROPE_POSITIONS * c.rotary_dim * sizeof(float);
    c.q_stride = c.n_heads * c.head_dim + 5;
    c.k_stride = c.n_kv_heads * c.head_dim + 1;
    c.v_stride = c.n_kv_heads * c.v_head_dim + 3;
    c.k_bytes = (size_t)ROPE_SLOTS * c.n_kv_heads * c.head_dim * elem_bytes;
    c.v_bytes = (size_t)ROPE_SLOTS * c.n_kv_heads * c.v_head_dim * elem_bytes;
    c.table = mem_aligned_alloc(table_bytes);
    c.q = check_floats((size_t)ROPE_ROWS * c.q_stride);
    c.k = check_floats((size_t)ROPE_ROWS * c.k_stride);
    c.v = check_floats((size_t)ROPE_ROWS * c.v_stride);
    assert_non_null(c.table);
    fill_table(&c);
    check_fill(c.q, (size_t)ROPE_ROWS * c.q_stride, 41, 3.0f);
    check_fill(c.k, (size_t)ROPE_ROWS * c.k_stride, 42, 3.0f);
    check_fill(c.v, (size_t)ROPE_ROWS * c.v_stride, 43, 3.0f);

    struct rope_result r = run_rope(&c, c.devices->one, 0, ROPE_ROWS);

    compare_rope(&c, &r);
    check_untouched_slots(&c, &r);
    compare_rope_bits(&c, &r);
    free_rope(&r);
    free(c.v), free(c.k), free(c.q);
    mem_aligned_free(c.table, table_bytes);
}

/* A slot or position out of range must stop the process, not write. */
static void check_refused(struct device *device, int32_t position, int32_t slot) {
    float q[16] = {0}, k[16] = {0}, v[16] = {0}, table[32] = {0};
    float k_pool[4 * 16] = {0}, v_pool[4 * 16] = {0};
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        signal(SIGABRT, SIG_DFL);
        const struct rope_kv_store_args args = {
            q, k, v,  &position, &slot, table, k_pool, v_pool,           1,    16, 16, 16,
            1, 1, 16, 16,        16,    4,     2,      RADISH_DTYPE_F32, false};
        device->ops->step_begin(device);
        device->ops->rope_kv_store(device, &args);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("slot %d, position %d did not abort", slot, position);
}

void check_rope_kv_store(const struct kernel_row *row) {
    static const uint32_t dims[] = {16, 64, 96, 128, 256};
    static const uint32_t heads[][2] = {{32, 8}, {16, 8}, {16, 2}, {14, 2}};
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int d = 0; d < 5; d++) {
        for (int h = 0; h < 4; h++) {
            for (int t = 0; t < 3; t++) {
                struct rope_case c = {.devices = &devices,
                                      .n_heads = heads[h][0],
                                      .n_kv_heads = heads[h][1],
                                      .head_dim = dims[d],
                                      .v_head_dim = dims[d],
                                      .rotary_dim = dims[d],
                                      .dtype = dtypes[t],
                                      .is_interleaved = (d + h) % 2};
                check_rope(c);
                if (h != 0) continue;
                c.rotary_dim = dims[d] / 4 * 2; /* partial rotation, both pairings */
                check_rope(c);
                c.is_interleaved = !c.is_interleaved;
                c.v_head_dim = dims[d] / 2;
                check_rope(c);
            }
        }
    }
    check_refused(devices.one, 0, 4);
    check_refused(devices.one, 0, -2);
    check_refused(devices.one, 2, 0);
    check_refused(devices.one, -1, 0);
    check_close(&devices);
}
