/* metal_rope.c - rope_kv_store on Metal: the trio of fused kernels, the same in one dispatch, and
 * the four passes of a system without fusion.
 *
 *   metal          rope_q | rope_k_pool | v_to_pool          side by side, no barrier between them
 *   metal_h1       the same, one head a thread
 *   metal_one      rope_all: groups of heads of Q, of K and of V in one grid
 *   metal_unfused  turn Q | turn K in place, barrier, K to the pool | V to the pool
 *
 * The trio writes Q, the pool of K and the pool of V, and reads nothing that it writes, so the
 * recorder puts no barrier between its dispatches. One dispatch instead of three saves some
 * microseconds of launches where the batch is a few tokens, and leaves threads without work where
 * the three grids have different widths. Unfused, K travels to memory and back once more; its
 * barrier stands by itself, because the store reads what the turn wrote.
 *
 * HEADS heads share one read of the cosine and the sine. The system we follow has one head a thread
 * by default and loses to kernels that have four where KV is small, which is where that read is a
 * third of the traffic; metal_h1 is there to measure it. No figure here was taken on Apple
 * hardware.
 *
 * The grid is (pairs, head groups, rows) and groups fill up along x, then y, then z
 * (metal_group()): never by dividing the number of rows, which is odd as often as not. Layers
 * without rotation (rotary_dim 0) copy K as V is copied. Where the file's shapes are wrong the step
 * stops here, as on the CPU; slots and positions are device memory, bounded by the kernels and
 * checked by the runner before the upload. */
#include "metal_grid.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/rope_args.h"

#include <string.h>

enum { HEADS = 4 }; /* of a thread */

/* What the pipelines depend on. */
struct rope_shape {
    uint32_t head_dim, v_head_dim, rotary_dim, heads;
    bool is_interleaved;
    enum dtype kv_dtype;
};

/* Kernels by the dtype of the pool. */
static const char *const k_kernels[] = {"rope_k_pool_f32", "rope_k_pool_f16", "rope_k_pool_bf16"};
static const char *const v_kernels[] = {"v_to_pool_f32", "v_to_pool_f16", "v_to_pool_bf16"};
static const char *const all_kernels[] = {"rope_all_f32", "rope_all_f16", "rope_all_bf16"};
_Static_assert(RADISH_DTYPE_F32 == 0 && RADISH_DTYPE_F16 == 1 && RADISH_DTYPE_BF16 == 2,
               "kernels are found by dtype");

static struct rope_shape shape_of(const struct kernel_shape *shape, uint32_t heads) {
    return (struct rope_shape){shape->head_dim, shape->v_head_dim,     shape->rotary_dim,
                               heads,           shape->is_interleaved, shape->kv_dtype};
}

static struct rope_shape shape_of_args(const struct rope_kv_store_args *a, uint32_t heads) {
    return (struct rope_shape){a->head_dim, a->v_head_dim,     a->rotary_dim,
                               heads,       a->is_interleaved, (enum dtype)a->kv_dtype};
}

/* V's pipeline has no constants; rope_all has the size of V's heads beside those of the others. */
static const struct mtl_pipeline *find_v(struct metal_device *d, const struct rope_shape *shape,
                                         char *reason_out, size_t reason_bytes) {
    return metal_pipeline(d, v_kernels[shape->kv_dtype], NULL, 0, reason_out, reason_bytes);
}

static const struct mtl_pipeline *find_turning(struct metal_device *d, const char *kernel,
                                               const struct rope_shape *shape, char *reason_out,
                                               size_t reason_bytes) {
    const struct mtl_constant constants[ROPE_CONSTANTS] = {
        metal_uint(ROPE_CONSTANT_HEAD_DIM, shape->head_dim),
        metal_uint(ROPE_CONSTANT_ROTARY_DIM, shape->rotary_dim),
        metal_bool(ROPE_CONSTANT_IS_INTERLEAVED, shape->is_interleaved),
        metal_uint(ROPE_CONSTANT_HEADS, shape->heads),
        metal_uint(ROPE_CONSTANT_V_HEAD_DIM, shape->v_head_dim),
    };
    const bool is_all = kernel == all_kernels[shape->kv_dtype];
    return metal_pipeline(d, kernel, constants, is_all ? ROPE_CONSTANTS : ROPE_CONSTANTS - 1,
                          reason_out, reason_bytes);
}

/* ---- pipelines, at load ---- */

static bool make_trio(struct metal_device *d, const struct rope_shape *shape, char *reason_out,
                      size_t reason_bytes) {
    return find_turning(d, "rope_q_f32", shape, reason_out, reason_bytes) &&
           find_turning(d, k_kernels[shape->kv_dtype], shape, reason_out, reason_bytes) &&
           find_v(d, shape, reason_out, reason_bytes);
}

bool kv_f32_rope_kv_store__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                                      char *reason_out, size_t reason_bytes) {
    const struct rope_shape s = shape_of(shape, HEADS);
    return make_trio(d, &s, reason_out, reason_bytes);
}

bool kv_f32_rope_kv_store__metal_h1_make(struct metal_device *d, const struct kernel_shape *shape,
                                         char *reason_out, size_t reason_bytes) {
    const struct rope_shape s = shape_of(shape, 1);
    return make_trio(d, &s, reason_out, reason_bytes);
}

bool kv_f32_rope_kv_store__metal_one_make(struct metal_device *d, const struct kernel_shape *shape,
                                          char *reason_out, size_t reason_bytes) {
    const struct rope_shape s = shape_of(shape, HEADS);
    return make_trio(d, &s, reason_out, reason_bytes) &&
           find_turning(d, all_kernels[s.kv_dtype], &s, reason_out, reason_bytes);
}

bool kv_f32_rope_kv_store__metal_unfused_make(struct metal_device *d,
                                              const struct kernel_shape *shape, char *reason_out,
                                              size_t reason_bytes) {
    const struct rope_shape s = shape_of(shape, HEADS);
    return find_turning(d, "rope_q_f32", &s, reason_out, reason_bytes) &&
           find_v(d, &s, reason_out, reason_bytes);
}

/* ---- dispatches ---- */

static struct rope_sizes sizes_of(const struct rope_kv_store_args *a) {
    return (struct rope_sizes){.n_heads = a->n_heads,
                               .n_kv_heads = a->n_kv_heads,
                               .q_stride = a->q_stride,
                               .k_stride = a->k_stride,
                               .v_stride = a->v_stride,
                               .v_width = a->n_kv_heads * a->v_head_dim,
                               .n_slots = a->n_slots,
                               .n_positions = a->n_positions};
}

static size_t pool_bytes(const struct rope_kv_store_args *a, uint32_t head_dim) {
    return (size_t)a->n_slots * a->n_kv_heads * head_dim *
           dtype_block_bytes((enum dtype)a->kv_dtype);
}

static uint32_t head_groups(uint32_t n_heads, uint32_t heads) {
    return (n_heads + heads - 1) / heads;
}

static void run_grid(struct metal_device *d, const struct mtl_pipeline *pipeline, uint32_t x,
                     uint32_t y, uint32_t z) {
    const uint32_t grid[3] = {x, y, z};
    uint32_t group[3];
    metal_group(pipeline, grid, group);
    metal_run_threads(d, grid, group);
}

/* Positions and the table, at indexes 1 and 2 of every kernel that turns. */
static void bind_angles(struct metal_device *d, const struct rope_kv_store_args *a) {
    metal_read(d, 1, a->positions, a->n_rows * sizeof *a->positions);
    metal_read(d, 2, a->rope_table, (size_t)a->n_positions * a->rotary_dim * sizeof *a->rope_table);
}

/* Turns n_heads heads of every row in place: those of Q, or, unfused, of K. */
static void turn(struct metal_device *d, const struct rope_kv_store_args *a, uint32_t heads,
                 float *x, uint32_t stride, uint32_t n_heads) {
    if (!n_heads || !a->rotary_dim) return;
    const struct rope_shape shape = shape_of_args(a, heads);
    const struct mtl_pipeline *pipeline = find_turning(d, "rope_q_f32", &shape, NULL, 0);
    struct rope_sizes sizes = sizes_of(a);
    sizes.n_heads = n_heads;
    sizes.q_stride = stride;
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    bind_angles(d, a);
    metal_write(d, 3, x,
                metal_rows_bytes(a->n_rows, stride, (size_t)n_heads * a->head_dim, sizeof *x));
    run_grid(d, pipeline, a->rotary_dim / 2, head_groups(n_heads, heads), a->n_rows);
}

/* Rows of K or V to their slots as they are. */
static void store(struct metal_device *d, const struct rope_kv_store_args *a, const float *x,
                  uint32_t stride, uint32_t head_dim, void *pool) {
    const uint32_t width = a->n_kv_heads * head_dim;
    if (!width) return;
    const struct rope_shape shape = shape_of_args(a, /*heads=*/1);
    const struct mtl_pipeline *pipeline = find_v(d, &shape, NULL, 0);
    struct rope_sizes sizes = sizes_of(a);
    sizes.v_stride = stride;
    sizes.v_width = width;
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    metal_read(d, 1, x, metal_rows_bytes(a->n_rows, stride, width, sizeof *x));
    metal_read(d, 2, a->slots, a->n_rows * sizeof *a->slots);
    metal_write(d, 3, pool, pool_bytes(a, head_dim));
    run_grid(d, pipeline, width, a->n_rows, 1);
}

static void turn_and_store_k(struct metal_device *d, const struct rope_kv_store_args *a,
                             uint32_t heads) {
    if (!a->n_kv_heads) return;
    const struct rope_shape shape = shape_of_args(a, heads);
    const struct mtl_pipeline *pipeline =
        find_turning(d, k_kernels[shape.kv_dtype], &shape, NULL, 0);
    const struct rope_sizes sizes = sizes_of(a);
    const size_t width = (size_t)a->n_kv_heads * a->head_dim;
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    bind_angles(d, a);
    metal_read(d, 3, a->k, metal_rows_bytes(a->n_rows, a->k_stride, width, sizeof *a->k));
    metal_read(d, 4, a->slots, a->n_rows * sizeof *a->slots);
    metal_write(d, 5, a->k_pool, pool_bytes(a, a->head_dim));
    run_grid(d, pipeline, a->head_dim - a->rotary_dim / 2, head_groups(a->n_kv_heads, heads),
             a->n_rows);
}

static void check_shape(const struct rope_kv_store_args *a) {
    RADISH_INVARIANT(a->kv_dtype == RADISH_DTYPE_F32 || a->kv_dtype == RADISH_DTYPE_F16 ||
                         a->kv_dtype == RADISH_DTYPE_BF16,
                     "KV dtype %d", a->kv_dtype);
    RADISH_INVARIANT(a->head_dim && a->rotary_dim <= a->head_dim && a->rotary_dim % 2 == 0 &&
                         (a->n_positions || !a->rotary_dim),
                     "head_dim %u, rotary_dim %u, %u positions", a->head_dim, a->rotary_dim,
                     a->n_positions);
    RADISH_INVARIANT(
        a->q_stride / a->head_dim >= a->n_heads && a->k_stride / a->head_dim >= a->n_kv_heads &&
            (!a->v_head_dim || a->v_stride / a->v_head_dim >= a->n_kv_heads),
        "rows of %u, %u and %u for %u and %u heads of %u and %u", a->q_stride, a->k_stride,
        a->v_stride, a->n_heads, a->n_kv_heads, a->head_dim, a->v_head_dim);
}

static void run_trio(struct metal_device *d, const struct rope_kv_store_args *a, uint32_t heads) {
    if (!a->n_rows) return;
    check_shape(a);
    turn(d, a, heads, a->q, a->q_stride, a->n_heads);
    if (a->rotary_dim)
        turn_and_store_k(d, a, heads);
    else
        store(d, a, a->k, a->k_stride, a->head_dim, a->k_pool);
    store(d, a, a->v, a->v_stride, a->v_head_dim, a->v_pool);
}

void kv_f32_rope_kv_store__metal(struct metal_device *d, const struct rope_kv_store_args *args) {
    run_trio(d, args, HEADS);
}

void kv_f32_rope_kv_store__metal_h1(struct metal_device *d, const struct rope_kv_store_args *args) {
    run_trio(d, args, 1);
}

void kv_f32_rope_kv_store__metal_unfused(struct metal_device *d,
                                         const struct rope_kv_store_args *args) {
    if (!args->n_rows) return;
    check_shape(args);
    turn(d, args, HEADS, args->q, args->q_stride, args->n_heads);
    turn(d, args, HEADS, args->k, args->k_stride, args->n_kv_heads);
    store(d, args, args->k, args->k_stride, args->head_dim, args->k_pool);
    store(d, args, args->v, args->v_stride, args->v_head_dim, args->v_pool);
}

static void run_all(struct metal_device *d, const struct rope_kv_store_args *a) {
    const struct rope_shape shape = shape_of_args(a, HEADS);
    const struct mtl_pipeline *pipeline =
        find_turning(d, all_kernels[shape.kv_dtype], &shape, NULL, 0);
    const struct rope_sizes sizes = sizes_of(a);
    const uint32_t pairs = a->head_dim - a->rotary_dim / 2;
    const uint32_t n_kv = head_groups(a->n_kv_heads, HEADS);
    metal_use(d, pipeline);
    metal_args(d, 0, &sizes, sizeof sizes);
    bind_angles(d, a);
    metal_write(
        d, 3, a->q,
        metal_rows_bytes(a->n_rows, a->q_stride, (size_t)a->n_heads * a->head_dim, sizeof *a->q));
    metal_read(d, 4, a->k,
               metal_rows_bytes(a->n_rows, a->k_stride, (size_t)a->n_kv_heads * a->head_dim,
                                sizeof *a->k));
    metal_read(d, 5, a->v, metal_rows_bytes(a->n_rows, a->v_stride, sizes.v_width, sizeof *a->v));
    metal_read(d, 6, a->slots, a->n_rows * sizeof *a->slots);
    metal_write(d, 7, a->k_pool, pool_bytes(a, a->head_dim));
    metal_write(d, 8, a->v_pool, pool_bytes(a, a->v_head_dim));
    run_grid(d, pipeline, pairs > a->v_head_dim ? pairs : a->v_head_dim,
             head_groups(a->n_heads, HEADS) + 2 * n_kv, a->n_rows);
}

/* Layers without rotation, without K of their own or without V have less to put together than the
 * kernel expects. */
void kv_f32_rope_kv_store__metal_one(struct metal_device *d,
                                     const struct rope_kv_store_args *args) {
    if (!args->n_rows) return;
    if (!args->rotary_dim || !args->n_heads || !args->n_kv_heads || !args->v_head_dim) {
        run_trio(d, args, HEADS);
        return;
    }
    check_shape(args);
    run_all(d, args);
}
