/* tile_loops.h - how the loops of a register tile are written, so that its sums stay in registers.
 *
 * Included by the vector kernels only. */
#ifndef KERNEL_CPU_TILE_LOOPS_H
#define KERNEL_CPU_TILE_LOOPS_H

#if defined(UNROLL) /* by a test that emulates the instructions, for which this would be minutes   \
                     */
#elif defined(__clang__)
#define UNROLL    _Pragma("unroll")
#define NO_UNROLL _Pragma("nounroll")
#else
#define UNROLL    _Pragma("GCC unroll 16")
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif
/* For the groups of inputs of a scale block, around a loop over tokens: AddressSanitizer's checks
 * of all of them would take minutes to compile. */
#define UNROLL_GROUPS UNROLL
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef UNROLL_GROUPS
#define UNROLL_GROUPS NO_UNROLL
#endif
#endif
#if !defined(INLINE) /* by the same */
#define INLINE static inline __attribute__((always_inline))
#endif

/* Fixes a point in the instruction stream: what was to be done with the vector is done. Without it
 * gcc brings forward all loads of an unrolled tile, runs out of registers and keeps the sums on the
 * stack, at half the speed. Emits nothing. (Any of the vector registers, as each compiler calls
 * them.) */
#if defined(SETTLE)
#elif defined(__aarch64__)
#define SETTLE(x) __asm__ volatile("" : "+w"(x))
#else
#define SETTLE(x) __asm__ volatile("" : "+v"(x))
#endif

#endif
