/* cpu_features.h - what this processor can do, as bits: instruction sets that both the CPU and the
 * operating system (saved registers) support. Threads: any. */
#ifndef KERNEL_CPU_CPU_FEATURES_H
#define KERNEL_CPU_CPU_FEATURES_H

#include "radish.h"

/* Instruction sets that rows of ops.def may need: AVX2 means AVX2 + FMA + F16C; AVXVNNI adds
 * VPDPBUSD on 256 bits; AVX512 means F + BW + DQ + VL on top of AVX2; then, each on top of the one
 * before, VNNI; BF16; AMX with BF16 and int8 tiles. On 64-bit Arm, NEON is what all of them have
 * (FMA and conversion of halves included); each on top of it, NEONDOTPROD adds SDOT, NEONBF16
 * BFMLALB and BFMLALT, NEONI8MM USDOT and USMMLA. A later one is the better one where a machine has
 * several. */
enum cpu_isa {
    CPU_ISA_REF,
    CPU_ISA_AVX2,
    CPU_ISA_AVXVNNI,
    CPU_ISA_AVX512,
    CPU_ISA_AVX512VNNI,
    CPU_ISA_AVX512BF16,
    CPU_ISA_AMX,
    CPU_ISA_NEON,
    CPU_ISA_NEONDOTPROD,
    CPU_ISA_NEONBF16,
    CPU_ISA_NEONI8MM,
    CPU_ISA_COUNT
};

/* The first call may ask the operating system for the right to use tiles, which threads made later
 * share. */
bool cpu_has_isa(enum cpu_isa isa);
const char *cpu_isa_name(enum cpu_isa isa); /* "avx512vnni"; static */

#endif
