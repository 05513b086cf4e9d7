/* float_env.h - arithmetic that takes denormals for zeros, as BF16 instructions always do, for the
 * kernels that must give the same bits.
 *
 * Only the calling thread is concerned, until the matching restore; everything else in radish
 * computes with denormals. */
#ifndef KERNEL_CPU_FLOAT_ENV_H
#define KERNEL_CPU_FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* Returns what float_env_restore() puts back. */
static inline uint64_t float_env_flush_denormals(void) {
    const unsigned flush_to_zero = 1u << 15, denormals_are_zero = 1u << 6;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | flush_to_zero | denormals_are_zero);
    return before;
}

static inline void float_env_restore(uint64_t before) {
    _mm_setcsr((unsigned)before);
}
#elif defined(__aarch64__)
static inline uint64_t float_env_flush_denormals(void) {
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | 1u << 24) : "memory");
    return before;
}

static inline void float_env_restore(uint64_t before) {
    __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
}
#else
static inline uint64_t float_env_flush_denormals(void) {
    return 0;
}

static inline void float_env_restore(uint64_t before) {
    (void)before;
}
#endif

#endif
