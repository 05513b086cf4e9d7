/* msl.h - Metal's standard library for kernels that run on the CPU: included before every
 * translated .metal file (tools/msl). The subset that radish's kernels use; what is missing is a
 * compile error, what is undefined in Metal is made visible (NaN, faults), not convenient.
 *
 *   msl_core.h    types, vectors, address spaces, function constants, calls into kernels
 *   msl_math.h    namespace metal: functions of numbers and vectors
 *   msl_simd.h    barriers, SIMD-group functions, 8x8 matrices
 *   msl_atomic.h  relaxed atomics
 *
 * One of three modes: MSL_RUN (a library to run), MSL_CHECK (syntax only: address spaces are
 * clang's), MSL_LINT (syntax only: half and bfloat are classes without arithmetic). Needs clang 16
 * or newer: _Float16 and __bf16 on x86-64. */
#ifndef MSL_H
#define MSL_H

#include "msl_core.h"

#include "msl_math.h"

#include "msl_simd.h"

#include "msl_atomic.h"

#endif
