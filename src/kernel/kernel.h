/* kernel.h - what a device is: memory, prepared weights, a step of operations. The only contract
 * between models and backends.
 *
 * A device is opened once with its kernel choices (registry.h); a model asks supports() for every
 * operation it will use while it loads, so that a missing kernel fails at start, naming the layer.
 * A step is begun, recorded by calling operations in order, submitted and waited for; the CPU runs
 * each operation at the call. Each operation sees the results of those before it, of earlier steps
 * as well: steps run in the order in which they are submitted. A device that records (is_recorded)
 * runs a step after it was submitted, and the next one may be recorded and submitted meanwhile.
 * Owns: its threads, its memory, its weights. Threads: one thread at a time calls a device (the
 * engine's thread); it is worker 0 of the compute pool. Failure: operations cannot fail; what can
 * (memory, submission) returns a status. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "radish.h"

#include "kernel/kernel_args.h"
#include "tensor/dtype.h"

enum kernel_op {
    KERNEL_OP_EMBED,
    KERNEL_OP_RMSNORM,
    KERNEL_OP_LAYERNORM,
    KERNEL_OP_PREPARE, /* rows as matmul reads them: a part of it */
    KERNEL_OP_MATMUL,
    KERNEL_OP_MATMUL_GROUP,
    KERNEL_OP_SILU_MUL,
    KERNEL_OP_ACTIVATE,
    KERNEL_OP_SOFT_CAP,
    KERNEL_OP_KEEP_ROWS,
    KERNEL_OP_ROPE_KV_STORE,
    KERNEL_OP_ATTENTION,
    KERNEL_OP_SAMPLE,
    KERNEL_OP_COUNT
};
const char *kernel_op_name(enum kernel_op op); /* "matmul" */

struct device;

struct device_options {
    uint32_t n_threads; /* 0 = machine_threads_default() */
    enum radish_precision precision;
    const char *const *kernels; /* "OP=VARIANT" or "OP=ref"; [n_kernels] */
    uint32_t n_kernels;
    enum radish_huge_pages huge_pages;
    enum radish_numa numa;
};

/* name: "cpu". E_UNSUPPORTED: no such device, a forced kernel that is unknown or cannot run here
 * (lists those that can), or a wish about memory that this system does not grant. */
enum radish_status device_open(const char *name, const struct device_options *options,
                               struct device **device_out,
                               struct radish_error *err) RADISH_CHECK_RESULT;
void device_close(struct device *device);

/* A matrix as the file has it; data is host memory, borrowed during create only. It is of `dtype`,
 * or, with is_quantised_here, of `data_dtype` (F32, F16 or BF16): then create makes `dtype` of it
 * (tensor/quantise.h), without a second copy of it in memory; numbers that have no place in that
 * type are E_UNSUPPORTED. */
struct weight_desc {
    const char *name; /* for messages */
    enum dtype dtype;
    uint32_t n_out, n_in; /* rows and columns */
    const void *data;     /* [n_out, n_in] row-major */
    bool is_gathered;     /* rows will be read by embed */
    bool is_multiplied;   /* will be used by matmul; an embedding that is tied has both */
    bool is_quantised_here;
    enum dtype data_dtype;
};

/* What an operation will be asked to do, for supports(). */
struct kernel_shape {
    enum dtype weight_dtype; /* matmul, embed */
    enum dtype kv_dtype;     /* rope_kv_store, attention */
    uint32_t n_out, n_in;    /* matmul, embed; width of the others in n_in */
    uint32_t n_heads, n_kv_heads, head_dim, v_head_dim, rotary_dim;
    bool is_interleaved;
    bool has_window, has_soft_cap;
};

/* Every entry is required unless it says optional. */
struct device_vtable {
    const char *name;

    /* Steps run after step_submit(), at most DEVICE_STEPS_MAX of them submitted and not waited for.
     * Host memory that an operation reads (attention's sequences and slots) is copied when it is
     * recorded; device memory that a step reads or writes may not be written by upload until it
     * has been waited for. false: an operation has run when it returns. */
    bool is_recorded;

    /* Addresses are the host's own, which reads and writes there between steps without a copy. */
    bool has_host_memory;

    /* At load. What it passes over for the shape is noted in the device's report. */
    bool (*supports)(struct device *d, enum kernel_op op, const struct kernel_shape *shape,
                     char *reason_out, size_t reason_bytes);

    /* Optional; NULL: what the machine has free. Bytes that weights, KV pool and scratch may take.
     */
    uint64_t (*memory_available)(const struct device *d);

    /* Memory. alloc: zeroed, 64-byte aligned; E_NOMEM. upload/download: host <-> device,
     * synchronous, whatever steps run. On the CPU addresses are host pointers. */
    enum radish_status (*mem_alloc)(struct device *d, size_t bytes, void **address_out,
                                    struct radish_error *err);
    void (*mem_free)(struct device *d, void *address, size_t bytes);
    void (*upload)(struct device *d, void *address, const void *host, size_t bytes);
    void (*download)(struct device *d, void *host, const void *address, size_t bytes);

    /* Optional; NULL: weights are always copied. A mapped file (file_map.h: whole pages of 16 KiB)
     * that weights of this device will be made from, each of at most piece_bytes_max: create may
     * use the data where it lies. The mapping stays until the device is closed. E_NOMEM. */
    enum radish_status (*host_map)(struct device *d, const void *data, size_t bytes,
                                   size_t piece_bytes_max, struct radish_error *err);

    /* Weights. bytes: what create will take on the device, for the memory plan (the chosen kernel's
     * packing included). */
    uint64_t (*weight_bytes)(const struct device *d, const struct weight_desc *desc);
    enum radish_status (*weight_create)(struct device *d, const struct weight_desc *desc,
                                        struct weight **weight_out, struct radish_error *err);
    void (*weight_destroy)(struct device *d, struct weight *w);
    /* Optional, with host_map: whether create left the matrix in the mapped file. */
    bool (*weight_is_mapped)(const struct device *d, const struct weight *w);

    /* Scratch that kernels need for batches of up to rows_max rows of up to width_max inputs
     * (quantised activations, attention partials); called once, before the first step; part of the
     * plan. */
    uint64_t (*scratch_bytes)(const struct device *d, uint32_t rows_max, uint32_t width_max,
                              uint32_t kv_len_max);
    enum radish_status (*scratch_reserve)(struct device *d, uint32_t rows_max, uint32_t width_max,
                                          uint32_t kv_len_max, struct radish_error *err);

    /* A step. wait: for the oldest one submitted and not waited for. AGAIN (recorded steps only):
     * it did not run to its end, and those submitted after it, which are to be waited for as well
     * and answer AGAIN, ran on what it left or not at all; the device has made its pieces of work
     * smaller, and the same operations can be recorded again. Any other status: the device has
     * failed for good. */
    void (*step_begin)(struct device *d);
    enum radish_status (*step_submit)(struct device *d);
    enum radish_status (*step_wait)(struct device *d);

    /* Operations, legal between step_begin and step_submit. n_rows 0 does nothing. */
    void (*embed)(struct device *d, const struct embed_args *args);
    void (*rmsnorm)(struct device *d, const struct rmsnorm_args *args);
    void (*layernorm)(struct device *d, const struct layernorm_args *args);
    void (*matmul)(struct device *d, const struct matmul_args *args);
    void (*silu_mul)(struct device *d, const struct silu_mul_args *args);
    void (*activate)(struct device *d, const struct activate_args *args);
    void (*soft_cap)(struct device *d, const struct soft_cap_args *args);
    void (*keep_rows)(struct device *d, const struct keep_rows_args *args);
    void (*rope_kv_store)(struct device *d, const struct rope_kv_store_args *args);
    void (*attention)(struct device *d, const struct attention_args *args);

    /* Optional; NULL: device_matmul_parts(). Called through device_matmul_group(). */
    void (*matmul_group)(struct device *d, const struct matmul_group_args *args);

    /* Optional; NULL: the caller downloads logits and samples on the host with sample/, whose
     * sampler is the reference. */
    void (*sample)(struct device *d, const struct sample_rows_args *args);

    void (*close)(struct device *d);
};

#define DEVICE_STEPS_MAX 2

struct device {
    const struct device_vtable *ops;
};

/* A group of products, by the device's own kernel where it has one. n_rows 0 does nothing. */
void device_matmul_group(struct device *d, const struct matmul_group_args *args);
/* The same made of its parts: rmsnorm or layernorm, matmul for each product, silu_mul or activate.
 * So a new device has groups before it has a kernel for them, and the two can be compared. */
void device_matmul_parts(struct device *d, const struct matmul_group_args *args);

/* Runs fn(user, item, worker) for every item in [0, n_items), spread over the compute threads;
 * returns when all are done. For host work between steps (sampling). worker < device_n_threads().
 * Engine thread only. */
typedef void (*device_item_fn)(void *user, uint32_t item, uint32_t worker);
void device_parallel(struct device *device, uint32_t n_items, device_item_fn fn, void *user);
uint32_t device_n_threads(const struct device *device);
enum radish_precision device_precision(const struct device *device);

/* "matmul=bf16_f32_matmul__avx2 attention=..." (what would be chosen for every operation and
 * dtype), and one line per choice with its reason. Borrowed until close. */
const char *device_kernels(const struct device *device);
const char *device_kernels_report(const struct device *device);
const char *device_bit_class(const struct device *device);
/* How memory is asked for: "huge pages of 2048 KiB where possible (system: madvise)". Likewise. */
const char *device_memory(const struct device *device);
/* The best instruction set here that there are kernels for: "avx512vnni", "ref". Static. */
const char *device_isa(const struct device *device);

/* KV dtype that `auto` means: f32 in exact; bf16 for bf16 models, else f16. */
enum dtype device_kv_dtype(enum radish_kv_dtype asked, enum radish_precision precision,
                           enum dtype model_dtype);

#endif
