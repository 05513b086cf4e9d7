/* sim_objects.c - objects with reference counts, autorelease pools, and messages.
 *
 * Apple's runtime sends a message by objc_msgSend, which finds the method and jumps to it with all
 * arguments as they are. GNU's runtime has the finding (objc_msg_lookup) and leaves the jump to the
 * compiler; the trampoline below adds it: it keeps every register that may carry an argument, asks
 * find_method, and jumps. A message to nil returns 0 in all result registers, as on a Mac.
 *
 * A message to an object that is no more, which on a Mac is a crash on a lucky day, is a fault:
 * all living objects are in a table, and receivers are looked up there before anything of them is
 * read. Their memory is freed at the last release, so that AddressSanitizer sees what goes another
 * way round. Over-release is the same case: a message to the dead.
 *
 * An object that is handed over by autorelease lives until the pool around the call is popped, and
 * not a statement longer: whoever keeps it without retaining it meets the fault above. */
#include "sim_int.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, POOL_MAX = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_object *living[BUCKETS];
static long n_living;
static uint64_t n_made;

static size_t bucket_of(const void *object) {
    return (size_t)(((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u >> 52) % BUCKETS;
}

void *sim_make(enum sim_kind kind, size_t bytes, void (*drop)(struct sim_object *o)) {
    struct sim_object *o = calloc(1, bytes);
    if (!o) abort();
    o->class = sim_class(kind);
    o->kind = kind;
    o->n_refs = 1;
    o->drop = drop;
    pthread_mutex_lock(&lock);
    o->serial = ++n_made;
    o->next = living[bucket_of(o)];
    living[bucket_of(o)] = o;
    n_living++;
    pthread_mutex_unlock(&lock);
    return o;
}

bool sim_is_alive(const void *object, uint64_t serial) {
    pthread_mutex_lock(&lock);
    const struct sim_object *o = living[bucket_of(object)];
    while (o && o != object) o = o->next;
    const bool is_alive = o && (!serial || o->serial == serial);
    pthread_mutex_unlock(&lock);
    return is_alive;
}

void *sim_get(const void *object, enum sim_kind kind, const char *where) {
    if (!object || !sim_is_alive(object, 0)) {
        sim_fault("%s: %s", where, object ? "an object that has been released" : "nil");
        return NULL;
    }
    const struct sim_object *o = object;
    if (o->kind == kind) return (void *)(uintptr_t)object;
    sim_fault("%s: a %s where a %s is due", where, class_getName(o->class),
              class_getName(sim_class(kind)));
    return NULL;
}

void sim_retain(struct sim_object *o) {
    o->n_refs++;
}

void sim_release(struct sim_object *o) {
    if (!sim_is_alive(o, 0)) {
        sim_fault("over-release: an object that still is of use has been released to the end");
        return;
    }
    if (atomic_fetch_sub(&o->n_refs, 1) > 1) return;
    if (o->n_flights > 0)
        sim_fault("a %s is released while a command buffer that names it has not finished",
                  class_getName(o->class));
    pthread_mutex_lock(&lock);
    struct sim_object **at = &living[bucket_of(o)];
    while (*at != o) at = &(*at)->next;
    *at = o->next;
    n_living--;
    pthread_mutex_unlock(&lock);
    if (o->drop) o->drop(o);
    free(o);
}

long stand_in_objects_alive(void) {
    pthread_mutex_lock(&lock);
    const long n = n_living;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- autorelease pools, a thread's own ---- */

static _Thread_local struct sim_object *pooled[POOL_MAX];
static _Thread_local uintptr_t n_pooled, n_pools;

void *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void *pool);

/* A pool's name: how many pools and objects there were, in the halves of a word. */
void *objc_autoreleasePoolPush(void) {
    n_pools++;
    return (void *)(n_pools << 16 | n_pooled);
}

void objc_autoreleasePoolPop(void *pool) {
    const uintptr_t depth = (uintptr_t)pool >> 16, keep = (uintptr_t)pool & 0xFFFF;
    if (depth != n_pools || keep > n_pooled) {
        sim_fault("autorelease pool %lu is popped while pool %lu is the innermost", depth, n_pools);
        if (depth > n_pools || keep > n_pooled) return;
    }
    while (n_pooled > keep) sim_release(pooled[--n_pooled]);
    n_pools = depth - 1;
}

void *sim_autorelease(void *object) {
    if (!n_pools || n_pooled == POOL_MAX)
        sim_fault("a %s is autoreleased with %s: it leaks",
                  class_getName(((struct sim_object *)object)->class),
                  n_pools ? "a full pool around it" : "no pool in place");
    if (n_pooled < POOL_MAX) pooled[n_pooled++] = object;
    return object;
}

/* ---- messages ---- */

method_fn sim_find_method(id receiver, SEL selector) __attribute__((used, visibility("default")));

static uintptr_t answer_nothing(void) {
    return 0;
}

method_fn sim_find_method(id receiver, SEL selector) {
    const char *name = sel_getName(selector);
    if (!sim_is_class(receiver) && !sim_is_alive(receiver, 0)) {
        sim_fault("message %s to an object that has been released", name);
        return (method_fn)answer_nothing;
    }
    if (!class_respondsToSelector(object_getClass(receiver), selector) ||
        (!sim_is_class(receiver) &&
         sim_lacks_method(((struct sim_object *)(void *)receiver)->kind, name))) {
        sim_fault("%s does not answer %s: an exception on a Mac",
                  class_getName(object_getClass(receiver)), name);
        return (method_fn)answer_nothing;
    }
    return objc_msg_lookup(receiver, selector);
}

#if defined(__x86_64__)
__asm__("    .text\n"
        "    .globl objc_msgSend\n"
        "    .type objc_msgSend, @function\n"
        "objc_msgSend:\n"
        "    testq %rdi, %rdi\n"
        "    je 1f\n"
        "    pushq %rbp\n"
        "    movq %rsp, %rbp\n"
        "    subq $192, %rsp\n"
        "    movq %rdi, (%rsp)\n"
        "    movq %rsi, 8(%rsp)\n"
        "    movq %rdx, 16(%rsp)\n"
        "    movq %rcx, 24(%rsp)\n"
        "    movq %r8, 32(%rsp)\n"
        "    movq %r9, 40(%rsp)\n"
        "    movq %rax, 48(%rsp)\n"
        "    movups %xmm0, 64(%rsp)\n"
        "    movups %xmm1, 80(%rsp)\n"
        "    movups %xmm2, 96(%rsp)\n"
        "    movups %xmm3, 112(%rsp)\n"
        "    movups %xmm4, 128(%rsp)\n"
        "    movups %xmm5, 144(%rsp)\n"
        "    movups %xmm6, 160(%rsp)\n"
        "    movups %xmm7, 176(%rsp)\n"
        "    call sim_find_method@PLT\n"
        "    movq %rax, %r11\n"
        "    movq (%rsp), %rdi\n"
        "    movq 8(%rsp), %rsi\n"
        "    movq 16(%rsp), %rdx\n"
        "    movq 24(%rsp), %rcx\n"
        "    movq 32(%rsp), %r8\n"
        "    movq 40(%rsp), %r9\n"
        "    movq 48(%rsp), %rax\n"
        "    movups 64(%rsp), %xmm0\n"
        "    movups 80(%rsp), %xmm1\n"
        "    movups 96(%rsp), %xmm2\n"
        "    movups 112(%rsp), %xmm3\n"
        "    movups 128(%rsp), %xmm4\n"
        "    movups 144(%rsp), %xmm5\n"
        "    movups 160(%rsp), %xmm6\n"
        "    movups 176(%rsp), %xmm7\n"
        "    leave\n"
        "    jmp *%r11\n"
        "1:  xorl %eax, %eax\n"
        "    xorl %edx, %edx\n"
        "    xorps %xmm0, %xmm0\n"
        "    ret\n"
        "    .size objc_msgSend, . - objc_msgSend\n");
#else
#error "the stand-in for Metal sends messages on x86-64 only"
#endif
