/* cpu_features.h - what this processor can do, as bits: instruction sets that both the CPU and the
 * operating system (saved registers) support. Threads: any. */
#ifndef KERNEL_CPU_CPU_FEATURES_H
#define KERNEL_CPU_CPU_FEATURES_H

#include "radish.h"

/* Instruction sets that rows of ops.def may need, as kernels are compiled: AVX2 means AVX2 + FMA +
 * F16C; AVX512 means F + BW + DQ + VL on top of it; AVX512VNNI means VNNI on top of that. */
enum cpu_isa { CPU_ISA_REF, CPU_ISA_AVX2, CPU_ISA_AVX512, CPU_ISA_AVX512VNNI, CPU_ISA_COUNT };

bool cpu_has_isa(enum cpu_isa isa);
const char *cpu_isa_name(enum cpu_isa isa); /* "avx512vnni"; static */

#endif
