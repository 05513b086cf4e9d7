/* kernel_rope.c - rope_kv_store: against double arithmetic, bit for bit across variants, threads
 * and batches, and what it must refuse or leave alone.
 *
 * Cases cover the usual shapes of heads, batches with and without a divisor, positions up to
 * 131,071, three bases, both pairings, full and partial rotation. The table is made here in double,
 * as the model does it (model/rope_table.c), so these tests see the kernel only. */
#include "base/rng.h"
#include "kernel_check.h"
#include "kernel_memory.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS_MAX = 256, SPARE_SLOTS = 5, POSITION_MAX = 131071, ROWS_CHECKED = 14 };

struct rope_case {
    const struct kernel_devices *devices;
    uint32_t n_rows, n_heads, n_kv_heads, head_dim, v_head_dim, rotary_dim;
    enum dtype dtype;
    bool is_interleaved;
    double base;
    int32_t positions[ROWS_MAX], slots[ROWS_MAX]; /* slots: -1, 0 and the last one among them */
    uint32_t n_slots;
    int32_t position_max;
    int32_t *positions_there, *slots_there; /* the same where the device reads them */
    float *table, *q, *k, *v;
    uint32_t q_stride, k_stride, v_stride;
    size_t k_bytes, v_bytes; /* of the pools */
};

struct rope_result {
    float *q, *k; /* k: scratch, nobody may look at it afterwards */
    uint8_t *k_pool, *v_pool;
};

static double pool_value(const void *pool, enum dtype dtype, size_t i) {
    float value;
    dtype_to_f32(dtype, (const uint8_t *)pool + i * dtype_block_bytes(dtype), &value, 1);
    return (double)value;
}

static void finish_step(struct device *device) {
    assert_int_equal(device->ops->step_submit(device), RADISH_OK);
    assert_int_equal(device->ops->step_wait(device), RADISH_OK);
}

static struct rope_kv_store_args make_args(const struct rope_case *c, const struct rope_result *r) {
    return (struct rope_kv_store_args){.q = r->q,
                                       .k = r->k,
                                       .v = c->v,
                                       .positions = c->positions_there,
                                       .slots = c->slots_there,
                                       .rope_table = c->table,
                                       .k_pool = r->k_pool,
                                       .v_pool = r->v_pool,
                                       .n_rows = c->n_rows,
                                       .q_stride = c->q_stride,
                                       .k_stride = c->k_stride,
                                       .v_stride = c->v_stride,
                                       .n_heads = c->n_heads,
                                       .n_kv_heads = c->n_kv_heads,
                                       .head_dim = c->head_dim,
                                       .v_head_dim = c->v_head_dim,
                                       .rotary_dim = c->rotary_dim,
                                       .n_slots = c->n_slots,
                                       .n_positions = (uint32_t)c->position_max + 1,
                                       .kv_dtype = (int32_t)c->dtype,
                                       .is_interleaved = c->is_interleaved};
}

static struct rope_result run_rope(const struct rope_case *c, struct device *device, uint32_t first,
                                   uint32_t n_rows) {
    struct rope_result out = {check_copy(c->q, (size_t)c->n_rows * c->q_stride * sizeof *c->q),
                              check_copy(c->k, (size_t)c->n_rows * c->k_stride * sizeof *c->k),
                              check_alloc(c->k_bytes), check_alloc(c->v_bytes)};
    memset(out.k_pool, 0xA5, c->k_bytes);
    memset(out.v_pool, 0x5A, c->v_bytes);
    struct rope_kv_store_args args = make_args(c, &out);
    args.q += (size_t)first * c->q_stride;
    args.k += (size_t)first * c->k_stride;
    args.v += (size_t)first * c->v_stride;
    args.positions += first;
    args.slots += first;
    args.n_rows = n_rows;
    device->ops->step_begin(device);
    device->ops->rope_kv_store(device, &args);
    finish_step(device);
    return out;
}

static void free_rope(struct rope_result *r) {
    check_free(r->q), check_free(r->k), check_free(r->k_pool), check_free(r->v_pool);
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

static void compare_q(const struct rope_case *c, const struct rope_result *r, uint32_t row,
                      const float *table) {
    double size;
    for (uint32_t i = 0; i < c->n_heads * c->head_dim; i++) {
        const size_t at = (size_t)row * c->q_stride + i;
        const double expected =
            rotated(c, c->q + at - i % c->head_dim, i % c->head_dim, table, &size);
        check_close_to((double)r->q[at], expected, c->devices->row->tolerance * size, "q", at);
    }
}

static double rounding_of(enum dtype dtype) {
    return dtype == RADISH_DTYPE_F32 ? 0 : dtype == RADISH_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
}

static void compare_pool(const struct rope_case *c, const struct rope_result *r, uint32_t row,
                         const float *table) {
    const double rounding = rounding_of(c->dtype);
    const size_t slot = (size_t)c->slots[row] * c->n_kv_heads;
    double size;
    for (uint32_t i = 0; i < c->n_kv_heads * c->head_dim; i++) {
        const float *head = c->k + (size_t)row * c->k_stride + i - i % c->head_dim;
        const double expected = rotated(c, head, i % c->head_dim, table, &size);
        const size_t at = slot * c->head_dim + i;
        check_close_to(pool_value(r->k_pool, c->dtype, at), expected,
                       c->devices->row->tolerance * size + rounding * fabs(expected) + 1e-7, "k",
                       at);
    }
    for (uint32_t i = 0; i < c->n_kv_heads * c->v_head_dim; i++) {
        const size_t at = slot * c->v_head_dim + i;
        const double expected = (double)c->v[(size_t)row * c->v_stride + i];
        check_close_to(pool_value(r->v_pool, c->dtype, at), expected,
                       rounding * fabs(expected) + (rounding > 0 ? 1e-7 : 0), "v", at);
    }
}

/* The first rows, and the last: the others are compared by their bits. */
static void compare_rope(const struct rope_case *c, const struct rope_result *r) {
    for (uint32_t row = 0; row < c->n_rows; row++) {
        if (row >= ROWS_CHECKED && row + 1 < c->n_rows) continue;
        const float *table = c->table + (size_t)c->positions[row] * c->rotary_dim;
        compare_q(c, r, row, table);
        if (c->slots[row] >= 0) compare_pool(c, r, row, table);
    }
}

static void check_untouched_slots(const struct rope_case *c, const struct rope_result *r) {
    for (uint32_t slot = 0; slot < c->n_slots; slot++) {
        bool is_named = false;
        for (uint32_t i = 0; i < c->n_rows; i++) is_named |= c->slots[i] == (int32_t)slot;
        const size_t k = c->k_bytes / c->n_slots, v = c->v_bytes / c->n_slots;
        for (size_t i = 0; i < k && !is_named; i++)
            assert_int_equal(r->k_pool[(size_t)slot * k + i], 0xA5);
        for (size_t i = 0; i < v && !is_named; i++)
            assert_int_equal(r->v_pool[(size_t)slot * v + i], 0x5A);
    }
}

static void compare_rope_bits(const struct rope_case *c, const struct rope_result *expected) {
    struct device *const devices[] = {c->devices->two, c->devices->ref};
    const size_t q_row = c->q_stride * sizeof(float);
    for (int i = 0; i < 2 && devices[i]; i++) {
        struct rope_result r = run_rope(c, devices[i], 0, c->n_rows);
        check_same_bits(r.q, expected->q, c->n_rows * q_row, "q: threads or plain C");
        check_same_bits(r.k_pool, expected->k_pool, c->k_bytes, "k: threads or plain C");
        check_same_bits(r.v_pool, expected->v_pool, c->v_bytes, "v: threads or plain C");
        free_rope(&r);
    }
    const uint32_t row = c->n_rows - 1, slot = (uint32_t)c->slots[row];
    struct rope_result alone = run_rope(c, c->devices->one, row, 1);
    const size_t k_slot = c->k_bytes / c->n_slots, v_slot = c->v_bytes / c->n_slots;
    check_same_bits((char *)alone.q + row * q_row, (char *)expected->q + row * q_row, q_row,
                    "q alone");
    check_same_bits(alone.k_pool + slot * k_slot, expected->k_pool + slot * k_slot, k_slot,
                    "k alone");
    check_same_bits(alone.v_pool + slot * v_slot, expected->v_pool + slot * v_slot, v_slot,
                    "v alone");
    free_rope(&alone);
}

/* Turning K in place and rounding it gives the pool's bits; Metal's compiler may be allowed to turn
 * with other roundings in one kernel than in the other. */
static void compare_k_rounded_once(const struct rope_case *c, const struct rope_result *expected) {
    struct rope_case turn = *c;
    turn.q = c->k;
    turn.q_stride = c->k_stride;
    turn.n_heads = c->n_kv_heads;
    turn.n_kv_heads = 0;
    struct rope_result r = run_rope(&turn, c->devices->one, 0, c->n_rows);
    for (uint32_t row = 0; row < c->n_rows; row++) {
        if (c->slots[row] < 0) continue;
        const uint32_t n = c->n_kv_heads * c->head_dim;
        const float *k = r.q + (size_t)row * c->k_stride;
        for (uint32_t i = 0; i < n; i++) {
            const size_t at = (size_t)c->slots[row] * n + i;
            const double rounded = c->dtype == RADISH_DTYPE_F32 ? (double)k[i]
                                   : c->dtype == RADISH_DTYPE_F16
                                       ? (double)dtype_f16_to_f32(dtype_f32_to_f16(k[i]))
                                       : (double)dtype_bf16_to_f32(dtype_f32_to_bf16(k[i]));
            const double unit = 2 * rounding_of(c->dtype) * fabs(rounded) + 1e-6;
            check_close_to(pool_value(expected->k_pool, c->dtype, at), rounded,
                           c->devices->ref ? 0 : unit, "k in place", at);
        }
    }
    free_rope(&r);
}

/* Positions and slots in no order; the last row, which is also run alone, has the last slot. */
static void fill_rows(struct rope_case *c) {
    const int32_t positions[] = {0, 1, 4095, c->position_max, 77, 77, 1000};
    c->n_slots = c->n_rows + SPARE_SLOTS;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        c->positions[r] = positions[(r + c->n_rows) % 7];
        c->slots[r] = (int32_t)((r * 2) % c->n_rows + (c->n_rows % 2 || r < c->n_rows / 2 ? 0 : 1));
    }
    if (c->n_rows > 2) c->slots[2] = -1;
    c->slots[c->n_rows - 1] = (int32_t)c->n_slots - 1;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        float *row = c->table + (size_t)c->positions[r] * c->rotary_dim;
        for (uint32_t d = 0; d < c->rotary_dim / 2; d++) {
            const double angle = c->positions[r] * pow(c->base, -2.0 * d / c->rotary_dim);
            row[d] = (float)cos(angle);
            row[c->rotary_dim / 2 + d] = (float)sin(angle);
        }
    }
}

static struct kernel_shape shape_of(const struct rope_case *c) {
    return (struct kernel_shape){.kv_dtype = c->dtype,
                                 .n_heads = c->n_heads,
                                 .n_kv_heads = c->n_kv_heads,
                                 .head_dim = c->head_dim,
                                 .v_head_dim = c->v_head_dim,
                                 .rotary_dim = c->rotary_dim,
                                 .is_interleaved = c->is_interleaved};
}

/* Strides are wider than the heads. */
static void check_rope(struct rope_case c) {
    const size_t elem_bytes = dtype_block_bytes(c.dtype);
    const struct kernel_shape shape = shape_of(&c);
    c.q_stride = c.n_heads * c.head_dim + 5;
    c.k_stride = c.n_kv_heads * c.head_dim + 1;
    c.v_stride = c.n_kv_heads * c.v_head_dim + 3;
    if (!c.position_max) c.position_max = POSITION_MAX;
    c.table = check_alloc(((size_t)c.position_max + 1) * c.rotary_dim * sizeof(float));
    fill_rows(&c);
    c.positions_there = check_copy(c.positions, sizeof c.positions);
    c.slots_there = check_copy(c.slots, sizeof c.slots);
    c.k_bytes = (size_t)c.n_slots * c.n_kv_heads * c.head_dim * elem_bytes;
    c.v_bytes = (size_t)c.n_slots * c.n_kv_heads * c.v_head_dim * elem_bytes;
    c.q = check_floats((size_t)c.n_rows * c.q_stride);
    c.k = check_floats((size_t)c.n_rows * c.k_stride);
    c.v = check_floats((size_t)c.n_rows * c.v_stride);
    check_fill(c.q, (size_t)c.n_rows * c.q_stride, 41, 3.0f);
    check_fill(c.k, (size_t)c.n_rows * c.k_stride, 42, 3.0f);
    check_fill(c.v, (size_t)c.n_rows * c.v_stride, 43, 3.0f);
    check_supports(c.devices->one, KERNEL_OP_ROPE_KV_STORE, &shape);

    struct rope_result r = run_rope(&c, c.devices->one, 0, c.n_rows);

    compare_rope(&c, &r);
    check_untouched_slots(&c, &r);
    compare_rope_bits(&c, &r);
    compare_k_rounded_once(&c, &r);
    free_rope(&r);
    check_free(c.v), check_free(c.k), check_free(c.q), check_free(c.table);
    check_free(c.positions_there), check_free(c.slots_there);
}

/* ---- single cases: head_dim 16, one head, no rotation to speak of ---- */

enum { SMALL_DIM = 16, SMALL_SLOTS = 4 };

struct small {
    float q[2 * SMALL_DIM], k[2 * SMALL_DIM], v[2 * SMALL_DIM], table[2 * SMALL_DIM];
    int32_t positions[2], slots[2];
    struct rope_kv_store_args args;
};

static void init_small(struct small *s, void *k_pool, void *v_pool, uint32_t n_slots) {
    *s = (struct small){.slots = {1, 2}};
    for (uint32_t i = 0; i < 2 * SMALL_DIM; i++) {
        s->table[i] = i % SMALL_DIM < SMALL_DIM / 2 ? 1.0f : 0.0f;
        s->q[i] = s->k[i] = s->v[i] = 1.0f + (float)i;
    }
    s->args = (struct rope_kv_store_args){.q = s->q,
                                          .k = s->k,
                                          .v = s->v,
                                          .positions = s->positions,
                                          .slots = s->slots,
                                          .rope_table = s->table,
                                          .k_pool = k_pool,
                                          .v_pool = v_pool,
                                          .n_rows = 2,
                                          .q_stride = SMALL_DIM,
                                          .k_stride = SMALL_DIM,
                                          .v_stride = SMALL_DIM,
                                          .n_heads = 1,
                                          .n_kv_heads = 1,
                                          .head_dim = SMALL_DIM,
                                          .v_head_dim = SMALL_DIM,
                                          .rotary_dim = SMALL_DIM,
                                          .n_slots = n_slots,
                                          .n_positions = 2,
                                          .kv_dtype = RADISH_DTYPE_F32};
}

static void run_args(struct device *device, const struct rope_kv_store_args *args) {
    device->ops->step_begin(device);
    device->ops->rope_kv_store(device, args);
    finish_step(device);
}

static void spoil_slot_past_pool(struct small *s) {
    s->slots[1] = SMALL_SLOTS;
}
static void spoil_slot_below(struct small *s) {
    s->slots[1] = -2;
}
static void spoil_position_past_table(struct small *s) {
    s->positions[1] = 2;
}
static void spoil_position_below(struct small *s) {
    s->positions[1] = -1;
}
static void spoil_q_stride(struct small *s) {
    s->args.q_stride = SMALL_DIM - 1;
}
static void spoil_k_stride(struct small *s) {
    s->args.k_stride = SMALL_DIM - 1;
}
static void spoil_v_stride(struct small *s) {
    s->args.v_stride = SMALL_DIM - 1;
}
static void spoil_rotary_dim(struct small *s) {
    s->args.rotary_dim = SMALL_DIM + 2;
}
static void spoil_rotary_parity(struct small *s) {
    s->args.rotary_dim = SMALL_DIM - 1;
}
static void spoil_dtype(struct small *s) {
    s->args.kv_dtype = RADISH_DTYPE_Q8_0;
}

/* The process stops, and has written to no slot by then: not to that of the good row either. */
static void check_refused(struct device *device, void (*spoil)(struct small *s), int which) {
    const size_t bytes = 2 * SMALL_SLOTS * SMALL_DIM * sizeof(float);
    float *pools =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, 0);
    assert_true(pools != MAP_FAILED);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        signal(SIGABRT, SIG_DFL);
        struct small s;
        init_small(&s, pools, pools + SMALL_SLOTS * SMALL_DIM, SMALL_SLOTS);
        spoil(&s);
        device->ops->step_begin(device);
        device->ops->rope_kv_store(device, &s.args);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("wrong arguments %d did not abort", which);
    for (size_t i = 0; i < bytes / sizeof *pools; i++)
        if (pools[i] > 0 || pools[i] < 0) fail_msg("wrong arguments %d: slots written", which);
    munmap(pools, bytes);
}

static void check_refusals(struct device *device) {
    static void (*const spoilers[])(struct small *) = {
        spoil_slot_past_pool, spoil_slot_below, spoil_position_past_table,
        spoil_position_below, spoil_q_stride,   spoil_k_stride,
        spoil_v_stride,       spoil_rotary_dim, spoil_rotary_parity,
        spoil_dtype,
    };
    for (int i = 0; i < (int)(sizeof spoilers / sizeof *spoilers); i++)
        check_refused(device, spoilers[i], i);
}

static void check_no_rows(struct device *device) {
    const struct rope_kv_store_args none = {.n_rows = 0};
    run_args(device, &none);
}

/* NaN, infinities, denormals, halfway cases and random bits reach the pool as dtype.h rounds. */
static void check_rounding(struct device *device, enum dtype dtype) {
    static const uint32_t edges[] = {0x7fc00001, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000,
                                     0x00000001, 0x80000000, 0x007fffff, 0x7f7fffff, 0x3f808000,
                                     0x3f818000, 0x3f801000, 0x3f803000, 0x477ff000, 0x33000000,
                                     0x33000001, 0x387fc000, 0x7fffffff};
    enum { N_EDGES = sizeof edges / sizeof *edges, N_RUNS = 200 };
    float k_pool[SMALL_SLOTS * SMALL_DIM], v_pool[SMALL_SLOTS * SMALL_DIM];
    struct small s;
    for (uint32_t run = 0; run < N_RUNS; run++) {
        init_small(&s, k_pool, v_pool, SMALL_SLOTS);
        s.args.kv_dtype = (int32_t)dtype;
        s.args.v_head_dim = 1 + run % SMALL_DIM; /* tails of every length */
        for (uint32_t i = 0; i < 2 * SMALL_DIM; i++) {
            const uint32_t at = run * 2 * SMALL_DIM + i;
            const uint32_t bits =
                at < N_EDGES ? edges[at] : (uint32_t)rng_u64(check_seed() + 77, at);
            memcpy(&s.v[i], &bits, sizeof bits);
        }
        run_args(device, &s.args);
        for (uint32_t i = 0; i < s.args.v_head_dim; i++) {
            const size_t at = 1 * s.args.v_head_dim + i;
            const uint16_t half =
                dtype == RADISH_DTYPE_F16 ? dtype_f32_to_f16(s.v[i]) : dtype_f32_to_bf16(s.v[i]);
            check_same_bits((const uint16_t *)(const void *)v_pool + at, &half, 2, "rounding of v");
        }
    }
}

/* Slot * KV heads * head_dim past 2^32: the pool is address space, of which two slots are used. */
static void check_large_pool(struct device *device) {
    const size_t n_slots = (1u << 28) + 3, bytes = n_slots * SMALL_DIM * sizeof(float);
    char *pools = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (pools == MAP_FAILED) {
        print_message("no address space for a pool of 2^32 elements: not tested\n");
        return;
    }
    struct small s;
    init_small(&s, pools, pools + bytes, (uint32_t)n_slots);
    s.slots[0] = (int32_t)n_slots - 1;
    s.slots[1] = -1;
    run_args(device, &s.args);
    const size_t last = (n_slots - 1) * SMALL_DIM * sizeof(float), wrapped = last % (1ull << 34);
    check_same_bits(pools + last, s.v, sizeof s.v / 2, "k of the last slot"); /* k is v, unturned */
    check_same_bits(pools + bytes + last, s.v, sizeof s.v / 2, "v of the last slot");
    for (size_t i = 0; i < sizeof s.v / 2; i++) {
        assert_int_equal(pools[wrapped + i], 0);
        assert_int_equal(pools[bytes + wrapped + i], 0);
    }
    munmap(pools, 2 * bytes);
}

/* ---- all of it ---- */

static void check_shapes(const struct kernel_devices *devices) {
    static const uint32_t dims[] = {16, 64, 80, 96, 128, 256};
    static const uint32_t heads[][2] = {{32, 8}, {16, 8}, {16, 2}, {14, 2}};
    static const uint32_t rows[] = {1, 2, 7, 8, 11, 13};
    static const enum dtype dtypes[] = {RADISH_DTYPE_F32, RADISH_DTYPE_F16, RADISH_DTYPE_BF16};
    static const double bases[] = {1e4, 5e5, 1e6};
    const bool is_short = check_is_short() || !devices->ref;
    for (uint32_t i = 0; i < 6 * 4 * 3; i += is_short ? 5 : 1) {
        const uint32_t d = i / 12, h = i / 3 % 4, t = i % 3;
        struct rope_case c = {.devices = devices,
                              .n_rows = rows[(d + 2 * h + t) % 6],
                              .n_heads = heads[h][0],
                              .n_kv_heads = heads[h][1],
                              .head_dim = dims[d],
                              .v_head_dim = dims[d],
                              .rotary_dim = dims[d],
                              .dtype = dtypes[t],
                              .base = bases[(d + h + t) % 3],
                              .position_max = i % 11 ? 5000 : POSITION_MAX};
        check_rope(c);
        if (h != 0 && h != 3) continue;
        c.is_interleaved = true;
        check_rope(c);
        c.rotary_dim = dims[d] / 4 * 2 - (h ? 2 : 0); /* partial, both pairings, tails */
        check_rope(c);
        c.is_interleaved = false;
        c.v_head_dim = dims[d] / 2;
        check_rope(c);
    }
}

static void check_batches(const struct kernel_devices *devices) {
    static const uint32_t rows[] = {1, 2, 7, 8, 11, 13, 256};
    for (int i = 0; i < 7; i++) {
        const struct rope_case c = {.devices = devices,
                                    .n_rows = rows[i],
                                    .n_heads = 16,
                                    .n_kv_heads = 8,
                                    .head_dim = 128,
                                    .v_head_dim = 128,
                                    .rotary_dim = 128,
                                    .dtype = RADISH_DTYPE_BF16,
                                    .base = 1e6};
        check_rope(c);
    }
}

/* What stops on the CPU a GPU passes over (tests/metal/test_metal_rope.c). */
void check_rope_kv_store(const struct kernel_row *row) {
    struct kernel_devices devices;
    check_open(row, RADISH_PRECISION_FAST, &devices);
    if (row->family == KERNEL_FAMILY_METAL) {
        check_shapes(&devices);
        check_close(&devices);
        return;
    }
    check_shapes(&devices);
    check_batches(&devices);
    check_refusals(devices.one);
    check_no_rows(devices.two);
    check_rounding(devices.one, RADISH_DTYPE_F16);
    check_rounding(devices.one, RADISH_DTYPE_BF16);
    check_large_pool(devices.one);
    check_close(&devices);
}
