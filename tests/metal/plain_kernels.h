/* plain_kernels.h - a library of kernels written in C, behind the interface of those compiled from
 * .metal files (msl_rt.h): tests of the host and of the stand-in need no compiler of the Metal
 * language, and know every load and store.
 *
 *   plain_add     out[i] = a[i] + b[i] * FACTOR     0: uint n   1: a   2: b   3: out
 *                 function constants: 0 float FACTOR, 1 bool NEGATE
 *   plain_sum     out[group] = sum of a's group     0: a   1: out   threadgroup 0: float[group]
 *   plain_copy    the same as add of one operand, reporting each access to the stand-in
 *                                                   0: uint n   1: a   2: out
 *   plain_fault   ends with a fault                 0: out
 *   mtl_probe     nothing; for the check of encodings */
#ifndef PLAIN_KERNELS_H
#define PLAIN_KERNELS_H

#define PLAIN_FACTOR 0
#define PLAIN_NEGATE 1

#endif
