/* cpu_features.c - in place of kernel/cpu/cpu_features.c where AVX-512, VNNI, BF16 and AMX are
 * emulated: a processor with AVX2 says that it has them. */
#define cpu_has_isa cpu_has_isa_really
#include "kernel/cpu/cpu_features.c"
#undef cpu_has_isa

bool cpu_has_isa(enum cpu_isa isa) {
    const bool is_emulated = isa >= CPU_ISA_AVXVNNI && isa <= CPU_ISA_AMX;
    return cpu_has_isa_really(is_emulated ? CPU_ISA_AVX2 : isa);
}
