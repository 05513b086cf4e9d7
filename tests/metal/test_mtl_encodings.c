/* test_mtl_encodings.c - do the classes that are here answer as src/kernel/metal/mtl_methods.def
 * says?
 *
 * mtl_objc.c calls every method by the type that the table gives it; if the table is wrong the call
 * passes garbage, and nothing but this can say so. The program makes one object of each class and
 * compares, row by row, what the runtime knows of the method with the row's encoding. It uses the
 * runtime's functions only, so it runs on a Mac, where it has to be the first thing to run
 * (scripts/metal-check), and on the stand-in.
 *
 * Metal's objects are of private classes. Where such a class has no method of its own for a
 * selector it may still answer (by forwarding): then the encoding is the protocol's. A row that
 * neither knows is reported as unknown, which is no failure; one that is not answered at all is,
 * unless the row says that it came after macOS 14.
 *
 *   test_mtl_encodings [-v]     -v: every row, not only those that differ
 * Exit status: 0, 1 when a row differs, 77 when there is no Metal device. */
#include "mtl_send.h"

#include <stdio.h>
#include <string.h>

struct description { /* objc_method_description */
    SEL name;
    const char *types;
};

extern id objc_getProtocol(const char *name);
extern const char *class_getName(Class class);
extern void *class_getInstanceMethod(Class class, SEL selector);
extern const char *method_getTypeEncoding(void *method);
extern struct description protocol_getMethodDescription(id protocol, SEL selector,
                                                        signed char is_required,
                                                        signed char is_instance);
#if defined(__APPLE__)
extern Class object_getClass(id object);
#else
static Class object_getClass(id object) { /* inline in GNU's headers, too */
    return *(Class *)(void *)object;
}
#endif

enum role {
#define MTL_ROLE(role, kind) ROLE_##role,
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)
#include "metal/mtl_methods.def"
    ROLE_COUNT
#undef MTL_METHOD
#undef MTL_ROLE
};

static const struct row {
    enum role role;
    const char *role_name;
    bool is_of_class;
    int since;
    const char *selector, *encoding;
} rows[METHOD_COUNT] = {
#define INSTANCE false
#define CLASS    true
#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)                    \
    {ROLE_##role, #role, side, since, selector, encoding},
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE
#undef INSTANCE
#undef CLASS
};

/* ---- one object of each kind ---- */

static id objects[ROLE_COUNT];

static id make(const char *class) {
    const id c = objc_getClass(class);
    return c ? SEND(object_new, c) : NULL;
}

static id text(const char *of) {
    return SEND(string_make, objc_getClass("NSString"), of);
}

static void make_pipeline(id device) {
    id error = NULL;
    objects[ROLE_MTLCompileOptions] = make("MTLCompileOptions");
    SEND(options_language_version, objects[ROLE_MTLCompileOptions], (3 << 16) + 1);
    SEND(options_fast_math, objects[ROLE_MTLCompileOptions], false);
    const id library = SEND(device_library_of_source, device, text("kernel void mtl_probe() {}\n"),
                            objects[ROLE_MTLCompileOptions], &error);
    objects[ROLE_MTLLibrary] = library;
    if (!library) return;
    const id values = make("MTLFunctionConstantValues");
    objects[ROLE_MTLFunctionConstantValues] = values;
    const id function = SEND(library_function, library, text("mtl_probe"), values, &error);
    objects[ROLE_MTLFunction] = function;
    if (function)
        objects[ROLE_MTLComputePipelineState] = SEND(device_pipeline, device, function, &error);
    /* The error is of the class that is asked for, if not in its class cluster. */
    SEND(library_function, library, text("no_such_kernel"), values, &error);
    objects[ROLE_NSError] = error;
}

static void make_objects(id device) {
    objects[ROLE_MTLDevice] = device;
    objects[ROLE_NSString] = text("radish");
    objects[ROLE_NSObject] = objects[ROLE_NSString];
    make_pipeline(device);
    objects[ROLE_MTLBuffer] = SEND(device_buffer, device, 64, 256);
    objects[ROLE_MTLFence] = SEND(device_fence, device);
    const id queue = SEND(device_queue, device);
    objects[ROLE_MTLCommandQueue] = queue;
    objects[ROLE_MTLCommandBuffer] = SEND(queue_commands, queue);
    objects[ROLE_MTLComputeCommandEncoder] =
        SEND(commands_encoder, objects[ROLE_MTLCommandBuffer], 1);
    const id descriptor = make("MTLResidencySetDescriptor");
    objects[ROLE_MTLResidencySetDescriptor] = descriptor;
    id error = NULL;
    if (descriptor)
        objects[ROLE_MTLResidencySet] = SEND(device_residency_set, device, descriptor, &error);
}

/* Those that are ours to release: made by new...; the others go with the pool. */
static void release_objects(void) {
    static const enum role owned[] = {ROLE_MTLCompileOptions,
                                      ROLE_MTLFunctionConstantValues,
                                      ROLE_MTLResidencySetDescriptor,
                                      ROLE_MTLLibrary,
                                      ROLE_MTLFunction,
                                      ROLE_MTLComputePipelineState,
                                      ROLE_MTLBuffer,
                                      ROLE_MTLFence,
                                      ROLE_MTLResidencySet,
                                      ROLE_MTLCommandQueue,
                                      ROLE_MTLDevice};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        if (objects[owned[i]]) SEND(object_release, objects[owned[i]]);
}

/* ---- encodings ---- */

/* A struct of three unsigned words is S; what else there is stays as it is. Returns what follows.
 */
static const char *read_struct(const char *at, char *out) {
    const char *const equals = strchr(at, '=');
    int depth = 0;
    const char *to = at;
    do {
        depth += (*to == '{') - (*to == '}');
        to++;
    } while (*to && depth > 0);
    const bool is_size = equals && equals < to && to - equals == 5 && strspn(equals + 1, "QL") == 3;
    *out = is_size ? 'S' : '{';
    return to;
}

/* "v40@0:8r^v16Q24Q32" becomes "v@:^UU". */
static void normalise(const char *at, char *out, size_t bytes) {
    size_t n = 0;
    while (*at && n + 1 < bytes) {
        if (strchr("rnNoORV0123456789+-", *at)) {
            at++;
        } else if (*at == '{') {
            at = read_struct(at, &out[n++]);
        } else if (*at == '^') {
            char inner;
            at += strspn(at, "^rnNoORV");
            at = *at == '{' ? read_struct(at, &inner) : at + (*at != '\0');
            out[n++] = '^';
        } else if (*at == '@') {
            at += 1 + (at[1] == '?');
            out[n++] = at[-1] == '?' ? '?' : '@';
            if (*at == '"') at = strchr(at + 1, '"') ? strchr(at + 1, '"') + 1 : at + 1;
        } else {
            out[n++] = strchr("QL", *at) ? 'U' : strchr("ql", *at) ? 'I' : *at == 'c' ? 'B' : *at;
            at++;
        }
    }
    out[n] = '\0';
}

/* What the runtime knows of a row's method, or NULL. */
static const char *find_encoding(const struct row *row, id object) {
    const SEL selector = sel_registerName(row->selector);
    void *method = class_getInstanceMethod(object_getClass(object), selector);
    if (method) return method_getTypeEncoding(method);
    const id protocol = objc_getProtocol(row->role_name);
    if (!protocol) return NULL;
    struct description d = protocol_getMethodDescription(protocol, selector, 1, 1);
    if (!d.types) d = protocol_getMethodDescription(protocol, selector, 0, 1);
    return d.types;
}

enum verdict { SAME, DIFFERENT, UNKNOWN, ABSENT };

static enum verdict check(const struct row *row, char *line_out, size_t bytes) {
    const id object = row->is_of_class ? objc_getClass(row->role_name) : objects[row->role];
    const char side = row->is_of_class ? '+' : '-';
    const bool is_new = row->since > 14;
    if (!object) {
        snprintf(line_out, bytes, "%c[%s %s]: there is no such object here%s", side, row->role_name,
                 row->selector, is_new ? " (it came with a later macOS than 14)" : "");
        return is_new ? ABSENT : DIFFERENT;
    }
    const char *class = class_getName(object_getClass(object));
    const char *encoding = find_encoding(row, object);
    char here[96] = "";
    if (encoding) normalise(encoding, here, sizeof here);
    if (encoding && !strcmp(here, row->encoding)) {
        snprintf(line_out, bytes, "%c[%s %s] of %s: %s", side, row->role_name, row->selector, class,
                 encoding);
        return SAME;
    }
    if (encoding) {
        snprintf(line_out, bytes, "%c[%s %s] of %s is %s (%s); the table says %s", side,
                 row->role_name, row->selector, class, here, encoding, row->encoding);
        return DIFFERENT;
    }
    if (SEND(object_responds, object, sel_registerName(row->selector))) {
        snprintf(line_out, bytes, "%c[%s %s] of %s answers; its encoding is unknown", side,
                 row->role_name, row->selector, class);
        return UNKNOWN;
    }
    snprintf(line_out, bytes, "%c[%s %s] of %s: not answered", side, row->role_name, row->selector,
             class);
    return is_new ? ABSENT : DIFFERENT;
}

int main(int argc, char **argv) {
    const bool is_verbose = argc > 1 && !strcmp(argv[1], "-v");
    static const char *const words[] = {"same", "DIFFERENT", "unknown", "absent"};
    unsigned counts[4] = {0};
    void *pool = objc_autoreleasePoolPush();
    const id device = MTLCreateSystemDefaultDevice();
    if (!device) {
        printf("encodings: there is no Metal device\n");
        objc_autoreleasePoolPop(pool);
        return 77;
    }
    make_objects(device);
    for (int i = 0; i < METHOD_COUNT; i++) {
        char line[512];
        const enum verdict verdict = check(&rows[i], line, sizeof line);
        counts[verdict]++;
        if (verdict != SAME || is_verbose) printf("%-9s %s\n", words[verdict], line);
    }
    printf("encodings: %u as the table says, %u different, %u unknown, %u not on this system\n",
           counts[SAME], counts[DIFFERENT], counts[UNKNOWN], counts[ABSENT]);
    SEND(encoder_end, objects[ROLE_MTLComputeCommandEncoder]);
    SEND(commands_commit, objects[ROLE_MTLCommandBuffer]);
    SEND(commands_wait, objects[ROLE_MTLCommandBuffer]);
    objc_autoreleasePoolPop(pool);
    release_objects();
    return counts[DIFFERENT] > 0;
}
