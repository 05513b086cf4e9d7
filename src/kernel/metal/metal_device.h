/* metal_device.h - struct metal_device, for the files that make the device (device_metal.c,
 * metal_memory.c, metal_step.c, metal_encode.c) and their test. Operations use metal_int.h.
 *
 * Owns: what it holds, until metal_device_open()'s device is closed. Threads: the engine's. */
#ifndef KERNEL_METAL_METAL_DEVICE_H
#define KERNEL_METAL_METAL_DEVICE_H

#include "metal_int.h"

#include "kernel/kernel.h"

/* A buffer and the addresses that it covers. */
struct metal_region {
    const uint8_t *base;
    size_t bytes;
    struct mtl_buffer *buffer;
    bool is_view; /* of a mapped file */
};

#define METAL_CONSTANTS_MAX 24
#define METAL_NAME_BYTES    48
struct metal_pipeline_entry {
    uint64_t hash;
    char kernel[METAL_NAME_BYTES];
    struct mtl_constant constants[METAL_CONSTANTS_MAX];
    uint32_t n_constants;
    struct mtl_pipeline *pipeline;
};

/* What a dispatch since the last barrier has touched. */
#define METAL_HAZARDS_MAX 96
struct metal_hazard {
    const uint8_t *begin, *end;
    bool is_write;
};

/* What the next dispatch binds. */
enum metal_binding_kind { METAL_BINDING_READ, METAL_BINDING_WRITE, METAL_BINDING_BYTES };
struct metal_binding {
    enum metal_binding_kind kind;
    uint32_t index;
    const uint8_t *address; /* of args: in args_room */
    size_t bytes;
};
#define METAL_ARGS_ROOM (2 * MTL_BYTES_MAX)

struct metal_dispatch {
    const struct mtl_pipeline *pipeline;
    struct metal_binding bindings[MTL_BINDINGS];
    uint32_t n_bindings;
    uint32_t shared_index[4], shared_bytes[4], n_shared;
    uint8_t args_room[METAL_ARGS_ROOM];
    size_t args_bytes;
};

/* A step has one command buffer, several where the device has shrunk. */
#define METAL_COMMANDS_MAX 128
/* No step of a model of 200 layers has as many. */
#define METAL_DISPATCHES_MAX 4096
#define METAL_DISPATCHES_MIN 4
#define METAL_SHRINKS_MAX    6
#define METAL_SHARES_MAX     64
/* Memory of a step: its part of scratch, and what it grew by, each at least twice the one before.
 */
#define METAL_BLOCKS_MAX 16
struct metal_block {
    uint8_t *base; /* device */
    size_t bytes;
};
struct metal_lost; /* metal_step.c */
struct metal_step {
    struct mtl_commands *commands[METAL_COMMANDS_MAX];
    uint32_t n_commands;
    uint32_t n_dispatches_max; /* of one of them */
    bool is_void;              /* a step before it did not run to its end */
    bool has_failed;           /* the system gave no command buffer, or no memory */
    struct {
        const void *key;
        void *address;
    } shares[METAL_SHARES_MAX];
    uint32_t n_shares;
    struct metal_block blocks[METAL_BLOCKS_MAX];
    uint32_t n_blocks, block_idx; /* the one that is being filled, */
    size_t block_used;            /* so far */
    struct metal_lost *lost;
};

struct metal_device {
    struct device_base base;
    struct mtl_device *mtl;

    /* metal_memory.c: regions by ascending base */
    struct metal_region *regions;
    uint32_t n_regions, n_regions_room;
    uint64_t bytes_taken; /* by allocations; views count as weights are made in them */
    bool has_new_buffers; /* not resident yet */

    /* metal_encode.c: open addressing, at most half full */
    struct metal_pipeline_entry **pipelines; /* [n_pipelines_room] or NULL */
    uint32_t n_pipelines, n_pipelines_room;
    struct metal_dispatch dispatch;
    struct metal_hazard hazards[METAL_HAZARDS_MAX];
    uint32_t n_hazards;
    uint64_t n_barriers, n_dispatches; /* since it was opened */

    /* metal_step.c: steps take turns; n_pending have been submitted and not waited for */
    struct metal_step steps[DEVICE_STEPS_MAX];
    uint32_t step_next, n_pending;
    struct metal_step *recording;   /* NULL: between steps */
    struct mtl_commands *commands;  /* open, of the step; or NULL */
    uint32_t n_commands_dispatches; /* in them */
    uint32_t dispatches_max;        /* of a command buffer */
    uint32_t shrink;
    enum radish_status failure; /* OK, or why the device is of no more use */
    size_t step_bytes;          /* of an arena */
    uint8_t *scratch;           /* device, [scratch_room] */
    size_t scratch_room;
};

static inline struct metal_device *metal_of(struct device *d) {
    return (struct metal_device *)(void *)d;
}
static inline const struct metal_device *metal_of_const(const struct device *d) {
    return (const struct metal_device *)(const void *)d;
}

/* metal_memory.c: entries of the vtable, and who covers an address. */
enum radish_status metal_alloc(struct device *device, size_t bytes, void **address_out,
                               struct radish_error *err);
void metal_free(struct device *device, void *address, size_t bytes);
void metal_upload(struct device *device, void *address, const void *host, size_t bytes);
void metal_download(struct device *device, void *host, const void *address, size_t bytes);
uint64_t metal_memory_available(const struct device *device);
enum radish_status metal_host_map(struct device *device, const void *data, size_t bytes,
                                  size_t piece_bytes_max, struct radish_error *err);
uint64_t metal_weight_bytes(const struct device *device, const struct weight_desc *desc);
enum radish_status metal_weight_create(struct device *device, const struct weight_desc *desc,
                                       struct weight **weight_out, struct radish_error *err);
void metal_weight_destroy(struct device *device, struct weight *w);
bool metal_weight_is_mapped(const struct device *device, const struct weight *w);
/* The region that has all of [address, address + bytes), or NULL. */
const struct metal_region *metal_find_region(const struct metal_device *d, const void *address,
                                             size_t bytes);
void metal_memory_deinit(struct metal_device *d); /* views; all else has been freed */

/* metal_step.c */
uint64_t metal_scratch_bytes(const struct device *device, uint32_t rows_max, uint32_t width_max,
                             uint32_t kv_len_max);
enum radish_status metal_scratch_reserve(struct device *device, uint32_t rows_max,
                                         uint32_t width_max, uint32_t kv_len_max,
                                         struct radish_error *err);
void metal_step_begin(struct device *device);
enum radish_status metal_step_submit(struct device *device);
enum radish_status metal_step_wait(struct device *device);
/* The command buffer for the next dispatch; NULL: the step has failed. */
struct mtl_commands *metal_step_commands(struct metal_device *d);
void metal_step_deinit(struct metal_device *d);

/* metal_encode.c */
void metal_encode_deinit(struct metal_device *d);

/* device_metal.c: pipelines are made while a model loads. */
bool metal_supports(struct device *device, enum kernel_op op, const struct kernel_shape *shape,
                    char *reason_out, size_t reason_bytes);

#endif
