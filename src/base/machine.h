/* machine.h - what this process may use of the machine: processors, memory, limits of its cgroup.
 * Read when asked, from /proc and /sys on Linux and sysctl on macOS; never fails: what cannot be
 * read has a careful default. Threads: any. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include "radish.h"

struct machine {
    uint32_t n_cpus_allowed;  /* logical CPUs in the process's affinity mask */
    uint32_t n_cores_allowed; /* physical cores among them */
    uint32_t n_cpus_online;   /* in the whole machine */
    double
        cpu_quota; /* CPUs' worth of time per period (cgroup v1, v2), or 0 when there is no quota */
    uint64_t memory_total_bytes;     /* of the machine, or of the cgroup where that is less */
    uint64_t memory_available_bytes; /* MemAvailable, or what the cgroup leaves where that is less
                                        (reclaimable file cache counts as available) */
    char cpu_name[96];               /* "AMD EPYC ...", or "" */
};

void machine_read(struct machine *machine_out);

/* Threads that compute by default: physical cores allowed; all CPUs where the machine shows 2 or
 * fewer; at most the quota, rounded up. */
uint32_t machine_threads_default(const struct machine *machine);

#endif
