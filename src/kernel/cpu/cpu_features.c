/* cpu_features.c - asks the processor, or the system that knows it, which kernels may run.
 *
 * A bit in CPUID alone is not enough: the operating system must save the wide registers, which XCR0
 * tells (bits 1-2: SSE and AVX state, bits 5-7: AVX-512 state). The compiler's own
 * __builtin_cpu_supports() is not used because the names it knows differ between gcc and clang
 * versions. An Arm processor tells its system only: Linux passes bits to every process (AT_HWCAP),
 * macOS has names. On other processors only the plain C kernels exist. The answer is kept: CPUID
 * traps into the hypervisor on virtual machines, and kernels are looked up at every operation. */
#include "cpu_features.h"

#include <stdatomic.h>

static inline uint32_t bit_of(enum cpu_isa isa) {
    return 1u << isa;
}

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

static uint32_t find_isas(void) {
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5, avx512f = 1u << 16, avx512dq = 1u << 17, avx512bw = 1u << 30;
    const uint32_t avx512vl = 1u << 31, avx512vnni = 1u << 11;
    const uint32_t avxvnni = 1u << 4, avx512bf16 = 1u << 5; /* of leaf 7, 1 */
    const uint32_t amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25;
    const uint32_t need1 = fma | osxsave | avx | f16c;
    const uint32_t need7 = avx512f | avx512dq | avx512bw | avx512vl;
    const uint64_t avx_state = 6, avx512_state = 0xe6;
    uint32_t isas = bit_of(CPU_ISA_REF);
    uint32_t a, b, c, d, a1 = 0, b1, c1, d1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & need1) != need1) return isas;
    const uint64_t xcr0 = read_xcr0();
    if ((xcr0 & avx_state) != avx_state) return isas;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & avx2)) return isas;
    isas |= bit_of(CPU_ISA_AVX2);
    if (a >= 1 && !__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1)) a1 = 0;
    if (a1 & avxvnni) isas |= bit_of(CPU_ISA_AVXVNNI);
    if ((b & need7) != need7 || (xcr0 & avx512_state) != avx512_state) return isas;
    isas |= bit_of(CPU_ISA_AVX512);
    if (!(c & avx512vnni)) return isas;
    isas |= bit_of(CPU_ISA_AVX512VNNI);
    if (!(a1 & avx512bf16)) return isas;
    isas |= bit_of(CPU_ISA_AVX512BF16);
    const uint32_t need_amx = amx_tile | amx_bf16 | amx_int8;
    if ((d & need_amx) == need_amx && may_use_tiles(xcr0)) isas |= bit_of(CPU_ISA_AMX);
    return isas;
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static bool has_feature(const char *name) {
    int value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, NULL, 0) == 0 && value != 0;
}

static uint32_t find_isas(void) {
    uint32_t isas = bit_of(CPU_ISA_REF) | bit_of(CPU_ISA_NEON);
    if (has_feature("hw.optional.arm.FEAT_DotProd")) isas |= bit_of(CPU_ISA_NEONDOTPROD);
    if (has_feature("hw.optional.arm.FEAT_BF16")) isas |= bit_of(CPU_ISA_NEONBF16);
    if (has_feature("hw.optional.arm.FEAT_I8MM")) isas |= bit_of(CPU_ISA_NEONI8MM);
    return isas;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static uint32_t find_isas(void) {
    /* Bits of the kernel's interface, which older headers do not name. */
    const unsigned long asimddp = 1ul << 20, i8mm = 1ul << 13, bf16 = 1ul << 14;
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    uint32_t isas = bit_of(CPU_ISA_REF) | bit_of(CPU_ISA_NEON);
    if (first & asimddp) isas |= bit_of(CPU_ISA_NEONDOTPROD);
    if (second & bf16) isas |= bit_of(CPU_ISA_NEONBF16);
    if (second & i8mm) isas |= bit_of(CPU_ISA_NEONI8MM);
    return isas;
}
#elif defined(__aarch64__)
static uint32_t find_isas(void) {
    return bit_of(CPU_ISA_REF) | bit_of(CPU_ISA_NEON);
}
#else
static uint32_t find_isas(void) {
    return bit_of(CPU_ISA_REF);
}
#endif

bool cpu_has_isa(enum cpu_isa isa) {
    static _Atomic uint32_t known; /* 0: not asked yet; the plain C kernels are always there */
    uint32_t isas = atomic_load_explicit(&known, memory_order_relaxed);
    if (!isas) {
        isas = find_isas();
        atomic_store_explicit(&known, isas, memory_order_relaxed);
    }
    return isas >> isa & 1;
}

const char *cpu_isa_name(enum cpu_isa isa) {
    static const char *const names[CPU_ISA_COUNT] = {
        "ref", "avx2", "avxvnni",     "avx512",   "avx512vnni", "avx512bf16",
        "amx", "neon", "neondotprod", "neonbf16", "neoni8mm"};
    return (unsigned)isa < CPU_ISA_COUNT ? names[isa] : "?";
}
