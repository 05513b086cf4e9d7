/* pages.c - memory in pages: large weights, the KV pool and scratch come from here.
 *
 * Why huge pages: decoding reads all weights once per token. With pages of 4 KiB every 64 cache
 * lines need another entry of the TLB, which holds a few thousand; with 2 MiB it is every 32,768,
 * and the hardware's prefetchers, which stop at the end of a page, run through.
 *
 * The system gives a huge page only where all of its 2 MiB, aligned, lie in one mapping that asked
 * for it (MADV_HUGEPAGE) when it is first written. So a mapping is made larger by one huge page and
 * both ends are cut to the boundary; the tail that fills no huge page stays in small ones, which
 * wastes nothing. What the owner of the machine chose stands: under "never" the advice is without
 * effect; --huge-pages off also holds under "always" (MADV_NOHUGEPAGE). Why not hugetlbfs: its
 * pages must be set aside by root, and cannot be taken back for anything else.
 *
 * Why interleave: a page lies on the node of the thread that first wrote it. Workers pack weights
 * in turns, so these are spread already, by chance; the KV pool is written by whoever runs a row
 * first. Interleaving (mbind) makes the spread even, and the bandwidth of all nodes is there for
 * every operation. It is asked for by the system call itself: libnuma adds nothing to one call.
 *
 * Cost: a system call or four per mapping. Mappings are few (weights share some, see
 * weight_arena.c). Memory is not touched here: a page counts when it is first written. */
#include "pages.h"

#include "log.h"
#include "mem.h"
#include "status.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#endif

static enum radish_status decide_numa(enum radish_numa numa, const struct machine *machine,
                                      struct pages_policy *policy, struct radish_error *err) {
    if (numa == RADISH_NUMA_NONE) return RADISH_OK;
#if defined(__linux__)
    (void)err;
    if (machine->n_nodes < 2) {
        log_warn("memory", "--numa interleave changes nothing: there is one NUMA node to use");
        return RADISH_OK;
    }
    policy->is_interleaved = true;
    memcpy(policy->nodes, machine->nodes, sizeof policy->nodes);
    return RADISH_OK;
#else
    (void)machine, (void)policy;
    return error_set_field(err, RADISH_E_UNSUPPORTED, "numa",
                           "--numa interleave: this system cannot place memory on NUMA nodes");
#endif
}

enum radish_status pages_decide(enum radish_huge_pages huge, enum radish_numa numa,
                                const struct machine *machine, struct pages_policy *policy_out,
                                struct radish_error *err) {
    const bool has_huge =
        (machine->huge == MACHINE_HUGE_MADVISE || machine->huge == MACHINE_HUGE_ALWAYS) &&
        machine->huge_page_bytes;
    *policy_out = (struct pages_policy){.huge = huge};
    if (huge == RADISH_HUGE_PAGES_ON && !has_huge)
        return error_set_field(
            err, RADISH_E_UNSUPPORTED, "huge-pages",
            "--huge-pages on: the system gives no transparent huge pages (it says '%s'): allow "
            "them in /sys/kernel/mm/transparent_hugepage/enabled, or take --huge-pages auto",
            machine_huge_name(machine->huge));
    if (huge != RADISH_HUGE_PAGES_OFF && has_huge)
        policy_out->huge_bytes = machine->huge_page_bytes;
    return decide_numa(numa, machine, policy_out, err);
}

/* 0, or errno. The kernel wants one more than the number of bits. */
static int interleave(void *p, size_t bytes, const struct pages_policy *policy) {
#if defined(__linux__)
    if (syscall(SYS_mbind, p, bytes, MPOL_INTERLEAVE, policy->nodes, MACHINE_NODES_MAX + 1, 0) == 0)
        return 0;
    return errno;
#else
    (void)p, (void)bytes, (void)policy;
    return ENOSYS;
#endif
}

static void advise(void *p, size_t bytes, const struct pages_policy *policy) {
    (void)p, (void)bytes;
#if defined(MADV_HUGEPAGE)
    if (policy->huge == RADISH_HUGE_PAGES_OFF)
        madvise(p, bytes, MADV_NOHUGEPAGE);
    else if (policy->huge_bytes && bytes >= policy->huge_bytes)
        madvise(p, bytes, MADV_HUGEPAGE);
#else
    (void)policy;
#endif
}

static size_t round_up(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *map(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/*  [ head | bytes, aligned | rest ]  of a mapping that is `unit` longer: both ends go back. */
static uint8_t *map_aligned(size_t bytes, size_t unit) {
    size_t whole;
    if (!mem_add(bytes, unit, &whole)) return NULL;
    uint8_t *p = map(whole);
    if (!p) return NULL;
    const size_t head = round_up((uintptr_t)p, unit) - (uintptr_t)p;
    if (head) munmap(p, head);
    if (unit > head) munmap(p + head + bytes, unit - head);
    return p + head;
}

void *pages_map(size_t bytes, const struct pages_policy *policy) {
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = round_up(bytes, page_bytes());
    const size_t unit = policy->huge_bytes;
    void *p = unit && bytes >= unit ? map_aligned(bytes, unit) : map(bytes);
    if (!p) return NULL;
    advise(p, bytes, policy);
    const int failed = policy->is_interleaved ? interleave(p, bytes, policy) : 0;
    if (failed)
        log_warn("memory", "%zu bytes could not be interleaved over the NUMA nodes: %s", bytes,
                 strerror(failed));
    return p;
}

void pages_unmap(void *p, size_t bytes) {
    if (p) munmap(p, round_up(bytes, page_bytes()));
}

size_t pages_cut(void *p, size_t bytes, size_t n) {
    const size_t kept = round_up(n, page_bytes()), all = round_up(bytes, page_bytes());
    if (kept < all) munmap((uint8_t *)p + kept, all - kept);
    return kept < all ? kept : all;
}

enum radish_status pages_probe(const struct pages_policy *policy, struct radish_error *err) {
    if (!policy->is_interleaved) return RADISH_OK;
    const size_t bytes = page_bytes();
    void *p = map(bytes);
    if (!p) return error_nomem(err);
    const int failed = interleave(p, bytes, policy);
    munmap(p, bytes);
    if (!failed) return RADISH_OK;
    return error_set_field(err, RADISH_E_UNSUPPORTED, "numa",
                           "--numa interleave: the system refuses to place memory: %s (containers "
                           "need CAP_SYS_NICE for it; or start under numactl --interleave=all)",
                           strerror(failed));
}

void pages_describe(const struct pages_policy *policy, const struct machine *machine,
                    char *text_out, size_t text_bytes) {
    char huge[96], numa[64] = "";
    if (policy->huge == RADISH_HUGE_PAGES_OFF)
        snprintf(huge, sizeof huge, "no huge pages (--huge-pages off)");
    else if (policy->huge_bytes)
        snprintf(huge, sizeof huge, "huge pages of %zu KiB where possible (system: %s)",
                 policy->huge_bytes >> 10, machine_huge_name(machine->huge));
    else
        snprintf(huge, sizeof huge, "no huge pages (system: %s)", machine_huge_name(machine->huge));
    if (policy->is_interleaved)
        snprintf(numa, sizeof numa, ", interleaved over %u NUMA nodes", machine->n_nodes);
    else if (machine->n_nodes > 1)
        snprintf(numa, sizeof numa, ", %u NUMA nodes, not interleaved (--numa)", machine->n_nodes);
    snprintf(text_out, text_bytes, "%s%s", huge, numa);
}
