/* model_fake_device.c - memory from calloc, so that sanitizers watch it. */
#include "model_fake_device.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weight {
    uint64_t bytes;
};

static struct fake_device *fake_of(const struct device *d) {
    return (struct fake_device *)(uintptr_t)d;
}

static bool supports(struct device *d, enum kernel_op op, const struct kernel_shape *shape,
                     char *reason_out, size_t reason_bytes) {
    const struct fake_device *fake = fake_of(d);
    if (op != fake->refused_op || shape->n_out < fake->refused_n_out) return true;
    snprintf(reason_out, reason_bytes, "the fake was told so");
    return false;
}

static bool fails(struct fake_device *fake) {
    return ++fake->n_calls == fake->fail_at;
}

static enum radish_status mem_alloc_fake(struct device *d, size_t bytes, void **address_out,
                                         struct radish_error *err) {
    struct fake_device *fake = fake_of(d);
    *address_out = fails(fake) ? NULL : calloc(1, bytes);
    if (!*address_out) return error_nomem(err);
    fake->n_live++;
    fake->bytes_live += bytes;
    return RADISH_OK;
}

static void mem_free_fake(struct device *d, void *address, size_t bytes) {
    struct fake_device *fake = fake_of(d);
    free(address);
    fake->n_live--;
    fake->bytes_live -= bytes;
}

static void upload(struct device *d, void *address, const void *host, size_t bytes) {
    fake_of(d)->bytes_uploaded += bytes;
    if (bytes) memcpy(address, host, bytes);
}

static void download(struct device *d, void *host, const void *address, size_t bytes) {
    (void)d;
    if (bytes) memcpy(host, address, bytes);
}

static uint64_t weight_bytes(const struct device *d, const struct weight_desc *desc) {
    (void)d;
    return (uint64_t)desc->n_out * desc->n_in * 2;
}

static enum radish_status weight_create(struct device *d, const struct weight_desc *desc,
                                        struct weight **weight_out, struct radish_error *err) {
    struct fake_device *fake = fake_of(d);
    *weight_out = fails(fake) ? NULL : calloc(1, sizeof **weight_out);
    if (!*weight_out) return error_nomem(err);
    (*weight_out)->bytes = weight_bytes(d, desc);
    fake->n_live++;
    fake->bytes_live += (*weight_out)->bytes;
    if (fake->n_weights < FAKE_WEIGHTS_MAX) fake->weights[fake->n_weights++] = *desc;
    return RADISH_OK;
}

static void weight_destroy(struct device *d, struct weight *w) {
    struct fake_device *fake = fake_of(d);
    fake->n_live--;
    fake->bytes_live -= w->bytes;
    free(w);
}

static uint64_t scratch_bytes(const struct device *d, uint32_t rows_max, uint32_t width_max,
                              uint32_t kv_len_max) {
    (void)d;
    (void)kv_len_max;
    return (uint64_t)rows_max * width_max;
}

static enum radish_status scratch_reserve(struct device *d, uint32_t rows_max, uint32_t width_max,
                                          uint32_t kv_len_max, struct radish_error *err) {
    (void)rows_max;
    (void)width_max;
    (void)kv_len_max;
    return fails(fake_of(d)) ? error_nomem(err) : RADISH_OK;
}

static const struct device_vtable fake_ops = {
    .name = "fake",
    .supports = supports,
    .mem_alloc = mem_alloc_fake,
    .mem_free = mem_free_fake,
    .upload = upload,
    .download = download,
    .weight_bytes = weight_bytes,
    .weight_create = weight_create,
    .weight_destroy = weight_destroy,
    .scratch_bytes = scratch_bytes,
    .scratch_reserve = scratch_reserve,
};

void fake_device_init(struct fake_device *fake) {
    memset(fake, 0, sizeof *fake);
    fake->device.ops = &fake_ops;
    fake->refused_op = KERNEL_OP_COUNT;
}
