/* mtl_send.h - the methods of mtl_methods.def for tests: every method as a typed call, without what
 * mtl_objc.c makes of it. For a Mac as well as for the stand-in.
 *
 *   SEND(name, object, arguments...)    name: a row's
 * Included by one file of a program. Threads: any. */
#ifndef MTL_SEND_H
#define MTL_SEND_H

#include <stdbool.h>
#include <stddef.h>

typedef struct objc_object *id;
typedef const struct objc_selector *SEL;
typedef struct objc_class *Class;
typedef unsigned long NSUInteger;
typedef long NSInteger;
struct mtl_size {
    NSUInteger width, height, depth;
};
struct mtl_block;

extern void objc_msgSend(void);
extern id objc_getClass(const char *name);
extern SEL sel_registerName(const char *name);
extern void *objc_autoreleasePoolPush(void);
extern void objc_autoreleasePoolPop(void *pool);
extern id MTLCreateSystemDefaultDevice(void);

/* Through a variable: gcc does not call a function by another type than its own. */
static void (*volatile send_message)(void) = objc_msgSend;

#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params)                    \
    typedef result send_##name params;
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE

enum method {
#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params) METHOD_##name,
#include "metal/mtl_methods.def"
    METHOD_COUNT
#undef MTL_METHOD
#undef MTL_ROLE
};

static const char *const method_selectors[METHOD_COUNT] = {
#define MTL_ROLE(role, kind)
#define MTL_METHOD(name, role, side, since, selector, encoding, result, params) selector,
#include "metal/mtl_methods.def"
#undef MTL_METHOD
#undef MTL_ROLE
};

#define SEND(name, object, ...)                                                                    \
    ((send_##name *)send_message)(object, sel_registerName(method_selectors[METHOD_##name]),       \
                                  ##__VA_ARGS__)

#endif
