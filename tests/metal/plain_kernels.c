/* plain_kernels.c - see plain_kernels.h. A thread of the grid is a turn of a loop. */
#include "plain_kernels.h"

#include "msl_rt.h"

#include <stdio.h>
#include <string.h>

void (*msl_tracer)(const void *at, size_t bytes, bool is_write);

#define BUFFER(at, is_read_only, name)                                                             \
    { MSL_BINDING_BUFFER, at, false, is_read_only, 4, name }
#define SHARED(at, name)                                                                           \
    { MSL_BINDING_SHARED, at, false, false, 4, name }

static const struct msl_binding add_bindings[] = {BUFFER(0, true, "n"), BUFFER(1, true, "a"),
                                                  BUFFER(2, true, "b"), BUFFER(3, false, "out")};
static const struct msl_binding sum_bindings[] = {BUFFER(0, true, "a"), BUFFER(1, false, "out"),
                                                  SHARED(0, "parts")};
static const struct msl_binding copy_bindings[] = {BUFFER(0, true, "n"), BUFFER(1, true, "a"),
                                                   BUFFER(2, false, "out")};
static const struct msl_binding fault_bindings[] = {BUFFER(0, false, "out")};

enum { ADD, SUM, COPY, FAULT, PROBE, N_KERNELS };
static const struct msl_kernel kernels[N_KERNELS] = {
    {"plain_add", __FILE__, __LINE__, add_bindings, 4, 1024},
    {"plain_sum", __FILE__, __LINE__, sum_bindings, 3, 256},
    {"plain_copy", __FILE__, __LINE__, copy_bindings, 3, 1024},
    {"plain_fault", __FILE__, __LINE__, fault_bindings, 1, 1024},
    {"mtl_probe", __FILE__, __LINE__, NULL, 0, 1024},
};
static unsigned n_faults;

const struct msl_kernel *msl_kernel_find(const char *name) {
    for (size_t i = 0; i < N_KERNELS; i++)
        if (!strcmp(kernels[i].name, name)) return &kernels[i];
    return NULL;
}

size_t msl_kernel_count(void) {
    return N_KERNELS;
}

const struct msl_kernel *msl_kernel_at(size_t i) {
    return &kernels[i];
}

bool msl_kernel_check(const struct msl_kernel *kernel, const struct msl_constant *constants,
                      uint32_t n_constants, char *reason_out, size_t reason_bytes) {
    bool has_factor = false;
    for (uint32_t i = 0; i < n_constants; i++) {
        const bool is_factor = constants[i].index == PLAIN_FACTOR;
        if (constants[i].type != (is_factor ? MSL_TYPE_FLOAT : MSL_TYPE_BOOL)) {
            snprintf(reason_out, reason_bytes, "%s: function constant %u has another type",
                     kernel->name, constants[i].index);
            return false;
        }
        has_factor |= is_factor;
    }
    if (has_factor || kernel != &kernels[ADD]) return true;
    snprintf(reason_out, reason_bytes, "%s: function constant %d has no value", kernel->name,
             PLAIN_FACTOR);
    return false;
}

uint32_t msl_kernel_shared_bytes(const struct msl_kernel *kernel) {
    return kernel == &kernels[SUM] ? 64 : 0;
}

static void add(const struct msl_run *run) {
    float factor = 0;
    bool is_negated = false;
    for (uint32_t i = 0; i < run->n_constants; i++) {
        if (run->constants[i].index == PLAIN_FACTOR) factor = run->constants[i].value.f;
        if (run->constants[i].index == PLAIN_NEGATE) is_negated = run->constants[i].value.b;
    }
    const uint32_t n = *(const uint32_t *)run->buffers[0];
    const float *a = run->buffers[1], *b = run->buffers[2];
    float *out = run->buffers[3];
    for (uint32_t i = 0; i < n && i < run->grid[0]; i++) {
        const float sum = a[i] + b[i] * factor;
        out[i] = is_negated ? -sum : sum;
    }
}

static void sum(const struct msl_run *run) {
    const float *a = run->buffers[0];
    float *out = run->buffers[1];
    for (uint32_t g = 0; g < run->grid[0]; g++) {
        out[g] = 0;
        for (uint32_t i = 0; i < run->group[0]; i++) out[g] += a[g * run->group[0] + i];
    }
}

static void copy(const struct msl_run *run) {
    const uint32_t n = *(const uint32_t *)run->buffers[0];
    const float *a = run->buffers[1];
    float *out = run->buffers[2];
    for (uint32_t i = 0; i < n; i++) {
        if (msl_tracer) msl_tracer(&a[i], sizeof *a, false);
        if (msl_tracer) msl_tracer(&out[i], sizeof *out, true);
        out[i] = a[i];
    }
}

bool msl_run(const struct msl_run *run, char *fault_out, size_t fault_bytes) {
    switch (run->kernel - kernels) {
    case ADD: add(run); break;
    case SUM: sum(run); break;
    case COPY: copy(run); break;
    case PROBE: break;
    default:
        n_faults++;
        snprintf(fault_out, fault_bytes, "%s: as it was asked to", run->kernel->name);
        return false;
    }
    return true;
}

unsigned msl_faults(void) {
    return n_faults;
}

void msl_faults_reset(void) {
    n_faults = 0;
}
