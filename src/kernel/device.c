/* device.c - opens devices by name, and what all of them share: compute threads, precision, kernel
 * choices and the texts about them.
 *
 * The texts are made once, at open, from the registry (device_kernels: one line for logs and
 * results; device_kernels_report: the table of `radish info`). Choices that depend on a shape are
 * known only when a model loads; when one passes over a better kernel the reason is logged once and
 * joins the report. There are few distinct reasons, so a small fixed list holds them. */
#include "device_int.h"

#include "base/invariant.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/status.h"
#include "kernel/cpu/cpu_features.h"

#include <stdio.h>
#include <string.h>

static struct {
    const char *name;
    device_open_fn open;
} backends[2 + DEVICE_GUESTS_MAX] = {
    {"cpu", cpu_device_open},
#if defined(RADISH_METAL)
    {METAL_DEVICE_NAME, metal_device_open},
#endif
};

#if defined(RADISH_METAL)
static uint32_t n_backends = 2;
#else
static uint32_t n_backends = 1;
#endif

void device_add(const char *name, device_open_fn open) {
    RADISH_INVARIANT(n_backends < sizeof backends / sizeof *backends, "no room for device %s",
                     name);
    backends[n_backends].name = name;
    backends[n_backends++].open = open;
}

static inline const struct device_base *base_of(const struct device *device) {
    return (const struct device_base *)(const void *)device;
}

enum radish_status device_open(const char *name, const struct device_options *options,
                               struct device **device_out, struct radish_error *err) {
    *device_out = NULL;
    char list[80] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < n_backends; i++) {
        if (!strcmp(name, backends[i].name)) return backends[i].open(options, device_out, err);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                     backends[i].name);
    }
    return error_set_field(err, RADISH_E_UNSUPPORTED, "--device",
                           "%s: there is no such device; this build has %s", name, list);
}

void device_close(struct device *device) {
    if (device) device->ops->close(device);
}

/* What may differ from machine to machine with one device and precision is the order of products
 * with bf16 weights. The number changes when any class does. */
static void make_bit_class(struct device_base *base) {
    char reason[160];
    const bool is_exact = base->precision == RADISH_PRECISION_EXACT;
    const struct kernel_row *row =
        registry_find(&base->registry, KERNEL_OP_MATMUL, KERNEL_BF16, NULL, reason, sizeof reason);
    snprintf(base->bit_class, sizeof base->bit_class, "%s-%s-2%s%s", base->device.ops->name,
             is_exact ? "exact" : "fast", is_exact || !row ? "" : "-",
             is_exact || !row ? "" : row->bit_class);
}

enum radish_status device_base_init(struct device_base *base, const struct device_options *options,
                                    struct radish_error *err) {
    base->precision = options->precision;
    RADISH_TRY(
        registry_init(&base->registry, base->family, options->kernels, options->n_kernels, err));
    struct machine machine;
    machine_read(&machine);
    RADISH_TRY(pages_decide(options->huge_pages, options->numa, &machine, &base->pages, err));
    RADISH_TRY(pages_probe(&base->pages, err));
    base->l2_bytes = machine.l2_bytes;
    pages_describe(&base->pages, &machine, base->memory, sizeof base->memory);
    const uint32_t n_threads =
        options->n_threads ? options->n_threads : machine_threads_default(&machine);
    RADISH_TRY(pool_create(n_threads, &base->pool, err));
    buf_init(&base->kernels, 0);
    buf_init(&base->report, 0);
    registry_print_short(&base->registry, &base->kernels);
    registry_print(&base->registry, &base->report);
    make_bit_class(base);
    if (!base->kernels.failed && !base->report.failed) return RADISH_OK;
    device_base_deinit(base);
    return error_nomem(err);
}

void device_base_deinit(struct device_base *base) {
    buf_deinit(&base->report);
    buf_deinit(&base->kernels);
    pool_destroy(base->pool);
    base->pool = NULL;
}

void device_base_note(struct device_base *base, enum kernel_op op, const struct kernel_row *row,
                      const char *reason) {
    char note[sizeof base->notes[0]];
    snprintf(note, sizeof note, "%s: %s, %s", kernel_op_name(op), row ? row->name : "none", reason);
    for (uint32_t i = 0; i < base->n_notes; i++)
        if (!strcmp(base->notes[i], note)) return;
    if (base->n_notes == DEVICE_NOTES_MAX) return;
    memcpy(base->notes[base->n_notes++], note, sizeof note);
    log_warn("kernel", "%s", note);
    buf_printf(&base->report, "%s\n", note);
}

void device_parallel(struct device *device, uint32_t n_items, device_item_fn fn, void *user) {
    pool_run(base_of(device)->pool, n_items, fn, user);
}

uint32_t device_n_threads(const struct device *device) {
    return pool_n_threads(base_of(device)->pool);
}

enum radish_precision device_precision(const struct device *device) {
    return base_of(device)->precision;
}

const char *device_kernels(const struct device *device) {
    return base_of(device)->kernels.data;
}

const char *device_kernels_report(const struct device *device) {
    return base_of(device)->report.data;
}

const char *device_bit_class(const struct device *device) {
    return base_of(device)->bit_class;
}

const char *device_memory(const struct device *device) {
    return base_of(device)->memory;
}

const char *device_isa(const struct device *device) {
    enum cpu_isa isa = CPU_ISA_COUNT - 1;
    (void)device; /* host work is the CPU's, whatever the device */
    while (isa != CPU_ISA_REF && !cpu_has_isa(isa)) isa--;
    return cpu_isa_name(isa);
}

enum dtype device_kv_dtype(enum radish_kv_dtype asked, enum radish_precision precision,
                           enum dtype model_dtype) {
    switch (asked) {
    case RADISH_KV_F32: return RADISH_DTYPE_F32;
    case RADISH_KV_F16: return RADISH_DTYPE_F16;
    case RADISH_KV_BF16: return RADISH_DTYPE_BF16;
    case RADISH_KV_AUTO: break;
    }
    if (precision == RADISH_PRECISION_EXACT) return RADISH_DTYPE_F32;
    return model_dtype == RADISH_DTYPE_BF16 ? RADISH_DTYPE_BF16 : RADISH_DTYPE_F16;
}
