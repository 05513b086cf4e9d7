/* sim_device.c - the objects that are made before anything is encoded: strings and errors, the
 * device, its library and pipelines, buffers, residency sets.
 *
 * There is one library: the kernels that the program was linked with. Asked to compile source, it
 * looks at the options only (fast math must be off, the language version 3.1 or what the kernels
 * need is not there on a Mac), at data only for a metallib's first letters. Buffers of 64 KiB and
 * more are mapped for themselves, so that a use of them after their release ends the process
 * wherever it comes from; smaller ones are malloc's, which AddressSanitizer guards. */
#include "sim_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE_BYTES = 16384, /* Apple's */
    MAP_FROM = 65536,
    OPTIONS_SHARED = 0,
    OPTIONS_UNTRACKED = 1 << 8,
    LANGUAGE_3_1 = (3 << 16) + 1,
    MATH_SAFE = 0,
    FUNCTIONS_PRECISE = 1
};

/* ---- strings, errors, data ---- */

static void drop_string(struct sim_object *o) {
    free(((struct sim_string *)o)->text);
}

static struct sim_string *make_text(enum sim_kind kind, size_t bytes, const char *text) {
    struct sim_string *s = sim_make(kind, bytes, drop_string);
    s->text = strdup(text);
    if (!s->text) abort();
    return sim_autorelease(s);
}

void *sim_make_string(const char *text) {
    return make_text(SIM_NSString, sizeof(struct sim_string), text);
}

struct sim_error {
    struct sim_string string;
    NSInteger code;
};

void *sim_make_error(NSInteger code, const char *text) {
    struct sim_error *e = (void *)make_text(SIM_NSError, sizeof *e, text);
    e->code = code;
    return e;
}

static id refuse(id *error_out, const char *text) {
    if (error_out) *error_out = sim_make_error(1, text);
    return NULL;
}

id sim_string_make(id self, SEL selector, const char *text) {
    (void)self, (void)selector;
    return sim_make_string(text);
}

const char *sim_string_text(id self, SEL selector) {
    (void)selector;
    return ((struct sim_string *)(void *)self)->text;
}

NSInteger sim_error_code(id self, SEL selector) {
    (void)selector;
    return ((struct sim_error *)(void *)self)->code;
}

id sim_error_description(id self, SEL selector) {
    (void)selector;
    return sim_make_string(((struct sim_string *)(void *)self)->text);
}

struct sim_data {
    struct sim_object base;
    size_t n;
    char first[4];
};

id dispatch_data_create(const void *bytes, size_t n, id queue, struct mtl_block *destructor);
void dispatch_release(id object);

id dispatch_data_create(const void *bytes, size_t n, id queue, struct mtl_block *destructor) {
    (void)queue, (void)destructor;
    struct sim_data *data = sim_make(SIM_DISPATCH_DATA, sizeof *data, NULL);
    data->n = n;
    memcpy(data->first, bytes, n < sizeof data->first ? n : sizeof data->first);
    return (id)(void *)data;
}

void dispatch_release(id object) {
    struct sim_object *o = sim_get(object, SIM_DISPATCH_DATA, "dispatch_release");
    if (o) sim_release(o);
}

/* ---- device ---- */

id MTLCreateSystemDefaultDevice(void);

id MTLCreateSystemDefaultDevice(void) {
    if (sim_settings()->lacks_device) return NULL;
    return sim_make(SIM_MTLDevice, sizeof(struct sim_object), NULL);
}

id sim_device_name(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_make_string("stand-in for Metal on the CPU");
}

unsigned long long sim_device_working_set(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_settings()->working_set;
}

NSUInteger sim_device_buffer_max(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_settings()->buffer_max;
}

bool sim_device_is_unified(id self, SEL selector) {
    (void)self, (void)selector;
    return true;
}

bool sim_device_supports_family(id self, SEL selector, NSInteger family) {
    (void)self, (void)selector;
    return (family == 1007 && !sim_settings()->lacks_apple7) ||
           (family == 5001 && !sim_settings()->lacks_metal3);
}

id sim_device_queue(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_settings()->lacks_queue ? NULL : sim_queue_make();
}

id sim_device_fence(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_make(SIM_MTLFence, sizeof(struct sim_fence), NULL);
}

/* ---- library and functions ---- */

void sim_options_fast_math(id self, SEL selector, bool is_fast) {
    (void)selector;
    struct sim_options *options = (struct sim_options *)(void *)self;
    options->has_safe_mode = options->has_precise_functions = !is_fast;
}

void sim_options_math_mode(id self, SEL selector, NSInteger mode) {
    (void)selector;
    ((struct sim_options *)(void *)self)->has_safe_mode = mode == MATH_SAFE;
}

void sim_options_math_functions(id self, SEL selector, NSInteger functions) {
    (void)selector;
    ((struct sim_options *)(void *)self)->has_precise_functions = functions == FUNCTIONS_PRECISE;
}

void sim_options_language_version(id self, SEL selector, NSUInteger version) {
    (void)selector;
    ((struct sim_options *)(void *)self)->language_version = version;
}

id sim_device_library_of_data(id self, SEL selector, id data_object, id *error_out) {
    (void)self, (void)selector;
    const struct sim_data *data = sim_get(data_object, SIM_DISPATCH_DATA, "newLibraryWithData");
    if (!data || data->n < 4 || memcmp(data->first, "MTLB", 4))
        return refuse(error_out, "Invalid library file");
    sim_counters.data++;
    return sim_make(SIM_MTLLibrary, sizeof(struct sim_object), NULL);
}

id sim_device_library_of_source(id self, SEL selector, id source_object, id options_object,
                                id *error_out) {
    (void)self, (void)selector;
    const char *where = "newLibraryWithSource";
    const struct sim_string *source = sim_get(source_object, SIM_NSString, where);
    const struct sim_options *options = sim_get(options_object, SIM_MTLCompileOptions, where);
    if (!source || !options) return refuse(error_out, "an argument is nil");
    if (!options->has_safe_mode) sim_fault("%s: fast math is on", where);
    if (!options->has_precise_functions) sim_fault("%s: functions are the fast ones", where);
    if (options->language_version != LANGUAGE_3_1)
        sim_fault("%s: language version %#lx, not 3.1", where, options->language_version);
    if (sim_settings()->fails_compile)
        return refuse(error_out, "program_source:12:3: error: use of undeclared identifier\n"
                                 "  flot4 x;\n  ^\n");
    sim_counters.source++;
    return sim_make(SIM_MTLLibrary, sizeof(struct sim_object), NULL);
}

void sim_constants_set(id self, SEL selector, const void *value, NSUInteger type,
                       NSUInteger index) {
    (void)selector;
    struct sim_constants *c = (void *)self;
    if (c->n_constants == SIM_CONSTANTS_MAX) {
        sim_fault("more than %d function constants", SIM_CONSTANTS_MAX);
        return;
    }
    struct msl_constant *out = &c->constants[c->n_constants++];
    out->index = (uint32_t)index;
    out->type = (enum msl_type)type;
    memcpy(&out->value, value,
           type == MSL_TYPE_BOOL                                                        ? 1
           : type == MSL_TYPE_HALF || type == MSL_TYPE_SHORT || type == MSL_TYPE_USHORT ? 2
                                                                                        : 4);
}

id sim_library_function(id self, SEL selector, id name_object, id values_object, id *error_out) {
    (void)self, (void)selector;
    const char *where = "newFunctionWithName";
    const struct sim_string *name = sim_get(name_object, SIM_NSString, where);
    const struct sim_constants *values =
        sim_get(values_object, SIM_MTLFunctionConstantValues, where);
    if (!name || !values) return refuse(error_out, "an argument is nil");
    char reason[256];
    const struct msl_kernel *kernel = msl_kernel_find(name->text);
    if (!kernel) {
        snprintf(reason, sizeof reason, "Function %s was not found in the library", name->text);
        return refuse(error_out, reason);
    }
    if (!msl_kernel_check(kernel, values->constants, values->n_constants, reason, sizeof reason))
        return refuse(error_out, reason);
    struct sim_function *f = sim_make(SIM_MTLFunction, sizeof *f, NULL);
    f->kernel = kernel;
    f->n_constants = values->n_constants;
    memcpy(f->constants, values->constants, sizeof f->constants);
    return (id)(void *)f;
}

id sim_device_pipeline(id self, SEL selector, id function_object, id *error_out) {
    (void)self, (void)selector;
    const struct sim_function *f = sim_get(function_object, SIM_MTLFunction, "newComputePipeline");
    if (!f) return refuse(error_out, "function is nil");
    struct sim_pipeline *p = sim_make(SIM_MTLComputePipelineState, sizeof *p, NULL);
    p->kernel = f->kernel;
    p->n_constants = f->n_constants;
    memcpy(p->constants, f->constants, sizeof p->constants);
    return (id)(void *)p;
}

NSUInteger sim_pipeline_threads_max(id self, SEL selector) {
    (void)selector;
    const uint64_t own = ((struct sim_pipeline *)(void *)self)->kernel->threads_max;
    return own < sim_settings()->threads_max ? own : sim_settings()->threads_max;
}

NSUInteger sim_pipeline_simd_width(id self, SEL selector) {
    (void)self, (void)selector;
    return sim_settings()->simd_width;
}

NSUInteger sim_pipeline_shared_bytes(id self, SEL selector) {
    (void)selector;
    return msl_kernel_shared_bytes(((struct sim_pipeline *)(void *)self)->kernel);
}

/* ---- buffers ---- */

static void drop_buffer(struct sim_object *o) {
    struct sim_buffer *b = (void *)o;
    sim_trace_drop(b);
    if (b->is_wrapped) return;
    if (b->mapped_bytes)
        munmap(b->data, b->mapped_bytes);
    else
        free(b->data);
}

/* Zeroed storage; the last byte of what is mapped is followed by a page that cannot be touched. */
static bool make_storage(struct sim_buffer *b) {
    void *data = NULL;
    if (b->bytes < MAP_FROM) {
        if (posix_memalign(&data, PAGE_BYTES, b->bytes)) return false;
        memset(data, 0, b->bytes);
        b->data = data;
        return true;
    }
    const size_t used = (b->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    data = mmap(NULL, used + 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return false;
    /* The kernel's pages are smaller than Apple's: what lies before the first whole one goes. */
    const size_t skipped = (PAGE_BYTES - (uintptr_t)data % PAGE_BYTES) % PAGE_BYTES;
    if (skipped) munmap(data, skipped);
    b->data = (char *)data + skipped;
    b->mapped_bytes = used + 2 * PAGE_BYTES - skipped;
    mprotect(b->data + used, b->mapped_bytes - used, PROT_NONE);
    return true;
}

static void check_options(NSUInteger options, const char *where) {
    if (options != (OPTIONS_SHARED | OPTIONS_UNTRACKED))
        sim_fault("%s: options %#lx are neither shared nor untracked", where, options);
}

static bool is_refused(NSUInteger n, const char *where) {
    const struct sim_settings *s = sim_settings();
    if (!n) sim_fault("%s: a buffer of no bytes", where);
    return !n || n > s->buffer_max || ++sim_counters.buffers == s->alloc_fail_at;
}

id sim_device_buffer(id self, SEL selector, NSUInteger n, NSUInteger options) {
    (void)self, (void)selector;
    check_options(options, "newBufferWithLength");
    if (is_refused(n, "newBufferWithLength")) return NULL;
    struct sim_buffer *b = sim_make(SIM_MTLBuffer, sizeof *b, drop_buffer);
    b->bytes = n;
    if (make_storage(b)) return (id)(void *)b;
    b->is_wrapped = true; /* nothing to free */
    sim_release(&b->base);
    return NULL;
}

id sim_device_buffer_no_copy(id self, SEL selector, void *data, NSUInteger n, NSUInteger options,
                             struct mtl_block *deallocator) {
    (void)self, (void)selector;
    const char *where = "newBufferWithBytesNoCopy";
    check_options(options, where);
    if (deallocator) sim_fault("%s: a deallocator, from C", where);
    if ((uintptr_t)data % PAGE_BYTES || n % PAGE_BYTES) {
        sim_fault("%s: %lu bytes at %p: both must be multiples of the 16 KiB page", where, n, data);
        return NULL;
    }
    if (is_refused(n, where)) return NULL;
    struct sim_buffer *b = sim_make(SIM_MTLBuffer, sizeof *b, drop_buffer);
    b->data = data;
    b->bytes = n;
    b->is_wrapped = true;
    return (id)(void *)b;
}

void *sim_buffer_contents(id self, SEL selector) {
    (void)selector;
    return ((struct sim_buffer *)(void *)self)->data;
}

/* ---- residency sets ---- */

enum residency_state { ADDED, RESIDENT, REMOVED };

static void drop_residency(struct sim_object *o) {
    struct sim_residency_set *r = (void *)o;
    for (size_t i = 0; i < r->n; i++) {
        if (r->states[i] != ADDED) sim_counters.resident -= r->buffers[i]->bytes;
        sim_release(&r->buffers[i]->base);
    }
    free(r->buffers);
    free(r->states);
}

id sim_device_residency_set(id self, SEL selector, id descriptor, id *error_out) {
    (void)self, (void)selector, (void)error_out;
    sim_get(descriptor, SIM_MTLResidencySetDescriptor, "newResidencySetWithDescriptor");
    return sim_make(SIM_MTLResidencySet, sizeof(struct sim_residency_set), drop_residency);
}

void sim_residency_add(id self, SEL selector, id object) {
    (void)selector;
    struct sim_residency_set *r = (void *)self;
    struct sim_buffer *b = sim_get(object, SIM_MTLBuffer, "addAllocation");
    if (!b) return;
    if (r->n == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->buffers = realloc(r->buffers, r->capacity * sizeof *r->buffers);
        r->states = realloc(r->states, r->capacity * sizeof *r->states);
        if (!r->buffers || !r->states) abort();
    }
    sim_retain(&b->base);
    b->is_unsettled = true;
    r->states[r->n] = ADDED;
    r->buffers[r->n++] = b;
}

void sim_residency_remove(id self, SEL selector, id object) {
    (void)selector;
    struct sim_residency_set *r = (void *)self;
    for (size_t i = 0; i < r->n; i++) {
        if ((void *)r->buffers[i] != (void *)object || r->states[i] == REMOVED) continue;
        if (r->states[i] == ADDED) sim_counters.resident += r->buffers[i]->bytes;
        r->states[i] = REMOVED;
        return;
    }
    sim_fault("removeAllocation: the residency set does not have it");
}

void sim_residency_commit(id self, SEL selector) {
    (void)selector;
    struct sim_residency_set *r = (void *)self;
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (r->states[i] == REMOVED) {
            sim_counters.resident -= r->buffers[i]->bytes;
            sim_release(&r->buffers[i]->base);
            continue;
        }
        if (r->states[i] == ADDED) sim_counters.resident += r->buffers[i]->bytes;
        r->buffers[i]->is_unsettled = false;
        r->states[n] = RESIDENT;
        r->buffers[n++] = r->buffers[i];
    }
    r->n = n;
}

void sim_residency_request(id self, SEL selector) {
    (void)selector;
    const struct sim_residency_set *r = (void *)self;
    sim_counters.requests++;
    for (size_t i = 0; i < r->n; i++)
        if (r->states[i] == ADDED) {
            sim_fault("requestResidency: buffers were added and not committed");
            return;
        }
}
