/* cpu_rope.c - the driver of rope_kv_store: refuses what would write outside the pool, then runs
 * rows over the compute pool.
 *
 * The checks come before the first write, in every build, and look at every row: a slot past the
 * pool is another's memory, a position past the table is anything. They read two integers a row,
 * which is nothing beside the row. What they cannot see is whose a slot is, whether it is padding,
 * or whether two rows name the same one: the runner knows the batch and checks that.
 *
 * Fused is one pass: each row's Q, K and V while they are near. Variants named *_unfused are the
 * same loops called four times, as the separate operations of a system without fusion would be:
 *
 *   turn Q in place | turn K in place | K to the pool | V to the pool
 *
 * Each is a parallel section of its own. They are there to be compared with and to be switched to
 * (--kernel rope_kv_store=unfused); the bits are the same, since K is rounded once in both. */
#include "device_cpu.h"

#include "base/invariant.h"

#include <string.h>

bool cpu_rope_is_unfused(const struct kernel_row *row) {
    static const char end[] = "_unfused";
    const size_t len = strlen(row->name), n = sizeof end - 1;
    return len > n && !memcmp(row->name + len - n, end, n);
}

static void check_shape(const struct rope_kv_store_args *a) {
    RADISH_INVARIANT(a->kv_dtype == RADISH_DTYPE_F32 || a->kv_dtype == RADISH_DTYPE_F16 ||
                         a->kv_dtype == RADISH_DTYPE_BF16,
                     "KV dtype %d", a->kv_dtype);
    RADISH_INVARIANT(a->head_dim && a->head_dim <= HEAD_DIM_MAX && a->v_head_dim <= HEAD_DIM_MAX &&
                         a->rotary_dim <= a->head_dim && a->rotary_dim % 2 == 0,
                     "head_dim %u and %u, rotary_dim %u", a->head_dim, a->v_head_dim,
                     a->rotary_dim);
    RADISH_INVARIANT(
        a->q_stride / a->head_dim >= a->n_heads && a->k_stride / a->head_dim >= a->n_kv_heads &&
            (!a->v_head_dim || a->v_stride / a->v_head_dim >= a->n_kv_heads),
        "rows of %u, %u and %u for %u and %u heads of %u and %u", a->q_stride, a->k_stride,
        a->v_stride, a->n_heads, a->n_kv_heads, a->head_dim, a->v_head_dim);
}

static void check_rows(const struct rope_kv_store_args *a) {
    for (uint32_t row = 0; row < a->n_rows; row++) {
        const int32_t position = a->positions[row], slot = a->slots[row];
        RADISH_INVARIANT(position >= 0 && (uint32_t)position < a->n_positions,
                         "row %u: position %d of %u", row, position, a->n_positions);
        RADISH_INVARIANT(slot == -1 || (slot >= 0 && (uint32_t)slot < a->n_slots),
                         "row %u: slot %d of %u", row, slot, a->n_slots);
    }
}

static void run_part(const void *args, kernel_fn fn, uint32_t first, uint32_t end) {
    ((rope_kv_store_fn)fn)(args, first, end);
}

static void run(struct cpu_device *d, const struct kernel_row *row,
                const struct rope_kv_store_args *a, uint32_t width) {
    cpu_run_rows(d, run_part, row->fn, a, a->n_rows, width);
}

static void run_unfused(struct cpu_device *d, const struct kernel_row *row,
                        const struct rope_kv_store_args *a) {
    const uint32_t k_width = a->n_kv_heads * a->head_dim, v_width = a->n_kv_heads * a->v_head_dim;
    struct rope_kv_store_args turn_q = *a, turn_k = *a, store_k = *a, store_v;
    turn_q.n_kv_heads = turn_k.n_kv_heads = 0;
    turn_k.q = a->k;
    turn_k.q_stride = a->k_stride;
    turn_k.n_heads = a->n_kv_heads;
    store_k.n_heads = store_k.rotary_dim = store_k.v_head_dim = 0;
    store_v = store_k;
    store_v.k = a->v;
    store_v.k_stride = a->v_stride;
    store_v.k_pool = a->v_pool;
    store_v.head_dim = a->v_head_dim;
    run(d, row, &turn_q, a->n_heads * a->head_dim);
    run(d, row, &turn_k, k_width);
    run(d, row, &store_k, k_width);
    run(d, row, &store_v, v_width);
}

void cpu_rope_kv_store(struct cpu_device *d, const struct kernel_row *row,
                       const struct rope_kv_store_args *a) {
    if (!a->n_rows) return;
    check_shape(a);
    check_rows(a);
    if (cpu_rope_is_unfused(row))
        run_unfused(d, row, a);
    else
        run(d, row, a, (a->n_heads + a->n_kv_heads) * a->head_dim);
}
