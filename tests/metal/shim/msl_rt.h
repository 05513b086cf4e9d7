/* msl_rt.h - kernels of .metal files, run on the CPU: what the stand-in for Metal calls.
 *
 * A library of kernels (cmake/msl.cmake) registers its kernels when it is loaded; this interface
 * finds, checks and runs them. A run blocks until its grid is done; runs are done one at a time
 * (a mutex), each on several OS threads, a threadgroup at a time on each.
 *
 * What a run finds wrong is a fault: it is printed, counted, and ends the run. Environment, read
 * at each run:
 *   MSL_ORDER    forward (default), reverse or shuffle[:SEED]: in which order the threads of a
 *                threadgroup (and threadgroups) take their turns between barriers
 *   MSL_FLUSH=1  denormal floats are flushed to zero, as Apple's GPUs do
 *   MSL_THREADS  OS threads (2)
 *   MSL_FAST_TRIG=1  fast::sin and fast::cos err as far as the specification allows
 *
 * Owns: everything it returns. Threads: any. */
#ifndef MSL_RT_H
#define MSL_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MSL_BINDINGS    31u
#define MSL_SHARED_MAX  32768u
#define MSL_THREADS_MAX 1024u

/* Values are MTLDataType's. */
enum msl_type {
    MSL_TYPE_FLOAT = 3,
    MSL_TYPE_HALF = 16,
    MSL_TYPE_INT = 29,
    MSL_TYPE_UINT = 33,
    MSL_TYPE_SHORT = 37,
    MSL_TYPE_USHORT = 41,
    MSL_TYPE_BOOL = 53
};

enum msl_binding_kind { MSL_BINDING_BUFFER, MSL_BINDING_SHARED };

/* An argument of a kernel that has an index. */
struct msl_binding {
    enum msl_binding_kind kind;
    uint32_t index;    /* [[buffer(index)]] or [[threadgroup(index)]] */
    bool is_reference; /* constant args &a */
    bool is_read_only; /* const or constant */
    uint32_t align;    /* of what it points to, bytes */
    const char *name;
};

struct msl_kernel {
    const char *name; /* host_name */
    const char *file; /* its .metal */
    uint32_t line;
    const struct msl_binding *bindings; /* [n_bindings] */
    uint32_t n_bindings;
    uint32_t threads_max; /* of a threadgroup: max_total_threads_per_threadgroup, or 1,024 */
};

/* A value for a function constant; its bytes as Metal takes them. */
struct msl_constant {
    uint32_t index;
    enum msl_type type;
    union {
        bool b;
        int32_t i;
        uint32_t u;
        int16_t i16;
        uint16_t u16;
        float f;
    } value;
};

/* NULL: there is none. */
const struct msl_kernel *msl_kernel_find(const char *name);
size_t msl_kernel_count(void);
const struct msl_kernel *msl_kernel_at(size_t i);

/* What making a pipeline checks: every constant is one of the kernel's file, has its type, and
 * every function constant that the kernel uses has a value. False: reason_out says what is wrong.
 */
bool msl_kernel_check(const struct msl_kernel *kernel, const struct msl_constant *constants,
                      uint32_t n_constants, char *reason_out, size_t reason_bytes);
/* Static threadgroup memory of the kernel, as far as a run has shown it. */
uint32_t msl_kernel_shared_bytes(const struct msl_kernel *kernel);

struct msl_run {
    const struct msl_kernel *kernel;
    const struct msl_constant *constants; /* [n_constants] */
    uint32_t n_constants;
    bool is_by_threads; /* grid counts threads (ragged edges are cut), else threadgroups */
    uint32_t grid[3];
    uint32_t group[3];           /* threads of a threadgroup */
    void *buffers[MSL_BINDINGS]; /* host addresses, NULL where nothing is bound */
    uint32_t shared_bytes[MSL_BINDINGS];
};

/* False: a fault, its text in fault_out (may be NULL). */
bool msl_run(const struct msl_run *run, char *fault_out, size_t fault_bytes);

/* If it is not NULL, told of each load and store before it is done, by kernels of the variant
 * `traced` (msl-cc), on whichever thread runs them. Not to be changed during a run. */
extern void (*msl_tracer)(const void *at, size_t bytes, bool is_write);

unsigned msl_faults(void); /* since the start or the last reset */
void msl_faults_reset(void);

#ifdef __cplusplus
}
#endif

#endif
