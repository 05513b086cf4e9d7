/* sim_int.h - the inside of the stand-in for Metal.
 *
 *   sim_objects.c   objects, reference counts, autorelease pools, the message trampoline
 *   sim_report.c    settings from the environment, faults, hazards, the exit status
 *   sim_classes.c   classes and their methods, from mtl_methods.def
 *   sim_device.c    Foundation's few classes, device, library, pipelines, buffers, residency
 *   sim_commands.c  command buffers and encoders: recording, and what is wrong use of them
 *   sim_queue.c     the queue's thread: running what was committed, hazards
 *   sim_trace.c     hazards of single accesses, where kernels were compiled to report them
 *
 * Every method of the table is a function sim_NAME of the table's type; this header declares them.
 * Threads: Metal's methods from one thread, the queue's thread beside it; releases from both. */
#ifndef SIM_INT_H
#define SIM_INT_H

#include "msl_rt.h"
#include "stand_in.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the runtime's types and functions (GNU libobjc) ---- */

typedef struct objc_object *id;
typedef const struct objc_selector *SEL;
typedef struct objc_class *Class;
typedef void (*method_fn)(void); /* IMP; called by the trampoline only */
typedef unsigned long NSUInteger;
typedef long NSInteger;
struct mtl_size {
    NSUInteger width, height, depth;
};
struct mtl_block;

extern Class objc_allocateClassPair(Class parent, const char *name, size_t extra_bytes);
extern void objc_registerClassPair(Class class);
extern signed char class_addMethod(Class class, SEL selector, method_fn method, const char *types);
static inline Class object_getClass(id object) { /* inline in GNU's headers, too */
    return *(Class *)(void *)object;
}
extern const char *class_getName(Class class);
extern signed char class_respondsToSelector(Class class, SEL selector);
extern SEL sel_registerTypedName(const char *name, const char *types);
extern const char *sel_getName(SEL selector);
extern method_fn objc_msg_lookup(id receiver, SEL selector);

#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)                    \
    result sim_##name params;
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE

enum sim_kind {
#define MTL_ROLE(role, kind) SIM_##role,
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE
    SIM_DISPATCH_DATA, /* of libdispatch: an object without messages */
    SIM_KINDS
};

/* ---- objects ---- */

struct sim_object {
    Class class;
    enum sim_kind kind;
    uint64_t serial; /* never given twice */
    atomic_int n_refs;
    atomic_int n_flights; /* dispatches recorded and not finished that name it, unretained */
    void (*drop)(struct sim_object *o); /* NULL, or releases what it owns */
    struct sim_object *next;            /* in its bucket of the living */
};

/* One reference, the caller's. Never NULL. */
void *sim_make(enum sim_kind kind, size_t bytes, void (*drop)(struct sim_object *o));
void sim_retain(struct sim_object *o);
void sim_release(struct sim_object *o);
void *sim_autorelease(void *object); /* the same object */
/* Is this a living object, and the one with this serial number (0: any)? Reads nothing else. */
bool sim_is_alive(const void *object, uint64_t serial);
/* The object as its struct; a fault and NULL when it is nil, dead or of another kind. */
void *sim_get(const void *object, enum sim_kind kind, const char *where);

Class sim_class(enum sim_kind kind);
bool sim_is_class(const void *object);
void sim_classes_init(void);
bool sim_lacks_method(enum sim_kind kind, const char *selector); /* by the settings */
void *sim_make_string(const char *text);                         /* autoreleased */
void *sim_make_error(NSInteger code, const char *text);          /* autoreleased */

struct sim_string {
    struct sim_object base;
    char *text;
};

/* ---- faults and settings ---- */

void sim_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_hazard(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct sim_settings {
    uint64_t delay_us, jitter;
    bool is_forward, fails_compile, ignores_exit;
    uint64_t fail_at, fail_code, fail_times; /* fail_at 0: never */
    uint64_t alloc_fail_at, begin_fail_at;
    uint64_t buffer_max, working_set, threads_max, simd_width;
    bool lacks_device, lacks_queue, lacks_residency, lacks_math_mode, lacks_apple7, lacks_metal3;
};
const struct sim_settings *sim_settings(void);

struct sim_counters {
    atomic_ullong commands, begun, dispatches, barriers, buffers, data, source, resident, requests;
};
extern struct sim_counters sim_counters;

/* ---- Metal's objects ---- */

struct sim_buffer {
    struct sim_object base;
    char *data;
    size_t bytes, mapped_bytes; /* mapped_bytes 0: from malloc; nothing to free when wrapped */
    bool is_wrapped;
    bool is_unsettled; /* added to a residency set that has not been committed since */
    uint32_t *shadow;  /* sim_trace.c: who wrote and read what, or NULL */
};

#define SIM_CONSTANTS_MAX 64
struct sim_pipeline {
    struct sim_object base;
    const struct msl_kernel *kernel;
    struct msl_constant constants[SIM_CONSTANTS_MAX];
    uint32_t n_constants;
};

struct sim_function {
    struct sim_object base;
    const struct msl_kernel *kernel;
    struct msl_constant constants[SIM_CONSTANTS_MAX];
    uint32_t n_constants;
};

struct sim_constants { /* MTLFunctionConstantValues */
    struct sim_object base;
    struct msl_constant constants[SIM_CONSTANTS_MAX];
    uint32_t n_constants;
};

struct sim_options { /* MTLCompileOptions */
    struct sim_object base;
    bool has_safe_mode, has_precise_functions;
    NSUInteger language_version;
};

struct sim_residency_set {
    struct sim_object base;
    struct sim_buffer **buffers; /* each retained, until its removal is committed */
    uint64_t *states;            /* [n] of enum residency_state in sim_device.c */
    size_t n, capacity;
};

struct sim_fence {
    struct sim_object base;
    bool is_updated;
    uint64_t seq; /* dispatches below it end before whoever waits begins */
};

/* What an encoder has bound at one index, or what a dispatch took of it. */
struct sim_binding {
    struct sim_buffer *buffer; /* unretained */
    uint64_t serial;
    size_t offset;
    void *bytes; /* setBytes: a copy, n long */
    size_t n;
};

struct sim_dispatch {
    bool is_barrier;
    bool is_broken;                /* was a fault when it was encoded: not run */
    struct sim_pipeline *pipeline; /* unretained */
    uint64_t pipeline_serial;
    bool is_by_threads;
    uint32_t grid[3], group[3];
    uint32_t shared_bytes[MSL_BINDINGS];
    uint32_t n_bindings;          /* those that the kernel has */
    struct sim_binding *bindings; /* in the kernel's order; unused for threadgroup memory */
    uint64_t seq;                 /* in the order of commits, over all command buffers */
};

struct sim_commands {
    struct sim_object base;
    struct sim_queue *queue;     /* not retained: released while it has work, it is a fault */
    struct sim_encoder *encoder; /* retained; one each */
    bool is_committed, is_serial, is_done;
    const struct sim_fence *wait_fence;
    struct sim_fence *update_fence;
    uint64_t n_of_reset;         /* of those committed since the last reset, from 1 */
    uint64_t first_seq, end_seq; /* its dispatches: [first_seq, end_seq) */
    uint64_t other_first;        /* [other_first, first_seq): of earlier ones, ordered by nothing */
    uint64_t host_seen; /* dispatches below it were over, for the host, when this was committed */
    struct sim_dispatch *dispatches; /* [n_dispatches], barriers among them */
    size_t n_dispatches, capacity;
    NSUInteger status;
    NSInteger error_code;
    char error_text[256];
    double start, end;
    struct sim_commands *next; /* in the queue */
};

struct sim_encoder {
    struct sim_object base;
    struct sim_commands *commands; /* not retained: it retains the encoder */
    bool is_ended;
    struct sim_pipeline *pipeline;
    uint64_t pipeline_serial;
    struct sim_binding bindings[MSL_BINDINGS];
    uint32_t shared_bytes[MSL_BINDINGS];
};

struct sim_queue {
    struct sim_object base;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sim_commands *first, *last; /* committed, retained until they have run */
    bool is_closing;
    uint64_t host_seen; /* dispatches below it have been waited for */
    uint64_t rng;
    struct sim_access *history; /* by bindings, of dispatches that the host has not waited for */
    size_t n_history, history_capacity;
};
void *sim_queue_make(void);
void sim_queue_commit(struct sim_queue *q, struct sim_commands *c);
void sim_queue_wait(struct sim_queue *q, struct sim_commands *c);
void sim_commands_clear(struct sim_commands *c); /* forgets its dispatches */

/* ---- accesses ---- */

/* What may run at the same time as a dispatch: its region (between two barriers), and those of
 * earlier command buffers that nothing orders before this one. */
struct sim_region {
    uint64_t first, end;
    uint64_t other_first, other_end;
};
static inline bool sim_is_concurrent(const struct sim_region *r, uint64_t seq, uint64_t self) {
    return seq != self &&
           ((seq >= r->first && seq < r->end) || (seq >= r->other_first && seq < r->other_end));
}
void sim_trace_begin(const struct sim_dispatch *d, const struct sim_region *region);
void sim_trace_end(void);
bool sim_trace_is_on(void); /* kernels have reported accesses */
void sim_trace_drop(struct sim_buffer *b);

#endif
