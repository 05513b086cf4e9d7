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
    /* What does not change. */
    uint32_t context_tokens;
    uint32_t requests_running_max; /* sequences */
    uint32_t requests_queued_max;
    uint32_t chunk_tokens;       /* prefill tokens a step */
    uint32_t prefill_tokens_max; /* admitted and not yet computed */
    uint32_t page_tokens;
    uint64_t weight_bytes, scratch_bytes;
    uint64_t kv_bytes;               /* of the pool, its bookkeeping included */
    uint64_t kv_slot_bytes;          /* of one token in it */
    uint64_t memory_available_bytes; /* that this leaves of what there was at start */
    bool has_cache, has_priorities;
    uint32_t n_threads;
    enum radish_precision precision;
    const char *device;         /* "cpu"; text here is borrowed until close */
    const char *isa;            /* the best instruction set of this machine that kernels are made
                                   for: "avx512vnni" */
    const char *bit_class;      /* engines of one class give the same bits */
    const char *kv_dtype;       /* "bf16" */
    const char *quantization;   /* "q8_0", of weights quantised while loading; or NULL */
    const char *kernels;        /* "matmul=bf16_f32_matmul__avx2 ..." */
    const char *kernels_report; /* a line per operation: its kernel, and why that one */

    /* What there is now. Slots: free + evictable + pinned + private == total. */
    uint64_t kv_slots_total; /* usable */
    uint64_t kv_slots_free;
    uint64_t kv_slots_evictable; /* hold prefixes that nobody uses now */
    uint64_t kv_slots_pinned;    /* hold prefixes in use */
    uint64_t kv_slots_private;   /* of single sequences, not shared yet */
    uint32_t requests_running;   /* sequences */
    uint32_t requests_queued;
    uint64_t queued_tokens;          /* of their prompts */
    uint32_t requests_waiting;       /* of the running: for another to compute what they share */
    uint32_t requests_retracted;     /* of the queued: sent back because the pool was full */
    double new_token_ratio;          /* share of max_new_tokens that answers are expected to need */
    double output_tokens_per_second; /* when last measured, about every second; 0 when idle */
    double cache_hit_rate;           /* cached of all prompt tokens, in the last 256 steps that had
                                        any */
    double stall_seconds_max;        /* longest gap between two tokens of a stream */

    /* What was done since the engine was opened. */
    uint64_t requests_total;         /* that ended */
    uint64_t requests_aborted_total; /* of them, by their caller, a timeout or the engine's end */
    uint64_t prompt_tokens_total;    /* with KV now, computed or cached; each counts once */
    uint64_t cached_tokens_total;    /* of the prompt tokens */
    uint64_t computed_tokens_total;  /* rows of steps: prefill, again after retraction, decode */
    uint64_t output_tokens_total;
    uint64_t steps_total;
    uint64_t retractions_total; /* sent back to the queue because the pool was full */
    uint64_t retracted_input_tokens_total, retracted_output_tokens_total; /* that those had */
    uint64_t preemptions_total;                 /* sent back for a higher priority */
    uint64_t waits_total;                       /* for another to compute what is shared */
    uint64_t matches_total, match_tokens_total; /* prefixes looked for, and their tokens */
    uint64_t evicted_tokens_total, evicted_leaves_total, splits_total, duplicate_tokens_total;
    uint64_t flushes_total;
    uint64_t shadow_checks_total;   /* of shadow_check */
    uint64_t shadow_failures_total; /* whose logits were not the same */
};
/* As of the last step: does not wait for the one under way. */
RADISH_API void radish_engine_info(struct radish_engine *engine,
                                   struct radish_engine_info *info_out);

/* The same, and histograms of latencies, in Prometheus' text format; every sample is labelled with
 * model_name. Does not wait either. text_out: caller frees with radish_free(). E_NOMEM. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_metrics(
    struct radish_engine *engine, const char *model_name, char **text_out, size_t *len_out,
    struct radish_error *err);

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

/* ---- the tree ---- */

#define RADISH_TREE_TOKENS_MAX 32
#define RADISH_TREE_TOP        UINT32_MAX /* parent of what stands at the beginning of prompts */

/* A node of the prefix tree: tokens that follow on those of its parent. */
struct radish_tree_node {
    uint64_t key[2]; /* names the node as long as it lives */
    uint32_t parent; /* its index in the list, less than the node's own; or RADISH_TREE_TOP */
    uint32_t namespace_id;
    uint32_t n_tokens;       /* its own */
    uint32_t n_tokens_path;  /* with those of the way to it */
    uint64_t n_tokens_below; /* of all nodes behind it, whether they are in the list or not */
    uint32_t n_nodes_below;
    uint32_t n_pins; /* sequences that use it now */
    uint64_t n_hits;
    uint64_t age; /* matches and ends of sequences since it was used */
    uint32_t n_tokens_known;
    int32_t tokens[RADISH_TREE_TOKENS_MAX]; /* the first n_tokens_known of its own */
};

struct radish_tree {
    bool is_enabled;        /* false: the engine has no tree */
    uint32_t n_nodes_total; /* in the tree */
    uint64_t n_tokens_total;
    uint32_t n_nodes; /* in the list */
};

/* The largest nodes, by their tokens and those behind them: a node's parent always comes before it.
 * Asks the engine's thread, in parts that take less than a millisecond each; between them the tree
 * may change, and then nodes may be missing. nodes_out [n_nodes_max]. E_NOMEM; AGAIN: the engine is
 * stopping. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_tree(
    struct radish_engine *engine, struct radish_tree_node *nodes_out, uint32_t n_nodes_max,
    struct radish_tree *tree_out, struct radish_error *err);

/* ---- flush ---- */

/* Empties the prefix cache, between two steps, when no request runs or queues; until then it waits,
 * timeout_seconds at most (0: not at all). What comes in later computes everything. AGAIN: there
 * were requests until then (the message says how many), another flush is waiting, or the engine is
 * stopping; nothing has changed then. Not from a callback. */
RADISH_API RADISH_CHECK_RESULT enum radish_status radish_engine_flush(struct radish_engine *engine,
                                                                      double timeout_seconds,
                                                                      struct radish_error *err);

/* ---- KV events ---- */

enum radish_kv_event_kind {
    RADISH_KV_STORED,  /* one page joined the prefix cache */
    RADISH_KV_REMOVED, /* pages left it, in this order */
    RADISH_KV_CLEARED  /* it is empty: at the start, and after a flush */
};

/* What on_kv_events is told. A page's hash stands for all tokens from the beginning up to its end:
 * the first 8 bytes, big end first, of
 *   SHA-256(digest of the page before, whole | the page's tokens, 4 bytes each, little end first).
 * The first page has, instead of the digest before it, SHA-256(namespace_key) of its requests, and
 * nothing when that is empty. */
struct radish_kv_event {
    enum radish_kv_event_kind kind;
    const int64_t *hashes; /* [n_hashes] one of STORED, any number of REMOVED */
    uint32_t n_hashes;
    bool has_parent;       /* STORED; false: the first page */
    int64_t parent;        /* hash of the page before */
    const int32_t *tokens; /* [n_tokens] of STORED */
    uint32_t n_tokens;
    uint32_t block_tokens; /* of a page */
    const char *medium;    /* where the page lies, or NULL: with the device */
};

#ifdef __cplusplus
}
#endif
#endif
