/* bench_peak.c - the limits that kernels are held against: how fast all threads together read
 * memory, and how fast they multiply and add, by instruction set and operand format.
 *
 * Reading: sums over a buffer that no cache holds, in parts that the threads take in turn; the best
 * of several passes over a quarter each, short enough to miss other programs. Computing: chains of
 * the instruction that the kernels use, as many side by side as its latency needs, on registers
 * only; 2 operations per multiply-add. Each is compiled for its own instruction set by an attribute
 * of the function and called only where the processor has it. A processor slows down when all of it
 * is busy with wide vectors: the loops run as long as the kernels do (milliseconds), on all
 * threads. */
#include "bench_kernels.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kernel/cpu/tile_loops.h"

#include <string.h>

enum { READ_PARTS = 512, READ_WINDOWS = 4, READS = 28, PASSES = 31, ROUNDS = 200000 };
#define READ_BYTES ((size_t)256 << 20)

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET(isa) __attribute__((target(isa), noinline))
#elif defined(__aarch64__)
#include <arm_neon.h>
#define TARGET(isa) __attribute__((noinline)) /* all processors have it */
#endif

/* Keeps a value alive, so that what made it is not removed. */
static void keep(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* ---- reading ---- */

static void read_plain(const uint64_t *p, size_t n) {
    uint64_t sums[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) sums[j] += p[i + j];
    keep(sums);
}

#if defined(__x86_64__)
TARGET("avx2") static void read_avx2(const uint64_t *p, size_t n) {
    __m256i sums[8];
    for (int j = 0; j < 8; j++) sums[j] = _mm256_setzero_si256();
    for (size_t i = 0; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 8; j++)
            sums[j] = _mm256_xor_si256(
                sums[j], _mm256_load_si256((const __m256i *)(const void *)(p + i + 4 * j)));
    keep(sums);
}
#endif

void peak_read(const void *p, size_t bytes) {
#if defined(__x86_64__)
    if (cpu_has_isa(CPU_ISA_AVX2)) {
        read_avx2(p, bytes / sizeof(uint64_t));
        return;
    }
#endif
    read_plain(p, bytes / sizeof(uint64_t));
}

static void read_part(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    peak_read((const char *)user + item * (READ_BYTES / READ_PARTS), READ_BYTES / READ_PARTS);
}

#if defined(__x86_64__)
TARGET("avx2") static void touch_avx2(float *x, size_t n) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t i = 0; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_xor_ps(_mm256_loadu_ps(x + i), sign));
}

TARGET("avx2") static void copy_avx2(char *dst, const char *src, size_t bytes) {
    for (size_t i = 0; i + 32 <= bytes; i += 32) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(src + i));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), x);
    }
}
#endif

void peak_touch(float *x, size_t n) {
#if defined(__x86_64__)
    if (cpu_has_isa(CPU_ISA_AVX2)) {
        touch_avx2(x, n);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) x[i] = -x[i];
}

void peak_copy(void *dst, const void *src, size_t bytes) {
#if defined(__x86_64__)
    if (cpu_has_isa(CPU_ISA_AVX2)) {
        copy_avx2(dst, src, bytes);
        return;
    }
#endif
    memcpy(dst, src, bytes);
}

double peak_read_gbs(struct device *device) {
    uint64_t *buffer = mem_aligned_alloc(READ_BYTES), best_ns = UINT64_MAX;
    if (!buffer) return 0;
    memset(buffer, 1, READ_BYTES);
    for (size_t pass = 0; pass < READS; pass++) {
        const size_t window = pass % READ_WINDOWS * (READ_BYTES / READ_WINDOWS);
        const uint64_t begun = clock_ns();
        device_parallel(device, READ_PARTS / READ_WINDOWS, read_part, (char *)buffer + window);
        const uint64_t ns = clock_ns() - begun;
        if (ns < best_ns) best_ns = ns;
    }
    mem_aligned_free(buffer, READ_BYTES);
    return (double)(READ_BYTES / READ_WINDOWS) / (double)best_ns;
}

/* ---- computing: each returns the operations of one round ---- */

/* As many chains as hide the latency of two units; Arm's larger cores have four. */
#if defined(__aarch64__)
#define CHAINS 16
#else
#define CHAINS 12
#endif

/* A loop of CHAINS chains side by side: sums[i] = step, begun at `zero`, with x in a register. */
#define CHAIN_LOOP(name, isa, vec, zero, operand, step, ops)                                       \
    TARGET(isa) static double name(uint32_t rounds) {                                              \
        vec sums[CHAINS], x = operand;                                                             \
        UNROLL for (int i = 0; i < CHAINS; i++) {                                                  \
            sums[i] = zero;                                                                        \
        }                                                                                          \
        for (uint32_t r = 0; r < rounds; r++) {                                                    \
            UNROLL for (int i = 0; i < CHAINS; i++) {                                              \
                SETTLE(x);                                                                         \
                sums[i] = step;                                                                    \
                SETTLE(sums[i]);                                                                   \
            }                                                                                      \
        }                                                                                          \
        return CHAINS * (ops);                                                                     \
    }

#if defined(__aarch64__)
CHAIN_LOOP(run_fma128, "", float32x4_t, vdupq_n_f32((float)i), vdupq_n_f32(0.5f),
           vfmaq_f32(sums[i], x, x), 4 * 2.0)
#elif defined(__x86_64__)
CHAIN_LOOP(run_fma256, "avx2,fma", __m256, _mm256_set1_ps((float)i), _mm256_set1_ps(0.5f),
           _mm256_fmadd_ps(sums[i], x, x), 8 * 2.0)
/* Products of bytes before VNNI: VPMADDUBSW, summed in 16 bits for as long as that goes. */
CHAIN_LOOP(run_bytes256, "avx2", __m256i, _mm256_setzero_si256(), _mm256_set1_epi8(1),
           _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(x, x)), 32 * 2.0)
CHAIN_LOOP(run_vnni256, "avx2,avxvnni", __m256i, _mm256_setzero_si256(), _mm256_set1_epi8(1),
           _mm256_dpbusd_avx_epi32(sums[i], x, x), 32 * 2.0)
CHAIN_LOOP(run_fma512, "avx512f", __m512, _mm512_set1_ps((float)i), _mm512_set1_ps(0.5f),
           _mm512_fmadd_ps(sums[i], x, x), 16 * 2.0)
CHAIN_LOOP(run_vnni512, "avx512f,avx512vnni", __m512i, _mm512_setzero_si512(), _mm512_set1_epi8(1),
           _mm512_dpbusd_epi32(sums[i], x, x), 64 * 2.0)
CHAIN_LOOP(run_bf16_512, "avx512f,avx512bf16", __m512, _mm512_set1_ps((float)i),
           _mm512_castsi512_ps(_mm512_set1_epi16(0x3f00)),
           _mm512_dpbf16_ps(sums[i], (__m512bh)x, (__m512bh)x), 32 * 2.0)

/* Tiles 0 to 3 are sums, 4 to 7 operands: 16 rows of 64 bytes each. */
TARGET("amx-tile,amx-bf16") static double run_tiles(uint32_t rounds) {
    uint8_t config[64] __attribute__((aligned(64))) = {1};
    for (int i = 0; i < 8; i++) {
        config[16 + 2 * i] = 64;
        config[48 + i] = 16;
    }
    keep(config); /* The intrinsic tells the compiler of eight bytes only. */
    _tile_loadconfig(config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (uint32_t r = 0; r < rounds / 16; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4 * 16 * 16 * 32 * 2.0 / 16;
}

#endif

#if defined(__x86_64__) || defined(__aarch64__)
typedef double (*loop_fn)(uint32_t rounds);

static void run_loop(void *user, uint32_t item, uint32_t worker) {
    (void)item, (void)worker;
    (void)(*(const loop_fn *)user)(ROUNDS);
}

static double measure_loop(struct device *device, loop_fn loop) {
    const uint32_t n_items = 4 * device_n_threads(device);
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        const uint64_t begun = clock_ns();
        device_parallel(device, n_items, run_loop, &loop);
        const double gops = loop(0) * ROUNDS * n_items / (double)(clock_ns() - begun);
        if (gops > best) best = gops;
    }
    return best;
}

/* Every instruction set has what those before it have. */
static void set_peak(double peak[CPU_ISA_COUNT][KERNEL_FORMATS], enum cpu_isa isa, uint32_t formats,
                     double gops) {
    for (int i = (int)isa; i < CPU_ISA_COUNT; i++)
        for (uint32_t f = 0; f < KERNEL_FORMATS; f++)
            if (formats >> f & 1 && peak[i][f] < gops) peak[i][f] = gops;
}

void peak_measure(struct device *device, double peak_out[CPU_ISA_COUNT][KERNEL_FORMATS]) {
    static const struct {
        enum cpu_isa isa;
        uint32_t formats;
        loop_fn loop;
    } loops[] = {
#if defined(__aarch64__)
        {CPU_ISA_NEON, KERNEL_KV, run_fma128},
#else
        {CPU_ISA_AVX2, KERNEL_KV, run_fma256},
        {CPU_ISA_AVX2, KERNEL_I8, run_bytes256},
        {CPU_ISA_AVXVNNI, KERNEL_I8, run_vnni256},
        {CPU_ISA_AVX512, KERNEL_KV, run_fma512},
        {CPU_ISA_AVX512VNNI, KERNEL_I8, run_vnni512},
        {CPU_ISA_AVX512BF16, KERNEL_BF16, run_bf16_512},
        {CPU_ISA_AMX, KERNEL_BF16, run_tiles},
#endif
    };
    memset(peak_out, 0, sizeof(double[CPU_ISA_COUNT][KERNEL_FORMATS]));
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (cpu_has_isa(loops[i].isa))
            set_peak(peak_out, loops[i].isa, loops[i].formats, measure_loop(device, loops[i].loop));
}
#else
void peak_measure(struct device *device, double peak_out[CPU_ISA_COUNT][KERNEL_FORMATS]) {
    (void)device;
    memset(peak_out, 0, sizeof(double[CPU_ISA_COUNT][KERNEL_FORMATS]));
}
#endif
