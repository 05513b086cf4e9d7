/* probe.c - Metal without operations: what a command buffer, a dispatch, a barrier cost, and how
 * fast memory is read.
 *
 * These decide how the backend should be driven (one command buffer a step, or several; whether
 * barriers are worth saving), and its settings were chosen from what others have reported. So the
 * first person with a Mac measures them beside everything else. Medians of several tries; times of
 * the wall, and of the GPU where it tells them. A counter that every dispatch adds to proves that
 * all of them ran. */
#include "probe.h"

#include "base/clock.h"
#include "kernels/probe_args.h"
#include "metal/mtl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 101, TINY_THREADS = 32, READ_THREADS = 1 << 18, READ_GROUP = 256 };

struct probe {
    struct mtl_device *device;
    struct mtl_pipeline *touch, *read;
    struct mtl_buffer *counters, *memory, *sums;
    uint32_t n_tiny;
    size_t bytes;
    struct radish_error err;
};

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double probe_median(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, compare_doubles);
    return x[n / 2];
}

/* Commits and waits; adds up times from began_ns on. */
static bool finish(struct probe *p, struct mtl_commands *commands, uint64_t began_ns,
                   double *wall_us_out, double *gpu_us_out) {
    double gpu_seconds = 0;
    mtl_commit(commands);
    if (mtl_commands_wait(commands, &gpu_seconds, &p->err) != RADISH_OK) return false;
    *wall_us_out = (double)(clock_ns() - began_ns) / 1e3;
    *gpu_us_out = gpu_seconds * 1e6;
    return true;
}

static struct mtl_commands *begin(struct probe *p) {
    struct mtl_commands *commands = mtl_commands_begin(p->device);
    if (!commands) snprintf(p->err.msg, sizeof p->err.msg, "no command buffer");
    return commands;
}

static bool probe_empty(struct probe *p, uint32_t n_tries) {
    double wall[TRIES_MAX], gpu[TRIES_MAX];
    for (uint32_t i = 0; i < n_tries; i++) {
        const uint64_t began = clock_ns();
        struct mtl_commands *commands = begin(p);
        if (!commands || !finish(p, commands, began, &wall[i], &gpu[i])) return false;
    }
    printf("  empty command buffer     %9.1f us from begin to the end of wait\n",
           probe_median(wall, n_tries));
    return true;
}

static void encode_tiny(struct probe *p, struct mtl_commands *commands, bool is_serial) {
    static const uint32_t grid[3] = {TINY_THREADS, 1, 1};
    mtl_use(commands, p->touch);
    for (uint32_t i = 0; i < p->n_tiny; i++) {
        const size_t counter = is_serial ? 0 : i;
        mtl_bind(commands, 0, p->counters, counter * TINY_THREADS * sizeof(uint32_t));
        mtl_dispatch_threads(commands, grid, grid);
        if (is_serial) mtl_barrier(commands);
    }
}

static bool check_counters(struct probe *p, bool is_serial) {
    const uint32_t *counters = mtl_buffer_contents(p->counters);
    const uint32_t n = is_serial ? 1 : p->n_tiny, expected = is_serial ? p->n_tiny : 1;
    for (uint32_t i = 0; i < n * TINY_THREADS; i++) {
        if (counters[i] == expected) continue;
        snprintf(p->err.msg, sizeof p->err.msg, "%s dispatches: counter %u is %u instead of %u",
                 is_serial ? "serial" : "concurrent", i, counters[i], expected);
        return false;
    }
    return true;
}

static bool probe_tiny(struct probe *p, uint32_t n_tries, bool is_serial) {
    double wall[TRIES_MAX], gpu[TRIES_MAX], encoding[TRIES_MAX];
    for (uint32_t i = 0; i < n_tries; i++) {
        memset(mtl_buffer_contents(p->counters), 0, mtl_buffer_bytes(p->counters));
        const uint64_t began = clock_ns();
        struct mtl_commands *commands = begin(p);
        if (!commands) return false;
        encode_tiny(p, commands, is_serial);
        encoding[i] = (double)(clock_ns() - began) / 1e3;
        if (!finish(p, commands, began, &wall[i], &gpu[i]) || !check_counters(p, is_serial))
            return false;
    }
    printf("  %u tiny dispatches, %-10s %9.1f us (%.1f encoding, %.1f on the GPU)\n", p->n_tiny,
           is_serial ? "serial" : "concurrent", probe_median(wall, n_tries),
           probe_median(encoding, n_tries), probe_median(gpu, n_tries));
    return true;
}

static bool probe_read(struct probe *p, uint32_t n_tries) {
    const uint32_t n_vectors = (uint32_t)(p->bytes / 16);
    const uint32_t n_threads = n_vectors / 8 < READ_THREADS ? n_vectors / 8 : READ_THREADS;
    const struct probe_args args = {.n_vectors = n_vectors, .n_threads = n_threads};
    const uint32_t grid[3] = {n_threads, 1, 1}, group[3] = {READ_GROUP, 1, 1};
    double wall[TRIES_MAX], gpu[TRIES_MAX];
    for (uint32_t i = 0; i < n_tries; i++) {
        const uint64_t began = clock_ns();
        struct mtl_commands *commands = begin(p);
        if (!commands) return false;
        mtl_use(commands, p->read);
        mtl_bind(commands, 0, p->memory, 0);
        mtl_bind(commands, 1, p->sums, 0);
        mtl_bind_bytes(commands, 2, &args, sizeof args);
        mtl_dispatch_threads(commands, grid, group);
        if (!finish(p, commands, began, &wall[i], &gpu[i])) return false;
    }
    double total = 0;
    for (uint32_t i = 0; i < n_threads; i++)
        total += (double)((const float *)mtl_buffer_contents(p->sums))[i];
    if (total != (double)(p->bytes / sizeof(float))) {
        snprintf(p->err.msg, sizeof p->err.msg, "the sum of %zu ones is %.9g",
                 p->bytes / sizeof(float), total);
        return false;
    }
    const double wall_us = probe_median(wall, n_tries), gpu_us = probe_median(gpu, n_tries);
    printf("  reading %4zu MiB          %9.1f GB/s by the wall, %.1f by the GPU's clock\n",
           p->bytes >> 20, (double)p->bytes / wall_us / 1e3,
           gpu_us > 0 ? (double)p->bytes / gpu_us / 1e3 : 0.0);
    return true;
}

static bool open_probe(struct probe *p) {
    if (mtl_device_open(&p->device, &p->err) != RADISH_OK) return false;
    const size_t counter_bytes = (size_t)p->n_tiny * TINY_THREADS * sizeof(uint32_t);
    if (mtl_pipeline_create(p->device, "probe_touch", NULL, 0, &p->touch, &p->err) != RADISH_OK ||
        mtl_pipeline_create(p->device, "probe_read", NULL, 0, &p->read, &p->err) != RADISH_OK ||
        mtl_buffer_create(p->device, counter_bytes, &p->counters, &p->err) != RADISH_OK ||
        mtl_buffer_create(p->device, READ_THREADS * sizeof(float), &p->sums, &p->err) !=
            RADISH_OK ||
        mtl_buffer_create(p->device, p->bytes, &p->memory, &p->err) != RADISH_OK)
        return false;
    mtl_device_make_resident(p->device);
    float *memory = mtl_buffer_contents(p->memory);
    for (size_t i = 0; i < p->bytes / sizeof *memory; i++) memory[i] = 1;
    return true;
}

static void close_probe(struct probe *p) {
    if (!p->device) return;
    struct mtl_buffer *buffers[] = {p->counters, p->memory, p->sums};
    for (int i = 0; i < 3; i++)
        if (buffers[i]) mtl_buffer_destroy(p->device, buffers[i]);
    if (p->touch) mtl_pipeline_destroy(p->touch);
    if (p->read) mtl_pipeline_destroy(p->read);
    mtl_device_close(p->device);
}

static void print_device(const struct mtl_info *info) {
    printf("  %s: working set %llu MiB, buffers to %llu MiB%s%s%s%s\n", info->name,
           (unsigned long long)(info->working_set_bytes >> 20),
           (unsigned long long)(info->buffer_bytes_max >> 20),
           info->is_unified ? ", unified memory" : "",
           info->has_simd_matrices ? ", SIMD matrices" : ", no SIMD matrices",
           info->has_bfloat ? ", bfloat" : ", no bfloat",
           info->has_residency ? ", residency sets" : "");
}

bool probe_metal(bool is_short) {
    struct probe p = {.n_tiny = is_short ? 20 : 1000,
                      .bytes = is_short ? (size_t)1 << 20 : (size_t)1 << 30};
    const uint32_t n_tries = is_short ? 2 : 31;
    bool is_ok = open_probe(&p);
    if (is_ok) {
        print_device(mtl_device_info(p.device));
        printf("  a threadgroup of probe_read: at most %u threads\n",
               mtl_pipeline_threads_max(p.read));
        is_ok = probe_empty(&p, n_tries) && probe_tiny(&p, n_tries, /*is_serial=*/true) &&
                probe_tiny(&p, n_tries, /*is_serial=*/false) && probe_read(&p, n_tries);
    }
    if (!is_ok) printf("  failed: %s\n", p.err.msg);
    close_probe(&p);
    return is_ok;
}
