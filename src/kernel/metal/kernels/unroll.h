/* unroll.h - METAL_UNROLL before loops over what lives in registers.
 *
 * Matrices of SIMD-groups and arrays that are indexed by a loop's variable can be registers only
 * when the loop is gone; Metal's compiler is told to, as it may not know yet that the bounds are
 * small. Where Linux plays the kernels on its CPU it would only be the compiler's time. */
#ifndef KERNEL_METAL_UNROLL_H
#define KERNEL_METAL_UNROLL_H

#ifdef __linux__
#define METAL_UNROLL
#else
#define METAL_UNROLL _Pragma("clang loop unroll(full)")
#endif

#endif
