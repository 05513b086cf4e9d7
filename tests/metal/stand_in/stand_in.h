/* stand_in.h - what tests ask of the stand-in for Metal, and how it is set up.
 *
 * The stand-in takes the place of Metal.framework and of Apple's Objective-C runtime on Linux: the
 * functions that mtl_objc.c calls, over real classes of GNU's runtime, with kernels that run on the
 * CPU (msl_rt.h). It is stricter than Metal, where wrong use often works by luck: what would be an
 * exception, a hang, an assertion of the validation layer or a race there is a *fault* or a
 * *hazard* here, printed and counted. A process that ends with any, or with Metal's objects still
 * alive, ends with status 86.
 *
 * Environment, read at the first use and by stand_in_reset():
 *   MTL_SIM_DELAY_US=N       each command buffer starts so much later
 *   MTL_SIM_JITTER=SEED      with the delay: anything between 0 and twice as much, by this seed
 *   MTL_SIM_ORDER=forward    dispatches between barriers run in order, not last first
 *   MTL_SIM_FAIL=N[:C[:K]]   the Nth command buffer (from 1) stops half way with status 5 and code
 * C (2: the watchdog's); K: and so do those after it, K in all (0: all) MTL_SIM_ALLOC_FAIL=N the
 * Nth buffer (from 1) is not to be had MTL_SIM_BEGIN_FAIL=N     the Nth command buffer (from 1) is
 * not to be had MTL_SIM_BUFFER_MAX=N     maxBufferLength (768 MiB) MTL_SIM_WORKING_SET=N
 * recommendedMaxWorkingSetSize (1 GiB) MTL_SIM_THREADS_MAX=N    of a threadgroup, of every pipeline
 * (1,024) MTL_SIM_SIMD_WIDTH=N     of every pipeline (32) MTL_SIM_WITHOUT=WORD,..  device, queue,
 * residency, mathmode, apple7, metal3: lacking here MTL_SIM_COMPILE_FAIL=1   the library of kernels
 * does not compile MTL_SIM_EXIT=ignore      the exit status stays what it is Threads: any. */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#define STAND_IN_EXIT_STATUS 86

/* Wrong use of the API, since the start or the last reset. */
unsigned stand_in_faults(void);
const char *stand_in_fault(unsigned i); /* its text; the first 32 are kept; "" past those */
bool stand_in_has_fault(const char *part_of_text);

/* Pairs of accesses to the same memory, one of them a write, that nothing orders. */
unsigned stand_in_hazards(void);

/* Metal's objects that have not been released; what autorelease pools hold included. */
long stand_in_objects_alive(void);

/* What has been recorded so far. */
struct stand_in_counts {
    uint64_t commands;   /* command buffers committed */
    uint64_t dispatches; /* of those that have run */
    uint64_t barriers;
    uint64_t buffers;          /* created, ever */
    uint64_t libraries_data;   /* made of a metallib, and */
    uint64_t libraries_source; /* of source text */
    uint64_t resident_bytes;   /* in committed residency sets, now */
    uint64_t residency_requests;
    bool is_traced; /* the kernels report each access (hazards are those of accesses) */
};
void stand_in_counts(struct stand_in_counts *counts_out);

/* Forgets faults, hazards and counts and reads the environment again. Nothing may be running. */
void stand_in_reset(void);

#endif
