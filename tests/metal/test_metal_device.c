/* test_metal_device.c - what the Metal device does around its kernels: memory, views of mapped
 * files, weights in them, barriers, and steps that the system ends.
 *
 * Runs on the stand-in, whose environment makes buffers short, allocations fail and command buffers
 * end with status 5; it counts hazards and wrong use, and ends this program with a failure when
 * there were any. */
#include "test.h"

#include "base/file_map.h"
#include "kernel/kernel.h"
#include "metal_device.h"
#include "stand_in.h"
#include "tensor/quantise.h"

#include <unistd.h>

enum { WIDTH = 64, N_ROWS = 40, N_MATRICES = 12, ROWS_MAX = 64, KV_LEN_MAX = 128 };

static char path[] = "/tmp/radish-test-metal-XXXXXX";
static float *contents; /* of the file: N_MATRICES matrices, 12 bytes apart */
enum { MATRIX_BYTES = N_ROWS * WIDTH * 4, MATRIX_STRIDE = MATRIX_BYTES + 12 };

static float value_of(uint32_t matrix, uint32_t i) {
    return (float)((matrix * 7919 + i * 31) % 2003) / 1024 - 1;
}

static int set_up(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    contents = calloc(N_MATRICES, MATRIX_STRIDE);
    if (!f || !contents) return -1;
    for (uint32_t m = 0; m < N_MATRICES; m++)
        for (uint32_t i = 0; i < N_ROWS * WIDTH; i++)
            contents[m * (MATRIX_STRIDE / 4) + i] = value_of(m, i);
    const bool is_written = fwrite(contents, MATRIX_STRIDE, N_MATRICES, f) == N_MATRICES;
    return fclose(f) == 0 && is_written ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    free(contents);
    return unlink(path);
}

/* Each test sets the stand-in up as it needs it. */
static int reset(void **state) {
    static const char *const names[] = {"MTL_SIM_FAIL", "MTL_SIM_ALLOC_FAIL", "MTL_SIM_BEGIN_FAIL",
                                        "MTL_SIM_BUFFER_MAX", "MTL_SIM_WORKING_SET"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    stand_in_reset();
    return 0;
}

static void set(const char *name, const char *value) {
    assert_int_equal(setenv(name, value, 1), 0);
    stand_in_reset();
}

static int check_clean(void **state) {
    (void)state;
    assert_int_equal(stand_in_faults(), 0);
    assert_int_equal(stand_in_hazards(), 0);
    assert_int_equal(stand_in_objects_alive(), 0);
    return 0;
}

static struct device *open_device(void) {
    const struct device_options options = {.n_threads = 1};
    struct radish_error err = {0};
    struct device *device;
    if (device_open("metal-sim", &options, &device, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return device;
}

static void reserve(struct device *d) {
    struct radish_error err = {0};
    if (d->ops->scratch_reserve(d, ROWS_MAX, WIDTH * 2, KV_LEN_MAX, &err) != RADISH_OK)
        fail_msg("%s", err.msg);
}

static void *allocate(struct device *d, size_t bytes) {
    struct radish_error err = {0};
    void *address;
    if (d->ops->mem_alloc(d, bytes, &address, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return address;
}

static struct weight *create(struct device *d, const void *data, bool is_multiplied) {
    const struct weight_desc desc = {.name = "matrix",
                                     .dtype = RADISH_DTYPE_F32,
                                     .n_out = N_ROWS,
                                     .n_in = WIDTH,
                                     .data = data,
                                     .is_gathered = !is_multiplied,
                                     .is_multiplied = is_multiplied};
    struct radish_error err = {0};
    struct weight *w;
    if (d->ops->weight_create(d, &desc, &w, &err) != RADISH_OK) fail_msg("%s", err.msg);
    return w;
}

/* Gathers all rows of a matrix and compares them with what the file has. */
static void check_rows(struct device *d, const struct weight *w, const float *expected) {
    int32_t *ids = allocate(d, N_ROWS * sizeof *ids);
    float *out = allocate(d, MATRIX_BYTES);
    for (int32_t i = 0; i < N_ROWS; i++) ids[i] = N_ROWS - 1 - i;
    d->ops->step_begin(d);
    d->ops->embed(d, &(struct embed_args){.w = w,
                                          .token_ids = ids,
                                          .out = out,
                                          .n_rows = N_ROWS,
                                          .out_stride = WIDTH,
                                          .scale = 1});
    assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    assert_int_equal(d->ops->step_wait(d), RADISH_OK);
    for (uint32_t r = 0; r < N_ROWS; r++)
        assert_memory_equal(out + r * WIDTH, expected + (N_ROWS - 1 - r) * WIDTH, WIDTH * 4);
    d->ops->mem_free(d, out, MATRIX_BYTES);
    d->ops->mem_free(d, ids, N_ROWS * sizeof *ids);
}

/* ---- memory ---- */

static void test_memory_is_zeroed_and_counted_against_the_working_set(void **state) {
    (void)state;
    struct radish_error err = {0};
    void *address;
    set("MTL_SIM_WORKING_SET", "1000000");
    struct device *d = open_device();
    assert_int_equal(d->ops->memory_available(d), 1000000);

    unsigned char *block = allocate(d, 100000);

    for (size_t i = 0; i < 100000; i++) assert_int_equal(block[i], 0);
    assert_int_equal((uintptr_t)block % 64, 0);
    assert_int_equal(d->ops->memory_available(d), 900000);
    d->ops->mem_free(d, block, 100000);
    assert_int_equal(d->ops->memory_available(d), 1000000);
    assert_int_equal(d->ops->mem_alloc(d, 0, &address, &err), RADISH_OK);
    d->ops->mem_free(d, address, 0);
    device_close(d);
}

static void test_more_than_a_buffer_holds_is_refused_with_the_limit(void **state) {
    (void)state;
    struct radish_error err = {0};
    void *address;
    set("MTL_SIM_BUFFER_MAX", "65536");
    struct device *d = open_device();

    assert_int_equal(d->ops->mem_alloc(d, 65537, &address, &err), RADISH_E_NOMEM);

    assert_null(address);
    assert_non_null(strstr(err.msg, "maxBufferLength"));
    address = allocate(d, 65536);
    d->ops->mem_free(d, address, 65536);
    device_close(d);
}

static void test_an_allocation_that_fails_leaves_nothing_behind(void **state) {
    (void)state;
    for (int k = 1; k <= 3; k++) {
        char n[8];
        struct radish_error err = {0};
        void *blocks[3];
        snprintf(n, sizeof n, "%d", k);
        set("MTL_SIM_ALLOC_FAIL", n);
        struct device *d = open_device();
        const uint64_t before = d->ops->memory_available(d);
        for (int i = 0; i < 3; i++) {
            const enum radish_status status = d->ops->mem_alloc(d, 20000, &blocks[i], &err);
            assert_int_equal(status, i + 1 == k ? RADISH_E_NOMEM : RADISH_OK);
        }
        for (int i = 0; i < 3; i++) d->ops->mem_free(d, blocks[i], 20000);
        assert_int_equal(d->ops->memory_available(d), before);
        device_close(d);
    }
}

/* ---- weights ---- */

static void test_weights_stay_in_views_that_overlap(void **state) {
    (void)state;
    struct file_map map;
    struct weight *weights[N_MATRICES];
    struct radish_error err = {0};
    set("MTL_SIM_BUFFER_MAX", "65536");
    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    struct device *d = open_device();

    assert_int_equal(d->ops->host_map(d, map.data, map.size, MATRIX_BYTES, &err), RADISH_OK);

    const struct metal_device *metal = metal_of(d);
    assert_in_range(metal->n_regions, 3, 8);
    const uint64_t before = d->ops->memory_available(d);
    for (uint32_t m = 0; m < N_MATRICES; m++) {
        const uint8_t *data = map.data + m * MATRIX_STRIDE;
        weights[m] = create(d, data, /*is_multiplied=*/false);
        assert_ptr_equal(weights[m]->data, data);
        assert_true(d->ops->weight_is_mapped(d, weights[m]));
    }
    assert_int_equal(before - d->ops->memory_available(d), N_MATRICES * MATRIX_BYTES);
    for (uint32_t m = 0; m < N_MATRICES; m++)
        check_rows(d, weights[m], contents + m * (MATRIX_STRIDE / 4));
    for (uint32_t m = 0; m < N_MATRICES; m++) d->ops->weight_destroy(d, weights[m]);
    assert_int_equal(d->ops->memory_available(d), before);
    device_close(d);
    file_map_close(&map);
}

static void test_a_matrix_longer_than_a_buffer_is_refused(void **state) {
    (void)state;
    struct file_map map;
    struct radish_error err = {0};
    set("MTL_SIM_BUFFER_MAX", "65536");
    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    struct device *d = open_device();

    assert_int_equal(d->ops->host_map(d, map.data, map.size, 65536, &err), RADISH_E_NOMEM);

    assert_non_null(strstr(err.msg, "maxBufferLength"));
    device_close(d);
    file_map_close(&map);
}

static void test_what_lies_crooked_or_outside_of_the_file_is_copied(void **state) {
    (void)state;
    struct file_map map;
    struct radish_error err = {0};
    float *shifted = calloc(1, MATRIX_BYTES);
    assert_non_null(shifted);
    assert_int_equal(file_map_open(path, &map, NULL), RADISH_OK);
    struct device *d = open_device();
    assert_int_equal(d->ops->host_map(d, map.data, map.size, MATRIX_BYTES, &err), RADISH_OK);

    struct weight *crooked = create(d, map.data + 2, false), *heap = create(d, contents, false);

    memcpy(shifted, map.data + 2, MATRIX_BYTES);
    assert_false(d->ops->weight_is_mapped(d, crooked));
    assert_false(d->ops->weight_is_mapped(d, heap));
    assert_ptr_not_equal(heap->data, contents);
    check_rows(d, heap, contents);
    assert_memory_equal(crooked->data, shifted, MATRIX_BYTES);
    d->ops->weight_destroy(d, crooked);
    d->ops->weight_destroy(d, heap);
    device_close(d);
    file_map_close(&map);
    free(shifted);
}

static void test_weights_quantised_here_are_those_of_the_quantiser(void **state) {
    (void)state;
    uint8_t expected[WIDTH / 32 * 34];
    float row[WIDTH];
    struct radish_error err = {0};
    struct weight *w;
    struct device *d = open_device();
    struct weight_desc desc = {.name = "matrix",
                               .dtype = RADISH_DTYPE_Q8_0,
                               .data_dtype = RADISH_DTYPE_F32,
                               .is_quantised_here = true,
                               .n_out = N_ROWS,
                               .n_in = WIDTH,
                               .data = contents,
                               .is_multiplied = true};

    if (d->ops->weight_create(d, &desc, &w, &err) != RADISH_OK) fail_msg("%s", err.msg);

    assert_int_equal(w->bytes, d->ops->weight_bytes(d, &desc));
    for (uint32_t r = 0; r < N_ROWS; r++) {
        assert_true(quantise_row(RADISH_DTYPE_Q8_0, contents + r * WIDTH, WIDTH, expected));
        assert_memory_equal(w->data + r * w->row_bytes, expected, sizeof expected);
    }
    d->ops->weight_destroy(d, w);
    memcpy(row, contents, sizeof row);
    row[5] = 1.0f / 0.0f;
    desc.data = row;
    desc.n_out = 1;
    assert_int_equal(d->ops->weight_create(d, &desc, &w, &err), RADISH_E_UNSUPPORTED);
    assert_null(w);
    device_close(d);
}

static void test_what_no_kernel_reads_is_refused_by_name(void **state) {
    (void)state;
    struct device *d = open_device();
    struct kernel_shape shape = {.weight_dtype = RADISH_DTYPE_I32,
                                 .kv_dtype = RADISH_DTYPE_F16,
                                 .n_out = 16,
                                 .n_in = 64,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 64,
                                 .v_head_dim = 64,
                                 .rotary_dim = 64};
    char reason[160];
    assert_false(d->ops->supports(d, KERNEL_OP_MATMUL, &shape, reason, sizeof reason));
    assert_non_null(strstr(reason, "I32"));
    shape.weight_dtype = RADISH_DTYPE_BF16;
    for (enum kernel_op op = 0; op < KERNEL_OP_COUNT; op++) {
        const bool is_cpus = op == KERNEL_OP_PREPARE;
        const bool is_there = d->ops->supports(d, op, &shape, reason, sizeof reason);
        if (is_there == is_cpus) fail_msg("%s: %s", kernel_op_name(op), reason);
    }
    assert_non_null(strstr(device_kernels(d), "rope_kv_store=kv_f32_rope_kv_store__metal"));
    assert_non_null(strstr(device_bit_class(d), "metal-sim"));
    device_close(d);
}

static void test_kernels_are_forced_by_variant_and_others_are_refused(void **state) {
    (void)state;
    static const char *const unfused = "rope_kv_store=unfused", *const others = "matmul=ref";
    const struct device_options forced = {.n_threads = 1, .kernels = &unfused, .n_kernels = 1};
    const struct device_options refused = {.n_threads = 1, .kernels = &others, .n_kernels = 1};
    struct radish_error err = {0};
    struct device *d;

    assert_int_equal(device_open("metal-sim", &forced, &d, &err), RADISH_OK);
    assert_non_null(strstr(device_kernels(d), "=kv_f32_rope_kv_store__metal_unfused"));
    assert_non_null(strstr(device_kernels_report(d), "forced by --kernel"));
    device_close(d);

    assert_int_equal(device_open("metal-sim", &refused, &d, &err), RADISH_E_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(err.msg, "this device has metal"));
    assert_int_equal(device_open("cpu", &refused, &d, &err), RADISH_OK);
    device_close(d);
}

/* ---- a layer ---- */

struct layer {
    struct weight *q, *k, *v, *o, *gate, *up, *down;
    float *x, *h, *qx, *kx, *vx, *attn, *gate_x, *up_x, *norm, *table;
    int32_t *positions, *slots;
    uint8_t *k_pool, *v_pool;
};

enum { HEADS = 4, KV_HEADS = 2, HEAD_DIM = 10, FFN = 40, TOKENS = 3, N_SLOTS = 9 };

static struct weight *make_matrix(struct device *d, uint32_t seed, uint32_t n_out, uint32_t n_in) {
    float *data = calloc(n_out, n_in * sizeof *data);
    struct weight *w;
    struct radish_error err = {0};
    assert_non_null(data);
    for (uint32_t i = 0; i < n_out * n_in; i++) data[i] = value_of(seed, i) / 8;
    const struct weight_desc desc = {.name = "matrix",
                                     .dtype = RADISH_DTYPE_F32,
                                     .n_out = n_out,
                                     .n_in = n_in,
                                     .data = data,
                                     .is_multiplied = true};
    if (d->ops->weight_create(d, &desc, &w, &err) != RADISH_OK) fail_msg("%s", err.msg);
    free(data);
    return w;
}

static float *make_rows(struct device *d, uint32_t seed, uint32_t n) {
    float *x = allocate(d, n * sizeof *x);
    for (uint32_t i = 0; i < n; i++) x[i] = value_of(seed, i);
    return x;
}

static void ask(struct device *d, enum kernel_op op, const struct kernel_shape *shape) {
    char reason[160];
    if (!d->ops->supports(d, op, shape, reason, sizeof reason)) fail_msg("%s", reason);
}

static void make_layer(struct device *d, struct layer *l) {
    const struct kernel_shape shape = {.kv_dtype = RADISH_DTYPE_F32,
                                       .n_in = WIDTH,
                                       .n_heads = HEADS,
                                       .n_kv_heads = KV_HEADS,
                                       .head_dim = HEAD_DIM,
                                       .v_head_dim = HEAD_DIM,
                                       .rotary_dim = HEAD_DIM};
    static const enum kernel_op ops[] = {KERNEL_OP_RMSNORM, KERNEL_OP_SILU_MUL,
                                         KERNEL_OP_ROPE_KV_STORE, KERNEL_OP_ATTENTION};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) ask(d, ops[i], &shape);
    l->q = make_matrix(d, 1, HEADS * HEAD_DIM, WIDTH);
    l->k = make_matrix(d, 2, KV_HEADS * HEAD_DIM, WIDTH);
    l->v = make_matrix(d, 3, KV_HEADS * HEAD_DIM, WIDTH);
    l->o = make_matrix(d, 4, WIDTH, HEADS * HEAD_DIM);
    l->gate = make_matrix(d, 5, FFN, WIDTH);
    l->up = make_matrix(d, 6, FFN, WIDTH);
    l->down = make_matrix(d, 7, WIDTH, FFN);
    l->x = make_rows(d, 8, TOKENS * WIDTH);
    l->norm = make_rows(d, 9, WIDTH);
    l->table = make_rows(d, 10, N_SLOTS * HEAD_DIM);
    l->h = allocate(d, TOKENS * WIDTH * 4);
    l->qx = allocate(d, TOKENS * HEADS * HEAD_DIM * 4);
    l->kx = allocate(d, TOKENS * KV_HEADS * HEAD_DIM * 4);
    l->vx = allocate(d, TOKENS * KV_HEADS * HEAD_DIM * 4);
    l->attn = allocate(d, TOKENS * HEADS * HEAD_DIM * 4);
    l->gate_x = allocate(d, TOKENS * FFN * 4);
    l->up_x = allocate(d, TOKENS * FFN * 4);
    l->positions = allocate(d, TOKENS * sizeof *l->positions);
    l->slots = allocate(d, TOKENS * sizeof *l->slots);
    l->k_pool = allocate(d, N_SLOTS * KV_HEADS * HEAD_DIM * 4);
    l->v_pool = allocate(d, N_SLOTS * KV_HEADS * HEAD_DIM * 4);
    for (int32_t i = 0; i < TOKENS; i++) {
        l->positions[i] = i;
        l->slots[i] = 7 - 2 * i;
    }
}

static void multiply(struct device *d, const struct weight *w, const float *x, float *y,
                     bool accumulate) {
    d->ops->matmul(d, &(struct matmul_args){.w = w,
                                            .x = x,
                                            .y = y,
                                            .n_rows = TOKENS,
                                            .x_stride = w->n_in,
                                            .y_stride = w->n_out,
                                            .accumulate = accumulate});
}

static void normalise(struct device *d, const struct layer *l) {
    d->ops->rmsnorm(d, &(struct rmsnorm_args){.x = l->x,
                                              .w = l->norm,
                                              .y = l->h,
                                              .n_rows = TOKENS,
                                              .width = WIDTH,
                                              .x_stride = WIDTH,
                                              .y_stride = WIDTH,
                                              .eps = 1e-5f});
}

static void run_layer(struct device *d, const struct layer *l) {
    static const uint32_t slots[TOKENS] = {7, 5, 3};
    static const struct attention_seq seq = {.n_rows = TOKENS, .kv_len = TOKENS, .slots = slots};
    normalise(d, l);
    multiply(d, l->q, l->h, l->qx, false);
    multiply(d, l->k, l->h, l->kx, false);
    multiply(d, l->v, l->h, l->vx, false);
    d->ops->rope_kv_store(d, &(struct rope_kv_store_args){.q = l->qx,
                                                          .k = l->kx,
                                                          .v = l->vx,
                                                          .positions = l->positions,
                                                          .slots = l->slots,
                                                          .rope_table = l->table,
                                                          .k_pool = l->k_pool,
                                                          .v_pool = l->v_pool,
                                                          .n_rows = TOKENS,
                                                          .q_stride = HEADS * HEAD_DIM,
                                                          .k_stride = KV_HEADS * HEAD_DIM,
                                                          .v_stride = KV_HEADS * HEAD_DIM,
                                                          .n_heads = HEADS,
                                                          .n_kv_heads = KV_HEADS,
                                                          .head_dim = HEAD_DIM,
                                                          .v_head_dim = HEAD_DIM,
                                                          .rotary_dim = HEAD_DIM,
                                                          .n_slots = N_SLOTS,
                                                          .n_positions = N_SLOTS,
                                                          .kv_dtype = RADISH_DTYPE_F32});
    d->ops->attention(d, &(struct attention_args){.q = l->qx,
                                                  .out = l->attn,
                                                  .k_pool = l->k_pool,
                                                  .v_pool = l->v_pool,
                                                  .seqs = &seq,
                                                  .n_seqs = 1,
                                                  .q_stride = HEADS * HEAD_DIM,
                                                  .out_stride = HEADS * HEAD_DIM,
                                                  .n_heads = HEADS,
                                                  .n_kv_heads = KV_HEADS,
                                                  .head_dim = HEAD_DIM,
                                                  .v_head_dim = HEAD_DIM,
                                                  .n_slots = N_SLOTS,
                                                  .kv_dtype = RADISH_DTYPE_F32,
                                                  .scale = 0.3f});
    multiply(d, l->o, l->attn, l->x, true);
    normalise(d, l);
    multiply(d, l->gate, l->h, l->gate_x, false);
    multiply(d, l->up, l->h, l->up_x, false);
    d->ops->silu_mul(d, &(struct silu_mul_args){.gate = l->gate_x,
                                                .up = l->up_x,
                                                .out = l->gate_x,
                                                .n_rows = TOKENS,
                                                .width = FFN,
                                                .in_stride = FFN,
                                                .out_stride = FFN});
    multiply(d, l->down, l->gate_x, l->x, true);
}

static void free_layer(struct device *d, struct layer *l) {
    struct weight *weights[] = {l->q, l->k, l->v, l->o, l->gate, l->up, l->down};
    const struct {
        void *address;
        size_t floats;
    } blocks[] = {{l->x, TOKENS * WIDTH},
                  {l->norm, WIDTH},
                  {l->table, N_SLOTS * HEAD_DIM},
                  {l->h, TOKENS * WIDTH},
                  {l->qx, TOKENS * HEADS * HEAD_DIM},
                  {l->kx, TOKENS * KV_HEADS * HEAD_DIM},
                  {l->vx, TOKENS * KV_HEADS * HEAD_DIM},
                  {l->attn, TOKENS * HEADS * HEAD_DIM},
                  {l->gate_x, TOKENS * FFN},
                  {l->up_x, TOKENS * FFN},
                  {l->positions, TOKENS},
                  {l->slots, TOKENS},
                  {l->k_pool, N_SLOTS * KV_HEADS * HEAD_DIM},
                  {l->v_pool, N_SLOTS * KV_HEADS * HEAD_DIM}};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        d->ops->weight_destroy(d, weights[i]);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        d->ops->mem_free(d, blocks[i].address, blocks[i].floats * 4);
}

/* x after the layer; what is where it was before is made again. */
static enum radish_status compute_layer(struct device *d, const struct layer *l, float *x_out) {
    for (uint32_t i = 0; i < TOKENS * WIDTH; i++) l->x[i] = value_of(8, i);
    d->ops->step_begin(d);
    run_layer(d, l);
    assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    const enum radish_status status = d->ops->step_wait(d);
    d->ops->download(d, x_out, l->x, TOKENS * WIDTH * sizeof *x_out);
    return status;
}

static void test_a_layer_has_a_barrier_where_one_is_needed_and_no_other(void **state) {
    (void)state;
    struct layer l;
    float x[TOKENS * WIDTH];
    struct stand_in_counts counts;
    struct device *d = open_device();
    struct metal_device *metal = metal_of(d);
    reserve(d);
    make_layer(d, &l);

    assert_int_equal(compute_layer(d, &l, x), RADISH_OK);

    /* norm | q k v | rope x 3 | attention | o | norm | gate up | silu | down */
    assert_int_equal(metal->n_barriers, 8);
    const uint64_t n_dispatches = metal->n_dispatches;
    assert_int_equal(compute_layer(d, &l, x), RADISH_OK);
    assert_int_equal(metal->n_barriers, 16);
    assert_int_equal(metal->n_dispatches, 2 * n_dispatches);
    stand_in_counts(&counts);
    assert_int_equal(counts.barriers, 16);
    assert_int_equal(counts.commands, 2); /* one a step */
    assert_int_equal(counts.dispatches, 2 * n_dispatches);
    free_layer(d, &l);
    device_close(d);
}

static void normalise_rows(struct device *d, const float *w, const float *x, float *y) {
    d->ops->rmsnorm(d, &(struct rmsnorm_args){.x = x,
                                              .w = w,
                                              .y = y,
                                              .n_rows = TOKENS,
                                              .width = WIDTH,
                                              .x_stride = WIDTH,
                                              .y_stride = WIDTH,
                                              .eps = 1e-5f});
}

static void test_ranges_that_meet_have_a_barrier_between_them(void **state) {
    (void)state;
    enum { ROWS = TOKENS * WIDTH };
    struct device *d = open_device();
    struct metal_device *metal = metal_of(d);
    reserve(d);
    ask(d, KERNEL_OP_RMSNORM, &(struct kernel_shape){.n_in = WIDTH});
    float *w = allocate(d, WIDTH * sizeof *w), *a = allocate(d, 5 * ROWS * sizeof *a);
    for (uint32_t i = 0; i < WIDTH; i++) w[i] = 1;
    for (uint32_t i = 0; i < ROWS; i++) a[i] = a[3 * ROWS + i] = 1 + (float)i;
    d->ops->step_begin(d);
    normalise_rows(d, w, a, a + ROWS);     /* reads 0, writes 1 */
    normalise_rows(d, w, a, a + 2 * ROWS); /* reads 0, writes 2: apart */
    assert_int_equal(metal->n_barriers, 0);
    normalise_rows(d, w, a + 3 * ROWS, a); /* writes 0, which is read */
    assert_int_equal(metal->n_barriers, 1);
    normalise_rows(d, w, a + 3 * ROWS, a + ROWS); /* apart: 0 and 1 */
    assert_int_equal(metal->n_barriers, 1);
    normalise_rows(d, w, a + 2 * ROWS - WIDTH, a + 4 * ROWS); /* reads the end of 1 */
    assert_int_equal(metal->n_barriers, 2);
    assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    assert_int_equal(d->ops->step_wait(d), RADISH_OK);
    assert_memory_equal(a, a + ROWS, ROWS * sizeof *a); /* both of the same rows */
    d->ops->mem_free(d, a, 5 * ROWS * sizeof *a);
    d->ops->mem_free(d, w, WIDTH * sizeof *w);
    device_close(d);
}

/* ---- steps that the system ends ---- */

/* The layer as it comes out when nothing fails. */
static void compute_expected(float *x_out) {
    struct layer l;
    struct device *d = open_device();
    reserve(d);
    make_layer(d, &l);
    assert_int_equal(compute_layer(d, &l, x_out), RADISH_OK);
    free_layer(d, &l);
    device_close(d);
}

static void test_a_step_that_was_ended_runs_in_smaller_pieces_to_the_same_result(void **state) {
    (void)state;
    struct layer l;
    float expected[TOKENS * WIDTH], x[TOKENS * WIDTH];
    struct stand_in_counts counts;
    compute_expected(expected);
    set("MTL_SIM_FAIL", "1");
    struct device *d = open_device();
    struct metal_device *metal = metal_of(d);
    reserve(d);
    make_layer(d, &l);

    assert_int_equal(compute_layer(d, &l, x), RADISH_AGAIN);
    assert_int_equal(metal_shrink(metal), 1);
    assert_int_equal(compute_layer(d, &l, x), RADISH_OK);

    assert_memory_equal(x, expected, sizeof x);
    stand_in_counts(&counts);
    assert_in_range(counts.commands, 3, 6);
    assert_int_equal(compute_layer(d, &l, x), RADISH_OK);
    assert_memory_equal(x, expected, sizeof x);
    free_layer(d, &l);
    device_close(d);
}

static void test_what_was_submitted_behind_an_ended_step_is_to_be_done_again(void **state) {
    (void)state;
    struct layer l;
    float expected[TOKENS * WIDTH], x[TOKENS * WIDTH];
    compute_expected(expected);
    set("MTL_SIM_FAIL", "1");
    struct device *d = open_device();
    reserve(d);
    make_layer(d, &l);
    for (int i = 0; i < 2; i++) {
        d->ops->step_begin(d);
        run_layer(d, &l);
        assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    }

    assert_int_equal(d->ops->step_wait(d), RADISH_AGAIN);
    assert_int_equal(d->ops->step_wait(d), RADISH_AGAIN);

    assert_int_equal(metal_shrink(metal_of(d)), 1); /* one failure is one halving */
    assert_int_equal(compute_layer(d, &l, x), RADISH_OK);
    assert_memory_equal(x, expected, sizeof x);
    free_layer(d, &l);
    device_close(d);
}

static void test_a_device_that_always_ends_steps_fails_for_good(void **state) {
    (void)state;
    struct layer l;
    float x[TOKENS * WIDTH];
    set("MTL_SIM_FAIL", "1:2:0");
    struct device *d = open_device();
    reserve(d);
    make_layer(d, &l);

    int n_again = 0;
    enum radish_status status;
    while ((status = compute_layer(d, &l, x)) == RADISH_AGAIN) assert_in_range(++n_again, 1, 6);

    assert_int_equal(status, RADISH_E_INTERNAL);
    assert_int_equal(n_again, METAL_SHRINKS_MAX);
    assert_int_equal(compute_layer(d, &l, x), RADISH_E_INTERNAL);
    free_layer(d, &l);
    device_close(d);
}

static void test_another_failure_is_the_end_of_the_device(void **state) {
    (void)state;
    struct layer l;
    float x[TOKENS * WIDTH];
    set("MTL_SIM_FAIL", "1:9");
    struct device *d = open_device();
    reserve(d);
    make_layer(d, &l);

    assert_int_equal(compute_layer(d, &l, x), RADISH_E_INTERNAL);

    assert_int_equal(metal_shrink(metal_of(d)), 0);
    assert_int_equal(compute_layer(d, &l, x), RADISH_E_INTERNAL);
    free_layer(d, &l);
    device_close(d);
}

static void test_a_step_without_a_command_buffer_fails_and_does_not_hang(void **state) {
    (void)state;
    struct layer l;
    float x[TOKENS * WIDTH];
    set("MTL_SIM_BEGIN_FAIL", "1");
    struct device *d = open_device();
    reserve(d);
    make_layer(d, &l);

    assert_int_equal(compute_layer(d, &l, x), RADISH_E_NOMEM);

    free_layer(d, &l);
    device_close(d);
}

/* ---- memory of a step ---- */

static void test_two_steps_under_way_never_share_their_memory(void **state) {
    (void)state;
    const int key = 0;
    bool is_new;
    struct device *d = open_device();
    struct metal_device *metal = metal_of(d);
    uint8_t *first[3], *shared;
    reserve(d);
    for (int step = 0; step < 3; step++) {
        d->ops->step_begin(d);
        first[step] = metal_step_alloc(metal, 100);
        assert_int_equal((uintptr_t)first[step] % 256, 0);
        shared = metal_step_share(metal, &key, 1000, &is_new);
        assert_true(is_new && shared >= first[step] + 100);
        assert_ptr_equal(metal_step_share(metal, &key, 1000, &is_new), shared);
        assert_false(is_new);
        assert_true((uint8_t *)metal_step_alloc(metal, 8) >= shared + 1000);
        assert_int_equal(d->ops->step_submit(d), RADISH_OK);
        if (step) assert_int_equal(d->ops->step_wait(d), RADISH_OK);
    }
    assert_int_equal(d->ops->step_wait(d), RADISH_OK);

    const size_t apart =
        first[1] > first[0] ? (size_t)(first[1] - first[0]) : (size_t)(first[0] - first[1]);
    assert_true(apart >= metal->step_bytes);
    assert_ptr_equal(first[2], first[0]);
    device_close(d);
}

static void test_the_memory_of_a_step_grows_or_the_step_fails(void **state) {
    (void)state;
    struct device *d = open_device();
    struct metal_device *metal = metal_of(d);
    reserve(d);
    uint8_t *blocks[3];
    for (int i = 0; i < 3; i++) { /* the third step is the first one again */
        d->ops->step_begin(d);
        (void)metal_step_alloc(metal, 1000);
        blocks[i] = metal_step_alloc(metal, 3 * metal->step_bytes);
        memset(blocks[i], 1, 3 * metal->step_bytes);
        assert_non_null(metal_find_region(metal, blocks[i], 3 * metal->step_bytes));
        assert_int_equal(d->ops->step_submit(d), RADISH_OK);
        if (i) assert_int_equal(d->ops->step_wait(d), RADISH_OK);
    }
    assert_int_equal(d->ops->step_wait(d), RADISH_OK);
    assert_ptr_equal(blocks[2], blocks[0]);

    d->ops->step_begin(d);
    uint8_t *lost = metal_step_alloc(metal, (size_t)800 << 20); /* above maxBufferLength */
    lost[((size_t)800 << 20) - 1] = 1;
    assert_int_equal(d->ops->step_submit(d), RADISH_OK);
    assert_int_equal(d->ops->step_wait(d), RADISH_E_NOMEM);
    device_close(d);
}

#define METAL_TEST(f) cmocka_unit_test_setup_teardown(f, reset, check_clean)

int main(void) {
    const struct CMUnitTest tests[] = {
        METAL_TEST(test_memory_is_zeroed_and_counted_against_the_working_set),
        METAL_TEST(test_more_than_a_buffer_holds_is_refused_with_the_limit),
        METAL_TEST(test_an_allocation_that_fails_leaves_nothing_behind),
        METAL_TEST(test_weights_stay_in_views_that_overlap),
        METAL_TEST(test_a_matrix_longer_than_a_buffer_is_refused),
        METAL_TEST(test_what_lies_crooked_or_outside_of_the_file_is_copied),
        METAL_TEST(test_weights_quantised_here_are_those_of_the_quantiser),
        METAL_TEST(test_what_no_kernel_reads_is_refused_by_name),
        METAL_TEST(test_kernels_are_forced_by_variant_and_others_are_refused),
        METAL_TEST(test_a_layer_has_a_barrier_where_one_is_needed_and_no_other),
        METAL_TEST(test_ranges_that_meet_have_a_barrier_between_them),
        METAL_TEST(test_a_step_that_was_ended_runs_in_smaller_pieces_to_the_same_result),
        METAL_TEST(test_what_was_submitted_behind_an_ended_step_is_to_be_done_again),
        METAL_TEST(test_a_device_that_always_ends_steps_fails_for_good),
        METAL_TEST(test_another_failure_is_the_end_of_the_device),
        METAL_TEST(test_a_step_without_a_command_buffer_fails_and_does_not_hang),
        METAL_TEST(test_two_steps_under_way_never_share_their_memory),
        METAL_TEST(test_the_memory_of_a_step_grows_or_the_step_fails),
    };
    return cmocka_run_group_tests_name("metal_device", tests, set_up, tear_down);
}
