/* mtl.h - as much of Metal as radish needs, in plain C: devices, buffers, pipelines, one command
 * buffer with one concurrent compute encoder at a time.
 *
 * mtl_objc.c, behind it, is the only file that knows of Objective-C; mtl_methods.def names every
 * method it sends, and feeds the casts, the check of encodings and the stand-in that runs all of
 * this on Linux (tests/metal). Owns: what create and open return, until the destroy of the same
 * noun. Threads: one at a time. Metal's objects that are handed over by autorelease never outlive a
 * call: every call that makes some has its own pool. */
#ifndef KERNEL_METAL_MTL_H
#define KERNEL_METAL_MTL_H

#include "radish.h"

struct mtl_device;
struct mtl_buffer;
struct mtl_pipeline;
struct mtl_commands;

#define MTL_PAGE_BYTES  16384u /* pointers and lengths of wrapped memory are multiples of it */
#define MTL_BYTES_MAX   4096u  /* of mtl_bind_bytes() */
#define MTL_BINDINGS    31u
#define MTL_SIMD_WIDTH  32u    /* threads of a SIMD-group; asserted for every pipeline */
#define MTL_SHARED_MAX  32768u /* threadgroup memory */
#define MTL_THREADS_MAX 1024u  /* of a threadgroup; a pipeline's own limit may be lower */

struct mtl_info {
    char name[64];              /* "Apple M4 Pro" */
    uint64_t working_set_bytes; /* recommendedMaxWorkingSetSize */
    uint64_t buffer_bytes_max;  /* maxBufferLength */
    bool has_simd_matrices;     /* family Apple7: SIMD-group reductions and matrices */
    bool has_bfloat;            /* family Metal3 */
    bool has_residency;         /* residency sets: macOS 15 */
    bool is_unified;            /* hasUnifiedMemory */
};

/* Opens the system's default device, its queue and the library of kernels: a metallib in the
 * program where it was built with one, else the embedded source, compiled now with fast math off.
 * E_UNSUPPORTED: no Metal device; E_INTERNAL: the compiler's text. */
enum radish_status mtl_device_open(struct mtl_device **device_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void mtl_device_close(struct mtl_device *device); /* everything made of it must be destroyed */
const struct mtl_info *mtl_device_info(const struct mtl_device *device);

/* Shared storage, zeroed by the system; untracked: hazards are the caller's. bytes > 0. E_NOMEM. */
enum radish_status mtl_buffer_create(struct mtl_device *device, size_t bytes,
                                     struct mtl_buffer **buffer_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;
/* The same over memory of the caller's, which stays mapped until destroy; host and bytes are
 * multiples of MTL_PAGE_BYTES. */
enum radish_status mtl_buffer_wrap(struct mtl_device *device, const void *host, size_t bytes,
                                   struct mtl_buffer **buffer_out,
                                   struct radish_error *err) RADISH_CHECK_RESULT;
void *mtl_buffer_contents(const struct mtl_buffer *buffer);
size_t mtl_buffer_bytes(const struct mtl_buffer *buffer);
/* No command buffer that names it may still run. */
void mtl_buffer_destroy(struct mtl_device *device, struct mtl_buffer *buffer);

/* Makes resident what has been created since the last call and keeps it so; does nothing where
 * there are no residency sets. Before the first commit that names these buffers. */
void mtl_device_make_resident(struct mtl_device *device);

/* A function constant of a kernel. */
enum mtl_constant_type {
    MTL_CONSTANT_BOOL,
    MTL_CONSTANT_INT,
    MTL_CONSTANT_UINT,
    MTL_CONSTANT_FLOAT
};
struct mtl_constant {
    uint32_t index; /* [[function_constant(index)]] */
    enum mtl_constant_type type;
    union {
        bool b;
        int32_t i;
        uint32_t u;
        float f;
    } value;
};

/* E_INTERNAL: no such kernel, or what the compiler says. Compiling takes milliseconds: at load
 * time only. */
enum radish_status mtl_pipeline_create(struct mtl_device *device, const char *kernel,
                                       const struct mtl_constant *constants, uint32_t n_constants,
                                       struct mtl_pipeline **pipeline_out,
                                       struct radish_error *err) RADISH_CHECK_RESULT;
void mtl_pipeline_destroy(struct mtl_pipeline *pipeline);
uint32_t mtl_pipeline_threads_max(const struct mtl_pipeline *pipeline); /* of a threadgroup */
uint32_t mtl_pipeline_shared_bytes(
    const struct mtl_pipeline *pipeline); /* static threadgroup memory */

/* A command buffer (references unretained) with one concurrent encoder, both open. Dispatches
 * between two barriers may run in any order and at once. It is begun after the one before it was
 * committed, and sees all that this wrote. NULL: the system has no more. */
struct mtl_commands *mtl_commands_begin(struct mtl_device *device);
void mtl_use(struct mtl_commands *commands, const struct mtl_pipeline *pipeline);
void mtl_bind(struct mtl_commands *commands, uint32_t index, const struct mtl_buffer *buffer,
              size_t offset);
void mtl_bind_bytes(struct mtl_commands *commands, uint32_t index, const void *bytes, size_t n);
void mtl_bind_shared(struct mtl_commands *commands, uint32_t index,
                     size_t bytes); /* rounded to 16 */
/* grid: threads in all three directions, ragged edges included. */
void mtl_dispatch_threads(struct mtl_commands *commands, const uint32_t grid[3],
                          const uint32_t group[3]);
void mtl_dispatch_groups(struct mtl_commands *commands, const uint32_t n_groups[3],
                         const uint32_t group[3]);
/* What follows sees everything before it, in all buffers. */
void mtl_barrier(struct mtl_commands *commands);
void mtl_commit(struct mtl_commands *commands);

/* Waits and frees. AGAIN: the system ended it (watchdog, memory): status 5 with a cause that
 * smaller pieces may cure; E_INTERNAL: any other failure. err has the system's text.
 * gpu_seconds_out may be NULL. */
enum radish_status mtl_commands_wait(struct mtl_commands *commands, double *gpu_seconds_out,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
