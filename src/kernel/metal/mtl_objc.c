/* mtl_objc.c - Metal from plain C, through the functions of the Objective-C runtime.
 *
 * Why not Objective-C: none of our compilers but the Mac's knows it, and this file is the one that
 * most needs to be built, run and sanitised elsewhere. A message is a call of objc_msgSend through
 * a pointer of the method's own type; on arm64 that is all there is to it (no _stret, no _fpret; a
 * struct of 24 bytes goes by reference, as the C compiler knows). So the same source runs on a Mac
 * and, without one #ifdef, on the stand-in for Metal that the tests link on Linux.
 *
 * What an Objective-C compiler would check, and who checks it here. mtl_methods.def says for each
 * method its selector, its encoding and its C type. The C type makes the cast, so that arguments
 * are checked by the C compiler; that encodings and C types agree is tested against the stand-in,
 * and that the encodings are Apple's, against the live classes, by the first test on a Mac. Methods
 * newer than macOS 14 are sent only after the object was asked for them.
 *
 *   who                  how long                          kept by
 *   device, queue,       open .. close                     new = ours, one release at close
 *   library, fence, set
 *   buffer, pipeline     create .. destroy                 new = ours
 *   command buffer,      begin .. wait                     handed over by autorelease: retained
 *   encoder
 *   strings, errors      one call                          the call's autorelease pool
 *
 * Order. Buffers are untracked and command buffers retain nothing: Metal orders and keeps nothing
 * for us, which is what makes encoding cheap. Inside a command buffer barriers order (they are the
 * caller's); from one command buffer to the next that promise would end, since the GPU may begin
 * the second while the first still runs. So every encoder waits for the device's fence when it
 * begins and updates it when it ends: the next sees all that this one wrote. Untracked buffers
 * without this would be right in every test that waits after each step, and wrong under overlap.
 *
 * Residency sets (macOS 15): one set holds all buffers; it belongs to the queue, so that whatever
 * the set holds when a command buffer is committed is resident while that runs. Without sets Metal
 * does the same for each buffer that a command buffer binds.
 *
 * What cannot be known without a Mac, where none of this has run: that Apple's private classes
 * answer as their protocols say, the texts and codes of errors (the codes that "smaller pieces may
 * cure" come from reports, so the text is looked at as well), and what residency does under
 * pressure.
 *
 * Cost: a message to Apple's classes takes nanoseconds; a dispatch is five to eight of them.
 * Nothing is allocated between begin and wait, apart from what Metal does itself: the structs of
 * finished commands are used again. */
#include "metal/mtl.h"

#include "base/invariant.h"
#include "base/mem.h"
#include "base/status.h"
#include "metal/metal_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the runtime, as mtl_methods.def names its types ---- */

typedef struct objc_object *id;
typedef const struct objc_selector *SEL;
typedef unsigned long NSUInteger;
typedef long NSInteger;
struct mtl_size { /* MTLSize */
    NSUInteger width, height, depth;
};
struct mtl_block; /* an Objective-C block; only ever nil here */

extern void objc_msgSend(void); /* never called by this type */
extern struct objc_object *objc_getClass(const char *name);
extern SEL sel_registerName(const char *name);
extern void *objc_autoreleasePoolPush(void);
extern void objc_autoreleasePoolPop(void *pool);
extern id MTLCreateSystemDefaultDevice(void);
extern id dispatch_data_create(const void *bytes, size_t n, id queue, struct mtl_block *destructor);
extern void dispatch_release(id object);

enum method {
#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params) METHOD_##name,
#include "metal/mtl_methods.def"
    METHOD_COUNT
};
#undef MTL_METHOD
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)                    \
    typedef result send_##name params;
#include "metal/mtl_methods.def"
#undef MTL_METHOD

static const char *const selector_names[METHOD_COUNT] = {
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params) selector,
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE
};

/* Sends a message of the table. gcc refuses to call a function by another type than its own unless
 * the address comes out of a variable; the device's `send` is one. */
#define SEND(device, name, object, ...)                                                            \
    ((send_##name *)(device)->send)(object, (device)->selectors[METHOD_##name], ##__VA_ARGS__)

/* Values of Metal's enumerations. */
enum {
    STORAGE_SHARED = 0,
    HAZARDS_UNTRACKED = 1 << 8,
    DISPATCH_CONCURRENT = 1,
    SCOPE_BUFFERS = 1,
    STATUS_ERROR = 5,
    FAMILY_APPLE7 = 1007,
    FAMILY_METAL3 = 5001,
    LANGUAGE_3_1 = (3 << 16) + 1,
    MATH_SAFE = 0,
    FUNCTIONS_PRECISE = 1,
    TYPE_FLOAT = 3,
    TYPE_INT = 29,
    TYPE_UINT = 33,
    TYPE_BOOL = 53
};

struct mtl_device {
    void (*send)(void);
    SEL selectors[METHOD_COUNT];
    id device, queue, library, fence;
    id residency;            /* a residency set, or nil */
    bool is_residency_stale; /* buffers were added since its last commit */
    bool is_fence_updated;   /* some encoder before: the next one waits for it */
    struct mtl_info info;
    struct mtl_commands *unused; /* finished ones, to be used again */
};

struct mtl_buffer {
    id buffer;
    void *contents;
    size_t bytes;
};

struct mtl_pipeline {
    struct mtl_device *device;
    id pipeline;
    uint32_t threads_max, shared_bytes;
};

struct mtl_commands {
    struct mtl_device *device;
    id buffer, encoder;
    bool is_committed;
    struct mtl_commands *next; /* in the list of unused ones */
};

/* ---- texts and errors ---- */

static id make_string(const struct mtl_device *d, const char *text) {
    return SEND(d, string_make, objc_getClass("NSString"), text);
}

/* An NSString's text on one line; "" for nil. */
static void copy_text(const struct mtl_device *d, id string, char *text_out, size_t bytes) {
    const char *text = string ? SEND(d, string_text, string) : NULL;
    snprintf(text_out, bytes, "%s", text ? text : "");
    for (char *c = text_out; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\t') *c = ' ';
}

static void describe(const struct mtl_device *d, id error, char *text_out, size_t bytes) {
    copy_text(d, error ? SEND(d, error_description, error) : NULL, text_out, bytes);
    if (!*text_out) snprintf(text_out, bytes, "Metal gives no reason");
}

static void release(const struct mtl_device *d, id object) {
    if (object) SEND(d, object_release, object);
}

static bool responds(const struct mtl_device *d, id object, enum method method) {
    return SEND(d, object_responds, object, d->selectors[method]);
}

/* ---- device ---- */

static void read_info(struct mtl_device *d) {
    struct mtl_info *info = &d->info;
    copy_text(d, SEND(d, device_name, d->device), info->name, sizeof info->name);
    info->working_set_bytes = SEND(d, device_working_set, d->device);
    info->buffer_bytes_max = SEND(d, device_buffer_max, d->device);
    info->has_simd_matrices = SEND(d, device_supports_family, d->device, FAMILY_APPLE7);
    info->has_bfloat = SEND(d, device_supports_family, d->device, FAMILY_METAL3);
    info->is_unified = SEND(d, device_is_unified, d->device);
}

static id compile_source(const struct mtl_device *d, id *error_out) {
    const id options = SEND(d, object_new, objc_getClass("MTLCompileOptions"));
    if (!options) return NULL;
    /* Whichever this system has: the first, which is deprecated, sets the other two as well. The
     * sources can say only one of them again (math_mode), and functions are fast by default. */
    if (responds(d, options, METHOD_options_fast_math))
        SEND(d, options_fast_math, options, /*is_fast=*/false);
    if (responds(d, options, METHOD_options_math_mode))
        SEND(d, options_math_mode, options, MATH_SAFE);
    if (responds(d, options, METHOD_options_math_functions))
        SEND(d, options_math_functions, options, FUNCTIONS_PRECISE);
    SEND(d, options_language_version, options, LANGUAGE_3_1);
    const id source = make_string(d, metal_source);
    const id library =
        source ? SEND(d, device_library_of_source, d->device, source, options, error_out) : NULL;
    release(d, options);
    return library;
}

/* A metallib that this system refuses (it may be older than the compiler that made it) is no
 * reason to give up: the source is there as well. */
static enum radish_status open_library(struct mtl_device *d, struct radish_error *err) {
    id error = NULL;
    char text[256];
    if (metal_library_bytes > 0) {
        const id data = dispatch_data_create(metal_library, metal_library_bytes, NULL, NULL);
        if (data) {
            d->library = SEND(d, device_library_of_data, d->device, data, &error);
            dispatch_release(data);
        }
    }
    if (!d->library) d->library = compile_source(d, &error);
    if (d->library) return RADISH_OK;
    describe(d, error, text, sizeof text);
    return error_set(err, RADISH_E_INTERNAL, "compiling the Metal kernels: %s", text);
}

/* A set that cannot be made is only a set less. */
static void open_residency(struct mtl_device *d) {
    const id class = objc_getClass("MTLResidencySetDescriptor");
    if (!class || !responds(d, d->device, METHOD_device_residency_set) ||
        !responds(d, d->queue, METHOD_queue_add_residency_set))
        return;
    id error = NULL;
    const id descriptor = SEND(d, object_new, class);
    if (!descriptor) return;
    d->residency = SEND(d, device_residency_set, d->device, descriptor, &error);
    release(d, descriptor);
    if (d->residency) SEND(d, queue_add_residency_set, d->queue, d->residency);
    d->info.has_residency = d->residency != NULL;
}

static enum radish_status open_all(struct mtl_device *d, struct radish_error *err) {
    d->device = MTLCreateSystemDefaultDevice();
    if (!d->device) return error_set(err, RADISH_E_UNSUPPORTED, "this system has no Metal device");
    read_info(d);
    d->queue = SEND(d, device_queue, d->device);
    d->fence = SEND(d, device_fence, d->device);
    if (!d->queue || !d->fence)
        return error_set(err, RADISH_E_INTERNAL, "%s: Metal gives no command queue or fence",
                         d->info.name);
    open_residency(d);
    return open_library(d, err);
}

enum radish_status mtl_device_open(struct mtl_device **device_out, struct radish_error *err) {
    *device_out = NULL;
    struct mtl_device *d = calloc(1, sizeof *d);
    if (!d) return error_nomem(err);
    d->send = objc_msgSend;
    for (uint32_t i = 0; i < METHOD_COUNT; i++)
        d->selectors[i] = sel_registerName(selector_names[i]);

    void *pool = objc_autoreleasePoolPush();
    const enum radish_status status = open_all(d, err);
    objc_autoreleasePoolPop(pool);
    if (status != RADISH_OK) {
        mtl_device_close(d);
        return status;
    }
    *device_out = d;
    return RADISH_OK;
}

void mtl_device_close(struct mtl_device *d) {
    if (!d) return;
    void *pool = objc_autoreleasePoolPush();
    release(d, d->library);
    release(d, d->residency);
    release(d, d->fence);
    release(d, d->queue);
    release(d, d->device);
    objc_autoreleasePoolPop(pool);
    for (struct mtl_commands *c = d->unused, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(d);
}

const struct mtl_info *mtl_device_info(const struct mtl_device *d) {
    return &d->info;
}

/* ---- buffers ---- */

/* Takes over `object`, which may be nil. */
static enum radish_status keep_buffer(struct mtl_device *d, id object, size_t bytes,
                                      struct mtl_buffer **buffer_out, struct radish_error *err) {
    if (!object)
        return error_set(err, RADISH_E_NOMEM,
                         "Metal gives no buffer of %zu bytes (the most for one is %llu)", bytes,
                         (unsigned long long)d->info.buffer_bytes_max);
    struct mtl_buffer *b = calloc(1, sizeof *b);
    if (!b) {
        release(d, object);
        return error_nomem(err);
    }
    b->buffer = object;
    b->bytes = bytes;
    b->contents = SEND(d, buffer_contents, object);
    if (d->residency) SEND(d, residency_add, d->residency, object);
    d->is_residency_stale = true;
    *buffer_out = b;
    return RADISH_OK;
}

enum radish_status mtl_buffer_create(struct mtl_device *d, size_t bytes,
                                     struct mtl_buffer **buffer_out, struct radish_error *err) {
    *buffer_out = NULL;
    RADISH_ASSERT(bytes > 0);
    void *pool = objc_autoreleasePoolPush();
    const id object = SEND(d, device_buffer, d->device, bytes, STORAGE_SHARED | HAZARDS_UNTRACKED);
    const enum radish_status status = keep_buffer(d, object, bytes, buffer_out, err);
    objc_autoreleasePoolPop(pool);
    return status;
}

enum radish_status mtl_buffer_wrap(struct mtl_device *d, const void *host, size_t bytes,
                                   struct mtl_buffer **buffer_out, struct radish_error *err) {
    *buffer_out = NULL;
    if (!bytes || bytes % MTL_PAGE_BYTES || (uintptr_t)host % MTL_PAGE_BYTES)
        return error_set(err, RADISH_E_INTERNAL,
                         "Metal cannot use %zu bytes at %p where they are: both must be multiples "
                         "of %u",
                         bytes, host, MTL_PAGE_BYTES);
    void *pool = objc_autoreleasePoolPush();
    /* Metal takes a pointer to what it may write; kernels only read what is wrapped as const. */
    const id object = SEND(d, device_buffer_no_copy, d->device, (void *)(uintptr_t)host, bytes,
                           STORAGE_SHARED | HAZARDS_UNTRACKED, /*deallocator=*/NULL);
    const enum radish_status status = keep_buffer(d, object, bytes, buffer_out, err);
    objc_autoreleasePoolPop(pool);
    return status;
}

void *mtl_buffer_contents(const struct mtl_buffer *buffer) {
    return buffer->contents;
}

size_t mtl_buffer_bytes(const struct mtl_buffer *buffer) {
    return buffer->bytes;
}

void mtl_buffer_destroy(struct mtl_device *d, struct mtl_buffer *buffer) {
    if (!buffer) return;
    void *pool = objc_autoreleasePoolPush();
    if (d->residency) {
        SEND(d, residency_remove, d->residency, buffer->buffer);
        SEND(d, residency_commit, d->residency); /* until then the set keeps it */
    }
    release(d, buffer->buffer);
    objc_autoreleasePoolPop(pool);
    free(buffer);
}

void mtl_device_make_resident(struct mtl_device *d) {
    if (!d->residency || !d->is_residency_stale) return;
    void *pool = objc_autoreleasePoolPush();
    SEND(d, residency_commit, d->residency);
    SEND(d, residency_request, d->residency);
    objc_autoreleasePoolPop(pool);
    d->is_residency_stale = false;
}

/* ---- pipelines ---- */

static NSUInteger constant_type(enum mtl_constant_type type) {
    switch (type) {
    case MTL_CONSTANT_BOOL: return TYPE_BOOL;
    case MTL_CONSTANT_INT: return TYPE_INT;
    case MTL_CONSTANT_UINT: return TYPE_UINT;
    case MTL_CONSTANT_FLOAT: return TYPE_FLOAT;
    }
    RADISH_INVARIANT(false, "function constant of type %d", (int)type);
}

static id make_function(const struct mtl_device *d, const char *kernel,
                        const struct mtl_constant *constants, uint32_t n_constants, id *error_out) {
    const id values = SEND(d, object_new, objc_getClass("MTLFunctionConstantValues"));
    if (!values) return NULL;
    for (uint32_t i = 0; i < n_constants; i++)
        SEND(d, constants_set, values, &constants[i].value, constant_type(constants[i].type),
             constants[i].index);
    const id name = make_string(d, kernel);
    const id function =
        name ? SEND(d, library_function, d->library, name, values, error_out) : NULL;
    release(d, values);
    return function;
}

static enum radish_status open_pipeline(struct mtl_pipeline *p, const char *kernel,
                                        const struct mtl_constant *constants, uint32_t n_constants,
                                        struct radish_error *err) {
    struct mtl_device *d = p->device;
    id error = NULL;
    const id function = make_function(d, kernel, constants, n_constants, &error);
    if (function) p->pipeline = SEND(d, device_pipeline, d->device, function, &error);
    release(d, function);
    if (!p->pipeline) {
        char text[256];
        describe(d, error, text, sizeof text);
        return error_set(err, RADISH_E_INTERNAL, "Metal kernel %s: %s", kernel, text);
    }
    p->threads_max = (uint32_t)SEND(d, pipeline_threads_max, p->pipeline);
    p->shared_bytes = (uint32_t)SEND(d, pipeline_shared_bytes, p->pipeline);
    const NSUInteger width = SEND(d, pipeline_simd_width, p->pipeline);
    if (width != MTL_SIMD_WIDTH)
        return error_set(err, RADISH_E_INTERNAL,
                         "Metal kernel %s: SIMD-groups of %lu threads; all kernels assume %u",
                         kernel, width, MTL_SIMD_WIDTH);
    return RADISH_OK;
}

enum radish_status mtl_pipeline_create(struct mtl_device *d, const char *kernel,
                                       const struct mtl_constant *constants, uint32_t n_constants,
                                       struct mtl_pipeline **pipeline_out,
                                       struct radish_error *err) {
    *pipeline_out = NULL;
    struct mtl_pipeline *p = calloc(1, sizeof *p);
    if (!p) return error_nomem(err);
    p->device = d;
    void *pool = objc_autoreleasePoolPush();
    const enum radish_status status = open_pipeline(p, kernel, constants, n_constants, err);
    objc_autoreleasePoolPop(pool);
    if (status != RADISH_OK) {
        mtl_pipeline_destroy(p);
        return status;
    }
    *pipeline_out = p;
    return RADISH_OK;
}

void mtl_pipeline_destroy(struct mtl_pipeline *pipeline) {
    if (!pipeline) return;
    release(pipeline->device, pipeline->pipeline);
    free(pipeline);
}

uint32_t mtl_pipeline_threads_max(const struct mtl_pipeline *pipeline) {
    return pipeline->threads_max;
}

uint32_t mtl_pipeline_shared_bytes(const struct mtl_pipeline *pipeline) {
    return pipeline->shared_bytes;
}

/* ---- commands ---- */

static struct mtl_commands *take_commands(struct mtl_device *d) {
    struct mtl_commands *c = d->unused;
    if (c) {
        d->unused = c->next;
        memset(c, 0, sizeof *c);
    } else {
        c = calloc(1, sizeof *c);
    }
    if (c) c->device = d;
    return c;
}

static void give_commands(struct mtl_commands *c) {
    struct mtl_device *d = c->device;
    release(d, c->encoder);
    release(d, c->buffer);
    c->next = d->unused;
    d->unused = c;
}

struct mtl_commands *mtl_commands_begin(struct mtl_device *d) {
    struct mtl_commands *c = take_commands(d);
    if (!c) return NULL;
    void *pool = objc_autoreleasePoolPush();
    c->buffer = SEND(d, queue_commands, d->queue);
    if (c->buffer) {
        SEND(d, object_retain, c->buffer);
        c->encoder = SEND(d, commands_encoder, c->buffer, DISPATCH_CONCURRENT);
        if (c->encoder) SEND(d, object_retain, c->encoder);
    }
    if (c->encoder && d->is_fence_updated) SEND(d, encoder_wait_fence, c->encoder, d->fence);
    objc_autoreleasePoolPop(pool);
    if (c->encoder) return c;
    give_commands(c);
    return NULL;
}

void mtl_use(struct mtl_commands *c, const struct mtl_pipeline *pipeline) {
    SEND(c->device, encoder_pipeline, c->encoder, pipeline->pipeline);
}

void mtl_bind(struct mtl_commands *c, uint32_t index, const struct mtl_buffer *buffer,
              size_t offset) {
    RADISH_ASSERT(index < MTL_BINDINGS && offset < buffer->bytes);
    SEND(c->device, encoder_buffer, c->encoder, buffer->buffer, offset, index);
}

void mtl_bind_bytes(struct mtl_commands *c, uint32_t index, const void *bytes, size_t n) {
    RADISH_ASSERT(index < MTL_BINDINGS && n > 0 && n <= MTL_BYTES_MAX);
    SEND(c->device, encoder_bytes, c->encoder, bytes, n, index);
}

void mtl_bind_shared(struct mtl_commands *c, uint32_t index, size_t bytes) {
    SEND(c->device, encoder_shared, c->encoder, (bytes + 15) & ~(size_t)15, index);
}

static inline struct mtl_size size_of(const uint32_t n[3]) {
    return (struct mtl_size){n[0], n[1], n[2]};
}

/* Metal's validation layers make objects of their own in here. */
void mtl_dispatch_threads(struct mtl_commands *c, const uint32_t grid[3], const uint32_t group[3]) {
    void *pool = objc_autoreleasePoolPush();
    SEND(c->device, encoder_dispatch_threads, c->encoder, size_of(grid), size_of(group));
    objc_autoreleasePoolPop(pool);
}

void mtl_dispatch_groups(struct mtl_commands *c, const uint32_t n_groups[3],
                         const uint32_t group[3]) {
    void *pool = objc_autoreleasePoolPush();
    SEND(c->device, encoder_dispatch_groups, c->encoder, size_of(n_groups), size_of(group));
    objc_autoreleasePoolPop(pool);
}

void mtl_barrier(struct mtl_commands *c) {
    SEND(c->device, encoder_barrier, c->encoder, SCOPE_BUFFERS);
}

void mtl_commit(struct mtl_commands *c) {
    struct mtl_device *d = c->device;
    void *pool = objc_autoreleasePoolPush();
    SEND(d, encoder_update_fence, c->encoder, d->fence);
    SEND(d, encoder_end, c->encoder);
    SEND(d, commands_commit, c->buffer);
    objc_autoreleasePoolPop(pool);
    d->is_fence_updated = true;
    c->is_committed = true;
}

/* Codes of MTLCommandBufferErrorDomain after which the same work in smaller pieces may run: the
 * watchdog (2, and 14 for having kept the screen waiting), memory (8), and having been in flight
 * when another one failed. Systems differ in the code of the last two, but not in the text. */
static bool is_cured_by_shrinking(NSInteger code, const char *text) {
    enum { ERROR_TIMEOUT = 2, ERROR_MEMORY = 8, ERROR_INTERACTIVITY = 14 };
    return code == ERROR_TIMEOUT || code == ERROR_MEMORY || code == ERROR_INTERACTIVITY ||
           strstr(text, "ImpactingInteractivity") || strstr(text, "ErrorTimeout") ||
           strstr(text, "ErrorOutOfMemory") || strstr(text, "ErrorInnocentVictim");
}

static enum radish_status judge(const struct mtl_commands *c, struct radish_error *err) {
    const struct mtl_device *d = c->device;
    if (SEND(d, commands_status, c->buffer) != STATUS_ERROR) return RADISH_OK;
    char text[256];
    const id error = SEND(d, commands_error, c->buffer);
    const NSInteger code = error ? SEND(d, error_code, error) : 0;
    describe(d, error, text, sizeof text);
    return error_set(err, is_cured_by_shrinking(code, text) ? RADISH_AGAIN : RADISH_E_INTERNAL,
                     "Metal ended a command buffer: %s (code %ld)", text, code);
}

enum radish_status mtl_commands_wait(struct mtl_commands *c, double *gpu_seconds_out,
                                     struct radish_error *err) {
    struct mtl_device *d = c->device;
    RADISH_ASSERT(c->is_committed);
    void *pool = objc_autoreleasePoolPush();
    SEND(d, commands_wait, c->buffer);
    const enum radish_status status = judge(c, err);
    if (gpu_seconds_out)
        *gpu_seconds_out =
            SEND(d, commands_gpu_end, c->buffer) - SEND(d, commands_gpu_start, c->buffer);
    objc_autoreleasePoolPop(pool);
    give_commands(c);
    return status;
}
