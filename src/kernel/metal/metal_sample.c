/* metal_sample.c - sample on Metal: one threadgroup a row, one dispatch for all rows.
 *
 * With it a step ends in the 4 bytes of each row's token, on the device: the next step can be
 * recorded, and run, on tokens that the host has not seen. How a token is found is told in
 * kernels/sample.metal; here is only how many threads look for it. Their number changes no token
 * (all sums are whole numbers), so it is whatever fits the row: a SIMD-group for each 128 ids, as
 * far as the pipeline allows and the kernel's 32 words and sums reach. */
#include "metal_grid.h"
#include "metal_kernel.h"

#include "base/invariant.h"
#include "kernels/sample_args.h"

#include <stdio.h>

#define KERNEL "sample_rows"

enum { IDS_PER_GROUP = 128, GROUPS_MAX = 32 };

_Static_assert(sizeof(struct metal_sample_draw) == sizeof(struct sample_draw) &&
                   offsetof(struct metal_sample_draw, temperature) ==
                       offsetof(struct sample_draw, temperature) &&
                   offsetof(struct metal_sample_draw, u) == offsetof(struct sample_draw, u),
               "the kernel reads the caller's draws");
_Static_assert(GROUPS_MAX *MTL_SIMD_WIDTH <= MTL_THREADS_MAX, "one word a SIMD-group");

bool f32_sample__metal_make(struct metal_device *d, const struct kernel_shape *shape,
                            char *reason_out, size_t reason_bytes) {
    if (shape->n_in > METAL_SAMPLE_WIDTH_MAX) {
        (void)snprintf(reason_out, reason_bytes, "rows of %u logits are more than %u", shape->n_in,
                       METAL_SAMPLE_WIDTH_MAX);
        return false;
    }
    return metal_pipeline(d, KERNEL, NULL, 0, reason_out, reason_bytes);
}

static uint32_t count_threads(const struct mtl_pipeline *pipeline, uint32_t width) {
    uint32_t n_groups = (width + IDS_PER_GROUP - 1) / IDS_PER_GROUP;
    const uint32_t room = mtl_pipeline_threads_max(pipeline) / MTL_SIMD_WIDTH;
    if (n_groups > room) n_groups = room;
    return (n_groups < GROUPS_MAX ? n_groups : GROUPS_MAX) * MTL_SIMD_WIDTH;
}

void f32_sample__metal(struct metal_device *d, const struct sample_rows_args *args) {
    if (!args->n_rows) return;
    RADISH_INVARIANT(args->width && args->width <= args->stride &&
                         args->width <= METAL_SAMPLE_WIDTH_MAX,
                     "rows of %u logits, %u apart", args->width, args->stride);
    const struct mtl_pipeline *pipeline = metal_pipeline(d, KERNEL, NULL, 0, NULL, 0);
    const struct metal_sample_args sizes = {args->width, args->stride};
    const uint32_t n_groups[3] = {args->n_rows, 1, 1};
    const uint32_t group[3] = {count_threads(pipeline, args->width), 1, 1};
    metal_use(d, pipeline);
    metal_read(d, 0, args->logits,
               metal_rows_bytes(args->n_rows, args->stride, args->width, sizeof *args->logits));
    metal_read(d, 1, args->draws, args->n_rows * sizeof *args->draws);
    metal_write(d, 2, args->tokens, args->n_rows * sizeof *args->tokens);
    metal_args(d, 3, &sizes, sizeof sizes);
    metal_shared(d, 0, 2 * METAL_SAMPLE_BINS * sizeof(uint32_t));
    metal_run_groups(d, n_groups, group);
}
