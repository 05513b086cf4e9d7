/* cpu_features.c - asks the processor, by CPUID and XGETBV, which kernels may run.
 *
 * A bit in CPUID alone is not enough: the operating system must save the wide registers, which XCR0
 * tells (bits 1-2: SSE and AVX state, bits 5-7: AVX-512 state). The compiler's own
 * __builtin_cpu_supports() is not used because the names it knows differ between gcc and clang
 * versions. On other processors only the plain C kernels exist. The answer is kept: CPUID traps
 * into the hypervisor on virtual machines, and kernels are looked up at every operation. */
#include "cpu_features.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux saves 8 KiB of tiles only for processes that ask for it. */
static bool may_use_tiles(uint64_t xcr0) {
    const uint64_t tiles = 3u << 17;
    if ((xcr0 & tiles) != tiles) return false;
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static enum cpu_isa find_best_isa(void) {
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5, avx512f = 1u << 16, avx512dq = 1u << 17, avx512bw = 1u << 30;
    const uint32_t avx512vl = 1u << 31, avx512vnni = 1u << 11, avx512bf16 = 1u << 5;
    const uint32_t amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    const uint32_t need1 = fma | osxsave | avx | f16c;
    const uint32_t need7 = avx512f | avx512dq | avx512bw | avx512vl;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1) return CPU_ISA_REF;
    uint64_t xcr0 = read_xcr0();
    if ((xcr0 & 6) != 6) return CPU_ISA_REF;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & avx2)) return CPU_ISA_REF;
    if ((b & need7) != need7 || (xcr0 & 0xe6) != 0xe6) return CPU_ISA_AVX2;
    if (!(c & avx512vnni)) return CPU_ISA_AVX512;
    const uint32_t has_tiles = d & amx_tile && d & amx_bf16;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & avx512bf16)) return CPU_ISA_AVX512VNNI;
    return has_tiles && may_use_tiles(xcr0) ? CPU_ISA_AMX : CPU_ISA_AVX512BF16;
}
#else
static enum cpu_isa find_best_isa(void) {
    return CPU_ISA_REF;
}
#endif

bool cpu_has_isa(enum cpu_isa isa) {
    static atomic_int best = -1;
    int isa_max = atomic_load_explicit(&best, memory_order_relaxed);
    if (isa_max < 0) {
        isa_max = (int)find_best_isa();
        atomic_store_explicit(&best, isa_max, memory_order_relaxed);
    }
    return (int)isa <= isa_max;
}

const char *cpu_isa_name(enum cpu_isa isa) {
    static const char *const names[CPU_ISA_COUNT] = {"ref",        "avx2",       "avx512",
                                                     "avx512vnni", "avx512bf16", "amx"};
    return (unsigned)isa < CPU_ISA_COUNT ? names[isa] : "?";
}
