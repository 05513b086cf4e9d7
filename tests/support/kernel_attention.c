/* kernel_attention.c - attention over a scattered pool against double arithmetic, and bit for bit:
 * a row alone, in a chunk, in a batch of sequences, with one and two threads, plain C and vectors.
 *
 * Devices without plain C of the same bits (GPUs) run fewer shapes, since they are played on the
 * CPU here, and give chunks other bits than single rows; what single rows of theirs promise is
 * compared (tests/metal/test_metal_attention.c has what they cut differently). */
#include "kernel_attention.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void round_to_pool(const float *src, float *rounded, uint8_t *pool, size_t n,
                          enum dtype dtype) {
    const size_t bytes = dtype_block_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
        const uint16_t h =
            dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(src[i]) : dtype_f32_to_bf16(src[i]);
        memcpy(pool + i * bytes, dtype == RADISH_DTYPE_F32 ? (const void *)&src[i] : &h, bytes);
    }
    dtype_to_f32(dtype, pool, rounded, n);
}

/* Slots are dealt out so that neighbours in a sequence are rarely neighbours in the pool. */
static void deal_slots(struct attention_case *c) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->n_seqs; s++) n += c->kv_len[s];
    c->n_slots = n + 1;
    /* A prime that does not divide n_slots: every slot comes once, and 0 not at all. */
    static const uint32_t primes[] = {7, 11, 13, 17, 19, 23, 29, 31, 37, 41};
    uint32_t next = 1, at = 0;
    while (c->n_slots % primes[at] == 0) at++;
    const uint32_t step = primes[at];
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        c->slots[s] = malloc(c->kv_len[s] * sizeof(uint32_t));
        assert_non_null(c->slots[s]);
        for (uint32_t i = 0; i < c->kv_len[s]; i++) {
            c->slots[s][i] = (uint32_t)((uint64_t)next * step % c->n_slots);
            next++;
        }
        if (s) memcpy(c->slots[s], c->slots[0], c->n_shared[s] * sizeof(uint32_t));
    }
}

/* What has left the window of a sequence's first row may belong to others by now: no kernel may
 * look there. */
static void take_slots_away(struct attention_case *c) {
    if (!c->window) return;
    for (uint32_t s = 0; s < c->n_seqs; s++)
        for (uint32_t i = 0; i + c->window + c->n_rows[s] <= c->kv_len[s]; i++)
            c->slots[s][i] = UINT32_MAX - i;
}

void attention_case_prepare(struct attention_case *c) {
    const struct kernel_shape shape = {.kv_dtype = c->dtype,
                                       .n_heads = c->n_heads,
                                       .n_kv_heads = c->n_kv_heads,
                                       .head_dim = c->head_dim,
                                       .v_head_dim = c->v_head_dim,
                                       .has_window = c->window > 0,
                                       .has_soft_cap = c->soft_cap > 0};
    check_supports(c->devices->one, KERNEL_OP_ATTENTION, &shape);
    deal_slots(c);
    take_slots_away(c);
    c->n_tokens = 0;
    for (uint32_t s = 0; s < c->n_seqs; s++) c->n_tokens += c->n_rows[s];
    c->q_stride = c->n_heads * c->head_dim + 2;
    c->out_stride = c->n_heads * c->v_head_dim + 3;
    const size_t n_k = (size_t)c->n_slots * c->n_kv_heads * c->head_dim;
    const size_t n_v = (size_t)c->n_slots * c->n_kv_heads * c->v_head_dim;
    c->q = check_floats((size_t)c->n_tokens * c->q_stride);
    c->k = check_floats(n_k);
    c->v = check_floats(n_v);
    c->k_pool = check_alloc(n_k * dtype_block_bytes(c->dtype));
    c->v_pool = check_alloc(n_v * dtype_block_bytes(c->dtype));
    check_fill(c->q, (size_t)c->n_tokens * c->q_stride, 51, 2.5f);
    check_fill(c->k, n_k, 52, 2.5f);
    check_fill(c->v, n_v, 53, 2.5f);
    round_to_pool(c->k, c->k, c->k_pool, n_k, c->dtype);
    round_to_pool(c->v, c->v, c->v_pool, n_v, c->dtype);
    /* Slot 0 is padding: reading it as data would show. */
    memset(c->k_pool, 0xFF, (size_t)c->n_kv_heads * c->head_dim * dtype_block_bytes(c->dtype));
    memset(c->v_pool, 0xFF, (size_t)c->n_kv_heads * c->v_head_dim * dtype_block_bytes(c->dtype));
}

void attention_case_release(struct attention_case *c) {
    for (uint32_t s = 0; s < c->n_seqs; s++) free(c->slots[s]);
    check_free(c->q), check_free(c->k), check_free(c->v);
    check_free(c->k_pool), check_free(c->v_pool);
}

struct attention_args attention_case_args(const struct attention_case *c,
                                          const struct attention_seq *seqs, uint32_t n_seqs) {
    return (struct attention_args){.q = c->q,
                                   .k_pool = c->k_pool,
                                   .v_pool = c->v_pool,
                                   .seqs = seqs,
                                   .n_seqs = n_seqs,
                                   .q_stride = c->q_stride,
                                   .out_stride = c->out_stride,
                                   .n_heads = c->n_heads,
                                   .n_kv_heads = c->n_kv_heads,
                                   .head_dim = c->head_dim,
                                   .v_head_dim = c->v_head_dim,
                                   .n_slots = c->n_slots,
                                   .kv_dtype = (int32_t)c->dtype,
                                   .scale = 1.0f / sqrtf((float)c->head_dim),
                                   .window = c->window,
                                   .soft_cap = c->soft_cap};
}

float *attention_case_run(const struct attention_case *c, struct device *device,
                          const struct attention_seq *seqs, uint32_t n_seqs) {
    struct attention_args args = attention_case_args(c, seqs, n_seqs);
    args.out = check_floats((size_t)c->n_tokens * c->out_stride);
    device->ops->step_begin(device);
    device->ops->attention(device, &args);
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
    return args.out;
}

void attention_case_list(const struct attention_case *c, struct attention_seq *seqs) {
    uint32_t row = 0;
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        seqs[s] = (struct attention_seq){row, c->n_rows[s], c->kv_len[s], c->slots[s]};
        row += c->n_rows[s];
    }
}

/* One row and head in double. */
static void compare_head(const struct attention_case *c, const struct attention_seq *seq,
                         uint32_t r, uint32_t head, const float *out) {
    const uint32_t pos = seq->kv_len - seq->n_rows + r, kv_head = head * c->n_kv_heads / c->n_heads;
    const uint32_t first = c->window && pos + 1 > c->window ? pos + 1 - c->window : 0;
    const float *q = c->q + (size_t)(seq->row_first + r) * c->q_stride + head * c->head_dim;
    double *p = malloc((pos + 1) * sizeof *p), max = -INFINITY, sum = 0;
    assert_non_null(p);
    for (uint32_t j = first; j <= pos; j++) {
        const size_t slot = seq->slots[j];
        const float *k = c->k + (slot * c->n_kv_heads + kv_head) * c->head_dim;
        double dot = 0;
        for (uint32_t d = 0; d < c->head_dim; d++) dot += (double)q[d] * (double)k[d];
        p[j] = dot / sqrt((double)c->head_dim);
        if (c->soft_cap > 0) p[j] = (double)c->soft_cap * tanh(p[j] / (double)c->soft_cap);
        if (p[j] > max) max = p[j];
    }
    for (uint32_t j = first; j <= pos; j++) sum += p[j] = exp(p[j] - max);
    for (uint32_t d = 0; d < c->v_head_dim; d++) {
        double expected = 0;
        for (uint32_t j = first; j <= pos; j++)
            expected +=
                p[j] / sum *
                (double)c->v[(seq->slots[j] * (size_t)c->n_kv_heads + kv_head) * c->v_head_dim + d];
        check_close_to((double)out[d], expected, c->devices->row->tolerance * 2.5, "attention", d);
    }
    free(p);
}

void attention_case_compare(const struct attention_case *c, const struct attention_seq *seqs,
                            uint32_t n_seqs, const float *out) {
    for (uint32_t s = 0; s < n_seqs; s++) {
        for (uint32_t r = 0; r < seqs[s].n_rows; r++) {
            const float *row = out + (size_t)(seqs[s].row_first + r) * c->out_stride;
            assert_true(isnan(row[c->n_heads * c->v_head_dim]));
            /* First, last and a few rows between; every head of those. */
            if (r > 1 && r + 1 < seqs[s].n_rows && r % 19) continue;
            for (uint32_t head = 0; head < c->n_heads; head++)
                compare_head(c, &seqs[s], r, head, row + head * c->v_head_dim);
        }
    }
}

/* Whether a row has the bits of one that is alone: on the CPU always, on a GPU where it is one. */
static bool has_bits_of_one(const struct attention_case *c, const struct attention_seq *seq) {
    return c->devices->ref || seq->n_rows == 1;
}

/* Row r of sequence s as a decode step of its own, and the sequence's later half as a chunk. */
static void compare_alone(const struct attention_case *c, const struct attention_seq *seq,
                          const float *out) {
    const size_t bytes = (size_t)c->n_heads * c->v_head_dim * sizeof *out;
    const uint32_t step = 1 + seq->n_rows / (c->devices->ref ? 5 : 2);
    for (uint32_t r = 0; r < seq->n_rows; r += step) {
        const struct attention_seq one = {seq->row_first + r, 1, seq->kv_len - seq->n_rows + r + 1,
                                          seq->slots};
        const size_t at = (size_t)one.row_first * c->out_stride;
        float *alone = attention_case_run(c, c->devices->two, &one, 1);
        if (has_bits_of_one(c, seq))
            check_same_bits(alone + at, out + at, bytes, "a row alone");
        else
            attention_case_compare(c, &one, 1, alone);
        check_free(alone);
    }
    if (!c->devices->ref) return;
    const uint32_t half = seq->n_rows / 2;
    const struct attention_seq chunk = {seq->row_first + half, seq->n_rows - half, seq->kv_len,
                                        seq->slots};
    float *part = attention_case_run(c, c->devices->one, &chunk, 1);
    for (uint32_t r = half; r < seq->n_rows; r++) {
        const size_t at = (size_t)(seq->row_first + r) * c->out_stride;
        check_same_bits(part + at, out + at, bytes, "a chunk");
    }
    check_free(part);
}

static void check_case(struct attention_case c) {
    struct attention_seq seqs[ATTENTION_CASE_SEQS];
    attention_case_prepare(&c);
    attention_case_list(&c, seqs);
    const size_t bytes = (size_t)c.n_tokens * c.out_stride * sizeof(float);

    float *out = attention_case_run(&c, c.devices->one, seqs, c.n_seqs);

    attention_case_compare(&c, seqs, c.n_seqs, out);
    for (int i = 0; i < 2 && c.devices->ref; i++) {
        float *other = attention_case_run(&c, i ? c.devices->ref : c.devices->two, seqs, c.n_seqs);
        check_same_bits(other, out, bytes, i ? "plain C" : "two threads");
        check_free(other);
    }
    for (uint32_t s = 0; s < c.n_seqs; s++) compare_alone(&c, &seqs[s], out);
    check_free(out);
    attention_case_release(&c);
}

static bool is_short(const struct kernel_devices *devices) {
    return check_is_short() || !devices->ref;
}

static void check_shapes(const struct kernel_devices *devices, enum dtype dtype) {
    static const uint32_t dims[] = {16, 20, 64, 80, 96, 112, 128, 256};
    static const uint32_t heads[][2] = {{9, 3}, {4, 4}, {14, 2}, {8, 1}};
    for (int d = 0; d < 8; d += is_short(devices) ? 3 : 1) {
        for (int h = is_short(devices) ? d % 2 : 0; h < 4; h += is_short(devices) ? 2 : 1) {
            check_case((struct attention_case){.devices = devices,
                                               .n_heads = heads[h][0],
                                               .n_kv_heads = heads[h][1],
                                               .head_dim = dims[d],
                                               .v_head_dim = h == 1 ? dims[d] / 2 : dims[d],
                                               .dtype = dtype,
                                               .n_seqs = 4,
                                               .kv_len = {1, 15, 16, 49},
                                               .n_rows = {1, 15, 1, 17}});
        }
    }
}

/* Around the border of a segment, and several segments. */
static void check_lengths(const struct kernel_devices *devices, enum dtype dtype) {
    const struct attention_case few = {.devices = devices,
                                       .n_heads = 3,
                                       .n_kv_heads = 1,
                                       .head_dim = 16,
                                       .v_head_dim = 16,
                                       .dtype = dtype};
    struct attention_case c = few;
    c.n_seqs = 4;
    memcpy(c.kv_len, (uint32_t[]){1023, 1024, 1025, 3079}, 4 * sizeof(uint32_t));
    memcpy(c.n_rows, (uint32_t[]){1, 3, 2, 1}, 4 * sizeof(uint32_t));
    check_case(c);
    c = few;
    c.n_seqs = 1;
    c.kv_len[0] = 3079, c.n_rows[0] = 1; /* segments are spread over threads */
    check_case(c);
    c.kv_len[0] = 1100, c.n_rows[0] = is_short(devices) ? 80 : 90; /* a chunk across the border */
    check_case(c);
}

/* Sliding windows: of one key, inside a segment, a segment, across several; in chunks and in single
 * rows, with and without a soft cap. */
static void check_windows(const struct kernel_devices *devices, enum dtype dtype) {
    static const uint32_t windows[] = {1, 5, 16, 1023, 1024, 1025, 1500};
    for (int i = 0; i < 7; i += is_short(devices) ? 6 : 1) {
        check_case((struct attention_case){.devices = devices,
                                           .n_heads = 4,
                                           .n_kv_heads = 2,
                                           .head_dim = 16,
                                           .v_head_dim = 16,
                                           .dtype = dtype,
                                           .window = windows[i],
                                           .soft_cap = i % 2 ? 2.0f : 0.0f,
                                           .n_seqs = 3,
                                           .kv_len = {2100, 3079, 40},
                                           .n_rows = {60, 1, 40}});
    }
}

/* Caps that bend all scores, some of them and none; a window beside them. */
static void check_soft_caps(const struct kernel_devices *devices, enum dtype dtype) {
    static const uint32_t dims[] = {20, 64, 80, 112, 256};
    for (int i = 0; i < 5; i += is_short(devices) ? 2 : 1) {
        check_case((struct attention_case){.devices = devices,
                                           .n_heads = 6,
                                           .n_kv_heads = 2,
                                           .head_dim = dims[i],
                                           .v_head_dim = dims[i],
                                           .dtype = dtype,
                                           .window = i % 2 ? 12 : 0,
                                           .soft_cap = (float[]){0.01f, 1.5f, 50.0f}[i % 3],
                                           .n_seqs = 3,
                                           .kv_len = {70, 33, 17},
                                           .n_rows = {70, 1, 5}});
    }
}

/* Single rows whose tables begin alike are walked together. Their common prefix ends inside a block
 * and inside a segment, or differs from row to row; some have only a little in common, or are
 * shorter than the prefix of the others; windows cut it. Two heads of K and V, so that a part has
 * several of each. */
static void check_shared(const struct kernel_devices *devices, enum dtype dtype) {
    const struct attention_case few = {.devices = devices,
                                       .n_heads = 6,
                                       .n_kv_heads = 2,
                                       .head_dim = 16,
                                       .v_head_dim = 16,
                                       .dtype = dtype,
                                       .n_seqs = 6,
                                       .kv_len = {200, 190, 150, 250, 70, 129},
                                       .n_rows = {1, 1, 1, 1, 1, 9},
                                       .n_shared = {0, 140, 128, 190, 64, 100}};
    struct attention_case c = few;
    check_case(c);
    c.window = 90;
    check_case(c);
    c = few;
    memcpy(c.kv_len, (uint32_t[]){2300, 2100, 2047, 1300, 2200, 40}, 6 * sizeof(uint32_t));
    memcpy(c.n_shared, (uint32_t[]){0, 2000, 1100, 1024, 1030, 40}, 6 * sizeof(uint32_t));
    c.n_rows[5] = 1;
    if (!is_short(devices)) check_case(c);
    c.window = 1200;
    check_case(c);
    /* More than a part holds, of one and of many heads. */
    for (int i = 0; i < 2; i++) {
        c = few;
        c.n_heads = i ? 16 : 3;
        c.n_kv_heads = i ? 2 : 3;
        c.n_seqs = ATTENTION_CASE_SEQS;
        for (uint32_t s = 0; s < ATTENTION_CASE_SEQS; s++) {
            c.kv_len[s] = 180 + s;
            c.n_shared[s] = s % 5 ? 130 + s % 3 : 0;
            c.n_rows[s] = 1;
        }
        check_case(c);
    }
}

void check_attention(const struct kernel_row *row) {
    static const struct {
        uint32_t format;
        enum dtype dtype;
    } dtypes[] = {{KERNEL_F32, RADISH_DTYPE_F32},
                  {KERNEL_F16, RADISH_DTYPE_F16},
                  {KERNEL_BF16, RADISH_DTYPE_BF16}};
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    for (int t = 0; t < 3; t++) {
        if (!(row->formats & dtypes[t].format)) continue;
        check_shapes(&devices, dtypes[t].dtype);
        if (!devices.ref && t) continue; /* the rest depends on the type in loads only */
        check_lengths(&devices, dtypes[t].dtype);
        check_windows(&devices, dtypes[t].dtype);
        check_soft_caps(&devices, dtypes[t].dtype);
        check_shared(&devices, dtypes[t].dtype);
    }
    check_close(&devices);
}
