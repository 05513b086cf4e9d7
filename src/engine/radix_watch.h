/* radix_watch.h - what people see of the cache: why prompts were not found, and a report of the
 * tree.
 *
 * Owns: the records of the last misses, kept only where the engine explains them. Threads: add and
 * fill on the engine's thread, between steps. Nothing is allocated after init. */
#ifndef ENGINE_RADIX_WATCH_H
#define ENGINE_RADIX_WATCH_H

#include "radish_report.h"

#include "sched/sched.h"

#define RADIX_WATCH_NODES_MAX (1u << 18) /* looked at for a report: some milliseconds */

struct radix_watch {
    struct radish_miss_record *records; /* [RADISH_REPORT_MISSES_MAX] a ring; NULL: not kept */
    uint64_t *admitted_ns;              /* [RADISH_REPORT_MISSES_MAX] */
    uint64_t n_added;
    bool has_tree;
};

/* keeps: whether misses are explained; has_tree: whether there is a cache. E_NOMEM. */
enum radish_status radix_watch_init(struct radix_watch *watch, bool keeps, bool has_tree,
                                    struct radish_error *err) RADISH_CHECK_RESULT;
void radix_watch_deinit(struct radix_watch *watch);

/* A sequence was just admitted for the first time: keeps and logs how much of its prompt was found,
 * and why no more. Does nothing when misses are not kept. */
void radix_watch_add(struct radix_watch *watch, const struct radish_model *model, uint64_t request,
                     const struct sched_seq *seq, uint64_t now_ns);

/* All of the report but the names of policies and the page size. */
void radix_watch_report(const struct radix_watch *watch, const struct sched *sched, uint64_t now_ns,
                        struct radish_radix_report *report_out);

#endif
