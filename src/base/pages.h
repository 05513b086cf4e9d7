/* pages.h - large memory straight from the system: huge pages where they are to be had, spread over
 * NUMA nodes where that is asked.
 *
 * Owns nothing: who maps unmaps. Threads: any; a policy is constant once made. Failure: mapping
 * gives NULL; a wish that this machine cannot grant is refused once, when the policy is made. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include "radish.h"

#include "base/machine.h"

/* How memory is asked for. All zeros: plain pages, wherever the system puts them. */
struct pages_policy {
    enum radish_huge_pages huge; /* OFF also says so where the system would give them unasked */
    size_t huge_bytes;           /* size of a huge page, to align to; 0: none are to be had */
    bool is_interleaved;
    uint64_t nodes[MACHINE_NODES_MAX / 64]; /* to interleave over; bit n: node n */
};

/* What is possible here of what is asked; nothing is tried out. E_UNSUPPORTED names the flag:
 * --huge-pages on where the system gives none, --numa interleave on other systems than Linux. One
 * node: a warning in the log, and nothing is interleaved. */
enum radish_status pages_decide(enum radish_huge_pages huge, enum radish_numa numa,
                                const struct machine *machine, struct pages_policy *policy_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;

/* Maps a page as the policy says, so that a system that forbids it is known before a model is
 * loaded (containers without CAP_SYS_NICE may not place memory): E_UNSUPPORTED names the flag. */
enum radish_status pages_probe(const struct pages_policy *policy,
                               struct radish_error *err) RADISH_CHECK_RESULT;

/* bytes > 0 zeroed bytes, aligned to the page, and to the huge page when there is one to fill. NULL
 * when out of memory. Pages are taken from the system when they are first written. */
void *pages_map(size_t bytes, const struct pages_policy *policy);

/* Gives a mapping back. NULL is fine. */
void pages_unmap(void *p, size_t bytes);

/* Gives back what lies behind the first n bytes of a mapping, in whole pages; returns what is left
 * of it, for pages_unmap(). n > 0. */
size_t pages_cut(void *p, size_t bytes, size_t n);

/* "huge pages of 2 MiB where possible (system: madvise), NUMA: interleaved over 2 nodes" */
void pages_describe(const struct pages_policy *policy, const struct machine *machine,
                    char *text_out, size_t text_bytes);

#endif
