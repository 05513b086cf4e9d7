/* msl_fiber.cpp - fiber_switch() and what AddressSanitizer has to know.
 *
 * A switch saves what a called function must keep, and the stack pointer. The floating-point
 * control word is left alone: all threads of a run have the same. */
#include "msl_fiber.h"

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MSL_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#endif

#if defined(__x86_64__)
extern "C" void msl_fiber_swap(void **save, void *load);
asm(R"(.text
.hidden msl_fiber_swap
.globl msl_fiber_swap
.type msl_fiber_swap,@function
msl_fiber_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size msl_fiber_swap, .-msl_fiber_swap
)");
#elif defined(__aarch64__)
extern "C" void msl_fiber_swap(void **save, void *load);
asm(R"(.text
.hidden msl_fiber_swap
.globl msl_fiber_swap
.type msl_fiber_swap,%function
msl_fiber_swap:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size msl_fiber_swap, .-msl_fiber_swap
)");
#endif

namespace msl {
void fiber_start(Fiber &fiber, void (*entry)()) {
    fiber.fake_stack = nullptr;
#if defined(__x86_64__)
    void **sp = reinterpret_cast<void **>(fiber.stack + fiber.stack_bytes);
    *--sp = nullptr; /* where a call would have left its return address */
    *--sp = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    fiber.sp = sp;
#elif defined(__aarch64__)
    void **sp = reinterpret_cast<void **>(fiber.stack + fiber.stack_bytes - 160);
    for (int i = 0; i < 20; i++) sp[i] = nullptr;
    sp[11] = reinterpret_cast<void *>(entry);
    fiber.sp = sp;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = fiber.stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
#endif
}

void fiber_switch(Fiber &from, Fiber &to, bool is_last) {
    (void)is_last;
#ifdef MSL_ASAN
    __sanitizer_start_switch_fiber(is_last ? nullptr : &from.fake_stack,
                                   to.stack ? to.stack : to.asan_bottom,
                                   to.stack ? to.stack_bytes : to.asan_bytes);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    msl_fiber_swap(&from.sp, to.sp);
#else
    swapcontext(&from.context, &to.context);
#endif
#ifdef MSL_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void fiber_entered(Fiber &main) {
    (void)main;
#ifdef MSL_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &main.asan_bottom, &main.asan_bytes);
#endif
}
} // namespace msl
