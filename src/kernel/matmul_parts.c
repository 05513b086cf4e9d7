/* matmul_parts.c - a group of products made of the operations that every device has.
 *
 * This is what a group means; a device's own kernel may save passes and launches but not change a
 * bit. It serves devices without such a kernel and --kernel matmul_group=unfused, with which the
 * two are compared. It costs a launch for each part, and each product prepares its activations
 * again. */
#include "kernel.h"

#include "base/invariant.h"

static void norm(struct device *d, const struct matmul_group_args *a) {
    if (a->norm == MATMUL_NORM_RMS) {
        const struct rmsnorm_args args = {.x = a->norm_x,
                                          .w = a->norm_w,
                                          .y = a->x,
                                          .n_rows = a->n_rows,
                                          .width = a->n_in,
                                          .x_stride = a->norm_x_stride,
                                          .y_stride = a->x_stride,
                                          .eps = a->norm_eps};
        d->ops->rmsnorm(d, &args);
    } else if (a->norm == MATMUL_NORM_LAYER) {
        const struct layernorm_args args = {.x = a->norm_x,
                                            .w = a->norm_w,
                                            .bias = a->norm_bias,
                                            .y = a->x,
                                            .n_rows = a->n_rows,
                                            .width = a->n_in,
                                            .x_stride = a->norm_x_stride,
                                            .y_stride = a->x_stride,
                                            .eps = a->norm_eps};
        d->ops->layernorm(d, &args);
    }
}

static void activate(struct device *d, const struct matmul_group_args *a) {
    float *y = a->products[0].y;
    const float *up = a->n_products > 1 ? a->products[1].y : NULL;
    const uint32_t stride = a->products[0].y_stride;
    if (up && a->activation == ACTIVATION_SILU) {
        const struct silu_mul_args args = {.gate = y,
                                           .up = up,
                                           .out = y,
                                           .n_rows = a->n_rows,
                                           .width = a->n_out,
                                           .in_stride = stride,
                                           .out_stride = stride};
        d->ops->silu_mul(d, &args);
        return;
    }
    const struct activate_args args = {.x = y,
                                       .up = up,
                                       .out = y,
                                       .n_rows = a->n_rows,
                                       .width = a->n_out,
                                       .in_stride = stride,
                                       .out_stride = stride,
                                       .kind = a->activation};
    d->ops->activate(d, &args);
}

void device_matmul_parts(struct device *d, const struct matmul_group_args *a) {
    norm(d, a);
    for (uint32_t i = 0; i < a->n_products; i++) {
        const struct matmul_product *p = &a->products[i];
        const struct matmul_args args = {.w = p->w,
                                         .x = a->x,
                                         .bias = p->bias,
                                         .y = p->y,
                                         .n_rows = a->n_rows,
                                         .x_stride = a->x_stride,
                                         .y_stride = p->y_stride};
        d->ops->matmul(d, &args);
    }
    if (a->is_activated) activate(d, a);
}

void device_matmul_group(struct device *d, const struct matmul_group_args *a) {
    RADISH_INVARIANT(a->n_products >= 1 && a->n_products <= MATMUL_GROUP_MAX, "%u products",
                     a->n_products);
    if (a->is_activated)
        RADISH_INVARIANT(a->n_products <= 2 &&
                             a->products[0].y_stride == a->products[a->n_products - 1].y_stride,
                         "an activation of %u products", a->n_products);
    if (!a->n_rows) return;
    if (d->ops->matmul_group)
        d->ops->matmul_group(d, a);
    else
        device_matmul_parts(d, a);
}
