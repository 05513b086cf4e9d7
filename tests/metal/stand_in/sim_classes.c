/* sim_classes.c - the stand-in's classes, registered from the table that the host casts by.
 *
 * The encoding that a method is registered with does not come from the table's column but is made
 * of its C types, as an Objective-C compiler would make it of a declaration. So the check of
 * encodings (test_mtl_encodings.c) compares two things here as well: what the column promises and
 * what the casts do. That both agree with Apple's classes, only a Mac can say.
 *
 * Classes that Apple names keep their names; what is only a protocol there is a class Sim... here,
 * as Apple's are private classes of some name. */
#include "sim_int.h"

#include <stdlib.h>
#include <string.h>

enum { PARAMETERS_MAX = 6, ENCODING_BYTES = 160 };

/* @encode, for the types of the table; asked by pointer, so that void has one. */
#define ENCODE(type)                                                                               \
    _Generic((type *)0, void *                                                                     \
             : "v", id *                                                                           \
             : "@", SEL *                                                                          \
             : ":", const char **                                                                  \
             : "r*", void **                                                                       \
             : "^v", const void **                                                                 \
             : "r^v", id **                                                                        \
             : "^@", bool *                                                                        \
             : "B", double *                                                                       \
             : "d", NSUInteger *                                                                   \
             : "Q", unsigned long long *                                                           \
             : "Q", NSInteger *                                                                    \
             : "q", struct mtl_size *                                                              \
             : "{?=QQQ}", struct mtl_block **                                                      \
             : "@?")
#define E1(a)                             ENCODE(a)
#define E2(a, ...)                        ENCODE(a), E1(__VA_ARGS__)
#define E3(a, ...)                        ENCODE(a), E2(__VA_ARGS__)
#define E4(a, ...)                        ENCODE(a), E3(__VA_ARGS__)
#define E5(a, ...)                        ENCODE(a), E4(__VA_ARGS__)
#define E6(a, ...)                        ENCODE(a), E5(__VA_ARGS__)
#define SEVENTH(a, b, c, d, e, f, g, ...) g
#define ENCODE_ALL(...)                   SEVENTH(__VA_ARGS__, E6, E5, E4, E3, E2, E1, )(__VA_ARGS__)

static const struct row {
    enum sim_kind role;
    bool is_of_class;
    const char *selector;
    method_fn method;
    const char *result, *parameters[PARAMETERS_MAX];
} rows[] = {
#define MTL_ROLE(role, kind)
#define INSTANCE false
#define CLASS    true
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)                    \
    {SIM_##role, side, selector, (method_fn)sim_##name, ENCODE(result), {ENCODE_ALL params}},
#include "metal/mtl_methods.def"
#undef INSTANCE
#undef CLASS
#undef MTL_METHOD
#undef MTL_ROLE
};

#define PROTOCOL "Sim"
#define CLASS    ""
static const char *const class_names[SIM_KINDS] = {
#define MTL_ROLE(role, kind) kind #role,
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE
    "SimDispatchData"};

static Class classes[SIM_KINDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add_methods(enum sim_kind kind) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (row->role != kind) continue;
        char encoding[ENCODING_BYTES];
        strcpy(encoding, row->result);
        for (size_t k = 0; k < PARAMETERS_MAX && row->parameters[k]; k++)
            strcat(encoding, row->parameters[k]);
        const Class class =
            row->is_of_class ? object_getClass((id)(void *)classes[kind]) : classes[kind];
        if (!class_addMethod(class, sel_registerTypedName(row->selector, encoding), row->method,
                             encoding))
            abort();
    }
}

/* GNU's runtime keeps selectors and methods for good, where LeakSanitizer does not look. */
const char *__lsan_default_suppressions(void) __attribute__((weak));
const char *__lsan_default_suppressions(void) {
    return "leak:objc_malloc\nleak:objc_calloc\nleak:objc_realloc\n";
}

static void make_classes(void) {
    const bool lacks_residency = sim_settings()->lacks_residency;
    for (int kind = 0; kind < SIM_KINDS; kind++) {
        if (kind == SIM_MTLResidencySetDescriptor && lacks_residency) continue;
        classes[kind] =
            objc_allocateClassPair(kind ? classes[SIM_NSObject] : NULL, class_names[kind], 0);
        if (!classes[kind]) abort();
        objc_registerClassPair(classes[kind]);
        add_methods((enum sim_kind)kind);
    }
}

void sim_classes_init(void) {
    pthread_once(&once, make_classes);
}

Class sim_class(enum sim_kind kind) {
    sim_classes_init();
    return classes[kind];
}

bool sim_is_class(const void *object) {
    for (int kind = 0; kind < SIM_KINDS; kind++)
        if (object == classes[kind]) return true;
    return false;
}

bool sim_lacks_method(enum sim_kind kind, const char *selector) {
    const struct sim_settings *s = sim_settings();
    if (kind == SIM_MTLCompileOptions)
        return s->lacks_math_mode && (!strcmp(selector, "setMathMode:") ||
                                      !strcmp(selector, "setMathFloatingPointFunctions:"));
    if (kind == SIM_MTLDevice)
        return !strcmp(selector, "newResidencySetWithDescriptor:error:") && s->lacks_residency;
    return kind == SIM_MTLCommandQueue && !strcmp(selector, "addResidencySet:") &&
           s->lacks_residency;
}

/* ---- NSObject ---- */

id sim_object_new(id self, SEL selector) {
    (void)selector;
    const struct {
        enum sim_kind kind;
        size_t bytes;
    } makeable[] = {{SIM_MTLCompileOptions, sizeof(struct sim_options)},
                    {SIM_MTLFunctionConstantValues, sizeof(struct sim_constants)},
                    {SIM_MTLResidencySetDescriptor, sizeof(struct sim_object)}};
    for (size_t i = 0; i < sizeof makeable / sizeof *makeable; i++)
        if ((void *)self == (void *)sim_class(makeable[i].kind))
            return sim_make(makeable[i].kind, makeable[i].bytes, NULL);
    sim_fault("+new of %s", class_getName((Class)(void *)self));
    return NULL;
}

id sim_object_retain(id self, SEL selector) {
    (void)selector;
    if (!sim_is_class(self)) sim_retain((void *)self);
    return self;
}

void sim_object_release(id self, SEL selector) {
    (void)selector;
    if (!sim_is_class(self)) sim_release((void *)self);
}

bool sim_object_responds(id self, SEL selector, SEL asked) {
    (void)selector;
    return class_respondsToSelector(object_getClass(self), asked) &&
           (sim_is_class(self) ||
            !sim_lacks_method(((struct sim_object *)(void *)self)->kind, sel_getName(asked)));
}
