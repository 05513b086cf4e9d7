/* machine.h - what this process may use of the machine: processors, memory, limits of its cgroup,
 * NUMA nodes, huge pages. Read when asked, from /proc and /sys on Linux and sysctl on macOS; never
 * fails: what cannot be read has a careful default. Threads: any. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include "radish.h"

#define MACHINE_NODES_MAX 1024 /* NUMA nodes that Linux can have */

/* Whether the system gives huge pages to memory that asks for them. */
enum machine_huge {
    MACHINE_HUGE_ABSENT, /* not known here: an old kernel, another system */
    MACHINE_HUGE_NEVER,  /* somebody switched them off: the machine's owner, or for this process */
    MACHINE_HUGE_MADVISE,
    MACHINE_HUGE_ALWAYS
};

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
    uint64_t l2_bytes;               /* second-level cache of a core; 0: not known */
    uint32_t n_nodes;                /* NUMA nodes that our memory may be on, at least 1 */
    uint64_t nodes[MACHINE_NODES_MAX / 64]; /* bit n: node n is one of them; none where unknown */
    enum machine_huge huge;
    size_t huge_page_bytes; /* 2 MiB on most; 0: not known */
};

void machine_read(struct machine *machine_out);

/* CPUs of the affinity mask, one for each physical core (its first that is allowed), ascending: at
 * most n_max; returns how many. 0 where the system does not tell. */
uint32_t machine_list_cores(uint32_t *cpus_out, uint32_t n_max);

/* What this process has of memory now. Zeros where the system does not tell. */
struct machine_usage {
    uint64_t resident_bytes;
    uint64_t anonymous_bytes;      /* of these, what is no file's */
    uint64_t anonymous_huge_bytes; /* and of these, what lies in huge pages */
};

void machine_read_usage(struct machine_usage *usage_out);

/* "never", "madvise", "always", "absent"; static. */
const char *machine_huge_name(enum machine_huge huge);

/* Threads that compute by default: physical cores allowed; all CPUs where the machine shows 2 or
 * fewer; at most the quota, rounded up. */
uint32_t machine_threads_default(const struct machine *machine);

#endif
