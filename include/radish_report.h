/* radish_report.h - what an engine holds, has done and is doing: figures for those who watch it.
 *
 * Beside radish.h, which is all that a program needs to generate text. Memory, errors and threads
 * as there. Counters are since the engine was opened and never go back. */
#ifndef RADISH_REPORT_H
#define RADISH_REPORT_H

#include "radish.h"

#ifdef __cplusplus
extern "C" {
#endif

struct radish_engine_info {
    uint32_t context_tokens;
    uint64_t kv_slots_total; /* usable */
    uint64_t kv_slots_free;
    uint64_t kv_slots_evictable; /* hold prefixes that nobody uses now */
    uint32_t requests_running;   /* sequences */
    uint32_t requests_queued;
    uint32_t requests_waiting;    /* of the running: for another to compute what they share */
    uint64_t retractions_total;   /* sent back to the queue because the pool was full */
    uint64_t preemptions_total;   /* or for a higher priority */
    uint64_t prompt_tokens_total; /* since start */
    uint64_t cached_tokens_total;
    uint64_t output_tokens_total;
    uint64_t steps_total;
    uint64_t shadow_checks_total;   /* of shadow_check */
    uint64_t shadow_failures_total; /* whose logits were not the same */
    bool has_priorities;
    uint32_t n_threads;
    enum radish_precision precision;
    const char *kernels; /* "matmul=bf16_f32_matmul__avx2 ..."; borrowed until close */
};
RADISH_API void radish_engine_info(struct radish_engine *engine,
                                   struct radish_engine_info *info_out);

#define RADISH_REPORT_PREFIXES_MAX 10
#define RADISH_REPORT_MISSES_MAX   100
#define RADISH_REPORT_TOKENS_MAX   20

/* A place in the prefix tree that more than one request has used. */
struct radish_prefix {
    uint32_t n_tokens; /* from the beginning */
    uint64_t n_hits;
    uint32_t n_pins;                          /* sequences that use it now */
    uint64_t age;                             /* matches and ends of sequences since it was used */
    int32_t tokens[RADISH_REPORT_TOKENS_MAX]; /* the first of them */
};

/* Why no more of a prompt was found in the tree when its request was admitted. */
enum radish_miss {
    RADISH_MISS_NONE,    /* all but the last token was there */
    RADISH_MISS_UNSEEN,  /* nothing was computed behind it, as far as is remembered */
    RADISH_MISS_EVICTED, /* it was there, and had to go */
    RADISH_MISS_TWIN,    /* another request is computing it: what it computes is taken over */
    RADISH_MISS_OFF      /* not looked for: cache off, or logits of these tokens are wanted */
};

struct radish_miss_record {
    uint64_t request;
    double age_seconds;
    uint32_t n_prompt, n_cached; /* n_cached is also where the prompt leaves the tree */
    enum radish_miss miss;
    uint32_t n_tokens; /* of tokens: up to 8 before that position, and the one there */
    int32_t tokens[RADISH_REPORT_TOKENS_MAX];
};

/* What the cache holds and has done. Tokens are KV slots: free + evictable + pinned + private ==
 * total. */
struct radish_radix_report {
    bool is_enabled; /* false: the engine has no tree, and only the pool's numbers are set */
    const char *eviction_policy, *schedule_policy; /* static */
    uint32_t page_tokens;
    uint64_t tokens_total, tokens_free, tokens_evictable, tokens_pinned, tokens_private;
    uint32_t n_nodes, n_namespaces;
    uint64_t matches_total, match_tokens_total, hit_tokens_total; /* asked for, and found */
    uint64_t evicted_tokens_total, evicted_leaves_total, splits_total, duplicate_tokens_total;
    uint64_t age_oldest, age_newest; /* of nodes, as in struct radish_prefix */
    uint32_t n_nodes_visited;        /* ages and prefixes are of so many */
    uint32_t n_prefixes;             /* largest n_tokens * n_hits first */
    struct radish_prefix prefixes[RADISH_REPORT_PREFIXES_MAX];
    uint32_t n_misses; /* newest first; none without explains_misses */
    struct radish_miss_record misses[RADISH_REPORT_MISSES_MAX];
};

/* Asks the engine's thread, which answers between two steps: may wait for one. AGAIN: the engine is
 * stopping. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_radix_report(
    struct radish_engine *engine, struct radish_radix_report *report_out, struct radish_error *err);

#ifdef __cplusplus
}
#endif
#endif
