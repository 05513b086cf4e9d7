/* device_int.h - what every device begins with, for device.c and the backends.
 *
 * A backend's own struct has struct device_base as its first member. Compute threads, precision and
 * kernel choices exist for every device: a GPU's host work (sampling) runs on the same pool. */
#ifndef KERNEL_DEVICE_INT_H
#define KERNEL_DEVICE_INT_H

#include "radish.h"

#include "base/pages.h"
#include "kernel/cpu/pool.h"
#include "kernel/kernel.h"
#include "kernel/registry.h"

#define DEVICE_NOTES_MAX 16

struct device_base {
    struct device device;
    enum kernel_family family;
    struct pool *pool;
    enum radish_precision precision;
    struct registry registry;
    uint64_t l2_bytes;          /* second-level cache of a core; 0: not known */
    struct pages_policy pages;  /* of host memory */
    char memory[160];           /* the same in words */
    struct buf kernels, report; /* texts, made at open; report grows with notes */
    char bit_class[64];
    char notes[DEVICE_NOTES_MAX][160]; /* fall-backs for shapes, each logged once */
    uint32_t n_notes;
};

/* Opens the pool and the registry and makes the texts; the backend has set device and family. On
 * failure nothing is held. */
enum radish_status device_base_init(struct device_base *base, const struct device_options *options,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void device_base_deinit(struct device_base *base);

/* Records and logs, once, that a better kernel was passed over. */
void device_base_note(struct device_base *base, enum kernel_op op, const struct kernel_row *row,
                      const char *reason);

/* Another device for device_open(), beside those that the library has: a test's, or one of a module
 * that is linked in. name is borrowed. Before any thread opens a device; at most DEVICE_GUESTS_MAX.
 */
#define DEVICE_GUESTS_MAX 4
typedef enum radish_status (*device_open_fn)(const struct device_options *options,
                                             struct device **device_out, struct radish_error *err);
void device_add(const char *name, device_open_fn open);

/* cpu/device_cpu.c */
enum radish_status cpu_device_open(const struct device_options *options, struct device **device_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;

#if defined(RADISH_METAL)
/* metal/device_metal.c. A build for verification, with a stand-in for Metal, says so in the name.
 */
#if defined(RADISH_METAL_SIM)
#define METAL_DEVICE_NAME "metal-sim"
#else
#define METAL_DEVICE_NAME "metal"
#endif
enum radish_status metal_device_open(const struct device_options *options,
                                     struct device **device_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
#endif

#endif
